// Columns made of any bytes are written as Examples that decode to the same columns.
#include "core/example.h"
#include "core/tfrecord.h"

namespace example = ferry::example;
namespace tfrecord = ferry::tfrecord;

// The same rows, one by one.
static void encode_singly(const std::vector<example::Source>& sources, std::size_t rows,
                          example::Scratch<std::uint8_t>& out) {
  static constexpr std::uint8_t absent = 1;
  example::RowEncoder encoder(sources);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const example::Range values = example::values_of_rows(sources[i], row, row + 1);
      example::Source& source = encoder.sources[i];
      source.splits = nullptr;
      source.length = values.end - values.begin;
      source.missing = sources[i].missing[row] ? &absent : nullptr;
      if (source.kind == example::Kind::bytes) {
        source.texts.assign(sources[i].texts.begin() + static_cast<std::ptrdiff_t>(values.begin),
                            sources[i].texts.begin() + static_cast<std::ptrdiff_t>(values.end));
      } else {
        const std::size_t width = source.kind == example::Kind::integers ? 8 : 4;
        source.values = sources[i].values + values.begin * width;
      }
    }
    encoder.encode(out);
  }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  const std::size_t rows = data[0] % 8;
  const bool sequence = data[1] & 1;
  // Lengths of lists from the input, values from what is left of it.
  std::vector<std::int64_t> splits{0};
  for (std::size_t row = 0; row < rows; ++row) splits.push_back(splits.back() + data[row % size] % 5);
  const auto values = static_cast<std::size_t>(splits.back());
  std::vector<std::int64_t> integers(values);
  std::vector<float> floats(values);
  std::vector<std::uint8_t> missing(rows);
  for (std::size_t i = 0; i < values; ++i) {
    std::uint64_t number = 0;
    for (std::size_t byte = 0; byte < data[2] % 9; ++byte) number = number << 8 | data[(i + byte) % size];
    integers[i] = static_cast<std::int64_t>(number);
    floats[i] = static_cast<float>(data[i % size]);
  }
  for (std::size_t row = 0; row < rows; ++row) missing[row] = data[3] >> row & 1;

  std::vector<std::int64_t> one_list(rows + 1);
  for (std::size_t row = 0; row <= rows; ++row) one_list[row] = static_cast<std::int64_t>(row);
  std::vector<example::Source> sources(3);
  for (std::size_t i = 0; i < 3; ++i) {
    sources[i].name = std::string(1, static_cast<char>('a' + i));
    sources[i].kind = static_cast<example::Kind>(i + 1);
    sources[i].splits = splits.data();
    sources[i].missing = missing.data();
  }
  for (std::size_t i = 0; i < values; ++i) sources[0].texts.push_back({data, data[i % size] % size});
  sources[1].values = reinterpret_cast<const std::uint8_t*>(floats.data());
  sources[2].values = reinterpret_cast<const std::uint8_t*>(integers.data());
  sources[2].sequence = sequence;
  sources[2].row_splits = sequence ? one_list.data() : nullptr;

  example::Scratch<std::uint8_t> out;
  example::encode(sources, 0, rows, out);
  if (!sequence) {
    example::Scratch<std::uint8_t> singly;
    encode_singly(sources, rows, singly);
    if (singly.size() != out.size()) __builtin_trap();
    if (out.size() > 0 && std::memcmp(singly.data(), out.data(), out.size()) != 0) __builtin_trap();
  }
  std::vector<example::Column> columns(3);
  for (std::size_t i = 0; i < 3; ++i) {
    columns[i].name = sources[i].name;
    columns[i].kind = sources[i].kind;
    columns[i].sequence = sources[i].sequence;
  }
  example::Decoder decoder(std::move(columns));
  const ferry::Input stream(out.data(), out.size());
  std::vector<tfrecord::Record> records;
  if (tfrecord::scan(stream.span(), 0, 100, true, records).end != out.size()) __builtin_trap();
  if (records.size() != rows) __builtin_trap();
  for (const tfrecord::Record& record : records) {
    decoder.add({out.data() + record.data, static_cast<std::size_t>(record.length), &stream});
  }
  std::size_t expected = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    if (missing[row]) continue;
    for (auto i = static_cast<std::size_t>(splits[row]); i < static_cast<std::size_t>(splits[row + 1]); ++i) {
      const auto& decoded = decoder.columns();
      if (decoded[2].integers[expected] != integers[i]) __builtin_trap();
      if (decoded[1].floats[expected] != floats[i]) __builtin_trap();
      if (decoded[0].texts[expected].size != sources[0].texts[i].size) __builtin_trap();
      ++expected;
    }
  }
  if (decoder.columns()[2].values() != expected) __builtin_trap();
  return 0;
}
