// Any numbers, of any type, at any address: what was made smaller and back is close enough that
// making it smaller once more changes nothing, and nothing beyond the arrays is touched.
#include "core/quantize.h"

#include <vector>

using namespace ferry;
using numbers::Type;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  constexpr Type originals[] = {Type::float64, Type::float32, Type::float16, Type::bfloat16};
  constexpr Type floats[] = {Type::float16, Type::bfloat16, Type::float8_e4m3fn, Type::float8_e5m2};
  const Type type = originals[data[0] % 4];
  const Type kind = floats[data[0] / 4 % 4];
  const std::size_t channels = 1 + data[1] % 5, inner = 1 + data[2] % 3;
  const std::size_t width = numbers::size_of(type);
  const std::size_t count = (size - 3) / width / (channels * inner) * (channels * inner);
  const std::uint8_t* const source = data + 3;

  std::vector<std::uint8_t> values(count * numbers::size_of(kind)), again = values;
  std::vector<std::uint8_t> restored(count * width);
  const quantize::Totals found =
      quantize::to_floats(type, source, count, true, kind, values.data());
  quantize::from_floats(kind, values.data(), count, type, restored.data());
  const quantize::Totals second =
      quantize::to_floats(type, restored.data(), count, true, kind, again.data());
  if (found.nans + found.infinities > count || second.largest_error > found.largest_error) {
    __builtin_trap();
  }

  const std::size_t step = type == Type::float64 ? sizeof(double) : sizeof(float);
  std::vector<std::uint8_t> low(channels * step), high = low, scale(channels * step), zero = scale,
                                                           fine = scale;
  quantize::find_ranges(type, source, count, {channels, inner}, low.data(), high.data());
  for (std::size_t channel = 0; channel < channels; ++channel) {
    const double one = 0.5;
    const auto narrow = static_cast<float>(one);
    std::memcpy(scale.data() + channel * step,
                step == sizeof(double) ? static_cast<const void*>(&one) : &narrow, step);
  }
  std::vector<std::uint8_t> integers(count);
  for (const bool affine : {false, true}) {
    quantize::find_steps(type, low.data(), high.data(), channels, -128, affine, fine.data(), zero.data());
    const quantize::Steps steps{affine ? -128 : -127, 127, fine.data(), zero.data(), {channels, inner}};
    quantize::to_integers(type, source, count, steps, integers.data());
    quantize::from_integers(Type::int8, integers.data(), count, steps, type, restored.data());
  }
  std::fill(zero.begin(), zero.end(), std::uint8_t{0});
  const quantize::Steps steps{-128, 127, scale.data(), zero.data(), {channels, inner}};
  quantize::to_integers(type, source, count, steps, integers.data());
  quantize::from_integers(Type::int8, integers.data(), count, steps, type, restored.data());
  const quantize::Totals exact =
      quantize::to_integers(type, restored.data(), count, steps, integers.data());
  if (exact.largest_error != 0) __builtin_trap();
  return 0;
}
