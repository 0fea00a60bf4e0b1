// Weights: the tree of names, where the bytes are, and a list of all tensors.

import { facts, link, listing, metadata, remarks, step, tensorOf } from "./about.js";
import { ask, recording } from "./api.js";
import { treemap } from "./charts.js";
import { append, h, later, named, replace, visible } from "./dom.js";
import * as format from "./format.js";
import { list, natural, sorter } from "./list.js";

const sides = new Map();

/** The tree of names beside everything that is about tensors: one for each file, which stays as it was left. */
function sided(here, file, found, chosen, content) {
  if (!sides.has(file.number)) sides.set(file.number, sidebar(file, found));
  const side = sides.get(file.number),
    settle = side.choose(here, chosen);
  here.put(h("div.sided", null, side.box, content));
  settle();
}

function sidebar(file, found) {
  let here = null,
    chosen = null;
  const holder = h("div.tree", { role: "tree", "aria-label": "Tensors", tabindex: 0 });
  const total = found.tree.reduce((sum, branch) => Math.max(sum, branch.nbytes), 1);
  const search = h("input", {
    type: "search",
    placeholder: `Search ${format.plural(found.total, "tensor")}`,
    "aria-label": "Search tensors",
    style: { width: "100%" },
  });
  const tensors = found.tensors,
    all = found.tree.reduce((sum, branch) => sum + branch.nbytes, 0) || 1;

  function item(branch, depth, parent, open) {
    const leaf = branch.tensor !== null;
    const tensor = leaf ? tensors[branch.tensor] : null;
    const row = h(
      "div.branch",
      {
        role: "treeitem",
        tabindex: -1,
        "aria-level": depth + 1,
        "aria-expanded": leaf ? null : "false",
        style: { "--depth": depth },
        title: leaf ? `${visible(branch.name).slice(0, 300)}  ${tensor.dtype} ${format.shape(tensor.shape)}` : null,
      },
      h("span.mark", { "aria-hidden": "true" }, leaf ? "" : "▶"),
      h("span.label", null, h("bdi.mono", null, visible(branch.name).slice(0, 200) || "(no name)")),
      h(
        "span.amount",
        null,
        leaf ? format.shape(tensor.shape) : branch.alike ? `× ${branch.below.length}` : format.size(branch.nbytes),
      ),
      h("span.weight", null, h("i", { style: { width: `${(100 * branch.nbytes) / total}%` } })),
    );
    const below = h("div", { role: "group", hidden: true });
    let filled = false;
    const toggle = (next) => {
      if (leaf) return here.go(link(file.number, "tensor", step(tensor)));
      if (!filled) {
        filled = true;
        const most = 400;
        append(
          below,
          branch.below
            .slice(0, most)
            .map((each) => item(each, depth + 1, row, !branch.alike && depth < 2 && each.nbytes > 0.5 * all)),
        );
        if (branch.below.length > most)
          append(below, [
            h(
              "p.hint",
              { style: { padding: "4px 26px" } },
              `and ${format.count(branch.below.length - most)} more: search for them`,
            ),
          ]);
      }
      below.hidden = !(next ?? below.hidden);
      row.setAttribute("aria-expanded", String(!below.hidden));
      return null;
    };
    row.addEventListener("click", () => {
      toggle();
      row.focus();
    });
    row.toggle = toggle;
    row.parent = parent;
    if (leaf) row.tensor = tensor.number;
    if (open && !leaf && !branch.alike) toggle(true);
    return [row, below];
  }

  function tree() {
    const small = found.tensors.length <= 40;
    replace(
      holder,
      found.tree.map((branch) => item(branch, 0, null, small || found.tree.length === 1 || branch.nbytes > 0.5 * all)),
    );
    mark();
  }

  /** Opens the branches above the tensor that is shown, and marks it. */
  function mark() {
    for (const row of holder.querySelectorAll("[aria-selected]")) row.removeAttribute("aria-selected");
    if (chosen === null) return null;
    let group = holder;
    for (const place of search.value.trim()
      ? []
      : (pathTo(found.tree, (branch) => branch.tensor !== null && tensors[branch.tensor].number === chosen) ?? [])) {
      const row = group.querySelectorAll(":scope > .branch")[place];
      if (!row) break;
      if (row.getAttribute("aria-expanded") === "false") row.toggle(true);
      group = row.nextElementSibling;
    }
    const row = [...holder.querySelectorAll(".branch")].find((each) => each.tensor === chosen);
    row?.setAttribute("aria-selected", "true");
    return row;
  }

  async function look() {
    const text = search.value.trim().toLowerCase();
    here.keep({ search: text });
    if (!text) return tree();
    let hits = tensors.filter((tensor) => tensor.name.toLowerCase().includes(text));
    if (found.total > tensors.length && !recording)
      hits = (await ask("tensors", { file: file.number, search: text }, here.signal)).tensors;
    replace(
      holder,
      hits.slice(0, 500).map((tensor) => {
        const row = h(
          "a.branch",
          { role: "treeitem", href: link(file.number, "tensor", step(tensor)), style: { "--depth": 0 } },
          h("span"),
          h("span.label", { style: { "white-space": "normal" } }, named(tensor.name.slice(0, 300))),
          h("span.amount", null, format.shape(tensor.shape)),
        );
        row.tensor = tensor.number;
        return row;
      }),
      h(
        "p.hint",
        { role: "status", style: { padding: "6px 10px" } },
        hits.length > 500
          ? `${format.count(hits.length)} found, the first 500 are listed`
          : hits.length
            ? `${format.count(hits.length)} found`
            : "nothing found",
      ),
    );
    return mark();
  }
  search.addEventListener("input", later(120, look));
  holder.addEventListener("keydown", (event) => {
    const rows = [...holder.querySelectorAll(".branch")].filter((row) => row.offsetParent);
    const place = rows.indexOf(document.activeElement);
    const row = rows[place];
    const open = row?.getAttribute("aria-expanded");
    const actions = {
      ArrowDown: () => rows[Math.min(place + 1, rows.length - 1)]?.focus(),
      ArrowUp: () => rows[Math.max(place - 1, 0)]?.focus(),
      ArrowRight: () => (open === "false" ? row.toggle(true) : rows[place + 1]?.focus()),
      ArrowLeft: () => (open === "true" ? row.toggle(false) : row?.parent?.focus()),
      Enter: () => row?.click(),
      Home: () => rows[0]?.focus(),
      End: () => rows[rows.length - 1]?.focus(),
    };
    if (actions[event.key]) {
      event.preventDefault();
      actions[event.key]();
    }
  });
  tree();
  const box = h("aside.card.side", { "aria-label": "Names" }, search, holder);
  return {
    box,
    /** Marks a tensor; the result is called once the tree is on the screen, and scrolls to it. */
    choose(next, number) {
      here = next;
      chosen = number;
      const asked = here.query.get("search");
      if (asked && asked !== search.value) {
        search.value = asked;
        look();
      }
      const focused = box.contains(document.activeElement) ? document.activeElement : null,
        top = holder.scrollTop,
        row = mark();
      return () => {
        holder.scrollTop = top;
        focused?.focus({ preventScroll: true });
        if (!row) return;
        const [place, room] = [row.getBoundingClientRect(), holder.getBoundingClientRect()];
        if (place.top < room.top || place.bottom > room.bottom)
          holder.scrollTop += place.top - room.top - room.height / 3;
      };
    },
  };
}

function pathTo(tree, fits) {
  for (let place = 0; place < tree.length; place += 1) {
    if (fits(tree[place])) return [place];
    const below = tree[place].below.length ? pathTo(tree[place].below, fits) : null;
    if (below) return [place, ...below];
  }
  return null;
}

/** All of a bundle: facts, treemap, list. */
export async function showBundle(here, file) {
  const [info, found] = await Promise.all([ask("info", { file: file.number }, here.signal), listing(file)]);
  here.setCopy(info.copy);
  const content = h("div.stack");
  sided(here, file, found, null, content);
  append(content, [h("section.card", null, facts(info)), ...remarks(info)]);
  if (found.tensors.length > 1) append(content, [bytes(here, file, found)]);
  append(content, [tensorList(here, file, found), metadata(info)]);
}

/** A treemap of one level of the tree; a branch opens. */
function bytes(here, file, found) {
  const holder = h("div"),
    path = h("div.crumbs");
  const openAt = (branches, trail) => {
    replace(
      path,
      trail.flatMap((part, place) => [
        place ? h("span.sep", null, "›") : null,
        place < trail.length - 1
          ? h(
              "a",
              {
                href: location.hash || "#/",
                onclick: (event) => {
                  event.preventDefault();
                  openAt(part.below, trail.slice(0, place + 1));
                },
              },
              visible(part.name).slice(0, 60),
            )
          : h("span", null, visible(part.name).slice(0, 60)),
      ]),
    );
    const item = (before) => (branch) => ({
      label: visible(branch.name).slice(0, 200).replace(/[./]$/, ""),
      path: visible(before + (branch.alike ? "" : branch.name)).slice(0, 200),
      size: branch.nbytes,
      branch,
      detail:
        branch.tensor === null
          ? format.plural(branch.tensors, "tensor")
          : format.shape(found.tensors[branch.tensor].shape),
      items: () => branch.below.map(item(before + (branch.alike ? "" : branch.name))),
    });
    const items = branches.map(item(""));
    replace(
      holder,
      treemap(items, {
        open: ({ branch }) =>
          branch.tensor === null
            ? openAt(branch.below, [...trail, branch])
            : here.go(link(file.number, "tensor", step(found.tensors[branch.tensor]))),
      }),
    );
  };
  let first = found.tree;
  while (first.length === 1 && first[0].below.length) first = first[0].below;
  openAt(first, [{ name: "All", below: first }]);
  return h("section.card", null, h("header", null, h("h2", null, "Where the bytes are"), path), holder);
}

function compare(a, b, key) {
  const [x, y] = [a[key], b[key]];
  if (typeof x === "string" && typeof y === "string") return natural.compare(x, y);
  return (x ?? -Infinity) - (y ?? -Infinity);
}

function tensorList(here, file, found) {
  let rows = [...found.tensors];
  const most = Math.max(...rows.map((tensor) => tensor.nbytes ?? 0), 1);
  const sort = (by, down) => {
    rows = [...found.tensors];
    if (by !== "number" || down) rows.sort((a, b) => (down ? -1 : 1) * compare(a, b, by) || a.number - b.number);
    here.keep({ sort: by === "number" ? null : `${by}${down ? "-" : ""}` });
    shown?.refresh(rows.length);
  };
  const start = (here.query.get("sort") ?? "number").match(/^(\w+?)(-?)$/) ?? ["", "number", ""];
  const heads = h(
    "div.heads",
    { role: "row" },
    sorter(
      [
        { key: "name", text: "Name" },
        { key: "dtype", text: "Dtype" },
        { key: "elements", text: "Shape" },
        { key: "nbytes", text: "Size", right: true },
      ],
      [start[1], start[2] === "-"],
      sort,
    ),
  );
  for (const tensor of rows) tensor.elements = tensor.shape.reduce((product, each) => product * (each ?? 1), 1);
  const shown = list({
    height: `${Math.min(Math.max(rows.length, 1) * 32, 560)}px`,
    count: rows.length,
    rowHeight: 32,
    label: "Tensors",
    head: heads,
    render: (place) => {
      const tensor = rows[place];
      const target = link(file.number, "tensor", step(tensor));
      return h(
        "div.link",
        { onclick: () => here.go(target) },
        h(
          "a",
          { href: target, role: "gridcell" },
          h(
            "bdi.name",
            { title: visible(tensor.name).slice(0, 400) },
            visible(tensor.name).slice(0, 300) || "(no name)",
          ),
        ),
        h(
          "span.soft",
          { role: "gridcell" },
          tensor.unreadable
            ? h("span.tag.bad", { title: visible(tensor.unreadable) }, "unreadable")
            : visible(tensor.dtype),
          tensor.quantized ? ` ← ${tensor.quantized}` : "",
          tensor.kind !== "dense" && tensor.kind !== "string" ? ` ${tensor.kind}` : "",
        ),
        h("span.mono", { role: "gridcell" }, format.shape(tensor.shape)),
        h(
          "span.num",
          { role: "gridcell" },
          format.size(tensor.nbytes),
          h("span.barred", null, h("i", { style: { width: `${(100 * (tensor.nbytes ?? 0)) / most}%` } })),
        ),
      );
    },
  });
  if (start[1] !== "number") sort(start[1], start[2] === "-");
  return h(
    "section.card.tensors",
    null,
    h(
      "header",
      null,
      h("h2", null, format.plural(found.total, "tensor")),
      found.total > rows.length
        ? h("span.tag.warn", null, `the first ${format.count(rows.length)} are listed: search for others`)
        : null,
    ),
    heads,
    h("div.flush", null, shown.box),
  );
}

/** One tensor, with the tree beside it. */
export async function showTensor(here, file, parts) {
  const found = await listing(file);
  let tensor = tensorOf(found, parts.join("/"));
  if (!tensor && found.total > found.tensors.length && !recording) {
    const more = await ask("tensors", { file: file.number, search: parts.join("/").slice(1) }, here.signal);
    tensor = more.tensors.find((each) => each.name === parts.join("/").slice(1));
  }
  if (!tensor) throw new Error("there is no such tensor");
  const content = h("div.stack");
  sided(here, file, found, tensor.number, content);
  const { tensorPage } = await import("./tensor.js");
  await tensorPage(here, file, tensor, content, found);
}
