// Any bytes as a header of safetensors: first a size of the data, then the text.
#include "core/safetensors.h"

namespace safetensors = ferry::safetensors;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint64_t data_size = data[0];
  const ferry::Input input(data + 1, size - 1);
  try {
    const safetensors::Header header(input.span(), data_size);
    std::uint64_t covered = 0;
    for (const safetensors::Array& array : header.arrays) {
      if (array.begin > array.end || array.end > data_size) __builtin_trap();
      if (array.rank > safetensors::max_rank) __builtin_trap();
      if (array.dims + array.rank > header.dims.size()) __builtin_trap();
      if (!ferry::json::is_utf8(array.name)) __builtin_trap();
      covered += array.end - array.begin;
    }
    if (covered != data_size) __builtin_trap();
    for (const auto& [key, value] : header.metadata) {
      if (!ferry::json::is_utf8(key) || !ferry::json::is_utf8(value)) __builtin_trap();
    }
  } catch (const ferry::Error&) {
  }
  return 0;
}
