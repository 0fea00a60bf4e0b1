#include "arrow.h"

#include <unordered_set>

#include "json.h"
#include "spread.h"
#include "text.h"

namespace ferry::arrow {

namespace {

constexpr std::string_view magic = "ARROW1";
constexpr std::uint64_t head_size = 8;  // the magic word, padded
constexpr std::uint64_t tail_size = 4 + magic.size();
constexpr std::uint32_t continuation = 0xffffffff;
constexpr std::uint64_t block_size = 24, node_size = 16, buffer_size = 16;
constexpr std::uint16_t version_4 = 3, version_5 = 4;  // as flatbuffers have them
constexpr std::uint8_t batch_kind = 3, integer_kind = 2, float_kind = 3, timestamp_kind = 10;
constexpr std::size_t most_depth = 128;  // beyond which PyArrow refuses a flatbuffer
constexpr std::uint64_t least_field = 16;  // bytes that no field goes without
// Some writers let fields share a text: keys of metadata, or the name of a time zone.
constexpr std::uint64_t text_ratio = 16, spare_texts = 1 << 20;

// By their places in Arrow's tables.
enum Footer { footer_version, footer_schema, footer_dictionaries, footer_batches, footer_metadata };
enum Schema { schema_endianness, schema_fields, schema_metadata, schema_features };
enum Field { field_name, field_nullable, field_kind, field_type, field_dictionary, field_children,
             field_metadata };
enum Message { message_version, message_kind, message_header, message_body, message_metadata };
enum Dictionary { dictionary_id };
enum Timestamp { timestamp_unit, timestamp_zone };
enum Header { header_rows, header_nodes, header_buffers, header_compression, header_variadic };

[[noreturn]] void refuse() { throw Error(Problem::malformed, 0, "not of the plainest form"); }

void require(bool holds) {
  if (!holds) refuse();
}

Reader at(Span data, std::uint64_t place) {
  require(place <= data.size);
  return Reader(data.behind(static_cast<std::size_t>(place)));
}

std::uint16_t fixed16(Span data, std::uint64_t place) {
  const Span bytes = at(data, place).take(2);
  return static_cast<std::uint16_t>(bytes.data[0] | bytes.data[1] << 8);
}

// Elements of one size, one behind the other.
struct Vector {
  std::uint64_t count = 0;
  Span elements;

  std::uint64_t fixed64(std::uint64_t place) const { return at(elements, place).fixed64(); }
};

// A table of a flatbuffer: fields at distances that another table has.
class Table {
 public:
  // The table that a flatbuffer begins with.
  explicit Table(Span data) : Table(data, at(data, 0).fixed32()) {}

  bool has(int field) const { return find(field, 1) != 0; }

  std::uint8_t byte(int field) const {
    const std::uint64_t place = find(field, 1);
    return place == 0 ? 0 : *at(data_, place).take(1).data;
  }
  std::uint16_t small(int field) const {
    const std::uint64_t place = find(field, 2);
    return place == 0 ? 0 : fixed16(data_, place);
  }
  std::uint32_t number(int field) const {
    const std::uint64_t place = find(field, 4);
    return place == 0 ? 0 : at(data_, place).fixed32();
  }
  std::uint64_t large(int field) const {
    const std::uint64_t place = find(field, 8);
    return place == 0 ? 0 : at(data_, place).fixed64();
  }

  // What must be there.
  Table table(int field) const { return {data_, follow(required(field))}; }
  Vector vector(int field, std::uint64_t size) const {
    const std::uint64_t place = follow(required(field));
    Reader reader = at(data_, place);
    const std::uint64_t count = reader.fixed32();
    return {count, reader.take(count * size)};
  }
  std::string_view text(int field) const {
    const Vector found = vector(field, 1);
    const std::uint64_t end = static_cast<std::uint64_t>(found.elements.data - data_.data) + found.count;
    require(*at(data_, end).take(1).data == 0);
    return {reinterpret_cast<const char*>(found.elements.data), found.elements.size};
  }
  Table element(const Vector& tables, std::uint64_t index) const {
    const auto start = static_cast<std::uint64_t>(tables.elements.data - data_.data);
    return {data_, follow(start + 4 * index)};
  }

  // Whether a vector is missing or has no elements.
  bool is_empty(int field) const { return !has(field) || vector(field, 1).count == 0; }

 private:
  Table(Span data, std::uint64_t place) : data_(data), place_(place) {
    require(place % 4 == 0);
    // The distance back to the places of the fields, which may also stand behind.
    const auto distance = static_cast<std::int32_t>(at(data, place).fixed32());
    fields_ = place - static_cast<std::uint64_t>(static_cast<std::int64_t>(distance));
    require(fields_ % 2 == 0);
    size_ = fixed16(data, fields_);
    require(size_ >= 4 && size_ % 2 == 0);
    at(data, fields_).take(size_);
    at(data, place).take(fixed16(data, fields_ + 2));
  }

  // Where a field of so many bytes stands; 0 if the table does not have it.
  std::uint64_t find(int field, std::uint64_t size) const {
    const std::uint64_t entry = 4 + 2 * static_cast<std::uint64_t>(field);
    if (entry + 2 > size_) return 0;
    const std::uint16_t distance = fixed16(data_, fields_ + entry);
    if (distance == 0) return 0;
    require((place_ + distance) % size == 0);
    return place_ + distance;
  }

  std::uint64_t required(int field) const {
    const std::uint64_t place = find(field, 4);
    require(place != 0);
    return place;
  }

  std::uint64_t follow(std::uint64_t place) const {
    const std::uint32_t distance = at(data_, place).fixed32();
    require(distance != 0 && (place + distance) % 4 == 0);
    return place + distance;
  }

  Span data_;
  std::uint64_t place_;
  std::uint64_t fields_ = 0;
  std::uint64_t size_ = 0;
};

void read_type(const Table& field, Column& column) {
  const Table type = field.table(field_type);
  if (field.byte(field_kind) == integer_kind) {
    const std::uint32_t bits = type.number(0);
    require(bits == 8 || bits == 16 || bits == 32 || bits == 64);
    column.kind = type.byte(1) != 0 ? 'i' : 'u';
    column.width = bits / 8;
  } else {
    require(field.byte(field_kind) == float_kind);
    const std::uint16_t precision = type.small(0);
    require(precision <= 2);
    column.kind = 'f';
    column.width = std::uint64_t{2} << precision;
  }
}

// What there may be of something. Texts of a flatbuffer may share their bytes: together they are no
// longer than it is.
class Room {
 public:
  explicit Room(std::uint64_t size) : left_(size) {}

  std::string_view take(std::string_view text) {
    spend(text.size());
    return text;
  }
  void spend(std::uint64_t size) {
    require(size <= left_);
    left_ -= size;
  }

 private:
  std::uint64_t left_;
};

void read_schema(const Table& schema, std::uint64_t size, File& file) {
  require(schema.small(schema_endianness) == 0 && schema.is_empty(schema_features));
  Room texts(size);
  std::unordered_set<std::string_view, TextHash> names, keys;
  std::vector<std::size_t> hashes;
  const Vector fields = schema.vector(schema_fields, 4);
  require(fields.count > 0);
  for (std::uint64_t i = 0; i < fields.count; ++i) {
    const Table field = schema.element(fields, i);
    require(!field.has(field_dictionary) && field.has(field_children));
    require(field.is_empty(field_children) && field.is_empty(field_metadata));
    Column column;
    column.name = texts.take(field.text(field_name));
    require(json::is_utf8(column.name) && names.insert(column.name).second);
    hashes.push_back(public_hash(column.name));
    read_type(field, column);
    column.is_nullable = field.byte(field_nullable) != 0;
    file.columns.push_back(column);
  }
  require(are_spread(hashes));
  if (!schema.has(schema_metadata)) return;
  const Vector pairs = schema.vector(schema_metadata, 4);
  for (std::uint64_t i = 0; i < pairs.count; ++i) {
    const Table pair = schema.element(pairs, i);
    const std::string_view key = texts.take(pair.text(0));
    file.metadata.emplace_back(key, texts.take(pair.text(1)));
    require(keys.insert(key).second);
  }
}

// Walks over the fields of a schema of any kind. Tables and texts of a flatbuffer may be shared: what
// PyArrow makes of them must not be far longer than the flatbuffer, nor take longer to make.
class SchemaWalk {
 public:
  explicit SchemaWalk(std::uint64_t size)
      : fields_(size / least_field), texts_(text_ratio * size + spare_texts) {}

  // Why the schema is refused; empty if it is not.
  std::string refusal(const Table& schema) {
    take_metadata(schema, schema_metadata);
    left_.push_back({schema, schema_fields, 0});
    while (!left_.empty()) {
      const Group group = left_.back();
      left_.pop_back();
      if (group.depth > most_depth) return "fields that nest deeper than " + std::to_string(most_depth);
      if (!take_fields(group)) return "names of columns that fall into one place of a hash table";
    }
    return are_spread(ids_) ? "" : "numbers of dictionaries that fall into one place of a hash table";
  }

 private:
  // The fields of a schema or of another field.
  struct Group {
    Table owner;
    int fields;
    std::size_t depth;
  };

  bool take_fields(const Group& group) {
    if (group.owner.is_empty(group.fields)) return true;
    const Vector fields = group.owner.vector(group.fields, 4);
    fields_.spend(fields.count);
    hashes_.clear();
    for (std::uint64_t i = 0; i < fields.count; ++i) {
      const Table field = group.owner.element(fields, i);
      const std::string_view name = field.has(field_name) ? texts_.take(field.text(field_name)) : "";
      hashes_.push_back(public_hash(name));
      take_metadata(field, field_metadata);
      if (field.has(field_dictionary)) {
        ids_.push_back(static_cast<std::size_t>(field.table(field_dictionary).large(dictionary_id)));
      }
      if (field.byte(field_kind) == timestamp_kind) {
        const Table type = field.table(field_type);
        if (type.has(timestamp_zone)) texts_.take(type.text(timestamp_zone));
      }
      left_.push_back({field, field_children, group.depth + 1});
    }
    return are_spread(hashes_);
  }

  void take_metadata(const Table& owner, int number) {
    if (owner.is_empty(number)) return;
    const Vector pairs = owner.vector(number, 4);
    fields_.spend(pairs.count);
    for (std::uint64_t i = 0; i < pairs.count; ++i) {
      const Table pair = owner.element(pairs, i);
      for (const int part : {0, 1}) {
        if (pair.has(part)) texts_.take(pair.text(part));
      }
    }
  }

  Room fields_, texts_;
  std::vector<Group> left_;
  std::vector<std::size_t> hashes_, ids_;
};

// A record batch: the message from `start` on, of so many bytes before and in its body.
void read_batch(Span bytes, std::uint64_t start, std::uint64_t before, std::uint64_t body, File& file) {
  Reader reader = at(bytes, start);
  require(reader.fixed32() == continuation && reader.fixed32() == before - 8);
  const Table message(reader.take(before - 8));
  const std::uint16_t version = message.small(message_version);
  require(version == version_4 || version == version_5);
  require(message.byte(message_kind) == batch_kind && message.large(message_body) == body);
  require(!message.has(message_metadata));
  const Table header = message.table(message_header);
  require(!header.has(header_compression) && header.is_empty(header_variadic));
  const Vector nodes = header.vector(header_nodes, node_size);
  const Vector buffers = header.vector(header_buffers, buffer_size);
  const std::uint64_t columns = file.columns.size(), rows = header.large(header_rows);
  require(nodes.count == columns && buffers.count == 2 * columns);
  file.batches.push_back({rows, file.places.size()});
  for (std::uint64_t i = 0; i < columns; ++i) {
    require(nodes.fixed64(node_size * i) == rows && nodes.fixed64(node_size * i + 8) == 0);
    // The first of its buffers says which values are there, unless all of them are.
    const std::uint64_t place = buffer_size * (2 * i + 1);
    require(buffers.fixed64(place - buffer_size) <= body && buffers.fixed64(place - 8) == 0);
    const std::uint64_t offset = buffers.fixed64(place), length = buffers.fixed64(place + 8);
    require(offset % 8 == 0 && offset <= body && length <= body - offset);
    require(rows <= length / file.columns[i].width);
    file.places.push_back(start + before + offset);
  }
}

void read_file(Span bytes, File& file) {
  require(bytes.size >= head_size + tail_size);
  const auto word = [&](std::uint64_t place) {
    const Span found = at(bytes, place).take(magic.size());
    return std::string_view(reinterpret_cast<const char*>(found.data), found.size);
  };
  require(word(0) == magic && word(bytes.size - magic.size()) == magic);
  const std::uint64_t length = at(bytes, bytes.size - tail_size).fixed32();
  require(length <= bytes.size - head_size - tail_size);
  const std::uint64_t limit = bytes.size - tail_size - length;
  const Table footer(at(bytes, limit).take(length));
  const std::uint16_t version = footer.small(footer_version);
  require(version == version_4 || version == version_5);
  require(footer.is_empty(footer_dictionaries) && !footer.has(footer_metadata));
  read_schema(footer.table(footer_schema), length, file);
  const Vector blocks = footer.vector(footer_batches, block_size);
  require(blocks.count > 0);
  std::uint64_t left = limit;  // no two batches share their bytes
  for (std::uint64_t i = 0; i < blocks.count; ++i) {
    const std::uint64_t start = blocks.fixed64(block_size * i);
    const std::uint64_t before = blocks.fixed64(block_size * i + 8) & 0xffffffff;
    const std::uint64_t body = blocks.fixed64(block_size * i + 16);
    require(start % 8 == 0 && before % 8 == 0 && body % 8 == 0 && before > 8);
    require(before <= left && body <= left - before);
    left -= before + body;
    require(start >= head_size && start <= limit - before - body);
    read_batch(bytes, start, before, body, file);
  }
}

}  // namespace

std::string schema_refusal(Span flatbuffer, bool is_footer) {
  try {
    const Table root(flatbuffer);
    const Table schema = root.table(is_footer ? int{footer_schema} : int{message_header});
    return SchemaWalk(flatbuffer.size).refusal(schema);
  } catch (const Error&) {
    return "parts that lie outside of its flatbuffer, or are named many times";
  }
}

bool read(Span bytes, File& file) {
  try {
    read_file(bytes, file);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace ferry::arrow
