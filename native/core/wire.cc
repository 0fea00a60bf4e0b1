#include "wire.h"

#include <array>
#include <bit>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace ferry {

namespace {

constexpr std::uint32_t max_field = (1u << 29) - 1;

const char* wire_name(Wire wire) {
  constexpr std::array names{"a varint",          "8 fixed bytes",   "a length and bytes",
                             "the start of a group", "the end of a group", "4 fixed bytes"};
  return names[static_cast<std::size_t>(wire)];
}

}  // namespace

void Reader::fail_short(std::uint64_t offset, std::uint64_t wanted, std::size_t left) {
  throw Error(Problem::truncated, offset,
              "the data ends early: " + std::to_string(wanted) + " bytes are announced, " +
                  std::to_string(left) + " are left");
}

Reader::Long Reader::long_varint(const std::uint8_t* at, const std::uint8_t* end,
                                 const Input* input) {
  const auto offset = static_cast<std::uint64_t>(at - input->begin);
  std::uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (at == end) throw Error(Problem::truncated, offset, "the data ends inside a varint");
    const std::uint8_t byte = *at++;
    // The tenth byte carries the 64th bit and nothing else.
    if (shift == 63 && byte > 1) break;
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return {value, at};
  }
  throw Error(Problem::malformed, offset, "a varint does not fit 64 bits");
}

Tag Reader::tag() {
  const std::uint64_t start = offset();
  const std::uint64_t value = varint();
  const std::uint64_t field = value >> 3;
  const std::uint8_t wire = value & 7;
  if (field == 0 || field > max_field) {
    throw Error(Problem::malformed, start,
                "field number " + std::to_string(field) + ", expected 1 to " +
                    std::to_string(max_field));
  }
  if (wire > static_cast<std::uint8_t>(Wire::fixed32)) {
    throw Error(Problem::malformed, start,
                "wire type " + std::to_string(wire) + ", expected 0 to 5");
  }
  return {static_cast<std::uint32_t>(field), static_cast<Wire>(wire), start};
}

namespace {

// How far behind its start a block of 64 bytes is looked at: a word is loaded behind its last byte.
constexpr std::size_t block_reach = 73;

// Bit i: byte i ends a varint.
inline std::uint64_t varint_ends(const std::uint8_t* data) {
#if defined(__x86_64__)
  std::uint64_t continued = 0;
  for (int part = 0; part < 4; ++part) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + 16 * part));
    continued |= std::uint64_t{static_cast<std::uint32_t>(_mm_movemask_epi8(bytes))} << 16 * part;
  }
  return ~continued;
#else
  std::uint64_t ends = 0;
  for (int part = 0; part < 8; ++part) {
    std::uint64_t word;
    std::memcpy(&word, data + 8 * part, 8);
    // The high bits of eight bytes, moved together by a multiplication.
    const std::uint64_t bits = (~word >> 7 & 0x0101010101010101) * 0x0102040810204080 >> 56;
    ends |= bits << 8 * part;
  }
  return ends;
#endif
}

#if defined(__x86_64__)
// What join_groups gives, in one instruction, on processors where that is fast.
FERRY_BMI2 inline std::int64_t extract_groups(const std::uint8_t* data, std::size_t length) {
  std::uint64_t word;
  std::memcpy(&word, data, 8);
  const std::uint64_t groups = _bzhi_u64(0x7f7f7f7f7f7f7f7f, static_cast<unsigned>(8 * length));
  return static_cast<std::int64_t>(_pext_u64(word, groups));
}
#endif

#if defined(__x86_64__)
// What the processor says of itself.
struct Registers {
  unsigned eax, ebx, ecx, edx;
};
#endif

struct One {
  std::int64_t value;
  std::size_t size;
};

// A number at the very end of the input, one of nine or ten bytes, or an error.
FERRY_NOINLINE One decode_one(Span run) {
  Reader reader(run);
  const auto value = static_cast<std::int64_t>(reader.varint());
  return {value, run.size - reader.left()};
}

template <std::int64_t Join(const std::uint8_t*, std::size_t)>
FERRY_INLINE std::size_t decode_run(const Span& run, std::int64_t* out) {
  const std::int64_t* const first = out;
  const std::uint8_t* at = run.data;
  const std::uint8_t* const end = run.data + run.size;
  while (at != end) {
    if (static_cast<std::size_t>(run.input->end - at) >= block_reach) [[likely]] {
      // Where the numbers of this block end is known before any of them is decoded, so that they
      // do not wait for each other.
      std::uint64_t ends = varint_ends(at);
      // Numbers of more than eight bytes, and what follows the first of them, are left for later.
      std::uint64_t longer = ~ends & ~ends >> 1;
      longer &= longer >> 2;
      longer &= longer >> 4;
      ends &= (longer - 1) & ~longer;
      const auto left = static_cast<std::size_t>(end - at);
      if (left < 64) ends &= (std::uint64_t{1} << left) - 1;
      if (ends != 0) [[likely]] {
        std::int64_t* place = out;
        out += std::popcount(ends);
        const std::uint8_t* const block = std::exchange(at, at + std::bit_width(ends));
        std::size_t start = 0;
        // Four at a time, as the branch at the end is mostly guessed wrong: `out` has room for more.
        while (place < out) {
          for (int i = 0; i < 4; ++i) {
            const auto next = static_cast<std::size_t>(std::countr_zero(ends)) + 1;
            *place++ = Join(block + start, next - start);
            start = next;
            ends &= ends - 1;
          }
        }
        continue;
      }
    }
    const One one = decode_one({at, static_cast<std::size_t>(end - at), run.input});
    *out++ = one.value;
    at += one.size;
  }
  return static_cast<std::size_t>(out - first);
}

// Not inlined: whoever chooses between them has nothing to save and to restore.
FERRY_NOINLINE std::size_t decode_run_anywhere(const Span& run, std::int64_t* out) {
  return decode_run<join_groups>(run, out);
}

#if defined(__x86_64__)
FERRY_BMI2 std::size_t decode_run_bmi2(const Span& run, std::int64_t* out) {
  return decode_run<extract_groups>(run, out);
}
#endif

}  // namespace

bool has_fast_groups() noexcept {
#if defined(__x86_64__)
  // Asked of the processor itself: not every compiler's __builtin_cpu_supports knows lzcnt, and one
  // without it takes the instruction for another one, with another result.
  const auto has = [](unsigned leaf, unsigned Registers::*which, int bit) {
    Registers found{};
    return __get_cpuid_count(leaf, 0, &found.eax, &found.ebx, &found.ecx, &found.edx) != 0 &&
           (found.*which >> bit & 1) != 0;
  };
  constexpr unsigned basic = 1, structured = 7, extended = 0x80000001;
  const bool popcnt = has(basic, &Registers::ecx, 23);
  const bool bmi = has(structured, &Registers::ebx, 3);
  const bool bmi2 = has(structured, &Registers::ebx, 8);
  const bool lzcnt = has(extended, &Registers::ecx, 5);
  __builtin_cpu_init();
  const bool slow = __builtin_cpu_is("znver1") || __builtin_cpu_is("znver2");
  return popcnt && bmi && bmi2 && lzcnt && !slow;
#else
  return false;
#endif
}

std::size_t decode_varints(const Span& run, std::int64_t* out) {
#if defined(__x86_64__)
  static const bool fast = has_fast_groups();
  if (fast) return decode_run_bmi2(run, out);
#endif
  return decode_run_anywhere(run, out);
}

void Reader::fail_wire(Tag tag, Wire wire) {
  throw Error(Problem::malformed, tag.offset,
              "field " + std::to_string(tag.field) + " is " + wire_name(tag.wire) +
                  ", expected " + wire_name(wire));
}

void Reader::skip(Tag tag) {
  switch (tag.wire) {
    case Wire::varint: varint(); return;
    case Wire::fixed64: take(8); return;
    case Wire::bytes: bytes(); return;
    case Wire::fixed32: take(4); return;
    case Wire::group_start: skip_group(tag); return;
    case Wire::group_end:
      throw Error(Problem::malformed, tag.offset,
                  "the end of group " + std::to_string(tag.field) + " without its start");
  }
}

bool Reader::next_of_any(Field& field) {
  while (!done()) {
    field.tag = tag();
    switch (field.tag.wire) {
      case Wire::varint: field.value = varint(); return true;
      case Wire::fixed64: field.value = fixed64(); return true;
      case Wire::fixed32: field.value = fixed32(); return true;
      case Wire::bytes: field.bytes = bytes(); return true;
      default: skip(field.tag);
    }
  }
  return false;
}

// Groups nest without lengths, so the open ones are kept on a stack of fixed size.
void Reader::skip_group(Tag start) {
  std::array<std::uint32_t, max_group_depth> open{};
  std::size_t depth = 0;
  open[depth++] = start.field;
  while (depth > 0) {
    if (done()) {
      throw Error(Problem::truncated, offset(),
                  "the data ends inside group " + std::to_string(open[depth - 1]));
    }
    const Tag inner = tag();
    if (inner.wire == Wire::group_start) {
      if (depth == open.size()) {
        throw Error(Problem::limit, inner.offset,
                    "groups nest deeper than " + std::to_string(max_group_depth));
      }
      open[depth++] = inner.field;
    } else if (inner.wire == Wire::group_end) {
      if (inner.field != open[depth - 1]) {
        throw Error(Problem::malformed, inner.offset,
                    "the end of group " + std::to_string(inner.field) + " inside group " +
                        std::to_string(open[depth - 1]));
      }
      --depth;
    } else {
      skip(inner);
    }
  }
}

}  // namespace ferry
