// A list of any number of rows, of which only those on the screen are elements.

import { h, resized } from "./dom.js";

// Browsers have no higher elements.
const HIGHEST = 8_000_000;

/**
 * A scrolling list.
 *
 * render(row) gives an element of the class "row"; it is asked for rows on the screen only.
 */
export function list({ height, count, render, rowHeight = 34, label, columns, scrolled, head }) {
  const room = h("div.room");
  const box = h(
    "div.list",
    { tabindex: 0, role: "grid", "aria-label": label, "aria-rowcount": count, style: { height } },
    room,
  );
  let top = 0,
    last = 0,
    settle = 0,
    current = -1;
  const shown = new Map();

  const total = () => count * rowHeight;
  const ratio = () =>
    Math.max((total() - box.clientHeight) / Math.max(Math.min(total(), HIGHEST) - box.clientHeight, 1), 1);

  function sized() {
    room.style.height = `${Math.min(total(), HIGHEST)}px`;
    box.setAttribute("aria-rowcount", count);
    draw();
  }

  function draw() {
    top = Math.max(0, Math.min(top, total() - box.clientHeight));
    const first = Math.max(Math.floor(top / rowHeight) - 4, 0);
    const end = Math.min(Math.ceil((top + box.clientHeight) / rowHeight) + 4, count);
    for (const [row, element] of shown)
      if (row < first || row >= end) {
        element.remove();
        shown.delete(row);
      }
    for (let row = first; row < end; row += 1) {
      let element = shown.get(row);
      if (!element) {
        element = render(row);
        element.classList.add("row");
        element.setAttribute("role", "row");
        element.setAttribute("aria-rowindex", row + 1);
        element.style.height = `${rowHeight}px`;
        if (columns) element.style.gridTemplateColumns = columns();
        shown.set(row, element);
        box.append(element);
      }
      // Far down, a place in pixels of the whole list would be rounded: it counts from the screen.
      element.style.transform = `translateY(${box.scrollTop + row * rowHeight - top}px)`;
    }
    scrolled?.(first, end, top / rowHeight);
  }

  box.addEventListener("scroll", () => {
    if (head) head.scrollLeft = box.scrollLeft;
    const moved = box.scrollTop - last;
    last = box.scrollTop;
    if (!moved) return;
    const scale = ratio();
    // A wheel moves by rows, also in a list that is higher than elements can be; a dragged bar moves by its part.
    top = scale === 1 || Math.abs(moved) > box.clientHeight * 1.5 ? box.scrollTop * scale : top + moved;
    draw();
    if (scale > 1) {
      clearTimeout(settle);
      settle = setTimeout(() => {
        last = box.scrollTop = Math.round(top / scale);
        draw();
      }, 140);
    }
  });
  resized(box, sized);

  const self = {
    box,
    get first() {
      return Math.floor(top / rowHeight);
    },
    get current() {
      return current;
    },
    /** Draws rows anew. */
    refresh(next) {
      if (next !== undefined) count = next;
      for (const element of shown.values()) element.remove();
      shown.clear();
      sized();
    },
    /** Scrolls to a row. */
    go(row, choose = true) {
      top = Math.max(
        0,
        Math.min(row * rowHeight - (choose ? box.clientHeight / 3 : 0), Math.max(total() - box.clientHeight, 0)),
      );
      last = box.scrollTop = Math.round(top / ratio());
      last = box.scrollTop;
      if (choose) current = row;
      self.refresh();
    },
  };
  return self;
}

export const natural = new Intl.Collator("en", { numeric: true });

/** Heads of columns that sort a list when they are pressed; `falls` says that the largest comes first. */
export function sorter(columns, start, change) {
  let [by, down] = start;
  const heads = columns.map(({ key, text, right, falls = right }) => {
    const cell = h(
      "div",
      { class: right ? "num" : "", role: "columnheader" },
      h(
        "button",
        {
          type: "button",
          onclick: () => {
            down = by === key ? !down : Boolean(falls);
            by = key;
            mark();
            change(by, down);
          },
        },
        text,
      ),
    );
    return { key, cell };
  });
  function mark() {
    for (const { key, cell } of heads)
      if (key === by) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
  }
  mark();
  return heads.map(({ cell }) => cell);
}
