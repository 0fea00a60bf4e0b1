// Examples to rows: dicts of NumPy's scalars and arrays, and of bytes.
#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "columns.h"
#include "core/example.h"
#include "core/tfrecord.h"
#include "python.h"
#include "threads.h"

namespace ferry::python {

namespace {

using example::Kind;

// Dicts with the same keys, in their order: a copy of one that has them, with other values.
class Template {
 public:
  explicit Template(nb::tuple names) : names_(std::move(names)) {
    for (nb::handle name : names_) keys_[name] = nb::none();
  }

  nb::object copy() const {
    PyObject* const row = PyDict_Copy(keys_.ptr());
    if (row == nullptr) throw nb::python_error();
    return nb::steal(row);
  }

  void set(nb::handle row, std::size_t column, nb::handle value) const {
    PyObject* const name = item_of_tuple(names_.ptr(), column);
    if (PyDict_SetItem(row.ptr(), name, value.ptr()) != 0) throw nb::python_error();
  }

  std::size_t size() const { return names_.size(); }

 private:
  nb::tuple names_;
  nb::dict keys_;
};

// The rows of columns, each a list with a value a row.
nb::list zip_rows(nb::tuple names, nb::list columns) {
  const Template keys(names);
  std::vector<nb::list> held;  // of our own: nobody else can take something out of them
  for (nb::handle column : copy_of(columns)) held.push_back(copy_of(nb::cast<nb::list>(column)));
  if (held.size() != keys.size()) throw nb::value_error("a column for each name");
  const std::size_t count = held.empty() ? 0 : held.front().size();
  for (const nb::list& column : held) {
    if (column.size() != count) throw nb::value_error("columns of different lengths");
  }
  return make_list(count, [&](std::size_t i) {
    nb::object row = keys.copy();
    for (std::size_t column = 0; column < held.size(); ++column) {
      keys.set(row, column, item_of_list(held[column].ptr(), i));
    }
    return row;
  });
}

// The part of an array between each two of some places, which are int64 and rise.
nb::list slice_rows(nb::object values, nb::handle splits) {
  const Buffer buffer(splits);
  const std::size_t count = buffer.size() / sizeof(std::int64_t);
  const auto place_at = [&](std::size_t i) {
    std::int64_t place;
    std::memcpy(&place, buffer.data() + i * sizeof(place), sizeof(place));
    return nb::int_(place);
  };
  nb::int_ start = count == 0 ? nb::int_(0) : place_at(0);
  return make_list(count == 0 ? 0 : count - 1, [&](std::size_t i) {
    nb::int_ end = place_at(i + 1);
    const nb::object part = nb::steal(PySlice_New(start.ptr(), end.ptr(), nullptr));
    Stay stay;  // a class of Python may have the method
    PyObject* const found = part.is_valid() ? PyObject_GetItem(values.ptr(), part.ptr()) : nullptr;
    stay.returned();
    if (found == nullptr) throw nb::python_error();
    start = std::move(end);
    return nb::steal(found);
  });
}

// Reads single records as rows. What it gives None for, it leaves to those who say what is wrong.
class RowReader {
 public:
  // Columns: as ExampleDecoder. Outputs, in the order of the row: (column, name, whether it may be
  // missing, shape with None for any number of parts, class of scalars, dtype). `empty` is NumPy's.
  RowReader(nb::list columns, nb::list outputs, nb::object empty)
      : decoder_(parse_columns(columns)), keys_(names_of(outputs)), empty_(std::move(empty)) {
    for (nb::handle given : copy_of(outputs)) {
      const nb::tuple parts = parts_of(given, 6);
      Output output;
      output.column = nb::cast<std::size_t>(parts[0]);
      if (output.column >= decoder_.columns().size()) throw nb::index_error("no such column");
      output.optional = nb::cast<bool>(parts[2]);
      output.shape = nb::cast<nb::tuple>(parts[3]);
      for (std::size_t i = 0; i < output.shape.size(); ++i) {
        if (!output.shape[i].is_none()) {
          output.unit *= nb::cast<std::size_t>(output.shape[i]);
        } else if (i == 0) {
          output.varies = true;
        } else {
          throw nb::value_error("only the first dimension varies");
        }
      }
      output.scalar = parts[4];
      output.dtype = parts[5];
      outputs_.push_back(std::move(output));
    }
    if (outputs_.size() != keys_.size()) throw nb::value_error("the outputs changed meanwhile");
  }
  RowReader(const RowReader&) = delete;

  // The record whose frame starts there.
  nb::object read(nb::handle source, std::uint64_t start, bool verify) {
    const Turn::Use use(turn_);
    Buffer buffer(source);
    check_start(buffer, start);
    if (!decode(buffer, start, verify)) return nb::none();
    nb::object row = keys_.copy();
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const nb::object value = value_of(outputs_[i]);
      if (!value.is_valid()) return nb::none();
      keys_.set(row, i, value);
    }
    return row;
  }

 private:
  struct Output {
    std::size_t column = 0;
    bool optional = false;
    bool varies = false;
    std::size_t unit = 1;  // number of values of a part
    nb::tuple shape;
    nb::object scalar;
    nb::object dtype;
  };

  static nb::tuple names_of(nb::list outputs) {
    nb::list names;
    for (nb::handle output : copy_of(outputs)) names.append(parts_of(output, 6)[1]);
    return nb::tuple(names);
  }

  // Without the GIL: pages of the file may have to be read.
  bool decode(const Buffer& buffer, std::uint64_t start, bool verify) {
    decoder_.clear();
    const Unlocked unlocked;
    tfrecord::Record record;
    if (tfrecord::read(buffer.span(), start, verify, record) != tfrecord::Status::record) return false;
    try {
      decoder_.add(buffer.span(record.data, record.data + record.length));
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  // A value of a row; none at all if there is no such row.
  nb::object value_of(const Output& output) {
    const example::Column& column = decoder_.columns()[output.column];
    const std::size_t count = column.values();
    if (column.missing.size() > 0) {
      if (!output.optional) return {};
      if (!output.varies) return nb::none();
    }
    if (output.shape.size() == 0) return scalar_of(output, column);
    if (output.unit == 0 || count % output.unit != 0) return {};
    nb::object shape = output.shape;
    if (output.varies) shape = shape_of(output, count / output.unit);
    nb::object array = call(empty_, shape, output.dtype);
    switch (column.kind) {
      case Kind::integers: fill(array, column.integers); break;
      case Kind::floats: fill(array, column.floats); break;
      default: fill_texts(array, column.texts);
    }
    return array;
  }

  static nb::object shape_of(const Output& output, std::size_t parts) {
    if (output.shape.size() == 1) return nb::int_(parts);
    nb::list shape(output.shape);
    shape[0] = parts;
    return nb::tuple(shape);
  }

  static nb::object scalar_of(const Output& output, const example::Column& column) {
    if (column.values() != 1) return {};
    switch (column.kind) {
      case Kind::integers: return call(output.scalar, nb::int_(column.integers[0]));
      case Kind::floats: {
        // A signalling NaN would become another one on its way through Python's float.
        std::uint32_t bits;
        std::memcpy(&bits, &column.floats[0], sizeof(bits));
        if ((bits & 0x7fc00000) == 0x7f800000 && (bits & 0x003fffff) != 0) return {};
        return call(output.scalar, nb::float_(static_cast<double>(column.floats[0])));
      }
      default: return to_bytes({column.texts[0].data, column.texts[0].size, nullptr});
    }
  }

  template <typename Element>
  static void fill(nb::handle array, const example::Scratch<Element>& values) {
    Buffer out(array, PyBUF_WRITABLE);
    if (out.size() != values.size() * sizeof(Element)) throw nb::value_error("an array of another size");
    if (values.size() > 0) std::memcpy(out.data(), values.data(), out.size());
  }

  example::Decoder decoder_;
  Template keys_;
  nb::object empty_;
  std::vector<Output> outputs_;
  Turn turn_{"the reader of rows"};
};

}  // namespace

void bind_rows(nb::module_& module) {
  module.def("zip_rows", zip_rows, "names"_a, "columns"_a,
             "The rows of columns, which are lists of one length: dicts.");
  module.def("slice_rows", slice_rows, "values"_a, "splits"_a,
             "The rows of an array that lie between places: views of it.");
  nb::class_<RowReader>(module, "RowReader", "Reads single Examples as rows.")
      .def(nb::init<nb::list, nb::list, nb::object>(), "columns"_a, "outputs"_a, "empty"_a)
      .def("read", &RowReader::read, "source"_a, "start"_a, "verify"_a);
}

}  // namespace ferry::python
