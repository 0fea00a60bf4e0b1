// Rows of Python values to Examples.
#include <nanobind/stl/string.h>

#include <cmath>
#include <limits>

#include "row_plan.h"

namespace ferry::python {

namespace {

using example::Kind;
using example::Scratch;
using example::Source;

constexpr std::uint8_t absent = 1;

// The largest number that still rounds to a finite float32.
constexpr double largest = std::numeric_limits<float>::max() + 0x1p102;

bool is_integer(PyObject* value) noexcept {
  return PyLong_CheckExact(value) || PyBool_Check(value);
}

bool is_scalar(PyObject* value) noexcept {
  return is_integer(value) || PyFloat_CheckExact(value) || PyUnicode_CheckExact(value) ||
         PyBytes_CheckExact(value);
}

bool to_integer(PyObject* value, std::int64_t& out) noexcept {
  if (!is_integer(value)) return false;
  int overflow = 0;
  out = PyLong_AsLongLongAndOverflow(value, &overflow);
  return overflow == 0;
}

bool to_float(double value, float& out) noexcept {
  if (std::fabs(value) > largest && !std::isinf(value)) return false;
  out = static_cast<float>(value);
  return true;
}

// A string or bytes; valid as long as the object is.
bool to_text(PyObject* value, example::Text& out) noexcept {
  if (PyBytes_CheckExact(value)) return look_into(value, out);
  if (!PyUnicode_CheckExact(value)) return false;
  Py_ssize_t size = 0;
  const char* const data = PyUnicode_AsUTF8AndSize(value, &size);
  if (data == nullptr) {  // not in UTF-8
    PyErr_Clear();
    return false;
  }
  out = {reinterpret_cast<const std::uint8_t*>(data), static_cast<std::size_t>(size)};
  return true;
}

template <typename At>
bool take_integers(Scratch<std::int64_t>& out, std::size_t count, At at) {
  out.cut(0);
  std::int64_t* place = out.room(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!to_integer(at(i), place[i])) return false;
  }
  out.grow(count);
  return true;
}

// Numbers of which one at least is a float, or which a schema says to be floats: NumPy then rounds
// integers once, and not by way of float64, if all of them are integers.
template <typename At>
bool take_floats(Scratch<float>& out, std::size_t count, bool by_schema, At at) {
  bool has_float = false;
  for (std::size_t i = 0; i < count && !has_float; ++i) has_float = PyFloat_CheckExact(at(i));
  if (count > 0 && !has_float && !by_schema) return false;
  out.cut(0);
  float* place = out.room(count);
  for (std::size_t i = 0; i < count; ++i) {
    PyObject* const value = at(i);
    std::int64_t integer = 0;
    if (PyFloat_CheckExact(value)) {
      if (!to_float(PyFloat_AsDouble(value), place[i])) return false;
    } else if (!to_integer(value, integer)) {
      return false;
    } else {
      place[i] = has_float ? static_cast<float>(static_cast<double>(integer))
                           : static_cast<float>(integer);
    }
  }
  out.grow(count);
  return true;
}

template <typename At>
bool take_texts(std::vector<example::Text>& out, std::size_t count, At at) {
  out.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!to_text(at(i), out[i])) return false;
  }
  return true;
}

// A view of an array or a scalar of NumPy, which runs no code of Python.
class View {
 public:
  explicit View(PyObject* value) noexcept {
    held_ = PyObject_GetBuffer(value, &view_, PyBUF_STRIDES | PyBUF_FORMAT) == 0;
    if (!held_) PyErr_Clear();  // of a dtype that has no buffer
  }
  ~View() {
    if (held_) PyBuffer_Release(&view_);
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  // Whether it has values, which a dtype of no bytes has not, that one step goes through.
  bool is_plain() const noexcept {
    return held_ && view_.itemsize > 0 && (view_.ndim <= 1 || PyBuffer_IsContiguous(&view_, 'C') == 1);
  }
  std::size_t rank() const noexcept { return static_cast<std::size_t>(view_.ndim); }
  std::vector<std::int64_t> shape() const { return {view_.shape, view_.shape + view_.ndim}; }
  std::size_t count() const noexcept { return static_cast<std::size_t>(view_.len / view_.itemsize); }

  // The letter of the dtype, if the values are as this machine has them; 0 otherwise. Letters that
  // differ from machine to machine are those of their size.
  char letter() const noexcept {
    if (view_.format == nullptr || view_.itemsize == 0) return 0;
    const char letter = view_.format[0];
    if (letter == 0 || view_.format[1] != 0) return 0;
    if (letter == 'l' || letter == 'q') return view_.itemsize == 8 ? 'q' : 'i';
    if (letter == 'L' || letter == 'Q') return view_.itemsize == 8 ? 'Q' : 'I';
    return letter;
  }

  // Converts all values.
  template <typename From, typename To>
  bool convert(Scratch<To>& out) const {
    if (static_cast<std::size_t>(view_.itemsize) != sizeof(From)) return false;
    out.cut(0);
    To* const place = out.room(count());
    const auto* at = static_cast<const std::uint8_t*>(view_.buf);
    const Py_ssize_t step = view_.ndim == 1 ? view_.strides[0] : view_.itemsize;
    for (std::size_t i = 0; i < count(); ++i, at += step) {
      From value;
      std::memcpy(&value, at, sizeof(From));
      place[i] = static_cast<To>(value);
      if constexpr (std::is_same_v<From, double>) {
        if (std::isinf(place[i]) && !std::isinf(value)) return false;
      }
    }
    out.grow(count());
    return true;
  }

  // The same for bools, whose bytes may be others than 0 and 1.
  template <typename To>
  bool convert_truths(Scratch<To>& out) const {
    if (!convert<std::uint8_t>(out)) return false;
    for (std::size_t i = 0; i < out.size(); ++i) out.data()[i] = out[i] != 0;
    return true;
  }

 private:
  Py_buffer view_{};
  bool held_ = false;
};

// The integers of an array that int64 holds.
template <typename To>
bool convert_integers(const View& view, Scratch<To>& out) {
  switch (view.letter()) {
    case '?': return view.convert_truths(out);
    case 'b': return view.convert<std::int8_t>(out);
    case 'B': return view.convert<std::uint8_t>(out);
    case 'h': return view.convert<std::int16_t>(out);
    case 'H': return view.convert<std::uint16_t>(out);
    case 'i': return view.convert<std::int32_t>(out);
    case 'I': return view.convert<std::uint32_t>(out);
    case 'q': return view.convert<std::int64_t>(out);
    default: return false;
  }
}

bool convert_floats(const View& view, bool by_schema, Scratch<float>& out) {
  if (view.letter() == 'f') return view.convert<float>(out);
  if (!by_schema) return false;
  return view.letter() == 'd' ? view.convert<double>(out) : convert_integers(view, out);
}

}  // namespace

RowPlan::RowPlan(nb::list features, nb::tuple arrays)
    : features_((features = copy_of(features)).size()), encoder_([&] {
        std::vector<Source> sources(features.size());
        for (std::size_t i = 0; i < sources.size(); ++i) {
          const nb::tuple given = parts_of(features[i], 4);
          const int kind = nb::cast<int>(given[1]);
          if (kind < 1 || kind > 3) throw nb::value_error("a feature is of kind 1, 2 or 3");
          sources[i].name = nb::cast<std::string>(given[0]);
          sources[i].kind = static_cast<Kind>(kind);
        }
        return sources;
      }()), arrays_(std::move(arrays)) {
  for (std::size_t i = 0; i < features_.size(); ++i) {
    const nb::tuple given = parts_of(features[i], 4);
    Feature& feature = features_[i];
    feature.kind = encoder_.sources[i].kind;
    feature.by_schema = !given[2].is_none();
    if (feature.by_schema) {
      for (nb::handle size : nb::cast<nb::tuple>(given[2])) {
        feature.shape.push_back(size.is_none() ? any_size : nb::cast<std::int64_t>(size));
      }
    }
    feature.required = nb::cast<bool>(given[3]);
    required_ += feature.required;
    // A text without code of its own, which would run in `encode`.
    const std::string& name = encoder_.sources[i].name;
    numbers_[nb::str(name.data(), name.size())] = i;
  }
}

bool RowPlan::encode(nb::handle row, Bytes& out) {
  if (!PyDict_CheckExact(row.ptr())) return false;
  for (Source& source : encoder_.sources) source.missing = &absent;
  std::size_t required = 0;
  PyObject* name = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(row.ptr(), &at, &name, &value);) {
    if (!PyUnicode_CheckExact(name)) return false;
    PyObject* const number = PyDict_GetItemWithError(numbers_.ptr(), name);
    if (value == Py_None) {
      example::Text text;
      if (number == nullptr && !to_text(name, text)) return false;
      continue;
    }
    if (number == nullptr) return false;
    const std::size_t index = PyLong_AsSize_t(number);
    Source& source = encoder_.sources[index];
    if (!take(features_[index], source, value)) return false;
    source.missing = nullptr;
    required += features_[index].required;
  }
  if (required != required_ || features_.empty()) return false;
  encoder_.encode(out);
  return true;
}

bool RowPlan::take(Feature& feature, Source& source, PyObject* value) {
  if (is_scalar(value)) {
    return feature.fits(nullptr, 0) &&
           take_values(feature, source, 1, [=](std::size_t) { return value; });
  }
  if (PyList_CheckExact(value)) {
    const auto count = static_cast<std::size_t>(PyList_Size(value));
    return feature.fits_list(count) && take_values(feature, source, count, [=](std::size_t i) {
             return item_of_list(value, i);
           });
  }
  if (PyTuple_CheckExact(value)) {
    const auto count = static_cast<std::size_t>(PyTuple_Size(value));
    return feature.fits_list(count) && take_values(feature, source, count, [=](std::size_t i) {
             return item_of_tuple(value, i);
           });
  }
  return is_array(value) && take_array(feature, source, value);
}

template <typename At>
bool RowPlan::take_values(Feature& feature, Source& source, std::size_t count, At at) {
  source.length = count;
  switch (feature.kind) {
    case Kind::integers:
      if (!take_integers(feature.integers, count, at)) return false;
      source.values = reinterpret_cast<const std::uint8_t*>(feature.integers.data());
      return true;
    case Kind::floats:
      if (!take_floats(feature.floats, count, feature.by_schema, at)) return false;
      source.values = reinterpret_cast<const std::uint8_t*>(feature.floats.data());
      return true;
    default: return take_texts(source.texts, count, at);
  }
}

bool RowPlan::take_array(Feature& feature, Source& source, PyObject* value) {
  if (feature.kind == Kind::bytes) return false;
  const View view(value);
  if (!view.is_plain()) return false;
  if (feature.by_schema) {
    const std::vector<std::int64_t> shape = view.shape();
    if (!feature.fits(shape.data(), shape.size())) return false;
  } else if (view.rank() > 1) {
    return false;
  }
  source.length = view.count();
  if (feature.kind == Kind::integers) {
    if (!convert_integers(view, feature.integers)) return false;
    source.values = reinterpret_cast<const std::uint8_t*>(feature.integers.data());
  } else {
    if (!convert_floats(view, feature.by_schema, feature.floats)) return false;
    source.values = reinterpret_cast<const std::uint8_t*>(feature.floats.data());
  }
  return true;
}

bool RowPlan::is_array(PyObject* value) const noexcept {
  const nb::handle kind(reinterpret_cast<PyObject*>(Py_TYPE(value)));
  for (nb::handle one : arrays_) {
    if (one.is(kind)) return true;
  }
  return false;
}

// As _check_shape in encoder.py: the shape of the schema, or as many values in a flat list.
bool RowPlan::Feature::fits(const std::int64_t* given, std::size_t rank) const noexcept {
  if (!by_schema) return true;
  if (rank <= 1 && fits_list(rank == 0 ? 1 : static_cast<std::size_t>(given[0]))) return true;
  if (rank != shape.size()) return false;
  for (std::size_t i = 0; i < rank; ++i) {
    if (shape[i] != any_size && shape[i] != given[i]) return false;
  }
  return true;
}

bool RowPlan::Feature::fits_list(std::size_t count) const noexcept {
  if (!by_schema) return true;
  bool varies = false;
  std::uint64_t unit = 1;
  for (const std::int64_t size : shape) {
    if (size == any_size) {
      varies = true;
    } else if (size != 0 && unit > std::numeric_limits<std::uint64_t>::max() / static_cast<std::uint64_t>(size)) {
      return false;
    } else {
      unit *= static_cast<std::uint64_t>(size);
    }
  }
  return varies ? unit != 0 && count % unit == 0 : count == unit;
}

void bind_row_plan(nb::module_& module) {
  nb::class_<RowPlan>(module, "RowPlan", "Which features rows have, to encode rows one by one.")
      .def(nb::init<nb::list, nb::tuple>(), "features"_a, "arrays"_a);
}

}  // namespace ferry::python
