// Two files: what belongs together, what changed and how much, down to the cells.

import { ask, askArrays, follow, recording } from "./api.js";
import { slices } from "./axes.js";
import { listing, step, tensorOf } from "./about.js";
import { chart, colours, palette } from "./charts.js";
import { append, choice, failure, h, named, replace, visible } from "./dom.js";
import * as format from "./format.js";
import { list, natural, sorter } from "./list.js";

export async function showComparison(here, a, b) {
  if (!a || !b || a.error || b.error) throw new Error((a?.error || b?.error) ?? "two files are expected");
  if (a.holds !== "tensors" && b.holds !== "tensors") return compareRows(here, a, b);
  if (here.parts[3]) return showPair(here, a, b, here.parts.slice(3).join("/"));
  return compareTensors(here, a, b);
}

const hrefOf = (a, b, tensor, other) => `#/compare/${a.number}/${b.number}/${encodeURIComponent(`${step(tensor)}${other === tensor.number ? "" : ` ${other}`}`)}`;

function headline(a, b) {
  const last = (file) => file.name.replace(/\/+$/, "").split("/").pop().slice(0, 200) || file.name.slice(0, 200);
  return h("div.title", null, h("h1", null, h("span.tag", null, "A"), " ", named(last(a)), h("span.soft", null, "  →  "), h("span.tag", null, "B"), " ", named(last(b))));
}

async function compareTensors(here, a, b) {
  const [listedA, listedB] = await Promise.all([listing(a), listing(b)]);
  const rows = [];
  let names = null, order = [], by = "relative", down = true, show = here.query.get("show") ?? "changed";
  const bar = h("i"), progress = h("div.progress", { role: "progressbar", "aria-label": "Comparison" }, bar), state = h("span.hint", { role: "status" }), sums = h("dl.facts"), grid = h("div");
  const value = (row) => (by === "name" ? row.name : row.change?.[by]);
  const arrange = () => {
    order = rows.filter((row) => (show === "all" ? true : show === "changed" ? row.change && !row.change.equal : show === "renamed" ? row.renamed : show === "a" ? row.side === "a" : show === "b" ? row.side === "b" : row.change?.equal));
    order.sort((x, y) => {
      const [one, other] = [value(x) ?? (x.change && !x.change.equal ? Infinity : null), value(y) ?? (y.change && !y.change.equal ? Infinity : null)];
      if (one === null || other === null) return (one === null) - (other === null);
      if (typeof one === "string") return (down ? -1 : 1) * natural.compare(one, other);
      return one === other ? 0 : (down ? -1 : 1) * (one - other);
    });
    shown.refresh(order.length);
    empty.hidden = order.length > 0;
  };
  const trouble = h("div"), keys = [["name", "Tensor"], ["relative", "Relative change"], ["largest", "Largest"], ["mean", "Mean"], ["cosine", "Cosine"], ["differing", "Differ"]];
  const heads = h("div.heads", { role: "row" }, sorter(keys.map(([key, text], place) => ({ key, text, right: place > 1, falls: !["name", "cosine"].includes(key) })), [by, down], (key, falls) => {
    [by, down] = [key, falls];
    arrange();
  }));
  const most = () => Math.max(...rows.map((row) => Math.min(row.change?.relative ?? 0, 1)), 1e-12);
  const shown = list({ height: "420px", count: 0, rowHeight: 34, label: "Tensors of both files", head: heads, render: (place) => {
    const row = order[place], change = row.change;
    const tensor = row.a !== undefined ? listedA.byNumber.get(row.a) : null;
    const target = change && tensor && !["shape", "unreadable"].includes(change.reason) ? hrefOf(a, b, tensor, row.b) : null;
    const name = [h("bdi.name", { title: visible(row.name).slice(0, 300) }, visible(row.name).slice(0, 240)), row.renamed ? h("span.soft", null, " → ", h("bdi.name", null, visible(row.other).slice(0, 200))) : null];
    const told = !change ? h("span.tag.warn", null, row.side === "a" ? "only in A" : "only in B") : change.reason === "dtype" ? h("span.tag.warn", null, change.dtypes.join(" → ")) : change.reason === "shape" ? h("span.tag.warn", null, change.shapes.map(format.shape).join(" → ")) : change.reason === "unreadable" ? h("span.tag.bad", null, "unreadable") : change.equal ? h("span.tag.good", null, "equal") : change.nonfinite ? h("span.tag.bad", null, `${format.count(change.nonfinite)} not finite`) : change.largest === null ? h("span.tag.warn", null, "changed") : null;
    const part = change?.relative ?? null;
    return h(target ? "div.link" : "div", { onclick: target ? () => here.go(target) : null }, h(target ? "a" : "span", { href: target, role: "gridcell" }, name),
      h("span", { role: "gridcell" }, told ?? [h("span.mono", { style: { display: "inline-block", width: "74px", "text-align": "right" } }, part === null ? unbounded(change) : format.number(part, 3)), h("span.barred", null, h("i", { style: { width: `${Math.min(100, (100 * (part ?? 1)) / most())}%` } }))]),
      h("span.num.mono", { role: "gridcell" }, change && !change.equal ? format.number(change.largest, 3) : ""), h("span.num.mono", { role: "gridcell" }, change && !change.equal ? format.number(change.mean, 3) : ""), h("span.num.mono", { role: "gridcell" }, change && !change.equal && typeof change.cosine === "number" ? change.cosine.toFixed(4) : ""),
      h("span.num.mono", { role: "gridcell" }, change?.differing ? format.percent(change.differing, change.elements) : ""));
  } });
  const empty = h("p.caption", { style: { padding: "0 0 10px" }, hidden: true }, "There are none.");
  const filters = h("span");
  here.put(h("div.stack", null, headline(a, b), h("section.card", null, sums, progress), trouble, grid,
    h("section.card.changes", null, h("header", null, h("h2", null, "Tensors"), state, filters), empty, heads, h("div.flush", null, shown.box))));
  const tally = () => {
    const changed = rows.filter((row) => row.change && !row.change.equal).length, equal = rows.filter((row) => row.change?.equal).length;
    const counts = [["changed", "Changed", changed], ["equal", "Equal", equal], ["renamed", "Renamed", names?.renamed.length ?? 0], ["a", "Only in A", names?.only_a.length ?? 0], ["b", "Only in B", names?.only_b.length ?? 0]];
    replace(sums, counts.map(([, text, count]) => h("div", null, h("dt", null, text), h("dd", null, format.count(count)))));
    return counts;
  };
  const end = await follow("comparison", { a: a.number, b: b.number }, (answer) => {
    if (answer.copy) here.setCopy(answer.copy);
    for (const item of answer.items) {
      if (item.change === undefined) {
        names = item;
        for (const each of item.only_a) rows.push({ ...each, side: "a" });
        for (const each of item.only_b) rows.push({ ...each, side: "b" });
      } else rows.push({ ...item, renamed: item.name !== item.other });
    }
    bar.style.width = answer.total ? `${(100 * answer.done) / answer.total}%` : "4%";
    state.textContent = answer.finished ? "" : answer.total ? `${format.count(answer.done)} of ${format.count(answer.total)}` : "Reading names";
    if (answer.items.length) { tally(); arrange(); }
  }, here.signal);
  progress.classList.add("done");
  if (end.error) replace(trouble, failure(end));
  const counts = tally();
  if (!counts[0][2] && show === "changed") show = counts.find(([, , count]) => count)?.[0] ?? "all";
  replace(filters, choice("Show", [...counts.filter(([, , count]) => count).map(([key, text]) => [key, text]), ["all", "All"]], show, (next) => { show = next; here.keep({ show: next === "changed" ? null : next }); arrange(); }));
  arrange();
  shown.box.style.height = `${Math.min(Math.max(rows.length, 2) * 34, 560)}px`;
  const found = await ask("grid", { a: a.number, b: b.number }, here.signal).catch(() => null);
  if (found && found.rows.length > 1 && found.columns.length > 1) replace(grid, layerGrid(here, a, b, found, rows, listedA));
}

/** Why a change has no size in relation to what was there. */
function unbounded(change) {
  return change.nonfinite ? "not finite" : "from zero";
}

/** Layers down, their parts across, coloured by the relative change. */
function layerGrid(here, a, b, found, rows, listed) {
  const changes = new Map(rows.filter((row) => row.change).map((row) => [row.a, row]));
  const height = Math.max(found.rows.length * 17, 60) + 104, left = 190;
  let cells = [];
  const relative = (row) => (row?.change ? (row.change.equal ? 0 : row.change.relative ?? Infinity) : null);
  const most = Math.max(...found.cells.flat().map((number) => changes.get(number)?.change.relative ?? 0), 1e-12);
  const drawing = chart(height, "Relative change of each layer", (context, width) => {
    const c = colours(), shades = palette("sequential");
    const room = Math.min(left, width * 0.34), wide = Math.min((width - room) / found.columns.length, 90), high = 17;
    cells = [];
    context.textBaseline = "middle";
    context.font = "11px ui-monospace, monospace";
    found.rows.forEach((name, y) => {
      context.fillStyle = c.soft;
      context.textAlign = "right";
      context.fillText(visible(name).slice(-28), room - 8, y * high + high / 2, room - 12);
      found.columns.forEach((_, x) => {
        const number = found.cells[y][x], part = number === null ? null : relative(changes.get(number));
        const tone = part === null ? null : shades[Math.round(255 * Math.sqrt(Math.min(part / most, 1)))];
        context.fillStyle = tone === null ? c.faint : `rgb(${tone & 255} ${(tone >> 8) & 255} ${(tone >> 16) & 255})`;
        context.fillRect(room + x * wide + 0.5, y * high + 0.5, wide - 1, high - 1);
        cells.push({ x: room + x * wide, y: y * high, wide, high, number, part, name: `${name}${found.columns[x]}` });
      });
    });
    context.fillStyle = c.soft;
    found.columns.forEach((name, x) => {
      context.save();
      context.translate(room + x * wide + wide / 2, found.rows.length * high + 8);
      context.rotate(wide < 40 ? -Math.PI / 2.7 : -Math.PI / 5);
      context.textAlign = "right";
      context.fillText(visible(name).replace(/^[./]/, "").slice(0, 26), 0, 0);
      context.restore();
    });
  });
  const under = (event) => cells.find((cell) => event.offsetX >= cell.x && event.offsetX < cell.x + cell.wide && event.offsetY >= cell.y && event.offsetY < cell.y + cell.high);
  drawing.canvas.addEventListener("pointermove", (event) => { const cell = under(event); drawing.show(event.offsetX, event.offsetY, cell && cell.number !== null ? `${visible(cell.name)}\n${cell.part === 0 ? "equal" : cell.part === Infinity ? unbounded(changes.get(cell.number).change) : `relative change ${format.number(cell.part, 3)}`}` : ""); });
  drawing.canvas.addEventListener("pointerleave", () => drawing.show(0, 0, ""));
  drawing.canvas.addEventListener("click", (event) => { const row = changes.get(under(event)?.number); if (row && !["shape", "unreadable"].includes(row.change.reason)) here.go(hrefOf(a, b, listed.byNumber.get(row.a), row.b)); });
  drawing.canvas.classList.add("pointer");
  return h("section.card", null, h("header", null, h("h2", null, "Relative change by layer"), h("span.hint", null, `stronger is more, up to ${format.number(most, 3)}`)), drawing.box);
}

/** Two tensors: how much they differ, and where. */
async function showPair(here, a, b, text) {
  const [listedA, listedB] = await Promise.all([listing(a), listing(b)]);
  const match = text.match(/^(.*?)(?: (\d+))?$/s);
  let left = tensorOf(listedA, text), other = null;
  if (!left) { left = tensorOf(listedA, match[1]); other = Number(match[2]); }
  const right = left && (other === null || Number.isNaN(other) ? listedB.tensors.find((tensor) => tensor.name === left.name) : listedB.byNumber.get(other));
  if (!left || !right) throw new Error("there are no such tensors");
  const measures = h("dl.facts");
  const pair = { a: a.number, b: b.number, left: left.number, right: right.number };
  const dense = [left, right].every((tensor) => tensor.kind === "dense" && tensor.dtype !== "string") && left.shape.length > 0 && String(left.shape) === String(right.shape);
  here.put(h("div.stack", null, h("p", null, h("a", { href: `#/compare/${a.number}/${b.number}` }, "‹ all tensors")),
    h("div.title", null, h("h1", null, named(left.name.slice(0, 300)), right.name === left.name ? null : [h("span.soft", null, " → "), named(right.name.slice(0, 300))]), h("span.tag", null, `${left.dtype}${right.dtype === left.dtype ? "" : ` → ${right.dtype}`}`), h("span.tag", null, format.shape(left.shape))),
    h("section.card", null, measures), dense ? cellsCard(here, a, b, left, right, pair) : valuesCard(here, a, b, left, right)));
  replace(measures, h("div", null, h("dt", null, "Relative change"), h("dd", null, "–")));
  let found = null;
  await follow("comparison", { a: a.number, b: b.number }, (answer) => {
    found ??= answer.items.find((item) => item.change && item.a === left.number && item.b === right.number)?.change;
    if (answer.copy && !dense) here.setCopy(answer.copy);
  }, here.signal);
  if (found) replace(measures, measuresOf(found).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}

function measuresOf(change) {
  if (change.equal) return [["Change", "none: the values are equal"]];
  const cosine = typeof change.cosine === "number" ? change.cosine.toFixed(6) : "–";
  return [["Relative change", format.number(change.relative, 4)], ["Not finite in one", change.nonfinite ? format.count(change.nonfinite) : "–"], ["Largest", format.number(change.largest, 4)], ["Mean", format.number(change.mean, 4)], ["Cosine", cosine],
    ["Differ", change.elements ? `${format.count(change.differing)} of ${format.count(change.elements)}` : format.count(change.differing)]].filter(([, value]) => value !== "–");
}

/** The cells of two tensors of numbers, or their difference. */
function cellsCard(here, a, b, left, right, pair) {
  let mode = here.query.get("of") ?? "difference";
  const map = slices(here, {
    shape: left.shape, diverging: true, height: left.shape.length === 1 ? 90 : 460, label: `Cells of ${visible(left.name).slice(0, 100)}`,
    load: (parameters, signal) => {
      const [file, tensor] = mode === "a" ? [a, left] : [b, right];
      if (mode !== "difference") return askArrays("plane", { file: file.number, tensor: tensor.number, ...parameters }, signal);
      return askArrays("difference", { ...pair, ...parameters, rank: undefined, reduce: "largest" }, signal).then((answer) => ({ ...answer, reduce: "largest change" }));
    },
  });
  const sides = choice("Show", [["difference", "B − A"], ["a", "A"], ["b", "B"]], mode, (next) => {
    mode = next;
    here.keep({ of: mode === "difference" ? null : mode });
    map.reload({ range: null });
  });
  return h("section.card", null, h("header", null, h("h2", null, "Cells"), sides, map.tools), map.body);
}

/** What is no plane of numbers: the values of both, beside each other. */
function valuesCard(here, a, b, left, right) {
  const body = h("tbody"), state = h("span.caption", { role: "status" }), more = h("button.button", { type: "button", hidden: true, onclick: () => load() }, "Show more");
  const sides = [[a, left], [b, right]].map(([file, tensor]) => ({ file, tensor, found: new Map(), size: 1 }));
  const order = (x, y) => { const at = x.findIndex((each, axis) => each !== y[axis]); return at < 0 ? 0 : x[at] - y[at]; };
  async function load() {
    more.disabled = true;
    try {
      await Promise.all(sides.map(async (side) => {
        const answer = await ask("values", { file: side.file.number, tensor: side.tensor.number, start: side.found.size || undefined }, here.signal);
        answer.cells.forEach((cell, place) => side.found.set(String(answer.places[place]), visible(cell.text)));
        side.size = answer.size;
      }));
      // Entries of sparse tensors stand in order: beyond the last of one side, that side is not known yet.
      const ends = sides.filter((side) => side.found.size < side.size).map((side) => [...side.found.keys()].pop().split(",").map(Number));
      const places = [...new Set(sides.flatMap((side) => [...side.found.keys()]))].map((text) => (text ? text.split(",").map(Number) : [])).sort(order);
      const known = places.filter((place) => ends.every((end) => order(place, end) <= 0));
      replace(body, known.map((place) => {
        const [before, after] = sides.map((side) => side.found.get(String(place)));
        return h("tr", null, h("td.num.soft", null, left.shape.length ? `[${place.join(", ")}]` : ""), [before, after].map((text) => h(before === after ? "td" : "td.differs", { style: { "white-space": "normal", width: "50%" } }, h("bdi.mono", null, text ?? "–"))));
      }));
      more.hidden = !ends.length || Boolean(recording);
      state.textContent = ends.length ? `${format.count(known.length)} of ${format.count(Math.max(...sides.map((side) => side.size)))}` : format.plural(known.length, "value");
    } catch (error) { if (error.name !== "AbortError") state.textContent = visible(error.message); }
    more.disabled = false;
  }
  load();
  return h("section.card", null, h("header", null, h("h2", null, "Values"), state, more), h("div.wide", { style: { "max-height": "560px", "overflow-y": "auto" } }, h("table", null, h("thead", null, h("tr", null, ["", "A", "B"].map((name) => h("th", null, name)))), body)));
}

// Rows

async function compareRows(here, a, b) {
  const [listedA, listedB] = await Promise.all([listing(a), listing(b)]);
  const shared = listedA.tensors.filter((column) => listedB.tensors.some((other) => other.name === column.name));
  const placeB = new Map(listedB.tensors.map((column, place) => [column.name, place]));
  let pairs = [], key = here.query.get("key") ?? "", running = null;
  const cache = new Map(), state = h("span.hint", { role: "status" }), holder = h("div.flush"), headBox = h("div.heads", { role: "row" });
  const columns = `var(--number, 84px) var(--number, 84px) ${shared.map(() => "minmax(120px, 1fr)").join(" ")}`;
  headBox.style.gridTemplateColumns = columns;
  replace(headBox, h("div.num", null, "Row A"), h("div.num", null, "Row B"), shared.map((column) => h("div", null, named(column.name.slice(0, 100)))));
  const fetchPage = async (page) => {
    if (cache.has(page)) return;
    cache.set(page, null);
    const some = pairs.slice(page * 50, page * 50 + 50);
    try {
      cache.set(page, await ask("row_pairs", { a: a.number, b: b.number, left: some.map((pair) => pair[0]).join(","), right: some.map((pair) => pair[1]).join(",") }, here.signal));
    } catch (error) { cache.delete(page); }
    shown.refresh(pairs.length);
  };
  const shown = list({ height: "520px", count: 0, rowHeight: 50, label: "Rows that differ", columns: () => columns, head: headBox, scrolled: (first, end) => { for (let page = Math.floor(first / 50); page <= Math.floor(Math.max(end - 1, 0) / 50) && page * 50 < pairs.length; page += 1) fetchPage(page); }, render: (place) => {
    const [left, right, differing] = pairs[place], found = cache.get(Math.floor(place / 50)), at = place % 50;
    const one = found?.a.rows[at], two = found?.b.rows[at];
    const where = (number) => h("span.num.mono.soft", null, number < 0 ? "–" : format.count(number));
    return h("div", null, where(left), where(right), shared.map((column) => {
      const x = one?.cells[found.a.columns.indexOf(column.name)], y = two?.cells[found.b.columns.indexOf(column.name)];
      if (!found) return h("span.cell", null, h("i.ghost"));
      if (left >= 0 && right >= 0 && !differing.includes(column.name)) return h("span.cell.soft", null, h("bdi", null, visible(x?.text ?? "")));
      return h("span.cell.differs", null, [["A", x], ["B", y]].map(([side, each]) => h("div", null, h("small", null, side), h("bdi", null, each ? visible(each.text) || "∅" : "–"))));
    }));
  } });
  replace(holder, shown.box);
  const select = h("select", { "aria-label": "Rows belong together by", onchange: () => { key = select.value; here.keep({ key }); run(); } }, h("option", { value: "" }, "by position"), shared.filter((column) => column.shape.length === 1).map((column) => h("option", { value: column.name, selected: column.name === key }, `by ${visible(column.name).slice(0, 40)}`)));
  const only = [["A", listedA.tensors.filter((column) => !placeB.has(column.name))], ["B", listedB.tensors.filter((column) => !shared.some((other) => other.name === column.name))]].filter(([, columnsOnly]) => columnsOnly.length);
  here.put(h("div.stack", null, headline(a, b), only.map(([side, found]) => h("div.note", null, `Only ${side} has the column${found.length > 1 ? "s" : ""} ${found.slice(0, 8).map((column) => visible(column.name).slice(0, 60)).join(", ")}.`)),
    h("section.card", null, h("header", null, h("h2", null, "Rows that differ"), state, recording ? null : select), headBox, holder)));
  async function run() {
    running?.abort();
    running = new AbortController();
    const own = AbortSignal.any([running.signal, here.signal]);
    pairs = [];
    cache.clear();
    shown.refresh(0);
    try {
      const end = await follow("row_differences", { a: a.number, b: b.number, key: key || undefined }, (answer) => {
        if (answer.copy) here.setCopy(answer.copy);
        if (pairs.length % 50) cache.delete(Math.floor(pairs.length / 50));
        pairs.push(...answer.items);
        state.textContent = answer.finished ? (pairs.length ? `${format.plural(pairs.length, "row")} ${pairs.length === 1 ? "differs" : "differ"}` : "All rows are equal") : `${format.count(pairs.length)} so far`;
        if (answer.items.length) shown.refresh(pairs.length);
      }, own);
      shown.box.style.height = `min(${Math.max(pairs.length, 1) * 50}px, 70vh)`;
      if (end.error) state.textContent = visible(end.error);
      if (end.full) state.textContent += ", and more";
    } catch (error) { if (error.name !== "AbortError") state.textContent = visible(error.message); }
  }
  await run();
}
