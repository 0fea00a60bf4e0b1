// Any bytes as a StructuredValue, level by level.
#include "core/structure.h"

namespace structure = ferry::structure;

namespace {

void walk(ferry::Span message, int depth);

void walk_pair(ferry::Span message, int depth) {
  const structure::Pair pair = structure::read_pair(message);
  walk(pair.value, depth);
}

void walk(ferry::Span message, int depth) {
  if (depth == 0) return;
  const structure::Value value = structure::read_value(message);
  if (value.body.size > message.size) __builtin_trap();
  ferry::Reader reader(value.body.input == nullptr ? message : value.body);
  ferry::Span element;
  switch (value.field) {
    case structure::list_field:
    case structure::tuple_field:
      while (structure::next_element(reader, element)) walk(element, depth - 1);
      break;
    case structure::dict_field:
      while (structure::next_element(reader, element)) walk_pair(element, depth - 1);
      break;
    case structure::named_field:
      for (const ferry::Span& pair : structure::read_named(value.body).pairs) {
        walk_pair(pair, depth - 1);
      }
      break;
    default: break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ferry::Input input(data, size);
  try {
    walk(input.span(), 50);
  } catch (const ferry::Error& error) {
    if (error.offset() > size) __builtin_trap();
  }
  return 0;
}
