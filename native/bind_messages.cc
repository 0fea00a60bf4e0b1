// Messages: split into fields, and read by tables of their fields.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "messages.h"

namespace ferry::python {

namespace {

// Fields

// Iterates over the fields of one message, one level deep.
class MessageFields {
 public:
  MessageFields(nb::object source, std::uint64_t start, std::uint64_t end)
      : buffer_(source), reader_(buffer_.span(start, end)) {}

  bool done() const { return reader_.done(); }

  nb::tuple next() {
    Field field;
    if (!reader_.next(field)) throw nb::stop_iteration();
    const bool placed = field.tag.wire == Wire::bytes;
    return nb::make_tuple(field.tag.field, static_cast<int>(field.tag.wire),
                          placed ? field.bytes.offset() : field.value,
                          placed ? field.bytes.offset() + field.bytes.size : field.tag.offset);
  }

  // The same without what nanobind does around a call; nullptr where `next` has to say why not.
  PyObject* next_quickly() noexcept {
    const Reader before = reader_;
    try {
      return next().release().ptr();
    } catch (...) {
      reader_ = before;
      return nullptr;
    }
  }

 private:
  Buffer buffer_;
  Reader reader_;
};

// The end without an exception of C++, which takes ten times as long as a field.
PyObject* next_field(PyObject* self) {
  static PyObject* const name = PyUnicode_InternFromString("next");
  if (!nb::inst_ready(self)) {
    PyErr_SetString(PyExc_TypeError, "MessageFields without a message");
    return nullptr;
  }
  MessageFields* const fields = nb::inst_ptr<MessageFields>(self);
  if (fields->done()) return nullptr;
  PyObject* const found = fields->next_quickly();
  if (found != nullptr) return found;
  return PyObject_VectorcallMethod(name, &self, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
}

PyType_Slot message_fields_slots[] = {
    {Py_tp_iter, reinterpret_cast<void*>(PyObject_SelfIter)},
    {Py_tp_iternext, reinterpret_cast<void*>(next_field)},
    {0, nullptr},
};

// Tables

// What the value of a field is.
enum class Value { span, text, bits, integer, zigzag, boolean, single, real };

Value value_of(const std::string& kind) {
  if (kind == "text") return Value::text;
  if (kind == "int") return Value::integer;
  if (kind == "zigzag") return Value::zigzag;
  if (kind == "bool") return Value::boolean;
  if (kind == "float") return Value::single;
  if (kind == "double") return Value::real;
  if (kind == "bytes" || (kind[0] >= 'A' && kind[0] <= 'Z')) return Value::span;
  return Value::bits;
}

nb::object to_number(Value value, std::uint64_t bits) {
  switch (value) {
    case Value::integer: return checked(PyLong_FromLongLong(static_cast<std::int64_t>(bits)));
    case Value::zigzag:
      return checked(PyLong_FromLongLong(static_cast<std::int64_t>(bits >> 1 ^ (0 - (bits & 1)))));
    case Value::boolean: return checked(PyBool_FromLong(bits != 0));
    case Value::single:
      return checked(PyFloat_FromDouble(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
    case Value::real: return checked(PyFloat_FromDouble(std::bit_cast<double>(bits)));
    default: return to_integer(bits);
  }
}

// The fields of one kind of message, by which such messages are read.
class MessageTable {
 public:
  // `fields` has the number, the name, the kind, the wire type, whether it is repeated, and the
  // table by which `rows` reads the messages in it or None, of each; `span` is the tuple that places
  // of bytes are given as.
  MessageTable(std::string message, nb::list fields, nb::type_object span)
      : message_(std::move(message)), span_(std::move(span)) {
    if (!PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(span_.ptr()), &PyTuple_Type)) {
      throw nb::type_error("a span is a tuple");
    }
    const nb::list own = copy_of(fields);
    if (own.size() > most_fields) throw nb::value_error("too many fields");
    for (nb::handle each : own) {
      const nb::tuple line = parts_of(each, 6);
      check_name(line[1]);
      const auto number = nb::cast<std::uint32_t>(line[0]);
      const auto kind = nb::cast<std::string>(line[2]);
      if (number >= highest || kind.empty()) throw nb::value_error("no such field");
      if (number >= by_number_.size()) by_number_.resize(number + 1, none);
      by_number_[number] = static_cast<std::uint8_t>(lines_.size());
      const nb::object table = line[5];
      lines_.push_back({line[1], value_of(kind), static_cast<Wire>(nb::cast<int>(line[3])),
                        nb::cast<bool>(line[4]), table,
                        table.is_none() ? nullptr : nb::cast<const MessageTable*>(table)});
    }
  }

  nb::object read(nb::handle source, std::uint64_t start, std::uint64_t end,
                  std::optional<nb::str> without) const {
    const Buffer buffer(source);
    nb::object found = checked(PyDict_New());
    std::array<PyObject*, most_fields> lists;  // which the dict holds
    std::uint64_t seen = 0;
    Reader reader(buffer.span(start, end));
    for (Field field; reader.next(field);) {
      const std::uint32_t number = field.tag.field;
      if (number >= by_number_.size() || by_number_[number] == none) continue;
      const std::size_t place = by_number_[number];
      const Line& line = lines_[place];
      const bool again = (seen >> place & 1) != 0;
      if (!again && line.repeated && without && is_same(line.name, *without)) continue;
      seen |= std::uint64_t{1} << place;
      if (line.repeated && !again) {
        const nb::object list = checked(PyList_New(0));
        lists[place] = list.ptr();
        put(found, line, list);
      }
      if (field.tag.wire != line.wire) {
        if (!line.repeated || field.tag.wire != Wire::bytes) fail_wire(line, field);
        unpack(line, field.bytes, lists[place]);
      } else if (line.repeated) {
        append(lists[place], value_at(line, field));
      } else {
        if (again) fail_twice(line, field);
        put(found, line, value_at(line, field));
      }
    }
    return found;
  }

  // The places of the messages in a repeated field, of which no more than `most` are listed.
  nb::object spans(nb::handle source, std::uint64_t start, std::uint64_t end, nb::str name,
                   std::size_t most) const {
    const auto line = std::find_if(lines_.begin(), lines_.end(),
                                   [&](const Line& each) { return is_same(each.name, name); });
    if (line == lines_.end()) throw nb::value_error("no such field");
    const Buffer buffer(source);
    nb::object found = checked(PyList_New(0));
    Reader reader(buffer.span(start, end));
    std::size_t count = 0;
    for (Field field; count < most && reader.next(field);) {
      const std::uint32_t number = field.tag.field;
      if (number >= by_number_.size() || by_number_[number] != line - lines_.begin()) continue;
      if (field.tag.wire != Wire::bytes) fail_wire(*line, field);
      append(found.ptr(), make_span(field.bytes));
      ++count;
    }
    return found;
  }

  // Each of some messages as a tuple of its fields, in the order of the table; a number that is not
  // there is 0, a text is empty, a span is None, and what is repeated is an empty tuple.
  nb::object rows(nb::handle source, nb::list spans) const {
    const Buffer buffer(source);
    nb::object found = checked(PyList_New(0));
    nb::object nothing;  // of messages of no bytes, of which a file may have very many
    for (nb::handle each : copy_of(spans)) {
      const auto place = nb::cast<std::pair<std::uint64_t, std::uint64_t>>(each);
      const Span message = buffer.span(place.first, place.second);
      if (message.size != 0) {
        append(found.ptr(), row(message));
        continue;
      }
      if (!nothing.is_valid()) nothing = row(message);
      append(found.ptr(), nothing);
    }
    return found;
  }

 private:
  static constexpr std::size_t most_fields = 64;
  static constexpr std::uint32_t highest = 4096;
  static constexpr std::uint8_t none = 255;

  struct Line {
    nb::object name;
    Value value;
    Wire wire;
    bool repeated;
    nb::object holder;
    const MessageTable* table;  // which `holder` holds
  };

  // Two fields of one name would take each other's list away.
  void check_name(nb::handle name) const {
    if (!PyUnicode_CheckExact(name.ptr())) throw nb::type_error("the name of a field is a str");
    for (const Line& line : lines_) {
      if (is_same(line.name, name)) throw nb::value_error("two fields have one name");
    }
  }

  nb::object row(Span message) const {
    std::array<nb::object, most_fields> values;
    Reader reader(message);
    for (Field field; reader.next(field);) {
      const std::uint32_t number = field.tag.field;
      if (number >= by_number_.size() || by_number_[number] == none) continue;
      const std::size_t place = by_number_[number];
      const Line& line = lines_[place];
      nb::object& value = values[place];
      if (line.repeated) {
        if (!value.is_valid()) value = checked(PyList_New(0));
        add(value.ptr(), line, field);
        continue;
      }
      if (field.tag.wire != line.wire) fail_wire(line, field);
      if (value.is_valid()) fail_twice(line, field);
      value = value_at(line, field);
    }
    return make_tuple(lines_.size(), [&](std::size_t place) {
      return values[place].is_valid() ? std::move(values[place]) : absent(lines_[place]);
    });
  }

  // Adds a value, or several, to those of a repeated field.
  void add(PyObject* list, const Line& line, const Field& field) const {
    if (field.tag.wire != line.wire) {
      if (field.tag.wire != Wire::bytes) fail_wire(line, field);
      unpack(line, field.bytes, list);
    } else {
      append(list, line.table == nullptr ? value_at(line, field) : line.table->row(field.bytes));
    }
  }

  static nb::object absent(const Line& line) {
    if (line.repeated) return nb::steal(PyTuple_New(0));  // the one that there is
    switch (line.value) {
      case Value::span: return nb::none();
      case Value::text: return nb::str("");
      default: return to_number(line.value, 0);
    }
  }

  static bool is_same(nb::handle name, nb::handle other) {
    return name.is(other) || PyUnicode_Compare(name.ptr(), other.ptr()) == 0;
  }

  static void put(nb::handle found, const Line& line, nb::handle value) {
    if (PyDict_SetItem(found.ptr(), line.name.ptr(), value.ptr()) != 0) throw nb::python_error();
  }

  static void append(PyObject* list, const nb::object& value) {
    if (PyList_Append(list, value.ptr()) != 0) throw nb::python_error();
  }

  nb::object value_at(const Line& line, const Field& field) const {
    switch (line.value) {
      case Value::span: return make_span(field.bytes);
      case Value::text: return read_text(field.bytes);
      default: return to_number(line.value, field.value);
    }
  }

  // What `tuple.__new__(Span, (start, end))` gives.
  nb::object make_span(Span bytes) const {
    static const auto make =
        reinterpret_cast<newfunc>(PyType_GetSlot(&PyTuple_Type, Py_tp_new));
    const std::uint64_t start = bytes.offset();
    const nb::tuple arguments = nb::make_tuple(nb::make_tuple(start, start + bytes.size));
    return checked(
        make(reinterpret_cast<PyTypeObject*>(span_.ptr()), arguments.ptr(), nullptr));
  }

  // The numbers of a repeated field that stand in one run of bytes.
  void unpack(const Line& line, Span run, PyObject* list) const {
    const std::size_t width = line.wire == Wire::fixed32 ? 4 : line.wire == Wire::fixed64 ? 8 : 1;
    if (run.size % width != 0) {
      throw Error(Problem::malformed, run.offset(),
                  std::to_string(run.size) + " bytes of " + name_of(line) +
                      ", expected a multiple of " + std::to_string(width));
    }
    Reader reader(run);
    while (!reader.done()) {
      const std::uint64_t bits = width == 4   ? reader.fixed32()
                                 : width == 8 ? reader.fixed64()
                                              : reader.varint();
      append(list, to_number(line.value, bits));
    }
  }

  static std::string name_of(const Line& line) { return nb::cast<std::string>(line.name); }

  // Where the value of a field stands, or the tag before a number.
  static std::uint64_t place_of(const Field& field) {
    return field.tag.wire == Wire::bytes ? field.bytes.offset() : field.tag.offset;
  }

  [[noreturn]] void fail_wire(const Line& line, const Field& field) const {
    throw Error(Problem::malformed, place_of(field),
                name_of(line) + " of " + message_ + " has wire type " +
                    std::to_string(static_cast<int>(field.tag.wire)) + ", expected " +
                    std::to_string(static_cast<int>(line.wire)));
  }

  [[noreturn]] void fail_twice(const Line& line, const Field& field) const {
    throw Error(Problem::malformed, place_of(field),
                name_of(line) + " of " + message_ + " comes twice, expected once");
  }

  std::string message_;
  nb::object span_;
  std::vector<Line> lines_;
  std::vector<std::uint8_t> by_number_;
};

}  // namespace

void bind_messages(nb::module_& module) {
  nb::class_<MessageFields>(module, "MessageFields",
                            nb::type_slots(message_fields_slots),
                            "The fields of one message: (number, wire type, value, offset of the "
                            "field) or, length-delimited, (number, 2, start, end).")
      .def(nb::init<nb::object, std::uint64_t, std::uint64_t>(), "source"_a, "start"_a, "end"_a)
      .def("next", &MessageFields::next, "What `__next__` gives, unless it is the end.");
  nb::class_<MessageTable>(module, "MessageTable",
                           "The fields of one kind of message, by which such messages are read.")
      .def(nb::init<std::string, nb::list, nb::type_object>(), "message"_a, "fields"_a, "span"_a)
      .def("read", &MessageTable::read, "source"_a, "start"_a, "end"_a, "without"_a = nb::none(),
           "The fields of a message by name, without one that is repeated.")
      .def("spans", &MessageTable::spans, "source"_a, "start"_a, "end"_a, "name"_a, "most"_a,
           "The places of the first messages in a repeated field.")
      .def("rows", &MessageTable::rows, "source"_a, "spans"_a,
           "Messages, each as a tuple of all fields of the table.");
}

}  // namespace ferry::python
