// Examples to columns.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <tuple>
#include <type_traits>

#include "columns.h"
#include "core/example.h"
#include "core/team.h"
#include "core/tfrecord.h"
#include "python.h"

namespace ferry::python {

namespace {

using example::Kind;
using tfrecord::Record;
using tfrecord::Status;

// Calls `add` with each record of the frames in a buffer, until one is not whole or throws.
// `end` is then the start of that record.
template <typename Add>
Status each_frame(const Buffer& buffer, std::uint64_t& end, std::uint64_t limit, bool verify,
                  Add add, bool again = false) {
  const auto add_record = [&](const Record& record) {
    add(buffer.span(record.data, record.data + record.length));
  };
  return tfrecord::walk(buffer.span(), end, limit, verify, add_record, again);
}

class Survey {
 public:
  nb::tuple add(nb::handle source, std::uint64_t start, std::uint64_t limit, bool verify) {
    const Turn::Use use(turn_);
    Buffer buffer(source);
    check_start(buffer, start);
    const std::uint64_t before = survey_.rows();
    Status status;
    {
      const Unlocked unlocked;
      status = each_frame(buffer, start, limit, verify, [&](Span record) { survey_.add(record); });
    }
    return range(survey_.rows() - before, start, status);
  }

  void add_record(nb::handle source) {
    const Turn::Use use(turn_);
    Buffer buffer(source);
    survey_.add(buffer.span());
  }

  std::uint64_t rows() {
    const Turn::Use use(turn_);
    return survey_.rows();
  }

  nb::list features() {
    const Turn::Use use(turn_);
    nb::list result;
    for (const example::Feature& feature : survey_.features()) {
      result.append(nb::make_tuple(
          nb::bytes(feature.name.data(), feature.name.size()), feature.sequence,
          static_cast<int>(feature.kind), feature.mixed, feature.rows, feature.lists,
          feature.lists == 0 ? 0 : feature.shortest, feature.longest));
    }
    return result;
  }

 private:
  example::Survey survey_;
  Turn turn_{"the survey"};
};

// Memory of arrays that nobody holds any more, for the next batches: fresh pages cost more than
// what is decoded into them. All decoders share it, and it goes with the last of them.
class Spares {
 public:
  Spares() {  // so that `put` never fails
    std::get<0>(pieces_).list.reserve(most_pieces);
    std::get<1>(pieces_).list.reserve(most_pieces);
  }

  static std::shared_ptr<Spares> shared() {
    static std::mutex mutex;
    static std::weak_ptr<Spares> current;
    const std::lock_guard lock(mutex);
    std::shared_ptr<Spares> spares = current.lock();
    if (!spares) current = spares = std::make_shared<Spares>();
    return spares;
  }

  // An array of what is in a scratch, whose memory comes back here when the array is gone.
  template <typename Element>
  static nb::object lend(const std::shared_ptr<Spares>& spares, example::Scratch<Element>& scratch) {
    struct Loan {
      example::Scratch<Element> scratch;
      std::weak_ptr<Spares> lender;
      Loan(example::Scratch<Element> taken, std::weak_ptr<Spares> by)
          : scratch(std::move(taken)), lender(std::move(by)) {}
    };
    const std::size_t size = scratch.size();
    // A little more, because the next batch will have about as many.
    auto loan = std::make_unique<Loan>(spares->take<Element>(size + size / 8), spares);
    std::swap(loan->scratch, scratch);
    Element* data = loan->scratch.data();
    nb::capsule owner(loan.get(), [](void* given) noexcept {
      const std::unique_ptr<Loan> loan(static_cast<Loan*>(given));
      if (const auto lender = loan->lender.lock()) lender->put(loan->scratch);
    });
    loan.release();
    return nb::cast(nb::ndarray<nb::numpy, Element, nb::ndim<1>>(data, {size}, owner));
  }

 private:
  // What is kept of either kind, at most: a batch or two of large ones, more of others.
  static constexpr std::size_t most_pieces = 32;
  static constexpr std::size_t most_bytes = 32 << 20;

  template <typename Element>
  struct Pieces {
    std::vector<example::Scratch<Element>> list;
    std::size_t bytes = 0;
  };

  template <typename Element>
  auto& pieces() {
    return std::get<Pieces<Element>>(pieces_);
  }

  template <typename Element>
  example::Scratch<Element> take(std::size_t count) {
    const std::lock_guard lock(mutex_);
    auto& [list, bytes] = pieces<Element>();
    example::Scratch<Element> found;
    // The last one is the warmest. Much larger ones would be memory that a small array holds.
    const auto fitting = std::find_if(list.rbegin(), list.rend(), [&](const auto& piece) {
      return count <= piece.capacity() && piece.capacity() / 4 <= count;
    });
    if (fitting == list.rend()) {
      found.room(count);
      return found;
    }
    std::swap(found, *fitting);
    list.erase(std::next(fitting).base());
    bytes -= found.capacity() * sizeof(Element);
    found.cut(0);
    return found;
  }

  template <typename Element>
  void put(example::Scratch<Element>& piece) noexcept {
    const std::lock_guard lock(mutex_);
    auto& [list, bytes] = pieces<Element>();
    const std::size_t size = piece.capacity() * sizeof(Element);
    if (list.size() == most_pieces || size > most_bytes - bytes) return;
    list.push_back(std::move(piece));
    bytes += size;
  }

  std::mutex mutex_;
  std::tuple<Pieces<std::int64_t>, Pieces<float>> pieces_;
};

class Decoder {
 public:
  explicit Decoder(nb::list columns) : decoder_(parse_columns(columns)) {}
  Decoder(const Decoder&) = delete;

  // Decodes framed records; on an error, `rows` and `position` say which record it was.
  nb::tuple decode(nb::handle source, std::uint64_t start, std::uint64_t limit, bool verify) {
    const Turn::Use use(turn_);
    Buffer& buffer = hold(source);
    check_start(buffer, start);
    const std::size_t before = decoder_.rows();
    position_ = start;
    if (before == 0) decoder_.expect(limit, buffer.size() - static_cast<std::size_t>(start));
    Status status;
    {
      const Unlocked unlocked;
      status = each_frame(buffer, position_, limit, verify,
                          [&](Span record) { decoder_.add(record); });
      decoder_.settle();
    }
    return range(decoder_.rows() - before, position_, status);
  }

  // Single records, anywhere in some buffers.
  struct Scattered {
    example::Decoder* decoder;
    std::vector<const Buffer*> buffers;
    std::vector<std::uint64_t> numbers;  // the buffer of each record
    std::vector<std::uint64_t> starts;   // of its frame
    bool verify;

    // Whether all is as it should be; if not, decoding one by one finds out what is wrong.
    bool decode() noexcept {
      try {
        for (std::size_t i = 0; i < starts.size(); ++i) {
          touch(i + ahead);
          const Buffer& buffer = *buffers.at(numbers[i]);
          Record record;
          if (starts[i] > buffer.size() ||
              tfrecord::read(buffer.span(), starts[i], verify, record) != Status::record) {
            return false;
          }
          decoder->add(buffer.span(record.data, record.data + record.length));
        }
        decoder->settle();
      } catch (...) {
        return false;
      }
      return true;
    }

   private:
    static constexpr std::size_t ahead = 8;

    // Memory that is needed soon is asked for now: records from anywhere are not in the cache.
    void touch(std::size_t i) const {
#if defined(__GNUC__)
      if (i >= starts.size() || numbers[i] >= buffers.size()) return;
      const Buffer& buffer = *buffers[numbers[i]];
      for (std::uint64_t line = 0; line < 4; ++line) {
        const std::uint64_t place = starts[i] + line * 64;
        if (starts[i] < buffer.size() && place < buffer.size()) __builtin_prefetch(buffer.data() + place);
      }
#else
      static_cast<void>(i);
#endif
    }
  };

  // The number of the buffer of each record, and where its frame starts there, both int64.
  Scattered scatter(nb::list sources, nb::handle which, nb::handle starts, bool verify) {
    std::vector<const Buffer*> buffers;
    for (nb::handle source : copy_of(sources)) buffers.push_back(&hold(source));
    Scattered work{&decoder_, std::move(buffers), copy_numbers(which), copy_numbers(starts), verify};
    if (work.numbers.size() != work.starts.size()) throw nb::value_error("a buffer for each record");
    return work;
  }

  bool decode_at(nb::list sources, nb::handle which, nb::handle starts, bool verify) {
    const Turn::Use use(turn_);
    Scattered work = scatter(sources, which, starts, verify);
    const Unlocked unlocked;
    return work.decode();
  }

  void decode_records(nb::list values) {
    const Turn::Use use(turn_);
    records_.push_back(copy_of(values));
    const std::vector<Span> spans = spans_of(records_.back());
    const Unlocked unlocked;
    for (const Span& span : spans) {
      inputs_.emplace_back(span.data, span.size);
      decoder_.add(inputs_.back().span());
    }
  }

  // Frames that were gone through, and are to be decoded later, without the GIL.
  struct Piece {
    example::Decoder* decoder;
    const Buffer* buffer;
    std::uint64_t start;
    std::uint64_t count;
    bool verify;

    // Whether all is as it should be; if not, decoding it again finds out what is wrong.
    bool decode() noexcept {
      try {
        if (decoder->rows() == 0) {
          decoder->expect(count, buffer->size() - static_cast<std::size_t>(start));
        }
        const auto add = [&](const Span& record) { decoder->add(record); };
        const Status status = each_frame(*buffer, start, count, verify, add, true);
        decoder->settle();
        return status == Status::record;
      } catch (...) {
        return false;
      }
    }
  };

  Piece prepare(nb::handle source, std::uint64_t start, std::uint64_t count, bool verify) {
    const Buffer& buffer = hold(source);
    check_start(buffer, start);
    return {&decoder_, &buffer, start, count, verify};
  }

  // Those who have decoded frames later, in `prepare`, need this one for themselves until then.
  Turn& turn() { return turn_; }

  std::size_t rows() {
    const Turn::Use use(turn_);
    return decoder_.rows();
  }
  std::uint64_t position() {
    const Turn::Use use(turn_);
    return position_;
  }

  void clear() {
    const Turn::Use use(turn_);
    decoder_.clear();
    buffers_.clear();
    inputs_.clear();
    records_.clear();
  }

  // For each column: values, lists, rows without it, bytes of its strings.
  nb::list sizes() {
    const Turn::Use use(turn_);
    nb::list result;
    for (const example::Column& column : decoder_.columns()) {
      result.append(nb::make_tuple(column.values(), column.list_ends.size(), column.missing.size()));
    }
    return result;
  }

  void copy_values(std::size_t index, nb::handle target) {
    const Turn::Use use(turn_);
    const example::Column& column = at(index);
    if (column.kind == Kind::integers) {
      copy(target, column.integers);
    } else if (column.kind == Kind::floats) {
      copy(target, column.floats);
    } else {
      throw nb::value_error("strings have no fixed size");
    }
  }

  // The values of a column as an array that has their memory: nothing is copied.
  nb::object take_values(std::size_t index) {
    const Turn::Use use(turn_);
    example::Column& column = decoder_.column(index);
    if (column.kind == Kind::integers) return Spares::lend(spares_, column.integers);
    if (column.kind == Kind::floats) return Spares::lend(spares_, column.floats);
    throw nb::value_error("strings have no fixed size");
  }

  // Splits are int64, or int32 as Arrow has them, if the target is of that size.
  void copy_list_splits(std::size_t index, nb::handle target) {
    const Turn::Use use(turn_);
    copy_splits(target, at(index).list_ends);
  }
  void copy_row_splits(std::size_t index, nb::handle target) {
    const Turn::Use use(turn_);
    copy_splits(target, at(index).row_ends);
  }
  void copy_missing(std::size_t index, nb::handle target) {
    const Turn::Use use(turn_);
    copy(target, at(index).missing);
  }

  void copy_texts(std::size_t index, nb::handle target) {
    const Turn::Use use(turn_);
    fill_texts(target, at(index).texts);
  }

  // The strings of a column as one buffer, and where each starts in it, with the end of the last.
  std::uint64_t text_bytes(std::size_t index) {
    const Turn::Use use(turn_);
    return bytes_of(at(index).texts);
  }
  static std::uint64_t bytes_of(const example::Scratch<example::Text>& texts) {
    std::uint64_t size = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) size += texts[i].size;
    return size;
  }
  void join_texts(std::size_t index, nb::handle data, nb::handle offsets) {
    const Turn::Use use(turn_);
    const example::Scratch<example::Text>& texts = at(index).texts;
    Buffer out(data, PyBUF_WRITABLE);
    if (out.size() != bytes_of(texts)) throw nb::value_error("the target has another size");
    std::uint8_t* place = out.data();
    put_splits(offsets, texts.size(), [&](std::size_t i) {
      if (texts[i].size > 0) std::memcpy(place, texts[i].data, texts[i].size);
      place += texts[i].size;
      return place - out.data();
    });
  }

 private:
  static std::vector<std::uint64_t> copy_numbers(nb::handle given) {
    const Buffer buffer(given);
    std::vector<std::uint64_t> numbers(buffer.size() / sizeof(std::uint64_t));
    if (!numbers.empty()) std::memcpy(numbers.data(), buffer.data(), numbers.size() * sizeof(std::uint64_t));
    return numbers;
  }

  const example::Column& at(std::size_t index) {
    if (index >= decoder_.columns().size()) throw nb::index_error("no such column");
    return decoder_.columns()[index];
  }

  // The strings of a batch are places in its buffers, which are held until clear().
  Buffer& hold(nb::handle source) {
    buffers_.push_back(std::make_unique<Buffer>(source));
    return *buffers_.back();
  }

  template <typename Element>
  static void copy(nb::handle target, const example::Scratch<Element>& scratch) {
    Buffer out(target, PyBUF_WRITABLE);
    if (out.size() != scratch.size() * sizeof(Element)) {
      throw nb::value_error("the target has another size");
    }
    if (scratch.size() > 0) std::memcpy(out.data(), scratch.data(), out.size());
  }

  static void copy_splits(nb::handle target, const example::Scratch<std::int64_t>& ends) {
    put_splits(target, ends.size(), [&](std::size_t i) { return ends[i]; });
  }

  // Zero, and what `end_of` says for each of so many parts.
  template <typename End>
  static void put_splits(nb::handle target, std::size_t parts, End end_of) {
    Buffer out(target, PyBUF_WRITABLE);
    const auto put = [&](auto split) {  // they may lie at any address
      std::uint8_t* place = out.data();
      std::memcpy(place, &split, sizeof(split));
      for (std::size_t i = 0; i < parts; ++i) {
        split = static_cast<decltype(split)>(end_of(i));
        std::memcpy(place += sizeof(split), &split, sizeof(split));
      }
    };
    if (out.size() == (parts + 1) * sizeof(std::int64_t)) {
      put(std::int64_t{0});
    } else if (out.size() == (parts + 1) * sizeof(std::int32_t)) {
      put(std::int32_t{0});
    } else {
      throw nb::value_error("the target has another size");
    }
  }

  example::Decoder decoder_;
  std::shared_ptr<Spares> spares_ = Spares::shared();
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::deque<Input> inputs_;
  std::vector<nb::list> records_;
  std::uint64_t position_ = 0;
  Turn turn_{"the decoder"};
};

// Decodes in several threads, which never ask for the GIL.
class Team {
 public:
  explicit Team(std::size_t helpers) : team_(std::make_unique<ferry::Team>(helpers)) {}
  ~Team() {
    const Unlocked unlocked;
    team_.reset();
  }

  // (decoder, source, start, count, verify) each, one behind the other, of frames that were gone
  // through. The decoders are not to be used until that was waited for.
  void submit(nb::list given) {
    const Turn::Use use(turn_);
    if (team_->is_forked()) throw std::runtime_error(forked);
    Job job{copy_of(given), {}, true};
    std::vector<Decoder::Piece> pieces;
    for (nb::handle work : job.work) {
      const nb::tuple piece = parts_of(work, 5);
      auto& decoder = nb::cast<Decoder&>(piece[0]);
      job.take(decoder.turn());
      pieces.push_back(decoder.prepare(piece[1], nb::cast<std::uint64_t>(piece[2]),
                                       nb::cast<std::uint64_t>(piece[3]), nb::cast<bool>(piece[4])));
    }
    jobs_.push_back(std::move(job));
    team_->submit([pieces = std::move(pieces), &whole = jobs_.back().whole]() mutable {
      for (Decoder::Piece& piece : pieces) whole = whole && piece.decode();
    });
  }

  // Records from anywhere, as Decoder::decode_at takes them.
  void submit_at(nb::object decoder, nb::list sources, nb::handle which, nb::handle starts,
                 bool verify) {
    const Turn::Use use(turn_);
    if (team_->is_forked()) throw std::runtime_error(forked);
    nb::list work;
    work.append(decoder);
    Job job{std::move(work), {}, true};
    auto& native = nb::cast<Decoder&>(decoder);
    job.take(native.turn());
    Decoder::Scattered records = native.scatter(sources, which, starts, verify);
    jobs_.push_back(std::move(job));
    team_->submit([records = std::move(records), &whole = jobs_.back().whole]() mutable {
      whole = records.decode();
    });
  }

  // Waits for the oldest work. False if anything in it is not as it should be: it is then to be
  // decoded again one by one, which finds out what.
  bool wait() {
    const Turn::Use use(turn_);
    if (jobs_.empty()) throw nb::value_error("there is no work to wait for");
    if (team_->is_forked()) throw std::runtime_error(forked);
    {
      const Unlocked unlocked;
      team_->wait();
    }
    const bool whole = jobs_.front().whole;
    jobs_.pop_front();
    return whole;
  }

 private:
  static constexpr const char* forked =
      "the process was forked while it read records: open them in the new process";
  struct Job {
    nb::list work;  // held until it is done, and so are
    std::vector<Turn::Use> uses;  // its decoders
    bool whole;

    void take(Turn& turn) {
      const auto has = [&](const Turn::Use& use) { return use.turn() == &turn; };
      if (std::none_of(uses.begin(), uses.end(), has)) uses.emplace_back(turn);
    }
  };
  std::deque<Job> jobs_;
  std::unique_ptr<ferry::Team> team_;
  Turn turn_{"the team"};
};

}  // namespace

void bind_example(nb::module_& module) {
  nb::class_<Survey>(module, "ExampleSurvey", "What the features of some Examples look like.")
      .def(nb::init<>())
      .def("add", &Survey::add, "source"_a, "start"_a, "limit"_a, "verify"_a)
      .def("add_record", &Survey::add_record, "record"_a)
      .def_prop_ro("rows", &Survey::rows)
      .def("features", &Survey::features);

  nb::class_<Decoder>(module, "ExampleDecoder", "Collects the features of Examples in columns.")
      .def(nb::init<nb::list>(), "columns"_a)
      .def("decode", &Decoder::decode, "source"_a, "start"_a, "limit"_a, "verify"_a)
      .def("decode_at", &Decoder::decode_at, "sources"_a, "which"_a, "starts"_a, "verify"_a)
      .def("decode_records", &Decoder::decode_records, "records"_a)
      .def_prop_ro("rows", &Decoder::rows)
      .def_prop_ro("position", &Decoder::position)
      .def("clear", &Decoder::clear)
      .def("sizes", &Decoder::sizes)
      .def("copy_values", &Decoder::copy_values, "index"_a, "target"_a)
      .def("take_values", &Decoder::take_values, "index"_a)
      .def("copy_list_splits", &Decoder::copy_list_splits, "index"_a, "target"_a)
      .def("copy_row_splits", &Decoder::copy_row_splits, "index"_a, "target"_a)
      .def("copy_missing", &Decoder::copy_missing, "index"_a, "target"_a)
      .def("copy_texts", &Decoder::copy_texts, "index"_a, "target"_a)
      .def("text_bytes", &Decoder::text_bytes, "index"_a)
      .def("join_texts", &Decoder::join_texts, "index"_a, "data"_a, "offsets"_a);

  nb::class_<Team>(module, "ExampleTeam", "Threads that decode, beside the caller's.")
      .def(nb::init<std::size_t>(), "helpers"_a)
      .def("submit", &Team::submit, "work"_a)
      .def("submit_at", &Team::submit_at, "decoder"_a, "sources"_a, "which"_a, "starts"_a, "verify"_a)
      .def("wait", &Team::wait);
}

}  // namespace ferry::python
