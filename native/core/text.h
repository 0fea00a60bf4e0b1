// Texts in messages: whether they are UTF-8, how errors show them, and sets of them.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "wire.h"

namespace ferry {

inline std::string_view view(Span text) noexcept {
  return {reinterpret_cast<const char*>(text.data), text.size};
}

bool is_utf8(Span text) noexcept;

// Throws Error unless the text is UTF-8; gives it back.
Span checked_text(Span text);

// The first characters of a text.
std::string shortened(Span text, std::size_t most = 60);

// The same in quotes.
inline std::string quoted(Span text) { return "'" + shortened(text) + "'"; }

// A hash with a secret of the process, so that no file can bring texts that all fall into one place.
struct TextHash {
  std::size_t operator()(std::string_view text) const noexcept;
};

// Texts, each with its number: they are counted from 0 in the order in which they come.
class Texts {
 public:
  struct Found {
    std::size_t number;
    bool is_new;
  };

  Found add(Span text);
  std::optional<std::size_t> find(Span text) const noexcept;
  bool has(Span text) const noexcept { return find(text).has_value(); }
  std::size_t size() const noexcept { return texts_.size(); }
  void clear() noexcept;

 private:
  void grow();

  std::vector<Span> texts_;
  std::vector<std::uint64_t> hashes_;
  std::vector<std::uint32_t> places_;  // numbers of texts plus 1; 0 where there is none
};

}  // namespace ferry
