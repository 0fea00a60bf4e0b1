// Rows of two files: which of them differ, by position or by a key.

import { headline, listing } from "./about.js";
import { ask, follow, recording } from "./api.js";
import { h, named, replace, visible } from "./dom.js";
import * as format from "./format.js";
import { list } from "./list.js";

/** Rows of two files beside each other. */
export async function compareRows(here, a, b) {
  const [listedA, listedB] = await Promise.all([listing(a), listing(b)]);
  const shared = listedA.tensors.filter((column) => listedB.tensors.some((other) => other.name === column.name));
  const placeB = new Map(listedB.tensors.map((column, place) => [column.name, place]));
  let pairs = [],
    key = here.query.get("key") ?? "",
    running = null;
  const cache = new Map(),
    state = h("span.hint", { role: "status" }),
    holder = h("div.flush"),
    headBox = h("div.heads", { role: "row" });
  const columns = `var(--number, 84px) var(--number, 84px) ${shared.map(() => "minmax(120px, 1fr)").join(" ")}`;
  headBox.style.gridTemplateColumns = columns;
  replace(
    headBox,
    h("div.num", null, "Row A"),
    h("div.num", null, "Row B"),
    shared.map((column) => h("div", null, named(column.name.slice(0, 100)))),
  );
  const fetchPage = async (page) => {
    if (cache.has(page)) return;
    cache.set(page, null);
    const some = pairs.slice(page * 50, page * 50 + 50);
    try {
      cache.set(
        page,
        await ask(
          "row_pairs",
          {
            a: a.number,
            b: b.number,
            left: some.map((pair) => pair[0]).join(","),
            right: some.map((pair) => pair[1]).join(","),
          },
          here.signal,
        ),
      );
    } catch {
      cache.delete(page);
    }
    shown.refresh(pairs.length);
  };
  const shown = list({
    height: "520px",
    count: 0,
    rowHeight: 50,
    label: "Rows that differ",
    columns: () => columns,
    head: headBox,
    scrolled: (first, end) => {
      for (
        let page = Math.floor(first / 50);
        page <= Math.floor(Math.max(end - 1, 0) / 50) && page * 50 < pairs.length;
        page += 1
      )
        fetchPage(page);
    },
    render: (place) => {
      const [left, right, differing] = pairs[place],
        found = cache.get(Math.floor(place / 50)),
        at = place % 50;
      const one = found?.a.rows[at],
        two = found?.b.rows[at];
      const where = (number) => h("span.num.mono.soft", null, number < 0 ? "–" : format.count(number));
      return h(
        "div",
        null,
        where(left),
        where(right),
        shared.map((column) => {
          const x = one?.cells[found.a.columns.indexOf(column.name)],
            y = two?.cells[found.b.columns.indexOf(column.name)];
          if (!found) return h("span.cell", null, h("i.ghost"));
          if (left >= 0 && right >= 0 && !differing.includes(column.name))
            return h("span.cell.soft", null, h("bdi", null, visible(x?.text ?? "")));
          return h(
            "span.cell.differs",
            null,
            [
              ["A", x],
              ["B", y],
            ].map(([side, each]) =>
              h("div", null, h("small", null, side), h("bdi", null, each ? visible(each.text) || "∅" : "–")),
            ),
          );
        }),
      );
    },
  });
  replace(holder, shown.box);
  const select = h(
    "select",
    {
      "aria-label": "Rows belong together by",
      onchange: () => {
        key = select.value;
        here.keep({ key });
        run();
      },
    },
    h("option", { value: "" }, "by position"),
    shared
      .filter((column) => column.shape.length === 1)
      .map((column) =>
        h("option", { value: column.name, selected: column.name === key }, `by ${visible(column.name).slice(0, 40)}`),
      ),
  );
  const only = [
    ["A", listedA.tensors.filter((column) => !placeB.has(column.name))],
    ["B", listedB.tensors.filter((column) => !shared.some((other) => other.name === column.name))],
  ].filter(([, columnsOnly]) => columnsOnly.length);
  here.put(
    h(
      "div.stack",
      null,
      headline(a, b),
      only.map(([side, found]) =>
        h(
          "div.note",
          null,
          `Only ${side} has the column${found.length > 1 ? "s" : ""} ${found
            .slice(0, 8)
            .map((column) => visible(column.name).slice(0, 60))
            .join(", ")}.`,
        ),
      ),
      h(
        "section.card",
        null,
        h("header", null, h("h2", null, "Rows that differ"), state, recording ? null : select),
        headBox,
        holder,
      ),
    ),
  );
  async function run() {
    running?.abort();
    running = new AbortController();
    const own = AbortSignal.any([running.signal, here.signal]);
    pairs = [];
    cache.clear();
    shown.refresh(0);
    try {
      const end = await follow(
        "row_differences",
        { a: a.number, b: b.number, key: key || undefined },
        (answer) => {
          if (answer.copy) here.setCopy(answer.copy);
          if (pairs.length % 50) cache.delete(Math.floor(pairs.length / 50));
          pairs.push(...answer.items);
          state.textContent = answer.finished
            ? pairs.length
              ? `${format.plural(pairs.length, "row")} ${pairs.length === 1 ? "differs" : "differ"}`
              : "All rows are equal"
            : `${format.count(pairs.length)} so far`;
          if (answer.items.length) shown.refresh(pairs.length);
        },
        own,
      );
      shown.box.style.height = `min(${Math.max(pairs.length, 1) * 50}px, 70vh)`;
      if (end.error) state.textContent = visible(end.error);
      if (end.full) state.textContent += ", and more";
    } catch (error) {
      if (error.name !== "AbortError") state.textContent = visible(error.message);
    }
  }
  await run();
}
