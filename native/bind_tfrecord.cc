// Checksums and TFRecord frames.
#include <memory>

#include "core/checksum.h"
#include "core/example.h"
#include "core/tfrecord.h"
#include "python.h"

namespace ferry::python {

namespace {

using tfrecord::Record;
using tfrecord::Status;

std::uint32_t checksum(nb::handle source, std::uint32_t before) {
  Buffer buffer(source);
  nb::gil_scoped_release unlocked;
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
    nb::gil_scoped_release unlocked;
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
  nb::gil_scoped_release unlocked;
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
  nb::gil_scoped_release unlocked;
  return tfrecord::find(buffer.span(), start);
}

nb::bytes frame(nb::list values) {
  const std::vector<Span> records = spans_of(values);
  const auto size = static_cast<Py_ssize_t>(tfrecord::framed_size(records));
  PyObject* result = PyBytes_FromStringAndSize(nullptr, size);
  if (result == nullptr) throw nb::python_error();
  auto* out = reinterpret_cast<std::uint8_t*>(PyBytes_AS_STRING(result));
  {
    nb::gil_scoped_release unlocked;
    tfrecord::put(records, out);
  }
  return nb::steal<nb::bytes>(result);
}

// Frames records one by one in memory that it keeps, and hands them on when there are many: a view
// that is good for the time of that call.
class Framer {
 public:
  Framer(nb::callable hand_on, std::size_t size) : hand_on_(std::move(hand_on)), size_(size) {}

  void add(nb::handle record) {
    if (closed_) throw nb::value_error("the writer is closed");
    if (PyBytes_CheckExact(record.ptr())) {
      add({reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(record.ptr())),
           static_cast<std::size_t>(PyBytes_GET_SIZE(record.ptr())), nullptr});
    } else {
      Buffer buffer(record);
      add(buffer.span());
    }
  }

  void flush() {
    if (out_.size() == 0) return;
    nb::object view = nb::steal(
        PyMemoryView_FromMemory(reinterpret_cast<char*>(const_cast<std::uint8_t*>(out_.data())),
                                static_cast<Py_ssize_t>(out_.size()), PyBUF_READ));
    hand_on_(view);
    out_.cut(0);
  }

  // What is added after this is refused.
  void close() { closed_ = true; }

  std::uint64_t count() const { return count_; }

 private:
  void add(Span record) {
    const std::size_t framed = tfrecord::header_size + record.size + tfrecord::footer_size;
    std::uint8_t* out = out_.room(framed);
    tfrecord::put_header(record.size, out);
    out += tfrecord::header_size;
    if (record.size > 0) std::memcpy(out, record.data, record.size);
    tfrecord::put_footer(out, record.size, out + record.size);
    out_.grow(framed);
    ++count_;
    if (out_.size() >= size_) flush();
  }

  nb::callable hand_on_;
  std::size_t size_;
  std::uint64_t count_ = 0;
  bool closed_ = false;
  example::Scratch<std::uint8_t> out_;
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

  nb::class_<Framer>(module, "Framer", "Frames records, and hands them on when there are many.")
      .def(nb::init<nb::callable, std::size_t>(), "hand_on"_a, "size"_a)
      .def("add", nb::overload_cast<nb::handle>(&Framer::add), "record"_a)
      .def("flush", &Framer::flush)
      .def("close", &Framer::close)
      .def_prop_ro("count", &Framer::count);
}

}  // namespace ferry::python
