// Work that is divided among all processors for as long as one call takes.
//
// Threads are started for the call and joined before it ends: starting one takes a thousandth of
// what it does, and a process that is forked between two calls misses none.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace ferry {

// How many threads are worth it for so many bytes.
inline std::size_t threads_for(std::size_t bytes) noexcept {
  constexpr std::size_t least = 1 << 20;  // for each of them
  static const std::size_t processors = std::max(1U, std::thread::hardware_concurrency());
  return std::clamp<std::size_t>(bytes / least, 1, processors);
}

// Calls `work(part)` for each of some parts, each of them once, in no order. It must not throw.
template <typename Work>
void in_parallel(std::size_t parts, std::size_t threads, Work work) {
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t part = next++; part < parts; part = next++) work(part);
  };
  std::vector<std::thread> helpers;
  threads = std::min(threads, parts);
  try {
    helpers.reserve(threads);
    while (helpers.size() + 1 < threads) helpers.emplace_back(run);
  } catch (const std::system_error&) {
    // There are no more to be had; those that started do it all.
  }
  run();
  for (std::thread& helper : helpers) helper.join();
}

// So many elements are one part: what is found in parts is put together in their order, so that
// results do not depend on the number of processors.
// Fuzz targets have smaller parts, so that small inputs have several.
#if !defined(FERRY_PART)
#define FERRY_PART (1 << 16)
#endif
constexpr std::size_t part_size = FERRY_PART;

// Calls `work(part, first, count)` for the parts of an array.
template <typename Work>
void for_parts(std::size_t count, std::size_t bytes, Work work) {
  const std::size_t parts = (count + part_size - 1) / part_size;
  in_parallel(parts, threads_for(bytes), [&](std::size_t part) {
    const std::size_t first = part * part_size;
    work(part, first, std::min(part_size, count - first));
  });
}

inline std::size_t parts_of(std::size_t count) noexcept { return (count + part_size - 1) / part_size; }

}  // namespace ferry
