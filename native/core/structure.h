// StructuredValue: nested structures as TensorFlow writes them, one level at a time.
//
//     1 None | 11 float | 12 int | 13 str | 14 bool | 51 list | 52 tuple | 53 dict | 54 named tuple
//     55, 56 tensor | 31 to 35 descriptions of tensors
//
// A message holds exactly one of these fields. A list has its elements in field 1, a dict pairs of a
// key (1) and a value (2), a named tuple its name in field 1 and pairs in field 2. Who reads a
// structure goes down level by level and counts how deep he is.
#pragma once

#include <vector>

#include "wire.h"

namespace ferry::structure {

enum Field : std::uint32_t {
  none_field = 1,
  real_field = 11,
  integer_field = 12,
  text_field = 13,
  boolean_field = 14,
  list_field = 51,
  tuple_field = 52,
  dict_field = 53,
  named_field = 54,
  tensor_field = 55,
  array_field = 56,
};

struct Value {
  std::uint32_t field = 0;
  std::uint64_t number = 0;  // of a bool, an int (zigzag) or a float (its bits)
  Span body;                 // of all others; a text is UTF-8
};

// The one value of a message.
Value read_value(Span message);

// The next element of a list, or pair of a dict; false behind the last.
bool next_element(Reader& reader, Span& element);

struct Pair {
  Span key;  // UTF-8
  Span value;
};

Pair read_pair(Span message);

struct Named {
  Span name;  // UTF-8
  std::vector<Span> pairs;
};

Named read_named(Span message);

// What stands before the body of a value whose field has this number, with 1 or 2 bytes of tag.
inline std::size_t frame_size(std::uint32_t field, std::uint64_t body) noexcept {
  return varint_size(field << 3 | 2) + varint_size(body);
}

inline std::uint8_t* put_frame(std::uint8_t* out, std::uint32_t field, std::uint64_t body) noexcept {
  return put_varint(put_varint(out, field << 3 | 2), body);
}

}  // namespace ferry::structure
