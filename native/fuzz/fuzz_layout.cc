// Any bytes as an Example, and copies with some bytes changed: a decoder that knows the layout of the
// records before finds in each what one finds that has never seen another record.
#include "core/layout.h"

#include "core/example.h"

namespace example = ferry::example;

namespace {

std::vector<example::Column> columns_of(const example::Survey& survey) {
  std::vector<example::Column> columns;
  for (const example::Feature& feature : survey.features()) {
    columns.emplace_back();
    columns.back().name = feature.name;
    columns.back().sequence = feature.sequence;
    columns.back().kind = feature.kind == example::Kind::none ? example::Kind::floats : feature.kind;
    columns.back().wanted = feature.name.size() % 5 != 4;
  }
  return columns;
}

// The values of the last row of a column are those of the only row of another.
void compare(const example::Column& all, const example::Column& one, std::size_t rows) {
  if (!all.wanted || all.sequence) return;
  if (all.list_ends.size() != rows || one.list_ends.size() != 1) __builtin_trap();
  const std::size_t count = one.values();
  if (all.values() < count) __builtin_trap();
  const std::size_t start = all.values() - count;
  for (std::size_t i = 0; i < count; ++i) {
    bool same = false;
    switch (all.kind) {
      case example::Kind::integers: same = all.integers[start + i] == one.integers[i]; break;
      case example::Kind::floats:
        same = std::memcmp(&all.floats[start + i], &one.floats[i], sizeof(float)) == 0;
        break;
      default:
        same = all.texts[start + i].data == one.texts[i].data &&
               all.texts[start + i].size == one.texts[i].size;
    }
    if (!same) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ferry::Input input(data, size);
  example::Survey survey;
  try {
    survey.add(input.span());
  } catch (const ferry::Error&) {
    return 0;
  }
  example::Decoder decoder(columns_of(survey));
  // All copies stay where they are: columns of strings point to them.
  std::vector<std::vector<std::uint8_t>> copies(24, {data, data + size});
  std::size_t rows = 0;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    std::vector<std::uint8_t>& copy = copies[i];
    if (i % 4 == 2) copy.resize(size - (size > 0));
    if (i % 2 == 1 && size > 0) copy[(i * 37 + size) % size] ^= static_cast<std::uint8_t>(1 << i % 8);
    const ferry::Input record(copy.data(), copy.size());
    example::Decoder other(columns_of(survey));
    bool good = true, also_good = true;
    try {
      other.add(record.span());
    } catch (const ferry::Error&) {
      good = false;
    }
    try {
      decoder.add(record.span());
      ++rows;
    } catch (const ferry::Error&) {
      also_good = false;
    }
    if (good != also_good || decoder.rows() != rows) __builtin_trap();
    if (!good || i % 3 == 0) continue;  // so that some wait for others
    for (std::size_t column = 0; column < decoder.columns().size(); ++column) {
      compare(decoder.columns()[column], other.columns()[column], rows);
    }
  }
  return 0;
}
