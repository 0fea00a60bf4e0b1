// TensorProtos and string lists.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "core/memory.h"
#include "core/parallel.h"
#include "core/strings.h"
#include "core/tensorproto.h"
#include "python.h"

namespace ferry::python {

namespace {

nb::tuple tensorproto_scan(nb::handle source, std::uint64_t start, nb::object end) {
  Buffer buffer(source);
  const tensorproto::Tensor tensor = tensorproto::scan(
      buffer.span(start, end.is_none() ? buffer.size() : nb::cast<std::uint64_t>(end)));
  const nb::tuple dims =
      make_tuple(tensor.rank, [&](std::size_t axis) { return nb::int_(tensor.dims[axis]); });
  return nb::make_tuple(tensor.dtype, dims, tensor.elements, tensor.content.size ? tensor.content.offset() : 0,
                        tensor.content.size, tensor.held);
}

void tensorproto_fill(nb::handle source, std::uint64_t start, std::uint64_t end, nb::handle target,
                      std::uint32_t field, const std::string& kind, int bits, std::size_t width,
                      std::size_t group) {
  using tensorproto::Kind;
  Buffer buffer(source);
  Buffer out(target, PyBUF_WRITABLE);
  if (bits < 1 || bits > 64 || (width != 1 && width != 2 && width != 4 && width != 8) ||
      group < 1 || group > 2 || out.size() % (width * group) != 0) {
    throw nb::value_error("no such layout of values");
  }
  const Kind known = kind == "fixed"     ? Kind::fixed
                     : kind == "boolean" ? Kind::boolean
                     : kind == "signed"  ? Kind::signed_integer
                                         : Kind::unsigned_integer;
  const Span span = buffer.span(start, end);
  const Unlocked unlocked;
  tensorproto::fill(span, {field, known, bits, width, group}, out.data(), out.size());
}

nb::list decode_string_values(nb::handle source, std::uint64_t start, std::uint64_t end) {
  Buffer buffer(source);
  return to_list(tensorproto::string_values(buffer.span(start, end)));
}

// The memory of a contiguous array of objects.
struct Objects : Buffer {
  explicit Objects(nb::handle array) : Buffer(array, PyBUF_FORMAT | PyBUF_ND) {
    if (std::string(format()) != "O") throw nb::type_error("an array of objects is needed");
  }
  std::size_t count() const { return size() / sizeof(PyObject*); }
  PyObject* at(std::size_t index) const { return object_at(data(), index); }
};

// Whether each of a contiguous array's objects is of the type bytes itself. Python needs a list of
// them for that, and several times as long.
bool are_bytes(nb::handle array) {
  const Objects objects(array);
  for (std::size_t i = 0; i < objects.count(); ++i) {
    PyObject* const object = objects.at(i);
    if (object == nullptr || !PyBytes_CheckExact(object)) return false;
  }
  return true;
}

std::uint64_t word_at(const std::uint8_t* data) {
  std::uint64_t word;
  std::memcpy(&word, data, sizeof(word));
  return word;
}

// Whether no size is negative.
bool is_shape(Span sizes) {
  std::uint64_t signs = 0;
  for (std::size_t i = 0; i < sizes.size; i += sizeof(signs)) signs |= word_at(sizes.data + i);
  return signs >> 63 == 0;
}

// Whether each row of indices lies in a shape: both are int64. NumPy takes several passes for it,
// which cost more than all else that is done with a small sparse tensor.
bool are_inside(Span rows, Span sizes) {
  const std::size_t rank = sizes.size / sizeof(std::int64_t);
  if (rank == 0) return true;
  // The last index of each axis, for some rows at once: more than a processor's lanes.
  const std::size_t together = std::min(std::max<std::size_t>(256 / rank, 1), rows.size / sizes.size);
  std::vector<std::uint64_t> last(rank * together);
  for (std::size_t i = 0; i < last.size(); ++i) {
    last[i] = word_at(sizes.data + i % rank * sizeof(last[i])) - 1;
  }
  // An index is inside if neither it nor what is left to the last one is negative.
  std::uint64_t signs = 0;
  const std::uint8_t* at = rows.data;
  for (std::size_t left = rows.size / sizeof(signs); left != 0;) {
    const std::size_t count = std::min(last.size(), left);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t index = word_at(at + i * sizeof(signs));
      signs |= index | (last[i] - index);
    }
    at += count * sizeof(signs);
    left -= count;
  }
  return signs >> 63 == 0;
}

// As `are_inside`, without the GIL if there are many.
bool are_inside(const Buffer& rows, const Buffer& sizes) {
  std::optional<Unlocked> unlocked;
  if (rows.size() > 1 << 20) unlocked.emplace();
  return are_inside(rows.span(), sizes.span());
}

bool are_indices(nb::handle indices, nb::handle shape) {
  const Buffer rows(indices, PyBUF_ND), sizes(shape, PyBUF_ND);
  if (sizes.size() % sizeof(std::int64_t) != 0) throw nb::value_error("sizes are int64");
  if (sizes.size() != 0 && rows.size() % sizes.size() != 0) {
    throw nb::value_error("rows of as many indices as sizes");
  }
  return are_inside(rows, sizes);
}

nb::list decode_string_list(nb::handle source, std::uint64_t start, std::uint64_t end,
                     std::uint64_t count) {
  Buffer buffer(source);
  return to_list(decode_string_list(buffer.span(start, end), count));
}

nb::bytes tensorproto_header(std::uint64_t dtype, nb::tuple shape, std::uint64_t content_size) {
  std::array<std::int64_t, tensorproto::max_dimensions> dims;
  const std::size_t rank = shape.size();
  if (rank > dims.size()) throw nb::value_error("too many dimensions");
  for (std::size_t axis = 0; axis < rank; ++axis) dims[axis] = nb::cast<std::int64_t>(shape[axis]);
  const std::string header = tensorproto::header(dtype, dims.data(), rank, content_size);
  return nb::bytes(header.data(), header.size());
}

// Memory that is copied behind each other into a new bytes object. A large one is copied without the
// GIL, by all processors.
nb::bytes joined(const Span* spans, std::size_t count) {
  constexpr std::size_t part = 1 << 20;
  std::size_t size = 0;
  for (std::size_t i = 0; i < count; ++i) size += spans[i].size;
  const NewBytes result(size);
  if (size < 8 * part) {
    std::uint8_t* out = result.data;
    for (std::size_t i = 0; i < count; ++i) {
      if (spans[i].size != 0) std::memcpy(out, spans[i].data, spans[i].size);
      out += spans[i].size;
    }
    return result.object;
  }
  std::vector<std::size_t> ends(count);
  for (std::size_t i = 0, end = 0; i < count; ++i) ends[i] = end += spans[i].size;
  // Copies what lies between two places of the result.
  const auto copy = [&](std::size_t start, std::size_t stop) {
    auto i = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), start) - ends.begin());
    for (; start < stop; ++i) {
      const std::size_t end = std::min(stop, ends[i]);
      const std::uint8_t* const source = spans[i].data + (start + spans[i].size - ends[i]);
      if (start < end) std::memcpy(result.data + start, source, end - start);
      start = end;
    }
  };
  expect_filling(result.data, size);
  {
    const Unlocked unlocked;
    in_parallel((size + part - 1) / part, threads_for(size),
                [&](std::size_t i) { copy(i * part, std::min(size, (i + 1) * part)); });
  }
  return result.object;
}

// A tensor of a dtype's number and the elements, of at most so many dimensions as it may have.
nb::bytes message(std::uint64_t type, const Buffer& buffer) {
  std::array<std::int64_t, tensorproto::max_dimensions> dims;
  for (std::size_t axis = 0; axis < buffer.rank(); ++axis) {
    dims[axis] = static_cast<std::int64_t>(buffer.dimension(axis));
  }
  const std::string header = tensorproto::header(type, dims.data(), buffer.rank(), buffer.size());
  const Span parts[] = {{reinterpret_cast<const std::uint8_t*>(header.data()), header.size()},
                        buffer.span()};
  return joined(parts, 2);
}

// The message of a contiguous array, in one call: for small ones, Python's calls take the time. None
// if the array has another dtype than those that have a number, or is something else.
nb::object tensorproto_bytes(nb::handle array, nb::dict enums) {
  constexpr std::size_t most = 1 << 16;
  const nb::object number = by_dtype(enums, array);
  if (!number.is_valid()) return nb::none();
  const std::uint64_t type = PyLong_AsUnsignedLongLong(number.ptr());
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  const Buffer buffer(array, PyBUF_ND, std::nothrow);
  if (!buffer.is_held()) {
    PyErr_Clear();  // it is not contiguous, or NumPy has no letter for its dtype
    return nb::none();
  }
  if (buffer.size() > most || buffer.rank() > tensorproto::max_dimensions) return nb::none();
  return message(type, buffer);
}

// The number of the dtype of a buffer's elements by their letter; 0 if it has none.
std::uint64_t number_of(const Buffer& buffer, nb::dict enums) {
  PyObject* const number = PyDict_GetItemString(enums.ptr(), buffer.format());
  if (number == nullptr) return 0;
  const std::uint64_t found = PyLong_AsUnsignedLongLong(number);
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return found;
}

// The three messages of a sparse tensor in one call: to look at each part from Python takes longer
// than all else that is done with a small one. None if a part is no contiguous memory, if the values
// are of a letter that has no number, or if the parts do not fit together.
nb::object sparse_tensorprotos(nb::handle indices, nb::handle values, nb::handle shape, nb::dict enums) {
  constexpr std::uint64_t int64 = 9;
  constexpr std::size_t most = 1 << 30;
  constexpr int flags = PyBUF_ND | PyBUF_FORMAT;
  const Buffer rows(indices, flags, std::nothrow);
  const Buffer entries(rows.is_held() ? values : nb::none(), flags, std::nothrow);
  const Buffer sizes(entries.is_held() ? shape : nb::none(), flags, std::nothrow);
  if (!sizes.is_held()) {
    PyErr_Clear();
    return nb::none();
  }
  const std::uint64_t type = number_of(entries, enums);
  if (rows.rank() != 2 || entries.rank() != 1 || sizes.rank() != 1 || type == 0 ||
      rows.size() > most || entries.size() > most ||
      number_of(rows, enums) != int64 || number_of(sizes, enums) != int64 ||
      rows.dimension(0) != entries.dimension(0) || rows.dimension(1) != sizes.dimension(0) ||
      !is_shape(sizes.span()) || !are_inside(rows, sizes)) {
    return nb::none();
  }
  return nb::make_tuple(message(int64, rows), message(type, entries), message(int64, sizes));
}

// A contiguous array of bytes objects, in one allocation of the size that `measure` finds, filled by
// `put`. No code of Python runs meanwhile, so the objects stay under the GIL.
template <typename Measure, typename Put>
nb::bytes encode_strings(nb::handle array, Measure measure, Put put) {
  const Objects objects(array);
  std::vector<Span> strings(objects.count());
  for (std::size_t i = 0; i < strings.size(); ++i) {
    PyObject* const object = objects.at(i);
    if (object == nullptr || !look_into(object, strings[i])) {
      throw nb::type_error("a string tensor holds bytes");
    }
  }
  const NewBytes result(measure(strings));
  put(strings, result.data);
  return result.object;
}

nb::bytes encode_string_values(nb::handle array) {
  return encode_strings(array, tensorproto::strings_size, tensorproto::put_strings);
}

nb::bytes encode_string_list(nb::handle array) {
  return encode_strings(array, string_list_size, put_string_list);
}

// What b"".join gives.
nb::bytes join(nb::list pieces) {
  const nb::list held = copy_of(pieces);
  std::deque<Buffer> buffers;
  std::vector<Span> spans(held.size());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    PyObject* const piece = item_of_list(held.ptr(), i);
    if (!look_into(piece, spans[i])) spans[i] = buffers.emplace_back(piece).span();
  }
  return joined(spans.data(), spans.size());
}

std::uint64_t longest_string(nb::handle source) {
  const Buffer buffer(source);
  const Unlocked unlocked;
  return longest_prefixed(buffer.span());
}

}  // namespace

void bind_tensorproto(nb::module_& module) {
  module.def("join", join, "pieces"_a, "The bytes of some buffers, one behind the other.");
  module.def("longest_string", longest_string, "source"_a,
             "The longest of strings that stand behind their lengths, of four bytes each.");
  module.def("tensorproto_scan", tensorproto_scan, "source"_a, "start"_a = 0,
             "end"_a = nb::none(),
             "Find a TensorProto's parts: (dtype, shape, elements, content offset, content size, "
             "bit set of the repeated fields that hold values).");
  module.def("tensorproto_fill", tensorproto_fill, "source"_a, "start"_a, "end"_a, "target"_a,
             nb::kw_only(), "field"_a, "kind"_a, "bits"_a, "width"_a, "group"_a,
             "Decode a repeated field into a writable buffer, repeating its last element.");
  module.def("are_bytes", are_bytes, "array"_a, "Whether all objects of an array are bytes.");
  module.def("are_inside", are_indices, "indices"_a, "shape"_a,
             "Whether rows of int64 are indices into a shape of int64.");
  module.def("decode_string_values", decode_string_values, "source"_a, "start"_a, "end"_a,
             "The values of string_val.");
  module.def("tensorproto_header", tensorproto_header, "dtype"_a, "shape"_a, "content_size"_a,
             "What stands before a tensor's values.");
  module.def("tensorproto_bytes", tensorproto_bytes, "array"_a, "enums"_a,
             "The message of an array that is small and contiguous, and whose dtype has a number; "
             "None for others.");
  module.def("sparse_tensorprotos", sparse_tensorprotos, "indices"_a, "values"_a, "shape"_a,
             "enums"_a,
             "The messages of a sparse tensor's parts, if they are contiguous and fit together, and "
             "the letter of the values has a number; None for others.");
  module.def("encode_string_values", encode_string_values, "array"_a,
             "An array of bytes objects as values of string_val.");
  module.def("encode_string_list", encode_string_list, "array"_a,
             "An array of bytes objects as all lengths, then all bytes.");
  module.def("decode_string_list", decode_string_list, "source"_a, "start"_a, "end"_a, "count"_a,
             "Strings stored as all lengths, then all bytes.");
}

}  // namespace ferry::python
