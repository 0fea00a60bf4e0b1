#include "statistics.h"

#include <mutex>

#include "parallel.h"

namespace ferry::statistics {

namespace {

#define FERRY_KERNELS "statistics_kernels.h"
#include "widths.h"

}  // namespace

Moments moments_of(Type type, const std::uint8_t* source, std::size_t count) {
  return FERRY_WIDEST(moments_of, type, source, count);
}

void count_bins(Type type, const std::uint8_t* source, std::size_t count, int exponent, double first,
                std::vector<std::uint64_t>& bins) {
  return FERRY_WIDEST(count_bins, type, source, count, exponent, first, bins);
}

std::vector<std::uint64_t> count_magnitudes(Type type, const std::uint8_t* source, std::size_t count) {
  return FERRY_WIDEST(count_magnitudes, type, source, count);
}

}  // namespace ferry::statistics
