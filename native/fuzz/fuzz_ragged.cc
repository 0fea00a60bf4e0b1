// Any splits over any values: rows stay in their lines, and never come from outside the values.
#include <vector>

#include "core/ragged.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 11) return 0;
  const std::size_t item = 1 + data[0] % 9, width = data[1] % 32 * item;
  const std::size_t rows = data[2] % ((size - 3) / 8);
  const std::size_t bytes = (rows + 1) * 8;
  const std::vector<std::uint8_t> splits(data + 3, data + 3 + bytes);
  const std::vector<std::uint8_t> values(data + 3 + bytes, data + size);
  const ferry::Input input(values.data(), values.size());
  const std::int64_t last = ferry::ragged::last_split<std::int64_t>(splits.data(), rows + 1);
  const auto narrow = ferry::ragged::last_split<std::int32_t>(splits.data(), 2 * (rows + 1));
  if (last < -1 || narrow < -1) __builtin_trap();
  std::vector<std::uint8_t> lines(rows * width + 1, 0);
  try {
    const std::vector<std::uint8_t> fill(item, 7);
    ferry::ragged::lay_out(input.span(), splits.data(), rows, item, fill.data(), lines.data(), width);
    // Splits that never fall lead nowhere else than the last one does.
    if (last > static_cast<std::int64_t>(values.size() / item)) __builtin_trap();
  } catch (const ferry::Error& error) {
    if (error.offset() >= rows) __builtin_trap();
  }
  if (lines.back() != 0) __builtin_trap();
  return 0;
}
