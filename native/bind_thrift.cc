// Structs of Thrift's compact protocol, by a table of the fields that are wanted.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include "core/thrift.h"

#include "python.h"

namespace ferry::python {

namespace {

enum class Shape { integer, binary, integers, binaries, structure, structures };

Shape shape_of(const std::string& name) {
  if (name == "integer") return Shape::integer;
  if (name == "binary") return Shape::binary;
  if (name == "integers") return Shape::integers;
  if (name == "binaries") return Shape::binaries;
  if (name == "struct") return Shape::structure;
  if (name == "structs") return Shape::structures;
  throw nb::value_error("a field has no such shape");
}

// Nothing that anybody writes nests deeper, and the stack has room for it.
constexpr int deepest = 1000;

class ThriftTable {
 public:
  explicit ThriftTable(nb::list fields) {
    for (nb::handle field : copy_of(fields)) {
      const auto [number, shape, inner] =
          nb::cast<std::tuple<std::int64_t, std::string, nb::object>>(field);
      const auto* table = inner.is_none() ? nullptr : nb::cast<ThriftTable*>(inner);
      wanted_.push_back({number, shape_of(shape), table});
      const Shape wanted = wanted_.back().shape;
      if ((wanted == Shape::structure || wanted == Shape::structures) != (table != nullptr)) {
        throw nb::value_error("a struct has a table, and nothing else has one");
      }
      held_.append(inner);
    }
  }

  nb::tuple read(nb::handle source, std::uint64_t offset, int depth) const {
    Buffer buffer(source);
    thrift::Reader reader(buffer.span(), depth < deepest ? depth : deepest);
    try {
      nb::object values = read_struct(reader);
      return nb::make_tuple(std::move(values), reader.offset());
    } catch (const Error& error) {
      throw Error(error.problem(), offset + error.offset(), error.what());
    }
  }

 private:
  struct Wanted {
    std::int64_t number;
    Shape shape;
    const ThriftTable* inner;
  };

  // The values of the fields that are wanted, in their order; None for those that are not there.
  nb::object read_struct(thrift::Reader& reader) const {
    std::vector<nb::object> found(wanted_.size(), nb::none());
    for (thrift::Field field; reader.next(field);) {
      std::size_t place = 0;
      while (place < wanted_.size() && wanted_[place].number != field.number) ++place;
      if (place == wanted_.size()) {
        reader.skip(field.kind);
      } else {
        found[place] = read_value(reader, wanted_[place], field.kind);
      }
    }
    PyObject* const tuple = PyTuple_New(static_cast<Py_ssize_t>(found.size()));
    if (tuple == nullptr) throw nb::python_error();
    for (std::size_t i = 0; i < found.size(); ++i) {
      PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(i), found[i].release().ptr());
    }
    return nb::steal(tuple);
  }

  static nb::object read_value(thrift::Reader& reader, const Wanted& wanted, thrift::Kind kind) {
    switch (wanted.shape) {
      case Shape::integer:
        return nb::int_(reader.integer(kind));
      case Shape::binary:
        return to_bytes(reader.binary(kind));
      case Shape::structure:
        reader.expect(kind, thrift::Kind::structure);
        return wanted.inner->read_struct(reader);
      default:
        break;
    }
    const thrift::List list = reader.list(kind);
    nb::list values;
    for (std::uint64_t i = 0; i < list.count; ++i) {
      if (wanted.shape == Shape::integers) {
        values.append(nb::int_(reader.integer(list.kind)));
      } else if (wanted.shape == Shape::binaries) {
        values.append(to_bytes(reader.binary(list.kind)));
      } else {
        reader.expect(list.kind, thrift::Kind::structure);
        const std::uint64_t start = reader.offset();
        values.append(wanted.inner->read_struct(reader));
        if (reader.offset() == start + 1) {  // one of no fields, which takes a byte
          throw Error(Problem::malformed, start, "a struct in a list has no fields");
        }
      }
    }
    return values;
  }

  std::vector<Wanted> wanted_;
  nb::list held_;  // the tables of structs inside
};

}  // namespace

void bind_thrift(nb::module_& module) {
  nb::class_<ThriftTable>(module, "ThriftTable",
                          "The fields of a struct that are wanted: (number, shape, table of the "
                          "struct or None), where a shape is integer, binary, struct, integers, "
                          "binaries or structs.")
      .def(nb::init<nb::list>(), "fields"_a)
      .def("read", &ThriftTable::read, "source"_a, "offset"_a, "depth"_a,
           "The values of a struct, in the order of the fields, None for those that are missing, "
           "and number of bytes that were read. Errors count from `offset`.");
}

}  // namespace ferry::python
