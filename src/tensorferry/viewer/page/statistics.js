// Statistics of all tensors: which are dead, exploding, all zero.

import { link, listing, step } from "./about.js";
import { follow } from "./api.js";
import { h, visible } from "./dom.js";
import * as format from "./format.js";
import { list, natural, sorter } from "./list.js";

function verdict(found, dtype = "float32") {
  if (!found) return null;
  if (found.error) return ["bad", "cannot be read"];
  const { count, zeros, nan, infinite, minimum, maximum, deviation } = found.values;
  if (nan || infinite)
    return [
      "bad",
      [nan && `${format.count(nan)} NaN`, infinite && `${format.count(infinite)} infinite`].filter(Boolean).join(", "),
    ];
  if (!count) return ["", "empty"];
  if (found.values.distinct !== null) return null;
  if (zeros === count) return ["warn", "all zero"];
  if (minimum === maximum && count > 1) return ["warn", "constant"];
  if (dtype.includes("float") && Math.max(Math.abs(minimum), Math.abs(maximum)) > 1e4 && deviation > 1e3)
    return ["warn", "very large"];
  if (count > 16 && deviation < 1e-6 && deviation > 0) return ["warn", "nearly constant"];
  if (zeros > count * 0.5) return ["", `${format.percent(zeros, count)} zero`];
  return null;
}

export async function showStatistics(here, file) {
  const found = await listing(file);
  const rows = found.tensors.map((tensor) => ({ tensor, name: tensor.name, number: tensor.number, found: null }));
  const byNumber = new Map(rows.map((row) => [row.number, row]));
  let order = [...rows];
  let [by, down] = (here.query.get("sort") ?? "number").endsWith("-")
    ? [here.query.get("sort").slice(0, -1), true]
    : [here.query.get("sort") ?? "number", false];
  const columns = "minmax(190px, 1.4fr) 150px repeat(6, minmax(84px, .5fr))";
  const keys = [
    ["name", "Name"],
    ["verdict", "Remarkable"],
    ["minimum", "Min"],
    ["maximum", "Max"],
    ["mean", "Mean"],
    ["deviation", "Std"],
    ["zeros", "Zeros"],
    ["median", "Median"],
  ];
  const value = (row, key) => {
    if (key === "name" || key === "number") return row[key];
    if (!row.found || row.found.error) return null;
    const values = row.found.values;
    if (key === "verdict") {
      const told = verdict(row.found, row.tensor.dtype);
      return told ? (told[0] === "bad" ? 3 : told[0] === "warn" ? 2 : 1) : 0;
    }
    if (key === "zeros") return values.count ? values.zeros / values.count : null;
    const number = key === "median" ? values.quantiles["0.5"] : values[key];
    return number === undefined || number === null ? null : Number(number);
  };
  const arrange = () => {
    order = [...rows];
    order.sort((a, b) => {
      const [x, y] = [value(a, by), value(b, by)];
      if (x === null || y === null) return (x === null) - (y === null) || a.number - b.number;
      return (down ? -1 : 1) * (typeof x === "string" ? natural.compare(x, y) : x - y) || a.number - b.number;
    });
    shown.refresh(order.length);
  };
  const heads = h(
    "div.heads",
    { role: "row", style: { "grid-template-columns": columns } },
    sorter(
      keys.map(([key, text], place) => ({ key, text, right: place > 1, falls: place > 0 })),
      [by, down],
      (next, way) => {
        [by, down] = [next, way];
        here.keep({ sort: `${by}${down ? "-" : ""}` });
        arrange();
      },
    ),
  );
  const shown = list({
    height: `${Math.min(Math.max(rows.length, 1) * 32, 640)}px`,
    count: rows.length,
    rowHeight: 32,
    label: "Statistics",
    columns: () => columns,
    head: heads,
    render: (place) => {
      const row = order[place],
        told = verdict(row.found, row.tensor.dtype),
        values = row.found?.values,
        target = link(file.number, "tensor", step(row.tensor));
      const cells = ["minimum", "maximum", "mean", "deviation", "zeros", "median"].map((key) => {
        if (row.tensor.unreadable) return "";
        if (!row.found) return h("i.ghost");
        if (!values) return "";
        if (key === "zeros") return format.percent(values.zeros, values.count);
        return format.number(key === "median" ? values.quantiles["0.5"] : values[key], 4);
      });
      return h(
        "div.link",
        { onclick: () => here.go(target) },
        h(
          "a",
          { href: target, role: "gridcell" },
          h("bdi.name", { title: visible(row.name).slice(0, 400) }, visible(row.name).slice(0, 300)),
        ),
        h(
          "span",
          { role: "gridcell" },
          row.tensor.unreadable
            ? h("span.tag.bad", { title: visible(row.tensor.unreadable) }, "unreadable")
            : told
              ? h(
                  `span.tag.${told[0] || "quiet"}`,
                  { title: row.found.error ? visible(row.found.error) : null },
                  told[1],
                )
              : "",
        ),
        cells.map((cell) => h("span.num.mono", { role: "gridcell" }, cell)),
      );
    },
  });
  const bar = h("i"),
    progress = h("div.progress", { role: "progressbar", "aria-label": "Statistics" }, bar),
    state = h("span.hint", { role: "status" }, "");
  here.put(
    h(
      "section.card",
      null,
      h("header", null, h("h2", null, "Statistics of all tensors"), state),
      progress,
      h("div", { style: { height: "10px" } }),
      heads,
      h("div.flush", null, shown.box),
    ),
  );
  let drawn = 0;
  const end = await follow(
    "statistics",
    { file: file.number },
    (answer) => {
      for (const item of answer.items) {
        const row = byNumber.get(item.tensor);
        if (row) row.found = item;
      }
      const part = answer.total ? answer.done / answer.total : 1;
      bar.style.width = `${100 * part}%`;
      state.textContent = answer.finished
        ? ""
        : `${format.count(answer.done)} of ${format.count(answer.total ?? rows.length)} tensors`;
      here.setCopy(answer.copy);
      if (answer.items.length && (answer.finished || performance.now() - drawn > 250)) {
        drawn = performance.now();
        arrange();
      }
    },
    here.signal,
  );
  arrange();
  progress.classList.add("done");
  const warnings = rows.filter(
    (row) => row.found && ["bad", "warn"].includes(verdict(row.found, row.tensor.dtype)?.[0]),
  ).length;
  state.textContent = end.error
    ? visible(end.error)
    : warnings
      ? `${format.plural(warnings, "tensor")} to look at`
      : "nothing remarkable";
  progress.setAttribute("aria-valuenow", "100");
}
