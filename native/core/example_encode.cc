// Writing Examples: the sizes of a record's parts first, from the inside out, then its bytes.
#include <bit>
#include <stdexcept>
#include <string>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "example.h"
#include "tfrecord.h"

namespace ferry::example {

namespace {

// As varint_size, without a loop.
FERRY_INLINE std::size_t number_size(std::uint64_t value) noexcept {
  return (static_cast<std::size_t>(std::bit_width(value | 1)) * 9 + 64) / 64;
}

// As put_varint, without a loop for what takes 8 bytes at the most; those 8 bytes are written
// whatever the size. The seven-bit groups are pushed apart in three steps,
struct Steps {
  FERRY_INLINE static std::uint64_t spread(std::uint64_t value) noexcept {
    std::uint64_t word = (value & 0x000000000fffffff) | (value & 0x00fffffff0000000) << 4;
    word = (word & 0x00003fff00003fff) | (word & 0x0fffc0000fffc000) << 2;
    return (word & 0x007f007f007f007f) | (word & 0x3f803f803f803f80) << 1;
  }
};

#if defined(__x86_64__)
// or by one instruction.
struct Instruction {
  FERRY_BMI2 static std::uint64_t spread(std::uint64_t value) noexcept {
    return _pdep_u64(value, 0x7f7f7f7f7f7f7f7f);
  }
};
#endif

template <typename Groups>
FERRY_INLINE std::uint8_t* put_number(std::uint8_t* out, std::uint64_t value) noexcept {
  if (value >> 56 != 0) [[unlikely]] return put_varint(out, value);
  const std::size_t bits = 8 * (number_size(value) - 1);
  const std::uint64_t continued = 0x8080808080808080 & ((std::uint64_t{1} << bits) - 1);
  const std::uint64_t word = Groups::spread(value) | continued;
  std::memcpy(out, &word, 8);
  return out + bits / 8 + 1;
}

// As memcpy, in two overlapping pieces of a known size for what is short.
inline std::uint8_t* put_bytes(std::uint8_t* out, const std::uint8_t* data, std::size_t size) noexcept {
  if (size >= 16 && size <= 32) {
    std::memcpy(out, data, 16);
    std::memcpy(out + size - 16, data + size - 16, 16);
  } else if (size > 0) {
    std::memcpy(out, data, size);
  }
  return out + size;
}

// The size of a length-delimited field with a tag of one byte.
FERRY_INLINE std::size_t field_size(std::size_t size) noexcept { return 1 + number_size(size) + size; }

FERRY_INLINE std::uint8_t* put_field(std::uint8_t* out, std::uint8_t tag, std::size_t size) noexcept {
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

// An integer of a source. It may lie at any address: arrays that are parts of records do.
FERRY_INLINE std::uint64_t integer_of(const Source& source, std::size_t index) noexcept {
  std::uint64_t value;
  std::memcpy(&value, source.values + index * sizeof(value), sizeof(value));
  return value;
}

// What a list takes: the packed values, or the sum of its strings' fields.
FERRY_INLINE std::size_t content_size(const Source& source, Range values) noexcept {
  std::size_t size = 0;
  switch (source.kind) {
    case Kind::integers:
      for (std::size_t i = values.begin; i < values.end; ++i) {
        size += number_size(integer_of(source, i));
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

[[noreturn]] FERRY_NOINLINE void fail_changed(const Source& source) {
  throw std::runtime_error("column '" + source.name + "' changed while it was written");
}

template <typename Groups>
FERRY_INLINE std::uint8_t* put_feature(std::uint8_t* out, const Source& source,
                                                        Range values, std::size_t content) {
  const auto tag = static_cast<std::uint8_t>(static_cast<std::uint8_t>(source.kind) << 3 | 2);
  out = put_field(out, tag, list_size(source, content));
  if (source.kind == Kind::bytes) {
    for (std::size_t i = values.begin; i < values.end; ++i) {
      const Text& text = source.texts[i - source.first_text];
      out = put_field(out, 0x0a, text.size);
      out = put_bytes(out, text.data, text.size);
    }
    return out;
  }
  if (content == 0) return out;
  out = put_field(out, 0x0a, content);
  if (source.kind == Kind::floats) {
    std::memcpy(out, source.values + values.begin * sizeof(float), content);
    return out + content;
  }
  const std::uint8_t* const end = out + content;
  for (std::size_t i = values.begin; i < values.end; ++i) {
    out = put_number<Groups>(out, integer_of(source, i));
  }
  if (out != end) [[unlikely]] fail_changed(source);
  return out;
}

// How far behind its place a copy of a short key may write, and put_number.
constexpr std::size_t key_reach = 32;
constexpr std::size_t max_number = 10;

// What is the same in every record: the field of a source's key, and the tag of its value.
struct Key {
  std::uint8_t bytes[key_reach] = {};
  std::string whole;  // longer ones

  explicit Key(const std::string& name) {
    std::uint8_t head[12];
    whole.assign(reinterpret_cast<char*>(head),
                 static_cast<std::size_t>(put_field(head, 0x0a, name.size()) - head));
    whole += name;
    whole += '\x12';
    if (whole.size() <= key_reach) std::memcpy(bytes, whole.data(), whole.size());
  }

  std::uint8_t* put(std::uint8_t* out) const noexcept {
    if (whole.size() <= key_reach) {
      std::memcpy(out, bytes, key_reach);  // of a size that is known: no call, no loop
    } else {
      std::memcpy(out, whole.data(), whole.size());
    }
    return out + whole.size();
  }
};

// The sizes of one record, kept from row to row.
struct Sizes {
  std::vector<std::size_t> contents;  // of each list, in the order they are written
  std::vector<std::size_t> values;    // of each source's map value: a Feature or a FeatureList
  std::vector<std::size_t> entries;   // of each source's map entry, 0 where it is missing
  std::size_t features[2];            // Features and FeatureLists
  std::size_t integers;               // how many there are: each may take up to max_number bytes

  explicit Sizes(std::size_t sources) : contents(sources), values(sources), entries(sources) {}
};

bool is_missing(const Source& source, std::size_t row) noexcept {
  return source.missing != nullptr && source.missing[row] != 0;
}

FERRY_INLINE void measure(const std::vector<Source>& sources, const std::vector<Key>& keys, std::size_t row,
             Sizes& sizes) {
  std::size_t lists_done = 0;
  sizes.features[0] = sizes.features[1] = sizes.integers = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Source& source = sources[i];
    sizes.values[i] = sizes.entries[i] = 0;
    if (is_missing(source, row)) continue;
    const Range lists = lists_of(source, row);
    const std::size_t count = lists.end - lists.begin;
    if (lists_done + count > sizes.contents.size()) sizes.contents.resize(2 * (lists_done + count));
    std::size_t value = 0;
    for (std::size_t list = lists.begin; list < lists.end; ++list) {
      const Range values = values_of(source, list);
      const std::size_t content = content_size(source, values);
      if (source.kind == Kind::integers) sizes.integers += values.end - values.begin;
      const std::size_t feature = field_size(list_size(source, content));
      sizes.contents[lists_done++] = content;
      value += source.sequence ? field_size(feature) : feature;
    }
    sizes.values[i] = value;
    // The key has its value's tag with it.
    sizes.entries[i] = keys[i].whole.size() + number_size(value) + value;
    sizes.features[source.sequence] += field_size(sizes.entries[i]);
  }
}

template <typename Groups>
FERRY_INLINE std::uint8_t* put_entries(std::uint8_t* out, const std::vector<Source>& sources,
                          const std::vector<Key>& keys, bool sequence, std::size_t row,
                          const Sizes& sizes) {
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
    out = keys[i].put(out);
    out = put_varint(out, sizes.values[i]);
    for (std::size_t list = lists.begin; list < lists.end; ++list, ++content) {
      const std::size_t size = sizes.contents[content];
      if (sequence) out = put_field(out, 0x0a, field_size(list_size(source, size)));
      out = put_feature<Groups>(out, source, values_of(source, list), size);
    }
  }
  return out;
}

// What follows from the sources alone, and what is kept from row to row.
struct Plan {
  std::vector<Key> keys;
  Sizes sizes;
  bool has_sequences = false;

  explicit Plan(const std::vector<Source>& sources) : sizes(sources.size()) {
    keys.reserve(sources.size());
    for (const Source& source : sources) {
      keys.emplace_back(source.name);
      has_sequences |= source.sequence;
    }
  }
};

// Protobuf parses no longer message: nobody could read it.
constexpr std::size_t most_bytes = 0x7fffffff;

[[noreturn]] void refuse(std::size_t size) {
  throw Error(Problem::limit, 0,
              "an Example of " + std::to_string(size) +
                  " bytes, expected less than 2 GiB: protobuf parses no longer message");
}

template <typename Groups>
FERRY_INLINE void encode_row(const std::vector<Source>& sources, std::size_t row, Plan& plan,
                             Scratch<std::uint8_t>& out) {
  Sizes& sizes = plan.sizes;
  measure(sources, plan.keys, row, sizes);
  std::size_t size = sources.empty() ? 0 : field_size(sizes.features[0]);
  if (plan.has_sequences) size += field_size(sizes.features[1]);
  if (size > most_bytes) refuse(size);
  const std::size_t framed = tfrecord::header_size + size + tfrecord::footer_size;
  // Room for integers of any size: they may change before they are written.
  const std::size_t reach = key_reach + max_number * sizes.integers;
  std::uint8_t* const start = out.room(framed + reach);
  tfrecord::put_header(size, start);
  std::uint8_t* at = start + tfrecord::header_size;
  if (!sources.empty()) {
    at = put_field(at, 0x0a, sizes.features[0]);
    at = put_entries<Groups>(at, sources, plan.keys, false, row, sizes);
  }
  if (plan.has_sequences) {
    at = put_field(at, 0x12, sizes.features[1]);
    at = put_entries<Groups>(at, sources, plan.keys, true, row, sizes);
  }
  tfrecord::put_footer(start + tfrecord::header_size, size, at);
  out.grow(framed);
}

template <typename Groups>
FERRY_INLINE void encode_rows(const std::vector<Source>& sources, std::size_t first_row,
                              std::size_t end_row, Plan& plan, Scratch<std::uint8_t>& out) {
  for (std::size_t row = first_row; row < end_row; ++row) encode_row<Groups>(sources, row, plan, out);
}

#if defined(__x86_64__)
FERRY_BMI2 void encode_with_instruction(const std::vector<Source>& sources, std::size_t first_row,
                                        std::size_t end_row, Plan& plan,
                                        Scratch<std::uint8_t>& out) {
  encode_rows<Instruction>(sources, first_row, end_row, plan, out);
}
#endif

void encode_planned(const std::vector<Source>& sources, std::size_t first_row, std::size_t end_row,
                    Plan& plan, Scratch<std::uint8_t>& out) {
#if defined(__x86_64__)
  static const bool fast = has_fast_groups();
  if (fast) return encode_with_instruction(sources, first_row, end_row, plan, out);
#endif
  encode_rows<Steps>(sources, first_row, end_row, plan, out);
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
  Plan plan(sources);
  encode_planned(sources, first_row, end_row, plan, out);
}

struct RowEncoder::Kept : Plan {
  using Plan::Plan;
};

RowEncoder::RowEncoder(std::vector<Source> given)
    : sources(std::move(given)), kept_(std::make_unique<Kept>(sources)) {}
RowEncoder::~RowEncoder() = default;

void RowEncoder::encode(Scratch<std::uint8_t>& out) {
  encode_planned(sources, 0, 1, *kept_, out);
}

}  // namespace ferry::example
