// Any bytes as a stream of frames; and as data between good frames, which must be found again.
#include "core/tfrecord.h"

namespace tfrecord = ferry::tfrecord;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ferry::Input input(data, size);
  for (const bool verify : {false, true}) {
    std::vector<tfrecord::Record> records;
    const tfrecord::Scan scan = tfrecord::scan(input.span(), 0, 1000, verify, records);
    if (scan.end > size) __builtin_trap();
    for (const tfrecord::Record& record : records) {
      if (record.end() > size) __builtin_trap();
    }
    if (scan.status != tfrecord::Status::record && scan.status != tfrecord::Status::end) {
      if (tfrecord::find(input.span(), scan.end + (scan.end < size)) > size) __builtin_trap();
    }
  }

  // The input as damage before a good frame, and as that frame's data.
  const std::vector<ferry::Span> good{input.span()};
  std::vector<std::uint8_t> stream(data, data + size);
  stream.resize(size + tfrecord::framed_size(good));
  tfrecord::put(good, stream.data() + size);
  const ferry::Input whole(stream.data(), stream.size());
  const std::uint64_t found = tfrecord::find(whole.span(), 0);
  if (found > size) __builtin_trap();
  tfrecord::Record record;
  if (tfrecord::read(whole.span(), size, true, record) != tfrecord::Status::record) __builtin_trap();
  if (record.length != size) __builtin_trap();
  return 0;
}
