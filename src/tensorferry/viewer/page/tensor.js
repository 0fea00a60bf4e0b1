// One tensor: how its values are spread, and a picture of them.

import { link, step } from "./about.js";
import { address, ask, askArrays, follow, recording } from "./api.js";
import { slices } from "./axes.js";
import { histogram, line } from "./charts.js";
import { append, choice, failure, h, later, named, replace, visible, waiting, whole } from "./dom.js";
import * as format from "./format.js";
import { rangeBy, rangeOf } from "./heatmap.js";

/** The page of a tensor. */
export async function tensorPage(here, file, tensor, content, listed) {
  append(content, [title(here, file, tensor, listed), waiting("Reading the values")]);
  const found = await ask("tensor", { file: file.number, tensor: tensor.number }, here.signal);
  if (found.name !== tensor.name) throw new Error("the file has changed since: load the page anew");
  here.setCopy(found.copy);
  content.lastChild.remove();
  if (found.unreadable)
    return append(content, [
      h("div.note.bad", { role: "alert" }, `This tensor cannot be read: ${visible(found.unreadable)}`),
    ]);
  const look = picture(here, file, found);
  if (found.arrangement.look === "scalar") return append(content, [look.card]);
  return append(content, [h("div.tensor", null, look.card, distributionCard(here, file, found, look.show))]);
}

function title(here, file, tensor, listed) {
  const place = listed.tensors.indexOf(tensor);
  const neighbour = (offset, text, label) => {
    const other = listed.tensors[place + offset];
    return h(
      "a.button",
      {
        "aria-label": label,
        title: label,
        href: other ? link(file.number, "tensor", step(other)) : null,
        "aria-disabled": other ? null : "true",
      },
      text,
    );
  };
  const npy =
    tensor.kind === "dense" && !tensor.unreadable && !recording
      ? h(
          "a.button",
          { href: address("download", { file: file.number, tensor: tensor.number }), download: "" },
          "Download npy",
        )
      : null;
  return h(
    "div.title",
    null,
    h("h1", null, named(tensor.name.slice(0, 400) || "(no name)"), tensor.cut ? "…" : ""),
    h(
      "div",
      null,
      h("span.tag", null, visible(tensor.dtype)),
      " ",
      tensor.quantized ? [h("span.tag", null, `stored as ${tensor.quantized}`), " "] : null,
      h("span.tag", null, format.shape(tensor.shape)),
      " ",
      h("span.tag", null, format.size(tensor.nbytes)),
      tensor.kind === "dense" || tensor.kind === "string" ? null : [" ", h("span.tag", null, tensor.kind)],
    ),
    h("div.actions", null, neighbour(-1, "‹", "Previous tensor"), neighbour(1, "›", "Next tensor"), npy),
  );
}

// How the values are spread

function distributionCard(here, file, found, show) {
  const body = h("div");
  const card = h(
    "section.card",
    null,
    h("header", null, h("h2", null, found.kind === "string" ? "Lengths of strings" : "Distribution")),
    body,
  );
  const draw = (spread, progress) => replace(body, distribution(spread, { show, exact: progress }));
  const first = found.distribution;
  const partial = first.looked < first.total;
  if (!partial) {
    draw(first, null);
    return card;
  }
  const state = h("p.caption", { role: "status" });
  const button = h("button.button", { type: "button", onclick: () => run() }, "Look at all values");
  const box = h("div.bar", { style: { "margin-top": "12px" } }, state, recording ? null : button);
  state.textContent = `A sample: ${format.count(first.looked)} of ${format.count(first.total)} values.`;
  draw(first, box);
  async function run() {
    button.disabled = true;
    try {
      const end = await follow(
        "distribution",
        { file: file.number, tensor: found.number },
        (answer) => {
          if (answer.total) state.textContent = `${format.percent(answer.done, answer.total)} of all values`;
          if (answer.items.length) {
            state.textContent = "All values were looked at.";
            button.remove();
            draw(answer.items[0], box);
          }
        },
        here.signal,
      );
      if (end.error) state.textContent = visible(end.error);
    } catch (error) {
      if (error.name !== "AbortError") state.textContent = visible(error.message);
    }
  }
  return card;
}

/** A histogram with its numbers. */
export function distribution(found, { show, exact } = {}) {
  const summary = found.summary;
  const strings = summary.distinct !== null;
  const parts = [];
  if (found.histogram) {
    const drawing = histogram(found, { across: "linear", up: "linear" });
    parts.push(
      h(
        "div.bar",
        null,
        found.magnitudes && !strings
          ? h(
              "span.axis",
              null,
              "values",
              choice(
                "Values",
                [
                  ["linear", "linear"],
                  ["log", "log"],
                ],
                "linear",
                (value) => drawing.set({ across: value }),
              ),
            )
          : null,
        h(
          "span.axis",
          null,
          "counts",
          choice(
            "Counts",
            [
              ["linear", "linear"],
              ["log", "log"],
            ],
            "linear",
            (value) => drawing.set({ up: value }),
          ),
        ),
      ),
      drawing.box,
    );
  } else parts.push(h("p.caption", null, "There are no finite numbers."));
  const pairs = [
    ["Values", format.count(summary.count)],
    [strings ? "Shortest" : "Min", format.number(summary.minimum)],
    [strings ? "Longest" : "Max", format.number(summary.maximum)],
    ["Mean", format.number(summary.mean)],
    ["Std", format.number(summary.deviation)],
    [
      strings ? "Empty" : "Zeros",
      summary.zeros ? `${format.count(summary.zeros)} (${format.percent(summary.zeros, summary.count)})` : "0",
    ],
    ...(strings
      ? [["Distinct", `${summary.estimated ? "~" : ""}${format.count(summary.distinct)}`]]
      : [
          ["NaN", format.count(summary.nan), summary.nan],
          ["Infinite", format.count(summary.infinite), summary.infinite],
        ]),
  ];
  const place = (name, at) =>
    at &&
    h(
      "div",
      null,
      h("dt", null, name),
      h(
        "dd",
        null,
        show ? h("button", { type: "button", onclick: () => show(at) }, `[${at.join(", ")}]`) : `[${at.join(", ")}]`,
      ),
    );
  parts.push(
    h(
      "dl.pairs",
      null,
      pairs.map(([name, value, bad]) => h("div", null, h("dt", null, name), h(bad ? "dd.bad" : "dd", null, value))),
      place("First NaN", found.first_nan),
      place("First infinite", found.first_infinite),
    ),
  );
  const quantiles = Object.entries(summary.quantiles);
  if (quantiles.length)
    parts.push(
      h(
        "dl.pairs",
        null,
        quantiles.map(([name, value]) =>
          h(
            "div",
            null,
            h("dt", null, `${Number((Number(name) * 100).toPrecision(3))}%`),
            h("dd", null, format.number(value, 4)),
          ),
        ),
      ),
    );
  if (summary.complex) parts.push(h("p.caption", null, "The numbers are complex: all this is about their magnitudes."));
  if (summary.approximate)
    parts.push(h("p.caption", { style: { "margin-top": "8px" } }, "Quantiles are estimated from a sample."));
  if (exact) parts.push(exact);
  return parts;
}

// Pictures

function picture(here, file, found) {
  const arranged = found.arrangement,
    base = { file: file.number, tensor: found.number };
  const makers = {
    matrix: () => matrix(here, found, base),
    line: () => ({ card: lineCard(here, found, base) }),
    image: () => image(here, found, base),
    tiles: () => tiles(here, found, base),
    empty: () => ({ card: simple("Values", h("p.caption", null, "There are none.")) }),
  };
  const made = (makers[arranged.look] ?? (() => ({ card: values(here, found, base) })))();
  return { show: null, ...made };
}

function simple(name, ...children) {
  return h("section.card", null, h("header", null, h("h2", null, name)), children);
}

function lineCard(here, found, base) {
  const total = found.shape[0];
  const load = (window) =>
    askArrays(
      "line",
      { ...base, window: window[0] === 0 && window[1] === total ? undefined : window.join(",") },
      here.signal,
    );
  return simple(
    "Values",
    line(load, total),
    h("p.caption", { style: { "margin-top": "8px" } }, "Zoom with the wheel, double-click to see all."),
  );
}

/** A heat map of any two axes. */
function matrix(here, found, base) {
  let reduce = here.query.get("cell") === "largest" ? "largest" : "mean";
  const map = slices(here, {
    ...rangeBy(found.distribution),
    shape: found.shape,
    label: `Heat map of ${visible(found.name).slice(0, 100)}, ${format.shape(found.shape)}`,
    load: async (parameters, signal) => {
      const answer = await askArrays(
        "plane",
        { ...base, ...parameters, reduce: reduce === "mean" ? undefined : reduce },
        signal,
      );
      answer.reduce = reduce === "mean" ? "mean" : "value farthest from zero";
      return answer;
    },
  });
  const cells = recording
    ? null
    : choice(
        "A cell is",
        [
          ["mean", "mean"],
          ["largest", "extreme"],
        ],
        reduce,
        (value) => {
          reduce = value;
          here.keep({ cell: reduce === "mean" ? null : reduce });
          map.reload();
        },
      );
  const card = h("section.card", null, h("header", null, h("h2", null, "Values"), cells, map.tools), map.body);
  return {
    card,
    show: (place) => {
      map.show(place);
      card.scrollIntoView({ block: "nearest" });
    },
  };
}

/** A canvas of pixels, enlarged in whole steps. */
function pixels(width, height, paint, label, room = 520) {
  const canvas = h("canvas", { width, height, role: "img", "aria-label": label });
  const scale = Math.max(1, Math.min(16, Math.floor(room / Math.max(width, height))));
  canvas.style.width = `min(100%, ${width * scale}px)`;
  canvas.style.height = "auto";
  canvas.style.imageRendering = "pixelated";
  const context = canvas.getContext("2d"),
    made = context.createImageData(width, height);
  paint(made.data);
  context.putImageData(made, 0, 0);
  return canvas;
}

/** Numbers to 0..255: bytes as they are, all others between the least and the largest. */
function tone(values, kind) {
  if (kind === "u1" && values.some((value) => value > 1)) return (value) => value;
  const [low, high] = rangeOf(values, false);
  const scale = 255 / (high - low || 1);
  return (value) => (Number(value) - low) * scale;
}

function image(here, found, base) {
  const holder = h("div", null, waiting());
  const batch = found.shape.length === 4 ? found.shape[0] : 1;
  let index = Math.min(whole(here.query.get("image")), batch - 1);
  const load = async () => {
    try {
      const answer = await askArrays("picture", { ...base, at: index ? `0:${index}` : undefined }, here.signal);
      const [height, width, channels] = answer.arrays.values.shape,
        as = tone(answer.values, answer.arrays.values.dtype);
      replace(
        holder,
        pixels(
          width,
          height,
          (data) => {
            for (let place = 0; place < width * height; place += 1) {
              const start = place * channels;
              for (let part = 0; part < 3; part += 1)
                data[place * 4 + part] = as(answer.values[start + (channels >= 3 ? part : 0)]);
              data[place * 4 + 3] = channels === 4 ? as(answer.values[start + 3]) : 255;
            }
          },
          `Image of ${format.shape(found.shape)}`,
        ),
      );
      here.keep({ image: index || null });
    } catch (error) {
      if (error.name !== "AbortError") replace(holder, failure(error));
    }
  };
  load();
  const output = h("output", null, `${index} / ${batch - 1}`);
  const reload = later(60, load);
  const slider =
    batch > 1 && !recording
      ? h(
          "div.axes",
          null,
          h(
            "label",
            null,
            "image",
            h("input", {
              type: "range",
              min: 0,
              max: batch - 1,
              value: index,
              "aria-label": "Number of the image",
              oninput: (event) => {
                index = Number(event.target.value);
                output.textContent = `${index} / ${batch - 1}`;
                reload();
              },
            }),
            output,
          ),
        )
      : null;
  return switched(here, found, base, "Image", h("div", null, slider, holder));
}

/** A picture, with a heat map as the other way to look at it. */
function switched(here, found, base, name, first) {
  const holder = h("div", null, first);
  let other = null;
  const card = h(
    "section.card",
    null,
    h(
      "header",
      null,
      h("h2", null, name),
      recording
        ? null
        : choice(
            "Look",
            [
              ["picture", name.toLowerCase()],
              ["heat", "heat map"],
            ],
            "picture",
            (value) => {
              if (value === "picture") replace(holder, first);
              else {
                other ??= matrix(here, found, base);
                other.card.className = "";
                replace(holder, other.card);
              }
            },
          ),
    ),
    holder,
  );
  return { card };
}

function tiles(here, found, base) {
  const { inputs, outputs } = found.arrangement;
  const [reads, writes] = [found.shape[inputs], found.shape[outputs]];
  const holder = h("div", null, waiting());
  const most = [24, reads === 3 ? 3 : 16],
    limits = [writes, reads],
    first = [0, 0];
  const state = h("span.caption");
  const load = async () => {
    try {
      const answer = await askArrays(
        "filters",
        { ...base, first: first[0] || first[1] ? first.join(",") : undefined, most: most.join(",") },
        here.signal,
      );
      replace(holder, draw(answer));
      const end = [Math.min(first[0] + most[0], writes), Math.min(first[1] + most[1], reads)];
      state.textContent = `Outputs ${first[0]} to ${end[0] - 1} of ${writes}${reads === 3 ? ", in the colours they read" : `; inputs ${first[1]} to ${end[1] - 1} of ${reads}`}`;
      for (const axis of [0, 1]) {
        buttons[axis][0].disabled = first[axis] <= 0;
        buttons[axis][1].disabled = end[axis] >= limits[axis];
      }
    } catch (error) {
      if (error.name !== "AbortError") replace(holder, failure(error));
    }
  };
  function draw(answer) {
    const [outs, ins, high, wide] = answer.arrays.values.shape,
      values = answer.values;
    const colour = reads === 3 && ins === 3;
    const across = colour ? Math.min(outs, 8) : ins,
      down = colour ? Math.ceil(outs / across) : outs;
    const width = across * (wide + 1) - 1,
      height = down * (high + 1) - 1;
    const [low, top] = rangeOf(values, true);
    return pixels(
      width,
      height,
      (data) => {
        const put = (x, y, rgb) => {
          const at = (y * width + x) * 4;
          for (let part = 0; part < 3; part += 1) data[at + part] = rgb[part];
          data[at + 3] = 255;
        };
        const unit = (out, input, y, x) =>
          (values[((out * ins + input) * high + y) * wide + x] - low) / (top - low || 1);
        const ground = [
          [47, 102, 201],
          [244, 244, 241],
          [200, 84, 43],
        ];
        const tint = (part) => {
          const side = part < 0.5 ? 0 : 2,
            weight = Math.abs(part - 0.5) * 2;
          return [0, 1, 2].map((each) => ground[1][each] + (ground[side][each] - ground[1][each]) * weight);
        };
        for (let out = 0; out < outs; out += 1)
          for (let input = 0; input < (colour ? 1 : ins); input += 1)
            for (let y = 0; y < high; y += 1)
              for (let x = 0; x < wide; x += 1) {
                const left = (colour ? out % across : input) * (wide + 1) + x,
                  upper = (colour ? Math.floor(out / across) : out) * (high + 1) + y;
                put(
                  left,
                  upper,
                  colour ? [0, 1, 2].map((part) => 255 * unit(out, part, y, x)) : tint(unit(out, input, y, x)),
                );
              }
      },
      `Filters of a convolution, ${format.shape(found.shape)}`,
      560,
    );
  }
  const buttons = [0, 1].map((axis) =>
    [-1, 1].map((way) => {
      const name = axis ? "inputs" : "outputs";
      return h(
        "button.button",
        {
          type: "button",
          hidden: limits[axis] <= most[axis],
          onclick: () => {
            first[axis] += way * most[axis];
            load();
          },
        },
        way < 0 ? `‹ ${name}` : `${name} ›`,
      );
    }),
  );
  load();
  return switched(
    here,
    found,
    base,
    "Filters",
    h(
      "div",
      null,
      holder,
      h("p", { style: { "margin-top": "8px" } }, state),
      recording ? null : h("div.bar", { style: { "margin-top": "10px" } }, buttons),
    ),
  );
}

const NOUNS = { string: "string", sparse: "entry", ragged: "row", list: "array" };

/** Strings, sparse, ragged and single values: as what they are. */
function values(here, found, base) {
  const names = { string: "Strings", sparse: "Entries", ragged: "Rows", list: "Arrays", scalar: "Value" };
  const body = h("tbody"),
    more = h("button.button", { type: "button", hidden: true, onclick: () => load() }, "Show more"),
    state = h("span.caption", { role: "status" });
  let start = 0;
  const load = async () => {
    more.disabled = true;
    try {
      const answer = await ask("values", { ...base, start: start || undefined }, here.signal);
      append(
        body,
        answer.cells.map((cell, place) =>
          h(
            "tr",
            null,
            answer.places[place].length ? h("td.num.soft", null, `[${answer.places[place].join(", ")}]`) : null,
            h(
              "td",
              { style: { "white-space": "normal", width: "100%" } },
              h("bdi.mono", null, visible(cell.text), cell.more && cell.kind === "text" ? "…" : ""),
            ),
          ),
        ),
      );
      start += answer.cells.length;
      more.hidden = start >= answer.size || Boolean(recording);
      state.textContent =
        start < answer.size
          ? `${format.count(start)} of ${format.count(answer.size)}`
          : found.shape.length
            ? format.plural(answer.size, NOUNS[found.arrangement.look] ?? "value")
            : "";
    } catch (error) {
      if (error.name !== "AbortError") replace(state, visible(error.message));
    }
    more.disabled = false;
  };
  load();
  const box = h(
    "div",
    { style: { "max-height": "560px", "overflow-y": "auto", margin: "0 -18px 12px" } },
    h("table", null, body),
  );
  return simple(names[found.arrangement.look] ?? "Values", box, h("div.bar", { style: { margin: 0 } }, state, more));
}
