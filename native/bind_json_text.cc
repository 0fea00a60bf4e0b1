// Rows as lines of JSON, and tensors of numbers as lists in lists.
#include <nanobind/stl/string.h>

#include <array>
#include <optional>

#include "core/json_numbers.h"
#include "core/json_text.h"
#include "python.h"

namespace ferry::python {

namespace {

// Bytes that are read or written before another thread gets the GIL.
constexpr std::size_t small = 1 << 12;

// Calls `work` with a number of the type that a letter of a buffer's format stands for; false if JSON
// has no numbers for that type.
template <typename Work>
bool with_element(char letter, Work work) {
  switch (letter) {
    case '?': work(bool{}); return true;
    case 'b': work(static_cast<signed char>(0)); return true;
    case 'h': work(short{}); return true;
    case 'i': work(int{}); return true;
    case 'l': work(long{}); return true;
    case 'q': work(0LL); return true;
    case 'B': work(static_cast<unsigned char>(0)); return true;
    case 'H': work(static_cast<unsigned short>(0)); return true;
    case 'I': work(0U); return true;
    case 'L': work(0UL); return true;
    case 'Q': work(0ULL); return true;
    case 'f': work(float{}); return true;
    case 'd': work(double{}); return true;
    default: return false;
  }
}

// The letter of a format that has no more than one; else 0.
char letter_of(const Buffer& buffer) {
  const char* const format = buffer.format();
  return format[0] != 0 && format[1] == 0 ? format[0] : '\0';
}

std::vector<std::uint64_t> shape_of(const Buffer& buffer) {
  std::vector<std::uint64_t> shape(buffer.rank());
  for (std::size_t axis = 0; axis < shape.size(); ++axis) shape[axis] = buffer.dimension(axis);
  return shape;
}

// Writes values. What it does not know, it asks a function for, which gives the JSON of a value.
class LineWriter {
 public:
  LineWriter(nb::handle arrays, nb::handle other) : arrays_(arrays), other_(other) {}

  nb::object line(nb::dict row) {
    out_.clear();
    // Values of our own: the function may change the row.
    fields_.clear();
    for (const auto [key, value] : row) fields_.emplace_back(nb::borrow(key), nb::borrow(value));
    out_ += '{';
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (i > 0) out_ += ", ";
      out_ += name_at(i, fields_[i].first);
      out_ += ": ";
      write(fields_[i].second);
    }
    out_ += '}';
    return nb::str(out_.data(), out_.size());
  }

 private:
  // The names of rows are mostly the same objects, in the same order.
  const std::string& name_at(std::size_t place, nb::handle key) {
    if (place == names_.size()) names_.emplace_back();
    auto& [known, text] = names_[place];
    if (!known.is(key)) {
      std::string written;
      std::swap(written, out_);
      write(key);
      std::swap(written, out_);
      known = nb::borrow(key);
      text = std::move(written);
    }
    return text;
  }

  void write(nb::handle value) {
    if (value.is_none()) {
      out_ += "null";
    } else if (nb::isinstance<nb::bool_>(value)) {
      out_ += value.is(Py_True) ? "true" : "false";
    } else if (nb::isinstance<nb::int_>(value)) {
      write_integer(value);
    } else if (nb::isinstance<nb::float_>(value)) {
      json_text::append(out_, PyFloat_AsDouble(value.ptr()));
    } else if (nb::isinstance<nb::bytes>(value)) {
      const nb::bytes bytes = nb::borrow<nb::bytes>(value);
      if (!json_text::append_ascii(out_, {bytes.c_str(), bytes.size()})) ask(value);
    } else if (nb::isinstance<nb::str>(value)) {
      write_text(value);
    } else if (nb::isinstance(value, arrays_)) {
      write_array(value);
    } else {
      ask(value);
    }
  }

  void ask(nb::handle value) {
    const nb::object answer = call(other_, value);
    Py_ssize_t size;
    const char* const text = PyUnicode_AsUTF8AndSize(answer.ptr(), &size);
    if (text == nullptr) throw nb::python_error();
    out_.append(text, static_cast<std::size_t>(size));
  }

  void write_text(nb::handle value) {
    Py_ssize_t size;
    const char* const text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
    if (text == nullptr) PyErr_Clear();  // half of a surrogate pair
    if (text == nullptr || !json_text::append_ascii(out_, {text, static_cast<std::size_t>(size)})) {
      ask(value);
    }
  }

  void write_integer(nb::handle value) {
    int overflow;
    const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    if (overflow != 0) return ask(value);
    json_text::append(out_, static_cast<std::int64_t>(number));
  }

  void write_array(nb::handle value) {
    const Level level;  // an array of objects may hold itself
    try {
      const Buffer buffer(value, PyBUF_FORMAT | PyBUF_ND | PyBUF_C_CONTIGUOUS);
      if (write_buffer(buffer, letter_of(buffer))) return;
    } catch (const nb::python_error& error) {
      // An array that is not contiguous, or of a type that has no buffer.
      if (!error.matches(PyExc_BufferError) && !error.matches(PyExc_ValueError)) throw;
    }
    ask(value);
  }

  bool write_buffer(const Buffer& buffer, char format) {
    if (format == 'O') {
      write_elements<PyObject*>(buffer);
      return true;
    }
    return with_element(format, [&]<typename Element>(Element) { write_elements<Element>(buffer); });
  }

  template <typename Element>
  void write_elements(const Buffer& buffer) {
    const std::uint8_t* place = buffer.data();
    write_dimension<Element>(buffer, 0, place);
  }

  template <typename Element>
  void write_dimension(const Buffer& buffer, std::size_t axis, const std::uint8_t*& place) {
    if (axis == buffer.rank()) {
      write_element<Element>(place);
      place += sizeof(Element);
      return;
    }
    out_ += '[';
    for (std::size_t i = 0; i < buffer.dimension(axis); ++i) {
      if (i > 0) out_ += ", ";
      write_dimension<Element>(buffer, axis + 1, place);
    }
    out_ += ']';
  }

  template <typename Element>
  void write_element(const std::uint8_t* place) {
    if constexpr (std::is_same_v<Element, PyObject*>) {
      PyObject* const object = object_at(place, 0);
      const nb::object held = object == nullptr ? nb::none() : nb::borrow(object);
      write(held);
    } else if constexpr (std::is_same_v<Element, bool>) {
      out_ += *place != 0 ? "true" : "false";
    } else {
      Element number;
      std::memcpy(&number, place, sizeof(number));
      if constexpr (std::is_floating_point_v<Element>) {
        json_text::append(out_, number);
      } else if constexpr (std::is_signed_v<Element>) {
        json_text::append(out_, static_cast<std::int64_t>(number));
      } else {
        json_text::append(out_, static_cast<std::uint64_t>(number));
      }
    }
  }

  nb::handle arrays_;
  nb::handle other_;
  std::string out_;
  std::vector<std::pair<nb::object, nb::object>> fields_;
  std::vector<std::pair<nb::object, std::string>> names_;
};

nb::list json_lines(nb::list rows, nb::handle arrays, nb::handle other) {
  LineWriter writer(arrays, other);
  nb::list lines;
  const nb::list own = copy_of(rows);
  for (nb::handle row : own) lines.append(writer.line(nb::cast<nb::dict>(row)));
  return lines;
}

template <typename Element>
nb::object write_lists(const Buffer& buffer, const std::vector<std::uint64_t>& shape, bool in_rows) {
  const std::span<const std::uint64_t> sizes(shape);
  std::vector<std::string> texts(in_rows ? shape[0] : 1);
  {
    const Unlocked unlocked;
    const std::size_t step = texts.empty() ? 0 : buffer.size() / texts.size();
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto part = in_rows ? sizes.subspan(1) : sizes;
      json_numbers::append<Element>(texts[i], buffer.data() + i * step, part);
    }
  }
  const auto bytes = [&](std::size_t i) { return nb::bytes(texts[i].data(), texts[i].size()); };
  if (!in_rows) return bytes(0);
  return make_list(texts.size(), bytes);
}

nb::object json_lists(nb::handle array, bool in_rows) {
  const Buffer buffer(array, PyBUF_FORMAT | PyBUF_ND | PyBUF_C_CONTIGUOUS);
  const std::vector<std::uint64_t> shape = shape_of(buffer);
  if (in_rows && shape.empty()) throw nb::value_error("a scalar has no rows");
  nb::object lists = nb::none();
  with_element(letter_of(buffer),
               [&]<typename Element>(Element) { lists = write_lists<Element>(buffer, shape, in_rows); });
  return lists;
}

// Room for the shape and the names of a tensor, and for a number of one, in most cases.
constexpr std::size_t rest_of_head = 64, usual_number = 16;

// The text of a tensor in one call: for a small one, Python's calls take the time.
nb::object json_tensor(nb::handle array, nb::dict heads, std::int64_t most) {
  const nb::object head = by_dtype(heads, array);
  if (!head.is_valid()) return nb::none();
  if (PyBytes_Check(head.ptr()) == 0) throw nb::type_error("a head is bytes");
  const Buffer buffer(array, PyBUF_FORMAT | PyBUF_ND | PyBUF_C_CONTIGUOUS, std::nothrow);
  if (!buffer.is_held()) {
    PyErr_Clear();  // it is not contiguous
    return nb::none();
  }
  const std::size_t count = buffer.size() / buffer.width();
  if (count == 0 || most < 0 || count > static_cast<std::uint64_t>(most)) return nb::none();
  const std::vector<std::uint64_t> shape = shape_of(buffer);
  std::string text;
  text.reserve(PyBytes_Size(head.ptr()) + rest_of_head + count * usual_number);
  text.append(PyBytes_AsString(head.ptr()), static_cast<std::size_t>(PyBytes_Size(head.ptr())));
  json_numbers::append<std::uint64_t>(text, reinterpret_cast<const std::uint8_t*>(shape.data()),
                                      std::array{std::uint64_t{shape.size()}});
  text += ",\"values\":";
  const std::size_t start = text.size();
  const bool is_known = with_element(letter_of(buffer), [&]<typename Element>(Element) {
    std::optional<Unlocked> unlocked;
    if (buffer.size() > small) unlocked.emplace();
    json_numbers::append<Element>(text, buffer.data(), shape);
  });
  // JSON has no NaN and no Infinity.
  const bool is_finite = text.find('N', start) == text.npos && text.find('I', start) == text.npos;
  if (!is_known || !is_finite) return nb::none();
  text += '}';
  return nb::bytes(text.data(), text.size());
}

nb::str to_str(std::string_view text) { return nb::str(text.data(), text.size()); }

template <typename Number>
nb::object to_bytearray(const std::vector<Number>& numbers) {
  const auto size = static_cast<Py_ssize_t>(numbers.size() * sizeof(Number));
  const auto* const data = reinterpret_cast<const char*>(numbers.data());
  const nb::object made = nb::steal(PyByteArray_FromStringAndSize(data, size));
  if (!made.is_valid()) throw nb::python_error();
  return made;
}

nb::object to_python(const std::vector<json_numbers::Entry>& entries) {
  nb::dict found;
  for (const json_numbers::Entry& entry : entries) {
    const nb::str name = to_str(entry.name);
    if (found.contains(name)) return nb::none();
    const json::Numbers& numbers = entry.numbers;
    switch (entry.kind) {
      case json_numbers::Entry::Kind::text: found[name] = to_str(entry.text); break;
      case json_numbers::Entry::Kind::numbers: {
        const nb::list shape = make_list(numbers.shape.size(),
                                         [&](std::size_t i) { return nb::int_(numbers.shape[i]); });
        const nb::object memory = numbers.are_integers ? to_bytearray(numbers.integers)
                                                       : to_bytearray(numbers.floats);
        found[name] = nb::make_tuple(memory, numbers.are_integers, shape, numbers.largest);
        break;
      }
      case json_numbers::Entry::Kind::object: {
        const nb::object members = to_python(entry.members);
        if (members.is_none()) return members;
        found[name] = members;
        break;
      }
    }
  }
  return found;
}

nb::object json_body(nb::handle source) {
  const Buffer buffer(source);
  json::Reader reader(buffer.span());
  std::vector<json_numbers::Entry> entries;
  bool is_plain;
  {
    std::optional<Unlocked> unlocked;
    if (buffer.size() > small) unlocked.emplace();
    is_plain = json_numbers::read(reader, entries);
  }
  return is_plain ? to_python(entries) : nb::none();
}

}  // namespace

void bind_json_text(nb::module_& module) {
  module.def("json_lines", json_lines, "rows"_a, "arrays"_a, "other"_a,
             "Dicts of None, texts, bytes and arrays as lines of JSON; `arrays` are the types that "
             "have numbers in a buffer, and `other` gives the JSON of every other value.");
  module.def("json_lists", json_lists, "array"_a, "in_rows"_a,
             "The numbers of a contiguous array as nested lists, or the text of each row; None for a "
             "dtype that JSON has no numbers for.");
  module.def("json_tensor", json_tensor, "array"_a, "heads"_a, "most"_a,
             "The text of an array: the bytes that `heads` has for its dtype, the shape and the values. "
             "None if the array is not contiguous, has no values or more than `most`, a value is not "
             "finite, or the dtype has no head.");
  module.def("json_body", json_body, "source"_a,
             "An object of texts, tensors of numbers (memory, whether it is of int64 or float64, "
             "shape, the largest finite float without its sign) and objects of such tensors; None for any "
             "other text.");
}

}  // namespace ferry::python
