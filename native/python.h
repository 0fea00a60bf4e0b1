// What every binding needs: buffers of Python objects, and lists of bytes.
#pragma once

#include <nanobind/nanobind.h>

#include <new>
#include <string>
#include <vector>

#include "core/tfrecord.h"
#include "core/wire.h"
#include "objects.h"
#include "threads.h"

using namespace nb::literals;

namespace ferry::python {

// What a call of Python's C API made; throws if it failed.
inline nb::object checked(PyObject* made) {
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

// A contiguous view of a Python object's bytes, held for as long as this lives. The garbage
// collector is not to know of it: a memoryview that it clears before that is broken.
class Buffer {
 public:
  explicit Buffer(nb::handle object, int flags = PyBUF_SIMPLE) : Buffer(object, flags, std::nothrow) {
    if (!is_held_) throw nb::python_error();
  }
  // Of an object that may have no such buffer: then `is_held` is false, and Python's error is set.
  Buffer(nb::handle object, int flags, std::nothrow_t) {
    Stay stay;  // a class of Python may have the method
    is_held_ = PyObject_GetBuffer(object.ptr(), &view_, flags) == 0;
    stay.returned();
    if (is_held_) input_ = {data(), size()};
  }
  ~Buffer() {
    if (!is_held_) return;
    Stay stay;
    PyBuffer_Release(&view_);
    stay.returned();
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  bool is_held() const { return is_held_; }

  // Of a buffer taken with PyBUF_ND.
  std::size_t rank() const { return static_cast<std::size_t>(view_.ndim); }
  std::size_t dimension(std::size_t axis) const { return static_cast<std::size_t>(view_.shape[axis]); }
  std::uint8_t* data() const { return static_cast<std::uint8_t*>(view_.buf); }
  const char* format() const { return view_.format == nullptr ? "" : view_.format; }
  std::size_t size() const { return static_cast<std::size_t>(view_.len); }
  Span span() const { return input_.span(); }

  // A part of it; offsets in errors still count from the start of the whole.
  Span span(std::uint64_t start, std::uint64_t end) const {
    if (start > end || end > size()) throw nb::index_error("span outside the buffer");
    return {data() + start, static_cast<std::size_t>(end - start), &input_};
  }

 private:
  Py_buffer view_;
  bool is_held_;
  Input input_{nullptr, 0};
};

// What a dict has for the dtype of an array; an object that is not valid if there is nothing.
inline nb::object by_dtype(nb::dict known, nb::handle array) {
  static PyObject* const name = PyUnicode_InternFromString("dtype");
  const nb::object dtype = checked(PyObject_GetAttr(array.ptr(), name));
  PyObject* const found = PyDict_GetItemWithError(known.ptr(), dtype.ptr());
  if (found == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
  return nb::borrow(found);
}

inline nb::object to_bytes(Span span) {
  return nb::bytes(reinterpret_cast<const char*>(span.data), span.size);
}

inline nb::list to_list(const std::vector<Span>& strings) {
  return make_list(strings.size(), [&](std::size_t i) { return to_bytes(strings[i]); });
}

// A list of our own: nobody else can take something out of it. Turning an object into a number may
// run code of Python, as may the garbage collector whenever an object is made.
inline nb::list copy_of(nb::list values) {
  PyObject* const list = PyList_GetSlice(values.ptr(), 0, PY_SSIZE_T_MAX);
  if (list == nullptr) throw nb::python_error();
  return nb::steal<nb::list>(list);
}

// The parts of a tuple of so many.
inline nb::tuple parts_of(nb::handle given, std::size_t count) {
  if (!PyTuple_Check(given.ptr()) || static_cast<std::size_t>(PyTuple_Size(given.ptr())) != count) {
    throw nb::type_error(("a tuple of " + std::to_string(count) + " is needed").c_str());
  }
  return nb::borrow<nb::tuple>(given);
}

// Counts a level of Python's own recursion for as long as this lives.
class Level {
 public:
  Level() {
    if (Py_EnterRecursiveCall(" in a structure") != 0) throw nb::python_error();
  }
  ~Level() { Py_LeaveRecursiveCall(); }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
};

// The object at a place of an array of objects, which may lie at any address; nullptr if there is
// none.
inline PyObject* object_at(const std::uint8_t* objects, std::size_t index) {
  PyObject* object;
  std::memcpy(&object, objects + index * sizeof(object), sizeof(object));
  return object;
}

// The bytes objects of a list, as they lie in memory: valid while the list is unchanged.
inline std::vector<Span> spans_of(nb::list values) {
  std::vector<Span> strings(values.size());
  for (std::size_t i = 0; i < strings.size(); ++i) {
    if (!look_into(item_of_list(values.ptr(), i), strings[i])) {
      throw nb::type_error("a string tensor holds bytes");
    }
  }
  return strings;
}

inline void check_start(const Buffer& buffer, std::uint64_t start) {
  if (start > buffer.size()) throw nb::index_error("start behind the end of the buffer");
}

// A range of frames that was gone through: how many records, where it ended, and why.
inline nb::tuple range(std::uint64_t count, std::uint64_t end, tfrecord::Status status) {
  return nb::make_tuple(count, end, static_cast<int>(status));
}

// Each adds its part to the module.
void bind_tensorproto(nb::module_& module);
void bind_messages(nb::module_& module);
void bind_tfrecord(nb::module_& module);
void bind_example(nb::module_& module);
void bind_example_encode(nb::module_& module);
void bind_row_plan(nb::module_& module);
void bind_rows(nb::module_& module);
void bind_checkpoint(nb::module_& module);
void bind_cut(nb::module_& module);
void bind_files(nb::module_& module);
void bind_highwayhash(nb::module_& module);
void bind_ragged(nb::module_& module);
void bind_safetensors(nb::module_& module);
void bind_npz(nb::module_& module);
void bind_objects(nb::module_& module);
void bind_zip(nb::module_& module);
void bind_arrow(nb::module_& module);
void bind_parquet(nb::module_& module);
void bind_hdf5(nb::module_& module);
void bind_thrift(nb::module_& module);
void bind_structure(nb::module_& module);
void bind_structure_encode(nb::module_& module);
void bind_kernels(nb::module_& module);
void bind_json_text(nb::module_& module);
void bind_lines(nb::module_& module);
void bind_csv(nb::module_& module);

}  // namespace ferry::python
