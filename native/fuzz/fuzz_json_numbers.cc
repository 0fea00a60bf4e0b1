// Any bytes as a body: what is read has as many numbers as its shape says, and is written and read
// again as the same numbers.
#include "core/json_numbers.h"

#include <cmath>
#include <cstring>

using namespace ferry;

namespace {

std::uint64_t size_of(const std::vector<std::uint64_t>& shape) {
  std::uint64_t size = 1;
  for (const std::uint64_t part : shape) size *= part;
  return size;
}

bool same(double left, double right) { return left == right || (std::isnan(left) && std::isnan(right)); }

void check(const json::Numbers& numbers) {
  const std::size_t size = numbers.are_integers ? numbers.integers.size() : numbers.floats.size();
  if (size != size_of(numbers.shape)) __builtin_trap();
  std::string text;
  if (numbers.are_integers) {
    json_numbers::append<long long>(
        text, reinterpret_cast<const std::uint8_t*>(numbers.integers.data()), numbers.shape);
  } else {
    json_numbers::append<double>(
        text, reinterpret_cast<const std::uint8_t*>(numbers.floats.data()), numbers.shape);
  }
  json::Reader reader({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  json::Numbers again;
  if (!reader.numbers(again) || again.shape != numbers.shape) __builtin_trap();
  if (again.integers != numbers.integers || again.floats.size() != numbers.floats.size()) {
    __builtin_trap();
  }
  for (std::size_t i = 0; i < numbers.floats.size(); ++i) {
    if (!same(again.floats[i], numbers.floats[i])) __builtin_trap();
    if (std::isfinite(numbers.floats[i]) && std::fabs(numbers.floats[i]) > numbers.largest) {
      __builtin_trap();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  json::Reader reader({data, size});
  std::vector<json_numbers::Entry> entries;
  if (!json_numbers::read(reader, entries)) return 0;
  for (const json_numbers::Entry& entry : entries) {
    if (entry.kind == json_numbers::Entry::Kind::numbers) check(entry.numbers);
    for (const json_numbers::Entry& member : entry.members) check(member.numbers);
  }
  return 0;
}
