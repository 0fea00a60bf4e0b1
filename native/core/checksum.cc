#include "checksum.h"

#include <array>

#if defined(__x86_64__)
#define FERRY_CRC_INSTRUCTION
#include <nmmintrin.h>
#elif defined(__aarch64__)
#define FERRY_CRC_INSTRUCTION
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#endif

namespace ferry {

namespace {

constexpr std::uint32_t castagnoli = 0x82f63b78;  // reflected
constexpr std::uint32_t zip = 0xedb88320;

using Table = std::array<std::uint32_t, 256>;

constexpr Table byte_table(std::uint32_t polynomial) {
  Table table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
    table[byte] = crc;
  }
  return table;
}

constexpr Table by_byte = byte_table(castagnoli);

inline std::uint64_t load(const std::uint8_t* data) noexcept {
  std::uint64_t word;
  std::memcpy(&word, data, 8);
  return word;
}

// What a byte does to a checksum when up to seven others follow it: eight bytes need not wait for
// each other.
constexpr std::array<Table, 8> word_tables(std::uint32_t polynomial) {
  std::array<Table, 8> tables{byte_table(polynomial)};
  for (std::size_t behind = 1; behind < 8; ++behind) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = tables[behind - 1][byte];
      tables[behind][byte] = tables[0][crc & 0xff] ^ crc >> 8;
    }
  }
  return tables;
}

constexpr std::array<Table, 8> castagnoli_by_word = word_tables(castagnoli);
constexpr std::array<Table, 8> zip_by_word = word_tables(zip);

std::uint32_t with_tables(const std::array<Table, 8>& by_word, const std::uint8_t* data,
                          std::size_t size, std::uint32_t crc) noexcept {
  for (; size >= 8; data += 8, size -= 8) {
    const std::uint64_t word = load(data) ^ crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= by_word[7 - i][word >> 8 * i & 0xff];
  }
  for (; size > 0; ++data, --size) crc = by_word[0][(crc ^ *data) & 0xff] ^ crc >> 8;
  return crc;
}

#if defined(FERRY_CRC_INSTRUCTION)

// A checksum moved past `Size` zero bytes: what is needed to join the checksums of neighbours.
// Moving is linear: what it does to each single bit, known at compile time, gives four tables, one
// for each byte of the checksum.
template <std::size_t Size>
struct Shift {
  std::array<Table, 4> tables{};

  constexpr Shift() {
    for (std::size_t bit = 0; bit < 32; ++bit) {
      std::uint32_t crc = std::uint32_t{1} << bit;
      for (std::size_t i = 0; i < Size; ++i) crc = by_byte[crc & 0xff] ^ crc >> 8;
      for (std::size_t byte = 0; byte < 256; ++byte) {
        if (byte >> bit % 8 & 1) tables[bit / 8][byte] ^= crc;
      }
    }
  }
  std::uint32_t operator()(std::uint32_t crc) const noexcept {
    return tables[0][crc & 0xff] ^ tables[1][crc >> 8 & 0xff] ^ tables[2][crc >> 16 & 0xff] ^
           tables[3][crc >> 24];
  }
};

#if defined(__x86_64__)
#define FERRY_CRC_TARGET __attribute__((target("sse4.2,crc32")))
FERRY_CRC_TARGET inline std::uint32_t step(std::uint32_t crc, std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(_mm_crc32_u64(crc, word));
}
FERRY_CRC_TARGET inline std::uint32_t step(std::uint32_t crc, std::uint8_t byte) noexcept {
  return _mm_crc32_u8(crc, byte);
}

bool has_instruction() noexcept { return __builtin_cpu_supports("sse4.2"); }
#else
// Written out, because compilers offer it only where they may use it everywhere.
#define FERRY_CRC_TARGET
inline std::uint32_t step(std::uint32_t crc, std::uint64_t word) noexcept {
  std::uint32_t result;
  __asm__(".arch_extension crc\n\tcrc32cx %w0, %w1, %x2" : "=r"(result) : "r"(crc), "r"(word));
  return result;
}
inline std::uint32_t step(std::uint32_t crc, std::uint8_t byte) noexcept {
  std::uint32_t result;
  __asm__(".arch_extension crc\n\tcrc32cb %w0, %w1, %w2"
          : "=r"(result)
          : "r"(crc), "r"(std::uint32_t{byte}));
  return result;
}

bool has_instruction() noexcept {
#if defined(__linux__)
  constexpr unsigned long crc32 = 1 << 7;  // HWCAP_CRC32
  return (getauxval(AT_HWCAP) & crc32) != 0;
#elif defined(__APPLE__) || defined(__ARM_FEATURE_CRC32)
  return true;
#else
  return false;
#endif
}
#endif

// The instruction takes three cycles and another one can start in each: three neighbouring blocks
// are summed at once and then joined.
template <std::size_t Size>
FERRY_CRC_TARGET inline std::uint32_t three_blocks(const std::uint8_t*& data, std::size_t& size,
                                                   std::uint32_t crc, const Shift<Size>& shift) noexcept {
  while (size >= 3 * Size) {
    std::uint32_t second = 0;
    std::uint32_t third = 0;
    for (std::size_t i = 0; i < Size; i += 8) {
      crc = step(crc, load(data + i));
      second = step(second, load(data + Size + i));
      third = step(third, load(data + 2 * Size + i));
    }
    crc = shift(shift(crc) ^ second) ^ third;
    data += 3 * Size;
    size -= 3 * Size;
  }
  return crc;
}

constexpr Shift<2048> past_long;
constexpr Shift<64> past_short;

FERRY_CRC_TARGET std::uint32_t with_instruction(const std::uint8_t* data, std::size_t size,
                                                std::uint32_t crc) noexcept {
  if (size < 8) {
    for (; size > 0; ++data, --size) crc = step(crc, *data);
    return crc;
  }
  if (size == 8) return step(crc, load(data));  // the length of a record: half of all calls
  crc = three_blocks(data, size, crc, past_long);
  crc = three_blocks(data, size, crc, past_short);
  for (; size >= 8; data += 8, size -= 8) crc = step(crc, load(data));
  if (size == 0) return crc;
  // The last bytes as a word that starts with zeros, which change nothing where no checksum stands
  // before them: that is moved into the bytes. A loop over them would mostly be guessed wrong.
  const std::size_t shift = 64 - 8 * size;
  const std::uint64_t last = load(data + size - 8) >> shift << shift;
  return step(0, last ^ std::uint64_t{crc} << shift) ^
         static_cast<std::uint32_t>(std::uint64_t{crc} >> 8 * size);
}

#endif

}  // namespace

bool has_crc32c_instruction() noexcept {
#if defined(FERRY_CRC_INSTRUCTION)
  static const bool has = has_instruction();
  return has;
#else
  return false;
#endif
}

std::uint32_t crc32c(const std::uint8_t* data, std::size_t size, std::uint32_t before) noexcept {
#if defined(FERRY_CRC_INSTRUCTION)
  if (has_crc32c_instruction()) return ~with_instruction(data, size, ~before);
#endif
  return ~with_tables(castagnoli_by_word, data, size, ~before);
}

std::uint32_t crc32(const std::uint8_t* data, std::size_t size, std::uint32_t before) noexcept {
  return ~with_tables(zip_by_word, data, size, ~before);
}

}  // namespace ferry
