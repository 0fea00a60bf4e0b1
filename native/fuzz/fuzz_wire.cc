// Any bytes as a message: every field is inside the input, or an Error is thrown.
#include "core/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const ferry::Input input(data, size);
    ferry::Reader reader(input.span());
    ferry::Field field;
    while (reader.next(field)) {
      if (field.tag.wire == ferry::Wire::bytes && field.bytes.offset() + field.bytes.size > size) {
        __builtin_trap();
      }
    }
  } catch (const ferry::Error& error) {
    if (error.offset() > size) __builtin_trap();
  }
  return 0;
}
