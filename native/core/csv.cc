#include "csv.h"

#include <bit>
#include <cstring>

#include "decimal.h"
#include "places.h"
#include "text.h"

namespace ferry::csv {

namespace {

bool has(const std::uint8_t* start, const std::uint8_t* end, char wanted) noexcept {
  return start != end && std::memchr(start, wanted, static_cast<std::size_t>(end - start)) != nullptr;
}

bool read_number(Span cell, decimal::Decimal& found) noexcept {
  const std::uint8_t* at = cell.data;
  const std::uint8_t* const end = at + cell.size;
  return decimal::read(at, end, found) && at == end;
}

// Whether a cell cannot be a number, a time, a truth value or null: those start with digits, signs,
// spaces, "#", or the letters of true, false, null, NaN and infinity.
bool is_surely_text(Span cell) noexcept {
  const std::size_t first = cell.size > 0 && cell.data[0] == '"' ? 1 : 0;
  if (cell.size <= first) return false;
  const std::uint8_t byte = cell.data[first];
  const std::uint8_t letter = byte | 0x20;
  if (letter == 't' || letter == 'f' || letter == 'n' || letter == 'i') return false;
  return byte >= 0x80 || (letter >= 'a' && letter <= 'z');
}

void put(std::uint8_t* out, std::size_t index, auto value) noexcept {
  std::memcpy(out + index * sizeof(value), &value, sizeof(value));
}

// Writes the text of a cell, and goes behind it; false if quotes or line ends stand where none may.
bool put_text(Span cell, std::uint8_t*& out) noexcept {
  const std::uint8_t* at = cell.data;
  const std::uint8_t* end = at + cell.size;
  const auto take = [&](const std::uint8_t* until) {
    const auto size = static_cast<std::size_t>(until - at);
    if (size > 0) std::memcpy(out, at, size);
    out += size;
    at = until;
  };
  if (at == end || *at != '"') {
    if (has(at, end, '"') || has(at, end, '\r')) return false;
    take(end);
    return true;
  }
  ++at;
  if (at == end || *--end != '"') return false;
  while (at != end) {
    const void* const found = std::memchr(at, '"', static_cast<std::size_t>(end - at));
    if (found == nullptr) break;
    const std::uint8_t* const quote = static_cast<const std::uint8_t*>(found) + 1;
    if (quote == end || *quote != '"') return false;  // a quote inside of quotes is doubled
    take(quote);
    ++at;
  }
  take(end);
  return true;
}

}  // namespace

bool Block::find(Span text, std::size_t columns, std::uint64_t rows) {
  // Each cell ends with a byte, except for the last one.
  if (text.size == 0 || text.size > most || columns == 0 || rows > (text.size + 1) / columns) {
    return false;
  }
  text_ = text;
  columns_ = columns;
  rows_ = static_cast<std::size_t>(rows);
  ends_.resize(rows_ * columns_);
  std::size_t cell = 0, last_of_row = columns - 1;
  std::uint64_t open = 0;  // all bits, if a quote is open
  for (std::size_t place = 0; place < text.size; place += places::width) {
    const std::uint8_t* bytes = text.data + place;
    std::uint8_t rest[places::width];
    if (text.size - place < places::width) {
      std::memset(rest, 0, sizeof(rest));
      std::memcpy(rest, bytes, text.size - place);
      bytes = rest;
    }
    const std::uint64_t inside = places::parities(places::of(bytes, '"')) ^ open;
    open = (inside >> 63) != 0 ? ~std::uint64_t{0} : 0;
    const std::uint64_t lines = places::of(bytes, '\n') & ~inside;
    for (std::uint64_t ends = lines | (places::of(bytes, ',') & ~inside); ends != 0; ends &= ends - 1) {
      const int bit = std::countr_zero(ends);
      const bool ends_row = (lines >> bit & 1) != 0;
      if (cell == ends_.size() || ends_row != (cell == last_of_row)) return false;
      ends_[cell++] = static_cast<std::uint32_t>(place + static_cast<std::size_t>(bit));
      if (ends_row) last_of_row += columns;
    }
  }
  if (text.data[text.size - 1] != '\n') {
    if (cell == ends_.size() || cell != last_of_row) return false;
    ends_[cell++] = static_cast<std::uint32_t>(text.size);
  }
  if (open != 0 || cell != ends_.size()) return false;
  if (columns > 1) return true;
  for (std::size_t row = 0; row < rows_; ++row) {  // a blank line is no row
    if (this->cell(row, 0).size == 0) return false;
  }
  return true;
}

Span Block::cell(std::size_t row, std::size_t column) const noexcept {
  const std::size_t index = row * columns_ + column;
  const std::size_t start = index == 0 ? 0 : ends_[index - 1] + std::size_t{1};
  std::size_t end = ends_[index];
  if (column + 1 == columns_ && end > start && text_.data[end - 1] == '\r') --end;
  return {text_.data + start, end - start};
}

Kind Block::numbers(std::size_t column, std::uint8_t* out) const {
  Kind kind = Kind::integer;
  for (std::size_t row = 0; row < rows_; ++row) {
    const Span found = cell(row, column);
    if (is_surely_text(found)) return Kind::text;
    if (kind == Kind::unknown) continue;
    decimal::Decimal number;
    std::int64_t integer = 0;
    double real;
    const bool is_read = read_number(found, number);
    if (!is_read || (number.is_integer && !decimal::as_integer(number, integer))) {
      kind = Kind::unknown;
      continue;
    }
    if (kind == Kind::integer && !number.is_integer) {
      kind = reals(column, row, out) ? Kind::real : Kind::unknown;
    }
    if (kind == Kind::integer) {
      put(out, row, integer);
    } else if (decimal::as_double(number, real)) {
      put(out, row, real);
    } else {
      kind = Kind::unknown;
    }
  }
  return kind;
}

std::size_t Block::size_of(std::size_t column) const noexcept {
  // From the places alone, which do not change if somebody changes the text meanwhile.
  std::size_t size = 0;
  for (std::size_t index = column; index < ends_.size(); index += columns_) {
    size += ends_[index] - (index == 0 ? 0 : ends_[index - 1] + std::size_t{1});
  }
  return size;
}

bool Block::is_text() const noexcept { return is_utf8(text_); }

bool Block::integers(std::size_t column, std::uint8_t* out) const noexcept {
  for (std::size_t row = 0; row < rows_; ++row) {
    decimal::Decimal found;
    std::int64_t number;
    if (!read_number(cell(row, column), found) || !decimal::as_integer(found, number)) return false;
    put(out, row, number);
  }
  return true;
}

bool Block::reals(std::size_t column, std::size_t rows, std::uint8_t* out) const {
  for (std::size_t row = 0; row < rows; ++row) {
    decimal::Decimal found;
    double number;
    if (!read_number(cell(row, column), found) || !decimal::as_double(found, number)) return false;
    put(out, row, number);
  }
  return true;
}

bool Block::texts(std::size_t column, std::uint8_t* offsets, std::uint8_t* out) const noexcept {
  std::uint8_t* at = out;
  put(offsets, 0, std::int32_t{0});
  for (std::size_t row = 0; row < rows_; ++row) {
    if (!put_text(cell(row, column), at)) return false;
    put(offsets, row + 1, static_cast<std::int32_t>(at - out));
  }
  return true;
}

}  // namespace ferry::csv
