// Rows: a table over any number of them, with search, filters, pictures, sounds and damage.

import { address, ask, follow, recording } from "./api.js";
import { facts, listing, metadata, remarks } from "./bundle.js";
import { append, failure, h, later, named, replace, visible, waiting } from "./dom.js";
import * as format from "./format.js";
import { list } from "./list.js";
import { say } from "./main.js";
import { distribution } from "./tensor.js";

const PAGE = 100;

export async function showRows(here, file) {
  const [info, listed] = await Promise.all([ask("info", { file: file.number }, here.signal), listing(file)]);
  const columns = listed.tensors.filter((column) => !column.unreadable);
  const total = recording ? Math.min(info.count ?? 0, PAGE) : info.count ?? 0;
  const pages = new Map();
  let matches = null, searching = null, pictures = false;
  let damages = new Map();

  const count = () => (matches ? matches.length : total);
  const numberAt = (place) => (matches ? matches[place] : place);
  const widths = () => `84px ${columns.map((column) => (column.wide ? "104px" : column.dtype === "string" || column.kind === "ragged" || column.shape.length > 1 ? "minmax(150px, 1fr)" : "128px")).join(" ")}`;
  const numeric = (column) => column.dtype !== "string" && column.kind === "dense" && column.shape.length === 1;
  const narrow = () => `${84 + columns.length * 128}px`;

  // Rows come in pages, asked for when they are on the screen.

  const fetchPage = async (page) => {
    if (pages.has(page)) return;
    pages.set(page, null);
    const start = page * PAGE;
    const parameters = matches ? { file: file.number, numbers: matches.slice(start, start + PAGE).join(",") } : { file: file.number, start: start || undefined, count: recording ? undefined : PAGE };
    try {
      const answer = await ask("rows", parameters, here.signal);
      pages.set(page, answer.rows);
      if (!pictures && answer.rows.some((row) => row.cells.some((cell) => cell.kind === "image"))) {
        pictures = true;
        answer.rows[0]?.cells.forEach((cell, place) => { columns[place].wide = cell.kind === "image"; });
        make();
      }
      shown.refresh();
    } catch (error) {
      pages.delete(page);
      if (error.name !== "AbortError") pages.set(page, { error: error.message });
      shown.refresh();
    }
  };
  const wanted = later(30, (first, end) => {
    for (let page = Math.floor(first / PAGE); page <= Math.floor(Math.max(end - 1, 0) / PAGE); page += 1) if (page * PAGE < count()) fetchPage(page);
    if (pages.size > 60) for (const page of [...pages.keys()].slice(0, 20)) if (Math.abs(page - first / PAGE) > 5) pages.delete(page);
  });
  const remember = later(400, (first) => here.keep({ row: first || null }));
  const tell = later(300, async (first, end) => {
    const from = numberAt(first) ?? 0;
    here.setCopy(await snippetFor(from, (numberAt(end - 1) ?? from) + 1).catch(() => info.copy));
  });
  let lastCopy = "";
  async function snippetFor(start, stop) {
    const key = `${start}-${stop}-${where.value}`;
    if (recording || key === lastCopy) return info.copy;
    lastCopy = key;
    return (await ask("rows", { file: file.number, start, count: Math.max(Math.min(stop - start, 500), 0), numbers: matches?.length ? numberAt(0) : undefined, where: matches ? where.value.trim() : undefined }, here.signal)).copy;
  }

  function render(place) {
    const page = pages.get(Math.floor(place / PAGE));
    const number = numberAt(place);
    const row = Array.isArray(page) ? page[place % PAGE] : null;
    const element = h("div", { class: place === shown?.current ? "chosen" : "" }, h("span.num.mono.soft", { role: "rowheader" }, format.count(number)));
    const damage = damages.get(number);
    if (damage) {
      element.classList.add("damaged");
      if (damage.behind) element.classList.add("behind");
      element.firstChild.title = `Damage ${damage.behind ? "behind" : "before"} this row: ${visible(damage.problem)}`;
      append(element.firstChild, [h("span.warning", null, " ⚠")]);
    }
    if (page?.error) append(element, [h("span", { style: { "grid-column": "2 / -1" } }, visible(page.error))]);
    else if (row?.problem) { element.classList.add("bad"); append(element, [h("span", { style: { "grid-column": "2 / -1" }, title: visible(row.problem) }, `cannot be read: ${visible(row.problem)}`)]); }
    else append(element, columns.map((column, index) => cell(row?.cells[index], number, index)));
    return element;
  }

  function cell(found, row, column) {
    if (!found) return h("span.cell", { role: "gridcell" }, h("i.ghost"));
    const box = h(`span.cell.${found.kind}`, { role: "gridcell" });
    if (numeric(columns[column])) box.classList.add("right");
    if (found.media?.startsWith("image/")) {
      const source = address("media", { file: file.number, row, column });
      return append(box, [h("button", { type: "button", "aria-label": `Picture of row ${row}`, onclick: () => open(found, row, column) }, source ? h("img", { src: source, alt: visible(found.text), loading: "lazy", decoding: "async" }) : found.text)]);
    }
    const text = found.kind === "sound" ? `♪ ${found.text}` : visible(found.text);
    if (found.more || found.kind === "sound") return append(box, [h("button", { type: "button", title: "Show all of it", onclick: () => open(found, row, column) }, h("bdi", null, text))]);
    return append(box, [h("bdi", null, text)]);
  }

  // Panels

  function drawer(name, ...children) {
    document.querySelector(".drawer")?.remove();
    const before = document.activeElement;
    const close = h("button.button.close", { type: "button", "aria-label": "Close", onclick: () => { panel.remove(); before?.focus(); } }, "✕");
    const panel = h("aside.drawer", { role: "dialog", "aria-label": "Details" }, h("header", null, h("h2", null, name), close), children);
    document.body.append(panel);
    close.focus();
    return panel;
  }

  async function open(found, row, column) {
    const body = h("div", null, waiting());
    drawer(named(columns[column].name.slice(0, 200)), h("p.caption", null, `Row ${format.count(row)} · ${visible(found.text).slice(0, 80)}`), body);
    const source = found.media ? address("media", { file: file.number, row, column }) : null;
    if (source && found.media.startsWith("image/")) return replace(body, h("img", { src: source, alt: visible(found.text), style: { width: found.width && found.width < 200 ? "100%" : "auto" } }));
    if (source) return replace(body, h("audio", { src: source, controls: true }));
    try {
      const answer = await ask("value", { file: file.number, row, column }, here.signal);
      const text = typeof answer.value === "string" ? answer.value : layOut(answer.value);
      return replace(body, h("pre", { tabindex: 0 }, h("bdi", null, visible(text).replaceAll("\\u000a", "\n"))), answer.whole ? null : h("p.caption", null, "There is more of it: this is the start."));
    } catch (error) { return error.name === "AbortError" ? null : replace(body, failure(error)); }
  }

  function openColumn(column) {
    const body = h("div", null, waiting("Reading all rows")), bar = h("i");
    const progress = h("div.progress", null, bar);
    drawer(named(column.name.slice(0, 200)), h("p.caption", null, `${column.dtype} ${format.shape(column.shape.slice(1)).replace("scalar", "")} ${column.kind === "dense" || column.kind === "string" ? "" : column.kind}`), progress, body);
    follow("column", { file: file.number, column: column.number }, (answer) => {
      bar.style.width = answer.total ? `${(100 * answer.done) / answer.total}%` : "0";
      if (answer.copy) here.setCopy(answer.copy);
      if (answer.error) replace(body, failure(answer));
      const found = answer.items[0];
      if (!found) return;
      progress.classList.add("done");
      replace(body, h("p.caption", { style: { "margin-bottom": "10px" } }, `${format.plural(found.rows, "row")}${found.missing ? `, ${format.count(found.missing)} lack it` : ""}`), distribution(found.values),
        found.frequent?.length && found.frequent[0][1] > 1 ? [h("h3", { style: { "font-weight": 600, margin: "16px 0 6px" } }, "Most frequent"), h("table", null, h("tbody", null, found.frequent.slice(0, 12).map(([text, times]) =>
          h("tr", null, h("td", { style: { "white-space": "normal", "padding-left": 0 } }, h("bdi.mono", null, visible(text) || "(empty)")), h("td.num", null, format.count(times))))))] : null);
    }, here.signal).catch((error) => { if (error.name !== "AbortError") replace(body, failure(error)); });
  }

  // Search and filters

  const where = h("input", { type: "text", placeholder: example(columns), "aria-label": "Condition on rows", style: { flex: "2 1 220px", "font-family": "var(--mono)" }, value: here.query.get("where") ?? "" });
  const text = h("input", { type: "search", placeholder: "Search text", "aria-label": "Search text in all columns", style: { flex: "1 1 130px" }, value: here.query.get("text") ?? "" });
  const go = h("input", { type: "number", min: 0, max: Math.max(total - 1, 0), placeholder: "Go to row", "aria-label": "Go to row", "data-go": "1", style: { width: "112px" } });
  const state = h("span.hint", { role: "status", style: { "min-width": "12ch" } }), wrong = h("div"), none = h("p.nothing", { hidden: true }, "No row fits.");
  const clear = h("button.button", { type: "button", hidden: true, onclick: () => { where.value = text.value = ""; filter(); } }, "Show all");
  const csv = recording ? null : h("a.button", { download: "", title: "The rows that are shown, as CSV" }, "Download CSV");

  function refuse({ error, hint }) {
    state.textContent = "";
    replace(wrong, h("div.note.bad", { role: "alert", style: { "margin-bottom": "12px" } }, h("p", null, visible(error)), hint ? h("p", null, visible(hint)) : null));
  }

  async function filter() {
    searching?.abort();
    searching = new AbortController();
    here.signal.addEventListener("abort", () => searching.abort(), { once: true });
    const asked = { where: where.value.trim(), text: text.value.trim() };
    here.keep({ ...asked, row: null });
    pages.clear();
    replace(wrong);
    none.hidden = true;
    clear.hidden = !asked.where && !asked.text;
    if (csv) csv.href = address("table", { file: file.number, where: asked.where || undefined, text: asked.text || undefined });
    if (clear.hidden) { matches = null; state.textContent = ""; shown.refresh(count()); return; }
    matches = [];
    shown.refresh(0);
    const own = searching.signal;
    try {
      const end = await follow("search", { file: file.number, ...asked }, (answer) => {
        const before = matches.length;
        matches.push(...answer.items);
        if (before % PAGE) pages.delete(Math.floor(before / PAGE));
        state.textContent = `${format.count(matches.length)} found${answer.finished ? "" : `, ${answer.total ? format.percent(answer.done, answer.total) : format.count(answer.done)} read`}`;
        if (answer.items.length) shown.refresh(matches.length);
      }, own);
      if (end.error) refuse(end);
      else none.hidden = matches.length > 0;
      if (end.full) state.textContent += ", and more";
    } catch (error) { if (error.name !== "AbortError") refuse({ error: error.message, hint: error.hint }); }
  }
  for (const field of [where, text]) field.addEventListener("keydown", (event) => { if (event.key === "Enter") filter(); });
  text.addEventListener("search", () => { if (!text.value) filter(); });
  go.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || go.value === "") return;
    const row = Math.max(0, Math.min(Number(go.value), total - 1));
    if (matches) { where.value = text.value = ""; filter(); }
    shown.go(row);
    shown.box.focus();
    say(`Row ${format.count(row)}`);
  });

  // Damage

  const damageNote = h("div");
  function mark(items) {
    // Damaged rows are left out: the place of each is before the row that has its number now.
    damages = new Map(items.map((each) => [Math.min(each.record ?? 0, total - 1), { problem: each.problem, behind: (each.record ?? 0) >= total }]));
    if (items.length) replace(damageNote, h("div.note.bad", { role: "alert" }, `${format.plural(items.length, "damaged place")}: `, items.slice(0, 20).map((each) => h("button.button", { type: "button", style: { margin: "0 4px 4px 0" }, title: visible(each.problem), onclick: () => shown.go(Math.min(each.record ?? 0, total - 1)) }, `before row ${format.count(each.record ?? 0)}${each.offset !== null ? `, byte ${format.count(each.offset)}` : ""}`)), h("p", null, visible(items[0].problem))));
    shown.refresh();
  }
  const check = recording ? null : h("button.button", { type: "button", title: "Read everything, and check every checksum", onclick: async () => {
    check.disabled = true;
    const found = [];
    try {
      const end = await follow("damages", { file: file.number, all: 1 }, (answer) => { found.push(...answer.items); check.textContent = answer.total ? `Checking ${format.percent(answer.done, answer.total)}` : "Checking"; }, here.signal);
      mark(found);
      check.textContent = end.error ? "Check" : found.length ? format.plural(found.length, "problem") : "All sound ✓";
    } catch (error) { if (error.name !== "AbortError") check.textContent = "Check"; }
    check.disabled = false;
  } }, "Check");

  // The table

  let shown = null;
  const holder = h("div.flush"), headBox = h("div.heads", { role: "row" });
  function make() {
    const first = shown ? shown.first : Number(here.query.get("row") ?? 0);
    const columnsNow = widths();
    headBox.style.gridTemplateColumns = columnsNow;
    headBox.style.setProperty("--least", narrow());
    replace(headBox, h("div.num", { role: "columnheader" }, "Row"), columns.map((column) => h(numeric(column) ? "div.num" : "div", { role: "columnheader", title: `${visible(column.name).slice(0, 300)}: ${column.dtype}` }, h("button", { type: "button", onclick: () => openColumn(column) }, h("bdi", { style: { color: "var(--ink)", "font-weight": 560 } }, visible(column.name).slice(0, 120) || "(no name)"), " ", h("span", null, column.dtype)))));
    shown = list({ height: `min(${Math.max(Math.min(count(), 1e6), 3) * (pictures ? 68 : 34)}px, calc(100vh - 300px))`, count: count(), rowHeight: pictures ? 68 : 34, label: "Rows", columns: () => columnsNow, head: headBox, render,
      scrolled: (from, end, top) => { wanted(from, end); if (!matches) remember(Math.round(top)); tell(from, end); } });
    shown.box.style.minHeight = "220px";
    shown.box.style.setProperty("--least", narrow());
    replace(holder, shown.box);
    if (first) requestAnimationFrame(() => shown.go(first, false));
  }
  make();
  const lost = listed.tensors.filter((column) => column.unreadable);
  here.put(h("div.stack", null, h("section.card", null, facts(info)), remarks({ ...info, problems: [] }), damageNote,
    lost.length ? h("div.note", null, lost.map((column) => h("p", null, `The column ${visible(column.name).slice(0, 100)} cannot be read: ${visible(column.unreadable)}`))) : null,
    info.verified ? null : h("div.note", null, "The file is large: checksums of its rows are verified only by “Check”."),
    h("section.card", null, h("div.bar", null, recording ? null : [where, text, h("button.button.main", { type: "button", onclick: () => filter() }, "Filter")], clear, state, go, csv, check), wrong, headBox, none, holder), metadata(info)));
  here.setCopy(info.copy);
  if (where.value || text.value) filter(); else if (csv) csv.href = address("table", { file: file.number });
  const known = await ask("damages", { file: file.number }, here.signal).catch(() => null);
  if (known?.items.length) mark(known.items);
  else if (info.problems.length) mark(info.problems);
}

/** A condition on the columns that there are. */
function example(columns) {
  const plain = columns.filter((column) => /^[A-Za-z_]\w*$/.test(column.name) && column.name.length < 24);
  const number = plain.find((column) => column.dtype !== "string" && column.kind === "dense" && column.shape.length === 1);
  const long = plain.find((column) => column.kind === "ragged"), text = plain.find((column) => column.dtype === "string");
  const found = [number && `${number.name} > 3`, long ? `len(${long.name}) > 9` : text && !number ? `"a" in ${text.name}` : null].filter(Boolean);
  return found.join(" and ") || "condition";
}

function layOut(value) {
  const text = JSON.stringify(value, null, 1);
  // Lists of numbers are read across, not down.
  return text.replace(/\[\s*((?:-?[\d.eE+-]+|"NaN"|"-?Infinity")(?:,\s*(?:-?[\d.eE+-]+|"NaN"|"-?Infinity"))*)\s*\]/g, (_, inner) => `[${inner.replace(/\s+/g, " ")}]`);
}
