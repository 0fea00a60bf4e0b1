// A heat map of any two axes of a tensor, with a slider for each of the others.

import { recording } from "./api.js";
import { h, later, replace } from "./dom.js";
import * as format from "./format.js";
import { heatmap } from "./heatmap.js";

/**
 * The heat map and its controls; axes, indices and window are kept in the address.
 *
 * load(parameters, signal) asks for a window; `shape` is that of the tensor, with one axis or more.
 */
export function slices(here, { shape, label, range, diverging, height, load }) {
  const rank = shape.length,
    given = here.query;
  let axes = rank > 1 ? [rank - 2, rank - 1] : [0, 0];
  const asked = (given.get("axes") ?? "").split(",").map(Number);
  if (asked.length === 2 && asked[0] !== asked[1] && asked.every((axis) => axis >= 0 && axis < rank)) axes = asked;
  const at = Object.fromEntries(
    (given.get("at") ?? "")
      .split(",")
      .filter(Boolean)
      .map((part) => part.split(":").map(Number)),
  );
  const holder = h("div"),
    controls = h("div.axes"),
    tools = h("div");
  let map = null;
  const isUsual = () => rank < 2 || (axes[0] === rank - 2 && axes[1] === rank - 1);
  const where = () =>
    Object.entries(at)
      .filter(([axis, index]) => index && !axes.includes(Number(axis)))
      .map((pair) => pair.join(":"))
      .join(",");
  const sizes = () => (rank > 1 ? [shape[axes[0]], shape[axes[1]]] : [1, shape[0]]);
  const isWhole = (window) => {
    const size = sizes();
    return window[0] === 0 && window[1] === size[0] && window[2] === 0 && window[3] === size[1];
  };

  function make(window) {
    map = heatmap({
      size: sizes(),
      range,
      diverging,
      window,
      label,
      height,
      load: (wanted, most, signal) =>
        load(
          {
            rows: isUsual() ? undefined : axes[0],
            columns: isUsual() ? undefined : axes[1],
            rank: rank > 2 ? rank : undefined,
            at: where() || undefined,
            window: isWhole(wanted) ? undefined : wanted.join(","),
            most: isWhole(wanted) && recording ? undefined : most.join(","),
          },
          signal,
        ),
      changed: (wanted, answer) => {
        here.setCopy(answer.copy);
        here.keep({
          window: isWhole(wanted) ? null : wanted.join(","),
          axes: isUsual() ? null : axes.join(","),
          at: where() || null,
        });
      },
    });
    replace(holder, map.box);
    replace(tools, map.controls);
  }

  function picker(which, text) {
    return h(
      "label",
      null,
      text,
      h(
        "select",
        {
          "aria-label": `Axis that runs ${text.toLowerCase()}`,
          onchange: (event) => {
            const chosen = Number(event.target.value),
              other = axes[1 - which];
            axes[which] = chosen;
            if (other === chosen) axes[1 - which] = [...shape.keys()].filter((axis) => axis !== chosen).pop();
            fill();
            make();
          },
        },
        shape.map((size, axis) =>
          h("option", { value: axis, selected: axis === axes[which] }, `axis ${axis} (${format.count(size)})`),
        ),
      ),
    );
  }

  function slider(size, axis) {
    if (axes.includes(axis) || size < 2) return null;
    const output = h("output", null, `${at[axis] ?? 0} / ${size - 1}`),
      reload = later(80, () => map.reload(range ? {} : { range: null }));
    return h(
      "label",
      null,
      `axis ${axis}`,
      h("input", {
        type: "range",
        min: 0,
        max: size - 1,
        value: at[axis] ?? 0,
        "aria-label": `Index of axis ${axis}`,
        oninput: (event) => {
          at[axis] = Number(event.target.value);
          output.textContent = `${at[axis]} / ${size - 1}`;
          reload();
        },
      }),
      output,
    );
  }

  const fill = () =>
    replace(controls, h("div.bar", { style: { margin: 0 } }, picker(0, "Down"), picker(1, "Right")), shape.map(slider));
  const isChoosable = rank > 2 && !recording;
  if (isChoosable) fill();
  const window = (given.get("window") ?? "").split(",").map(Number);
  const isInside = (start, end, size) => start >= 0 && start < end && end <= size;
  make(
    window.length === 4 && sizes().every((size, axis) => isInside(window[2 * axis], window[2 * axis + 1], size))
      ? window
      : undefined,
  );
  return {
    tools,
    reload: (next) => map.reload(next),
    body: [
      isChoosable ? controls : null,
      rank > 2 && recording
        ? h("p.caption", { style: { "margin-bottom": "8px" } }, "The last two axes; all others at 0.")
        : null,
      holder,
    ],
    /** Zooms to a place of the tensor. */
    show(place) {
      for (const axis of place.keys()) if (!axes.includes(axis)) at[axis] = place[axis];
      if (isChoosable) fill();
      map.reload();
      map.show(place[axes[0]], place[axes[1]]);
    },
  };
}
