// Writing Examples: the sizes of a record's parts first, from the inside out, then its bytes.
#include <bit>

#include "example.h"
#include "tfrecord.h"

namespace ferry::example {

namespace {

// As varint_size, without a loop.
inline std::size_t number_size(std::uint64_t value) noexcept {
  return (static_cast<std::size_t>(std::bit_width(value | 1)) * 9 + 64) / 64;
}

// As put_varint, without a loop for what takes 8 bytes at the most; those 8 bytes are written
// whatever the size. The seven-bit groups are pushed apart in three steps.
inline std::uint8_t* put_number(std::uint8_t* out, std::uint64_t value) noexcept {
  if (value >> 56 != 0) [[unlikely]] return put_varint(out, value);
  const std::size_t size = number_size(value);
  std::uint64_t word = (value & 0x000000000fffffff) | (value & 0x00fffffff0000000) << 4;
  word = (word & 0x00003fff00003fff) | (word & 0x0fffc0000fffc000) << 2;
  word = (word & 0x007f007f007f007f) | (word & 0x3f803f803f803f80) << 1;
  const std::uint64_t continued = 0x8080808080808080 & ((std::uint64_t{1} << 8 * (size - 1)) - 1);
  word |= continued;
  std::memcpy(out, &word, 8);
  return out + size;
}

// The size of a length-delimited field with a tag of one byte.
inline std::size_t field_size(std::size_t size) noexcept { return 1 + number_size(size) + size; }

inline std::uint8_t* put_field(std::uint8_t* out, std::uint8_t tag, std::size_t size) noexcept {
  *out++ = tag;
  return put_varint(out, size);
}

Range values_of(const Source& source, std::size_t list) noexcept {
  if (source.splits == nullptr) return {list * source.length, (list + 1) * source.length};
  return {static_cast<std::size_t>(source.splits[list]),
          static_cast<std::size_t>(source.splits[list + 1])};
}

Range lists_of(const Source& source, std::size_t row) noexcept {
  if (source.row_splits == nullptr) return {row, row + 1};
  return {static_cast<std::size_t>(source.row_splits[row]),
          static_cast<std::size_t>(source.row_splits[row + 1])};
}

// What a list takes: the packed values, or the sum of its strings' fields.
std::size_t content_size(const Source& source, Range values) noexcept {
  std::size_t size = 0;
  switch (source.kind) {
    case Kind::integers:
      for (std::size_t i = values.begin; i < values.end; ++i) {
        size += number_size(static_cast<std::uint64_t>(source.integers[i]));
      }
      return size;
    case Kind::floats: return (values.end - values.begin) * sizeof(float);
    default:
      for (std::size_t i = values.begin; i < values.end; ++i) {
        size += field_size(source.texts[i - source.first_text].size);
      }
      return size;
  }
}

// The list message: packed values are one field, which an empty list does not have.
std::size_t list_size(const Source& source, std::size_t content) noexcept {
  return source.kind == Kind::bytes || content == 0 ? content : field_size(content);
}

std::uint8_t* put_feature(std::uint8_t* out, const Source& source, Range values,
                          std::size_t content) noexcept {
  const auto tag = static_cast<std::uint8_t>(static_cast<std::uint8_t>(source.kind) << 3 | 2);
  out = put_field(out, tag, list_size(source, content));
  if (source.kind == Kind::bytes) {
    for (std::size_t i = values.begin; i < values.end; ++i) {
      const Text& text = source.texts[i - source.first_text];
      out = put_field(out, 0x0a, text.size);
      if (text.size > 0) std::memcpy(out, text.data, text.size);
      out += text.size;
    }
    return out;
  }
  if (content == 0) return out;
  out = put_field(out, 0x0a, content);
  if (source.kind == Kind::floats) {
    std::memcpy(out, source.floats + values.begin, content);
    return out + content;
  }
  for (std::size_t i = values.begin; i < values.end; ++i) {
    out = put_number(out, static_cast<std::uint64_t>(source.integers[i]));
  }
  return out;
}

// The sizes of one record, kept from row to row.
struct Sizes {
  std::vector<std::size_t> contents;  // of each list, in the order they are written
  std::vector<std::size_t> values;    // of each source's map value: a Feature or a FeatureList
  std::vector<std::size_t> entries;   // of each source's map entry, 0 where it is missing
  std::size_t features[2];            // Features and FeatureLists
};

bool is_missing(const Source& source, std::size_t row) noexcept {
  return source.missing != nullptr && source.missing[row] != 0;
}

void measure(const std::vector<Source>& sources, std::size_t row, Sizes& sizes) {
  sizes.contents.clear();
  sizes.values.clear();
  sizes.entries.clear();
  sizes.features[0] = sizes.features[1] = 0;
  for (const Source& source : sources) {
    std::size_t value = 0;
    if (is_missing(source, row)) {
      sizes.values.push_back(0);
      sizes.entries.push_back(0);
      continue;
    }
    const Range lists = lists_of(source, row);
    for (std::size_t list = lists.begin; list < lists.end; ++list) {
      const std::size_t content = content_size(source, values_of(source, list));
      const std::size_t feature = field_size(list_size(source, content));
      sizes.contents.push_back(content);
      value += source.sequence ? field_size(feature) : feature;
    }
    const std::size_t entry = field_size(source.name.size()) + field_size(value);
    sizes.values.push_back(value);
    sizes.entries.push_back(entry);
    sizes.features[source.sequence] += field_size(entry);
  }
}

std::uint8_t* put_entries(std::uint8_t* out, const std::vector<Source>& sources, bool sequence,
                          std::size_t row, const Sizes& sizes) noexcept {
  std::size_t content = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Source& source = sources[i];
    if (sizes.entries[i] == 0) continue;
    const Range lists = lists_of(source, row);
    if (source.sequence != sequence) {
      content += lists.end - lists.begin;
      continue;
    }
    out = put_field(out, 0x0a, sizes.entries[i]);
    out = put_field(out, 0x0a, source.name.size());
    std::memcpy(out, source.name.data(), source.name.size());
    out += source.name.size();
    out = put_field(out, 0x12, sizes.values[i]);
    for (std::size_t list = lists.begin; list < lists.end; ++list, ++content) {
      const std::size_t size = sizes.contents[content];
      if (sequence) out = put_field(out, 0x0a, field_size(list_size(source, size)));
      out = put_feature(out, source, values_of(source, list), size);
    }
  }
  return out;
}

}  // namespace

Range values_of_rows(const Source& source, std::size_t first_row, std::size_t end_row) noexcept {
  if (first_row == end_row) return {0, 0};
  const std::size_t first = lists_of(source, first_row).begin;
  const std::size_t end = lists_of(source, end_row - 1).end;
  if (first == end) return {0, 0};
  return {values_of(source, first).begin, values_of(source, end - 1).end};
}

void encode(const std::vector<Source>& sources, std::size_t first_row, std::size_t end_row,
            Scratch<std::uint8_t>& out) {
  bool has_sequences = false;
  for (const Source& source : sources) has_sequences |= source.sequence;
  Sizes sizes;
  for (std::size_t row = first_row; row < end_row; ++row) {
    measure(sources, row, sizes);
    std::size_t size = sources.empty() ? 0 : field_size(sizes.features[0]);
    if (has_sequences) size += field_size(sizes.features[1]);
    const std::size_t framed = tfrecord::header_size + size + tfrecord::footer_size;
    std::uint8_t* const start = out.room(framed + sizeof(std::uint64_t));  // put_number's reach
    tfrecord::put_header(size, start);
    std::uint8_t* at = start + tfrecord::header_size;
    if (!sources.empty()) {
      at = put_field(at, 0x0a, sizes.features[0]);
      at = put_entries(at, sources, false, row, sizes);
    }
    if (has_sequences) {
      at = put_field(at, 0x12, sizes.features[1]);
      at = put_entries(at, sources, true, row, sizes);
    }
    tfrecord::put_footer(start + tfrecord::header_size, size, at);
    out.grow(framed);
  }
}

}  // namespace ferry::example
