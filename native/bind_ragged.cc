// Ragged rows as a table.
#include "core/ragged.h"

#include "python.h"

namespace ferry::python {

namespace {

// `splits` are int64, `fill` is one item, `lines` a table of [rows, width, ...].
void lay_out(nb::handle values, nb::handle splits, nb::handle fill, nb::handle lines) {
  const Buffer from(values);
  const Buffer places(splits);
  const Buffer item(fill);
  const Buffer to(lines, PyBUF_WRITABLE);
  if (places.size() % sizeof(std::uint64_t) != 0 || places.size() == 0) {
    throw nb::value_error("row splits are int64, at least one");
  }
  const std::size_t rows = places.size() / sizeof(std::uint64_t) - 1;
  const std::size_t width = rows == 0 ? 0 : to.size() / rows;
  if (width * rows != to.size()) throw nb::value_error("the lines have no common width");
  if (item.size() == 0 || width % item.size() != 0) throw nb::value_error("a line is of whole items");
  const Unlocked unlocked;
  ragged::lay_out(from.span(), places.data(), rows, item.size(), item.data(), to.data(), width);
}

std::int64_t last_split(nb::handle splits, std::size_t width) {
  const Buffer places(splits);
  if ((width != 4 && width != 8) || places.size() % width != 0) {
    throw nb::value_error("row splits are int32 or int64");
  }
  const std::size_t count = places.size() / width;
  const Unlocked unlocked;
  return width == 4 ? ragged::last_split<std::int32_t>(places.data(), count)
                    : ragged::last_split<std::int64_t>(places.data(), count);
}

}  // namespace

void bind_ragged(nb::module_& module) {
  module.def("lay_out_rows", lay_out, "values"_a, "splits"_a, "fill"_a, "lines"_a,
             "Copies rows of different length to the lines of a table, and fills what is left.");
  module.def("last_split", last_split, "splits"_a, "width"_a,
             "The last of row splits that start at 0 and never fall, else -1; they take `width` bytes each.");
}

}  // namespace ferry::python
