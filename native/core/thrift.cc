#include "thrift.h"

namespace ferry::thrift {

bool Reader::next(Field& field) {
  const std::uint8_t head = byte();
  field.kind = static_cast<Kind>(head & 15);
  if (head == 0) return false;
  const std::uint8_t distance = head >> 4;
  // Numbers of any size may be written: the sum wraps around instead of overflowing.
  field.number = distance == 0 ? number()
                               : static_cast<std::int64_t>(
                                     static_cast<std::uint64_t>(field.number) + distance);
  return true;
}

std::int64_t Reader::integer(Kind kind) {
  if (kind != Kind::int16 && kind != Kind::int64) expect(kind, Kind::int32);
  return number();
}

Span Reader::binary(Kind kind) {
  expect(kind, Kind::binary);
  return bytes_.bytes();
}

List Reader::list(Kind kind) {
  expect(kind, Kind::list);
  return list_head();
}

void Reader::expect(Kind found, Kind wanted) const {
  if (found == wanted) return;
  throw Error(Problem::malformed, offset(),
              "a field is of type " + std::to_string(static_cast<int>(found)) + ", expected " +
                  std::to_string(static_cast<int>(wanted)));
}

std::int64_t Reader::number() {
  const std::uint64_t value = bytes_.varint();
  return static_cast<std::int64_t>(value >> 1 ^ (~(value & 1) + 1));
}

// A number of elements, each of which takes a byte at least.
std::uint64_t Reader::count() {
  const std::uint64_t found = bytes_.varint();
  if (found > bytes_.left()) {
    throw Error(Problem::truncated, offset(),
                std::to_string(found) + " values in " + std::to_string(bytes_.left()) + " bytes");
  }
  if (found > max_values) {
    throw Error(Problem::limit, offset(),
                std::to_string(found) + " values in a list, at most " + std::to_string(max_values) +
                    " are read");
  }
  return found;
}

List Reader::list_head() {
  const std::uint8_t head = byte();
  const auto kind = static_cast<Kind>(head & 15);
  if (head >> 4 == 15) return {count(), kind};
  if (head >> 4 > bytes_.left()) {
    throw Error(Problem::truncated, offset(), "the data ends inside a list");
  }
  return {static_cast<std::uint64_t>(head >> 4), kind};
}

void Reader::skip(Kind kind, int depth) {
  if (depth <= 0) throw Error(Problem::limit, offset(), "it nests deeper than limits.depth");
  switch (kind) {
    case Kind::yes:
    case Kind::no:
      return;
    case Kind::int16:
    case Kind::int32:
    case Kind::int64:
      bytes_.varint();
      return;
    case Kind::byte:
      bytes_.take(1);
      return;
    case Kind::real:
      bytes_.take(8);
      return;
    case Kind::uuid:
      bytes_.take(16);
      return;
    case Kind::binary:
      bytes_.bytes();
      return;
    case Kind::list:
    case Kind::set: {
      const List list = list_head();
      for (std::uint64_t i = 0; i < list.count; ++i) skip_element(list.kind, depth - 1);
      return;
    }
    case Kind::map: {
      const std::uint64_t pairs = count();
      const std::uint8_t kinds = pairs == 0 ? 0 : byte();
      for (std::uint64_t i = 0; i < pairs; ++i) {
        skip_element(static_cast<Kind>(kinds >> 4), depth - 1);
        skip_element(static_cast<Kind>(kinds & 15), depth - 1);
      }
      return;
    }
    case Kind::structure:
      for (Field field; next(field);) skip(field.kind, depth - 1);
      return;
    default:
      expect(kind, Kind::structure);
  }
}

void Reader::skip_element(Kind kind, int depth) {
  // In a list, a bool is a byte; as a field, its type says it.
  skip(kind == Kind::yes || kind == Kind::no ? Kind::byte : kind, depth);
}

}  // namespace ferry::thrift
