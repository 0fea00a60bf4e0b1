// Any bytes as numbers and as texts: a number reads back as itself, and a text has no character that
// a terminal obeys.
#include "core/json_text.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

using namespace ferry;

namespace {

template <typename Number>
Number first_of(const std::uint8_t* data) {
  Number number;
  std::memcpy(&number, data, sizeof(number));
  return number;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string out;
  if (json_text::append_ascii(out, {reinterpret_cast<const char*>(data), size})) {
    if (out.size() < size + 2 || out.front() != '"' || out.back() != '"') __builtin_trap();
    for (const char character : out) {
      if (character < ' ' || character == 0x7f) __builtin_trap();
    }
  } else if (!out.empty()) {
    __builtin_trap();
  }
  for (; size >= sizeof(double); ++data, --size) {
    const auto number = first_of<double>(data);
    const auto small = first_of<float>(data);
    out.clear();
    json_text::append(out, number);
    if (std::isfinite(number) && std::strtod(out.c_str(), nullptr) != number) __builtin_trap();
    out.clear();
    json_text::append(out, small);
    if (std::isfinite(small) && std::strtof(out.c_str(), nullptr) != small) __builtin_trap();
    out.clear();
    json_text::append(out, first_of<std::int64_t>(data));
    if (std::strtoll(out.c_str(), nullptr, 10) != first_of<std::int64_t>(data)) __builtin_trap();
  }
  return 0;
}
