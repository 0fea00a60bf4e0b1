// The protobuf wire format, read with bounds checks and written by appending.
//
// Reader is the only code that moves a pointer over input: every parser in this folder is written
// on top of it. Each read either succeeds inside the span it was given or throws Error with the
// absolute offset of the byte that could not be right, so a parser never sees a bad length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "inline.h"

namespace ferry {

// What is wrong with the input; module.cc maps each kind to one exception of tensorferry.errors.
enum class Problem { malformed, truncated, limit };

class Error : public std::exception {
 public:
  Error(Problem problem, std::uint64_t offset, std::string message, std::string tensor = {})
      : problem_(problem),
        offset_(offset),
        message_(std::move(message)),
        tensor_(std::move(tensor)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  Problem problem() const noexcept { return problem_; }
  std::uint64_t offset() const noexcept { return offset_; }
  const std::string& tensor() const noexcept { return tensor_; }

 private:
  Problem problem_;
  std::uint64_t offset_;
  std::string message_;
  std::string tensor_;  // the name of the tensor that is wrong, as UTF-8; empty if it is none
};

struct Span;

// All bytes that may be read. Offsets in errors count from its begin; parsers that load whole words
// may look behind the end of their span, up to its end.
struct Input {
  const std::uint8_t* begin = nullptr;
  const std::uint8_t* end = nullptr;

  Input(const std::uint8_t* data, std::size_t size) noexcept : begin(data), end(data + size) {}
  Span span() const noexcept;
};

// Some bytes, and the input they are part of, which outlives them. What a message does not have is
// an empty span without an input.
struct Span {
  const std::uint8_t* data = nullptr;
  std::size_t size = 0;
  const Input* input = nullptr;

  std::uint64_t offset() const noexcept {
    return input == nullptr ? 0 : static_cast<std::uint64_t>(data - input->begin);
  }
  std::size_t readable() const noexcept { return static_cast<std::size_t>(input->end - data); }

  // What stands behind the first `count` bytes, of which there are as many.
  Span behind(std::size_t count) const noexcept { return {data + count, size - count, input}; }
};

inline Span Input::span() const noexcept {
  return {begin, static_cast<std::size_t>(end - begin), this};
}

enum class Wire : std::uint8_t {
  varint = 0,
  fixed64 = 1,
  bytes = 2,
  group_start = 3,
  group_end = 4,
  fixed32 = 5,
};

struct Tag {
  std::uint32_t field = 0;
  Wire wire = Wire::varint;
  std::uint64_t offset = 0;
};

// One field of a message: a varint or fixed value, or the place of a length-delimited one.
struct Field {
  Tag tag;
  std::uint64_t value = 0;
  Span bytes;
};

// Protobuf's own parsers stop at the same depth.
inline constexpr int max_group_depth = 100;

class Reader {
 public:
  explicit Reader(Span span) noexcept
      : at_(span.data), end_(span.data + span.size), input_(span.input) {}

  bool done() const noexcept { return at_ == end_; }
  std::uint64_t offset() const noexcept { return static_cast<std::uint64_t>(at_ - input_->begin); }
  std::size_t left() const noexcept { return static_cast<std::size_t>(end_ - at_); }

  std::uint64_t varint() {
    if (at_ != end_ && *at_ < 0x80) [[likely]] return *at_++;
    if (left() > 1 && at_[1] < 0x80) [[likely]] {
      at_ += 2;
      return std::uint64_t{at_[-1]} << 7 | (at_[-2] & 0x7f);
    }
    const Long number = long_varint(at_, end_, input_);
    at_ = number.end;
    return number.value;
  }

  std::uint32_t fixed32() { return fixed<std::uint32_t>(); }
  std::uint64_t fixed64() { return fixed<std::uint64_t>(); }

  // `count` bytes from here on, without looking at them.
  Span take(std::uint64_t count) {
    if (count > left()) [[unlikely]] fail_short(offset(), count, left());
    Span span{at_, static_cast<std::size_t>(count), input_};
    at_ += count;
    return span;
  }

  // A length-delimited value: its length, then that many bytes.
  Span bytes() { return take(varint()); }

  Tag tag();

  // Whether the next field has this tag of one byte and is length-delimited; if so, takes its value.
  // For the one order in which writers put fields: what it does not take, tag() has to sort out.
  bool take_field(std::uint8_t tag, Span& value) {
    if (at_ == end_ || *at_ != tag) return false;
    ++at_;
    value = bytes();
    return true;
  }

  // The next `count` bytes, which stay where they are; nullptr if the input does not have as many.
  // They may reach behind the end of the span: for looking at whole words.
  const std::uint8_t* peek(std::size_t count) const noexcept {
    return static_cast<std::size_t>(input_->end - at_) < count ? nullptr : at_;
  }

  // Passes over a value whose field nobody asked for, groups included.
  void skip(Tag tag);

  // The next field that is not a group, which is passed over; false at the end of the message.
  bool next(Field& field) {
    // Of fields 1 to 15 the tag is one byte; most of them are length-delimited.
    if (at_ != end_ && (*at_ & 0x87) == static_cast<std::uint8_t>(Wire::bytes) && *at_ >= 8)
        [[likely]] {
      field.tag = {std::uint32_t{*at_} >> 3, Wire::bytes, offset()};
      ++at_;
      field.bytes = bytes();
      return true;
    }
    return next_of_any(field);
  }

  // A known field must come in the one wire type it has: anything else is damage, not extension.
  static void expect(Tag tag, Wire wire) {
    if (tag.wire != wire) [[unlikely]] fail_wire(tag, wire);
  }

 private:
  // What is rarely needed is static and takes values: a Reader whose address nobody takes stays in
  // registers.
  struct Long {
    std::uint64_t value;
    const std::uint8_t* end;
  };
  static Long long_varint(const std::uint8_t* at, const std::uint8_t* end, const Input* input);
  bool next_of_any(Field& field);
  void skip_group(Tag start);
  [[noreturn]] static void fail_short(std::uint64_t offset, std::uint64_t wanted, std::size_t left);
  [[noreturn]] static void fail_wire(Tag tag, Wire wire);

  template <typename Integer>
  Integer fixed() {
    if (left() < sizeof(Integer)) fail_short(offset(), sizeof(Integer), left());
    Integer value;
    std::memcpy(&value, at_, sizeof(Integer));  // little-endian hosts only: see CMakeLists.txt
    at_ += sizeof(Integer);
    return value;
  }

  const std::uint8_t* at_;
  const std::uint8_t* end_;
  const Input* input_;
};

// The number in the `length` bytes at `data`, 1 to 8, where 8 bytes can be read: its seven-bit
// groups are pushed together in three steps, without a loop. Of other lengths, any number.
inline std::int64_t join_groups(const std::uint8_t* data, std::size_t length) noexcept {
  std::uint64_t word;
  std::memcpy(&word, data, 8);
  word &= ~std::uint64_t{0} >> ((64 - 8 * length) & 63);
  word = (word & 0x007f007f007f007f) | (word & 0x7f007f007f007f00) >> 1;
  word = (word & 0x00003fff00003fff) | (word & 0x3fff00003fff0000) >> 2;
  word = (word & 0x000000000fffffff) | (word & 0x0fffffff00000000) >> 4;
  return static_cast<std::int64_t>(word);
}

// Whether a run is one varint of up to 8 bytes, and not at the very end of the input.
inline bool is_single_varint(const Span& run) noexcept {
  if (run.size - 1 >= 8 || run.readable() < 8) return false;
  std::uint64_t word;
  std::memcpy(&word, run.data, 8);
  return (~word << (64 - 8 * run.size) & 0x8080808080808080) == 0x8000000000000000;
}

// Whether the processor takes seven-bit groups apart and together in one fast instruction, and has
// all of FERRY_BMI2.
bool has_fast_groups() noexcept;
#if defined(__x86_64__)
#define FERRY_BMI2 __attribute__((target("bmi,bmi2,lzcnt,popcnt")))
#endif

// All varints of a packed run, at `out`, which has room for as many as the run has bytes and for
// `varints_slack` more. Gives how many there were.
inline constexpr std::size_t varints_slack = 3;
std::size_t decode_varints(const Span& run, std::int64_t* out);

inline std::size_t varint_size(std::uint64_t value) noexcept {
  std::size_t size = 1;
  while (value >= 0x80) {
    value >>= 7;
    ++size;
  }
  return size;
}

// Writes `value` at `out`, which has room for it, and gives the place behind it.
inline std::uint8_t* put_varint(std::uint8_t* out, std::uint64_t value) noexcept {
  while (value >= 0x80) {
    *out++ = static_cast<std::uint8_t>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<std::uint8_t>(value);
  return out;
}

}  // namespace ferry
