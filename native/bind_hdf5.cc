// The objects of HDF5 files of the usual form.
#include "core/hdf5.h"

#include <algorithm>

#include "python.h"

namespace ferry::python {

namespace {

nb::object text_of(std::string_view text) {
  return checked(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "strict"));
}

nb::object group_of(const hdf5::Objects& found, const hdf5::Object& group) {
  nb::dict attributes;
  for (std::size_t i = 0; i < group.attribute_count; ++i) {
    const hdf5::Attribute& each = found.attributes[group.attributes + i];
    attributes[text_of(each.name)] = text_of(each.value);
  }
  return nb::make_tuple(text_of(group.path), attributes);
}

nb::object dataset_of(const hdf5::Objects& found, const hdf5::Object& dataset) {
  const nb::object shape = checked(PyTuple_New(static_cast<Py_ssize_t>(dataset.rank)));
  for (std::size_t axis = 0; axis < dataset.rank; ++axis) {
    PyTuple_SetItem(shape.ptr(), static_cast<Py_ssize_t>(axis),
                    PyLong_FromUnsignedLongLong(found.dims[dataset.dims + axis]));
  }
  return nb::make_tuple(text_of(dataset.path), checked(PyUnicode_InternFromString(dataset.dtype)),
                        shape, dataset.values, dataset.nbytes);
}

nb::object hdf5_objects(nb::handle source, std::uint64_t start, std::uint64_t stop,
                        std::size_t depth) {
  Buffer buffer(source);
  hdf5::Objects found;
  const Span whole = buffer.span(start, stop);
  const Input input(whole.data, whole.size);
  if (!hdf5::read(input.span(), depth, found)) return nb::none();
  nb::list groups, datasets;
  std::vector<const hdf5::Object*> by_address;
  for (const hdf5::Object& object : found.objects) {
    if (object.dtype == nullptr) {
      groups.append(group_of(found, object));
    } else {
      by_address.push_back(&object);
    }
  }
  std::sort(by_address.begin(), by_address.end(),
            [](const auto* a, const auto* b) { return a->address < b->address; });
  for (const hdf5::Object* object : by_address) datasets.append(dataset_of(found, *object));
  return nb::make_tuple(groups, datasets);
}

}  // namespace

void bind_hdf5(nb::module_& module) {
  module.def("hdf5_objects", hdf5_objects, "source"_a, "start"_a, "stop"_a, "depth"_a,
             "The objects of an HDF5 file: groups, the root first, as (path, attributes), and "
             "datasets, in the order of their addresses, as (path, dtype, shape, where the values "
             "start in the file, their size). None if the file is not of the usual form.");
}

}  // namespace ferry::python
