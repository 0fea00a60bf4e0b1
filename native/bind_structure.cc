// StructuredValues to Python's values.
#include "core/structure.h"

#include <array>

#include "core/tensorproto.h"
#include "python.h"

namespace ferry::python {

namespace {

nb::object text_of(Span text) {
  return checked(PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(text.data),
                                      static_cast<Py_ssize_t>(text.size), "strict"));
}

nb::object number_of(std::uint64_t number) { return checked(PyLong_FromUnsignedLongLong(number)); }

// Which tensors lie in a message as they lie in memory, and how arrays are made of them.
class StructureReader {
 public:
  struct Known {
    nb::object dtype;  // without an object: not in place
    std::uint64_t itemsize = 0;
  };

  // `in_place` has pairs of a dtype and its size, by the number of the dtype.
  StructureReader(nb::object ndarray, nb::dict in_place) : ndarray(std::move(ndarray)) {
    const nb::dict own = nb::borrow<nb::dict>(checked(PyDict_Copy(in_place.ptr())));
    for (const auto& [number, given] : own) {
      const auto place = nb::cast<std::size_t>(number);
      const nb::tuple pair = parts_of(given, 2);
      if (place >= known.size()) throw nb::value_error("a dtype has a number below 256");
      known[place] = {nb::borrow(pair[0]), nb::cast<std::uint64_t>(pair[1])};
    }
  }

  nb::object read(nb::object source, nb::object builder, int depth) const;

  nb::object ndarray;
  std::array<Known, 256> known;
};

// Reads the values of one buffer.
class Reading {
 public:
  Reading(const StructureReader& reader, nb::object source, nb::object builder)
      : reader_(reader), buffer_(source), source_(source), builder_(builder) {}

  nb::object whole(int depth) { return value(buffer_.span(), depth); }

  // The key of the innermost dict in which reading failed.
  nb::object failed;

 private:
  nb::object value(Span message, int depth) {
    if (depth < 0) return ask("too_deep", number_of(message.offset()));
    const Level level;
    const structure::Value found = structure::read_value(message);
    switch (found.field) {
      case structure::none_field: return nb::none();
      case structure::real_field: return real(found.number);
      case structure::integer_field: return integer(found.number);
      case structure::text_field: return text_of(found.body);
      case structure::boolean_field: return nb::borrow(found.number != 0 ? Py_True : Py_False);
      case structure::list_field: return elements(found.body, depth - 2);
      case structure::tuple_field: return tuple(elements(found.body, depth - 2));
      case structure::dict_field: return pairs(found.body, depth - 3);
      case structure::named_field: return named(found.body, depth - 3);
      case structure::tensor_field:
      case structure::array_field: return tensor(found.body);
      default: return ask("described", number_of(message.offset()));
    }
  }

  static nb::object real(std::uint64_t bits) {
    double number;
    std::memcpy(&number, &bits, sizeof(number));
    return checked(PyFloat_FromDouble(number));
  }

  static nb::object integer(std::uint64_t zigzag) {
    const std::uint64_t number = zigzag >> 1 ^ (~(zigzag & 1) + 1);
    return checked(PyLong_FromLongLong(static_cast<std::int64_t>(number)));
  }

  nb::list elements(Span body, int depth) {
    nb::list found;
    Reader reader(body);
    for (Span element; structure::next_element(reader, element);) {
      found.append(value(element, depth));
    }
    return found;
  }

  static nb::object tuple(const nb::list& elements) {
    return checked(PyList_AsTuple(elements.ptr()));
  }

  nb::dict pairs(Span body, int depth) {
    nb::dict found;
    Reader reader(body);
    for (Span pair; structure::next_element(reader, pair);) add_pair(found, pair, depth);
    return found;
  }

  void add_pair(nb::dict& found, Span message, int depth) {
    const structure::Pair pair = structure::read_pair(message);
    nb::object key = text_of(pair.key);
    try {
      const int contained = PyDict_Contains(found.ptr(), key.ptr());
      if (contained < 0) throw nb::python_error();
      if (contained > 0) throw Error(Problem::malformed, message.offset(), "a key comes twice");
      const nb::object element = value(pair.value, depth);
      if (PyDict_SetItem(found.ptr(), key.ptr(), element.ptr()) != 0) throw nb::python_error();
    } catch (...) {
      if (!failed.is_valid()) failed = key;
      throw;
    }
  }

  nb::object named(Span body, int depth) {
    const structure::Named named = structure::read_named(body);
    nb::dict found;
    for (const Span& pair : named.pairs) add_pair(found, pair, depth);
    return ask("named", text_of(named.name), found, number_of(body.offset()));
  }

  // Not inlined: a Tensor takes two kilobytes of the stack, which `value` would take at each level.
  FERRY_NOINLINE nb::object tensor(Span body) {
    const tensorproto::Tensor tensor = tensorproto::scan(body);
    constexpr std::size_t max_rank = 64;  // NumPy's
    if (tensor.content.size > 0 && tensor.held == 0 && tensor.dtype < reader_.known.size() &&
        tensor.rank <= max_rank) {
      const StructureReader::Known& known = reader_.known[tensor.dtype];
      if (known.dtype.is_valid() && tensor.elements <= tensor.content.size &&
          tensor.content.size == tensor.elements * known.itemsize) {
        return call(reader_.ndarray, shape(tensor), known.dtype, source_,
                    number_of(tensor.content.offset()));
      }
    }
    return ask("tensor", number_of(body.offset()), number_of(body.offset() + body.size));
  }

  // Most tensors have the shape of the one before.
  const nb::object& shape(const tensorproto::Tensor& tensor) {
    const bool is_same = shape_.is_valid() && dims_.size() == tensor.rank &&
                         std::equal(dims_.begin(), dims_.end(), tensor.dims.begin());
    if (!is_same) {
      dims_.assign(tensor.dims.begin(), tensor.dims.begin() + static_cast<std::ptrdiff_t>(tensor.rank));
      shape_ = make_tuple(tensor.rank, [this](std::size_t axis) {
        return checked(PyLong_FromLongLong(dims_[axis]));
      });
    }
    return shape_;
  }

  template <typename... Arguments>
  nb::object ask(const char* method, const Arguments&... arguments) {
    return call(nb::object(builder_.attr(method)), arguments...);
  }

  const StructureReader& reader_;
  Buffer buffer_;
  nb::object source_;
  nb::object builder_;
  std::vector<std::int64_t> dims_;
  nb::object shape_;
};

nb::object StructureReader::read(nb::object source, nb::object builder, int depth) const {
  Reading reading(*this, source, builder);
  try {
    return reading.whole(depth);
  } catch (...) {
    if (reading.failed.is_valid()) builder.attr("where") = reading.failed;
    throw;
  }
}

}  // namespace

void bind_structure(nb::module_& module) {
  nb::class_<StructureReader>(module, "StructureReader",
                              "Reads StructuredValues; `in_place` has the dtypes, and their sizes, "
                              "of tensors that are good as they lie, by their numbers.")
      .def(nb::init<nb::object, nb::dict>(), "ndarray"_a, "in_place"_a)
      .def("read", &StructureReader::read, "source"_a, "builder"_a, "depth"_a,
           "The value in a buffer. `builder` makes what this does not: it has the methods "
           "tensor(start, end), named(name, parts, offset), described(offset) and "
           "too_deep(offset). If reading fails in a dict, its attribute `where` gets the key.");
  bind_structure_encode(module);
}

}  // namespace ferry::python
