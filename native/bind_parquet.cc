// Footers of Parquet files of the usual form.
#include "core/parquet.h"

#include "python.h"

namespace ferry::python {

namespace {

nb::object number_of(std::int64_t value) { return checked(PyLong_FromLongLong(value)); }

// A tuple of what `make` makes of each of some values.
template <typename Values, typename Make>
nb::object tuple_of(const Values& values, Make make) {
  nb::object found = checked(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  Py_ssize_t place = 0;
  for (const auto& value : values) {
    PyTuple_SetItem(found.ptr(), place++, nb::object(make(value)).release().ptr());
  }
  return found;
}

nb::object chunk_of(const parquet::Chunk& chunk) {
  const auto text = [](std::string_view name) { return nb::str(name.data(), name.size()); };
  return nb::make_tuple(tuple_of(chunk.path, text), number_of(chunk.kind),
                        tuple_of(chunk.encodings, number_of), number_of(chunk.codec),
                        number_of(chunk.values), number_of(chunk.unpacked), number_of(chunk.stored),
                        number_of(chunk.start), chunk.nulls ? number_of(*chunk.nulls) : nb::none());
}

nb::object parquet_footer(nb::handle source, std::uint64_t before, int depth) {
  const Buffer buffer(source);
  parquet::Footer footer;
  if (!parquet::read_footer(buffer.span(), before, depth, footer)) return nb::none();
  nb::list metadata, rows, chunks;
  for (const auto& [key, value] : footer.metadata) {
    metadata.append(nb::make_tuple(to_bytes(key), to_bytes(value)));
  }
  for (const std::int64_t count : footer.rows) rows.append(number_of(count));
  for (const parquet::Chunk& chunk : footer.chunks) chunks.append(chunk_of(chunk));
  return nb::make_tuple(number_of(footer.version), metadata, rows, chunks);
}

}  // namespace

void bind_parquet(nb::module_& module) {
  module.def("parquet_footer", parquet_footer, "source"_a, "before"_a, "depth"_a,
             "What a footer behind so many bytes says: the version, the metadata, the number of rows "
             "of each row group, and the column chunks of all row groups, each a tuple of its path, "
             "type, encodings, codec, values, size unpacked and stored, place, and nulls or None. "
             "None if the footer is unusual.");
}

}  // namespace ferry::python
