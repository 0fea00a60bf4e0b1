#include "tfrecord.h"

#include <algorithm>

#include "checksum.h"

namespace ferry::tfrecord {

namespace {

template <typename Integer>
Integer load(const std::uint8_t* data) noexcept {
  Integer value;
  std::memcpy(&value, data, sizeof(Integer));
  return value;
}

}  // namespace

Status read(const Span& stream, std::uint64_t offset, bool verify, Record& record,
            bool again) noexcept {
  const std::uint64_t left = stream.size - offset;
  if (left == 0) return Status::end;
  if (left < header_size) return Status::short_header;
  const std::uint8_t* header = stream.data + offset;
  // Without this checksum the length is no length: it is checked even when `verify` is off.
  if (!again && masked_crc32c(header, 8) != load<std::uint32_t>(header + 8)) {
    return Status::bad_length;
  }
  record.data = offset + header_size;
  record.length = load<std::uint64_t>(header);
  const std::uint64_t room = left - header_size;
  if (room < footer_size || record.length > room - footer_size) return Status::short_data;
  if (verify) {
    const std::uint8_t* data = stream.data + record.data;
    const auto stored = load<std::uint32_t>(data + record.length);
    if (masked_crc32c(data, static_cast<std::size_t>(record.length)) != stored) {
      return Status::bad_data;
    }
  }
  return Status::record;
}

Scan scan(Span stream, std::uint64_t offset, std::uint64_t limit, bool verify,
          std::vector<Record>& records) {
  Scan result{Status::record, offset};
  // Whoever asks for as many as there are gets them in one piece of memory.
  const std::uint64_t room = (stream.size - offset) / (header_size + footer_size);
  records.reserve(static_cast<std::size_t>(std::min<std::uint64_t>({limit, room, 1 << 20})));
  result.status = walk(stream, result.end, limit, verify,
                       [&](const Record& record) { records.push_back(record); });
  return result;
}

std::uint64_t find(Span stream, std::uint64_t offset) noexcept {
  // A file made of lengths that fit their checksums, each with much data that does not, would take
  // quadratic time: what is summed is bounded, and lengths beyond that are passed over.
  std::uint64_t budget = 64 * (static_cast<std::uint64_t>(stream.size) + 1024);
  for (; offset + header_size + footer_size <= stream.size; ++offset) {
    Record record;
    if (read(stream, offset, false, record) != Status::record || record.length > budget) continue;
    budget -= record.length;
    if (read(stream, offset, true, record) == Status::record) return offset;
  }
  return stream.size;
}

std::uint64_t framed_size(const std::vector<Span>& data) noexcept {
  std::uint64_t size = 0;
  for (const Span& record : data) size += header_size + record.size + footer_size;
  return size;
}

void put_header(std::uint64_t length, std::uint8_t* out) noexcept {
  std::memcpy(out, &length, 8);
  const std::uint32_t checksum = masked_crc32c(out, 8);
  std::memcpy(out + 8, &checksum, 4);
}

void put_footer(const std::uint8_t* data, std::size_t length, std::uint8_t* out) noexcept {
  const std::uint32_t checksum = masked_crc32c(data, length);
  std::memcpy(out, &checksum, 4);
}

void put(const std::vector<Span>& data, std::uint8_t* out) noexcept {
  for (const Span& record : data) {
    put_header(record.size, out);
    out += header_size;
    if (record.size > 0) std::memcpy(out, record.data, record.size);
    put_footer(out, record.size, out + record.size);
    out += record.size + footer_size;
  }
}

}  // namespace ferry::tfrecord
