// HDF5 files of the usual form: their objects, and what stands before their values.
#include "core/hdf5.h"

#include <algorithm>

#include "core/hdf5_encode.h"
#include "core/memory.h"

#include "python.h"

namespace ferry::python {

namespace {

nb::object text_of(std::string_view text) {
  return checked(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "strict"));
}

nb::dict attributes_of(const hdf5::Objects& found, const hdf5::Object& object) {
  nb::dict attributes;
  for (std::size_t i = 0; i < object.attribute_count; ++i) {
    const hdf5::Attribute& each = found.attributes[object.attributes + i];
    attributes[text_of(each.name)] = text_of(each.value);
  }
  return attributes;
}

nb::object number_of(std::uint64_t number) {
  return checked(PyLong_FromUnsignedLongLong(number));
}

// Datasets by path, in the order of their headers: dtype, shape, and where their values start.
nb::dict datasets_of(const hdf5::Objects& found, std::uint64_t start, nb::dict dtypes) {
  std::vector<const hdf5::Object*> by_address;
  for (const hdf5::Object& object : found.objects) {
    if (object.dtype != nullptr) by_address.push_back(&object);
  }
  std::sort(by_address.begin(), by_address.end(),
            [](const auto* a, const auto* b) { return a->address < b->address; });
  nb::dict datasets;
  const char* last = nullptr;  // most datasets have the dtype of the one before
  nb::object dtype;
  for (const hdf5::Object* object : by_address) {
    if (object->dtype != last) {
      dtype = nb::object(dtypes[object->dtype]);
      last = object->dtype;
    }
    const nb::tuple shape = make_tuple(
        object->rank, [&](std::size_t axis) { return number_of(found.dims[object->dims + axis]); });
    const nb::object offset = number_of(start + object->values);
    const nb::object place = checked(PyTuple_Pack(3, dtype.ptr(), shape.ptr(), offset.ptr()));
    if (PyDict_SetItem(datasets.ptr(), text_of(object->path).ptr(), place.ptr()) != 0) {
      throw nb::python_error();
    }
  }
  return datasets;
}

nb::object hdf5_objects(nb::handle source, std::uint64_t start, std::uint64_t stop,
                        std::size_t depth, nb::dict dtypes) {
  Buffer buffer(source);
  hdf5::Objects found;
  const Span whole = buffer.span(start, stop);
  const Input input(whole.data, whole.size);
  if (!hdf5::read(input.span(), depth, found)) return nb::none();
  nb::list members;
  nb::dict attributes;
  for (const hdf5::Object& object : found.objects) {
    if (!object.path.empty() && object.path.find('/') == object.path.npos) {
      members.append(text_of(object.path));
    }
    if (object.dtype == nullptr && object.attribute_count > 0) {
      attributes[text_of(object.path)] = attributes_of(found, object);
    }
  }
  return nb::make_tuple(members, attributes, datasets_of(found, start, dtypes));
}

// The UTF-8 of a text, which holds it; false if there is none.
bool look_into_text(nb::handle text, std::string_view& found) {
  if (!PyUnicode_Check(text.ptr())) throw nb::type_error("a text is needed");
  Py_ssize_t size = 0;
  const char* const data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (data == nullptr) {
    if (PyErr_ExceptionMatches(PyExc_UnicodeError) == 0) throw nb::python_error();
    PyErr_Clear();
    return false;
  }
  found = {data, static_cast<std::size_t>(size)};
  return true;
}

// False if a text is no UTF-8.
bool read_attributes(nb::handle given, std::vector<hdf5::Attribute>& found) {
  if (!PyTuple_Check(given.ptr())) throw nb::type_error("attributes are a tuple");
  found.clear();
  for (std::size_t i = 0; i < static_cast<std::size_t>(PyTuple_Size(given.ptr())); ++i) {
    const nb::tuple pair = parts_of(item_of_tuple(given.ptr(), i), 2);
    hdf5::Attribute& each = found.emplace_back();
    if (!look_into_text(item_of_tuple(pair.ptr(), 0), each.name) ||
        !look_into_text(item_of_tuple(pair.ptr(), 1), each.value)) {
      return false;
    }
  }
  return true;
}

// Reads what is given for datasets, of which many have the same type.
class DatasetsGiven {
 public:
  DatasetsGiven(nb::list paths, nb::list types, nb::list shapes)
      : paths_(copy_of(paths)), types_(copy_of(types)), shapes_(copy_of(shapes)) {
    if (types_.size() != size() || shapes_.size() != size()) {
      throw nb::value_error("each dataset has a path, a type and a shape");
    }
  }

  std::size_t size() const { return paths_.size(); }

  hdf5::Refusal add(std::size_t number, hdf5::Encoder& encoder) {
    std::string_view path;
    if (!look_into_text(item_of_list(paths_.ptr(), number), path) ||
        !read_type(item_of_list(types_.ptr(), number))) {
      return hdf5::Refusal::path;
    }
    read_dims(item_of_list(shapes_.ptr(), number));
    return encoder.add_dataset(path, datatype_, dims_, attributes_);
  }

 private:
  bool read_type(PyObject* given) {
    if (given == type_) return true;
    const nb::tuple type = parts_of(given, 2);
    Span bytes;
    if (!look_into(item_of_tuple(type.ptr(), 0), bytes)) throw nb::type_error("bytes are needed");
    datatype_ = {reinterpret_cast<const char*>(bytes.data), bytes.size};
    if (!read_attributes(item_of_tuple(type.ptr(), 1), attributes_)) return false;
    type_ = given;
    return true;
  }

  void read_dims(PyObject* given) {
    if (!PyTuple_Check(given)) throw nb::type_error("a shape is a tuple");
    dims_.clear();
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(PyTuple_Size(given)); ++axis) {
      const nb::object number = checked(PyNumber_Index(item_of_tuple(given, axis)));
      dims_.push_back(PyLong_AsUnsignedLongLong(number.ptr()));
      if (PyErr_Occurred() != nullptr) throw nb::python_error();
    }
  }

  const nb::list paths_, types_, shapes_;
  PyObject* type_ = nullptr;  // that of the dataset before
  std::string_view datatype_;
  std::vector<hdf5::Attribute> attributes_;
  std::vector<std::uint64_t> dims_;
};

const char* name_of(hdf5::Refusal refusal) {
  switch (refusal) {
    case hdf5::Refusal::twice: return "twice";
    case hdf5::Refusal::mixed: return "mixed";
    case hdf5::Refusal::rank: return "rank";
    default: return "path";
  }
}

nb::tuple hdf5_encode(nb::list given, nb::list paths, nb::list types, nb::list shapes,
                      nb::str within) {
  const nb::list groups = copy_of(given);
  DatasetsGiven datasets(paths, types, shapes);
  std::string_view inner;
  if (!look_into_text(within, inner)) throw nb::value_error("no UTF-8");
  hdf5::Encoder encoder(inner);
  const auto refused = [](hdf5::Refusal refusal, std::size_t place) {
    return nb::make_tuple(nb::bytes("", 0), nb::list(), nb::list(),
                          nb::make_tuple(name_of(refusal), place));
  };
  std::vector<hdf5::Attribute> attributes;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const nb::tuple group = parts_of(item_of_list(groups.ptr(), i), 2);
    std::string_view path;
    const bool is_text = look_into_text(item_of_tuple(group.ptr(), 0), path) &&
                         read_attributes(item_of_tuple(group.ptr(), 1), attributes);
    const hdf5::Refusal refusal =
        is_text ? encoder.add_group(path, attributes) : hdf5::Refusal::path;
    if (refusal != hdf5::Refusal::none) return refused(refusal, i);
  }
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const hdf5::Refusal refusal = datasets.add(i, encoder);
    if (refusal != hdf5::Refusal::none) return refused(refusal, groups.size() + i);
  }
  const std::size_t size = encoder.measure();
  const NewBytes front(size);
  expect_filling(front.data, size);
  encoder.write(front.data, size);
  const auto values = encoder.values();
  return nb::make_tuple(
      front.object,
      make_list(values.size(), [&](std::size_t i) { return number_of(values[i].first); }),
      make_list(values.size(), [&](std::size_t i) { return number_of(values[i].second); }),
      nb::none());
}

}  // namespace

void bind_hdf5(nb::module_& module) {
  module.def("hdf5_objects", hdf5_objects, "source"_a, "start"_a, "stop"_a, "depth"_a, "dtypes"_a,
             "The objects of an HDF5 file: the names of the root's members; the attributes of groups "
             "that have some, by path; and datasets by path, in the order of their headers: (what "
             "`dtypes` has for the name of the dtype, shape, where the values start in the source). "
             "None if the file is not of the usual form.");
  module.def("hdf5_encode", hdf5_encode, "groups"_a, "paths"_a, "types"_a, "shapes"_a,
             "within"_a,
             "An HDF5 file up to the first value; where the values of each dataset stand; the sizes "
             "of the values; and None, or why an object is refused, and its number. Groups are (path, "
             "attributes), and types (datatype, attributes).");
}

}  // namespace ferry::python
