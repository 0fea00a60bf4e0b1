// TensorProto: one tensor as TensorFlow writes it.
//
//     1 dtype | 2 shape { 2 dim { 1 size } 3 unknown_rank } | 4 tensor_content | 5.. typed values
//
// A tensor's values sit either in `tensor_content`, as they lie in memory, or in the one repeated
// field of its dtype. scan() finds where everything is without copying; fill() decodes a repeated
// field. Which field belongs to which dtype is known in Python (formats/tensorproto.py).
#pragma once

#include <array>
#include <vector>

#include "wire.h"

namespace ferry::tensorproto {

inline constexpr std::size_t max_dimensions = 254;  // TensorShape::MaxDimensions()

struct Tensor {
  std::uint64_t dtype = 0;
  std::array<std::int64_t, max_dimensions> dims;
  std::size_t rank = 0;
  std::uint64_t elements = 1;
  Span content;
  std::uint64_t held = 0;  // bit n: repeated field n holds at least one value
};

Tensor scan(Span input);

// How the values of a repeated field are written, and how wide they come out.
enum class Kind { fixed, boolean, signed_integer, unsigned_integer };

struct Values {
  std::uint32_t field;
  Kind kind;
  int bits;           // of one value: integers beyond it are refused
  std::size_t width;  // of one value in `out`, in bytes
  std::size_t group;  // values an element: 2 for complex numbers
};

// Decodes the values of one repeated field into `out`. A short field repeats its last element, an
// empty one means zeros, a long one is cut: so TensorFlow reads them.
void fill(Span input, const Values& values, std::uint8_t* out, std::size_t size);

// The values of string_val, in order.
std::vector<Span> string_values(Span input);

// What stands before the values: dtype, shape and, unless `content_size` is 0, the tag and length
// of `tensor_content`.
std::string header(std::uint64_t dtype, const std::int64_t* dims, std::size_t rank,
                   std::uint64_t content_size);

// The size of `strings` as values of string_val, and those bytes at `out`.
std::uint64_t strings_size(const std::vector<Span>& strings);
void put_strings(const std::vector<Span>& strings, std::uint8_t* out);

}  // namespace ferry::tensorproto
