// Stored members of zip archives: many small files, with their headers, encoded together.
//
// What the fields mean is said in tensorferry.codecs.zip, which writes all other members and the end
// of the directory. The archive has no number here that needs zip64.
#pragma once

#include <string>
#include <vector>

#include "wire.h"

namespace ferry::zip {

// A member of two parts, one behind the other.
struct Stored {
  Span name;  // UTF-8
  Span head;
  Span values;
};

// Appends the local headers and the bytes of members to `out`, and their entries of the directory to
// `entries`. The first one starts at `position` of the archive; the bytes of each start at a
// multiple of `align`.
void encode(const std::vector<Stored>& members, std::uint64_t position, std::uint32_t align,
            std::string& out, std::string& entries);

}  // namespace ferry::zip
