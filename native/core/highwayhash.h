// HighwayHash of 64 bits, as Riegeli files carry it for their chunks.
#pragma once

#include <array>

#include "wire.h"

namespace ferry {

using HighwayKey = std::array<std::uint64_t, 4>;

// The hash of `size` bytes under a key.
std::uint64_t highway_hash(const HighwayKey& key, const std::uint8_t* data, std::size_t size) noexcept;

}  // namespace ferry
