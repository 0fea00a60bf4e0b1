// Any bytes as an Arrow file of columns of numbers, and as the flatbuffer of a schema of any kind.
#include "core/arrow.h"

namespace arrow = ferry::arrow;

namespace {

// The first half of the bytes says where strings stand in the second half.
template <typename Offset>
void read_strings(ferry::Span bytes) {
  const std::size_t half = bytes.size / 2 / sizeof(Offset) * sizeof(Offset);
  const ferry::Span data = bytes.behind(half);
  std::size_t last = 0;
  try {
    arrow::each_string<Offset>({bytes.data, half, bytes.input}, data, [&](ferry::Span text) {
      if (text.offset() < data.offset() + last) __builtin_trap();
      last = text.offset() - data.offset();
      if (last + text.size > data.size) __builtin_trap();
    });
  } catch (const ferry::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ferry::Input input(data, size);
  read_strings<std::int32_t>(input.span());
  read_strings<std::int64_t>(input.span());
  arrow::schema_refusal(input.span(), true);
  arrow::schema_refusal(input.span(), false);
  arrow::File file;
  if (!arrow::read(input.span(), file)) return 0;
  if (file.columns.empty() || file.batches.empty()) __builtin_trap();
  if (file.places.size() != file.columns.size() * file.batches.size()) __builtin_trap();
  std::size_t texts = 0;
  for (const auto& [key, value] : file.metadata) texts += key.size() + value.size();
  for (const arrow::Column& column : file.columns) texts += column.name.size();
  if (texts > size) __builtin_trap();
  for (const arrow::Batch& batch : file.batches) {
    for (std::size_t i = 0; i < file.columns.size(); ++i) {
      const std::uint64_t place = file.places[batch.places + i];
      if (place % 8 != 0 || place > size) __builtin_trap();
      if (batch.rows > (size - place) / file.columns[i].width) __builtin_trap();
    }
  }
  return 0;
}
