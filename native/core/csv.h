// CSV of the usual form: some whole lines as columns of integers, reals and texts.
//
// Whatever is unusual is refused without a reason: a cell that is missing in a column of numbers, a
// blank line, a quote inside of a cell without quotes, a line of more or fewer cells. PyArrow reads
// such lines, and is the one place for errors. What is not refused is what PyArrow makes of it.
#pragma once

#include <cstdint>
#include <vector>

#include "wire.h"

namespace ferry::csv {

enum class Kind : std::uint8_t { unwanted, unknown, integer, real, text };

class Block {
 public:
  static constexpr std::size_t most = std::size_t{1} << 30;  // bytes; places in it are 32 bits

  // Finds the cells of so many rows; false if there are others.
  bool find(Span text, std::size_t columns, std::uint64_t rows);

  // Number of bytes that the texts of a column take, at most.
  std::size_t size_of(std::size_t column) const noexcept;

  // Whether the texts are UTF-8.
  bool is_text() const noexcept;

  // What PyArrow finds a column to be, whose integers or reals are written to memory at any address;
  // unknown if it may be something else than we read.
  Kind numbers(std::size_t column, std::uint8_t* out) const;

  // Write the values of a column to memory at any address; false if one of them is something else.
  // Of texts come the offsets of Arrow, one more than there are rows, and the bytes.
  bool integers(std::size_t column, std::uint8_t* out) const noexcept;
  bool reals(std::size_t column, std::uint8_t* out) const { return reals(column, rows_, out); }
  bool texts(std::size_t column, std::uint8_t* offsets, std::uint8_t* out) const noexcept;

 private:
  Span cell(std::size_t row, std::size_t column) const noexcept;
  bool reals(std::size_t column, std::size_t rows, std::uint8_t* out) const;

  Span text_{};
  std::size_t columns_ = 0, rows_ = 0;
  std::vector<std::uint32_t> ends_;  // of cells, row by row
};

}  // namespace ferry::csv
