// The columns of Arrow files of the plainest form.
#include "core/arrow.h"

#include "core/spread.h"
#include "python.h"

namespace ferry::python {

namespace {

nb::object bytes_of(std::string_view text) { return nb::bytes(text.data(), text.size()); }

nb::object arrow_columns(nb::handle source) {
  Buffer buffer(source);
  arrow::File file;
  if (!arrow::read(buffer.span(), file)) return nb::none();
  nb::dict metadata;
  for (const auto& [key, value] : file.metadata) metadata[bytes_of(key)] = bytes_of(value);
  nb::list rows, columns;
  for (const arrow::Batch& batch : file.batches) rows.append(batch.rows);
  for (std::size_t i = 0; i < file.columns.size(); ++i) {
    const arrow::Column& column = file.columns[i];
    const std::string dtype = column.kind + std::to_string(column.width);
    nb::list places;
    for (const arrow::Batch& batch : file.batches) places.append(file.places[batch.places + i]);
    columns.append(nb::make_tuple(nb::str(column.name.data(), column.name.size()),
                                  nb::str(dtype.data(), dtype.size()), column.is_nullable,
                                  places));
  }
  return nb::make_tuple(metadata, rows, columns);
}

// `target` is a contiguous array of objects, one for each string.
template <typename Offset>
void fill_strings(const Buffer& offsets, const Buffer& data, const Buffer& target) {
  const std::size_t count = target.size() / sizeof(PyObject*);
  if (std::string(target.format()) != "O" || offsets.size() != (count + 1) * sizeof(Offset)) {
    throw nb::value_error("the target has no objects, or another number of them");
  }
  std::uint8_t* place = target.data();
  arrow::each_string<Offset>(offsets.span(), data.span(), [&](Span text) {
    PyObject* const made = to_bytes(text).release().ptr();
    PyObject* const old = object_at(place, 0);
    std::memcpy(place, &made, sizeof(made));
    place += sizeof(made);
    Py_XDECREF(old);
  });
}

void arrow_strings(nb::handle offsets, nb::handle data, nb::handle target, bool wide) {
  const Buffer places(offsets), bytes(data);
  const Buffer out(target, PyBUF_WRITABLE | PyBUF_FORMAT);
  if (wide) {
    fill_strings<std::int64_t>(places, bytes, out);
  } else {
    fill_strings<std::int32_t>(places, bytes, out);
  }
}

nb::str arrow_schema_refusal(nb::handle flatbuffer, bool is_footer) {
  const Buffer buffer(flatbuffer);
  const std::string reason = arrow::schema_refusal(buffer.span(), is_footer);
  return nb::str(reason.data(), reason.size());
}

bool names_are_spread(nb::list given) {
  const nb::list names = copy_of(given);
  std::vector<std::size_t> hashes;
  hashes.reserve(names.size());
  for (const nb::handle name : names) {
    Span bytes;
    if (!look_into(name.ptr(), bytes)) throw nb::type_error("a name is bytes");
    hashes.push_back(public_hash({reinterpret_cast<const char*>(bytes.data), bytes.size}));
  }
  return are_spread(hashes);
}

}  // namespace

void bind_arrow(nb::module_& module) {
  module.def("arrow_columns", arrow_columns, "source"_a,
             "The metadata of an Arrow file's schema, the number of rows of each record batch, and "
             "the columns: (name, dtype, whether it may have nulls, where the values of each record "
             "batch start). None if the file has anything but numbers without nulls.");
  module.def("arrow_strings", arrow_strings, "offsets"_a, "data"_a, "target"_a, "wide"_a,
             "Puts the strings of an array into an array of objects, as bytes. The offsets, int64 "
             "if they are wide and else int32, are one more than the objects.");
  module.def("arrow_schema_refusal", arrow_schema_refusal, "flatbuffer"_a, "is_footer"_a,
             "Why PyArrow shall not read the schema of a footer or a message; empty if it may.");
  module.def("names_are_spread", names_are_spread, "names"_a,
             "Whether a hash table of the C++ library keeps names apart.");
}

}  // namespace ferry::python
