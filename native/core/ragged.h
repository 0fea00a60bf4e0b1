// Rows of different length, one behind the other, laid out as the lines of a table.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/wire.h"

namespace ferry::ragged {

// The last of row splits that start at 0 and never fall, else -1.
template <typename Integer>
std::int64_t last_split(const std::uint8_t* splits, std::size_t count) {
  const auto split_at = [splits](std::size_t row) {
    Integer split;
    std::memcpy(&split, splits + row * sizeof(split), sizeof(split));
    return split;
  };
  if (count == 0 || split_at(0) != 0) return -1;
  bool falls = false;
  for (std::size_t row = 1; row < count; ++row) falls |= split_at(row) < split_at(row - 1);
  return falls ? -1 : split_at(count - 1);
}

// Repeats the item at the start of a line, up to its end.
inline void repeat(std::uint8_t* line, std::size_t item, std::size_t size) {
  for (std::size_t done = item; done < size;) {
    const std::size_t part = done < size - done ? done : size - done;
    std::memcpy(line + done, line, part);
    done += part;
  }
}

// Copies each row to the start of its line, as much of it as fits; the rest of a line is filled with
// `fill`, which is one item. Sizes are in bytes, splits in items. Throws if the splits fall, or lead
// out of the values.
inline void lay_out(Span values, const std::uint8_t* splits, std::size_t rows, std::size_t item,
                    const std::uint8_t* fill, std::uint8_t* lines, std::size_t width) {
  const auto split_at = [&](std::size_t row) {
    std::uint64_t split;
    std::memcpy(&split, splits + row * sizeof(split), sizeof(split));
    return split;
  };
  const std::uint64_t items = item == 0 ? 0 : values.size / item;
  std::uint64_t start = split_at(0);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::uint64_t end = split_at(row + 1);
    if (start > end || end > items) {
      throw Error(Problem::malformed, row, "row splits lead out of the values");
    }
    std::size_t size = static_cast<std::size_t>(end - start) * item;
    if (size > width) size = width;
    std::uint8_t* const line = lines + row * width;
    if (size > 0) std::memcpy(line, values.data + start * item, size);
    if (size < width) {
      std::memcpy(line + size, fill, item);
      repeat(line + size, item, width - size);
    }
    start = end;
  }
}

}  // namespace ferry::ragged
