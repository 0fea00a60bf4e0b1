// Footers of Parquet files of the usual form, read in one pass.
//
// A footer is a `FileMetaData` of Thrift (thrift.h). What is taken of it, what is wrong with it, and what
// PyArrow shall not see of it is said by tensorferry.formats.parquet.footer: a footer that would be
// refused there, or that is unusual, is refused here without a reason.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "wire.h"

namespace ferry::parquet {

// A schema of no more elements, whose names have no more bytes, is small whatever it says: no hash table
// has many names at one place, and the ways to all elements together have less than a megabyte.
inline constexpr std::size_t most_elements = 64;
inline constexpr std::size_t most_names = 1 << 14;

struct Chunk {
  std::vector<std::string_view> path;  // UTF-8
  std::int64_t kind = 0;
  std::vector<std::int64_t> encodings;
  std::int64_t codec = 0;
  std::int64_t values = 0;  // as are the next three, 0 or more
  std::int64_t unpacked = 0;
  std::int64_t stored = 0;
  std::int64_t start = 0;  // of its first page
  std::optional<std::int64_t> nulls;
};

struct Footer {
  std::int64_t version = 0;
  std::size_t elements = 0;                      // of the schema
  std::vector<std::pair<Span, Span>> metadata;  // keys and values
  std::vector<std::int64_t> rows;                // of each row group, 0 or more
  std::vector<Chunk> chunks;                     // of all row groups, which have as many each
};

// Reads a footer that stands behind `before` bytes, which hold all chunks. False if it is unusual, or if
// what is passed over nests deeper than `depth`.
bool read_footer(Span bytes, std::uint64_t before, int depth, Footer& footer);

}  // namespace ferry::parquet
