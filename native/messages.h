// Values of messages as objects of Python's.
#pragma once

#include "python.h"

namespace ferry::python {

// The text of a message; throws Error unless it is UTF-8.
inline nb::object read_text(Span text) {
  PyObject* const decoded = PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(text.data),
                                                 static_cast<Py_ssize_t>(text.size), nullptr);
  if (decoded == nullptr) {
    PyErr_Clear();
    throw Error(Problem::malformed, text.offset(), "a text is not UTF-8");
  }
  return nb::steal(decoded);
}

inline nb::object to_integer(std::uint64_t value) { return checked(PyLong_FromUnsignedLongLong(value)); }

}  // namespace ferry::python
