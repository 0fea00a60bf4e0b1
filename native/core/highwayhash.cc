#include "highwayhash.h"

namespace ferry {

namespace {

using Lanes = std::array<std::uint64_t, 4>;

constexpr std::size_t packet_size = sizeof(Lanes);

// Digits of pi, which favour nobody.
constexpr Lanes first_constants = {0xdbe6d5d5fe4cce2f, 0xa4093822299f31d0, 0x13198a2e03707344,
                                   0x243f6a8885a308d3};
constexpr Lanes second_constants = {0x3bd39e10cb0ef593, 0xc0acf169b5f18a8c, 0xbe5466cf34e90c6c,
                                    0x452821e638d01377};

constexpr std::uint64_t turned(std::uint64_t lane) noexcept { return lane >> 32 | lane << 32; }

// One byte of a lane, moved from one place to another.
template <int From, int To>
constexpr std::uint64_t moved(std::uint64_t lane) noexcept {
  const std::uint64_t byte = lane & std::uint64_t{0xff} << 8 * From;
  if constexpr (From < To) {
    return byte << 8 * (To - From);
  } else {
    return byte >> 8 * (From - To);
  }
}

// Adds two lanes to two others, with their bytes mixed: multiplying mixes the middle bytes of a lane
// best and its outermost least, so that these change places.
inline void add_mixed(std::uint64_t low, std::uint64_t high, std::uint64_t& to_low,
                      std::uint64_t& to_high) noexcept {
  to_low += moved<3, 0>(low) | moved<4, 1>(high) | moved<2, 2>(low) | moved<5, 3>(low) |
            moved<6, 4>(high) | moved<1, 5>(low) | moved<7, 6>(high) | moved<0, 7>(low);
  to_high += moved<3, 0>(high) | moved<4, 1>(low) | moved<2, 2>(high) | moved<5, 3>(high) |
             moved<1, 4>(high) | moved<6, 5>(low) | moved<0, 6>(high) | moved<7, 7>(low);
}

struct State {
  Lanes sum0, sum1, multiply0, multiply1;

  explicit State(const HighwayKey& key) noexcept
      : multiply0(first_constants), multiply1(second_constants) {
    for (std::size_t i = 0; i < 4; ++i) {
      sum0[i] = multiply0[i] ^ key[i];
      sum1[i] = multiply1[i] ^ turned(key[i]);
    }
  }

  void update(const Lanes& packet) noexcept {
    for (std::size_t i = 0; i < 4; ++i) {
      sum1[i] += multiply0[i] + packet[i];
      multiply0[i] ^= (sum1[i] & 0xffffffff) * (sum0[i] >> 32);
      sum0[i] += multiply1[i];
      multiply1[i] ^= (sum0[i] & 0xffffffff) * (sum1[i] >> 32);
    }
    for (std::size_t i = 0; i < 4; i += 2) add_mixed(sum1[i], sum1[i + 1], sum0[i], sum0[i + 1]);
    for (std::size_t i = 0; i < 4; i += 2) add_mixed(sum0[i], sum0[i + 1], sum1[i], sum1[i + 1]);
  }

  void update(const std::uint8_t* data) noexcept {
    Lanes packet;
    std::memcpy(packet.data(), data, packet_size);
    update(packet);
  }

  // The last bytes, 1 to 31 of them.
  void update_rest(const std::uint8_t* data, std::size_t size) noexcept {
    const auto rotated = [size](std::uint32_t half) { return half << size | half >> (32 - size); };
    for (std::uint64_t& lane : sum0) lane += std::uint64_t{size} << 32 | size;
    for (std::uint64_t& lane : sum1) {
      const std::uint64_t high = rotated(static_cast<std::uint32_t>(lane >> 32));
      lane = high << 32 | rotated(static_cast<std::uint32_t>(lane));
    }
    const std::size_t odd = size % 4;
    const std::uint8_t* tail = data + (size - odd);
    std::array<std::uint8_t, packet_size> packet{};
    std::memcpy(packet.data(), data, size - odd);
    if (size >= 16) {
      std::memcpy(packet.data() + 28, tail + odd - 4, 4);
    } else if (odd != 0) {
      packet[16] = tail[0];
      packet[17] = tail[odd / 2];
      packet[18] = tail[odd - 1];
    }
    update(packet.data());
  }

  std::uint64_t finish() noexcept {
    for (int round = 0; round < 4; ++round) {
      update({turned(sum0[2]), turned(sum0[3]), turned(sum0[0]), turned(sum0[1])});
    }
    return sum0[0] + sum1[0] + multiply0[0] + multiply1[0];
  }
};

}  // namespace

std::uint64_t highway_hash(const HighwayKey& key, const std::uint8_t* data, std::size_t size) noexcept {
  State state(key);
  for (; size >= packet_size; data += packet_size, size -= packet_size) state.update(data);
  if (size != 0) state.update_rest(data, size);
  return state.finish();
}

}  // namespace ferry
