// Any numbers, of any type, at any address: every element is counted once.
#include "core/statistics.h"

#include <numeric>

using namespace ferry;
using numbers::Type;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const auto type = static_cast<Type>(data[0] % 14);
  const std::size_t count = (size - 3) / numbers::size_of(type);
  const statistics::Moments found = statistics::moments_of(type, data + 3, count);
  if (found.finite + found.nans + found.infinities != count || found.zeros > count) __builtin_trap();

  std::vector<std::uint64_t> bins(data[1]);
  statistics::count_bins(type, data + 3, count, static_cast<std::int8_t>(data[2]) * 8, -50, bins);
  if (std::accumulate(bins.begin(), bins.end(), std::uint64_t{0}) > found.finite) __builtin_trap();
  // Their many bins take a hundred times as long as all else: one input in sixteen, which mutations
  // neither keep nor avoid.
  if (std::accumulate(data, data + size, 0u) % 16 != 0) return 0;
  const auto magnitudes = statistics::count_magnitudes(type, data + 3, count);
  const auto counted = std::accumulate(magnitudes.begin(), magnitudes.end(), std::uint64_t{0});
  if (counted + found.zeros != found.finite) __builtin_trap();
  return 0;
}
