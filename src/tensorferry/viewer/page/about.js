// What all views say of a file: its facts, its tensors or columns, problems and metadata.

import { ask } from "./api.js";
import { h, named, visible } from "./dom.js";
import * as format from "./format.js";

const listings = new Map();

/** The tensors or columns of a file, asked for once. */
export function listing(file) {
  if (!listings.has(file.number))
    listings.set(
      file.number,
      ask("tensors", { file: file.number })
        .then((found) => {
          found.byNumber = new Map(found.tensors.map((tensor) => [tensor.number, tensor]));
          return found;
        })
        .catch((error) => {
          listings.delete(file.number);
          throw error;
        }),
    );
  return listings.get(file.number);
}

// Addresses

export function link(...parts) {
  return `#/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
}

/** How the address names a tensor: by its name, or by its number if that is too long. */
export function step(tensor) {
  return tensor.cut || tensor.name.length > 300 || tensor.name === "" || !tensor.name.isWellFormed()
    ? `~${tensor.number}`
    : `=${tensor.name}`;
}

/** The tensor that an address names. */
export function tensorOf(found, text) {
  if (text.startsWith("~")) return found.byNumber.get(Number(text.slice(1)));
  return found.tensors.find((tensor) => tensor.name === text.slice(1));
}

/** What a file is, in a row of words. */
export function facts(info) {
  const dtypes = Object.entries(info.dtypes)
    .slice(0, 4)
    .map(([name, count]) => `${name} (${count})`)
    .join(", ");
  // The number of rows of a large file comes later: it is the last, so that nothing has to move for it.
  const count = [
    info.holds === "tensors" ? "Tensors" : info.holds === "records" ? "Records" : "Rows",
    info.isCounting ? (info.count ? `${format.count(info.count)}…` : "counting…") : format.count(info.count),
  ];
  const pairs = [
    ["Format", [info.format, info.version].filter(Boolean).join(" ")],
    ["Size", format.size(info.nbytes)],
    ...(info.holds === "tensors"
      ? [
          count,
          ...(info.elements === null ? [] : [["Values", format.count(info.elements)]]),
          ...(dtypes ? [["Dtypes", dtypes]] : []),
        ]
      : [["Columns", format.count(info.tensors)]]),
    ...(info.compression ? [["Compression", info.compression]] : []),
    ...(info.file_count > 1 ? [["Files", format.count(info.file_count)]] : []),
    ...(info.holds === "tensors" ? [] : [count]),
  ];
  return h(
    "dl.facts",
    null,
    pairs.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, visible(value)))),
  );
}

/** Problems and notes of a file. */
export function remarks(info) {
  const lines = [];
  if (info.problems.length)
    lines.push(
      h(
        "div.note.bad",
        { role: "alert" },
        format.plural(info.problems.length, "problem"),
        h(
          "ul",
          null,
          info.problems
            .slice(0, 12)
            .map((each) =>
              h(
                "li",
                null,
                visible([each.record !== null ? `at ${each.record}` : "", each.problem].filter(Boolean).join(": ")),
              ),
            ),
        ),
      ),
    );
  if (info.notes.length)
    lines.push(
      h(
        "div.note",
        null,
        info.notes.slice(0, 12).map((text) => h("p", null, visible(text))),
      ),
    );
  return lines;
}

/** What was kept with a file. */
export function metadata(info) {
  const entries = Object.entries(info.metadata ?? {});
  if (!entries.length) return null;
  return h(
    "section.card",
    null,
    h("header", null, h("h2", null, "Metadata")),
    h(
      "div.wide",
      null,
      h(
        "table",
        null,
        h(
          "tbody",
          null,
          entries
            .slice(0, 100)
            .map(([name, value]) =>
              h(
                "tr",
                null,
                h("td", null, named(name.slice(0, 200))),
                h(
                  "td",
                  { style: { "white-space": "normal" } },
                  h(
                    "bdi.mono",
                    null,
                    visible(typeof value === "string" ? value : JSON.stringify(value)).slice(0, 2000),
                  ),
                ),
              ),
            ),
        ),
      ),
    ),
  );
}

/** The names of two files that are compared. */
export function headline(a, b) {
  const last = (file) => file.name.replace(/\/+$/, "").split("/").pop().slice(0, 200) || file.name.slice(0, 200);
  return h(
    "div.title",
    null,
    h(
      "h1",
      null,
      h("span.tag", null, "A"),
      " ",
      named(last(a)),
      h("span.soft", null, "  →  "),
      h("span.tag", null, "B"),
      " ",
      named(last(b)),
    ),
  );
}
