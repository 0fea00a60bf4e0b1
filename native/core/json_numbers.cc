#include "json_numbers.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "decimal.h"
#include "json_text.h"

namespace ferry::json {

namespace {

constexpr std::size_t most_dimensions = 64;  // of an array of NumPy
constexpr std::size_t few = 32;               // numbers for which there is room at once
constexpr std::uint64_t unknown = ~std::uint64_t{0};

}  // namespace

void Numbers::add(double number) {
  if (are_integers) {
    for (const std::int64_t integer : integers) keep(static_cast<double>(integer));
    integers.clear();
    are_integers = false;
  }
  keep(number);
}

void Numbers::keep(double number) {
  if (floats.empty()) floats.reserve(few);
  floats.push_back(number);
  const double size = std::fabs(number);
  if (size > largest && size <= std::numeric_limits<double>::max()) largest = size;
}

bool Reader::word(std::string_view expected) noexcept {
  if (static_cast<std::size_t>(end_ - at_) < expected.size()) return false;
  if (std::memcmp(at_, expected.data(), expected.size()) != 0) return false;
  at_ += expected.size();
  return true;
}

bool Reader::number(Numbers& found) {
  next();
  const bool negative = at_ != end_ && *at_ == '-';
  const std::uint8_t* const digits = negative ? at_ + 1 : at_;
  if (digits == end_) return false;
  if (!decimal::is_digit(*digits)) {
    at_ = digits;
    if (word("Infinity")) {
      const double infinity = std::numeric_limits<double>::infinity();
      found.add(negative ? -infinity : infinity);
    } else if (!negative && word("NaN")) {
      found.add(std::numeric_limits<double>::quiet_NaN());
    } else {
      return false;
    }
    return true;
  }
  decimal::Decimal read;
  if (!decimal::read(at_, end_, read)) return false;
  if (read.is_integer) {
    std::int64_t integer;
    if (!decimal::as_integer(read, integer)) return false;
    found.add(integer);
    return true;
  }
  double number;
  if (!decimal::as_double(read, number)) return false;
  found.add(number);
  return true;
}

bool Reader::numbers(Numbers& found) {
  std::vector<std::uint64_t> counts;  // of the lists that are open
  while (true) {
    while (take('[')) {
      counts.push_back(0);
      if (counts.size() > most_dimensions) return false;
    }
    if (found.shape.empty()) found.shape.assign(counts.size(), unknown);
    if (counts.empty() || counts.size() != found.shape.size()) return false;
    do {
      if (!number(found)) return false;
      ++counts.back();
    } while (take(','));
    while (true) {
      if (!take(']')) return false;
      std::uint64_t& size = found.shape[counts.size() - 1];
      if (size == unknown) size = counts.back();
      if (size != counts.back()) return false;
      counts.pop_back();
      if (counts.empty()) return true;
      ++counts.back();
      if (take(',')) break;
    }
  }
}

}  // namespace ferry::json

namespace ferry::json_numbers {

namespace {

constexpr std::size_t room = 4096;  // for numbers that are written before they are appended

template <typename Element>
char* put(char* to, const std::uint8_t* place) noexcept {
  if constexpr (std::is_same_v<Element, bool>) {
    const std::string_view word = *place != 0 ? "true" : "false";
    std::memcpy(to, word.data(), word.size());
    return to + word.size();
  } else {
    Element number;
    std::memcpy(&number, place, sizeof(number));
    if constexpr (std::is_floating_point_v<Element>) {
      return json_text::put(to, number);
    } else {
      return std::to_chars(to, to + json_text::most_characters, number).ptr;
    }
  }
}

template <typename Element>
constexpr std::size_t width = std::is_same_v<Element, bool> ? 1 : sizeof(Element);

}  // namespace

template <typename Element>
void append(std::string& out, const std::uint8_t* data, std::span<const std::uint64_t> shape) {
  if (shape.empty()) {
    char text[json_text::most_characters];
    out.append(text, put<Element>(text, data));
    return;
  }
  if (shape.size() > 1) {
    std::size_t step = width<Element>;
    for (const std::uint64_t size : shape.subspan(1)) step *= size;
    out += '[';
    for (std::uint64_t i = 0; i < shape[0]; ++i) {
      if (i > 0) out += ',';
      append<Element>(out, data + i * step, shape.subspan(1));
    }
    out += ']';
    return;
  }
  char text[room + json_text::most_characters];
  char* at = text;
  *at++ = '[';
  for (std::uint64_t i = 0; i < shape[0]; ++i) {
    if (i > 0) *at++ = ',';
    at = put<Element>(at, data + i * width<Element>);
    if (at - text >= static_cast<std::ptrdiff_t>(room)) {
      out.append(text, at);
      at = text;
    }
  }
  out.append(text, at);
  out += ']';
}

using Places = const std::uint8_t*;
using Shape = std::span<const std::uint64_t>;
template void append<bool>(std::string&, Places, Shape);
template void append<signed char>(std::string&, Places, Shape);
template void append<short>(std::string&, Places, Shape);
template void append<int>(std::string&, Places, Shape);
template void append<long>(std::string&, Places, Shape);
template void append<long long>(std::string&, Places, Shape);
template void append<unsigned char>(std::string&, Places, Shape);
template void append<unsigned short>(std::string&, Places, Shape);
template void append<unsigned int>(std::string&, Places, Shape);
template void append<unsigned long>(std::string&, Places, Shape);
template void append<unsigned long long>(std::string&, Places, Shape);
template void append<float>(std::string&, Places, Shape);
template void append<double>(std::string&, Places, Shape);

namespace {

bool read_members(json::Reader& reader, std::vector<Entry>& entries, bool nested) {
  if (!reader.take('{')) return false;
  do {
    if (reader.next() != '"') return false;
    Entry& entry = entries.emplace_back();
    entry.name = reader.string();
    if (!reader.take(':')) return false;
    const char next = reader.next();
    if (next == '[') {
      entry.kind = Entry::Kind::numbers;
      if (!reader.numbers(entry.numbers)) return false;
    } else if (next == '"' && !nested) {
      entry.kind = Entry::Kind::text;
      entry.text = reader.string();
    } else if (next == '{' && !nested) {
      entry.kind = Entry::Kind::object;
      if (!read_members(reader, entry.members, true)) return false;
    } else {
      return false;
    }
  } while (reader.take(','));
  return reader.take('}');
}

}  // namespace

bool read(json::Reader& reader, std::vector<Entry>& entries) {
  try {
    if (!read_members(reader, entries, false)) return false;
    reader.finish();
    return true;
  } catch (const Error&) {  // in a string, or behind the end
    return false;
  }
}

}  // namespace ferry::json_numbers
