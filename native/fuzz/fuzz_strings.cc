// Any bytes as a string list: what is read is inside the input and writes back to the same strings.
#include "core/strings.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const ferry::Input input(data, size);
  const ferry::Span content{data + 1, size - 1, &input};
  try {
    const auto strings = ferry::decode_string_list(content, data[0]);
    std::vector<std::uint8_t> bytes(ferry::string_list_size(strings));
    ferry::put_string_list(strings, bytes.data());
    const ferry::Input written(bytes.data(), bytes.size());
    const auto again = ferry::decode_string_list(written.span(), strings.size());
    for (std::size_t i = 0; i < strings.size(); ++i) {
      if (strings[i].size != again[i].size) __builtin_trap();
      if (std::memcmp(strings[i].data, again[i].data, strings[i].size) != 0) __builtin_trap();
    }
  } catch (const ferry::Error& error) {
    if (error.offset() > size) __builtin_trap();
  }
  try {
    if (ferry::longest_prefixed(content) > size) __builtin_trap();
  } catch (const ferry::Error& error) {
    if (error.offset() > size) __builtin_trap();
  }
  return 0;
}
