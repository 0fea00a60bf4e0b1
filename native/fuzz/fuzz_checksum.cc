// Any bytes, cut anywhere: the checksums are those that the definition gives, bit by bit.
#include "core/checksum.h"

namespace {

void check(const std::uint8_t* data, std::size_t size, std::uint32_t polynomial,
           std::uint32_t (*checksum)(const std::uint8_t*, std::size_t, std::uint32_t) noexcept) {
  std::uint32_t expected = ~0u;
  for (std::size_t i = 0; i < size; ++i) {
    expected ^= data[i];
    for (int bit = 0; bit < 8; ++bit) expected = expected >> 1 ^ (expected & 1 ? polynomial : 0);
  }
  expected = ~expected;
  if (checksum(data, size, 0) != expected) __builtin_trap();
  const std::size_t cut = size == 0 ? 0 : data[0] % (size + 1);
  const std::uint32_t head = checksum(data, cut, 0);
  if (checksum(data + cut, size - cut, head) != expected) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check(data, size, 0x82f63b78, ferry::crc32c);
  check(data, size, 0xedb88320, ferry::crc32);
  return 0;
}
