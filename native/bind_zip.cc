// Many small members of zip archives.
#include <deque>

#include "core/zip.h"
#include "python.h"

namespace ferry::python {

namespace {

nb::object bytes_of(const std::string& text) { return nb::bytes(text.data(), text.size()); }

Span name_of(nb::handle given) {
  Span name;
  if (!look_into(given.ptr(), name)) throw nb::type_error("a name is bytes");
  return name;
}

nb::tuple zip_stored(nb::list given, std::uint64_t position, std::uint32_t align) {
  const nb::list held = copy_of(given);
  std::deque<Buffer> buffers;
  std::vector<zip::Stored> members;
  members.reserve(held.size());
  std::size_t size = 0;
  for (const nb::handle each : held) {
    const nb::tuple parts = parts_of(each, 3);
    const Span head = buffers.emplace_back(parts[1]).span();
    const Span values = buffers.emplace_back(parts[2]).span();
    members.push_back({name_of(parts[0]), head, values});
    size += members.back().name.size + head.size + values.size;
  }
  if (align == 0 || align > 1 << 15) throw nb::value_error("no such alignment");
  std::string out, entries;
  out.reserve(size + members.size() * (64 + align));
  zip::encode(members, position, align, out, entries);
  return nb::make_tuple(bytes_of(out), bytes_of(entries));
}

}  // namespace

void bind_zip(nb::module_& module) {
  module.def("zip_stored", zip_stored, "members"_a, "position"_a, "align"_a,
             "Members of (name, head, values), each stored as these two together, and their entries "
             "of the directory; the first one starts at `position`, and no number of the archive may "
             "need zip64.");
}

}  // namespace ferry::python
