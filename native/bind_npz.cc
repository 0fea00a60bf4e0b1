// The arrays of npz archives of the usual form.
#include "core/npz.h"

#include "python.h"

namespace ferry::python {

namespace {

nb::object text_of(std::string_view text) {
  PyObject* const found =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "strict");
  if (found == nullptr) throw nb::python_error();
  return nb::steal(found);
}

nb::object npz_arrays(nb::handle source, std::uint64_t start, std::uint64_t stop,
                      std::uint64_t count) {
  Buffer buffer(source);
  npz::Archive archive;
  if (!npz::read(buffer.span(), start, stop, count, archive)) return nb::none();
  nb::list members;
  std::string_view last;
  nb::object dtype;
  for (const npz::Member& member : archive.members) {
    if (!member.is_array) {
      members.append(nb::make_tuple(text_of(member.name), nb::none(), nb::none(), false,
                                    member.begin, member.begin, member.end, member.checksum));
      continue;
    }
    if (member.dtype != last || !dtype.is_valid()) {
      last = member.dtype;
      dtype = text_of(member.dtype);
    }
    PyObject* const shape = PyTuple_New(static_cast<Py_ssize_t>(member.rank));
    if (shape == nullptr) throw nb::python_error();
    const nb::object kept = nb::steal(shape);
    for (std::size_t axis = 0; axis < member.rank; ++axis) {
      PyTuple_SetItem(shape, static_cast<Py_ssize_t>(axis),
                      PyLong_FromUnsignedLongLong(archive.dims[member.dims + axis]));
    }
    members.append(nb::make_tuple(text_of(member.name), dtype, kept, member.is_fortran,
                                  member.values, member.begin, member.end, member.checksum));
  }
  return members;
}

}  // namespace

void bind_npz(nb::module_& module) {
  module.def("npz_arrays", npz_arrays, "source"_a, "start"_a, "stop"_a, "count"_a,
             "The members of an archive whose directory stands from `start` to `stop`: (name, dtype "
             "or None if it is no array, shape, whether in Fortran order, where the values start, "
             "where the member starts and ends, its CRC-32). None if the archive is not of the "
             "usual form.");
}

}  // namespace ferry::python
