// Numbers as arrays hold them: floats of 8 to 64 bits and integers, and how one becomes another.
//
// Casts are those of NumPy (float16) and ml_dtypes (bfloat16, float8) bit by bit: to the nearest,
// ties to even, with their NaNs. They have no branches, so that compilers make vectors of loops over
// them. Kernels copy some elements at a time into memory of their own (`load`) and never look at an
// array twice: it may lie at any address, and change meanwhile.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "inline.h"

namespace ferry::numbers {

// How many elements are worked on together: all buffers of a kernel fit into the fastest cache.
// Fuzz targets have smaller ones, so that small inputs have several.
#if !defined(FERRY_BLOCK)
#define FERRY_BLOCK 512
#endif
constexpr std::size_t block = FERRY_BLOCK;

// Sums and extremes are kept in so many lanes, which compilers make vectors of.
constexpr std::size_t lanes = 8;

// Of extremes, which are the same in any order, so many more that none waits for the one before.
constexpr std::size_t many_lanes = 32;

// The layout of IEEE floats that processors calculate with.
template <typename Float>
struct Layout;
template <>
struct Layout<float> {
  using Bits = std::uint32_t;
  static constexpr int mantissa = 23;
  static constexpr int bias = 127;
};
template <>
struct Layout<double> {
  using Bits = std::uint64_t;
  static constexpr int mantissa = 52;
  static constexpr int bias = 1023;
};

// A power of two.
template <typename Float>
constexpr Float two_to(int exponent) {
  using L = Layout<Float>;
  return std::bit_cast<Float>(static_cast<typename L::Bits>(exponent + L::bias) << L::mantissa);
}

// A number that processors know.
template <typename Number>
struct Native {
  using Stored = Number;
  using Work = std::conditional_t<std::is_same_v<Number, float>, float, double>;  // calculated with
  static constexpr bool is_float = std::is_floating_point_v<Number>;
  static constexpr double largest = static_cast<double>(std::numeric_limits<Number>::max());

  template <typename Float>
  FERRY_INLINE static Float widen(Stored stored) noexcept {
    return static_cast<Float>(stored);
  }
  template <typename Float>
  FERRY_INLINE static Stored narrow(Float number) noexcept {
    return static_cast<Stored>(number);
  }
};

// What becomes of a NaN: float16 keeps what fits of its bits, the others have one.
enum class Nan { kept, quiet, only };

// A float of 8 or 16 bits. With Nan::only there is no infinity either: numbers beyond the largest
// become the NaN.
template <int Exponent, int Mantissa, Nan Kind>
struct Small {
  using Stored = std::conditional_t<(Exponent + Mantissa > 7), std::uint16_t, std::uint8_t>;
  using Work = float;
  static constexpr bool is_float = true;
  static constexpr int bias = (1 << (Exponent - 1)) - 1;
  static constexpr std::uint32_t sign_bit = 1U << (Exponent + Mantissa);
  static constexpr bool has_infinity = Kind != Nan::only;
  // The first code that is no finite number.
  static constexpr std::uint32_t beyond =
      has_infinity ? ((1U << Exponent) - 1) << Mantissa : sign_bit - 1;
  static constexpr std::uint32_t quiet = has_infinity ? beyond | 1U << (Mantissa - 1) : beyond;

  template <typename Float>
  FERRY_INLINE static Float widen(Stored stored) noexcept {
    using L = Layout<Float>;
    using Bits = typename L::Bits;
    constexpr int shift = L::mantissa - Mantissa;
    constexpr Bits rebias = static_cast<Bits>(L::bias - bias) << L::mantissa;
    constexpr Bits infinite = static_cast<Bits>(2 * L::bias + 1) << L::mantissa;
    constexpr Bits quiet_nan = infinite | Bits{1} << (L::mantissa - 1);
    const Bits magnitude = stored & (sign_bit - 1);
    const Bits sign = static_cast<Bits>(stored & sign_bit) << (8 * sizeof(Bits) - 1 - Exponent - Mantissa);
    const Bits normal = (magnitude << shift) + rebias;
    // An integer below 2^Mantissa, as so many of the smallest steps.
    const Bits subnormal = std::bit_cast<Bits>(
        static_cast<Float>(static_cast<std::int32_t>(magnitude)) * two_to<Float>(1 - bias - Mantissa));
    Bits special;
    if constexpr (Kind == Nan::kept) {
      special = infinite | (magnitude << shift);
    } else if constexpr (Kind == Nan::quiet) {
      special = magnitude == beyond ? infinite : quiet_nan;
    } else {
      special = quiet_nan;
    }
    Bits bits = magnitude < (Bits{1} << Mantissa) ? subnormal : normal;
    bits = magnitude >= beyond ? special : bits;
    return std::bit_cast<Float>(bits | sign);
  }

  template <typename Float>
  FERRY_INLINE static Stored narrow(Float number) noexcept {
    if constexpr (Kind != Nan::kept && std::is_same_v<Float, double>) {
      return narrow(static_cast<float>(number));  // as ml_dtypes does
    } else {
      using L = Layout<Float>;
      using Bits = typename L::Bits;
      constexpr int shift = L::mantissa - Mantissa;
      constexpr Bits top = Bits{1} << (8 * sizeof(Bits) - 1);
      constexpr Bits infinite = static_cast<Bits>(2 * L::bias + 1) << L::mantissa;
      constexpr Bits rebias = static_cast<Bits>(L::bias - bias) << L::mantissa;
      constexpr Bits least_normal = static_cast<Bits>(1 - bias + L::bias) << L::mantissa;
      // Added to a number below the least normal one, it leaves so many of the smallest steps in
      // the last bits, rounded by the processor.
      constexpr Float steps = two_to<Float>(1 - bias - Mantissa + L::mantissa);
      const Bits bits = std::bit_cast<Bits>(number);
      const Bits magnitude = bits & ~top;
      const Bits sign = (bits & top) >> (8 * sizeof(Bits) - 1 - Exponent - Mantissa);
      const Bits odd = magnitude >> shift & 1;
      const Bits normal = (magnitude - rebias + (Bits{1} << (shift - 1)) - 1 + odd) >> shift;
      const Bits subnormal =
          std::bit_cast<Bits>(std::bit_cast<Float>(magnitude) + steps) - std::bit_cast<Bits>(steps);
      Bits code = magnitude < least_normal ? subnormal : (normal < beyond ? normal : Bits{beyond});
      Bits nan = quiet;
      if constexpr (Kind == Nan::kept) {
        const Bits rest = magnitude >> shift & ((Bits{1} << Mantissa) - 1);
        nan = beyond + (rest == 0 ? Bits{1} : rest);
      }
      code = magnitude > infinite ? nan : code;
      return static_cast<Stored>(code | sign);
    }
  }
};

// The upper half of a float32.
struct BFloat16 {
  using Stored = std::uint16_t;
  using Work = float;
  static constexpr bool is_float = true;
  static constexpr std::uint32_t sign_bit = 0x8000;
  static constexpr bool has_infinity = true;
  static constexpr std::uint32_t beyond = 0x7f80;

  template <typename Float>
  FERRY_INLINE static Float widen(Stored stored) noexcept {
    return static_cast<Float>(std::bit_cast<float>(static_cast<std::uint32_t>(stored) << 16));
  }
  template <typename Float>
  FERRY_INLINE static Stored narrow(Float number) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(number));
    const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const std::uint32_t nan = (bits >> 16 & sign_bit) | 0x7fc0;
    return static_cast<Stored>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
  }
};

using Float64 = Native<double>;
using Float32 = Native<float>;
using Float16 = Small<5, 10, Nan::kept>;
using Float8E5M2 = Small<5, 2, Nan::quiet>;
using Float8E4M3FN = Small<4, 3, Nan::only>;

// The elements that kernels are made for.
enum class Type {
  float64, float32, float16, bfloat16, float8_e4m3fn, float8_e5m2,
  int8, int16, int32, int64, uint8, uint16, uint32, uint64,
};

// Calls `visit` with an object of the type that stands for the elements.
template <typename Visit>
auto with_float(Type type, Visit visit) {
  switch (type) {
    case Type::float64: return visit(Float64{});
    case Type::float16: return visit(Float16{});
    case Type::bfloat16: return visit(BFloat16{});
    case Type::float8_e4m3fn: return visit(Float8E4M3FN{});
    case Type::float8_e5m2: return visit(Float8E5M2{});
    default: return visit(Float32{});
  }
}
template <typename Visit>
auto with_number(Type type, Visit visit) {
  switch (type) {
    case Type::int8: return visit(Native<std::int8_t>{});
    case Type::int16: return visit(Native<std::int16_t>{});
    case Type::int32: return visit(Native<std::int32_t>{});
    case Type::int64: return visit(Native<std::int64_t>{});
    case Type::uint8: return visit(Native<std::uint8_t>{});
    case Type::uint16: return visit(Native<std::uint16_t>{});
    case Type::uint32: return visit(Native<std::uint32_t>{});
    case Type::uint64: return visit(Native<std::uint64_t>{});
    default: return with_float(type, visit);
  }
}

inline std::size_t size_of(Type type) noexcept {
  return with_number(type, [](auto element) { return sizeof(typename decltype(element)::Stored); });
}

// Copies up to a block of elements of an array at any address, and fills the rest with zeros.
template <typename Stored>
FERRY_INLINE void load(const std::uint8_t* source, std::size_t count, Stored* into) noexcept {
  std::memcpy(into, source, count * sizeof(Stored));
  if (count < block) std::memset(into + count, 0, (block - count) * sizeof(Stored));
}

// The same as numbers that are calculated with.
template <typename Element, typename Work>
FERRY_INLINE void load_widened(const std::uint8_t* source, std::size_t count, Work* into) noexcept {
  using Stored = typename Element::Stored;
  if constexpr (std::is_same_v<Stored, Work>) {
    load(source, count, into);
  } else {
    Stored stored[block];
    load(source, count, stored);
    for (std::size_t i = 0; i < block; ++i) into[i] = Element::template widen<Work>(stored[i]);
  }
}

template <typename Stored>
FERRY_INLINE void store(const Stored* block_of, std::size_t count, std::uint8_t* target) noexcept {
  std::memcpy(target, block_of, count * sizeof(Stored));
}

template <typename Float>
FERRY_INLINE bool is_finite(Float number) noexcept {  // also false for NaN
  return std::fabs(number) <= std::numeric_limits<Float>::max();
}

// Widens a range so that it holds some numbers, too.
template <typename Work>
FERRY_INLINE void widen_range(const Work* numbers, std::size_t count, Work& low, Work& high) noexcept {
  Work least[many_lanes], most[many_lanes];
  std::fill_n(least, many_lanes, low);
  std::fill_n(most, many_lanes, high);
  std::size_t i = 0;
  for (; i + many_lanes <= count; i += many_lanes) {
    for (std::size_t lane = 0; lane < many_lanes; ++lane) {
      const Work number = numbers[i + lane];
      least[lane] = number < least[lane] ? number : least[lane];
    }
    for (std::size_t lane = 0; lane < many_lanes; ++lane) {
      const Work number = numbers[i + lane];
      most[lane] = number > most[lane] ? number : most[lane];
    }
  }
  for (; i < count; ++i) {
    least[0] = std::min(least[0], numbers[i]);
    most[0] = std::max(most[0], numbers[i]);
  }
  low = *std::min_element(least, least + many_lanes);
  high = *std::max_element(most, most + many_lanes);
}

}  // namespace ferry::numbers
