// Loops over numbers, compiled for each width of vectors: for every processor, for those with AVX2,
// which take eight floats at a time instead of four, and for those with AVX-512, which take sixteen.
// All give the same numbers: sums are kept in lanes (numbers.h).
//
//     #define FERRY_KERNELS "some_kernels.h"
//     #include "widths.h"                         inside a namespace
//     FERRY_WIDEST(function, argument, ...)       calls that of the processor at hand
//
// What the kernels call is inlined into each, or is made for every processor; so headers have to be
// included before.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__AVX2__)
#define FERRY_WIDTHS 1
#else
#define FERRY_WIDTHS 0
#endif

namespace plain {
#include FERRY_KERNELS
}  // namespace plain

#if FERRY_WIDTHS
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

namespace wide {
#include FERRY_KERNELS
}  // namespace wide

#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#endif

namespace widest {
#include FERRY_KERNELS
}  // namespace widest

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

inline bool is_wide() noexcept {
  static const bool wide = __builtin_cpu_supports("avx2") != 0;
  return wide;
}

inline bool is_widest() noexcept {
  static const bool widest =
      __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  return widest;
}

#define FERRY_WIDEST(function, ...)                   \
  (is_widest()   ? widest::function(__VA_ARGS__)      \
   : is_wide()   ? wide::function(__VA_ARGS__)        \
                 : plain::function(__VA_ARGS__))
#else
#define FERRY_WIDEST(function, ...) plain::function(__VA_ARGS__)
#endif

#undef FERRY_KERNELS
