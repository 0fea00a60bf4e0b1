// Charts on canvas: histogram, line, heat map and treemap, in the colours of the page.

import { h, later, resized } from "./dom.js";
import * as format from "./format.js";

let known = null;
const drawings = new Set();

/** The colours of the page, as it is now. */
export function colours() {
  if (!known) {
    const style = getComputedStyle(document.documentElement);
    known = Object.fromEntries(
      [
        "line",
        "faint",
        "ink",
        "soft",
        "mute",
        "accent",
        "bad",
        "low",
        "mid",
        "high",
        "seq-0",
        "seq-1",
        "seq-2",
        "seq-3",
        "seq-4",
      ].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
    );
  }
  return known;
}

/** Draws everything anew, in other colours. */
addEventListener("recolour", () => {
  known = null;
  tables.clear();
  for (const drawing of drawings) drawing.redraw();
});

function rgb(text) {
  const value = parseInt(text.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

const tables = new Map();

/** 256 colours of a palette, as RGBA in one integer each. */
export function palette(kind) {
  if (tables.has(kind)) return tables.get(kind);
  const c = colours();
  const stops = (
    kind === "diverging"
      ? [shade(c.low, c.ink, 0.35), c.low, c.mid, c.high, shade(c.high, c.ink, 0.35)]
      : [c["seq-0"], c["seq-1"], c["seq-2"], c["seq-3"], c["seq-4"]]
  ).map((stop) => (Array.isArray(stop) ? stop : rgb(stop)));
  const table = new Uint32Array(256);
  for (let place = 0; place < 256; place += 1) {
    const at = (place / 255) * (stops.length - 1);
    const first = Math.min(Math.floor(at), stops.length - 2);
    const [red, green, blue] = [0, 1, 2].map((part) =>
      Math.round(stops[first][part] + (stops[first + 1][part] - stops[first][part]) * (at - first)),
    );
    table[place] = (255 << 24) | (blue << 16) | (green << 8) | red;
  }
  tables.set(kind, table);
  return table;
}

function shade(from, to, part) {
  const [a, b] = [rgb(from), rgb(to)];
  return a.map((value, place) => Math.round(value + (b[place] - value) * part));
}

/** A canvas of some height that is drawn when its size or the colours change. */
export function chart(height, label, draw) {
  const canvas = h("canvas", { role: "img", "aria-label": label, style: { height: `${height}px` } });
  const tip = h("div.tip");
  const box = h("div.chart", null, canvas, tip);
  const redraw = () => {
    const width = canvas.clientWidth;
    if (!canvas.isConnected || !width) return;
    drawing.wasShown = true;
    const scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = "11.5px system-ui, sans-serif";
    draw(context, width, height);
  };
  // Charts of views that were left are forgotten; one that comes back is drawn, as its size changes.
  for (const other of drawings) if (other.wasShown && !other.box.isConnected) drawings.delete(other);
  const drawing = { box, canvas, redraw, wasShown: false, show: (x, y, text) => showTip(tip, box, x, y, text) };
  drawings.add(drawing);
  resized(canvas, redraw);
  return drawing;
}

function showTip(tip, box, x, y, text) {
  tip.style.opacity = text ? "1" : "0";
  if (!text) return;
  tip.textContent = text;
  const width = tip.offsetWidth;
  tip.style.left = `${Math.max(0, Math.min(x + 12, box.clientWidth - width))}px`;
  tip.style.top = `${Math.max(y - tip.offsetHeight - 10, -6)}px`;
}

/** Bars of a distribution, linear or by magnitude, with counts linear or logarithmic. */
export function histogram(found, options) {
  const state = { across: "linear", up: "linear", ...options };
  let bars = [];
  const drawing = chart(190, label(), (context, width, height) => {
    const c = colours();
    bars = state.across === "linear" ? linearBars(found) : magnitudeBars(found);
    const most = Math.max(...bars.map((bar) => bar.count), 1);
    const base = height - 24;
    const left = 8,
      right = width - 8;
    context.strokeStyle = c.line;
    context.beginPath();
    context.moveTo(left, base + 0.5);
    context.lineTo(right, base + 0.5);
    context.stroke();
    const rise = (count) =>
      count ? (state.up === "log" ? Math.log1p(count) / Math.log1p(most) : count / most) * (base - 12) : 0;
    const step = (right - left) / bars.length;
    bars.forEach((bar, place) => {
      const size = bar.count ? Math.max(rise(bar.count), 1.5) : 0;
      context.fillStyle =
        bar.tone === "low" ? c.low : bar.tone === "zero" ? c.mute : bar.tone === "high" ? c.high : c.accent;
      bar.x = left + place * step;
      bar.width = step;
      const gap = step > 4 ? 1 : 0;
      context.fillRect(bar.x + gap / 2, base - size, Math.max(step - gap, 0.7), size);
    });
    context.fillStyle = c.mute;
    context.textBaseline = "bottom";
    const ends =
      state.across === "linear" ? [found.summary.minimum, found.summary.maximum] : [bars[0]?.at, bars.at(-1)?.end];
    ticks(bars, context, left, right, ends).forEach(({ text, x, align }) => {
      context.textAlign = align;
      context.fillText(text, x, height - 4);
    });
  });
  function label() {
    const total = found.histogram?.counts.reduce((sum, each) => sum + each, 0) ?? 0;
    return `Histogram of ${format.count(total)} values from ${format.number(found.summary.minimum)} to ${format.number(found.summary.maximum)}`;
  }
  drawing.canvas.addEventListener("pointermove", (event) => {
    const bar = bars.find((each) => event.offsetX >= each.x && event.offsetX < each.x + each.width);
    drawing.show(event.offsetX, event.offsetY, bar ? `${bar.text}\n${format.plural(bar.count, "value")}` : "");
  });
  drawing.canvas.addEventListener("pointerleave", () => drawing.show(0, 0, ""));
  return {
    box: drawing.box,
    set: (change) => {
      Object.assign(state, change);
      drawing.redraw();
    },
  };
}

function linearBars(found) {
  const { counts, edges } = found.histogram ?? { counts: [], edges: [0] };
  const whole = edges.length > 1 && edges[1] - edges[0] === 1;
  return counts.map((count, place) => ({
    count,
    at: edges[place],
    end: edges[place + 1],
    text: whole ? format.number(edges[place]) : `${format.number(edges[place])} to ${format.number(edges[place + 1])}`,
  }));
}

function magnitudeBars(found) {
  const sizes = found.magnitudes;
  if (!sizes) return linearBars(found);
  const power = (place) => 10 ** ((sizes.start + place) / 10);
  const text = (sign, place) =>
    `${sign}${format.number(power(place), 3)} to ${sign}${format.number(power(place + 1), 3)}`;
  const negative = sizes.negative
    .map((count, place) => ({ count, tone: "low", at: -power(place + 1), end: -power(place), text: text("−", place) }))
    .reverse();
  const positive = sizes.positive.map((count, place) => ({
    count,
    tone: "high",
    at: power(place),
    end: power(place + 1),
    text: text("", place),
  }));
  const someNegative = negative.some((bar) => bar.count),
    somePositive = positive.some((bar) => bar.count);
  const zero = sizes.zeros ? [{ count: sizes.zeros, tone: "zero", at: 0, end: 0, text: "exactly 0" }] : [];
  return [...(someNegative ? negative : []), ...zero, ...(somePositive ? positive : [])];
}

/** The numbers below a histogram: its ends, and zero where there is room for it. */
function ticks(bars, context, left, right, ends) {
  if (!bars.length) return [];
  const [low, high] = ends.map((value) => format.number(value, 3));
  if (low === high) return [{ text: low, x: (left + right) / 2, align: "center" }];
  const found = [
    { text: low, x: left, align: "left" },
    { text: high, x: right, align: "right" },
  ];
  const zero = bars.findIndex((bar) => bar.at >= 0 && !Object.is(bar.at, -0)),
    x = left + ((right - left) * zero) / bars.length;
  const gap = 14,
    isFree = x > left + context.measureText(low).width + gap && x < right - context.measureText(high).width - gap;
  return zero > 0 && isFree ? [...found, { text: "0", x, align: "center" }] : found;
}

/** A line of numbers, with the least and the largest of each point. */
export function line(load, total) {
  let window = [0, total];
  let found = null,
    left = 8;
  const drawing = chart(300, "Values along the only axis", (context, width, height) => {
    if (!found) return;
    const c = colours();
    const low = Array.from(found.low, Number),
      high = Array.from(found.high, Number);
    const finite = [...low, ...high].filter(Number.isFinite);
    const least = Math.min(...finite, 0),
      most = Math.max(...finite, 0);
    const texts = [...new Set([most, least, 0])].map((value) => [value, format.number(value, 4)]);
    left = 14 + Math.max(...texts.map(([, text]) => context.measureText(text).width));
    const y = (value) => 12 + (1 - (value - least) / (most - least || 1)) * (height - 44);
    const x = (place) => left + (place / Math.max(low.length - 1, 1)) * (width - left - 8);
    context.strokeStyle = c.line;
    context.beginPath();
    for (const [value] of texts) {
      context.moveTo(left, Math.round(y(value)) + 0.5);
      context.lineTo(width - 8, Math.round(y(value)) + 0.5);
    }
    context.stroke();
    context.strokeStyle = context.fillStyle = c.accent;
    context.lineWidth = 1.4;
    context.beginPath();
    let open = false;
    low.forEach((value, place) => {
      if (!Number.isFinite(value)) {
        open = false;
        return;
      }
      if (found.step > 1) {
        context.moveTo(x(place), y(value));
        context.lineTo(x(place), Math.min(y(high[place]), y(value) - 1));
        return;
      }
      if (open) context.lineTo(x(place), y(value));
      else context.moveTo(x(place), y(value));
      open = true;
    });
    context.stroke();
    if (found.step === 1 && low.length <= 120) {
      low.forEach((value, place) => {
        if (Number.isFinite(value)) {
          context.beginPath();
          context.arc(x(place), y(value), 2.4, 0, 7);
          context.fill();
        }
      });
    }
    context.fillStyle = c.mute;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const [value, text] of texts)
      if (value || Math.min(y(least) - y(0), y(0) - y(most)) > 14 || !least || !most)
        context.fillText(text, left - 8, y(value));
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    context.fillText(format.count(found.window[0]), left, height - 3);
    context.textAlign = "right";
    context.fillText(format.count(found.window[1] - 1), width - 8, height - 3);
  });
  const update = later(60, async () => {
    try {
      found = await load(window);
      drawing.redraw();
    } catch (error) {
      if (error.name !== "AbortError" && !found) drawing.show(12, 40, error.message);
    }
  });
  const place = (event) =>
    window[0] + ((event.offsetX - left) / (drawing.canvas.clientWidth - left - 8)) * (window[1] - window[0]);
  drawing.canvas.addEventListener("pointermove", (event) => {
    if (!found) return;
    const at = Math.floor((place(event) - found.window[0]) / found.step);
    if (at < 0 || at >= found.low.length) return drawing.show(0, 0, "");
    const first = found.window[0] + at * found.step;
    const text =
      found.step === 1
        ? `[${format.count(first)}]  ${format.exact(found.low[at], found.arrays.low.dtype)}`
        : `[${format.count(first)} to ${format.count(first + found.step - 1)}]\n${format.number(found.low[at])} to ${format.number(found.high[at])}`;
    return drawing.show(event.offsetX, event.offsetY, text);
  });
  drawing.canvas.addEventListener("pointerleave", () => drawing.show(0, 0, ""));
  drawing.canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const centre = place(event),
        factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY * 0.002)));
      const size = Math.max(Math.min((window[1] - window[0]) * factor, total), Math.min(16, total));
      const start = Math.max(
        0,
        Math.min(centre - ((centre - window[0]) / (window[1] - window[0])) * size, total - size),
      );
      window = [Math.floor(start), Math.ceil(start + size)];
      update();
    },
    { passive: false },
  );
  drawing.canvas.addEventListener("dblclick", () => {
    window = [0, total];
    update();
  });
  update();
  return drawing.box;
}

/** Rectangles whose sizes are those of things, with what is inside of each: squarified. */
export function treemap(items, { open, height = 280 }) {
  let leaves = [],
    frames = [];
  const drawing = chart(
    height,
    `Where the bytes are: ${items
      .slice(0, 5)
      .map((item) => `${item.label.slice(0, 60)} ${format.size(item.size)}`)
      .join(", ")}`,
    (context, width) => {
      const c = colours(),
        shades = palette("sequential");
      leaves = [];
      frames = [];
      context.textBaseline = "top";
      context.textAlign = "left";
      const lay = (some, x, y, w, hh, depth) => {
        for (const each of squarify(
          some.filter((item) => item.size > 0),
          x,
          y,
          w,
          hh,
        )) {
          let inner = each.item.items?.() ?? [];
          while (inner.length === 1 && inner[0].items) inner = inner[0].items();
          if (inner.length > 1 && each.w > 70 && each.hh > 54 && depth < 5) {
            frames.push(each);
            context.fillStyle = c.soft;
            context.fillText(
              fit(context, `${each.item.label}  ${format.size(each.item.size)}`, each.w - 10),
              each.x + 5,
              each.y + 4,
            );
            lay(inner, each.x + 2, each.y + 18, each.w - 4, each.hh - 20, depth + 1);
          } else leaves.push(each);
        }
      };
      lay(items, 0, 0, width, height, 0);
      context.strokeStyle = c.line;
      for (const each of frames) {
        context.beginPath();
        context.roundRect(each.x + 0.5, each.y + 0.5, each.w - 1, each.hh - 1, 4);
        context.stroke();
      }
      const largest = Math.max(...leaves.map((each) => each.item.size), 1);
      for (const { item, x, y, w, hh } of leaves) {
        const tone = shades[Math.round(50 + 130 * Math.sqrt(item.size / largest))];
        context.fillStyle = `rgb(${tone & 255} ${(tone >> 8) & 255} ${(tone >> 16) & 255})`;
        context.beginPath();
        context.roundRect(x + 1, y + 1, Math.max(w - 2, 0.5), Math.max(hh - 2, 0.5), Math.min(3, w / 4, hh / 4));
        context.fill();
        if (w < 44 || hh < 20) continue;
        const light = (tone & 255) * 0.3 + ((tone >> 8) & 255) * 0.59 + ((tone >> 16) & 255) * 0.11;
        context.fillStyle = light > 140 ? "#14181f" : "#ffffff";
        context.fillText(fit(context, item.label, w - 12), x + 6, y + 5);
        const size = format.size(item.size);
        if (hh > 36 && context.measureText(size).width <= w - 12) {
          context.globalAlpha = 0.78;
          context.fillText(size, x + 6, y + 20);
          context.globalAlpha = 1;
        }
      }
      if (!leaves.length) {
        context.fillStyle = c.mute;
        context.fillText("The sizes are not known before the values are read.", 4, 20);
      }
    },
  );
  drawing.canvas.classList.add("pointer");
  const inside = (event) => (each) =>
    event.offsetX >= each.x &&
    event.offsetX < each.x + each.w &&
    event.offsetY >= each.y &&
    event.offsetY < each.y + each.hh;
  const under = (event) => leaves.find(inside(event)) ?? frames.findLast(inside(event));
  drawing.canvas.addEventListener("pointermove", (event) => {
    const found = under(event);
    drawing.show(
      event.offsetX,
      event.offsetY,
      found
        ? `${(found.item.path ?? found.item.label).slice(0, 160)}\n${format.size(found.item.size)}${found.item.detail ? `, ${found.item.detail}` : ""}`
        : "",
    );
  });
  drawing.canvas.addEventListener("pointerleave", () => drawing.show(0, 0, ""));
  drawing.canvas.addEventListener("click", (event) => {
    const found = under(event);
    if (found) open(found.item);
  });
  return drawing.box;
}

function fit(context, text, width) {
  if (context.measureText(text.slice(0, 200)).width <= width) return text;
  let low = 0,
    high = Math.min(text.length, 200);
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low > 1 ? `${text.slice(0, low)}…` : "";
}

function squarify(items, x, y, w, hh) {
  const sorted = [...items].sort((a, b) => b.size - a.size).slice(0, 600);
  const total = sorted.reduce((sum, item) => sum + item.size, 0);
  const found = [];
  if (!total) return found;
  const scale = (w * hh) / total;
  let row = [],
    sum = 0;
  const worst = (sizes, length) => {
    const all = sizes.reduce((a, b) => a + b, 0);
    return Math.max(
      ...sizes.map((each) => Math.max((length * length * each) / (all * all), (all * all) / (length * length * each))),
    );
  };
  const lay = () => {
    const across = w >= hh,
      length = across ? hh : w,
      thick = sum / length;
    let at = across ? y : x;
    for (const { item, area } of row) {
      const extent = area / thick;
      found.push(across ? { item, x, y: at, w: thick, hh: extent } : { item, x: at, y, w: extent, hh: thick });
      at += extent;
    }
    if (across) {
      x += thick;
      w -= thick;
    } else {
      y += thick;
      hh -= thick;
    }
    row = [];
    sum = 0;
  };
  for (const item of sorted) {
    const area = item.size * scale,
      length = Math.min(w, hh);
    if (
      row.length &&
      worst(
        row.map((each) => each.area),
        length,
      ) < worst([...row.map((each) => each.area), area], length)
    )
      lay();
    row.push({ item, area });
    sum += area;
  }
  if (row.length) lay();
  return found;
}

/** A strip with the colours of a heat map, and the numbers at its ends. */
export function legend() {
  const strip = h("canvas", { width: 128, height: 9, "aria-hidden": "true" });
  const low = h("span"),
    high = h("span"),
    about = h("span");
  const box = h("div.legend", null, low, strip, high, about);
  return {
    box,
    set(range, kind, text) {
      const context = strip.getContext("2d"),
        shades = palette(kind);
      const image = context.createImageData(128, 9),
        pixels = new Uint32Array(image.data.buffer);
      for (let place = 0; place < pixels.length; place += 1)
        pixels[place] = shades[Math.round(((place % 128) / 127) * 255)];
      context.putImageData(image, 0, 0);
      low.textContent = format.number(range[0], 4);
      high.textContent = format.number(range[1], 4);
      about.textContent = text;
    },
  };
}
