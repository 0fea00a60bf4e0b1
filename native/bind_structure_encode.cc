// Python's values to StructuredValues.
//
// A value is walked once: each part becomes a node with its size, and what is small is encoded
// right away. Then the nodes are written one after the other, since all lengths are known. Large
// arrays are handed on as they are.
#include <algorithm>
#include <string_view>

#include "core/structure.h"
#include "core/tensorproto.h"
#include "python.h"

namespace ferry::python {

namespace {

// An array of at least so many bytes is handed on instead of copied.
constexpr std::size_t large = 4096;
constexpr int tensor_depth = 3;  // TensorProto, its shape, a dimension

// A part of a value. Those of a list, tuple, dict or named tuple follow it, `children` of them,
// each with its own.
struct Node {
  std::uint32_t field = 0;  // 0: a scalar, encoded with its field
  std::size_t size = 0;     // of the message
  std::size_t body = 0;     // of what its field holds
  std::size_t children = 0;
  // Where in the small parts its bytes stand: a scalar, the name of a named tuple, what stands
  // before the values of a tensor; and the key that leads to it.
  std::size_t start = 0, length = 0;
  std::size_t key_start = 0, key_length = 0;
  std::ptrdiff_t view = -1;    // which buffer has the values of a tensor
  std::ptrdiff_t pieces = -1;  // which list of buffers is the message of a tensor
};

class StructureWriter {
 public:
  // `enums` has the number of each dtype whose values are written as they lie in memory.
  StructureWriter(nb::object ndarray, nb::dict enums)
      : ndarray(std::move(ndarray)), enums(std::move(enums)) {}

  nb::tuple encode(nb::object value, nb::object builder, int depth) const;

  nb::object ndarray;
  nb::dict enums;
};

// Walks one value, and writes it.
class Encoding {
 public:
  Encoding(const StructureWriter& writer, nb::object builder)
      : writer_(writer), builder_(std::move(builder)), quick_(nb::borrow<nb::dict>(nb::object(builder_.attr("quick")))) {}
  ~Encoding() {
    for (Py_buffer& view : views_) PyBuffer_Release(&view);
  }
  Encoding(const Encoding&) = delete;
  Encoding& operator=(const Encoding&) = delete;

  std::size_t walk(nb::handle value, int depth, bool is_converted = false) {
    PyObject* const object = value.ptr();
    PyTypeObject* const type = Py_TYPE(object);
    if (depth < 0) refuse_depth();
    const Level level;
    if (type == reinterpret_cast<PyTypeObject*>(writer_.ndarray.ptr())) return array(value, depth);
    if (type == &PyFloat_Type) return real(PyFloat_AsDouble(object));
    if (type == &PyUnicode_Type && text(object)) return nodes_.back().size;
    if (type == &PyBool_Type) return scalar({0x70, object == Py_True ? '\1' : '\0'});
    if (type == &PyLong_Type && integer(object)) return nodes_.back().size;
    if (object == Py_None) {
      if (depth < 1) refuse_depth();
      return scalar({0x0a, 0});
    }
    if (type == &PyList_Type) return list(value, depth);
    if (type == &PyTuple_Type) return tuple(value, depth);
    if (type == &PyDict_Type) return dict(nb::borrow(value), structure::dict_field, {}, depth);
    if (is_converted) throw nb::type_error("a builder gave what has no place in a structure");
    PyObject* const look = PyDict_GetItemWithError(quick_.ptr(), reinterpret_cast<PyObject*>(type));
    if (look == nullptr) {
      if (PyErr_Occurred() != nullptr) throw nb::python_error();
      return other(value, depth);
    }
    kept_.push_back(call(nb::object(nb::borrow(look)), value));  // it may take itself out of the dict
    return walk(nb::object(kept_.back()), depth, true);
  }

  // The whole message, as bytes and large arrays.
  nb::list written() {
    std::size_t small = nodes_[0].size;  // about: what others encoded may be large, too
    for (const Py_buffer& view : views_) {
      const auto size = static_cast<std::size_t>(view.len);
      if (size >= large) small -= size;
    }
    out_.reserve(small);
    emit(0);
    flush();
    return buffers_;
  }

 private:
  Node& add(std::uint32_t field) {
    Node& node = nodes_.emplace_back();
    node.field = field;
    return node;
  }

  std::size_t scalar(std::initializer_list<char> bytes) {
    Node& node = add(0);
    node.start = parts_.size();
    node.length = node.size = bytes.size();
    parts_.append(bytes);
    return node.size;
  }

  std::size_t real(double number) {
    Node& node = add(0);
    node.start = parts_.size();
    node.length = node.size = 1 + sizeof(number);
    parts_ += static_cast<char>(structure::real_field << 3 | 1);
    parts_.append(reinterpret_cast<const char*>(&number), sizeof(number));
    return node.size;
  }

  // False if it does not fit 64 bits.
  bool integer(PyObject* object) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) return false;
    std::uint8_t bytes[11] = {structure::integer_field << 3};
    const auto zigzag =
        static_cast<std::uint64_t>(number) << 1 ^ static_cast<std::uint64_t>(number >> 63);
    const std::uint8_t* const end = put_varint(bytes + 1, zigzag);
    Node& node = add(0);
    node.start = parts_.size();
    node.length = node.size = static_cast<std::size_t>(end - bytes);
    parts_.append(reinterpret_cast<const char*>(bytes), node.size);
    return true;
  }

  // False if UTF-8 has no bytes for it.
  bool text(PyObject* object) {
    Py_ssize_t size = 0;
    const char* const utf8 = PyUnicode_AsUTF8AndSize(object, &size);
    if (utf8 == nullptr) {
      PyErr_Clear();
      return false;
    }
    std::uint8_t head[11] = {structure::text_field << 3 | 2};
    const std::uint8_t* const end = put_varint(head + 1, static_cast<std::uint64_t>(size));
    Node& node = add(0);
    node.start = parts_.size();
    parts_.append(reinterpret_cast<const char*>(head), static_cast<std::size_t>(end - head));
    parts_.append(utf8, static_cast<std::size_t>(size));
    node.length = node.size = parts_.size() - node.start;
    return true;
  }

  std::size_t array(nb::handle value, int depth) {
    if (depth < tensor_depth) refuse_depth();
    static PyObject* const name = PyUnicode_InternFromString("dtype");
    PyObject* const found = PyObject_GetAttr(value.ptr(), name);
    if (found == nullptr) throw nb::python_error();
    const nb::object dtype = nb::steal(found);
    if (!dtype.is(dtype_)) {
      PyObject* const number = PyDict_GetItemWithError(writer_.enums.ptr(), found);
      if (number == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
      enum_ = number == nullptr ? -1 : PyLong_AsLong(number);
      dtype_ = dtype;
    }
    Py_buffer view;
    if (enum_ < 0) return tensor(value);
    if (PyObject_GetBuffer(value.ptr(), &view, PyBUF_ND) != 0) {
      PyErr_Clear();  // it is not contiguous, or NumPy has no letter for its dtype
      return tensor(value);
    }
    const auto size = static_cast<std::uint64_t>(view.len);
    if (size > max_content || view.ndim > static_cast<int>(tensorproto::max_dimensions)) {
      PyBuffer_Release(&view);
      return tensor(value);
    }
    views_.push_back(view);
    std::int64_t dims[tensorproto::max_dimensions];
    std::copy_n(view.shape, view.ndim, dims);
    const std::string header = tensorproto::header(static_cast<std::uint64_t>(enum_), dims,
                                                   static_cast<std::size_t>(view.ndim), size);
    Node& node = add(structure::tensor_field);
    node.start = parts_.size();
    node.length = header.size();
    parts_ += header;
    node.view = static_cast<std::ptrdiff_t>(views_.size()) - 1;
    return framed(node, header.size() + static_cast<std::size_t>(size));
  }

  // A tensor that Python encodes: strings, and what is not contiguous.
  std::size_t tensor(nb::handle value) {
    const nb::tuple found = parts_of(ask("tensor", value, place()), 2);
    // A list of our own: a buffer that is asked for may run any code, and that may change the list.
    if (!PyList_Check(nb::object(found[0]).ptr())) throw nb::type_error("the buffers are a list");
    pieces_.push_back(copy_of(nb::borrow<nb::list>(found[0])));
    Node& node = add(structure::tensor_field);
    node.pieces = static_cast<std::ptrdiff_t>(pieces_.size()) - 1;
    return framed(node, nb::cast<std::size_t>(found[1]));
  }

  std::size_t list(nb::handle value, int depth) {
    if (depth < 1) refuse_depth();
    const std::size_t number = nodes_.size();
    add(structure::list_field);
    std::size_t count = 0, body = 0;
    // Converting an element may run any code, and that may change the list.
    for (; count < static_cast<std::size_t>(PyList_Size(value.ptr())); ++count) {
      const nb::object element = nb::borrow(PyList_GetItem(value.ptr(), static_cast<Py_ssize_t>(count)));
      body += this->element(element, count, depth - 2);
    }
    nodes_[number].children = count;
    return framed(nodes_[number], body);
  }

  std::size_t tuple(nb::handle value, int depth) {
    if (depth < 1) refuse_depth();
    const std::size_t number = nodes_.size();
    const auto count = static_cast<std::size_t>(PyTuple_Size(value.ptr()));
    add(structure::tuple_field).children = count;
    std::size_t body = 0;
    for (std::size_t i = 0; i < count; ++i) {
      body += element(PyTuple_GetItem(value.ptr(), static_cast<Py_ssize_t>(i)), i, depth - 2);
    }
    return framed(nodes_[number], body);
  }

  std::size_t element(nb::handle value, std::size_t index, int depth) {
    path_.push_back({{}, index});
    const std::size_t size = walk(value, depth);
    path_.pop_back();
    return 1 + varint_size(size) + size;
  }

  std::size_t dict(nb::object value, std::uint32_t field, std::string_view name, int depth) {
    if (depth < 1) refuse_depth();
    const std::size_t number = nodes_.size();
    Node& node = add(field);
    std::size_t body = 0;
    if (field == structure::named_field) {
      node.start = parts_.size();
      node.length = name.size();
      parts_ += name;
      body = 1 + varint_size(name.size()) + name.size();
    }
    if (!PyDict_Check(value.ptr())) throw nb::type_error("the parts of a named tuple are a dict");
    // A list of its own: converting a value may run any code, and that may change the dict.
    PyObject* const items = PyDict_Items(value.ptr());
    if (items == nullptr) throw nb::python_error();
    const nb::object kept = nb::steal(items);
    const auto count = static_cast<std::size_t>(PyList_Size(items));
    for (std::size_t i = 0; i < count; ++i) {
      PyObject* const item = PyList_GetItem(items, static_cast<Py_ssize_t>(i));
      body += pair(PyTuple_GetItem(item, 0), PyTuple_GetItem(item, 1), depth - 3);
    }
    nodes_[number].children = count;
    return framed(nodes_[number], body);
  }

  std::size_t pair(nb::handle key, nb::handle value, int depth) {
    Py_ssize_t length = 0;
    const char* const utf8 =
        PyUnicode_Check(key.ptr()) ? PyUnicode_AsUTF8AndSize(key.ptr(), &length) : nullptr;
    if (utf8 == nullptr) {
      PyErr_Clear();
      ask("key", key, place());
      throw nb::type_error("a dict key is no text");
    }
    const std::size_t start = parts_.size();
    const auto size = static_cast<std::size_t>(length);
    parts_.append(utf8, size);
    path_.push_back({nb::borrow(key), 0});
    const std::size_t number = nodes_.size();
    walk(value, depth);
    path_.pop_back();
    nodes_[number].key_start = start;
    nodes_[number].key_length = size;
    const std::size_t inner = pair_size(nodes_[number]);
    return 1 + varint_size(inner) + inner;
  }

  static std::size_t pair_size(const Node& node) {
    return 1 + varint_size(node.key_length) + node.key_length + 1 + varint_size(node.size) +
           node.size;
  }

  // What Python knows: a value that stands for it, or the name and the parts of a named tuple.
  std::size_t other(nb::handle value, int depth) {
    const nb::tuple found = parts_of(ask("other", value, place()), 2);
    const nb::object name = found[0], stand_in = found[1];
    if (name.is_none()) {
      kept_.push_back(stand_in);
      return walk(stand_in, depth, true);
    }
    Py_ssize_t length = 0;
    const char* const utf8 = PyUnicode_AsUTF8AndSize(name.ptr(), &length);
    if (utf8 == nullptr) throw nb::python_error();
    return dict(stand_in, structure::named_field, {utf8, static_cast<std::size_t>(length)}, depth);
  }

  static std::size_t framed(Node& node, std::size_t body) {
    node.body = body;
    node.size = structure::frame_size(node.field, body) + body;
    return node.size;
  }

  [[noreturn]] void refuse_depth() {
    ask("too_deep", place());
    throw nb::type_error("a structure is too deep");
  }

  // Where in the structure this is: "layers/0/kernel".
  nb::object place() const {
    nb::list names;
    for (const auto& [key, index] : path_) {
      names.append(key.is_valid() ? key : nb::object(nb::str(std::to_string(index).c_str())));
    }
    return nb::str("/").attr("join")(names);
  }

  template <typename... Arguments>
  nb::object ask(const char* method, const Arguments&... arguments) {
    return call(nb::object(builder_.attr(method)), arguments...);
  }

  // Writes the message of a node, and gives the number of the node behind it and its parts.
  std::size_t emit(std::size_t number) {
    const Node node = nodes_[number];
    if (node.field == 0) {
      out_.append(parts_, node.start, node.length);
      return number + 1;
    }
    put_frame(node.field, node.body);
    if (node.field == structure::tensor_field) {
      emit_tensor(node);
      return number + 1;
    }
    const bool is_named = node.field == structure::named_field;
    if (is_named) {
      put_small(1, parts_.data() + node.start, node.length);
    }
    const bool has_keys = is_named || node.field == structure::dict_field;
    std::size_t next = number + 1;
    for (std::size_t i = 0; i < node.children; ++i) {
      const Node& child = nodes_[next];
      if (has_keys) {
        put_frame(is_named ? 2 : 1, pair_size(child));
        put_small(1, parts_.data() + child.key_start, child.key_length);
        put_frame(2, child.size);
      } else {
        put_frame(1, child.size);
      }
      next = emit(next);
    }
    return next;
  }

  void emit_tensor(const Node& node) {
    if (node.pieces >= 0) {
      for (nb::handle piece : pieces_[static_cast<std::size_t>(node.pieces)]) {
        const Buffer buffer(piece);
        put_buffer(reinterpret_cast<const char*>(buffer.data()), buffer.size(), piece);
      }
      return;
    }
    out_.append(parts_, node.start, node.length);
    const Py_buffer& view = views_[static_cast<std::size_t>(node.view)];
    put_buffer(static_cast<const char*>(view.buf), static_cast<std::size_t>(view.len), view.obj);
  }

  void put_buffer(const char* data, std::size_t size, nb::handle owner) {
    if (size < large) {
      if (size > 0) out_.append(data, size);
      return;
    }
    flush();
    buffers_.append(owner);
  }

  void put_small(std::uint32_t field, const char* data, std::size_t size) {
    put_frame(field, size);
    out_.append(data, size);
  }

  void put_frame(std::uint32_t field, std::size_t body) {
    std::uint8_t bytes[12];
    const std::uint8_t* const end = structure::put_frame(bytes, field, body);
    out_.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(end - bytes));
  }

  void flush() {
    if (!out_.empty()) buffers_.append(nb::bytes(out_.data(), out_.size()));
    out_.clear();
  }

  struct Step {
    nb::object key;  // without an object: an index
    std::size_t index;
  };

  // Less than protobuf's limit, with room for the longest header.
  static constexpr std::uint64_t max_content = (std::uint64_t{1} << 31) - 1 - 4096;

  const StructureWriter& writer_;
  nb::object builder_;
  nb::dict quick_;  // functions that give the array of a tensor, by its class
  std::vector<Node> nodes_;
  std::string parts_;
  std::vector<Py_buffer> views_;
  std::vector<nb::list> pieces_;
  std::vector<nb::object> kept_;
  std::vector<Step> path_;
  nb::object dtype_;
  long enum_ = -1;
  std::string out_;
  nb::list buffers_;
};

nb::tuple StructureWriter::encode(nb::object value, nb::object builder, int depth) const {
  Encoding encoding(*this, builder);
  const std::size_t size = encoding.walk(value, depth);
  return nb::make_tuple(encoding.written(), size);
}

}  // namespace

void bind_structure_encode(nb::module_& module) {
  nb::class_<StructureWriter>(module, "StructureWriter",
                              "Writes StructuredValues; `enums` has the numbers of dtypes.")
      .def(nb::init<nb::object, nb::dict>(), "ndarray"_a, "enums"_a)
      .def("encode", &StructureWriter::encode, "value"_a.none(), "builder"_a, "depth"_a,
           "The message as a list of buffers, large arrays as they are, and its size. `builder` "
           "has a dict `quick` of functions that give the array of a tensor, by its class, and the "
           "methods other(value, place), which gives (None, a value that stands for it) or "
           "(the name of a named tuple, its parts), tensor(array, place), which gives buffers and "
           "their size, and key(key, place) and too_deep(place), which raise.");
}

}  // namespace ferry::python
