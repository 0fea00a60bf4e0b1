#include "quantize.h"

#include <algorithm>
#include <mutex>

#include "parallel.h"

namespace ferry::quantize {

namespace {

#define FERRY_KERNELS "quantize_kernels.h"
#include "twice.h"

}  // namespace

Totals find_ranges(Type type, const std::uint8_t* source, std::size_t count, Channels channels,
                   std::uint8_t* low, std::uint8_t* high) {
  return FERRY_WIDEST(find_ranges, type, source, count, channels, low, high);
}

Totals to_integers(Type type, const std::uint8_t* source, std::size_t count, const Steps& steps,
                   Type kind, std::uint8_t* target) {
  return FERRY_WIDEST(to_integers, type, source, count, steps, kind, target);
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
