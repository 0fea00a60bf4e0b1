// Lines of text as rows.
#include "core/lines.h"

#include "python.h"

namespace ferry::python {

namespace {

nb::tuple cut_lines(nb::handle source, std::uint64_t start, std::uint64_t size, std::uint64_t most,
                    bool quotes) {
  Buffer buffer(source);
  if (start > buffer.size()) throw nb::index_error("start behind the end of the text");
  lines::Cut cut;
  {
    const Unlocked unlocked;
    cut = lines::cut(buffer.span(), start, size, most, quotes);
  }
  nb::list blocks = make_list(cut.blocks.size(), [&](std::size_t i) {
    return nb::make_tuple(cut.blocks[i].start, cut.blocks[i].stop, cut.blocks[i].rows);
  });
  return nb::make_tuple(blocks, cut.ends_in_quotes, cut.is_too_long);
}

}  // namespace

void bind_lines(nb::module_& module) {
  module.def("cut_lines", cut_lines, "source"_a, "start"_a, "size"_a, "most"_a, "quotes"_a,
             "Blocks of whole lines: start, stop and number of lines that are not blank; whether "
             "the text ends inside of quotes, and whether a line is longer than `most`.");
}

}  // namespace ferry::python
