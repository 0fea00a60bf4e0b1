// A graph: boxes and lines at the places that the server gives.

import { h, resized, s, visible } from "./dom.js";

/** A drawing; open(box) is called for a scope or a call that is clicked. */
export function graph(drawing, { open, opens, kind }) {
  const margin = 24,
    width = drawing.width + 2 * margin,
    height = drawing.height + 2 * margin;
  const places = new Map(drawing.boxes.map((box) => [box.name, box]));
  const marker = s(
    "marker",
    { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" },
    s("path", { d: "M0 0L8 4L0 8z" }),
  );
  const lines = drawing.edges.map((edge) => {
    const a = places.get(edge.start),
      b = places.get(edge.end);
    const x1 = a.x + a.width / 2 + margin,
      y1 = a.y + 34 + margin,
      x2 = b.x + b.width / 2 + margin,
      y2 = b.y + margin - 1;
    const bend = Math.max(Math.abs(y2 - y1) / 2, 18);
    return s("path", {
      d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`,
      class: edge.after ? "after" : "",
      "stroke-width": Math.min(1 + Math.log2(edge.count) / 2, 4),
      "marker-end": "url(#arrow)",
    });
  });
  const boxes = drawing.boxes.map((box) => {
    const can = opens?.(box);
    const classes = [
      "box",
      box.name.endsWith("/") ? "scope" : "",
      ["argument", "return"].includes(box.detail) ? "end" : "",
      can ? "open" : "",
    ]
      .filter(Boolean)
      .join(" ");
    const fitted = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
    const element = s(
      "g",
      {
        class: classes,
        transform: `translate(${box.x + margin} ${box.y + margin})`,
        tabindex: can ? 0 : null,
        role: can ? "button" : null,
      },
      s("rect", { width: box.width, height: 34, rx: 7 }),
      s("text", { x: box.width / 2, y: box.detail ? 14 : 21 }, fitted(visible(box.label), 42)),
      box.detail ? s("text", { class: "detail", x: box.width / 2, y: 27 }, fitted(visible(box.detail), 46)) : null,
      s("title", null, `${visible(box.name).slice(0, 400)}\n${visible(box.detail)}`),
    );
    if (can) {
      element.addEventListener("click", () => open(box));
      element.addEventListener("keydown", (event) => {
        if (event.key === "Enter") open(box);
      });
    }
    return element;
  });
  const svg = s(
    "svg",
    {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "group",
      "aria-label": `${kind ?? "Graph"} of ${drawing.boxes.length} boxes`,
    },
    s("defs", null, marker),
    lines,
    boxes,
  );
  const view = h("div.graph", { tabindex: 0 }, svg);
  return h("div.drawn", null, zooms(view, svg, width, height), view);
}

/** Buttons that make a drawing larger and smaller; it starts as wide as its room, as long as it can be read. */
function zooms(view, svg, width, height) {
  let scale = 1;
  const set = (next) => {
    const middle = [view.scrollLeft + view.clientWidth / 2, view.scrollTop + view.clientHeight / 2].map(
      (each) => each / scale,
    );
    scale = Math.max(0.15, Math.min(next, 2));
    svg.setAttribute("width", width * scale);
    svg.setAttribute("height", height * scale);
    view.scrollLeft = middle[0] * scale - view.clientWidth / 2;
    view.scrollTop = middle[1] * scale - view.clientHeight / 2;
  };
  const fit = (least) => {
    set(Math.max(Math.min(view.clientWidth / width, 1), least));
    view.scrollLeft = (width * scale - view.clientWidth) / 2;
    view.scrollTop = 0;
  };
  const stop = resized(view, () => {
    stop();
    fit(0.62);
  });
  view.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      set(scale * Math.exp(-event.deltaY * 0.003));
    },
    { passive: false },
  );
  view.addEventListener("keydown", (event) => {
    const action = {
      "+": () => set(scale * 1.25),
      "=": () => set(scale * 1.25),
      "-": () => set(scale / 1.25),
      0: () => fit(0.15),
    }[event.key];
    if (action && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      action();
    }
  });
  return h(
    "div.tools",
    null,
    h(
      "button.icon",
      { type: "button", title: "Zoom in (+)", "aria-label": "Zoom in", onclick: () => set(scale * 1.25) },
      "+",
    ),
    h(
      "button.icon",
      { type: "button", title: "Zoom out (−)", "aria-label": "Zoom out", onclick: () => set(scale / 1.25) },
      "−",
    ),
    h("button", { type: "button", title: "Show all (0)", onclick: () => fit(0.15) }, "All"),
  );
}
