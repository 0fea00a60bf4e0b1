// Columns of Examples between Python and the core.
#pragma once

#include <nanobind/stl/string.h>

#include <string>
#include <vector>

#include "core/example.h"
#include "python.h"

namespace ferry::python {

// Columns: (name, kind, sequence, wanted, length of every list or None).
inline std::vector<example::Column> parse_columns(nb::list columns) {
  const nb::list own = copy_of(columns);
  std::vector<example::Column> result(own.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const nb::tuple given = parts_of(own[i], 5);
    const int kind = nb::cast<int>(given[1]);
    if (kind < 1 || kind > 3) throw nb::value_error("a column is of kind 1, 2 or 3");
    result[i].name = nb::cast<std::string>(given[0]);
    result[i].kind = static_cast<example::Kind>(kind);
    result[i].sequence = nb::cast<bool>(given[2]);
    result[i].wanted = nb::cast<bool>(given[3]);
    if (!given[4].is_none()) result[i].length = nb::cast<std::size_t>(given[4]);
  }
  return result;
}

// Puts bytes objects into a contiguous NumPy array of objects.
inline void fill_texts(nb::handle target, const example::Scratch<example::Text>& texts) {
  Buffer out(target, PyBUF_WRITABLE | PyBUF_FORMAT);
  if (out.size() != texts.size() * sizeof(PyObject*) || std::string(out.format()) != "O") {
    throw nb::value_error("the target has another size or no objects");
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    PyObject* text = PyBytes_FromStringAndSize(reinterpret_cast<const char*>(texts[i].data),
                                               static_cast<Py_ssize_t>(texts[i].size));
    if (text == nullptr) throw nb::python_error();
    PyObject* const old = object_at(out.data(), i);
    std::memcpy(out.data() + i * sizeof(text), &text, sizeof(text));
    Py_XDECREF(old);
  }
}

}  // namespace ferry::python
