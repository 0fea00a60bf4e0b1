// Floats to smaller numbers and back, in one pass over all of them.
//
// What the schemes mean is written down in tensorferry/codecs/quantization; arithmetic is in
// float32, and in float64 for float64. Errors are measured where the smaller numbers are made.
#pragma once

#include "numbers.h"

namespace ferry::quantize {

using numbers::Type;

// How an array lies around the axis whose places have scales of their own: it has
// outer * channels * inner elements. One scale for all is one channel.
struct Channels {
  std::size_t count = 1;
  std::size_t inner = 1;
};

// What was found of some elements. Errors and magnitudes are of the finite ones.
struct Totals {
  std::uint64_t nans = 0;
  std::uint64_t infinities = 0;
  std::uint64_t lost = 0;  // elements that the smaller type has no place for
  double largest = 0;
  double largest_error = 0;
  double error_share = 0;  // the sum of error / (number of elements)
};

// Integers: which ones there are, and the scale and zero point of each channel, of the type that is
// calculated with (float, or double for float64).
struct Steps {
  int low;
  int high;
  const std::uint8_t* scale;
  const std::uint8_t* zero_point;
  Channels channels;
};

// The smallest and the largest finite number of each channel, zero included; `low` and `high` hold
// numbers of the type that is calculated with, and take part.
Totals find_ranges(Type type, const std::uint8_t* source, std::size_t count, Channels channels,
                   std::uint8_t* low, std::uint8_t* high);

// The scale and zero point for the range of each channel; all arrays hold numbers of the type that is
// calculated with. `lowest` is the least number of the integers' type. Affine steps cover the range
// by all 256 integers, others are symmetric around the middle one.
void find_steps(Type type, const std::uint8_t* low, const std::uint8_t* high, std::size_t channels,
                int lowest, bool affine, std::uint8_t* scale, std::uint8_t* zero_point) noexcept;

// Makes int8 or uint8 of floats: which of them, the lowest and highest integer say.
Totals to_integers(Type type, const std::uint8_t* source, std::size_t count, const Steps& steps,
                   std::uint8_t* target);

// Makes floats of int8 or uint8.
void from_integers(Type kind, const std::uint8_t* source, std::size_t count, const Steps& steps,
                   Type type, std::uint8_t* target);

// Makes smaller floats; with `clip`, those that have no place become the largest.
Totals to_floats(Type type, const std::uint8_t* source, std::size_t count, bool clip, Type kind,
                 std::uint8_t* target);

// Makes floats of smaller ones; finite ones beyond the largest of the type become that.
void from_floats(Type kind, const std::uint8_t* source, std::size_t count, Type type,
                 std::uint8_t* target);

}  // namespace ferry::quantize
