// Any bytes as numbers and as texts: a number reads back as itself and has the fewest digits, and a text
// has no character that a terminal obeys.
#include "core/json_text.h"

#include <charconv>
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

// A number reads back as itself, and no shorter text does.
template <typename Number>
void check(Number number, Number (*read)(const char*, char**)) {
  if (!std::isfinite(number)) return;
  std::string out;
  json_text::append(out, number);
  if (read(out.c_str(), nullptr) != number) __builtin_trap();
#if defined(__cpp_lib_to_chars)
  char expected[64];
  const char* const end =
      std::to_chars(expected, expected + 64, number, std::chars_format::scientific).ptr;
  const auto digits = [](std::string_view text) {
    std::string found;
    for (const char each : text.substr(0, text.find('e'))) {
      if (each >= '0' && each <= '9' && (each != '0' || !found.empty())) found += each;
    }
    while (!found.empty() && found.back() == '0') found.pop_back();
    return found;
  };
  const std::string_view theirs(expected, static_cast<std::size_t>(end - expected));
  if (digits(out) != digits(theirs)) __builtin_trap();
#endif
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
    check(first_of<double>(data), std::strtod);
    check(first_of<float>(data), std::strtof);
    out.clear();
    json_text::append(out, first_of<std::int64_t>(data));
    if (std::strtoll(out.c_str(), nullptr, 10) != first_of<std::int64_t>(data)) __builtin_trap();
  }
  return 0;
}
