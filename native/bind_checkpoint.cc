// The index of a checkpoint.
#include "core/checkpoint.h"

#include "python.h"

namespace ferry::python {

namespace {

nb::tuple table_block(nb::handle source) {
  Buffer buffer(source);
  nb::list keys;
  nb::list starts;
  nb::list ends;
  for (checkpoint::Block block(buffer.span()); block.next();) {
    keys.append(nb::bytes(block.key().data(), block.key().size()));
    starts.append(block.value().offset());
    ends.append(block.value().offset() + block.value().size);
  }
  return nb::make_tuple(keys, starts, ends);
}

nb::tuple bundle_entries(nb::handle source, nb::list starts, nb::list ends) {
  Buffer buffer(source);
  if (starts.size() != ends.size()) throw nb::value_error("as many starts as ends");
  std::vector<Span> values;
  values.reserve(starts.size());
  for (std::size_t i = 0; i < starts.size(); ++i) {
    values.push_back(buffer.span(nb::cast<std::uint64_t>(starts[i]), nb::cast<std::uint64_t>(ends[i])));
  }
  const checkpoint::Entries entries = checkpoint::read_entries(values);
  return nb::make_tuple(
      to_list(entries.heads),
      nb::bytes(reinterpret_cast<const char*>(entries.numbers.data()),
                entries.numbers.size() * sizeof(std::int64_t)));
}

}  // namespace

void bind_checkpoint(nb::module_& module) {
  module.def("table_block", table_block, "source"_a,
             "The entries of a block: keys, and where their values start and end.");
  module.def("bundle_entries", bundle_entries, "source"_a, "starts"_a, "ends"_a,
             "Different heads, and five columns of int64: which head or -1, shard, offset, size, "
             "checksum.");
}

}  // namespace ferry::python
