// Any bytes as a block of a table, and its values as entries of tensors.
#include "core/checkpoint.h"

namespace checkpoint = ferry::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ferry::Input input(data, size);
  std::vector<ferry::Span> values;
  try {
    std::string before;
    for (checkpoint::Block block(input.span()); block.next();) {
      if (!values.empty() && block.key() <= before) __builtin_trap();
      if (block.value().offset() + block.value().size > size) __builtin_trap();
      before = block.key();
      values.push_back(block.value());
    }
  } catch (const ferry::Error& error) {
    if (error.offset() > size) __builtin_trap();
  }
  values.push_back(input.span());
  const checkpoint::Entries entries = checkpoint::read_entries(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t head = entries.numbers[i];
    if (head < -1 || head >= static_cast<std::int64_t>(entries.heads.size())) __builtin_trap();
  }
  return 0;
}
