#include "json.h"

#include <limits>

namespace ferry::json {

namespace {

void append_utf8(std::string& text, std::uint32_t code) {
  const auto put = [&text](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  const auto* at = reinterpret_cast<const std::uint8_t*>(text.data());
  const auto* const end = at + text.size();
  while (at != end) {
    const std::uint8_t first = *at++;
    if (first < 0x80) continue;
    // How many bytes follow, and which may be the first of them.
    const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4 || end - at < more) return false;
    const std::uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const std::uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (*at < least || *at > most) return false;
    for (int i = 1; i < more; ++i) {
      if ((at[i] & 0xc0) != 0x80) return false;
    }
    at += more;
  }
  return true;
}

char Reader::next() noexcept {
  while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  return at_ == end_ ? '\0' : static_cast<char>(*at_);
}

bool Reader::take(char expected) noexcept {
  if (next() != expected || at_ == end_) return false;
  ++at_;
  return true;
}

void Reader::expect(char expected) {
  if (!take(expected)) fail(std::string("expected '") + expected + "'");
}

void Reader::finish() {
  next();
  if (at_ != end_) fail("more text behind the end");
}

void Reader::fail(const std::string& message) const {
  throw Error(at_ == end_ ? Problem::truncated : Problem::malformed, offset(),
              "no JSON: " + message);
}

std::string_view Reader::string() {
  if (!take('"')) fail("expected a string");
  const std::uint8_t* const start = at_;
  // In registers: the bytes could be those of the members themselves, for all the compiler knows.
  const std::uint8_t* at = start;
  const std::uint8_t* const end = end_;
  std::uint8_t all = 0;
  while (at != end && *at != '"' && *at != '\\' && *at >= 0x20) all |= *at++;
  at_ = at;
  if (at_ != end_ && *at_ == '\\') return escaped(start);
  if (at_ == end_) fail("a string without an end");
  if (*at_ != '"') fail("a control character in a string");
  const std::string_view text(reinterpret_cast<const char*>(start),
                              static_cast<std::size_t>(at_ - start));
  if (all >= 0x80 && !is_utf8(text)) fail("a string is no UTF-8");
  ++at_;
  return text;
}

std::string_view Reader::escaped(const std::uint8_t* start) {
  std::string& text = made_.emplace_back(start, at_);
  for (;;) {
    if (at_ == end_) fail("a string without an end");
    const std::uint8_t letter = *at_;
    if (letter < 0x20) fail("a control character in a string");
    ++at_;
    if (letter == '"') break;
    if (letter != '\\') {
      text += static_cast<char>(letter);
      continue;
    }
    if (at_ == end_) fail("a string without an end");
    switch (*at_++) {
      case '"': text += '"'; break;
      case '\\': text += '\\'; break;
      case '/': text += '/'; break;
      case 'b': text += '\b'; break;
      case 'f': text += '\f'; break;
      case 'n': text += '\n'; break;
      case 'r': text += '\r'; break;
      case 't': text += '\t'; break;
      case 'u': {
        std::uint32_t code = hexadecimal();
        const bool is_pair = code >= 0xd800 && code < 0xdc00 && end_ - at_ >= 2 &&
                             at_[0] == '\\' && at_[1] == 'u';
        if (is_pair) {
          at_ += 2;
          const std::uint32_t low = hexadecimal();
          if (low < 0xdc00 || low > 0xdfff) fail("a string holds half a character");
          code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        } else if (code >= 0xd800 && code <= 0xdfff) {
          fail("a string holds half a character");
        }
        append_utf8(text, code);
        break;
      }
      default: fail("an unknown escape in a string");
    }
  }
  if (!is_utf8(text)) fail("a string is no UTF-8");
  return text;
}

std::uint32_t Reader::hexadecimal() {
  std::uint32_t code = 0;
  for (int i = 0; i < 4; ++i) {
    const int letter = at_ == end_ ? 0 : *at_;
    int digit = -1;
    if (letter >= '0' && letter <= '9') digit = letter - '0';
    if (letter >= 'a' && letter <= 'f') digit = letter - 'a' + 10;
    if (letter >= 'A' && letter <= 'F') digit = letter - 'A' + 10;
    if (digit < 0) fail("an escape without four digits");
    code = code << 4 | static_cast<std::uint32_t>(digit);
    ++at_;
  }
  return code;
}

bool Reader::natural(std::uint64_t& number) noexcept {
  next();
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  const std::uint8_t* at = at_;
  std::uint64_t found = 0;
  for (; at != end_ && *at >= '0' && *at <= '9'; ++at) {
    const std::uint64_t digit = *at - std::uint64_t{'0'};
    if (found > (most - digit) / 10) return false;
    found = found * 10 + digit;
  }
  const bool is_empty = at == at_;
  const bool has_zeros = !is_empty && *at_ == '0' && at - at_ > 1;
  const bool goes_on = at != end_ && (*at == '.' || *at == 'e' || *at == 'E');
  if (is_empty || has_zeros || goes_on) return false;
  at_ = at;
  number = found;
  return true;
}

}  // namespace ferry::json
