// The frame of the page: where the address leads, what can be copied, keys, light and dark.

import { link } from "./about.js";
import { ask, finished, onLost, recording } from "./api.js";
import { append, failure, h, named, replace, s, visible, waiting } from "./dom.js";
import * as format from "./format.js";

const crumbs = h("div.crumbs");
const tabs = h("nav.tabs", { "aria-label": "Views" });
const main = h("main", { tabindex: -1, id: "main" });
const toast = h("div.toast", { role: "status", hidden: true });
let snippet = null;
let files = [];
let leaving = new AbortController();
let patience = 0;

const copyPython = h(
  "button.copy",
  {
    type: "button",
    "data-short": "Py",
    title: "Copy as Python (c)",
    "aria-label": "Copy as Python",
    onclick: () => copy("python"),
  },
  h("span.words", null, "Copy as Python"),
);
const copyCommand = h(
  "button.copy",
  {
    type: "button",
    "data-short": ">_",
    title: "Copy as command (v)",
    "aria-label": "Copy as command",
    onclick: () => copy("command"),
  },
  h("span.words", null, "Copy as command"),
);
const themeButton = h(
  "button.icon",
  { type: "button", title: "Light or dark (t)", "aria-label": "Light or dark", onclick: () => setTheme() },
  "◐",
);
const helpButton = h(
  "button.icon",
  { type: "button", title: "Keys (?)", "aria-label": "Keys", onclick: () => help() },
  "?",
);

function brand() {
  return h(
    "a.brand",
    { href: "#/", "aria-label": "All files" },
    s(
      "svg",
      { viewBox: "0 0 16 16", "aria-hidden": "true" },
      s("path", { d: "M2 9.5h12l-2 4H4z", fill: "var(--accent)" }),
      s("path", { d: "M4.5 3h3v5h-3zM8.5 5h3v3h-3z", fill: "var(--accent)", opacity: ".6" }),
    ),
    h("span", null, "ferry"),
  );
}

function say(text) {
  toast.textContent = text;
  toast.hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => {
    toast.hidden = true;
  }, 1800);
}

async function copy(kind) {
  if (!snippet) return;
  const text = snippet[kind];
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // In a frame, the clipboard is only open to what is selected.
    const field = h("textarea", { value: text, class: "sr" });
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  say(kind === "python" ? "Copied as Python" : "Copied as command");
}

function setCopy(next) {
  snippet = next ?? null;
  copyPython.disabled = copyCommand.disabled = !snippet;
  document.body.dataset.python = snippet?.python ?? "";
  document.body.dataset.command = snippet?.command ?? "";
}

let isThemeChosen = false;

function setTheme(next) {
  const wanted = next ?? (document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  document.documentElement.dataset.theme = wanted;
  if (!next) {
    isThemeChosen = true;
    try {
      localStorage.setItem("ferry-theme", wanted);
    } catch {
      /* a frame may have no storage */
    }
  }
  dispatchEvent(new Event("recolour"));
}

function firstTheme() {
  let kept = null;
  try {
    kept = localStorage.getItem("ferry-theme");
  } catch {
    /* the same */
  }
  const media = matchMedia("(prefers-color-scheme: dark)");
  setTheme(kept ?? (media.matches ? "dark" : "light"));
  if (!kept)
    media.addEventListener("change", () => {
      if (!isThemeChosen) setTheme(media.matches ? "dark" : "light");
    });
}

const KEYS = [
  ["/", "search"],
  ["c", "copy as Python"],
  ["v", "copy as command"],
  ["g", "go to a row"],
  ["t", "light or dark"],
  ["arrows", "move in the tree, a table or a heat map"],
  ["+ − 0", "zoom a heat map or a graph, show all of it"],
  ["Esc", "close what is open"],
  ["?", "this list"],
];

function help() {
  const dialog = h(
    "dialog",
    { "aria-label": "Keys" },
    h("h2", { style: { "font-weight": 600, "margin-bottom": "10px" } }, "Keys"),
    h(
      "table",
      null,
      KEYS.map(([key, text]) => h("tr", null, h("td", null, h("kbd", null, key)), h("td", null, text))),
    ),
    h(
      "p",
      { style: { "margin-top": "14px" } },
      h("button.button", { type: "button", onclick: () => dialog.close() }, "Close"),
    ),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) {
    if (event.key === "Escape" && event.target.matches("input")) event.target.blur();
    return;
  }
  const actions = {
    "/": () => main.querySelector("input[type=search]")?.focus(),
    g: () => main.querySelector("input[data-go]")?.focus(),
    c: () => copy("python"),
    v: () => copy("command"),
    t: () => setTheme(),
    "?": help,
    Escape: () => document.querySelector(".drawer .close")?.click(),
  };
  if (actions[event.key]) {
    event.preventDefault();
    actions[event.key]();
  }
});

// Where the address leads

function route() {
  const [path, search] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path
    .split("/")
    .filter(Boolean)
    .map((part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return part;
      }
    });
  return { parts, query: new URLSearchParams(search ?? "") };
}

/** What a view gets: its file, its address, and how it tells what it shows. */
function context(parts, query) {
  const signal = leaving.signal;
  return {
    parts,
    query,
    signal,
    files,
    setCopy: (next) => !signal.aborted && setCopy(next),
    say,
    go: (hash) => {
      location.hash = hash;
    },
    /** Shows something in the place of what was there. */
    put(...children) {
      if (signal.aborted) return;
      clearTimeout(patience);
      replace(main, ...children);
    },
    /** Keeps something in the address, so that a link restores it. */
    keep(changes) {
      if (signal.aborted) return;
      const now = route().query;
      for (const [name, value] of Object.entries(changes))
        if (value === null || value === undefined || value === "") now.delete(name);
        else now.set(name, value);
      const text = now.toString();
      history.replaceState(null, "", `${location.hash.split("?")[0]}${text ? `?${text}` : ""}`);
    },
  };
}

function viewsOf(file) {
  if (file.error) return [];
  const rows = file.holds !== "tensors";
  return [
    ...(file.model ? [["model", "Model"]] : []),
    ...(rows
      ? [["rows", "Rows"]]
      : [
          ["tensors", "Tensors"],
          ["statistics", "Statistics"],
        ]),
    ...(file.model &&
    file.model !== "keras" &&
    (!recording || Object.keys(recording.answers).some((key) => key.startsWith(`graph?file=${file.number}&`)))
      ? [["graph", "Graph"]]
      : []),
  ];
}

// A view is fetched when it is shown first.
const VIEWS = {
  tensors: async (...given) => (await import("./bundle.js")).showBundle(...given),
  tensor: async (...given) => (await import("./bundle.js")).showTensor(...given),
  statistics: async (...given) => (await import("./statistics.js")).showStatistics(...given),
  rows: async (...given) => (await import("./rows.js")).showRows(...given),
  model: async (...given) => (await import("./model.js")).showModel(...given),
  graph: async (...given) => (await import("./model.js")).showGraph(...given),
  compare: async (...given) => (await import("./compare.js")).showComparison(...given),
};

async function show() {
  leaving.abort();
  leaving = new AbortController();
  document.querySelector(".drawer")?.remove();
  const { parts, query } = route();
  const here = context(parts, query);
  setCopy(null);
  delete main.dataset.ready;
  // What was there stays until the next view has its data: only a slow answer leaves a gap.
  clearTimeout(patience);
  if (main.children.length) patience = setTimeout(() => replace(main, waiting()), 250);
  else replace(main, waiting());
  try {
    if (!files.length) files = (await ask("files")).files;
    here.files = files;
    await choose(parts, here);
  } catch (error) {
    if (error.name !== "AbortError") here.put(failure(error));
    if (!(error.name === "AbortError" || error.hint !== undefined || error.message)) throw error;
  }
  if (!here.signal.aborted) main.dataset.ready = parts.join("/");
}

async function choose(parts, here) {
  if (parts[0] === "compare") {
    head(null, [files[Number(parts[1])], files[Number(parts[2])]], "compare");
    return VIEWS.compare(here, files[Number(parts[1])], files[Number(parts[2])]);
  }
  if (!parts.length) {
    const [first, second] = files;
    if (files.length === 1) return choose([0, first.error ? "error" : viewsOf(first)[0][0]], here);
    if (
      files.length === 2 &&
      !first.error &&
      !second.error &&
      (first.holds === "tensors") === (second.holds === "tensors")
    )
      return choose(["compare", 0, 1], here);
    return showFiles(here);
  }
  const file = files[Number(parts[0])];
  if (!file) throw new Error("there is no such file");
  if (file.error) {
    head(file, null, "");
    throw Object.assign(new Error(file.error), { hint: file.hint });
  }
  const views = viewsOf(file);
  const name = Object.hasOwn(VIEWS, parts[1]) && parts[1] !== "compare" ? parts[1] : views[0][0];
  head(file, null, name === "tensor" ? "tensors" : name);
  document.title = `${visible(
    file.name
      .replace(/[/\\]+$/, "")
      .split(/[/\\]/)
      .pop(),
  ).slice(0, 200)} · ferry`;
  return VIEWS[name](here, file, parts.slice(2));
}

/** A path: its folders give way first, so that the name of the file can be read. */
function pathOf(path) {
  const text = visible(path).slice(-400),
    cut = text.replace(/[/\\]+$/, "").search(/[^/\\]*$/);
  return h(
    "span.path",
    { title: text },
    h("bdi.folder", null, text.slice(0, cut)),
    h("bdi.last", null, text.slice(cut)),
  );
}

function head(file, pair, current) {
  replace(crumbs);
  if (pair) {
    append(crumbs, [pathOf(pair[0].name), h("span.sep", null, "↔"), pathOf(pair[1].name)]);
    document.title = "Comparison · ferry";
  } else if (file) append(crumbs, [pathOf(file.name)]);
  replace(tabs);
  if (file)
    for (const [name, text] of viewsOf(file))
      append(tabs, [h("a", { href: link(file.number, name), "aria-current": name === current ? "page" : null }, text)]);
  if (files.length === 2 || pair) {
    append(tabs, [h("a", { href: "#/compare/0/1", "aria-current": pair ? "page" : null }, "Comparison")]);
    for (const each of files.slice(0, 2))
      if (!file || file.number !== each.number)
        append(tabs, [h("a", { href: link(each.number) }, `Only ${"AB"[each.number]}`)]);
  }
  tabs.hidden = !tabs.children.length;
}

async function showFiles(here) {
  replace(crumbs, h("bdi", null, format.plural(files.length, "file")));
  replace(tabs);
  tabs.hidden = true;
  const counts = files.map((file) => h("span", null, file.error ? "" : format.count(file.count)));
  const about = (file) =>
    file.error
      ? [visible(file.error).slice(0, 300), file.hint ? h("p.hint", null, visible(file.hint)) : null]
      : file.holds;
  const rows = files.map((file, place) =>
    h(
      "tr.link",
      { onclick: () => here.go(link(file.number)) },
      h("td", null, h("a", { href: link(file.number) }, named(file.name, { class: "name path" }))),
      h("td", null, file.error ? h("span.tag.bad", null, "cannot be read") : file.format),
      h("td.num", null, counts[place]),
      h("td", { style: { "white-space": "normal", "min-width": file.error ? "240px" : null } }, about(file)),
      h("td.num", null, format.size(file.nbytes)),
    ),
  );
  here.put(
    h(
      "section.card",
      null,
      h("header", null, h("h2", null, "Files")),
      h(
        "div.wide",
        null,
        h(
          "table",
          null,
          h(
            "thead",
            null,
            h(
              "tr",
              null,
              h("th", null, "File"),
              h("th", null, "Format"),
              h("th.num", null, "Count"),
              h("th", null, "Of"),
              h("th.num", null, "Size"),
            ),
          ),
          h("tbody", null, rows),
        ),
      ),
    ),
  );
  // Rows of large files are counted one file after the other.
  for (const [place, file] of files.entries()) {
    if (file.error || file.count !== null || recording) continue;
    counts[place].textContent = "…";
    file.count = (await finished("located", { file: file.number }, null, here.signal))?.count ?? null;
    counts[place].textContent = format.count(file.count);
  }
}

function leftOut() {
  if (!recording) return null;
  return h(
    "div",
    { style: { padding: "12px 20px 0", "max-width": "1560px", margin: "0 auto" } },
    h(
      "details.note",
      null,
      h(
        "summary",
        null,
        `Written ${recording.date} by ferry ${recording.version}. `,
        recording.left_out.length ? "Some of it was left out." : "Everything is in this file.",
      ),
      recording.left_out.length
        ? h(
            "ul",
            null,
            recording.left_out.map((text) => h("li", null, visible(text))),
          )
        : null,
    ),
  );
}

firstTheme();
const lostBar = h("div.lost", { role: "alert", hidden: true }, "The server has ended. Run `ferry view` again.");
onLost((now) => {
  lostBar.hidden = !now;
});
replace(
  document.body,
  h(
    "a.skip",
    {
      href: "#main",
      onclick: (event) => {
        event.preventDefault();
        main.focus();
      },
    },
    "To the content",
  ),
  h("header.top", null, brand(), crumbs, h("div.tools", null, copyPython, copyCommand, themeButton, helpButton)),
  tabs,
  leftOut(),
  main,
  toast,
  lostBar,
);
// A question that a view asked before it was left has no answer, which is no error.
addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name === "AbortError") event.preventDefault();
});
addEventListener("hashchange", show);
show();
