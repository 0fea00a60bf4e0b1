// Two files: which tensors belong together, which changed, and by how much.

import { headline, listing, step } from "./about.js";
import { ask, follow } from "./api.js";
import { chart, colours, palette } from "./charts.js";
import { choice, failure, h, replace, visible } from "./dom.js";
import * as format from "./format.js";
import { list, natural, sorter } from "./list.js";
import { showPair } from "./pair.js";
import { compareRows } from "./rowpairs.js";

export async function showComparison(here, a, b) {
  if (!a || !b || a.error || b.error) throw new Error((a?.error || b?.error) ?? "two files are expected");
  if (a.holds !== "tensors" && b.holds !== "tensors") return compareRows(here, a, b);
  if (here.parts[3]) return showPair(here, a, b, here.parts.slice(3).join("/"));
  return compareTensors(here, a, b);
}

const hrefOf = (a, b, tensor, other) =>
  `#/compare/${a.number}/${b.number}/${encodeURIComponent(`${step(tensor)}${other === tensor.number ? "" : ` ${other}`}`)}`;

async function compareTensors(here, a, b) {
  const listedA = await listing(a);
  const rows = [];
  let names = null,
    order = [],
    by = "relative",
    down = true,
    show = here.query.get("show") ?? "changed";
  const bar = h("i"),
    progress = h("div.progress", { role: "progressbar", "aria-label": "Comparison" }, bar),
    state = h("span.hint", { role: "status" }),
    sums = h("dl.facts"),
    grid = h("div");
  const value = (row) => (by === "name" ? row.name : row.change?.[by]);
  const arrange = () => {
    order = rows.filter((row) =>
      show === "all"
        ? true
        : show === "changed"
          ? row.change && !row.change.equal
          : show === "renamed"
            ? row.renamed
            : show === "a"
              ? row.side === "a"
              : show === "b"
                ? row.side === "b"
                : row.change?.equal && !row.renamed,
    );
    order.sort((x, y) => {
      const [one, other] = [
        value(x) ?? (x.change && !x.change.equal ? Infinity : null),
        value(y) ?? (y.change && !y.change.equal ? Infinity : null),
      ];
      if (one === null || other === null) return (one === null) - (other === null);
      if (typeof one === "string") return (down ? -1 : 1) * natural.compare(one, other);
      return one === other ? 0 : (down ? -1 : 1) * (one - other);
    });
    shown.refresh(order.length);
    empty.hidden = order.length > 0;
  };
  const trouble = h("div"),
    keys = [
      ["name", "Tensor"],
      ["relative", "Relative change"],
      ["largest", "Largest"],
      ["mean", "Mean"],
      ["cosine", "Cosine"],
      ["differing", "Differ"],
    ];
  const heads = h(
    "div.heads",
    { role: "row" },
    sorter(
      keys.map(([key, text], place) => ({ key, text, right: place > 1, falls: !["name", "cosine"].includes(key) })),
      [by, down],
      (key, falls) => {
        [by, down] = [key, falls];
        arrange();
      },
    ),
  );
  const most = () => Math.max(...rows.map((row) => Math.min(row.change?.relative ?? 0, 1)), 1e-12);
  const shown = list({
    height: "420px",
    count: 0,
    rowHeight: 34,
    label: "Tensors of both files",
    head: heads,
    render: (place) => {
      const row = order[place],
        change = row.change;
      const tensor = row.a !== undefined ? listedA.byNumber.get(row.a) : null;
      const target =
        change && tensor && !["shape", "unreadable"].includes(change.reason) ? hrefOf(a, b, tensor, row.b) : null;
      const name = [
        h("bdi.name", { title: visible(row.name).slice(0, 300) }, visible(row.name).slice(0, 240)),
        row.renamed ? h("span.soft", null, " → ", h("bdi.name", null, visible(row.other).slice(0, 200))) : null,
      ];
      const told = verdict(row);
      const part = change?.relative ?? null;
      return h(
        target ? "div.link" : "div",
        { onclick: target ? () => here.go(target) : null },
        h(target ? "a" : "span", { href: target, role: "gridcell" }, name),
        h(
          "span",
          { role: "gridcell" },
          told ?? [
            h(
              "span.mono",
              { style: { display: "inline-block", width: "74px", "text-align": "right" } },
              part === null ? unbounded(change) : format.number(part, 3),
            ),
            h("span.barred", null, h("i", { style: { width: `${Math.min(100, (100 * (part ?? 1)) / most())}%` } })),
          ],
        ),
        h("span.num.mono", { role: "gridcell" }, change && !change.equal ? format.number(change.largest, 3) : ""),
        h("span.num.mono", { role: "gridcell" }, change && !change.equal ? format.number(change.mean, 3) : ""),
        h(
          "span.num.mono",
          { role: "gridcell" },
          change && !change.equal && typeof change.cosine === "number" ? change.cosine.toFixed(4) : "",
        ),
        h(
          "span.num.mono",
          { role: "gridcell" },
          change?.differing ? format.percent(change.differing, change.elements) : "",
        ),
      );
    },
  });
  const empty = h("p.caption", { style: { padding: "0 0 10px" }, hidden: true }, "There are none.");
  const filters = h("span");
  here.put(
    h(
      "div.stack",
      null,
      headline(a, b),
      h("section.card", null, sums, progress),
      trouble,
      grid,
      h(
        "section.card.changes",
        null,
        h("header", null, h("h2", null, "Tensors"), state, filters),
        empty,
        heads,
        h("div.flush", null, shown.box),
      ),
    ),
  );
  const tally = () => {
    const changed = rows.filter((row) => row.change && !row.change.equal).length,
      equal = rows.filter((row) => row.change?.equal && !row.renamed).length;
    const counts = [
      ["changed", "Changed", changed],
      ["equal", "Equal", equal],
      ["renamed", "Renamed", names?.renamed.length ?? 0],
      ["a", "Only in A", names?.only_a.length ?? 0],
      ["b", "Only in B", names?.only_b.length ?? 0],
    ];
    replace(
      sums,
      counts.map(([, text, count]) => h("div", null, h("dt", null, text), h("dd", null, format.count(count)))),
    );
    return counts;
  };
  const end = await follow(
    "comparison",
    { a: a.number, b: b.number },
    (answer) => {
      if (answer.copy) here.setCopy(answer.copy);
      for (const item of answer.items) {
        if (item.change === undefined) {
          names = item;
          for (const each of item.only_a) rows.push({ ...each, side: "a" });
          for (const each of item.only_b) rows.push({ ...each, side: "b" });
        } else rows.push({ ...item, renamed: item.name !== item.other });
      }
      bar.style.width = answer.total ? `${(100 * answer.done) / answer.total}%` : "4%";
      state.textContent = answer.finished
        ? ""
        : answer.total
          ? `${format.count(answer.done)} of ${format.count(answer.total)}`
          : "Reading names";
      if (answer.items.length) {
        tally();
        arrange();
      }
    },
    here.signal,
  );
  progress.classList.add("done");
  if (end.error) replace(trouble, failure(end));
  const counts = tally();
  if (!counts[0][2] && show === "changed") show = counts.find(([, , count]) => count)?.[0] ?? "all";
  replace(
    filters,
    choice(
      "Show",
      [...counts.filter(([, , count]) => count).map(([key, text]) => [key, text]), ["all", "All"]],
      show,
      (next) => {
        show = next;
        here.keep({ show: next === "changed" ? null : next });
        arrange();
      },
    ),
  );
  arrange();
  shown.box.style.height = `${Math.min(Math.max(rows.length, 2) * 34, 560)}px`;
  const found = await ask("grid", { a: a.number, b: b.number }, here.signal).catch(() => null);
  if (found && found.rows.length > 1 && found.columns.length > 1)
    replace(grid, layerGrid(here, a, b, found, rows, listedA));
}

/** What is said of a tensor in place of how much it changed; null if that can be said. */
function verdict({ change, side }) {
  const tag = (kind, text) => h(`span.tag.${kind}`, null, text);
  if (!change) return tag("warn", side === "a" ? "only in A" : "only in B");
  if (change.reason === "dtype") return tag("warn", change.dtypes.join(" → "));
  if (change.reason === "shape") return tag("warn", change.shapes.map(format.shape).join(" → "));
  if (change.reason === "unreadable") return tag("bad", "unreadable");
  if (change.equal) return tag("good", "equal");
  if (change.nonfinite) return tag("bad", `${format.count(change.nonfinite)} not finite`);
  return change.largest === null ? tag("warn", "changed") : null;
}

/** Why a change has no size in relation to what was there. */
function unbounded(change) {
  return change.nonfinite ? "not finite" : "from zero";
}

/** Layers down, their parts across, coloured by the relative change. */
function layerGrid(here, a, b, found, rows, listed) {
  const changes = new Map(rows.filter((row) => row.change).map((row) => [row.a, row]));
  const height = Math.max(found.rows.length * 17, 60) + 104,
    left = 190;
  let cells = [];
  const relative = (row) => (row?.change ? (row.change.equal ? 0 : (row.change.relative ?? Infinity)) : null);
  const most = Math.max(...found.cells.flat().map((number) => changes.get(number)?.change.relative ?? 0), 1e-12);
  const drawing = chart(height, "Relative change of each layer", (context, width) => {
    const c = colours(),
      shades = palette("sequential");
    const room = Math.min(left, width * 0.34),
      wide = Math.min((width - room) / found.columns.length, 90),
      high = 17;
    cells = [];
    context.textBaseline = "middle";
    context.font = "11px ui-monospace, monospace";
    found.rows.forEach((name, y) => {
      context.fillStyle = c.soft;
      context.textAlign = "right";
      context.fillText(visible(name).slice(-28), room - 8, y * high + high / 2, room - 12);
      found.columns.forEach((_, x) => {
        const number = found.cells[y][x],
          part = number === null ? null : relative(changes.get(number));
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
  const under = (event) =>
    cells.find(
      (cell) =>
        event.offsetX >= cell.x &&
        event.offsetX < cell.x + cell.wide &&
        event.offsetY >= cell.y &&
        event.offsetY < cell.y + cell.high,
    );
  drawing.canvas.addEventListener("pointermove", (event) => {
    const cell = under(event);
    drawing.show(
      event.offsetX,
      event.offsetY,
      cell && cell.number !== null
        ? `${visible(cell.name)}\n${cell.part === 0 ? "equal" : cell.part === Infinity ? unbounded(changes.get(cell.number).change) : `relative change ${format.number(cell.part, 3)}`}`
        : "",
    );
  });
  drawing.canvas.addEventListener("pointerleave", () => drawing.show(0, 0, ""));
  drawing.canvas.addEventListener("click", (event) => {
    const row = changes.get(under(event)?.number);
    if (row && !["shape", "unreadable"].includes(row.change.reason))
      here.go(hrefOf(a, b, listed.byNumber.get(row.a), row.b));
  });
  drawing.canvas.classList.add("pointer");
  return h(
    "section.card",
    null,
    h(
      "header",
      null,
      h("h2", null, "Relative change by layer"),
      h("span.hint", null, `stronger is more, up to ${format.number(most, 3)}`),
    ),
    drawing.box,
  );
}
