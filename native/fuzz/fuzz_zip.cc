// Members of any names and bytes, at any place: both headers of each say where its bytes are.
#include "core/checksum.h"
#include "core/zip.h"

namespace {

void require(bool holds) {
  if (!holds) __builtin_trap();
}

// The numbers of a header, one behind the other.
struct Numbers {
  const std::string& text;
  std::size_t place;

  std::uint64_t take(std::size_t size) {
    require(place + size <= text.size());
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < size; ++i) {
      number |= std::uint64_t{static_cast<std::uint8_t>(text[place++])} << 8 * i;
    }
    return number;
  }
};

std::string text_of(ferry::Span span) {
  return {reinterpret_cast<const char*>(span.data), span.size};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const std::uint32_t align = data[0] + 1u;
  const std::uint64_t position = data[1] * 1000u;
  std::vector<ferry::zip::Stored> members;
  for (std::size_t place = 2; place < size;) {
    const auto next = [&](std::size_t most) {
      const std::size_t length = place < size ? data[place++] % (most + 1) : 0;
      const std::size_t there = length < size - place ? length : size - place;
      place += there;
      return ferry::Span{data + place - there, there, nullptr};
    };
    const ferry::Span name = next(20), head = next(40);
    members.push_back({name, head, next(255)});
  }
  std::string out, entries;
  ferry::zip::encode(members, position, align, out, entries);

  Numbers local{out, 0}, entry{entries, 0};
  for (const auto& member : members) {
    const std::string name = text_of(member.name);
    const std::string bytes = text_of(member.head) + text_of(member.values);
    const std::uint64_t offset = position + local.place;
    require(local.take(4) == 0x04034b50 && local.take(2) == 20);
    const std::uint64_t flags = local.take(2);
    require(local.take(4) == 0 && local.take(2) == 33);
    const std::uint64_t checksum = local.take(4);
    require(checksum == ferry::crc32(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
    require(local.take(4) == bytes.size() && local.take(4) == bytes.size());
    require(local.take(2) == name.size());
    const std::uint64_t extra = local.take(2);
    require(out.compare(local.place, name.size(), name) == 0);
    local.place += name.size() + extra;
    require((position + local.place) % align == 0);
    require(out.compare(local.place, bytes.size(), bytes) == 0);
    local.place += bytes.size();

    require(entry.take(4) == 0x02014b50 && entry.take(2) == (3 << 8 | 20) && entry.take(2) == 20);
    require(entry.take(2) == flags && entry.take(4) == 0 && entry.take(2) == 33);
    require(entry.take(4) == checksum);
    require(entry.take(4) == bytes.size() && entry.take(4) == bytes.size());
    require(entry.take(2) == name.size() && entry.take(8) == 0);
    require(entry.take(4) == 0100644u << 16 && entry.take(4) == offset);
    require(entries.compare(entry.place, name.size(), name) == 0);
    entry.place += name.size();
  }
  require(local.place == out.size() && entry.place == entries.size());
  return 0;
}
