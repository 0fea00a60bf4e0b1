// CRC-32C (Castagnoli), as TFRecords and checkpoints carry it: masked. CRC-32, as zip archives do.
//
// The first uses the processor's own instruction where it has one (SSE 4.2, ARMv8), tables elsewhere.
#pragma once

#include "wire.h"

namespace ferry {

// The checksum of `size` bytes, going on from the checksum of what stood before them.
std::uint32_t crc32c(const std::uint8_t* data, std::size_t size, std::uint32_t before = 0) noexcept;

// The CRC-32 of zip, by tables: for small members, since the package isal is faster for large ones.
std::uint32_t crc32(const std::uint8_t* data, std::size_t size, std::uint32_t before = 0) noexcept;

// Whether the processor that this runs on has the instruction.
bool has_crc32c_instruction() noexcept;

// A checksum stored beside the data it covers is masked, so that checksums of data which holds
// checksums stay good.
inline std::uint32_t masked_crc32c(const std::uint8_t* data, std::size_t size) noexcept {
  const std::uint32_t crc = crc32c(data, size);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

}  // namespace ferry
