// TFRecord framing: a stream of length-prefixed, checksummed byte records.
//
//     uint64 length | uint32 checksum of length | data | uint32 checksum of data
//
// Little-endian, the checksums masked crc32c. There is no header and no index. What is inside a
// record is example.h, or anything else.
#pragma once

#include <vector>

#include "wire.h"

namespace ferry::tfrecord {

inline constexpr std::size_t header_size = 12;
inline constexpr std::size_t footer_size = 4;

// What stands at an offset of the stream.
enum class Status {
  record,        // a whole record
  end,           // nothing more
  short_header,  // fewer bytes than a header takes
  bad_length,    // the length does not fit its checksum
  short_data,    // the length is good, but the data or its checksum is cut off
  bad_data,      // the data does not fit its checksum
};

struct Record {
  std::uint64_t data = 0;    // offset of its first byte
  std::uint64_t length = 0;  // of the data
  std::uint64_t end() const noexcept { return data + length + footer_size; }
};

// Without its data, a frame is a length and a jump to the next one: each waits for memory. Frames
// are mostly of a size, so where some later ones start can be guessed, and asked for in time.
inline void prefetch([[maybe_unused]] Span stream, [[maybe_unused]] std::uint64_t offset,
                     [[maybe_unused]] std::uint64_t length) noexcept {
#if defined(__GNUC__)
  const std::uint64_t ahead = offset + 6 * (length + header_size + footer_size);
  if (length < 2048 && ahead + 64 < stream.size) {
    __builtin_prefetch(stream.data + ahead);
    __builtin_prefetch(stream.data + ahead + 64);
    __builtin_prefetch(stream.data + ahead - 64);
  }
#endif
}

// Reads the frame at `offset`. `record` is set for `record`, `short_data` and `bad_data`.
// Of frames that were gone through before, the checksums of the lengths are not checked again; that
// they end inside the stream always is, as a mapped file may have changed.
Status read(const Span& stream, std::uint64_t offset, bool verify, Record& record,
            bool again = false) noexcept;

// Reads frames until there are `limit` records, or until one is not whole, and calls `take` with
// each record.
template <typename Take>
Status walk(const Span& stream, std::uint64_t& offset, std::uint64_t limit, bool verify, Take take,
            bool again = false) {
  for (; limit > 0; --limit) {
    Record record;
    const Status status = read(stream, offset, verify, record, again);
    if (status != Status::record) return status;
    take(record);
    offset = record.end();
    if (!verify) prefetch(stream, offset, record.length);
  }
  return Status::record;
}

// The same, with the records in a list.
struct Scan {
  Status status = Status::record;  // of what stands at `end`
  std::uint64_t end = 0;           // behind the last whole record
};
Scan scan(Span stream, std::uint64_t offset, std::uint64_t limit, bool verify,
          std::vector<Record>& records);

// Where the next whole record starts, at `offset` or behind it; the stream's size if none does.
// A record counts when both its checksums fit.
std::uint64_t find(Span stream, std::uint64_t offset) noexcept;

// The size of `data` as records, and those at `out`.
std::uint64_t framed_size(const std::vector<Span>& data) noexcept;
void put(const std::vector<Span>& data, std::uint8_t* out) noexcept;

// Writes the header of a record of `length` bytes, and the checksum of its data.
void put_header(std::uint64_t length, std::uint8_t* out) noexcept;
void put_footer(const std::uint8_t* data, std::size_t length, std::uint8_t* out) noexcept;

}  // namespace ferry::tfrecord
