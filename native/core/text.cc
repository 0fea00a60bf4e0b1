#include "text.h"

#include <chrono>
#include <random>

namespace ferry {

namespace {

// How many bytes follow the first one of a character, and the least and the largest second byte;
// a first byte that there is not has the least above the largest.
struct Lead {
  std::uint8_t following, least, largest;
};

Lead lead_of(std::uint8_t byte) noexcept {
  if (byte < 0xc2) return {1, 1, 0};  // in the middle of a character, or longer than needed
  if (byte < 0xe0) return {1, 0x80, 0xbf};
  if (byte == 0xe0) return {2, 0xa0, 0xbf};
  if (byte == 0xed) return {2, 0x80, 0x9f};  // the others are halves of pairs in UTF-16
  if (byte < 0xf0) return {2, 0x80, 0xbf};
  if (byte == 0xf0) return {3, 0x90, 0xbf};
  if (byte < 0xf4) return {3, 0x80, 0xbf};
  if (byte == 0xf4) return {3, 0x80, 0x8f};
  return {1, 1, 0};
}

std::uint64_t make_secret() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::uint64_t secret = static_cast<std::uint64_t>(now) * 0x9e3779b97f4a7c15;
  try {
    std::random_device device;
    secret ^= std::uint64_t{device()} << 32 | device();
  } catch (const std::exception&) {  // a system without random numbers
  }
  return secret;
}

// Every bit of the result depends on every bit of both.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  a = (a ^ b) * 0x9fb21c651e98df25;
  return (a ^ a >> 35 ^ a >> 17) * 0xd6e8feb86659fd93 ^ b >> 23;
}

template <typename Word>
Word load(const std::uint8_t* data) noexcept {
  Word word;
  std::memcpy(&word, data, sizeof(word));
  return word;
}

// A word with the last bytes of a text, up to 8 of them; it overlaps the word before it.
std::uint64_t last_word(Span text) noexcept {
  const std::uint8_t* const end = text.data + text.size;
  if (text.size >= 8) return load<std::uint64_t>(end - 8);
  if (text.size >= 4) {
    return std::uint64_t{load<std::uint32_t>(text.data)} << 32 | load<std::uint32_t>(end - 4);
  }
  if (text.size == 0) return 0;
  return std::uint64_t{text.data[0]} << 16 | std::uint64_t{text.data[text.size / 2]} << 8 | end[-1];
}

std::uint64_t hash(Span text) noexcept {
  static const std::uint64_t secret = make_secret();
  std::uint64_t state = mix(secret, text.size);
  const std::uint8_t* at = text.data;
  for (std::size_t left = text.size; left > 8; at += 8, left -= 8) {
    state = mix(state + secret, load<std::uint64_t>(at));
  }
  state = mix(state + secret, last_word(text));
  return state ^ state >> 29;
}

constexpr std::uint64_t high_bits = 0x8080808080808080;

bool is_ascii(Span text) noexcept {
  std::uint64_t seen = last_word(text);
  for (std::size_t at = 0; at + 8 < text.size; at += 8) seen |= load<std::uint64_t>(text.data + at);
  return (seen & high_bits) == 0;
}

}  // namespace

std::size_t TextHash::operator()(std::string_view text) const noexcept {
  return static_cast<std::size_t>(
      hash({reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), nullptr}));
}

bool is_utf8(Span text) noexcept {
  if (is_ascii(text)) return true;
  const std::uint8_t* at = text.data;
  const std::uint8_t* const end = at + text.size;
  while (at != end) {
    for (std::uint64_t word; end - at >= 8; at += 8) {
      std::memcpy(&word, at, 8);
      if ((word & high_bits) != 0) break;
    }
    if (at == end) return true;
    if (*at < 0x80) {
      ++at;
      continue;
    }
    const Lead lead = lead_of(*at);
    if (end - at <= lead.following || at[1] < lead.least || at[1] > lead.largest) return false;
    for (int i = 2; i <= lead.following; ++i) {
      if ((at[i] & 0xc0) != 0x80) return false;
    }
    at += lead.following + 1;
  }
  return true;
}

Span checked_text(Span text) {
  if (!is_utf8(text)) throw Error(Problem::malformed, text.offset(), "a text is not UTF-8");
  return text;
}

std::string shortened(Span text, std::size_t most) {
  std::size_t characters = 0, size = 0;
  for (; size < text.size; ++size) {
    if ((text.data[size] & 0xc0) != 0x80 && ++characters > most) break;
  }
  return std::string(view({text.data, size, text.input}));
}

Texts::Found Texts::add(Span text) {
  if (2 * texts_.size() >= places_.size()) grow();
  const std::uint64_t wanted = hash(text);
  const std::size_t mask = places_.size() - 1;
  for (std::size_t place = wanted & mask;; place = (place + 1) & mask) {
    const std::uint32_t number = places_[place];
    if (number == 0) {
      texts_.push_back(text);
      hashes_.push_back(wanted);
      places_[place] = static_cast<std::uint32_t>(texts_.size());
      return {texts_.size() - 1, true};
    }
    if (hashes_[number - 1] == wanted && view(texts_[number - 1]) == view(text)) {
      return {number - 1, false};
    }
  }
}

std::optional<std::size_t> Texts::find(Span text) const noexcept {
  if (places_.empty()) return std::nullopt;
  const std::uint64_t wanted = hash(text);
  const std::size_t mask = places_.size() - 1;
  for (std::size_t place = wanted & mask; places_[place] != 0; place = (place + 1) & mask) {
    const std::uint32_t number = places_[place] - 1;
    if (hashes_[number] == wanted && view(texts_[number]) == view(text)) return number;
  }
  return std::nullopt;
}

void Texts::clear() noexcept {
  texts_.clear();
  hashes_.clear();
  places_.assign(places_.size(), 0);
}

void Texts::grow() {
  if (texts_.size() >= UINT32_MAX / 4) {
    throw Error(Problem::limit, texts_.back().offset(), "more than a thousand million names");
  }
  places_.assign(places_.empty() ? 64 : 2 * places_.size(), 0);
  const std::size_t mask = places_.size() - 1;
  for (std::size_t number = 0; number < hashes_.size(); ++number) {
    std::size_t place = hashes_[number] & mask;
    while (places_[place] != 0) place = (place + 1) & mask;
    places_[place] = static_cast<std::uint32_t>(number + 1);
  }
}

}  // namespace ferry
