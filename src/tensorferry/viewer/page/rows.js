// Rows: a table over any number of them, with search, filters, pictures, sounds and damage.

import { facts, listing, metadata, remarks } from "./about.js";
import { address, ask, finished, follow, recording } from "./api.js";
import { append, h, later, replace, visible, whole } from "./dom.js";
import * as format from "./format.js";
import { list } from "./list.js";

const PAGE = 100;

export async function showRows(here, file) {
  const given = here.query;
  const view = {
    here,
    file,
    pages: new Map(),
    damages: new Map(),
    matches: null,
    searching: null,
    pictures: false,
    /** The row to go to once it is known that it is there, and whether to mark it. */
    goal: whole(given.get("row")),
    isMarked: false,
  };
  // The first rows are asked for together with what is known of all.
  if (!given.get("row") && !given.get("where") && !given.get("text")) {
    view.early = askRows(view, 0);
    view.early.catch(() => {});
  }
  const [info, listed] = await Promise.all([ask("info", { file: file.number }, here.signal), listing(file)]);
  view.info = info;
  // Rows of a large file are shown before they are counted: there may be more than those known.
  view.isOpen = info.count === null;
  view.isLocated = info.damages !== null;
  view.total = recording ? PAGE : (info.count ?? 0);
  view.columns = listed.tensors.filter((column) => !column.unreadable).map((column, place) => ({ ...column, place }));
  view.about = h("section.card", null, facts({ ...info, isCounting: view.isOpen }));
  view.damageNote = h("div");
  const bar = controls(view),
    table = h("div");
  view.holder = table;
  make(view);
  const lost = listed.tensors.filter((column) => column.unreadable);
  here.put(
    h(
      "div.stack",
      null,
      view.about,
      remarks({ ...info, problems: [] }),
      view.damageNote,
      lost.length
        ? h(
            "div.note",
            null,
            lost.map((column) =>
              h(
                "p",
                null,
                `The column ${visible(column.name).slice(0, 100)} cannot be read: ${visible(column.unreadable)}`,
              ),
            ),
          )
        : null,
      info.verified
        ? null
        : h("div.note", null, "The file is large: checksums of its rows are verified only by “Check”."),
      h("section.card", null, bar, table),
      metadata(info),
    ),
  );
  here.setCopy(info.copy);
  if (!recording) filter(view);
  if (!view.isLocated) await locate(view);
  else mark(view, info.damages.length ? info.damages : info.problems);
  if (!view.total && !view.isOpen && !view.matches) sayNone(view, "There are no rows.");
}

function sayNone(view, text) {
  view.none.textContent = text;
  view.none.hidden = false;
}

// Rows come in pages, asked for when they are on the screen.

const count = (view) => (view.matches ? view.matches.length : view.total);
const numberAt = (view, place) => (view.matches ? view.matches[place] : place);

function askRows(view, start) {
  return ask(
    "rows",
    { file: view.file.number, start: start || undefined, count: recording ? undefined : PAGE },
    view.here.signal,
  );
}

async function fetchPage(view, page) {
  const { pages, matches } = view,
    start = page * PAGE;
  if (pages.has(page)) return;
  pages.set(page, null);
  try {
    const numbers = matches?.slice(start, start + PAGE).join(",");
    const answer = await (matches
      ? ask("rows", { file: view.file.number, numbers }, view.here.signal)
      : (page === 0 && view.early) || askRows(view, start));
    pages.set(page, answer.rows);
    if (recording) view.total = answer.rows.length;
    else if (!matches && view.isOpen) {
      view.isOpen = answer.total === null;
      view.total = answer.total ?? Math.max(view.total, start + answer.rows.length + PAGE);
    }
    if (!view.pictures && answer.rows.some((row) => row.cells.some((cell) => cell.kind === "image"))) {
      view.pictures = true;
      answer.rows[0].cells.forEach((cell, place) => {
        view.columns[place].wide = cell.kind === "image";
      });
      make(view);
    }
  } catch (error) {
    pages.delete(page);
    if (error.name !== "AbortError") pages.set(page, { error: error.message });
  }
  if (view.matches === matches) view.shown.refresh(count(view));
}

/** How many rows there are, and where they are damaged. */
async function locate(view) {
  try {
    const { count: total = null, damages = [] } =
      (await finished(
        "located",
        { file: view.file.number },
        (answer) => {
          if (answer.done) replace(view.about, facts({ ...view.info, isCounting: true, count: answer.done }));
        },
        view.here.signal,
      )) ?? {};
    if (total !== null) {
      view.isOpen = false;
      view.total = recording ? view.total : total;
      view.go.max = Math.max(view.total - 1, 0);
    }
    replace(view.about, facts({ ...view.info, count: total }));
    mark(view, damages.length ? damages : view.info.problems);
  } catch (error) {
    if (error.name !== "AbortError") replace(view.about, facts(view.info));
  }
  view.isLocated = true;
  if (view.goal) settle(view);
  else if (!view.matches) view.shown.refresh(view.total);
}

// The table

const isNumeric = (column) => column.dtype !== "string" && column.kind === "dense" && column.shape.length === 1;

function make(view) {
  const { columns } = view,
    first = view.shown ? view.shown.first : view.goal,
    high = view.pictures ? 68 : 34;
  const widths = `var(--number, 84px) ${columns.map((column) => (column.wide ? "104px" : isNumeric(column) ? "128px" : "minmax(150px, 1fr)")).join(" ")}`;
  const heads = h(
    "div.heads",
    { role: "row", style: { "grid-template-columns": widths } },
    h("div.num", { role: "columnheader" }, "Row"),
    columns.map((column) =>
      h(
        isNumeric(column) ? "div.num" : "div",
        { role: "columnheader", title: `${visible(column.name).slice(0, 300)}: ${column.dtype}` },
        h(
          "button",
          {
            type: "button",
            onclick: async () => (await import("./panels.js")).openColumn(view.here, view.file, column),
          },
          h("bdi.column", null, visible(column.name).slice(0, 120) || "(no name)"),
          " ",
          h("span", null, column.dtype),
        ),
      ),
    ),
  );
  const wanted = later(30, (from, end) => {
    for (let page = Math.floor(from / PAGE); page <= Math.floor(Math.max(end - 1, 0) / PAGE); page += 1)
      if (page * PAGE < count(view)) fetchPage(view, page);
    if (view.pages.size > 60)
      for (const page of [...view.pages.keys()].slice(0, 20))
        if (Math.abs(page - from / PAGE) > 5) view.pages.delete(page);
  });
  const told = later(300, (from, end, top) => tell(view, from, end, top));
  view.shown = list({
    height: view.isOpen
      ? "calc(100vh - 300px)"
      : `min(${Math.max(Math.min(count(view), 1e5), 3) * high}px, calc(100vh - 300px))`,
    count: count(view),
    rowHeight: high,
    label: "Rows",
    columns: () => widths,
    head: heads,
    render: (place) => render(view, place),
    scrolled: (from, end, top) => {
      wanted(from, end);
      told(from, end, top);
    },
  });
  view.shown.box.style.minHeight = "220px";
  replace(view.holder, heads, view.none, h("div.flush", null, view.shown.box));
  if (view.early || view.isOpen) fetchPage(view, 0);
  if (first)
    requestAnimationFrame(() => {
      view.goal = first;
      settle(view);
    });
}

/** Goes to the row that was asked for, once it is known that it is there. */
function settle(view) {
  if (view.isOpen && view.goal >= view.total) {
    if (!view.isLocated) return;
    view.total = view.goal + PAGE; // nobody knows how many there are: reading will tell
  }
  const place = Math.max(0, Math.min(view.goal, view.total - 1));
  view.shown.refresh(view.total);
  view.shown.go(place, view.isMarked);
  if (view.isMarked) view.here.say(`Row ${format.count(place)}`);
  view.goal = 0;
  view.isMarked = false;
}

/** Keeps the first row in the address, and says how to get what is shown. */
async function tell(view, from, end, top) {
  const { here, matches, file } = view;
  if (!matches && !view.goal) here.keep({ row: Math.round(top) || null });
  if (recording || !count(view)) return;
  const start = numberAt(view, from) ?? 0,
    stop = (numberAt(view, Math.min(end, count(view)) - 1) ?? start) + 1;
  const answer = await ask(
    "row_copy",
    { file: file.number, start, stop, where: matches ? view.where.value.trim() : undefined },
    here.signal,
  ).catch(() => null);
  if (answer) here.setCopy(answer.copy);
}

function render(view, place) {
  const page = view.pages.get(Math.floor(place / PAGE)),
    number = numberAt(view, place),
    damage = view.damages.get(number);
  const row = Array.isArray(page) ? page[place % PAGE] : null,
    whole = { style: { "grid-column": "2 / -1" } };
  const element = h(
    "div",
    { class: place === view.shown?.current ? "chosen" : "" },
    h("span.num.mono.soft", { role: "rowheader" }, format.count(number)),
  );
  if (damage) {
    element.classList.add("damaged");
    if (damage.behind) element.classList.add("behind");
    element.firstChild.title = `Damage ${damage.behind ? "behind" : "before"} this row: ${visible(damage.problem)}`;
    append(element.firstChild, [h("span.warning", null, " ⚠")]);
  }
  if (page?.error) return append(element, [h("span", whole, visible(page.error))]);
  if (!row?.problem)
    return append(
      element,
      view.columns.map((column) => cell(view, row?.cells[column.place], number, column)),
    );
  element.classList.add("bad");
  return append(element, [
    h("span", { ...whole, title: visible(row.problem) }, `cannot be read: ${visible(row.problem)}`),
  ]);
}

function cell(view, found, row, column) {
  if (!found) return h("span.cell", { role: "gridcell" }, h("i.ghost"));
  const box = h(`span.cell.${found.kind}`, { role: "gridcell" });
  const open = async () => (await import("./panels.js")).openValue(view.here, view.file, column, row, found);
  if (isNumeric(column)) box.classList.add("right");
  if (found.media?.startsWith("image/")) {
    const source = address("media", { file: view.file.number, row, column: column.place });
    return append(box, [
      h(
        "button",
        { type: "button", "aria-label": `Picture of row ${row}`, onclick: open },
        source ? h("img", { src: source, alt: visible(found.text), loading: "lazy", decoding: "async" }) : found.text,
      ),
    ]);
  }
  const text = found.kind === "sound" ? `♪ ${found.text}` : visible(found.text);
  return append(box, [
    found.more || found.kind === "sound"
      ? h("button", { type: "button", title: "Show all of it", onclick: open }, h("bdi", null, text))
      : h("bdi", null, text),
  ]);
}

// Search and filters

function controls(view) {
  const given = view.here.query;
  view.where = h("input", {
    type: "text",
    placeholder: example(view.columns),
    "aria-label": "Condition on rows",
    style: { flex: "2 1 220px", "font-family": "var(--mono)" },
    value: given.get("where") ?? "",
  });
  view.text = h("input", {
    type: "search",
    placeholder: "Search text",
    "aria-label": "Search text in all columns",
    style: { flex: "1 1 130px" },
    value: given.get("text") ?? "",
  });
  view.go = h("input", {
    type: "number",
    min: 0,
    max: Math.max(view.total - 1, 0),
    placeholder: "Go to row",
    "aria-label": "Go to row",
    "data-go": "1",
    style: { width: "112px" },
  });
  view.state = h("span.hint", { role: "status", style: { "min-width": "12ch" } });
  view.wrong = h("div");
  view.none = h("p.nothing", { hidden: true, role: "status" });
  view.clear = h(
    "button.button",
    {
      type: "button",
      hidden: true,
      onclick: () => {
        view.where.value = view.text.value = "";
        filter(view);
      },
    },
    "Show all",
  );
  view.csv = h("a.button", { download: "", title: "The rows that are shown, as CSV" }, "Download CSV");
  for (const field of [view.where, view.text])
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") filter(view);
    });
  view.text.addEventListener("search", () => {
    if (!view.text.value) filter(view);
  });
  view.go.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && view.go.value !== "") goTo(view, Number(view.go.value));
  });
  const button = h("button.button.main", { type: "button", onclick: () => filter(view) }, "Filter");
  return recording
    ? []
    : [
        h("div.bar", null, view.where, view.text, button, view.clear, view.state, view.go, view.csv, checker(view)),
        view.wrong,
      ];
}

function goTo(view, row) {
  if (view.matches) {
    view.where.value = view.text.value = "";
    filter(view);
  }
  view.goal = Math.max(0, row);
  view.isMarked = true;
  view.shown.box.focus();
  settle(view);
  if (view.goal) view.here.say("Looking for the row");
}

/** Shows the rows that fit what the fields say. */
async function filter(view) {
  const { here, pages, file } = view,
    asked = { where: view.where.value.trim(), text: view.text.value.trim() };
  const isAll = !asked.where && !asked.text,
    wasAll = !view.matches;
  view.searching?.abort();
  view.searching = new AbortController();
  const own = AbortSignal.any([view.searching.signal, here.signal]);
  view.clear.hidden = isAll;
  view.none.hidden = true;
  view.state.textContent = "";
  replace(view.wrong);
  view.csv.href = address("table", { file: file.number, ...asked });
  if (isAll && wasAll) return;
  here.keep({ ...asked, row: null });
  pages.clear();
  const matches = (view.matches = isAll ? null : []);
  view.shown.refresh(count(view));
  if (isAll) return;
  try {
    const end = await follow(
      "search",
      { file: file.number, ...asked },
      (answer) => {
        const before = matches.length;
        matches.push(...answer.items);
        if (before % PAGE) pages.delete(Math.floor(before / PAGE));
        view.state.textContent = `${format.count(matches.length)} found${answer.finished ? "" : `, ${answer.total ? format.percent(answer.done, answer.total) : format.count(answer.done)} read`}`;
        if (answer.items.length) view.shown.refresh(matches.length);
      },
      own,
    );
    if (end.error) refuse(view, end);
    else if (!matches.length) sayNone(view, "No row fits.");
    if (end.full) view.state.textContent += ", and more";
  } catch (error) {
    if (error.name !== "AbortError") refuse(view, { error: error.message, hint: error.hint });
  }
}

/** Says what is wrong with a condition, and shows all rows again. */
function refuse(view, { error, hint }) {
  view.state.textContent = "";
  view.matches = null;
  view.pages.clear();
  view.shown.refresh(count(view));
  replace(
    view.wrong,
    h(
      "div.note.bad",
      { role: "alert", style: { "margin-bottom": "12px" } },
      h("p", null, visible(error)),
      hint ? h("p", null, visible(hint)) : null,
    ),
  );
}

/** A condition on the columns that there are. */
function example(columns) {
  const plain = columns.filter((column) => /^[A-Za-z_]\w*$/.test(column.name) && column.name.length < 24);
  const number = plain.find(isNumeric),
    long = plain.find((column) => column.kind === "ragged"),
    text = plain.find((column) => column.dtype === "string");
  const found = [
    number && `${number.name} > 3`,
    long ? `len(${long.name}) > 9` : text && !number ? `"a" in ${text.name}` : null,
  ].filter(Boolean);
  return found.join(" and ") || "condition";
}

// Damage

function mark(view, items) {
  // Damaged rows are left out: the place of each is before the row that has its number now.
  const placeOf = (each) => Math.min(each.record ?? 0, Math.max(view.total - 1, 0));
  view.damages = new Map(
    items.map((each) => [placeOf(each), { problem: each.problem, behind: (each.record ?? 0) >= view.total }]),
  );
  if (!items.length) return;
  const buttons = items
    .slice(0, 20)
    .map((each) =>
      h(
        "button.button",
        { type: "button", title: visible(each.problem), onclick: () => goTo(view, placeOf(each)) },
        `before row ${format.count(each.record ?? 0)}${each.offset !== null ? `, byte ${format.count(each.offset)}` : ""}`,
      ),
    );
  replace(
    view.damageNote,
    h(
      "div.note.bad",
      { role: "alert" },
      h(
        "div.bar",
        { style: { margin: "0 0 6px" } },
        h("strong", null, `${format.plural(items.length, "damaged place")}:`),
        buttons,
      ),
      h("p", null, visible(items[0].problem)),
    ),
  );
  view.shown.refresh();
}

function checker(view) {
  const button = h(
    "button.button",
    {
      type: "button",
      title: "Read everything, and check every checksum",
      onclick: async () => {
        button.disabled = true;
        const found = [];
        try {
          const end = await follow(
            "damages",
            { file: view.file.number },
            (answer) => {
              found.push(...answer.items);
              button.textContent = answer.total ? `Checking ${format.percent(answer.done, answer.total)}` : "Checking";
            },
            view.here.signal,
          );
          mark(view, found);
          button.textContent = end.error
            ? "Check"
            : found.length
              ? format.plural(found.length, "problem")
              : "All sound ✓";
        } catch (error) {
          if (error.name !== "AbortError") button.textContent = "Check";
        }
        button.disabled = false;
      },
    },
    "Check",
  );
  return button;
}
