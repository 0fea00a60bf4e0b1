#include "strings.h"

namespace ferry {

std::vector<Span> decode_string_list(Span content, std::uint64_t count) {
  // Every length takes at least one byte: refuse before allocating for `count`.
  if (count > content.size) {
    throw Error(Problem::truncated, content.offset(),
                "a list of " + std::to_string(count) + " strings in " +
                    std::to_string(content.size) + " bytes");
  }
  std::vector<Span> strings(static_cast<std::size_t>(count));
  Reader reader(content);
  for (Span& string : strings) string.size = static_cast<std::size_t>(reader.varint());
  for (Span& string : strings) string = reader.take(string.size);
  if (!reader.done()) {
    throw Error(Problem::malformed, reader.offset(),
                std::to_string(reader.left()) + " bytes behind the last of " +
                    std::to_string(count) + " strings");
  }
  return strings;
}

std::uint64_t string_list_size(const std::vector<Span>& strings) {
  std::uint64_t size = 0;
  for (const Span& string : strings) size += varint_size(string.size) + string.size;
  return size;
}

void put_string_list(const std::vector<Span>& strings, std::uint8_t* out) {
  for (const Span& string : strings) out = put_varint(out, string.size);
  for (const Span& string : strings) {
    if (string.size > 0) std::memcpy(out, string.data, string.size);
    out += string.size;
  }
}

std::uint64_t longest_prefixed(Span content) {
  std::uint64_t longest = 0;
  std::size_t place = 0;
  while (place < content.size) {
    std::uint32_t length;
    if (content.size - place < sizeof(length)) {
      throw Error(Problem::truncated, content.offset() + place, "a string has no length");
    }
    std::memcpy(&length, content.data + place, sizeof(length));
    place += sizeof(length);
    if (content.size - place < length) {
      throw Error(Problem::truncated, content.offset() + place, "a string leads out of its page");
    }
    place += length;
    if (length > longest) longest = length;
  }
  return longest;
}

}  // namespace ferry
