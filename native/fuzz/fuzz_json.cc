// Any bytes as JSON's strings, numbers and characters, in the order that they come.
#include "core/json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ferry::Input input(data, size);
  ferry::json::Reader reader(input.span());
  try {
    for (std::size_t i = 0; i <= size; ++i) {
      std::uint64_t number = 0;
      const char next = reader.next();
      if (next == '"') {
        if (!ferry::json::is_utf8(reader.string())) __builtin_trap();
      } else if (!reader.natural(number) && !reader.take(next)) {
        reader.finish();
        break;
      }
    }
  } catch (const ferry::Error& error) {
    if (error.offset() > size) __builtin_trap();
  }
  return 0;
}
