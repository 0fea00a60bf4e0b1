// Loops over numbers, compiled twice: for every processor, and for those with AVX2, which take eight
// floats at a time instead of four. Both give the same numbers: sums are kept in lanes (numbers.h).
//
//     #define FERRY_KERNELS "some_kernels.h"
//     #include "twice.h"                          inside a namespace
//     FERRY_WIDEST(function, argument, ...)       calls that of the processor at hand
//
// What the kernels call is inlined into both, or is made for every processor; so headers have to be
// included before.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__AVX2__)
#define FERRY_TWICE 1
#else
#define FERRY_TWICE 0
#endif

namespace plain {
#include FERRY_KERNELS
}  // namespace plain

#if FERRY_TWICE
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
#else
#pragma GCC pop_options
#endif

inline bool is_wide() noexcept {
  static const bool wide = __builtin_cpu_supports("avx2") != 0;
  return wide;
}

#define FERRY_WIDEST(function, ...) (is_wide() ? wide::function(__VA_ARGS__) : plain::function(__VA_ARGS__))
#else
#define FERRY_WIDEST(function, ...) plain::function(__VA_ARGS__)
#endif

#undef FERRY_KERNELS
