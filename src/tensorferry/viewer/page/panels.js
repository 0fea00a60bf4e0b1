// A panel beside the rows: all of a value, or the statistics of a column.

import { address, ask, follow } from "./api.js";
import { failure, h, named, replace, visible, waiting } from "./dom.js";
import * as format from "./format.js";
import { distribution } from "./tensor.js";

function drawer(name, ...children) {
  document.querySelector(".drawer")?.remove();
  const before = document.activeElement;
  const close = h(
    "button.button.close",
    {
      type: "button",
      "aria-label": "Close",
      onclick: () => {
        panel.remove();
        before?.focus();
      },
    },
    "✕",
  );
  const panel = h(
    "aside.drawer",
    { role: "dialog", "aria-label": "Details" },
    h("header", null, h("h2", null, name), close),
    children,
  );
  document.body.append(panel);
  close.focus();
}

/** A value of a row; `found` is what its cell shows of it. */
export async function openValue(here, file, column, row, found) {
  const body = h("div", null, waiting()),
    question = { file: file.number, row, column: column.place };
  drawer(
    named(column.name.slice(0, 200)),
    h("p.caption", null, `Row ${format.count(row)} · ${visible(found.text).slice(0, 80)}`),
    body,
  );
  const source = found.media ? address("media", question) : null;
  if (source && found.media.startsWith("image/"))
    return replace(
      body,
      h("img", {
        src: source,
        alt: visible(found.text),
        style: { width: found.width && found.width < 200 ? "100%" : "auto" },
      }),
    );
  if (source) return replace(body, h("audio", { src: source, controls: true, autoplay: true }));
  try {
    const answer = await ask("value", question, here.signal);
    const text = typeof answer.value === "string" ? answer.value : layOut(answer.value);
    return replace(
      body,
      h("pre", { tabindex: 0 }, h("bdi", null, visible(text).replaceAll("\\u000a", "\n"))),
      answer.whole ? null : h("p.caption", null, "There is more of it: this is the start."),
    );
  } catch (error) {
    return error.name === "AbortError" ? null : replace(body, failure(error));
  }
}

/** How the values of a column are spread. */
export async function openColumn(here, file, column) {
  const body = h("div", null, waiting("Reading all rows")),
    bar = h("i"),
    progress = h("div.progress", null, bar);
  const size = column.shape.length > 1 ? format.shape(column.shape.slice(1)) : "",
    kind = ["dense", "string"].includes(column.kind) ? "" : column.kind;
  drawer(
    named(column.name.slice(0, 200)),
    h("p.caption", null, [column.dtype, size, kind].filter(Boolean).join(" · ")),
    progress,
    body,
  );
  try {
    const end = await follow(
      "column",
      { file: file.number, column: column.number },
      (answer) => {
        bar.style.width = answer.total ? `${(100 * answer.done) / answer.total}%` : "0";
        here.setCopy(answer.copy);
        if (answer.items.length) replace(body, columnBody(answer.items[0]));
      },
      here.signal,
    );
    if (end.error) replace(body, failure(end));
  } catch (error) {
    if (error.name !== "AbortError") replace(body, failure(error));
  }
  progress.classList.add("done");
}

function columnBody(found) {
  const frequent = found.frequent?.[0]?.[1] > 1 ? found.frequent.slice(0, 12) : [];
  return [
    h(
      "p.caption",
      { style: { "margin-bottom": "10px" } },
      `${format.plural(found.rows, "row")}${found.missing ? `, ${format.count(found.missing)} lack it` : ""}`,
    ),
    distribution(found.values),
    frequent.length
      ? [
          h("h3", { style: { "font-weight": 600, margin: "16px 0 6px" } }, "Most frequent"),
          h(
            "table",
            null,
            h(
              "tbody",
              null,
              frequent.map(([text, times]) =>
                h(
                  "tr",
                  null,
                  h(
                    "td",
                    { style: { "white-space": "normal", "padding-left": 0 } },
                    h("bdi.mono", null, visible(text) || "(empty)"),
                  ),
                  h("td.num", null, format.count(times)),
                ),
              ),
            ),
          ),
        ]
      : null,
  ];
}

function layOut(value) {
  const text = JSON.stringify(value, null, 1);
  // Lists of numbers are read across, not down.
  return text.replace(
    /\[\s*((?:-?[\d.eE+-]+|"NaN"|"-?Infinity")(?:,\s*(?:-?[\d.eE+-]+|"NaN"|"-?Infinity"))*)\s*\]/g,
    (_, inner) => `[${inner.replace(/\s+/g, " ")}]`,
  );
}
