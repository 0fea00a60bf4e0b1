// The Python module: its errors, and the parts that bind_*.cc add. Nothing is parsed in bindings:
// they turn arguments into buffers, release the GIL, and give results back.
#include "python.h"

namespace {

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
    nb::object type = nb::module_::import_("tensorferry.errors").attr(name);
    nb::object instance = type(error.what(), "offset"_a = error.offset());
    PyErr_SetObject(type.ptr(), instance.ptr());
  }
}

}  // namespace

NB_MODULE(_native, module) {
  nb::register_exception_translator(raise_error);
  ferry::python::bind_tensorproto(module);
  ferry::python::bind_tfrecord(module);
  ferry::python::bind_example(module);
  ferry::python::bind_example_encode(module);
  ferry::python::bind_checkpoint(module);
  ferry::python::bind_highwayhash(module);
}
