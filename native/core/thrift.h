// Thrift's compact protocol, as the footers and page headers of Parquet have it.
//
// A struct is fields up to a byte 0. A field is a byte with its type and the distance to the number
// of the field before, or, if that is 0, the number itself as a signed varint, and then its value.
// A list is a byte with its count and type, or with 15 and the count as a varint. The sign of a
// number is in its last bit.
#pragma once

#include "wire.h"

namespace ferry::thrift {

enum class Kind : std::uint8_t {
  stop = 0,
  yes = 1,
  no = 2,
  byte = 3,
  int16 = 4,
  int32 = 5,
  int64 = 6,
  real = 7,
  binary = 8,
  list = 9,
  set = 10,
  map = 11,
  structure = 12,
  uuid = 13,
};

struct Field {
  std::int64_t number = 0;
  Kind kind = Kind::stop;
};

// Lists that are longer are refused, as PyArrow does: each value takes many times its bytes in memory.
inline constexpr std::uint64_t max_values = 1'000'000;

struct List {
  std::uint64_t count = 0;  // no more than there are bytes, nor than `max_values`
  Kind kind = Kind::stop;
};

class Reader {
 public:
  // Values that nest deeper than `depth` are refused.
  Reader(Span span, int depth) noexcept : bytes_(span), depth_(depth) {}

  std::uint64_t offset() const noexcept { return bytes_.offset(); }

  // The field behind `field`, which is the last one of the same struct, or an empty one at the
  // start; false at the end of the struct.
  bool next(Field& field);

  // Values of a field or element of that type.
  std::int64_t integer(Kind kind);
  Span binary(Kind kind);
  List list(Kind kind);
  void skip(Kind kind) { skip(kind, depth_); }

  // Refuses values of another type.
  void expect(Kind found, Kind wanted) const;

 private:
  std::uint8_t byte() { return *bytes_.take(1).data; }
  std::int64_t number();
  List list_head();
  std::uint64_t count();
  void skip(Kind kind, int depth);
  void skip_element(Kind kind, int depth);

  ferry::Reader bytes_;
  int depth_;
};

}  // namespace ferry::thrift
