// Any bytes as a GraphDef: what is found in it lies in the input, and no name comes twice.
#include "core/graph.h"

namespace {

void check(const ferry::Span& span, std::size_t size) {
  if (span.offset() + span.size > size) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ferry::Input input(data, size);
  static const std::uint8_t variable[] = "VarHandleOp";
  ferry::Texts watched;
  watched.add({variable, sizeof(variable) - 1, nullptr});
  try {
    const ferry::graph::Nodes nodes = ferry::graph::walk(input.span(), 1, watched, 64);
    std::uint64_t count = 0;
    for (const auto& named : nodes.named) {
      check(named.text, size);
      count += named.count;
    }
    if (count != nodes.count) __builtin_trap();
    ferry::Texts names;
    for (const auto& constant : nodes.constants) {
      check(constant.name, size);
      check(constant.tensor, size);
      if (!names.add(constant.name).is_new) __builtin_trap();
    }
    for (const auto& node : nodes.watched) {
      if (!names.add(node.name).is_new || ferry::view(node.op) != "VarHandleOp") __builtin_trap();
      for (const auto& attribute : node.attributes) check(attribute.key, size);
    }
  } catch (const ferry::Error& error) {
    if (error.offset() > size) __builtin_trap();
  }
  return 0;
}
