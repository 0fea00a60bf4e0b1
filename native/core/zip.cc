#include "zip.h"

#include "checksum.h"

namespace ferry::zip {

namespace {

constexpr std::uint32_t version = 20;
constexpr std::uint32_t made_by_unix = 3 << 8 | version;
constexpr std::uint32_t in_utf8 = 1 << 11;
constexpr std::uint32_t date = 1 << 5 | 1;  // the first of January 1980, where zip's time begins
constexpr std::uint32_t regular_file = 0100644u << 16;
constexpr std::uint32_t alignment_field = 0xd935;  // of Android's zipalign
constexpr std::size_t local_header = 30;
constexpr std::size_t field_header = 6;  // the kind, the length and the alignment

void put16(std::string& out, std::uint64_t number) {
  out.push_back(static_cast<char>(number));
  out.push_back(static_cast<char>(number >> 8));
}

void put32(std::string& out, std::uint64_t number) {
  put16(out, number);
  put16(out, number >> 16);
}

void put(std::string& out, Span span) {
  if (span.size > 0) out.append(reinterpret_cast<const char*>(span.data), span.size);
}

bool is_ascii(Span name) {
  for (std::size_t i = 0; i < name.size; ++i) {
    if (name.data[i] >= 0x80) return false;
  }
  return true;
}

// How long an extra field is that moves what follows to a multiple of `align`.
std::size_t padding(std::uint64_t end, std::uint32_t align) {
  std::size_t length = static_cast<std::size_t>((align - end % align) % align);
  while (length > 0 && length < field_header) length += align;
  return length;
}

}  // namespace

void encode(const std::vector<Stored>& members, std::uint64_t position, std::uint32_t align,
            std::string& out, std::string& entries) {
  for (const Stored& member : members) {
    const std::uint64_t offset = position + out.size();
    const std::size_t extra = padding(offset + local_header + member.name.size, align);
    const std::size_t size = member.head.size + member.values.size;
    const std::uint32_t flags = is_ascii(member.name) ? 0 : in_utf8;
    out.append("PK\3\4", 4);
    put16(out, version);
    put16(out, flags);
    put32(out, 0);  // stored, at midnight
    put16(out, date);
    const std::size_t checked = out.size();
    put32(out, 0);  // the checksum, of the bytes as they were copied: an array may change meanwhile
    put32(out, size);
    put32(out, size);
    put16(out, member.name.size);
    put16(out, extra);
    put(out, member.name);
    if (extra > 0) {
      put16(out, alignment_field);
      put16(out, extra - 4);
      put16(out, align);
      out.append(extra - field_header, '\0');
    }
    const std::size_t start = out.size();
    put(out, member.head);
    put(out, member.values);
    const std::uint32_t checksum =
        crc32(reinterpret_cast<const std::uint8_t*>(out.data()) + start, size);
    for (std::size_t i = 0; i < 4; ++i) out[checked + i] = static_cast<char>(checksum >> 8 * i);

    entries.append("PK\1\2", 4);
    put16(entries, made_by_unix);
    put16(entries, version);
    put16(entries, flags);
    put32(entries, 0);
    put16(entries, date);
    put32(entries, checksum);
    put32(entries, size);
    put32(entries, size);
    put16(entries, member.name.size);
    entries.append(8, '\0');  // no extra fields, no comment, the first disk, no kind of text
    put32(entries, regular_file);
    put32(entries, offset);
    put(entries, member.name);
  }
}

}  // namespace ferry::zip
