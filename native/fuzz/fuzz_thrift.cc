// Any bytes as structs of Thrift's compact protocol: skipped as a whole, and read field by field.
#include "core/thrift.h"

namespace thrift = ferry::thrift;

namespace {

constexpr int depth = 20;

void read_struct(thrift::Reader& reader, int left) {
  if (left == 0) throw ferry::Error(ferry::Problem::limit, 0, "deep");
  for (thrift::Field field; reader.next(field);) {
    if (field.kind == thrift::Kind::binary) {
      const ferry::Span text = reader.binary(field.kind);
      for (std::size_t i = 0; i < text.size; ++i) static_cast<void>(text.data[i]);
    } else if (field.kind == thrift::Kind::int32) {
      static_cast<void>(reader.integer(field.kind));
    } else if (field.kind == thrift::Kind::structure) {
      read_struct(reader, left - 1);
    } else {
      reader.skip(field.kind);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ferry::Input input(data, size);
  // Both ways end in the same place, or both fail.
  std::uint64_t ends[2] = {size + 1, size + 1};
  for (const bool skipped : {true, false}) {
    try {
      thrift::Reader reader(input.span(), depth);
      if (skipped) {
        reader.skip(thrift::Kind::structure);
      } else {
        read_struct(reader, depth);
      }
      ends[skipped] = reader.offset();
      if (reader.offset() > size) __builtin_trap();
    } catch (const ferry::Error& error) {
      if (error.problem() == ferry::Problem::limit) return 0;
    }
  }
  if (ends[0] != ends[1]) __builtin_trap();
  return 0;
}
