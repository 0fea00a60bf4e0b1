// Columns to Examples.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <tuple>

#include "core/example.h"
#include "core/team.h"
#include "core/tfrecord.h"
#include "python.h"

namespace ferry::python {

namespace {

using example::Kind;

// Sources: (name, kind, sequence, values, list splits or None, length of every list,
// row splits or None, missing or None). Splits and values are checked here, once, so that the loop
// need not. What was prepared is held until the next time.
class Encoder {
 public:
  Encoder() = default;
  Encoder(const Encoder&) = delete;

  void prepare(nb::list given, std::size_t rows) {
    clear();
    sources_.resize(given.size());
    strings_.resize(given.size());
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      parse(nb::cast<nb::tuple>(given[i]), rows, sources_[i], strings_[i]);
    }
    rows_ = rows;
  }

  // Rows `first` to `end` as framed records, a view that is good until the next call.
  nb::object encode(std::size_t first, std::size_t end) {
    check_rows(first, end);
    {
      nb::gil_scoped_release unlocked;
      encode(first, end, slots_[0]);
    }
    return view(slots_[0]);
  }

  // The same in pieces of about so many bytes, which so many more threads encode and `hand_on` gets
  // in order:
  // views that are good for the time of that call. Memory that was just used is fast memory.
  void encode_pieces(std::size_t first, std::size_t end, std::size_t size, std::size_t threads,
                     nb::callable hand_on) {
    check_rows(first, end);
    const std::size_t start = std::min(first + first_piece, end);
    hand_on(encode(first, start));
    if (start == end) return;
    const std::size_t rows = std::max<std::size_t>(1, (start - first) * size / slots_[0].size());
    if (end - start <= rows) {  // not worth a thread
      hand_on(encode(start, end));
      return;
    }
    const std::size_t count = (end - start + rows - 1) / rows;
    constexpr std::size_t slots = std::extent_v<decltype(slots_)>;
    std::exception_ptr failures[slots];
    const auto encode_piece = [&](std::size_t number) {
      const std::size_t begin = start + number * rows;
      try {
        encode(begin, std::min(begin + rows, end), slots_[number % slots]);
      } catch (...) {
        failures[number % slots] = std::current_exception();
      }
    };
    nb::gil_scoped_release unlocked;
    ferry::Team team(threads);
    std::size_t given = 0;
    for (std::size_t number = 0; number < count; ++number) {
      for (; given < count && given < number + slots; ++given) {
        team.submit([&encode_piece, given] { encode_piece(given); });
      }
      team.wait();
      if (failures[number % slots]) std::rethrow_exception(failures[number % slots]);
      nb::gil_scoped_acquire locked;
      hand_on(view(slots_[number % slots]));
    }
  }

  void clear() {
    rows_ = 0;
    sources_.clear();
    strings_.clear();
    buffers_.clear();
    lists_.clear();
  }

 private:
  // The strings of a source: bytes objects, or strings of one size that lie side by side.
  struct Strings {
    PyObject** objects = nullptr;
    const std::uint8_t* bytes = nullptr;
    std::size_t size = 0;
  };

  // From how many rows the size of the others is guessed.
  static constexpr std::size_t first_piece = 64;

  void check_rows(std::size_t first, std::size_t end) const {
    if (first > end || end > rows_) throw nb::index_error("no such rows");
  }

  // Without the GIL: nobody may change what is being written anyway.
  void encode(std::size_t first, std::size_t end, example::Scratch<std::uint8_t>& out) const {
    std::vector<example::Source> sources = sources_;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (sources[i].kind == Kind::bytes) gather(sources[i], strings_[i], first, end);
    }
    out.cut(0);
    example::encode(sources, first, end, out);
  }

  static nb::object view(const example::Scratch<std::uint8_t>& out) {
    static char nothing;
    auto* data = out.size() == 0 ? &nothing : reinterpret_cast<const char*>(out.data());
    return nb::steal(PyMemoryView_FromMemory(const_cast<char*>(data),
                                             static_cast<Py_ssize_t>(out.size()), PyBUF_READ));
  }

  // Where the strings of the rows lie: looked up a piece at a time, which takes no memory for all
  // of them.
  static void gather(example::Source& source, const Strings& strings, std::size_t first,
                     std::size_t end) {
    const example::Range values = example::values_of_rows(source, first, end);
    source.first_text = values.begin;
    source.texts.resize(values.end - values.begin);
    for (std::size_t i = values.begin; i < values.end; ++i) {
      example::Text& text = source.texts[i - values.begin];
      if (strings.objects == nullptr) {
        text = {strings.bytes + i * strings.size, strings.size};
        continue;
      }
      PyObject* object = strings.objects[i];
      if (!PyBytes_Check(object)) throw nb::type_error("a string tensor holds bytes");
      text = {reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(object)),
              static_cast<std::size_t>(PyBytes_GET_SIZE(object))};
    }
  }

  void parse(nb::tuple given, std::size_t rows, example::Source& source, Strings& strings) {
    const int kind = nb::cast<int>(given[1]);
    if (kind < 1 || kind > 3) throw nb::value_error("a source is of kind 1, 2 or 3");
    source.name = nb::cast<std::string>(given[0]);
    source.kind = static_cast<Kind>(kind);
    source.sequence = nb::cast<bool>(given[2]);
    std::size_t values = 0;
    if (source.kind == Kind::bytes) {
      if (nb::isinstance<nb::list>(given[3])) {
        lists_.push_back(nb::cast<nb::list>(given[3]));
        strings.objects = PySequence_Fast_ITEMS(lists_.back().ptr());
        values = lists_.back().size();
      } else {  // contiguous, as PyBUF_ND without strides asks for
        buffers_.push_back(std::make_unique<Buffer>(given[3], PyBUF_FORMAT | PyBUF_ND));
        const Buffer& buffer = *buffers_.back();
        const std::string format = buffer.format();
        if (format == "O") {  // an array of bytes objects
          strings.objects = reinterpret_cast<PyObject**>(buffer.data());
          values = buffer.size() / sizeof(PyObject*);
        } else if (format == "B" && buffer.rank() == 2) {  // strings of one size, side by side
          strings.bytes = buffer.data();
          strings.size = buffer.dimension(1);
          values = buffer.dimension(0);
        } else {
          throw nb::type_error("strings are bytes objects, or rows of bytes");
        }
      }
    } else {
      buffers_.push_back(std::make_unique<Buffer>(given[3]));
      const Buffer& buffer = *buffers_.back();
      const std::size_t width = source.kind == Kind::integers ? 8 : 4;
      if (buffer.size() % width != 0) throw nb::value_error("values of another width");
      values = buffer.size() / width;
      source.integers = reinterpret_cast<const std::int64_t*>(buffer.data());
      source.floats = reinterpret_cast<const float*>(buffer.data());
    }
    std::size_t count = rows;
    if (!given[6].is_none()) {
      if (!source.sequence) throw nb::value_error("only sequences have row splits");
      source.row_splits = splits(given[6], rows, count);
    } else if (source.sequence) {
      throw nb::value_error("a sequence has row splits");
    }
    if (!given[4].is_none()) {
      std::size_t end = 0;
      source.splits = splits(given[4], count, end);
      if (end != values) throw nb::value_error("list splits end elsewhere than the values");
    } else {
      source.length = nb::cast<std::size_t>(given[5]);
      if (count != 0 && (source.length != values / count || values % count != 0)) {
        throw nb::value_error("other than so many values a list");
      }
    }
    if (!given[7].is_none()) {
      buffers_.push_back(std::make_unique<Buffer>(given[7]));
      if (buffers_.back()->size() != rows) throw nb::value_error("missing is for other rows");
      source.missing = buffers_.back()->data();
    }
  }

  const std::int64_t* splits(nb::handle given, std::size_t count, std::size_t& end) {
    buffers_.push_back(std::make_unique<Buffer>(given));
    const Buffer& buffer = *buffers_.back();
    const auto* data = reinterpret_cast<const std::int64_t*>(buffer.data());
    if (buffer.size() != (count + 1) * 8 || data[0] != 0) throw nb::value_error("bad splits");
    for (std::size_t i = 0; i < count; ++i) {
      if (data[i] > data[i + 1]) throw nb::value_error("splits that fall");
    }
    end = static_cast<std::size_t>(data[count]);
    return data;
  }

  std::vector<example::Source> sources_;
  std::vector<Strings> strings_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<nb::list> lists_;
  std::size_t rows_ = 0;
  example::Scratch<std::uint8_t> slots_[4];
};

}  // namespace

void bind_example_encode(nb::module_& module) {
  nb::class_<Encoder>(module, "ExampleEncoder", "Writes columns as framed Examples.")
      .def(nb::init<>())
      .def("prepare", &Encoder::prepare, "sources"_a, "rows"_a)
      .def("encode", nb::overload_cast<std::size_t, std::size_t>(&Encoder::encode), "first"_a, "end"_a)
      .def("encode_pieces", &Encoder::encode_pieces, "first"_a, "end"_a, "size"_a, "threads"_a,
           "hand_on"_a)
      .def("clear", &Encoder::clear);
}

}  // namespace ferry::python
