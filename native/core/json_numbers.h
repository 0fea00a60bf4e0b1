// Tensors of numbers in JSON: lists in lists, written and read without an object for each number.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "json.h"

namespace ferry::json_numbers {

// Appends the numbers of a tensor in C order as nested lists; a float that is not finite is a bare
// word, as Serving has it. `data` need not be aligned.
template <typename Element>
void append(std::string& out, const std::uint8_t* data, std::span<const std::uint64_t> shape);

// What stands under a name of a body.
struct Entry {
  enum class Kind { text, numbers, object };

  std::string_view name;
  Kind kind;
  std::string_view text;
  json::Numbers numbers;
  std::vector<Entry> members;  // of an object: numbers by name
};

// Reads an object of texts, tensors of numbers, and objects of such tensors; false if something else
// stands there, of which nothing is told. The entries are valid as long as the reader and its text.
bool read(json::Reader& reader, std::vector<Entry>& entries);

}  // namespace ferry::json_numbers
