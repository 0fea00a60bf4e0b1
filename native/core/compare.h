// Two arrays of one type beside each other: whether they are the same, and how far they are apart.
#pragma once

#include "numbers.h"

namespace ferry::compare {

using numbers::Type;

constexpr std::uint64_t nowhere = ~std::uint64_t{0};

// What was found. Distances, sums and products are of the pairs whose distance is finite.
struct Found {
  std::uint64_t differing = 0;
  std::uint64_t first = nowhere;  // the first pair that differs
  std::uint64_t nonfinite = 0;    // pairs that differ, and whose distance is not finite
  std::uint64_t finite = 0;
  double largest = 0;  // distance
  double sum = 0;
  double squares = 0;
  double products[3] = {};  // left * right, left * left, right * right
};

// Numbers are the same if |left - right| <= atol + rtol * |right|, or both are NaN. Distances of
// integers are exact before they become doubles.
Found compare(Type type, const std::uint8_t* left, const std::uint8_t* right, std::size_t count,
              double rtol, double atol);

}  // namespace ferry::compare
