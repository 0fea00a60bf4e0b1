// A model: how it is called, what it would do, its layers and its graph.

import { ask, recording } from "./api.js";
import { facts, link, listing, metadata, remarks, step } from "./about.js";
import { append, failure, h, named, replace, visible, waiting, whole } from "./dom.js";
import * as format from "./format.js";
import { graph } from "./graph.js";

export async function showModel(here, file) {
  const [info, model] = await Promise.all([
    ask("info", { file: file.number }, here.signal),
    ask("model", { file: file.number }, here.signal),
  ]);
  here.setCopy(info.copy);
  const content = h("div.stack", null, h("section.card", null, facts(info)));
  here.put(content);
  append(content, [dangers(model), remarks({ ...info, notes: [] })]);
  if (model.keras) append(content, [keras(model.keras)]);
  for (const [number, each] of model.graphs.entries())
    append(content, [metaGraph(here, file, each, number, model.graphs.length)]);
  if (model.assets.length)
    append(content, [
      table(
        "Assets",
        ["File", "Size", ""],
        model.assets.map((asset) => [
          named(asset.name.slice(0, 200)),
          format.size(asset.size),
          asset.problem ? h("span.tag.bad", null, visible(asset.problem)) : "",
        ]),
        [1],
      ),
    ]);
  if (model.kind === "keras") await layersCard(here, file, content);
  append(content, [metadata(info)]);
}

function dangers(model) {
  const risks = model.graphs.flatMap((each) =>
    each.risks
      .filter((risk) => !risk.expected)
      .map((risk) => `${risk.effect}: ${risk.op}, ${format.plural(risk.count, "time")}`),
  );
  const custom = model.graphs.flatMap((each) =>
    each.custom_ops.map((op) => `needs an op that TensorFlow lacks: ${op}`),
  );
  const found = [
    ...risks,
    ...custom,
    ...model.assets
      .filter((asset) => asset.problem)
      .map((asset) => `the asset ${asset.name.slice(0, 60)}: ${asset.problem}`),
    ...(model.keras?.findings ?? []).map((each) => `Keras ${each.detail}, at ${each.place || "the top of the config"}`),
  ];
  if (!found.length)
    return h(
      "div",
      null,
      h("span.tag.good", null, "✓ only computes"),
      " ",
      h("span.hint", null, "Nothing was found that reads files, runs Python or reaches other machines."),
    );
  return h(
    "div.note.bad",
    { role: "alert" },
    h("strong", null, "Loading or calling this model would do more than compute"),
    h(
      "ul",
      null,
      [...new Set(found)].slice(0, 30).map((text) => h("li", null, visible(text).slice(0, 300))),
    ),
  );
}

function keras(model) {
  const layers = Object.entries(model.layers)
    .slice(0, 14)
    .map(([name, count]) =>
      h("span.tag", { style: { margin: "0 6px 6px 0" } }, `${visible(name).slice(0, 60)} × ${count}`),
    );
  const pairs = [
    ["Model", [model.class_name, model.name].filter(Boolean).join(" ")],
    ["Keras", model.version],
    ["Saved", model.date],
  ].filter(([, value]) => value);
  return h(
    "section.card",
    null,
    h("header", null, h("h2", null, "Keras")),
    h(
      "dl.facts",
      null,
      pairs.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, visible(value)))),
    ),
    layers.length ? h("p", { style: { "margin-top": "12px" } }, layers) : null,
  );
}

function table(name, heads, rows, right = []) {
  return h(
    "section.card",
    null,
    h("header", null, h("h2", null, name)),
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
            heads.map((text, place) => h(right.includes(place) ? "th.num" : "th", null, text)),
          ),
        ),
        h(
          "tbody",
          null,
          rows.map((cells) =>
            h(
              "tr",
              null,
              cells.map((cell, place) => h(right.includes(place) ? "td.num" : "td", null, cell)),
            ),
          ),
        ),
      ),
    ),
  );
}

function metaGraph(here, file, found, number, total) {
  const shape = (argument) => (argument.shape === null ? "unknown rank" : format.shape(argument.shape));
  const side = (argument, way, first, signature) =>
    h(
      "tr",
      null,
      h("td", null, first ? named(signature.name.slice(0, 120)) : ""),
      h("td.soft", null, way),
      h("td", null, named(argument.name.slice(0, 120))),
      h(
        "td.soft",
        null,
        argument.kind === "dense" ? (argument.dtype ?? "?") : `${argument.kind} ${argument.dtype ?? ""}`,
      ),
      h("td.mono", null, shape(argument)),
    );
  const ordered = [...found.signatures].sort((a, b) => a.name.startsWith("__") - b.name.startsWith("__"));
  const signatures = ordered.flatMap((signature) => [
    ...signature.inputs.map((argument, place) => side(argument, "in", place === 0, signature)),
    ...signature.outputs.map((argument, place) =>
      side(argument, "out", !signature.inputs.length && place === 0, signature),
    ),
  ]);
  const words = [
    ["Tags", found.tags.join(", ") || "none"],
    ["Written by", found.tensorflow ? `TensorFlow ${found.tensorflow}` : null],
    ["Ops", `${format.count(found.op_count)} of ${format.plural(found.ops.length, "kind")}`],
    ["Functions", format.count(found.function_count)],
    ["Variables", format.count(found.variable_count)],
    ["Constants", found.constants ? `${format.count(found.constants)}, ${format.size(found.constant_bytes)}` : null],
  ].filter(([, value]) => value);
  const most = found.ops[0]?.[1] ?? 1;
  return h(
    "div.stack",
    null,
    h(
      "section.card",
      null,
      h(
        "header",
        null,
        h("h2", null, total > 1 ? `Graph ${number + 1} of ${total}` : "Signatures"),
        recording ? null : h("a.button", { href: `${link(file.number, "graph")}?graph=${number}` }, "Draw the graph"),
      ),
      h(
        "dl.facts",
        { style: { "margin-bottom": "14px" } },
        words.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, visible(value)))),
      ),
      signatures.length
        ? h(
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
                  ["Signature", "", "Name", "Dtype", "Shape"].map((text) => h("th", null, text)),
                ),
              ),
              h("tbody", null, signatures.slice(0, 400)),
            ),
          )
        : h("p.caption", null, "There is no signature."),
    ),
    h(
      "div.columns",
      null,
      table(
        "Ops",
        ["Op", "Count"],
        found.ops
          .slice(0, 40)
          .map(([name, count]) => [
            h("span.mono", null, visible(name).slice(0, 80)),
            [format.count(count), h("span.barred", null, h("i", { style: { width: `${(100 * count) / most}%` } }))],
          ]),
        [1],
      ),
      h(
        "div.stack",
        null,
        found.functions.length
          ? table(
              "Functions",
              ["Function", "Nodes"],
              found.functions
                .slice(0, 40)
                .map(([name, nodes], place) => [
                  recording
                    ? named(name.slice(0, 120))
                    : h(
                        "a",
                        { href: `${link(file.number, "graph")}?graph=${number}&function=${place}` },
                        named(name.slice(0, 120)),
                      ),
                  [format.count(nodes), found.recursive.includes(name) ? h("span.tag.warn", null, "calls itself") : ""],
                ]),
              [1],
            )
          : null,
        found.variables.length
          ? table(
              "Variables",
              ["Variable", "Dtype", "Shape"],
              found.variables
                .slice(0, 60)
                .map((each) => [
                  named(each.path.slice(0, 160)),
                  [each.dtype ?? "?", each.trainable === false ? h("span.soft", null, " fixed") : ""],
                  h("span.mono", null, each.shape ? format.shape(each.shape) : "?"),
                ]),
            )
          : null,
      ),
    ),
  );
}

async function layersCard(here, file, content) {
  const [found, listed] = await Promise.all([ask("layers", { file: file.number }, here.signal), listing(file)]);
  if (!found.layers.length) return;
  const rows = found.layers.slice(0, 1000).map((layer) => [
    h("span", { style: { "padding-left": `${layer.depth * 16}px` } }, named(layer.name.slice(0, 120))),
    visible(layer.class_name).slice(0, 80),
    layer.tensors.slice(0, 12).map((number) => {
      const tensor = listed.byNumber.get(number);
      return tensor
        ? h(
            "div",
            null,
            h(
              "a",
              { href: link(file.number, "tensor", step(tensor)) },
              h("bdi.name", null, visible(tensor.name.split("/").pop()).slice(0, 80)),
            ),
            h("span.soft", null, ` ${format.shape(tensor.shape)}`),
          )
        : null;
    }),
    h(
      "span.settings",
      null,
      Object.entries(layer.settings)
        .filter(([name]) => !["trainable", "dtype"].includes(name))
        .slice(0, 7)
        .map(
          ([name, value]) =>
            `${visible(name)} ${visible(Array.isArray(value) ? `[${value.map((each) => each ?? "?").join(", ")}]` : value).slice(0, 50)}`,
        )
        .join(" · "),
    ),
  ]);
  append(content, [
    table(format.plural(found.layers.length, "layer"), ["Layer", "Class", "Weights", "Settings"], rows),
  ]);
  if (found.drawing)
    append(content, [
      h(
        "section.card",
        null,
        h("header", null, h("h2", null, "How the layers are connected")),
        graph(found.drawing, { kind: "Layers" }),
      ),
    ]);
}

/** The graph of a model, or of one function of it. */
export async function showGraph(here, file) {
  const model = await ask("model", { file: file.number }, here.signal);
  let number = Math.min(whole(here.query.get("graph")), Math.max(model.graphs.length - 1, 0)),
    place = Number(here.query.get("function") ?? model.graphs[number]?.start ?? -1),
    scope = here.query.get("scope") ?? "";
  const holder = h("div", null, waiting()),
    trail = h("div.crumbs"),
    state = h("span.hint", { role: "status" });
  const select = h("select", {
    "aria-label": "Function",
    style: { "max-width": "min(420px, 70vw)" },
    onchange: () => {
      place = Number(select.value);
      scope = "";
      load();
    },
  });
  const fillSelect = () =>
    replace(
      select,
      h("option", { value: -1 }, `outside of functions (${format.plural(model.graphs[number].nodes, "node")})`),
      model.graphs[number].functions.map(([name, nodes], at) =>
        h("option", { value: at }, `${visible(name).slice(0, 60)} (${nodes})`),
      ),
    );
  const graphs =
    model.graphs.length > 1
      ? h(
          "select",
          {
            "aria-label": "Graph",
            onchange: (event) => {
              number = Number(event.target.value);
              place = model.graphs[number].start;
              scope = "";
              fillSelect();
              load();
            },
          },
          model.graphs.map((each, at) =>
            h("option", { value: at, selected: at === number }, each.tags.join(", ") || `graph ${at}`),
          ),
        )
      : null;
  fillSelect();
  const goTo = (next, inside = "") => {
    place = next;
    scope = inside;
    load();
  };
  function openBox(box, calls) {
    if (!calls.length) return goTo(place, box.name);
    if (calls.length === 1) return goTo(calls[0]);
    // A condition and a loop run several functions.
    return replace(
      trail,
      visible(box.label),
      calls.map((call) => [
        h("span.sep", null, "›"),
        h(
          "button.button",
          { type: "button", onclick: () => goTo(call) },
          visible(model.graphs[number].functions[call][0]).slice(0, 60),
        ),
      ]),
    );
  }
  async function load() {
    select.value = String(place);
    here.keep({ graph: number || null, function: place, scope: scope || null });
    replace(holder, waiting("Drawing"));
    try {
      const found = await ask(
        "graph",
        { file: file.number, graph: number || undefined, function: place, scope: scope || undefined },
        here.signal,
      );
      const steps = scope.split("/").filter(Boolean);
      replace(
        trail,
        steps.length
          ? h(
              "a",
              {
                href: location.hash,
                onclick: (event) => {
                  event.preventDefault();
                  scope = "";
                  load();
                },
              },
              "all",
            )
          : null,
        steps.flatMap((text, depth) => [
          h("span.sep", null, "›"),
          h(
            "a",
            {
              href: location.hash,
              onclick: (event) => {
                event.preventDefault();
                scope = `${steps.slice(0, depth + 1).join("/")}/`;
                load();
              },
            },
            visible(text),
          ),
        ]),
      );
      state.textContent = `${format.plural(found.nodes, "node")}${found.drawing.left_out ? `, ${format.count(found.drawing.left_out)} not drawn` : ""}`;
      replace(
        holder,
        found.drawing.boxes.length
          ? graph(found.drawing, {
              opens: (box) => box.nodes > 1 || found.calls[box.name]?.length,
              open: (box) => openBox(box, found.calls[box.name] ?? []),
            })
          : h("p.caption", null, "There are no nodes."),
      );
    } catch (error) {
      if (error.name !== "AbortError") replace(holder, failure(error));
    }
  }
  here.put(h("section.card", null, h("header", null, h("h2", null, "Graph"), trail, state, graphs, select), holder));
  await load();
}
