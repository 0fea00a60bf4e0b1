// Any bytes as a text, and its lines as a set: what a slow and simple way says, too.
#include "core/text.h"

#include <map>
#include <string>

namespace {

// Character by character, by their numbers.
bool is_text(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  for (std::size_t at = 0; at < size; ++at) {
    std::uint32_t character = data[at];
    int following = 0;
    if (character >= 0xf8 || (character >= 0x80 && character < 0xc0)) return false;
    if (character >= 0xf0) {
      following = 3, character &= 7;
    } else if (character >= 0xe0) {
      following = 2, character &= 15;
    } else if (character >= 0xc0) {
      following = 1, character &= 31;
    }
    for (int i = 0; i < following; ++i) {
      if (++at == size || data[at] >> 6 != 2) return false;
      character = character << 6 | (data[at] & 63);
    }
    const bool is_half = character >= 0xd800 && character < 0xe000;
    if (is_half || character > 0x10ffff || character < least[following]) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ferry::Input input(data, size);
  if (ferry::is_utf8(input.span()) != is_text(data, size)) __builtin_trap();
  if (ferry::shortened(input.span()).size() > size) __builtin_trap();

  ferry::Texts texts;
  std::map<std::string_view, std::size_t> numbers;
  std::size_t start = 0;
  for (std::size_t at = 0; at <= size; ++at) {
    if (at < size && data[at] != '\n') continue;
    const ferry::Span line{data + start, at - start, &input};
    const auto [expected, is_new] = numbers.emplace(ferry::view(line), numbers.size());
    if (texts.has(line) == is_new) __builtin_trap();
    const ferry::Texts::Found found = texts.add(line);
    if (found.is_new != is_new || found.number != expected->second) __builtin_trap();
    start = at + 1;
  }
  if (texts.size() != numbers.size()) __builtin_trap();
  texts.clear();
  if (texts.size() != 0 || texts.has(input.span())) __builtin_trap();
  return 0;
}
