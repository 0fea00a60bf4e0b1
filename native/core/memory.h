// Memory that is about to be filled.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace ferry {

// Asks for large pages, if the memory is large: each new page costs as much as filling it does.
inline void expect_filling([[maybe_unused]] void* data, [[maybe_unused]] std::size_t size) noexcept {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr std::size_t large = 4 << 20;  // less is mostly memory that was used before
  if (size < large) return;
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto start = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
  // The last page may not be whole: large pages do not reach it. Without them, all is as before.
  static_cast<void>(madvise(reinterpret_cast<void*>(start), (size - page) / page * page, MADV_HUGEPAGE));
#endif
}

}  // namespace ferry
