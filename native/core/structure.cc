#include "structure.h"

#include <string_view>

#include "json.h"

namespace ferry::structure {

namespace {

Wire wire_of(std::uint32_t field) noexcept {
  switch (field) {
    case real_field: return Wire::fixed64;
    case integer_field: case boolean_field: case 32: return Wire::varint;
    default: return Wire::bytes;
  }
}

bool is_known(std::uint32_t field) noexcept {
  return field == none_field || (field >= real_field && field <= boolean_field) ||
         (field >= 31 && field <= 35) || (field >= list_field && field <= array_field);
}

Span checked(Span text) {
  if (!json::is_utf8({reinterpret_cast<const char*>(text.data), text.size})) {
    throw Error(Problem::malformed, text.offset(), "a text is not UTF-8");
  }
  return text;
}

// Whether a field is number 1 or 2 of its message. Of a second one, protobuf would take the last, or
// merge the two.
bool is_new_part(const ferry::Field& field, unsigned& seen) {
  const std::uint32_t number = field.tag.field;
  if (number > 2) return false;
  Reader::expect(field.tag, Wire::bytes);
  if ((seen >> number & 1) != 0) {
    throw Error(Problem::malformed, field.tag.offset,
                "field " + std::to_string(number) + " comes twice, expected once");
  }
  seen |= 1u << number;
  return true;
}

}  // namespace

Value read_value(Span message) {
  Reader reader(message);
  ferry::Field first;
  std::uint64_t count = 0;
  for (ferry::Field field; reader.next(field); ++count) {
    if (count == 0) first = field;
  }
  if (count != 1) {
    throw Error(Problem::malformed, message.offset(),
                std::to_string(count) + " values where one is expected");
  }
  const std::uint32_t number = first.tag.field;
  if (!is_known(number)) {
    throw Error(Problem::malformed, message.offset(),
                "field " + std::to_string(number) + " is no kind of value");
  }
  Reader::expect(first.tag, wire_of(number));
  return {number, first.value, number == text_field ? checked(first.bytes) : first.bytes};
}

bool next_element(Reader& reader, Span& element) {
  for (ferry::Field field; reader.next(field);) {
    if (field.tag.field != 1) continue;
    Reader::expect(field.tag, Wire::bytes);
    element = field.bytes;
    return true;
  }
  return false;
}

Pair read_pair(Span message) {
  Pair pair;
  unsigned seen = 0;
  Reader reader(message);
  for (ferry::Field field; reader.next(field);) {
    if (!is_new_part(field, seen)) continue;
    if (field.tag.field == 1) {
      pair.key = checked(field.bytes);
    } else {
      pair.value = field.bytes;
    }
  }
  if ((seen & 1u << 2) == 0) throw Error(Problem::malformed, message.offset(), "a key has no value");
  return pair;
}

Named read_named(Span message) {
  Named named;
  unsigned seen = 0;
  Reader reader(message);
  for (ferry::Field field; reader.next(field);) {
    if (field.tag.field == 2) {
      Reader::expect(field.tag, Wire::bytes);
      named.pairs.push_back(field.bytes);
    } else if (is_new_part(field, seen)) {
      named.name = checked(field.bytes);
    }
  }
  return named;
}

}  // namespace ferry::structure
