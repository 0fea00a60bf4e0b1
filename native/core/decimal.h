// Decimal numbers in text, as JSON writes them: -1, 0.5, 6e-7.
#pragma once

#include <bit>
#include <cfloat>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

namespace ferry::decimal {

constexpr int most_digits = 18;  // that an int64 has room for, whichever they are
constexpr double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                             1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

inline bool is_digit(std::uint8_t byte) noexcept { return byte >= '0' && byte <= '9'; }

// Eight digits at once; false if one of eight bytes is none. A word has the first byte at its lower
// end: neighbours are put together to two digits, then to four, then to eight.
inline bool read_eight(const std::uint8_t* at, std::uint64_t& number) noexcept {
  if constexpr (std::endian::native != std::endian::little) return false;
  std::uint64_t word;
  std::memcpy(&word, at, 8);
  const std::uint64_t beyond = word + 0x4646464646464646;  // has an upper bit for bytes above '9'
  word -= 0x3030303030303030;                              // and here, for those below '0'
  if (((beyond | word) & 0x8080808080808080) != 0) return false;
  word = word * 10 + (word >> 8);
  const std::uint64_t even = (word & 0x000000ff000000ff) * 0x000f424000000064;
  const std::uint64_t odd = (word >> 16 & 0x000000ff000000ff) * 0x0000271000000001;
  number = (even + odd) >> 32;
  return true;
}

// A number that was read: its text, and what of it fits into integers.
struct Decimal {
  const std::uint8_t* start;  // behind the sign
  const std::uint8_t* end;
  std::uint64_t digits = 0;  // all of them, if they are no more than `most_digits`
  std::int64_t count = 0;    // of them; a text may have more than an int counts
  std::int64_t exponent = 0;
  bool is_negative = false;
  bool is_integer = true;  // has neither a point nor an exponent
};

// Reads a number and goes behind it; false if none stands there.
inline bool read(const std::uint8_t*& at, const std::uint8_t* end, Decimal& found) noexcept {
  found.is_negative = at != end && *at == '-';
  if (found.is_negative) ++at;
  found.start = at;
  const auto take_digits = [&] {
    const std::uint8_t* const first = at;
    for (std::uint64_t digits; end - at >= 8 && read_eight(at, digits); at += 8) {
      found.digits = found.digits * 100000000 + digits;
    }
    for (; at != end && is_digit(*at); ++at) found.digits = found.digits * 10 + (*at - '0');
    return at - first;
  };
  found.count = take_digits();
  if (found.count == 0 || (*found.start == '0' && found.count > 1)) return false;
  if (at != end && *at == '.') {
    ++at;
    found.is_integer = false;
    const std::int64_t behind = take_digits();
    if (behind == 0) return false;
    found.count += behind;
    found.exponent = -behind;
    // Zeros before the first digit that counts, as in 0.001: with the one before the point.
    for (const std::uint8_t* zero = found.start; zero != at && (*zero == '0' || *zero == '.'); ++zero) {
      found.count -= *zero == '0' ? 1 : 0;
    }
  }
  if (at != end && (*at == 'e' || *at == 'E')) {
    ++at;
    found.is_integer = false;
    const bool down = at != end && *at == '-';
    if (at != end && (*at == '-' || *at == '+')) ++at;
    if (at == end || !is_digit(*at)) return false;
    int power = 0;
    for (; at != end && is_digit(*at); ++at) power = power < 10000 ? power * 10 + (*at - '0') : power;
    found.exponent += down ? -power : power;
  }
  found.end = at;
  return true;
}

// An integer as an int64; false if it has too many digits.
inline bool as_integer(const Decimal& decimal, std::int64_t& number) noexcept {
  if (!decimal.is_integer || decimal.count > most_digits) return false;
  number = static_cast<std::int64_t>(decimal.digits);
  if (decimal.is_negative) number = -number;
  return true;
}

// The double that a number is nearest to; false if it is beyond all, or next to nothing.
inline bool as_double(const Decimal& decimal, double& number) {
  // A whole number of at most 53 bits times or over an exact power of ten is rounded once.
  const bool is_exact = FLT_EVAL_METHOD == 0 && decimal.count <= most_digits &&
                        decimal.digits <= 1ULL << 53 && decimal.exponent >= -22 &&
                        decimal.exponent <= 22;
  if (is_exact) {
    number = static_cast<double>(decimal.digits);
    number = decimal.exponent < 0 ? number / powers[-decimal.exponent]
                                  : number * powers[decimal.exponent];
  } else {
    const auto* const text = reinterpret_cast<const char*>(decimal.start);
    const auto size = static_cast<std::size_t>(decimal.end - decimal.start);
#if defined(__cpp_lib_to_chars) && !defined(__APPLE__)
    if (std::from_chars(text, text + size, number).ec != std::errc()) return false;
#else
    number = std::strtod(std::string(text, size).c_str(), nullptr);
    if (number == 0 || number > std::numeric_limits<double>::max()) return false;
#endif
  }
  if (decimal.is_negative) number = -number;
  return true;
}

}  // namespace ferry::decimal
