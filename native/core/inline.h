// What the optimizer must do, or must not, in the loops that take the time.
#pragma once

#if defined(_MSC_VER) && !defined(__clang__)
#define FERRY_INLINE __forceinline
#define FERRY_NOINLINE __declspec(noinline)
#else
#define FERRY_INLINE [[gnu::always_inline]] inline
#define FERRY_NOINLINE [[gnu::noinline]]
#endif
