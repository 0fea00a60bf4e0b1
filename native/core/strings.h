// String lists: all lengths as varints, then all bytes.
//
// The layout TensorFlow gives a string tensor inside `tensor_content`, and a variant tensor too.
#pragma once

#include <vector>

#include "wire.h"

namespace ferry {

// The `count` strings that fill `content` exactly.
std::vector<Span> decode_string_list(Span content, std::uint64_t count);

// The size of `strings` as such a list, and its bytes at `out`.
std::uint64_t string_list_size(const std::vector<Span>& strings);
void put_string_list(const std::vector<Span>& strings, std::uint8_t* out);

// The longest of strings that each stand behind their length of four bytes, as in the dictionaries
// of Parquet. Throws if a length leads out of `content`.
std::uint64_t longest_prefixed(Span content);

}  // namespace ferry
