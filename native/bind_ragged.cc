// Ragged rows as a table.
#include "core/ragged.h"

#include "python.h"

namespace ferry::python {

namespace {

// `splits` are int64, `lines` a table of [rows, width, ...] that is filled already.
void lay_out(nb::handle values, nb::handle splits, std::size_t item, nb::handle lines) {
  const Buffer from(values);
  const Buffer places(splits);
  const Buffer to(lines, PyBUF_WRITABLE);
  if (places.size() % sizeof(std::uint64_t) != 0 || places.size() == 0) {
    throw nb::value_error("row splits are int64, at least one");
  }
  const std::size_t rows = places.size() / sizeof(std::uint64_t) - 1;
  const std::size_t width = rows == 0 ? 0 : to.size() / rows;
  if (width * rows != to.size()) throw nb::value_error("the lines have no common width");
  const Unlocked unlocked;
  ragged::lay_out(from.span(), places.data(), rows, item, to.data(), width);
}

}  // namespace

void bind_ragged(nb::module_& module) {
  module.def("lay_out_rows", lay_out, "values"_a, "splits"_a, "item"_a, "lines"_a,
             "Copies rows of different length to the lines of a table.");
}

}  // namespace ferry::python
