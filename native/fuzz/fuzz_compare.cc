// Any two arrays of one type, at any addresses: an array is the same as itself, and a difference is
// found from both sides.
#include "core/compare.h"

using namespace ferry;
using numbers::Type;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const auto type = static_cast<Type>(data[0] % 14);
  const std::size_t count = (size - 1) / 2 / numbers::size_of(type);
  const std::uint8_t* const left = data + 1;
  const std::uint8_t* const right = left + count * numbers::size_of(type);
  const compare::Found same = compare::compare(type, left, left, count, 0, 0);
  const compare::Found one = compare::compare(type, left, right, count, 0, 0.25);
  const compare::Found other = compare::compare(type, right, left, count, 0, 0.25);
  if (same.differing != 0 || same.largest != 0 || same.first != compare::nowhere) __builtin_trap();
  if (one.differing != other.differing || one.first != other.first || one.largest != other.largest) {
    __builtin_trap();
  }
  if ((one.first == compare::nowhere) != (one.differing == 0) || one.finite > count) __builtin_trap();
  return 0;
}
