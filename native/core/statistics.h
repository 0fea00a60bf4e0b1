// Statistics of numbers: range, mean, deviation, zeros, NaN and infinity in one pass, and
// histograms.
#pragma once

#include <variant>
#include <vector>

#include "numbers.h"

namespace ferry::statistics {

using numbers::Type;

using Number = std::variant<double, std::int64_t, std::uint64_t>;

// What was found of some numbers. Range, mean and squares are of the finite ones.
struct Moments {
  std::uint64_t zeros = 0;
  std::uint64_t nans = 0;
  std::uint64_t infinities = 0;
  std::uint64_t finite = 0;
  Number low = 0.0;
  Number high = 0.0;
  double mean = 0;
  double squares = 0;  // the sum of the squares of their distances from the mean
};

Moments moments_of(Type type, const std::uint8_t* source, std::size_t count);

// How many finite numbers lie in each of some bins, which are 2^exponent wide; the first one starts
// at `first` such widths. Numbers outside of all bins do not count.
void count_bins(Type type, const std::uint8_t* source, std::size_t count, int exponent, double first,
                std::vector<std::uint64_t>& bins);

// Magnitudes from 10^(lowest_decade) on, ten bins a decade.
constexpr int lowest_decade = -330;
constexpr int decades = 640;
constexpr int decade_bins = 10;

// How many finite numbers are of each magnitude: the positive ones, then the negative ones. Zeros do
// not count.
std::vector<std::uint64_t> count_magnitudes(Type type, const std::uint8_t* source, std::size_t count);

}  // namespace ferry::statistics
