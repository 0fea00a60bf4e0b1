// Any bytes as lines of CSV: what is read stays inside of its memory, and is what a plain loop reads.
#include <cstring>
#include <string>
#include <vector>

#include "core/csv.h"
#include "core/lines.h"

using namespace ferry;

namespace {

// The cells of a text, one byte after the other; a cell keeps no quotes.
std::vector<std::string> cells_of(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> cells;
  std::string cell;
  bool open = false, pending = false;
  for (std::size_t i = 0; i < size; ++i) {
    const char byte = static_cast<char>(data[i]);
    pending = true;
    if (open && byte == '"' && i + 1 < size && data[i + 1] == '"') {
      cell += byte;
      ++i;
    } else if (byte == '"') {
      open = !open;
    } else if (!open && (byte == ',' || byte == '\n')) {
      const bool is_ended = byte == '\n' && i > 0 && data[i - 1] == '\r' && !cell.empty();
      if (is_ended && cell.back() == '\r') cell.pop_back();
      cells.push_back(cell);
      cell.clear();
      pending = byte == ',';
    } else {
      cell += byte;
    }
  }
  if (pending) {
    if (!cell.empty() && data[size - 1] == '\r') cell.pop_back();
    cells.push_back(cell);
  }
  return cells;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t columns = 1 + data[0] % 4;
  std::vector<std::uint8_t> text(data + 1, data + size);  // which ends where its memory ends
  const lines::Cut cut = lines::cut({text.data(), text.size()}, 0, size, size, true);
  if (cut.blocks.size() != 1) return 0;
  const std::size_t rows = static_cast<std::size_t>(cut.blocks[0].rows);
  csv::Block block;
  if (!block.find({text.data(), text.size()}, columns, rows)) return 0;
  std::vector<std::string> cells;
  for (std::size_t column = 0; column < columns; ++column) {
    std::vector<std::uint8_t> offsets(4 * (rows + 1)), values(block.size_of(column)), numbers(8 * rows);
    std::vector<std::uint8_t> found_numbers(8 * rows);
    const csv::Kind kind = block.numbers(column, found_numbers.data());
    const bool are_integers = block.integers(column, numbers.data());
    if ((kind == csv::Kind::integer) != (are_integers && rows > 0)) __builtin_trap();
    if (kind == csv::Kind::integer && numbers != found_numbers) __builtin_trap();
    const bool are_reals = block.reals(column, numbers.data());
    if ((are_integers || kind == csv::Kind::real) && !are_reals) __builtin_trap();
    if (kind == csv::Kind::real && numbers != found_numbers) __builtin_trap();
    if (!block.texts(column, offsets.data(), values.data())) continue;
    if (cells.empty()) cells = cells_of(text.data(), text.size());
    for (std::size_t row = 0; row < rows; ++row) {
      std::int32_t start, stop;
      std::memcpy(&start, offsets.data() + 4 * row, 4);
      std::memcpy(&stop, offsets.data() + 4 * row + 4, 4);
      const std::string found(values.begin() + start, values.begin() + stop);
      if (cells.size() != rows * columns || cells[row * columns + column] != found) __builtin_trap();
    }
  }
  return 0;
}
