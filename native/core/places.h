// Where a byte stands in a text: 64 bytes are looked at together, a bit for each.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ferry::places {

constexpr std::size_t width = 64;

inline std::uint64_t of(const std::uint8_t* bytes, std::uint8_t wanted) noexcept {
  std::uint64_t found = 0;
#if defined(__SSE2__)
  const __m128i pattern = _mm_set1_epi8(static_cast<char>(wanted));
  for (int part = 0; part < 4; ++part) {
    const __m128i loaded = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + 16 * part));
    const int equal = _mm_movemask_epi8(_mm_cmpeq_epi8(loaded, pattern));
    found |= static_cast<std::uint64_t>(static_cast<std::uint32_t>(equal)) << (16 * part);
  }
#else
  for (std::size_t i = 0; i < width; ++i) {
    found |= static_cast<std::uint64_t>(bytes[i] == wanted) << i;
  }
#endif
  return found;
}

// Each bit becomes the parity of itself and all bits below: whether a quote is open.
inline std::uint64_t parities(std::uint64_t bits) noexcept {
  for (int step = 1; step < 64; step *= 2) bits ^= bits << step;
  return bits;
}

}  // namespace ferry::places
