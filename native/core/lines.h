// Lines of text as rows: where they end, and how many there are.
#pragma once

#include <cstdint>
#include <vector>

#include "wire.h"

namespace ferry::lines {

// Some whole lines of a text.
struct Block {
  std::uint64_t start;
  std::uint64_t stop;  // behind the newline of the last line
  std::uint64_t rows;  // lines that are not blank
};

struct Cut {
  std::vector<Block> blocks;    // those that have rows
  bool ends_in_quotes = false;  // the text ends where a quote is open
  bool is_too_long = false;     // the line behind the last block is longer than allowed
};

// Cuts a text into blocks of whole lines, of about `size` bytes each: a longer line is a block of
// its own. With `quotes`, a newline between quotes ends no line. A line of more than `most` bytes
// ends the work.
Cut cut(Span text, std::uint64_t start, std::uint64_t size, std::uint64_t most, bool quotes);

}  // namespace ferry::lines
