// Questions to the server, or to what a static file has recorded of it.

const KINDS = {
  f4: Float32Array,
  f8: Float64Array,
  i1: Int8Array,
  u1: Uint8Array,
  i2: Int16Array,
  u2: Uint16Array,
  i4: Int32Array,
  u4: Uint32Array,
  i8: BigInt64Array,
  u8: BigUint64Array,
};

const element = document.getElementById("recording");
export const recording = element ? JSON.parse(element.textContent) : null;

export class Refused extends Error {
  constructor(found) {
    super(found.error ?? "the server has no answer");
    this.hint = found.hint;
  }
}

function query(parameters) {
  const found = new URLSearchParams();
  for (const name of Object.keys(parameters).sort()) {
    const value = parameters[name];
    if (value !== undefined && value !== null && value !== "") found.set(name, value);
  }
  return found.toString();
}

/** The address of an answer, for pictures and downloads; null if it is not there. */
export function address(name, parameters = {}) {
  const key = `${name}?${query(parameters)}`;
  if (!recording) return `api/${key}`;
  const found = recording.answers[key];
  return found?.base64 ? `data:${found.type};base64,${found.base64}` : null;
}

async function fetched(name, parameters, signal) {
  const key = `${name}?${query(parameters)}`;
  if (recording) {
    const found = recording.answers[key];
    if (!found) throw new Refused({ error: "this is not in the file", hint: "ask for it with `ferry view`" });
    return found;
  }
  let response;
  try {
    response = await fetch(`api/${key}`, { signal });
  } catch (error) {
    if (error.name !== "AbortError") lost(true);
    throw error;
  }
  lost(response.status === 503);
  if (!response.ok) {
    const found = await response.json().catch(() => ({}));
    throw new Refused(found);
  }
  return response;
}

/** The answer to a question, in JSON. */
export async function ask(name, parameters = {}, signal = undefined) {
  const found = await fetched(name, parameters, signal);
  return recording ? found.json : found.json();
}

/** The answer to a question that has arrays: the head, and the arrays by name. */
export async function askArrays(name, parameters = {}, signal = undefined) {
  const found = await fetched(name, parameters, signal);
  const buffer = recording ? bytesOf(found.base64) : await found.arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  for (const [key, about] of Object.entries(head.arrays)) {
    const Kind = KINDS[about.dtype];
    const elements = about.shape.reduce((product, each) => product * each, 1);
    head[key] = new Kind(buffer, 4 + length + about.start, elements);
  }
  return head;
}

function bytesOf(text) {
  const found = atob(text);
  const bytes = new Uint8Array(found.length);
  for (let place = 0; place < found.length; place += 1) bytes[place] = found.charCodeAt(place);
  return bytes.buffer;
}

/** Asks a job again and again, and hands over what is new, until it has finished. */
export async function follow(name, parameters, take, signal = undefined) {
  let after = 0;
  let pause = 40;
  for (;;) {
    const found = await ask(name, { ...parameters, after: after || undefined }, signal);
    after = found.next;
    take(found);
    if (found.finished || recording) return found;
    await new Promise((done) => setTimeout(done, pause));
    pause = Math.min(pause * 1.5, 700);
    if (signal?.aborted) throw new DOMException("left", "AbortError");
  }
}

/** The only item of a job, or null if there is none; `tell` is called with how far it is. */
export async function finished(name, parameters, tell, signal = undefined) {
  let item = null;
  await follow(
    name,
    parameters,
    (answer) => {
      item = answer.items[0] ?? item;
      tell?.(answer);
    },
    signal,
  );
  return item;
}

const listeners = [];
let isLost = false;

function lost(now) {
  if (now === isLost) return;
  isLost = now;
  for (const listener of listeners) listener(now);
}

/** Calls a function when the server has gone, and when it is back. */
export function onLost(listener) {
  listeners.push(listener);
}

if (!recording) {
  const beat = () => fetched("alive", {}).catch(() => {});
  setInterval(beat, 25000);
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && beat());
}
