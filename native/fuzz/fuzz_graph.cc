// Any bytes as a GraphDef, or as a function: what is found lies in the input, and no name comes twice.
#include "core/graph.h"

namespace {

void check(const ferry::Span& span, std::size_t size) {
  if (span.offset() + span.size > size) __builtin_trap();
}

void check_nodes(const ferry::graph::Nodes& nodes, std::size_t size) {
  ferry::Texts names;
  for (const auto& constant : nodes.constants) {
    check(constant.name, size);
    check(constant.tensor, size);
    if (!names.add(constant.name).is_new) __builtin_trap();
  }
  for (const auto& variable : nodes.variables) {
    check(variable.node, size);
    if (variable.offset > size) __builtin_trap();
  }
  for (const auto& node : nodes.watched) {
    if (!names.add(node.name).is_new || ferry::view(node.op) != "PrintV2") __builtin_trap();
    for (const auto& attribute : node.attributes) check(attribute.key, size);
  }
}

void walk(const ferry::Input& input, const ferry::graph::Ops& ops, std::size_t size) {
  const ferry::graph::Nodes nodes = ferry::graph::walk(input.span(), 1, ops, 64);
  std::uint64_t count = 0;
  for (const auto& named : nodes.named) {
    check(named.text, size);
    count += named.count;
  }
  if (count != nodes.count) __builtin_trap();
  check_nodes(nodes, size);
}

void walk_functions(const ferry::Input& input, const ferry::graph::Ops& ops, std::size_t size) {
  const auto library = ferry::graph::walk_functions({input.span()}, ops, 64);
  std::uint64_t count = 0;
  for (const auto& named : library.ops) count += named.count;
  for (const auto& function : library.functions) {
    count -= function.nodes.count;
    check(function.name, size);
    check(function.signature, size);
    for (const std::size_t called : function.calls) {
      if (called >= library.functions.size()) __builtin_trap();
    }
    check_nodes(function.nodes, size);
  }
  if (count != 0) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ferry::Input input(data, size);
  static const std::uint8_t variable[] = "VarHandleOp", watched[] = "PrintV2";
  ferry::graph::Ops ops;
  ops.variables.add({variable, sizeof(variable) - 1, nullptr});
  ops.watched.add({watched, sizeof(watched) - 1, nullptr});
  for (const auto look : {walk, walk_functions}) {
    try {
      look(input, ops, size);
    } catch (const ferry::Error& error) {
      if (error.offset() > size) __builtin_trap();
    }
  }
  return 0;
}
