#include "json_text.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

namespace ferry::json_text {

namespace {

template <typename Integer>
void append_integer(std::string& out, Integer number) {
  char text[most_characters];
  out.append(text, std::to_chars(text, text + sizeof(text), number).ptr);
}

// The shortest digits that mean a number, as in -1.25e-07; gives their end.
template <typename Float>
char* put_shortest(char* text, Float number) {
#if defined(__cpp_lib_to_chars) && !defined(__APPLE__)
  return std::to_chars(text, text + most_characters, number, std::chars_format::scientific).ptr;
#else
  // Older libraries can only be asked for so many digits.
  for (int digits = 0;; ++digits) {
    const int size = std::snprintf(text, most_characters, "%.*e", digits, static_cast<double>(number));
    const double back = std::strtod(text, nullptr);
    const bool same = std::is_same_v<Float, float> ? std::strtof(text, nullptr) == number
                                                   : static_cast<Float>(back) == number;
    if (same || digits == 17) return text + size;
  }
#endif
}

char* copy(char* to, const char* from, std::size_t size) noexcept {
  std::memcpy(to, from, size);
  return to + size;
}

char* fill(char* to, std::size_t zeros) noexcept {
  std::memset(to, '0', zeros);
  return to + zeros;
}

char* copy(char* to, std::string_view word) noexcept { return copy(to, word.data(), word.size()); }

template <typename Float>
char* put_float(char* to, Float number) noexcept {
  if (std::isnan(number)) return copy(to, "NaN");
  if (std::isinf(number)) return copy(to, number > 0 ? "Infinity" : "-Infinity");
  char text[most_characters];
  const char* const end = put_shortest(text, number);
  const char* start = text;
  if (*start == '-') *to++ = *start++;
  const char* mark = end - 1;  // of the exponent, which has two or three digits
  while (*mark != 'e') --mark;
  int exponent = 0;
  for (const char* digit = mark + 2; digit != end; ++digit) exponent = exponent * 10 + (*digit - '0');
  if (mark[1] == '-') exponent = -exponent;
  if (exponent < -4 || exponent > 15) return copy(to, start, static_cast<std::size_t>(end - start));
  const char* const rest = start + 2;  // behind the point
  const std::size_t size = mark > rest ? static_cast<std::size_t>(mark - rest) : 0;
  if (exponent < 0) {
    to = fill(copy(to, "0."), static_cast<std::size_t>(-exponent - 1));
    *to++ = *start;
    return copy(to, rest, size);
  }
  const auto places = static_cast<std::size_t>(exponent);
  *to++ = *start;
  if (size <= places) return copy(fill(copy(to, rest, size), places - size), ".0");
  to = copy(to, rest, places);
  *to++ = '.';
  return copy(to, rest + places, size - places);
}

template <typename Float>
void append_float(std::string& out, Float number) {
  char text[most_characters];
  const std::string_view written(text, static_cast<std::size_t>(put_float(text, number) - text));
  if (std::isfinite(number)) {
    out += written;
  } else {
    out += '"';
    out += written;
    out += '"';
  }
}

void append_escaped(std::string& out, char character) {
  switch (character) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    case '\b': out += "\\b"; return;
    case '\f': out += "\\f"; return;
    default: break;
  }
  constexpr char digits[] = "0123456789abcdef";
  out += "\\u00";
  out += digits[character >> 4 & 15];
  out += digits[character & 15];
}

}  // namespace

void append(std::string& out, std::int64_t number) { append_integer(out, number); }
void append(std::string& out, std::uint64_t number) { append_integer(out, number); }
char* put(char* to, float number) noexcept { return put_float(to, number); }
char* put(char* to, double number) noexcept { return put_float(to, number); }
void append(std::string& out, float number) { append_float(out, number); }
void append(std::string& out, double number) { append_float(out, number); }

bool append_ascii(std::string& out, std::string_view text) {
  unsigned char all = 0;
  for (const char character : text) all |= static_cast<unsigned char>(character);
  if (all >= 0x80) return false;
  out += '"';
  std::size_t plain = 0;  // where the characters start that were not appended yet
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char character = text[i];
    if (character >= ' ' && character != '"' && character != '\\' && character != 0x7f) continue;
    out += text.substr(plain, i - plain);
    append_escaped(out, character);
    plain = i + 1;
  }
  out += text.substr(plain);
  out += '"';
  return true;
}

}  // namespace ferry::json_text
