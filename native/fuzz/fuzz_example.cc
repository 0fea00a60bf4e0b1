// Any bytes as an Example: surveyed, decoded by what was found, and by a schema that does not fit.
// A record that is refused leaves the columns as they were.
#include "core/example.h"

namespace example = ferry::example;

namespace {

void check(example::Decoder& decoder, std::size_t rows) {
  if (decoder.rows() != rows) __builtin_trap();
  for (const example::Column& column : decoder.columns()) {
    if (!column.wanted) continue;
    const std::size_t lists = column.list_ends.size();
    if (column.sequence) {
      if (column.row_ends.size() != rows) __builtin_trap();
      if (rows > 0 && column.row_ends[rows - 1] != static_cast<std::int64_t>(lists)) __builtin_trap();
    } else if (lists != rows) {
      __builtin_trap();
    }
    const std::size_t values = lists == 0 ? 0 : static_cast<std::size_t>(column.list_ends[lists - 1]);
    if (column.values() != values) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ferry::Input input(data, size);
  example::Survey survey;
  try {
    survey.add(input.span());
  } catch (const ferry::Error& error) {
    if (error.offset() > size) __builtin_trap();
  }
  // One input in three meets its own schema, the others one of other kinds.
  const int shift = static_cast<int>(size % 3);
  std::vector<example::Column> columns;
  for (const example::Feature& feature : survey.features()) {
    columns.emplace_back();
    columns.back().name = feature.name;
    columns.back().sequence = feature.sequence;
    const int kind = (static_cast<int>(feature.kind) + shift + 2) % 3 + 1;
    columns.back().kind = static_cast<example::Kind>(kind);
    columns.back().wanted = feature.name.size() % 5 != 4;
    if (feature.name.size() % 3 == 1) columns.back().length = feature.longest;
  }
  example::Decoder decoder(std::move(columns));
  std::size_t rows = 0;
  for (int turn = 0; turn < 2; ++turn) {
    try {
      decoder.add(input.span());
      ++rows;
    } catch (const ferry::Error& error) {
      if (error.offset() > size) __builtin_trap();
    }
    check(decoder, rows);
  }
  decoder.clear();
  check(decoder, 0);
  return 0;
}
