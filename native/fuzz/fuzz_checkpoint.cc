// Any bytes as a block of a table, and its values as entries of tensors; what was read is written into
// blocks of other sizes, and read again.
#include "core/checkpoint.h"

#include <algorithm>

namespace checkpoint = ferry::checkpoint;

namespace {

ferry::Span span_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), nullptr};
}

void check_writing(const std::vector<std::string>& keys, const std::vector<ferry::Span>& values,
                   std::size_t room, std::size_t interval) {
  std::vector<ferry::Span> names;
  for (const std::string& key : keys) names.push_back(span_of(key));
  std::string out;
  for (std::size_t start = 0; start < names.size();) {
    const std::size_t end = checkpoint::encode_block(names, values, start, room, interval, out);
    if (end == start) __builtin_trap();
    const ferry::Input input(reinterpret_cast<const std::uint8_t*>(out.data()), out.size());
    checkpoint::Block block(input.span());
    for (; block.next(); ++start) {
      const ferry::Span value = values[start], found = block.value();
      if (block.key() != keys[start] || found.size != value.size) __builtin_trap();
      if (value.size != 0 && std::memcmp(found.data, value.data, value.size) != 0) __builtin_trap();
    }
    if (start != end) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ferry::Input input(data, size);
  checkpoint::Index index;
  if (checkpoint::read_index(input.span(), index)) {
    if (index.keys.size() != index.values.size()) __builtin_trap();
    if (!std::is_sorted(index.keys.begin(), index.keys.end())) __builtin_trap();
  }
  std::vector<std::string> keys;
  std::vector<ferry::Span> values;
  try {
    for (checkpoint::Block block(input.span()); block.next();) {
      if (!keys.empty() && block.key() <= keys.back()) __builtin_trap();
      if (block.value().offset() + block.value().size > size) __builtin_trap();
      keys.push_back(block.key());
      values.push_back(block.value());
    }
  } catch (const ferry::Error& error) {
    if (error.offset() > size) __builtin_trap();
  }
  check_writing(keys, values, 64, 3);
  check_writing(keys, values, SIZE_MAX, 1);
  values.push_back(input.span());
  const checkpoint::Entries entries = checkpoint::read_entries(values);
  const checkpoint::Summary summary = checkpoint::summarize(entries);
  if (summary.end < -1 || summary.sizes.size() > entries.heads.size()) __builtin_trap();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t head = entries.numbers[i];
    if (head < -1 || head >= static_cast<std::int64_t>(entries.heads.size())) __builtin_trap();
  }
  const std::size_t count = values.size();
  const std::int64_t* const columns = entries.numbers.data();
  for (std::size_t i = 0; summary.end >= 0 && i < count; ++i) {
    const std::int64_t start = columns[2 * count + i], end = start + columns[3 * count + i];
    if (columns[count + i] != 0 || start < 0 || end > summary.end) __builtin_trap();
    for (std::size_t j = 0; j < i && start != end; ++j) {
      const std::int64_t other = columns[2 * count + j], last = other + columns[3 * count + j];
      if (other < end && start < last && other != last) __builtin_trap();
    }
  }
  checkpoint::are_sound(data, size, columns + 2 * count, columns + 3 * count, columns + 4 * count, count);
  return 0;
}
