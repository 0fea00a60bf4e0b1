// Checksums and TFRecord frames.
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "core/checksum.h"
#include "core/example.h"
#include "core/tfrecord.h"
#include "pieces.h"
#include "python.h"
#include "row_plan.h"
#include "threads.h"

namespace ferry::python {

namespace {

using tfrecord::Record;
using tfrecord::Status;

std::uint32_t checksum(nb::handle source, std::uint32_t before) {
  Buffer buffer(source);
  const Unlocked unlocked;
  return crc32c(buffer.data(), buffer.size(), before);
}

nb::bytes to_offsets(const std::vector<Record>& records) {
  static_assert(sizeof(Record) == 16);
  return nb::bytes(reinterpret_cast<const char*>(records.data()), records.size() * sizeof(Record));
}

nb::tuple scan(nb::handle source, std::uint64_t start, std::uint64_t limit, bool verify) {
  Buffer buffer(source);
  check_start(buffer, start);
  std::uint64_t count = 0;
  std::uint64_t end = start;
  Status status = Status::record;
  {
    const Unlocked unlocked;
    status = tfrecord::walk(buffer.span(), end, limit, verify, [&](const Record&) { ++count; });
  }
  return range(count, end, status);
}

// Where the records of frames lie.
struct Found {
  std::vector<Record> records;
  tfrecord::Scan scan;
};

Found locate(const Buffer& buffer, std::uint64_t start, std::uint64_t limit, bool verify) {
  check_start(buffer, start);
  Found found;
  const Unlocked unlocked;
  found.scan = tfrecord::scan(buffer.span(), start, limit, verify, found.records);
  return found;
}

nb::tuple index(nb::handle source, std::uint64_t start, std::uint64_t limit, bool verify) {
  Buffer buffer(source);
  const Found found = locate(buffer, start, limit, verify);
  return nb::make_tuple(to_offsets(found.records), found.scan.end,
                        static_cast<int>(found.scan.status));
}

nb::tuple read_records(nb::handle source, std::uint64_t start, std::uint64_t limit, bool verify) {
  Buffer buffer(source);
  const Found found = locate(buffer, start, limit, verify);
  std::vector<Span> spans;
  spans.reserve(found.records.size());
  for (const Record& record : found.records) {
    spans.push_back(buffer.span(record.data, record.data + record.length));
  }
  return nb::make_tuple(to_list(spans), found.scan.end, static_cast<int>(found.scan.status));
}

std::uint64_t find(nb::handle source, std::uint64_t start) {
  Buffer buffer(source);
  check_start(buffer, start);
  const Unlocked unlocked;
  return tfrecord::find(buffer.span(), start);
}

nb::bytes frame(nb::list values) {
  const nb::list held = copy_of(values);  // nobody else can take a record out of it
  const std::vector<Span> records = spans_of(held);
  const NewBytes result(tfrecord::framed_size(records));
  {
    const Unlocked unlocked;
    tfrecord::put(records, result.data);
  }
  return result.object;
}

// Frames records one by one, and hands them on when there are many: a view of bytes that nobody
// else has. Several threads may add records. While one of them hands a piece on, the others gather
// the next one, and wait when that is full, so that pieces go on in their order.
class Framer {
 public:
  Framer(nb::callable hand_on, std::size_t size) : hand_on_(std::move(hand_on)), size_(size) {}

  void add(nb::handle record) {
    Span span;
    if (PyBytes_CheckExact(record.ptr()) && look_into(record.ptr(), span)) {
      add(span);
    } else {
      Buffer buffer(record);
      add(buffer.span());
    }
  }

  // A row as an Example; false if the plan does not take it.
  bool add_row(RowPlan& plan, nb::handle row) {
    make_ready();
    if (!plan.encode(row, out_)) return false;
    finish_one();
    return true;
  }

  void flush() {
    wait();
    if (failed_ || !hand_on_.is_valid()) throw std::runtime_error("an earlier piece is lost");
    if (out_.size() == 0) return;
    const HandingOn handing_on(*this);
    failed_ = true;  // until it is done
    Bytes piece = std::exchange(out_, pieces_->take());
    call(hand_on_, pieces_->lend(std::move(piece)));
    failed_ = false;
  }

  // What is added after this is refused.
  void close() { closed_ = true; }

  std::uint64_t count() const { return count_; }

  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<Framer>(self)->hand_on_.ptr());
    return 0;
  }

  static int clear(PyObject* self) {
    nb::object dropped = std::move(nb::inst_ptr<Framer>(self)->hand_on_);
    return 0;
  }

 private:
  // The time in which a piece is handed on, by this thread.
  class HandingOn {
   public:
    explicit HandingOn(Framer& framer) : framer_(framer) {
      framer.handing_on_ = true;
      framer.thread_ = std::this_thread::get_id();
    }
    ~HandingOn() {
      {
        const std::lock_guard lock(framer_.mutex_);
        framer_.handing_on_ = false;
      }
      framer_.done_.notify_all();
    }
    HandingOn(const HandingOn&) = delete;
    HandingOn& operator=(const HandingOn&) = delete;

   private:
    Framer& framer_;
  };

  void make_ready() {
    if (handing_on_ && thread_ == std::this_thread::get_id()) fail_busy();
    if (out_.size() >= size_) flush();  // waits for whoever hands the last piece on
    if (closed_) throw nb::value_error("the writer is closed");
  }

  void finish_one() {
    ++count_;
    if (out_.size() >= size_ && !handing_on_) flush();
  }

  void add(Span record) {
    make_ready();
    const std::size_t framed = tfrecord::header_size + record.size + tfrecord::footer_size;
    std::uint8_t* out = out_.room(framed);
    tfrecord::put_header(record.size, out);
    out += tfrecord::header_size;
    if (record.size > 0) std::memcpy(out, record.data, record.size);
    tfrecord::put_footer(out, record.size, out + record.size);
    out_.grow(framed);
    finish_one();
  }

  // Until no piece is handed on.
  void wait() {
    while (handing_on_) {
      if (thread_ == std::this_thread::get_id() || is_finalizing()) fail_busy();
      {
        const Unlocked unlocked;
        std::unique_lock lock(mutex_);
        done_.wait_for(lock, std::chrono::milliseconds(100), [this] { return !handing_on_; });
      }
      check_signals();
    }
  }

  [[noreturn]] static void fail_busy() {
    throw std::runtime_error("the writer is busy: what it writes to must not use it");
  }

  nb::object hand_on_;
  std::size_t size_;
  std::uint64_t count_ = 0;
  bool closed_ = false;
  bool failed_ = false;
  Bytes out_;
  std::shared_ptr<Pieces> pieces_ = std::make_shared<Pieces>();
  std::atomic<bool> handing_on_{false};
  std::thread::id thread_;
  std::mutex mutex_;
  std::condition_variable done_;
};

PyType_Slot framer_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(Framer::traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(Framer::clear)},
    {0, nullptr},
};

}  // namespace

void bind_tfrecord(nb::module_& module) {
  module.def("crc32c", checksum, "source"_a, "before"_a = 0, "The CRC-32C of a buffer.");
  module.def("tfrecord_scan", scan, "source"_a, "start"_a, "limit"_a, "verify"_a,
             "Go through frames: (records, end, status).");
  module.def("tfrecord_index", index, "source"_a, "start"_a, "limit"_a, "verify"_a,
             "The places of records: (pairs of offset and length as int64, end, status).");
  module.def("tfrecord_read", read_records, "source"_a, "start"_a, "limit"_a, "verify"_a,
             "The records of frames: (list of bytes, end, status).");
  module.def("tfrecord_find", find, "source"_a, "start"_a,
             "Where the next whole record starts, or the size of the source.");
  module.def("tfrecord_frame", frame, "records"_a, "A list of bytes as framed records.");

  Pieces::bind(module);
  nb::class_<Framer>(module, "Framer", nb::type_slots(framer_slots),
                     "Frames records, and hands them on when there are many.")
      .def(nb::init<nb::callable, std::size_t>(), "hand_on"_a, "size"_a)
      .def("add", nb::overload_cast<nb::handle>(&Framer::add), "record"_a, nb::lock_self())
      .def("add_row", &Framer::add_row, "plan"_a, "row"_a, nb::lock_self())
      .def("flush", &Framer::flush, nb::lock_self())
      .def("close", &Framer::close, nb::lock_self())
      .def_prop_ro("count", &Framer::count);
}

}  // namespace ferry::python
