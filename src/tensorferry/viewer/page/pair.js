// Two tensors of two files: how much they differ, and where.

import { listing, tensorOf } from "./about.js";
import { ask, askArrays, follow, recording } from "./api.js";
import { slices } from "./axes.js";
import { choice, h, named, replace, visible } from "./dom.js";
import * as format from "./format.js";

/** Two tensors: how much they differ, and where. */
export async function showPair(here, a, b, text) {
  const [listedA, listedB] = await Promise.all([listing(a), listing(b)]);
  const match = text.match(/^(.*?)(?: (\d+))?$/s);
  let left = tensorOf(listedA, text),
    other = null;
  if (!left) {
    left = tensorOf(listedA, match[1]);
    other = Number(match[2]);
  }
  const right =
    left &&
    (other === null || Number.isNaN(other)
      ? listedB.tensors.find((tensor) => tensor.name === left.name)
      : listedB.byNumber.get(other));
  if (!left || !right) throw new Error("there are no such tensors");
  const measures = h("dl.facts");
  const pair = { a: a.number, b: b.number, left: left.number, right: right.number };
  const dense =
    [left, right].every((tensor) => tensor.kind === "dense" && tensor.dtype !== "string") &&
    left.shape.length > 0 &&
    String(left.shape) === String(right.shape);
  here.put(
    h(
      "div.stack",
      null,
      h("p", null, h("a", { href: `#/compare/${a.number}/${b.number}` }, "‹ all tensors")),
      h(
        "div.title",
        null,
        h(
          "h1",
          null,
          named(left.name.slice(0, 300)),
          right.name === left.name ? null : [h("span.soft", null, " → "), named(right.name.slice(0, 300))],
        ),
        h("span.tag", null, `${left.dtype}${right.dtype === left.dtype ? "" : ` → ${right.dtype}`}`),
        h("span.tag", null, format.shape(left.shape)),
      ),
      h("section.card", null, measures),
      dense ? cellsCard(here, a, b, left, right, pair) : valuesCard(here, a, b, left, right),
    ),
  );
  replace(measures, h("div", null, h("dt", null, "Relative change"), h("dd", null, "–")));
  let found = null;
  await follow(
    "comparison",
    { a: a.number, b: b.number },
    (answer) => {
      found ??= answer.items.find((item) => item.change && item.a === left.number && item.b === right.number)?.change;
      if (answer.copy && !dense) here.setCopy(answer.copy);
    },
    here.signal,
  );
  if (found)
    replace(
      measures,
      measuresOf(found).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
    );
}

function measuresOf(change) {
  if (change.equal) return [["Change", "none: the values are equal"]];
  const cosine = typeof change.cosine === "number" ? change.cosine.toFixed(6) : "–";
  return [
    ["Relative change", format.number(change.relative, 4)],
    ["Not finite in one", change.nonfinite ? format.count(change.nonfinite) : "–"],
    ["Largest", format.number(change.largest, 4)],
    ["Mean", format.number(change.mean, 4)],
    ["Cosine", cosine],
    [
      "Differ",
      change.elements
        ? `${format.count(change.differing)} of ${format.count(change.elements)}`
        : format.count(change.differing),
    ],
  ].filter(([, value]) => value !== "–");
}

/** The cells of two tensors of numbers, or their difference. */
function cellsCard(here, a, b, left, right, pair) {
  let mode = here.query.get("of") ?? "difference";
  const map = slices(here, {
    shape: left.shape,
    diverging: true,
    height: left.shape.length === 1 ? 90 : 460,
    label: `Cells of ${visible(left.name).slice(0, 100)}`,
    load: (parameters, signal) => {
      const [file, tensor] = mode === "a" ? [a, left] : [b, right];
      if (mode !== "difference")
        return askArrays("plane", { file: file.number, tensor: tensor.number, ...parameters }, signal);
      return askArrays("difference", { ...pair, ...parameters, rank: undefined, reduce: "largest" }, signal).then(
        (answer) => ({ ...answer, reduce: "largest change" }),
      );
    },
  });
  const sides = choice(
    "Show",
    [
      ["difference", "B − A"],
      ["a", "A"],
      ["b", "B"],
    ],
    mode,
    (next) => {
      mode = next;
      here.keep({ of: mode === "difference" ? null : mode });
      map.reload({ range: null });
    },
  );
  return h("section.card", null, h("header", null, h("h2", null, "Cells"), sides, map.tools), map.body);
}

/** What is no plane of numbers: the values of both, beside each other. */
function valuesCard(here, a, b, left, right) {
  const body = h("tbody"),
    state = h("span.caption", { role: "status" }),
    more = h("button.button", { type: "button", hidden: true, onclick: () => load() }, "Show more");
  const sides = [
    [a, left],
    [b, right],
  ].map(([file, tensor]) => ({ file, tensor, found: new Map(), size: 1 }));
  const order = (x, y) => {
    const at = x.findIndex((each, axis) => each !== y[axis]);
    return at < 0 ? 0 : x[at] - y[at];
  };
  async function load() {
    more.disabled = true;
    try {
      await Promise.all(
        sides.map(async (side) => {
          const answer = await ask(
            "values",
            { file: side.file.number, tensor: side.tensor.number, start: side.found.size || undefined },
            here.signal,
          );
          answer.cells.forEach((cell, place) => side.found.set(String(answer.places[place]), visible(cell.text)));
          side.size = answer.size;
        }),
      );
      // Entries of sparse tensors stand in order: beyond the last of one side, that side is not known yet.
      const ends = sides
        .filter((side) => side.found.size < side.size)
        .map((side) => [...side.found.keys()].pop().split(",").map(Number));
      const places = [...new Set(sides.flatMap((side) => [...side.found.keys()]))]
        .map((text) => (text ? text.split(",").map(Number) : []))
        .sort(order);
      const known = places.filter((place) => ends.every((end) => order(place, end) <= 0));
      replace(
        body,
        known.map((place) => {
          const [before, after] = sides.map((side) => side.found.get(String(place)));
          return h(
            "tr",
            null,
            h("td.num.soft", null, left.shape.length ? `[${place.join(", ")}]` : ""),
            [before, after].map((text) =>
              h(
                before === after ? "td" : "td.differs",
                { style: { "white-space": "normal", width: "50%" } },
                h("bdi.mono", null, text ?? "–"),
              ),
            ),
          );
        }),
      );
      more.hidden = !ends.length || Boolean(recording);
      state.textContent = ends.length
        ? `${format.count(known.length)} of ${format.count(Math.max(...sides.map((side) => side.size)))}`
        : format.plural(known.length, "value");
    } catch (error) {
      if (error.name !== "AbortError") state.textContent = visible(error.message);
    }
    more.disabled = false;
  }
  load();
  return h(
    "section.card",
    null,
    h("header", null, h("h2", null, "Values"), state, more),
    h(
      "div.wide",
      { style: { "max-height": "560px", "overflow-y": "auto" } },
      h(
        "table",
        null,
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            ["", "A", "B"].map((name) => h("th", null, name)),
          ),
        ),
        body,
      ),
    ),
  );
}
