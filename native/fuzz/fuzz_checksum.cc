// Any bytes, cut anywhere: the checksum is the one that the definition gives, bit by bit.
#include "core/checksum.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::uint32_t expected = ~0u;
  for (std::size_t i = 0; i < size; ++i) {
    expected ^= data[i];
    for (int bit = 0; bit < 8; ++bit) expected = expected >> 1 ^ (expected & 1 ? 0x82f63b78u : 0);
  }
  expected = ~expected;
  if (ferry::crc32c(data, size) != expected) __builtin_trap();
  const std::size_t cut = size == 0 ? 0 : data[0] % (size + 1);
  const std::uint32_t head = ferry::crc32c(data, cut);
  if (ferry::crc32c(data + cut, size - cut, head) != expected) __builtin_trap();
  return 0;
}
