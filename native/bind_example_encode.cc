// Columns to Examples.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "core/example.h"
#include "core/team.h"
#include "core/tfrecord.h"
#include "pieces.h"
#include "python.h"
#include "threads.h"

namespace ferry::python {

namespace {

using example::Kind;

// Sources: (name, kind, sequence, values, list splits or None, length of every list,
// row splits or None, missing or None). Splits are copied and checked here, once, so that the loop
// need not; values may change meanwhile, see example::encode. What was prepared is held until the
// next time.
class Encoder {
 public:
  Encoder() = default;
  Encoder(const Encoder&) = delete;

  void prepare(nb::list given, std::size_t rows) {
    const Turn::Use use(turn_);
    forget();
    const nb::list own = copy_of(given);
    sources_.resize(own.size());
    strings_.resize(own.size());
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      parse(parts_of(own[i], 8), rows, sources_[i], strings_[i]);
    }
    rows_ = rows;
  }

  // Rows `first` to `end` as framed records.
  nb::object encode(std::size_t first, std::size_t end) {
    const Turn::Use use(turn_);
    check_rows(first, end);
    return encode_one(first, end);
  }

  // The same in pieces of about so many bytes, which so many more threads encode and `hand_on` gets
  // in order.
  void encode_pieces(std::size_t first, std::size_t end, std::size_t size, std::size_t threads,
                     nb::callable hand_on) {
    const Turn::Use use(turn_);
    check_rows(first, end);
    const std::size_t start = std::min(first + first_piece, end);
    const std::size_t head = hand_on_one(first, start, hand_on);
    if (start == end) return;
    const std::size_t rows = std::max<std::size_t>(1, (start - first) * size / head);
    if (end - start <= rows) {  // not worth a thread
      hand_on_one(start, end, hand_on);
      return;
    }
    const std::size_t count = (end - start + rows - 1) / rows;
    constexpr std::size_t most = 4;  // that are encoded and handed on at a time
    Slot slots[most];
    Unlocked unlocked;
    ferry::Team team(threads);
    const auto submit = [&](std::size_t number) {  // with the GIL
      Slot& slot = slots[number % most];
      const std::size_t begin = start + number * rows;
      prepare_slot(slot, begin, std::min(begin + rows, end));
      team.submit([&slot] { slot.encode(); });
    };
    unlocked.locked([&] {
      for (std::size_t number = 0; number < std::min(most, count); ++number) submit(number);
    });
    for (std::size_t number = 0; number < count; ++number) {
      Slot& slot = slots[number % most];
      team.wait();
      if (slot.failure) std::rethrow_exception(slot.failure);
      unlocked.locked([&] {
        slot.texts.clear();
        call(hand_on, pieces_->lend(std::move(slot.out)));
        if (number + most < count) submit(number + most);
      });
    }
  }

  void clear() {
    const Turn::Use use(turn_);
    forget();
  }

 private:
  // The strings of a source: bytes objects, or strings of one size that lie side by side.
  struct Strings {
    PyObject* list = nullptr;
    const std::uint8_t* objects = nullptr;  // as pointers
    const std::uint8_t* bytes = nullptr;
    std::size_t size = 0;
  };

  // Bytes objects that are being written. They are held, because whoever owns the array that they
  // are in may put others there.
  class Texts {
   public:
    Texts() = default;
    Texts(const Texts&) = delete;
    ~Texts() { clear(); }
    // Room for some more; `hold` then says that they are there.
    PyObject** room(std::size_t count) { return held_.room(count); }
    void hold(std::size_t count) noexcept {
      PyObject** const first = held_.data() + held_.size();
      for (std::size_t i = 0; i < count; ++i) Py_INCREF(first[i]);
      held_.grow(count);
    }
    void clear() noexcept {
      for (std::size_t i = 0; i < held_.size(); ++i) Py_DECREF(held_[i]);
      held_.cut(0);
    }

   private:
    example::Scratch<PyObject*> held_;
  };

  // Rows that are encoded in one go.
  struct Slot {
    std::vector<example::Source> sources;
    Texts texts;
    std::size_t first = 0;
    std::size_t end = 0;
    Bytes out;
    std::exception_ptr failure;

    // Without the GIL.
    void encode() noexcept {
      try {
        example::encode(sources, first, end, out);
      } catch (...) {
        failure = std::current_exception();
      }
    }
  };

  // From how many rows the size of the others is guessed.
  static constexpr std::size_t first_piece = 64;

  void check_rows(std::size_t first, std::size_t end) const {
    if (first > end || end > rows_) throw nb::index_error("no such rows");
  }

  void prepare_slot(Slot& slot, std::size_t first, std::size_t end) {
    slot.first = first;
    slot.end = end;
    if (slot.sources.empty()) slot.sources = sources_;
    for (std::size_t i = 0; i < slot.sources.size(); ++i) {
      if (slot.sources[i].kind == Kind::bytes) gather(slot, i);
    }
    slot.out = pieces_->take();
  }

  nb::object encode_one(std::size_t first, std::size_t end) {
    Slot slot;
    prepare_slot(slot, first, end);
    {
      const Unlocked unlocked;
      slot.encode();
    }
    if (slot.failure) std::rethrow_exception(slot.failure);
    return pieces_->lend(std::move(slot.out));
  }

  // Gives how many bytes it handed on.
  std::size_t hand_on_one(std::size_t first, std::size_t end, nb::handle hand_on) {
    const nb::object view = encode_one(first, end);
    const std::size_t size = Buffer(view).size();
    call(hand_on, view);
    return size;
  }

  // Where the strings of the rows lie: looked up a piece at a time, which takes no memory for all
  // of them.
  void gather(Slot& slot, std::size_t index) {
    example::Source& source = slot.sources[index];
    const Strings& strings = strings_[index];
    const example::Range values = example::values_of_rows(source, slot.first, slot.end);
    source.first_text = values.begin;
    source.texts.resize(values.end - values.begin);
    if (strings.bytes != nullptr) {
      const std::uint8_t* at = strings.bytes + values.begin * strings.size;
      for (example::Text& text : source.texts) text = {std::exchange(at, at + strings.size), strings.size};
    } else if (strings.list != nullptr) {
      gather_objects(source, [&](std::size_t i) { return item_of_list(strings.list, i); });
    } else {
      gather_objects(source, [&, held = slot.texts.room(source.texts.size())](std::size_t i) mutable {
        return *held++ = object_at(strings.objects, i);
      });
      slot.texts.hold(source.texts.size());
    }
  }

  template <typename ObjectAt>
  static void gather_objects(example::Source& source, ObjectAt object_at) {
    std::size_t i = source.first_text;
    for (example::Text& text : source.texts) {
      PyObject* const object = object_at(i++);
      if (object == nullptr || !look_into(object, text)) {
        throw nb::type_error("a string tensor holds bytes");
      }
    }
  }

  void forget() {
    rows_ = 0;
    sources_.clear();
    strings_.clear();
    splits_.clear();
    buffers_.clear();
    lists_.clear();
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
        lists_.push_back(copy_of(nb::cast<nb::list>(given[3])));
        strings.list = lists_.back().ptr();
        values = lists_.back().size();
      } else {  // contiguous, as PyBUF_ND without strides asks for
        buffers_.push_back(std::make_unique<Buffer>(given[3], PyBUF_FORMAT | PyBUF_ND));
        const Buffer& buffer = *buffers_.back();
        const std::string format = buffer.format();
        if (format == "O") {  // an array of bytes objects
          strings.objects = buffer.data();
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
      source.values = buffer.data();
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
    const Buffer buffer(given);
    const std::size_t given_count = buffer.size() / sizeof(std::int64_t);
    // One more than `count`, which may be the largest number that there is.
    if (given_count == 0 || given_count - 1 != count || buffer.size() % sizeof(std::int64_t) != 0) {
      throw nb::value_error("bad splits");
    }
    std::vector<std::int64_t>& splits = splits_.emplace_back(given_count);
    std::memcpy(splits.data(), buffer.data(), buffer.size());
    if (splits[0] != 0) throw nb::value_error("bad splits");
    for (std::size_t i = 0; i < count; ++i) {
      if (splits[i] > splits[i + 1]) throw nb::value_error("splits that fall");
    }
    end = static_cast<std::size_t>(splits[count]);
    return splits.data();
  }

  std::vector<example::Source> sources_;
  std::vector<Strings> strings_;
  std::deque<std::vector<std::int64_t>> splits_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<nb::list> lists_;
  std::size_t rows_ = 0;
  std::shared_ptr<Pieces> pieces_ = std::make_shared<Pieces>();
  Turn turn_{"the encoder"};
};

}  // namespace

void bind_example_encode(nb::module_& module) {
  nb::class_<Encoder>(module, "ExampleEncoder", "Writes columns as framed Examples.")
      .def(nb::init<>())
      .def("prepare", &Encoder::prepare, "sources"_a, "rows"_a)
      .def("encode", &Encoder::encode, "first"_a, "end"_a)
      .def("encode_pieces", &Encoder::encode_pieces, "first"_a, "end"_a, "size"_a, "threads"_a,
           "hand_on"_a)
      .def("clear", &Encoder::clear);
}

}  // namespace ferry::python
