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

// A type or field, as any library of Arrow hands it to others: Arrow's C data interface.
struct Handed {
  const char* format;
  const char* name;
  const char* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  Handed** children;
  Handed* dictionary;
  void (*release)(Handed*);
  void* private_data;

  bool is_nullable() const { return (flags & 2) != 0; }
};

// NumPy's name of a number; null for any other type.
const char* number_of(std::string_view format) {
  constexpr std::pair<char, const char*> names[] = {
      {'c', "int8"},   {'C', "uint8"},  {'s', "int16"},   {'S', "uint16"},  {'i', "int32"},  {'I', "uint32"},
      {'l', "int64"}, {'L', "uint64"}, {'e', "float16"}, {'f', "float32"}, {'g', "float64"},
  };
  for (const auto& [letter, name] : names) {
    if (format.size() == 1 && format[0] == letter) return name;
  }
  return nullptr;
}

// The name of the dtype of a column of one value in each row; null if it is none of the usual.
const char* dtype_of(std::string_view format) {
  if (const char* const number = number_of(format); number != nullptr) return number;
  if (format == "b") return "bool";
  for (const std::string_view text : {"u", "U", "z", "Z", "vu", "vz"}) {
    if (format == text) return "string";
  }
  return nullptr;
}

// The number in the format of lists of a fixed size, "+w:16"; 0 for anything else.
std::int64_t list_size_of(std::string_view format) {
  std::int64_t size = 0;
  if (format.substr(0, 3) != "+w:" || format.size() > 12) return 0;
  for (const char digit : format.substr(3)) {
    if (digit < '0' || digit > '9') return 0;
    size = 10 * size + (digit - '0');
  }
  return size;
}

bool is_bare(const Handed& field) { return field.metadata == nullptr && field.dictionary == nullptr; }

// The fields of an `Outline`, in their order; not valid if the column is none of the usual.
nb::object leaf_of(nb::handle name, const Handed& field, int node, int leaf) {
  const char* dtype = dtype_of(field.format);
  bool is_nullable = field.is_nullable();
  nb::tuple shape, nodes = nb::make_tuple(node);
  const std::int64_t size = list_size_of(field.format);
  if (size != 0 && field.n_children == 1 && is_bare(*field.children[0])) {
    dtype = number_of(field.children[0]->format);
    is_nullable = is_nullable || field.children[0]->is_nullable();
    shape = nb::make_tuple(size);
    nodes = nb::make_tuple(node, node + 1);
  }
  if (dtype == nullptr || !is_bare(field)) return {};
  return nb::make_tuple(name, name, dtype, shape, false, false, nodes, leaf, false, is_nullable,
                        nb::none());
}

nb::object arrow_leaves(nb::list given, nb::handle capsule) {
  const nb::list names = copy_of(given);
  const auto* const schema =
      static_cast<const Handed*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_schema"));
  if (schema == nullptr) throw nb::python_error();
  if (static_cast<std::size_t>(schema->n_children) != names.size()) {
    throw nb::value_error("a schema has as many names as fields");
  }
  nb::list leaves;
  int node = 0;
  for (std::int64_t i = 0; i < schema->n_children; ++i) {
    const Handed& field = *schema->children[i];
    const nb::object leaf = leaf_of(names[static_cast<std::size_t>(i)], field, node, static_cast<int>(i));
    if (!leaf.is_valid()) return nb::none();
    leaves.append(leaf);
    node += 1 + static_cast<int>(field.n_children);
  }
  return leaves;
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
  module.def("arrow_leaves", arrow_leaves, "names"_a, "schema"_a,
             "The leaves of a schema (a capsule of Arrow's C data interface) whose columns are numbers, "
             "texts, and lists of numbers of one size, without metadata: a tuple of the fields of an "
             "`Outline` for each. None if there is any other column.");
  module.def("names_are_spread", names_are_spread, "names"_a,
             "Whether a hash table of the C++ library keeps names apart.");
}

}  // namespace ferry::python
