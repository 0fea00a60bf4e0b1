// Arrow files of the plainest form: columns of numbers without nulls, found in one pass.
//
// A file ends with a flatbuffer, the footer, which has the schema and the places of record batches; a
// record batch is a flatbuffer with the places of its buffers, and the buffers. A file whose columns
// are numbers as they lie in memory is walked here, and nothing is taken that PyArrow would refuse. A
// file that is not of this form is refused without a reason: tensorferry.formats.arrow.messages and
// PyArrow read it, or say what is wrong with it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire.h"

namespace ferry::arrow {

struct Column {
  std::string_view name;  // UTF-8, and no other column has it
  char kind = 'i';        // as in NumPy: i, u or f
  std::uint64_t width = 0;  // number of bytes of a value
  bool is_nullable = false;
};

struct Batch {
  std::uint64_t rows = 0;
  std::size_t places = 0;  // where in `File::places` those of its columns start
};

struct File {
  std::vector<Column> columns;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;  // different keys
  std::vector<Batch> batches;
  std::vector<std::uint64_t> places;  // where the values of each column of each batch start
};

// False if the file is not of this form.
bool read(Span bytes, File& file);

// Why PyArrow shall not read the schema of a footer or of a message, of whatever form; empty if it may.
// It reads names and fields that share their bytes as often as they are named, and looks names up in
// tables whose hash is known to everybody.
std::string schema_refusal(Span flatbuffer, bool is_footer);

// Gives `take` each of the strings in `data`, where `Offset` numbers say where each starts, and the
// last one ends. Throws if one of them leads out of the data.
template <typename Offset, typename Take>
void each_string(Span offsets, Span data, Take take) {
  Reader reader(offsets);
  const auto next = [&]() -> std::uint64_t {
    return sizeof(Offset) == 4 ? reader.fixed32() : reader.fixed64();
  };
  if (reader.done()) return;
  std::uint64_t start = next();
  while (!reader.done()) {
    const std::uint64_t end = next();
    if (end < start || end > data.size) {
      throw Error(Problem::malformed, 0,
                  "a string from byte " + std::to_string(start) + " to " + std::to_string(end) +
                      " of " + std::to_string(data.size));
    }
    take(Span{data.data + start, static_cast<std::size_t>(end - start), data.input});
    start = end;
  }
}

}  // namespace ferry::arrow
