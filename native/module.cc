// The Python module: its errors, and the parts that bind_*.cc add. Nothing is parsed in bindings:
// they turn arguments into buffers, release the GIL, and give results back.
#include <string_view>

#include "python.h"

namespace {

// Sets an error of tensorferry.errors, by calls of C: see Stay.
void set_error(const char* name, const ferry::Error& problem) {
  ferry::python::Stay stay;
  PyObject* const module = PyImport_ImportModule("tensorferry.errors");
  PyObject* const type = module == nullptr ? nullptr : PyObject_GetAttrString(module, name);
  // Both may show bytes of the file that are no text, or only a part of a character.
  const auto text = [](std::string_view bytes, std::size_t most) {
    const std::string_view part = bytes.substr(0, most);
    return PyUnicode_DecodeUTF8(part.data(), static_cast<Py_ssize_t>(part.size()), "replace");
  };
  PyObject* const arguments = Py_BuildValue("(N)", text(problem.what(), 4096));
  const auto offset = static_cast<unsigned long long>(problem.offset());
  PyObject* const options =
      problem.tensor().empty()
          ? Py_BuildValue("{s:K}", "offset", offset)
          : Py_BuildValue("{s:K,s:N}", "offset", offset, "tensor", text(problem.tensor(), 200));
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
  ferry::python::bind_npz(module);
  ferry::python::bind_zip(module);
  ferry::python::bind_arrow(module);
  ferry::python::bind_parquet(module);
  ferry::python::bind_hdf5(module);
  ferry::python::bind_thrift(module);
  ferry::python::bind_safetensors(module);
  ferry::python::bind_structure(module);
  ferry::python::bind_highwayhash(module);
  ferry::python::bind_ragged(module);
  ferry::python::bind_kernels(module);
  ferry::python::bind_json_text(module);
  ferry::python::bind_lines(module);
  ferry::python::bind_csv(module);
  ferry::python::bind_cut(module);
  ferry::python::bind_files(module);
  ferry::python::bind_objects(module);
}
