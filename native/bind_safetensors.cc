// The header of safetensors.
#include "core/safetensors.h"

#include "python.h"

namespace ferry::python {

namespace {

nb::object text_of(std::string_view text) {
  PyObject* const found =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "strict");
  if (found == nullptr) throw nb::python_error();
  return nb::steal(found);
}

nb::object number_of(std::uint64_t number) {
  PyObject* const found = PyLong_FromUnsignedLongLong(number);
  if (found == nullptr) throw nb::python_error();
  return nb::steal(found);
}

nb::object tuple_of(std::size_t size) {
  PyObject* const found = PyTuple_New(static_cast<Py_ssize_t>(size));
  if (found == nullptr) throw nb::python_error();
  return nb::steal(found);
}

void put(nb::object& tuple, std::size_t place, nb::object value) {
  PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(place), value.release().ptr());
}

nb::tuple safetensors_header(nb::handle source, std::uint64_t data_size, nb::dict dtypes) {
  Buffer buffer(source);
  const safetensors::Header header(buffer.span(), data_size);
  const std::uint64_t start = safetensors::header_begin + buffer.size();
  nb::dict arrays;
  bool is_usual = true;
  // Most arrays have the dtype of the one before.
  std::string_view last;
  nb::object dtype;
  bool is_known = false;
  for (const safetensors::Array& array : header.arrays) {
    if (array.dtype != last) {
      last = array.dtype;
      dtype = text_of(array.dtype);
      PyObject* const known = PyDict_GetItemWithError(dtypes.ptr(), dtype.ptr());
      is_known = known != nullptr;
      if (is_known) dtype = nb::borrow(known);
    }
    is_usual = is_usual && is_known;
    nb::object shape = tuple_of(array.rank);
    for (std::size_t axis = 0; axis < array.rank; ++axis) {
      put(shape, axis, number_of(header.dims[array.dims + axis]));
    }
    nb::object place = tuple_of(is_known ? 3 : 4);
    put(place, 0, dtype);
    put(place, 1, std::move(shape));
    put(place, 2, number_of(start + array.begin));
    if (!is_known) put(place, 3, number_of(start + array.end));
    if (PyDict_SetItem(arrays.ptr(), text_of(array.name).ptr(), place.ptr()) != 0) {
      throw nb::python_error();
    }
  }
  nb::dict metadata;
  for (const auto& [key, value] : header.metadata) metadata[text_of(key)] = text_of(value);
  return nb::make_tuple(arrays, metadata, is_usual);
}

}  // namespace

void bind_safetensors(nb::module_& module) {
  module.def("safetensors_header", safetensors_header, "source"_a, "data_size"_a, "dtypes"_a,
             "The arrays of a header, by name: (dtype, shape, offset in the file), or, if `dtypes` "
             "has no counterpart, (name of the dtype, shape, offset, end); the metadata; and "
             "whether all dtypes have a counterpart.");
}

}  // namespace ferry::python
