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

nb::tuple bundle_entries(nb::handle source, nb::list given_starts, nb::list given_ends) {
  Buffer buffer(source);
  const nb::list starts = copy_of(given_starts), ends = copy_of(given_ends);
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

nb::object bundle_index(nb::handle source) {
  Buffer buffer(source);
  checkpoint::Index index;
  if (!checkpoint::read_index(buffer.span(), index)) return nb::none();
  const checkpoint::Entries entries = checkpoint::read_entries(index.values);
  const nb::list keys = make_list(index.keys.size(), [&](std::size_t i) {
    return nb::object(nb::bytes(index.keys[i].data(), index.keys[i].size()));
  });
  const checkpoint::Summary summary = checkpoint::summarize(entries);
  const nb::list sizes = make_list(summary.sizes.size(), [&](std::size_t i) {
    return checked(PyLong_FromLongLong(summary.sizes[i]));
  });
  std::vector<std::int64_t> numbers = entries.numbers;
  for (const Span& value : index.values) {
    numbers.push_back(static_cast<std::int64_t>(value.offset()));
  }
  for (const Span& value : index.values) {
    numbers.push_back(static_cast<std::int64_t>(value.offset() + value.size));
  }
  return nb::make_tuple(to_bytes(index.header), index.header.offset(), keys,
                        to_list(entries.heads), sizes, summary.end,
                        nb::bytes(reinterpret_cast<const char*>(numbers.data()),
                                  numbers.size() * sizeof(std::int64_t)));
}

bool bundle_sound(nb::handle source, nb::handle offsets, nb::handle sizes, nb::handle checksums) {
  const Buffer buffer(source), starts(offsets), lengths(sizes), sums(checksums);
  if (starts.size() != lengths.size() || starts.size() != sums.size()) throw nb::value_error("columns of one length");
  // Copied, because another thread may change them between two looks.
  const auto copy = [](const Buffer& column) {
    std::vector<std::int64_t> numbers(column.size() / sizeof(std::int64_t));
    if (!numbers.empty()) std::memcpy(numbers.data(), column.data(), numbers.size() * sizeof(std::int64_t));
    return numbers;
  };
  const std::vector<std::int64_t> first = copy(starts), second = copy(lengths), third = copy(sums);
  const Unlocked unlocked;
  return checkpoint::are_sound(buffer.data(), buffer.size(), first.data(), second.data(), third.data(), first.size());
}

nb::list table_blocks(nb::list given_keys, nb::list given_values, std::size_t room,
                      std::size_t interval) {
  const nb::list keys = copy_of(given_keys), values = copy_of(given_values);
  if (keys.size() != values.size()) throw nb::value_error("as many keys as values");
  if (interval == 0) throw nb::value_error("a key starts anew at some time");
  const std::vector<Span> names = spans_of(keys), contents = spans_of(values);
  nb::list blocks;
  std::string out;
  std::size_t start = 0;
  do {
    const std::size_t end = checkpoint::encode_block(names, contents, start, room, interval, out);
    if (end == start && start < names.size()) throw nb::value_error("a block has room for an entry");
    blocks.append(nb::make_tuple(nb::bytes(out.data(), out.size()), end));
    start = end;
  } while (start < names.size());
  return blocks;
}

nb::bytes bundle_entry(nb::bytes head, std::uint64_t shard, std::uint64_t offset,
                       std::uint64_t size, std::uint32_t checksum) {
  const Span start{reinterpret_cast<const std::uint8_t*>(head.data()), head.size(), nullptr};
  const std::string entry = checkpoint::encode_entry(start, shard, offset, size, checksum);
  return nb::bytes(entry.data(), entry.size());
}

}  // namespace

void bind_checkpoint(nb::module_& module) {
  module.def("table_block", table_block, "source"_a,
             "The entries of a block: keys, and where their values start and end.");
  module.def("table_blocks", table_blocks, "keys"_a, "values"_a, "room"_a, "interval"_a,
             "Blocks of entries, each with the number of the first entry behind it; one block if "
             "there are no entries.");
  module.def("bundle_entry", bundle_entry, "head"_a, "shard"_a, "offset"_a, "size"_a, "checksum"_a,
             "An entry: its head, which has the dtype and shape, and the numbers that are not 0.");
  module.def("bundle_entries", bundle_entries, "source"_a, "starts"_a, "ends"_a,
             "Different heads, and five columns of int64: which head or -1, shard, offset, size, "
             "checksum.");
  module.def("bundle_sound", bundle_sound, "source"_a, "offsets"_a, "sizes"_a, "checksums"_a,
             "Whether the bytes at each place, of columns of int64, have the masked checksum that is "
             "stored; False if a place is not in the buffer.");
  module.def("bundle_index", bundle_index, "source"_a,
             "A whole index: its header, where the header starts, the keys of the entries, "
             "different heads, the size of all entries of each head or -1 (none if an entry is "
             "unusual), where the last entry ends if all lie apart in the first file, else -1, "
             "and seven columns of int64: which head or -1, shard, offset, size, checksum, where "
             "the entry starts and ends. None if it is compressed or damaged.");
}

}  // namespace ferry::python
