// Elements. Whatever comes from a file becomes a text node or an attribute's value, never markup.

/** An element: h("button.quiet", {onclick: f}, "text", child). */
export function h(selector, attributes, ...children) {
  const [tag, ...classes] = selector.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length) element.className = classes.join(" ");
  fill(element, attributes, children);
  return element;
}

/** The same for drawings. */
export function s(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(element, attributes, children);
  return element;
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, part] of Object.entries(value)) element.style.setProperty(key, part);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
}

/** Adds children: elements, texts, and lists of them. */
export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/** Puts children in the place of all others. */
export function replace(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

/** A name out of a file: it keeps its own direction of writing, and says nothing about ours. */
export function named(text, attributes) {
  return h(
    "bdi.name",
    { title: visible(text.length > 400 ? `${text.slice(0, 400)}…` : text), ...attributes },
    visible(text),
  );
}

/** Text with signs in the place of characters that cannot be seen, or that turn the direction. */
export function visible(text) {
  return String(text).replace(
    /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Calls a function when an element gets another size, and once at the start. */
export function resized(element, action) {
  const observer = new ResizeObserver(() => {
    if (!element.isConnected) return;
    cancelAnimationFrame(element.pendingFrame ?? 0);
    element.pendingFrame = requestAnimationFrame(() => action());
  });
  observer.observe(element);
  return () => observer.disconnect();
}

/** A number from 0 on out of an address, which may say anything. */
export function whole(text) {
  return Math.min(Math.max(Math.floor(Number(text)), 0) || 0, Number.MAX_SAFE_INTEGER);
}

/** Calls a function a little later, once for many calls. */
export function later(milliseconds, action) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), milliseconds);
  };
}

/** A few buttons of which one is chosen. */
export function choice(label, options, chosen, change) {
  const group = h("div.choice", { role: "radiogroup", "aria-label": label });
  const buttons = options.map(([value, text]) =>
    h(
      "button",
      {
        type: "button",
        role: "radio",
        "aria-checked": value === chosen ? "true" : "false",
        onclick: () => {
          buttons.forEach((button, place) =>
            button.setAttribute("aria-checked", options[place][0] === value ? "true" : "false"),
          );
          change(value);
        },
      },
      text,
    ),
  );
  return append(group, buttons);
}

/** A line that says that something is on its way. */
export function waiting(text = "Loading") {
  return h("p.waiting", { role: "status" }, text);
}

/** What went wrong, and what to do. */
export function failure(error) {
  return h(
    "div.failure",
    { role: "alert" },
    h("strong", null, "This cannot be shown."),
    h("p", null, visible(error.message ?? error.error ?? error)),
    error.hint ? h("p.hint", null, visible(error.hint)) : null,
  );
}
