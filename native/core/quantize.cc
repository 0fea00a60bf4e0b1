#include "quantize.h"

#include <algorithm>
#include <mutex>

#include "parallel.h"

namespace ferry::quantize {

namespace {

#define FERRY_KERNELS "quantize_kernels.h"
#include "widths.h"

template <typename Work>
void find_steps(const std::uint8_t* low, const std::uint8_t* high, std::size_t channels, int lowest,
                bool affine, std::uint8_t* scale, std::uint8_t* zero_point) noexcept {
  constexpr auto tiny = static_cast<double>(std::numeric_limits<Work>::min());
  for (std::size_t at = 0; at < channels * sizeof(Work); at += sizeof(Work)) {
    Work least, most;
    std::memcpy(&least, low + at, sizeof(Work));
    std::memcpy(&most, high + at, sizeof(Work));
    const auto from = static_cast<double>(least), to = static_cast<double>(most);
    // Each is divided first: their difference may overflow.
    double size = affine ? to / 255 - from / 255 : std::max(-from, to) / 127;
    // A step below the smallest normal number would lose precision, or become zero.
    size = from == 0 && to == 0 ? 1 : std::max(size, tiny);
    const auto step = static_cast<Work>(size);
    double zero = lowest + 128;
    if (affine) {
      const double place = lowest - from / static_cast<double>(step);
      zero = std::clamp(std::nearbyint(place), static_cast<double>(lowest), lowest + 255.0);
    }
    const auto middle = static_cast<Work>(zero);
    std::memcpy(scale + at, &step, sizeof(Work));
    std::memcpy(zero_point + at, &middle, sizeof(Work));
  }
}

}  // namespace

Totals find_ranges(Type type, const std::uint8_t* source, std::size_t count, Channels channels,
                   std::uint8_t* low, std::uint8_t* high) {
  return FERRY_WIDEST(find_ranges, type, source, count, channels, low, high);
}

void find_steps(Type type, const std::uint8_t* low, const std::uint8_t* high, std::size_t channels,
                int lowest, bool affine, std::uint8_t* scale, std::uint8_t* zero_point) noexcept {
  const auto find = type == Type::float64 ? find_steps<double> : find_steps<float>;
  find(low, high, channels, lowest, affine, scale, zero_point);
}

Totals to_integers(Type type, const std::uint8_t* source, std::size_t count, const Steps& steps,
                   std::uint8_t* target) {
  return FERRY_WIDEST(to_integers, type, source, count, steps, target);
}

void from_integers(Type kind, const std::uint8_t* source, std::size_t count, const Steps& steps,
                   Type type, std::uint8_t* target) {
  return FERRY_WIDEST(from_integers, kind, source, count, steps, type, target);
}

Totals to_floats(Type type, const std::uint8_t* source, std::size_t count, bool clip, Type kind,
                 std::uint8_t* target) {
  return FERRY_WIDEST(to_floats, type, source, count, clip, kind, target);
}

void from_floats(Type kind, const std::uint8_t* source, std::size_t count, Type type,
                 std::uint8_t* target) {
  return FERRY_WIDEST(from_floats, kind, source, count, type, target);
}

}  // namespace ferry::quantize
