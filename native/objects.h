// The inside of lists, tuples and bytes objects.
//
// A module for one Python looks inside. A module for the stable ABI, which serves Python 3.12 and
// all later ones, has to call for it: Py_LIMITED_API is defined there, and the macros that look
// inside do not exist. All differences are in this file, and in `is_finalizing` (threads.h).
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>

namespace nb = nanobind;

namespace ferry::python {

#if defined(Py_LIMITED_API)
// How far behind the start of a bytes object its bytes lie, which the stable ABI does not say: it is
// measured when the module is loaded, and a call for each short string is saved. 0 if objects differ.
inline std::ptrdiff_t measure_bytes() noexcept {
  std::ptrdiff_t found = 0;
  for (const Py_ssize_t size : {3, 5, 70'000}) {
    const nb::object made = nb::steal(PyBytes_FromStringAndSize(nullptr, size));
    if (!made.is_valid()) {
      PyErr_Clear();
      return 0;
    }
    const std::ptrdiff_t here = PyBytes_AsString(made.ptr()) - reinterpret_cast<char*>(made.ptr());
    if (Py_SIZE(made.ptr()) != size || (found != 0 && found != here)) return 0;
    found = here;
  }
  return found;
}

inline const std::ptrdiff_t bytes_start = measure_bytes();
#endif

// Where the bytes of a bytes object lie; false if it is another object. It has to be held meanwhile.
inline bool look_into(PyObject* object, const std::uint8_t*& data, std::size_t& size) noexcept {
#if defined(Py_LIMITED_API)
  if (bytes_start != 0 && PyBytes_CheckExact(object)) {
    data = reinterpret_cast<const std::uint8_t*>(object) + bytes_start;
    size = static_cast<std::size_t>(Py_SIZE(object));
    return true;
  }
  char* start = nullptr;
  Py_ssize_t length = 0;
  if (PyBytes_AsStringAndSize(object, &start, &length) != 0) {  // one call, which checks the type, too
    PyErr_Clear();
    return false;
  }
  data = reinterpret_cast<const std::uint8_t*>(start);
  size = static_cast<std::size_t>(length);
#else
  if (!PyBytes_Check(object)) return false;
  data = reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(object));
  size = static_cast<std::size_t>(PyBytes_GET_SIZE(object));
#endif
  return true;
}

// Into a span or a text, which have these two.
template <typename Text>
bool look_into(PyObject* object, Text& text) noexcept {
  return look_into(object, text.data, text.size);
}

// A new bytes object of a size, to be filled at once; throws if there is no memory.
struct NewBytes {
  explicit NewBytes(std::size_t size)
      : object(nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)))) {
    if (!object.is_valid()) throw nb::python_error();
#if defined(Py_LIMITED_API)
    data = reinterpret_cast<std::uint8_t*>(PyBytes_AsString(object.ptr()));
#else
    data = reinterpret_cast<std::uint8_t*>(PyBytes_AS_STRING(object.ptr()));
#endif
  }
  nb::bytes object;
  std::uint8_t* data;
};

// The object at a place of a list or tuple, which is inside it; the list or tuple holds the object.
inline PyObject* item_of_list(PyObject* list, std::size_t index) noexcept {
#if defined(Py_LIMITED_API)
  return PyList_GetItem(list, static_cast<Py_ssize_t>(index));
#else
  return PyList_GET_ITEM(list, static_cast<Py_ssize_t>(index));
#endif
}

inline PyObject* item_of_tuple(PyObject* tuple, std::size_t index) noexcept {
#if defined(Py_LIMITED_API)
  return PyTuple_GetItem(tuple, static_cast<Py_ssize_t>(index));
#else
  return PyTuple_GET_ITEM(tuple, static_cast<Py_ssize_t>(index));
#endif
}

// A new list or tuple of so many objects, which `make` gives one by one, as nb::object.
template <typename Make>
nb::list make_list(std::size_t count, Make make) {
  const nb::list list = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(count)));
  if (!list.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < count; ++i) {
    PyObject* const item = make(i).release().ptr();
#if defined(Py_LIMITED_API)
    PyList_SetItem(list.ptr(), static_cast<Py_ssize_t>(i), item);
#else
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), item);
#endif
  }
  return list;
}

template <typename Make>
nb::tuple make_tuple(std::size_t count, Make make) {
  const nb::tuple tuple = nb::steal<nb::tuple>(PyTuple_New(static_cast<Py_ssize_t>(count)));
  if (!tuple.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < count; ++i) {
    PyObject* const item = make(i).release().ptr();
#if defined(Py_LIMITED_API)
    PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(i), item);
#else
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), item);
#endif
  }
  return tuple;
}

}  // namespace ferry::python
