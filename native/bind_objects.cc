// Objects of classes with slots, made many at a time: `__init__` of a frozen class takes a call for
// each attribute, which for thousands of small tensors is longer than reading them.
#include "python.h"

namespace ferry::python {

namespace {

// The descriptors that set the slots of a class, whatever its `__setattr__` refuses.
std::vector<nb::object> find_slots(nb::handle kind, nb::tuple names) {
  std::vector<nb::object> found;
  for (const nb::handle name : names) {
    found.push_back(checked(PyObject_GetAttr(kind.ptr(), name.ptr())));
    if (Py_TYPE(found.back().ptr()) != &PyMemberDescr_Type) throw nb::type_error("no slot");
  }
  return found;
}

// The next object of an iterator; not valid at its end.
nb::object next_of(nb::handle rows) {
  Stay stay;  // which may be a generator of Python
  PyObject* const row = PyIter_Next(rows.ptr());
  stay.returned();
  if (row == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
  return nb::steal(row);
}

nb::list make_objects(nb::handle kind, nb::tuple names, nb::iterable given) {
  auto* const type = reinterpret_cast<PyTypeObject*>(kind.ptr());
  // A class that is more than its slots has a `__new__` of its own.
  if (!PyType_Check(kind.ptr()) ||
      PyType_GetSlot(type, Py_tp_new) != PyType_GetSlot(&PyBaseObject_Type, Py_tp_new)) {
    throw nb::type_error("expected a class that adds slots to object");
  }
  const std::vector<nb::object> slots = find_slots(kind, names);
  const auto set = reinterpret_cast<descrsetfunc>(PyType_GetSlot(&PyMemberDescr_Type, Py_tp_descr_set));
  const nb::object rows = checked(PyObject_GetIter(given.ptr()));
  nb::list objects;
  for (nb::object row = next_of(rows); row.is_valid(); row = next_of(rows)) {
    if (!PyTuple_Check(row.ptr()) || static_cast<std::size_t>(PyTuple_Size(row.ptr())) != slots.size()) {
      throw nb::type_error("expected a tuple with a value for each slot");
    }
    const nb::object made = checked(PyType_GenericAlloc(type, 0));
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (set(slots[i].ptr(), made.ptr(), item_of_tuple(row.ptr(), i)) != 0) throw nb::python_error();
    }
    objects.append(made);
  }
  return objects;
}

}  // namespace

void bind_objects(nb::module_& module) {
  module.def("make_objects", make_objects, "kind"_a, "slots"_a, "rows"_a,
             "Objects of a class, each from a tuple of the values of its slots.");
}

}  // namespace ferry::python
