// Whether names are spread over the hash tables of the C++ library.
//
// PyArrow looks columns up in such tables. Their hash is public and has no secret: a file can bring
// names that all fall into one place of the table, where each is compared with all before it, and a
// few megabytes take minutes. Tables of our own have a secret (TextHash of text.h).
#pragma once

#include <cstddef>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace ferry {

// So many names at one place take no time, and are at no place by chance.
constexpr std::size_t most_at_one_place = 64;

namespace internal {

struct Itself {
  std::size_t operator()(std::size_t hash) const noexcept { return hash; }
};

inline bool are_spread(const std::vector<std::size_t>& hashes, std::size_t reserved) {
  std::unordered_multiset<std::size_t, Itself> table;
  table.reserve(reserved);
  for (const std::size_t hash : hashes) {
    table.insert(hash);
    if (table.bucket_size(table.bucket(hash)) > most_at_one_place) return false;
  }
  return true;
}

}  // namespace internal

// A table may grow with its elements, or have room for all of them from the start.
inline bool are_spread(const std::vector<std::size_t>& hashes) {
  return hashes.size() <= most_at_one_place ||
         (internal::are_spread(hashes, 0) && internal::are_spread(hashes, hashes.size()));
}

inline std::size_t public_hash(std::string_view name) { return std::hash<std::string_view>{}(name); }

}  // namespace ferry
