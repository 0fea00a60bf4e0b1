#include "json_text.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

namespace ferry::json_text {

namespace {

constexpr std::size_t most_characters = 40;  // of a number

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

template <typename Float>
void append_float(std::string& out, Float number) {
  if (std::isnan(number)) {
    out += "\"NaN\"";
    return;
  }
  if (std::isinf(number)) {
    out += number > 0 ? "\"Infinity\"" : "\"-Infinity\"";
    return;
  }
  char text[most_characters];
  const char* const end = put_shortest(text, number);
  const char* start = text;
  if (*start == '-') out += *start++;
  const std::string_view all(start, static_cast<std::size_t>(end - start));
  const std::size_t mark = all.find('e');
  int exponent = 0;
  const char* const digits_of_it = start + mark + (all[mark + 1] == '+' ? 2 : 1);
  std::from_chars(digits_of_it, end, exponent);
  if (exponent < -4 || exponent > 15) {
    out += all;
    return;
  }
  std::string_view rest = mark > 2 ? all.substr(2, mark - 2) : std::string_view();  // behind the point
  if (exponent < 0) {
    out += "0.";
    out.append(static_cast<std::size_t>(-exponent - 1), '0');
    out += all[0];
    out += rest;
    return;
  }
  const auto places = static_cast<std::size_t>(exponent);
  out += all[0];
  if (rest.size() <= places) {
    out += rest;
    out.append(places - rest.size(), '0');
    out += ".0";
  } else {
    out += rest.substr(0, places);
    out += '.';
    out += rest.substr(places);
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
