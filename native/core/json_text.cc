#include "json_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "shortest.h"

namespace ferry::json_text {

namespace {

template <typename Integer>
void append_integer(std::string& out, Integer number) {
  char text[most_characters];
  out.append(text, std::to_chars(text, text + sizeof(text), number).ptr);
}

constexpr std::size_t most_digits = 20;  // of 64 bits

// So many bytes are copied where there may be fewer digits: a copy of a known size takes no call.
constexpr std::size_t copied = 17;

constexpr auto pairs = [] {
  std::array<char, 200> digits{};
  for (std::size_t i = 0; i < 100; ++i) {
    digits[2 * i] = static_cast<char>('0' + i / 10);
    digits[2 * i + 1] = static_cast<char>('0' + i % 10);
  }
  return digits;
}();

// Writes digits that end at a place; gives their start.
char* put_digits(char* end, std::uint64_t number) noexcept {
  const auto put_pair = [&](std::uint32_t pair) {
    end -= 2;
    std::memcpy(end, pairs.data() + 2 * pair, 2);
  };
  for (; number >= 100'000'000; number /= 100'000'000) {
    auto last = static_cast<std::uint32_t>(number % 100'000'000);
    for (int i = 0; i < 4; ++i, last /= 100) put_pair(last % 100);
  }
  auto rest = static_cast<std::uint32_t>(number);
  for (; rest >= 100; rest /= 100) put_pair(rest % 100);
  if (rest >= 10) {
    put_pair(rest);
  } else {
    *--end = static_cast<char>('0' + rest);
  }
  return end;
}

char* copy(char* to, std::string_view word) noexcept {
  std::memcpy(to, word.data(), word.size());
  return to + word.size();
}

char* copy_digits(char* to, const char* from, std::size_t size) noexcept {
  std::memcpy(to, from, copied);
  return to + size;
}

char* put_zeros(char* to, std::size_t count) noexcept {
  std::memset(to, '0', copied);
  return to + count;
}

// As in 1.25e-07: an exponent has two digits at least.
char* put_scientific(char* to, const char* digits, std::size_t size, int exponent) noexcept {
  *to++ = *digits;
  if (size > 1) {
    *to++ = '.';
    to = copy_digits(to, digits + 1, size - 1);
  }
  *to++ = 'e';
  *to++ = exponent < 0 ? '-' : '+';
  const auto power = static_cast<std::uint32_t>(exponent < 0 ? -exponent : exponent);
  if (power >= 100) *to++ = static_cast<char>('0' + power / 100);
  std::memcpy(to, pairs.data() + 2 * (power % 100), 2);
  return to + 2;
}

template <typename Float>
char* put_float(char* to, Float number) noexcept {
  if (std::isnan(number)) return copy(to, "NaN");
  if (std::isinf(number)) return copy(to, number > 0 ? "Infinity" : "-Infinity");
  if (std::signbit(number)) {
    *to++ = '-';
    number = -number;
  }
  if (number == 0) return copy(to, "0.0");
  shortest::Decimal found = shortest::find(number);
  for (; found.digits % 10 == 0; ++found.exponent) found.digits /= 10;
  std::array<char, most_digits + copied> text{};
  const char* const end = text.data() + most_digits;
  const char* const start = put_digits(text.data() + most_digits, found.digits);
  const auto size = static_cast<std::size_t>(end - start);
  const int exponent = found.exponent + static_cast<int>(size) - 1;  // of the first digit
  if (exponent < -4 || exponent > 15) return put_scientific(to, start, size, exponent);
  if (exponent < 0) {
    to = put_zeros(copy(to, "0."), static_cast<std::size_t>(-exponent - 1));
    return copy_digits(to, start, size);
  }
  const auto whole = static_cast<std::size_t>(exponent) + 1;  // digits before the point
  to = copy_digits(to, start, size < whole ? size : whole);
  if (size <= whole) return copy(put_zeros(to, whole - size), ".0");
  *to++ = '.';
  return copy_digits(to, start + whole, size - whole);
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
