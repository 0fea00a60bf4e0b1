// A heat map that can be zoomed down to its numbers.

import { chart, colours, legend, palette } from "./charts.js";
import { h, later } from "./dom.js";
import * as format from "./format.js";

/**
 * A window of two axes as colours.
 *
 * load(window, most) gives {values, window, steps, whole, shape, arrays}; `size` is the number of rows and columns.
 */
export function heatmap({ size, load, range, diverging, height = 440, changed, label, window: start }) {
  const whole = [0, size[0], 0, size[1]];
  let window = start ?? [...whole];
  let found = null,
    picture = null,
    scale = range ?? null,
    failed = "";
  let width = 600;
  const colourBar = legend();
  const drawing = chart(height, label ?? "Heat map", (context, w) => {
    width = w;
    const c = colours();
    context.fillStyle = c.faint;
    context.fillRect(0, 0, w, height);
    if (failed) {
      context.fillStyle = c.bad;
      context.fillText(failed, 12, 22);
      return;
    }
    if (!found) return;
    if (picture?.shades !== palette(kind())) picture = paint();
    context.imageSmoothingEnabled = false;
    const [r0, , c0] = found.window;
    const x = ((c0 - window[2]) / (window[3] - window[2])) * w,
      y = ((r0 - window[0]) / (window[1] - window[0])) * height;
    const shownColumns = found.columns * found.steps[1],
      shownRows = found.rows * found.steps[0];
    context.drawImage(
      picture,
      x,
      y,
      (shownColumns / (window[3] - window[2])) * w,
      (shownRows / (window[1] - window[0])) * height,
    );
    numbers(context, w);
  });
  drawing.canvas.tabIndex = 0;
  drawing.canvas.classList.add("grab");

  const kind = () => (diverging ? "diverging" : "sequential");

  function paint() {
    const shades = palette(kind()),
      c = colours();
    if (!scale) scale = rangeOf(found.values, diverging);
    const [low, high] = scale,
      span = high - low || 1;
    const image = new ImageData(found.columns, found.rows),
      pixels = new Uint32Array(image.data.buffer);
    const odd = parseInt(c.bad.slice(1), 16),
      nan = (255 << 24) | ((odd & 255) << 16) | (odd & 0xff00) | (odd >> 16);
    let odds = false;
    for (let place = 0; place < pixels.length; place += 1) {
      const value = Number(found.values[place]);
      if (Number.isNaN(value)) {
        pixels[place] = nan;
        odds = true;
      } else pixels[place] = shades[Math.max(0, Math.min(255, Math.round(((value - low) / span) * 255)))];
    }
    const canvas = document.createElement("canvas");
    canvas.width = found.columns;
    canvas.height = found.rows;
    canvas.getContext("2d").putImageData(image, 0, 0);
    const cells = found.steps[0] * found.steps[1];
    const about =
      cells === 1
        ? "each cell is one value"
        : found.whole
          ? `a cell is the ${found.reduce ?? "mean"} of ${found.steps.join(" × ")} values`
          : `every ${found.steps[0]}th row and ${found.steps[1]}th column`;
    colourBar.set(scale, kind(), odds ? `${about}, NaN is red` : about);
    canvas.shades = shades;
    return canvas;
  }

  function numbers(context, w) {
    const across = w / (window[3] - window[2]),
      down = height / (window[1] - window[0]);
    if (found.steps[0] !== 1 || found.steps[1] !== 1 || across < 42 || down < 15) return;
    const digits = across < 58 ? 2 : across < 70 ? 3 : 4;
    const [r0, , c0] = found.window,
      shades = palette(kind());
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.font = "11px ui-monospace, monospace";
    for (let row = Math.max(Math.floor(window[0]), r0); row < Math.min(window[1], r0 + found.rows); row += 1) {
      for (
        let column = Math.max(Math.floor(window[2]), c0);
        column < Math.min(window[3], c0 + found.columns);
        column += 1
      ) {
        const x = (column - window[2] + 0.5) * across,
          y = (row - window[0] + 0.5) * down;
        if (x < across * 0.45 || x > w - across * 0.45 || y < 8 || y > height - 8) continue; // the cell is cut
        const value = found.values[(row - r0) * found.columns + column - c0];
        const place = Math.max(
          0,
          Math.min(255, Math.round(((Number(value) - scale[0]) / (scale[1] - scale[0] || 1)) * 255)),
        );
        const tone = shades[Number.isNaN(place) ? 0 : place];
        const light = (tone & 255) * 0.3 + ((tone >> 8) & 255) * 0.59 + ((tone >> 16) & 255) * 0.11;
        context.fillStyle = light > 140 ? "#14181f" : "#ffffff";
        context.fillText(format.number(typeof value === "bigint" ? value : Number(value), digits), x, y);
      }
    }
  }

  let controller = null;
  const fetchNow = async () => {
    controller?.abort();
    controller = new AbortController();
    const asked = window.map((edge, place) => (place % 2 ? Math.ceil(edge) : Math.floor(edge)));
    try {
      const answer = await load(
        asked,
        [Math.min(height, 512), Math.min(Math.max(Math.round(width), 120), 768)],
        controller.signal,
      );
      [answer.rows, answer.columns] = answer.arrays.values.shape;
      found = answer;
      failed = "";
      picture = null;
      drawing.redraw();
      changed?.(asked, answer);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!found) {
        failed = error.message;
        drawing.redraw();
      }
    }
  };
  const soon = later(90, fetchNow);

  function move(next) {
    const least = [Math.min(4, size[0]), Math.min(4, size[1])];
    for (const axis of [0, 1]) {
      const extent = Math.max(Math.min(next[2 * axis + 1] - next[2 * axis], size[axis]), least[axis]);
      const first = Math.max(0, Math.min(next[2 * axis], size[axis] - extent));
      next[2 * axis] = first;
      next[2 * axis + 1] = first + extent;
    }
    window = next;
    drawing.redraw();
    soon();
  }

  function zoom(factor, x = 0.5, y = 0.5) {
    const rows = (window[1] - window[0]) * factor,
      columns = (window[3] - window[2]) * factor;
    const top = window[0] + (window[1] - window[0]) * y - rows * y,
      left = window[2] + (window[3] - window[2]) * x - columns * x;
    move([top, top + rows, left, left + columns]);
  }

  const pan = (down, across) => {
    const rows = (window[1] - window[0]) * down,
      columns = (window[3] - window[2]) * across;
    move([window[0] + rows, window[1] + rows, window[2] + columns, window[3] + columns]);
  };

  drawing.canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * 0.0022))), event.offsetX / width, event.offsetY / height);
    },
    { passive: false },
  );
  let dragged = null;
  drawing.canvas.addEventListener("pointerdown", (event) => {
    dragged = [event.offsetX, event.offsetY];
    drawing.canvas.setPointerCapture(event.pointerId);
  });
  drawing.canvas.addEventListener("pointerup", () => {
    dragged = null;
  });
  drawing.canvas.addEventListener("pointermove", (event) => {
    if (dragged) {
      const across = (dragged[0] - event.offsetX) / width,
        down = (dragged[1] - event.offsetY) / height;
      dragged = [event.offsetX, event.offsetY];
      pan(down, across);
    }
    hover(event);
  });
  drawing.canvas.addEventListener("pointerleave", () => drawing.show(0, 0, ""));
  drawing.canvas.addEventListener("dblclick", () => move([...whole]));
  drawing.canvas.addEventListener("keydown", (event) => {
    const actions = {
      "+": () => zoom(0.6),
      "=": () => zoom(0.6),
      "-": () => zoom(1.6),
      0: () => move([...whole]),
      ArrowUp: () => pan(-0.25, 0),
      ArrowDown: () => pan(0.25, 0),
      ArrowLeft: () => pan(0, -0.25),
      ArrowRight: () => pan(0, 0.25),
    };
    const action = actions[event.key];
    if (action && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      action();
    }
  });

  function hover(event) {
    if (!found) return;
    const row = Math.floor(window[0] + (event.offsetY / height) * (window[1] - window[0]));
    const column = Math.floor(window[2] + (event.offsetX / width) * (window[3] - window[2]));
    const y = Math.floor((row - found.window[0]) / found.steps[0]),
      x = Math.floor((column - found.window[2]) / found.steps[1]);
    if (y < 0 || x < 0 || y >= found.rows || x >= found.columns) return drawing.show(0, 0, "");
    const value = found.values[y * found.columns + x];
    const text =
      found.steps[0] === 1 && found.steps[1] === 1
        ? format.exact(value, found.arrays.values.dtype)
        : format.number(Number(value));
    return drawing.show(event.offsetX, event.offsetY, `[${row}, ${column}]  ${text}`);
  }

  const controls = h(
    "div.tools",
    null,
    h("button.icon", { type: "button", title: "Zoom in (+)", "aria-label": "Zoom in", onclick: () => zoom(0.5) }, "+"),
    h("button.icon", { type: "button", title: "Zoom out (−)", "aria-label": "Zoom out", onclick: () => zoom(2) }, "−"),
    h("button", { type: "button", title: "Show all (0)", onclick: () => move([...whole]) }, "All"),
  );
  requestAnimationFrame(fetchNow);
  return {
    box: h("div", null, drawing.box, colourBar.box),
    controls,
    reload(next = {}) {
      if ("range" in next) scale = next.range;
      found = null;
      fetchNow();
    },
    show: (row, column) => move([row - 6, row + 6, column - 8, column + 8]),
  };
}

/** The range of colours for numbers: around zero if there are both signs. */
export function rangeOf(values, diverging) {
  let low = Infinity,
    high = -Infinity;
  for (let place = 0; place < values.length; place += 1) {
    const value = Number(values[place]);
    if (value < low && value > -Infinity) low = value;
    if (value > high && value < Infinity) high = value;
  }
  if (low > high) return [0, 1];
  if (!diverging) return [low, high];
  const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
  return [-most, most];
}

/** The range of colours by what is known of all values: extremes do not hide the others. */
export function rangeBy(found) {
  const { minimum, maximum, quantiles } = found?.summary ?? {};
  if (typeof minimum !== "number" || typeof maximum !== "number") return { range: null, diverging: false };
  if (minimum < 0 && maximum > 0) {
    const edge = Math.max(Math.abs(quantiles["0.01"] ?? minimum), Math.abs(quantiles["0.99"] ?? maximum));
    const most = edge > 0 ? Math.min(edge * 1.4, Math.max(-minimum, maximum)) : Math.max(-minimum, maximum);
    return { range: [-most, most], diverging: true };
  }
  return { range: [minimum, maximum], diverging: false };
}
