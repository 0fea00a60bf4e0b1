// The Python module: its errors, and the parts that bind_*.cc add. Nothing is parsed in bindings:
// they turn arguments into buffers, release the GIL, and give results back.
#include "python.h"

namespace {

// Sets an error of tensorferry.errors, by calls of C: see Stay.
void set_error(const char* name, const ferry::Error& found) {
  ferry::python::Stay stay;
  PyObject* const module = PyImport_ImportModule("tensorferry.errors");
  PyObject* const type = module == nullptr ? nullptr : PyObject_GetAttrString(module, name);
  PyObject* const arguments = Py_BuildValue("(s)", found.what());
  const unsigned long long offset = found.offset();
  PyObject* const options =
      found.tensor().empty()
          ? Py_BuildValue("{s:K}", "offset", offset)
          : Py_BuildValue("{s:K,s:s}", "offset", offset, "tensor", found.tensor().c_str());
  if (type != nullptr && arguments != nullptr && options != nullptr) {
    PyObject* const error = PyObject_Call(type, arguments, options);
    if (error != nullptr) PyErr_SetObject(type, error);
    Py_XDECREF(error);
  }
  Py_XDECREF(options);
  Py_XDECREF(arguments);
  Py_XDECREF(type);
  Py_XDECREF(module);
  stay.returned();
}

// The only place where a native error becomes a Python one.
void raise_error(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const ferry::Error& error) {
    const char* name = nullptr;
    switch (error.problem()) {
      case ferry::Problem::malformed: name = "FormatError"; break;
      case ferry::Problem::truncated: name = "TruncatedError"; break;
      case ferry::Problem::limit: name = "LimitError"; break;
    }
    set_error(name, error);
  }
}

}  // namespace

NB_MODULE(_native, module) {
#if defined(NDEBUG)
  // A daemon thread that is at work when Python ends keeps what it holds: nobody can help that.
  nb::set_leak_warnings(false);
#endif
  nb::register_exception_translator(raise_error);
  ferry::python::bind_tensorproto(module);
  ferry::python::bind_messages(module);
  ferry::python::bind_row_plan(module);
  ferry::python::bind_tfrecord(module);
  ferry::python::bind_example(module);
  ferry::python::bind_example_encode(module);
  ferry::python::bind_rows(module);
  ferry::python::bind_checkpoint(module);
  ferry::python::bind_highwayhash(module);
  ferry::python::bind_ragged(module);
}
