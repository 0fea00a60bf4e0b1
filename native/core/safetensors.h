// The header of safetensors: JSON that says where each array lies.
//
//     {"__metadata__": {"key": "value"},
//      "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
//
// Everything is checked: fields, names that come twice, sizes, and that the arrays cover the data
// without holes. What a dtype is in NumPy is known in Python (formats/safetensors/file.py).
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "json.h"

namespace ferry::safetensors {

inline constexpr std::uint64_t header_begin = 8;  // behind the length of the header
inline constexpr std::size_t max_rank = 64;       // NumPy's

struct Array {
  std::string_view name;
  std::string_view dtype;
  std::size_t dims = 0;  // where its dimensions start in `Header::dims`
  std::size_t rank = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// A header, whose names lie in its text or in itself.
class Header {
 public:
  // `text` stands at byte 8 of a file, and `data_size` bytes follow it.
  Header(Span text, std::uint64_t data_size);
  Header(const Header&) = delete;
  Header& operator=(const Header&) = delete;

  std::vector<Array> arrays;
  std::vector<std::uint64_t> dims;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;

 private:
  void read_all();
  void read_metadata();
  void read_array(std::string_view name);
  std::size_t read_numbers(const char* field, const Array& array);
  void check_size(const Array& array) const;
  void check_cover(std::uint64_t start, std::uint64_t data_size) const;

  json::Reader reader_;
};

}  // namespace ferry::safetensors
