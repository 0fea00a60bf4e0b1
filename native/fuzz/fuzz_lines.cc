// Any bytes as lines: blocks lie in order, have all lines, and are those of a plain loop.
#include "core/lines.h"

using namespace ferry;

namespace {

std::uint64_t count_rows(const std::uint8_t* data, std::size_t size, bool quotes) {
  std::uint64_t rows = 0;
  bool open = false, filled = false;
  for (std::size_t i = 0; i <= size; ++i) {
    if (i == size || (data[i] == '\n' && !open)) {
      rows += filled ? 1 : 0;
      filled = false;
      continue;
    }
    if (quotes && data[i] == '"') open = !open;
    filled |= !(data[i] == ' ' || (data[i] >= '\t' && data[i] <= '\r'));
  }
  return rows;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint64_t block = 1 + data[0] % 100;
  ++data;
  --size;
  for (const bool quotes : {false, true}) {
    const lines::Cut cut = lines::cut({data, size}, 0, block, size, quotes);
    std::uint64_t rows = 0, stop = 0;
    for (const lines::Block& one : cut.blocks) {
      if (one.start < stop || one.stop <= one.start || one.rows == 0) __builtin_trap();
      rows += one.rows;
      stop = one.stop;
    }
    if (stop > size || cut.is_too_long || rows != count_rows(data, size, quotes)) __builtin_trap();
  }
  return 0;
}
