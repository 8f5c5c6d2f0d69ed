#pragma once
// A static partition of items over threads: part p of n takes [items * p / n, items * (p + 1) / n). Nothing is shared
// between parts and no part waits for another, so the result cannot depend on the number of threads.

#include <algorithm>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace mxcheck_kernels::cpu {

// Threads cost about 50 us to start: below 1 MiB there is one part, and no part is smaller than 256 KiB.
inline std::int64_t part_count(std::int64_t items, std::int64_t bytes, std::int32_t threads) {
  constexpr std::int64_t kSmall = std::int64_t{1} << 20;
  constexpr std::int64_t kSmallestPart = std::int64_t{1} << 18;
  if (bytes < kSmall) return 1;
  const std::int64_t wanted = threads > 0 ? threads : std::int64_t{std::thread::hardware_concurrency()};
  return std::max<std::int64_t>(1, std::min({wanted, items, bytes / kSmallestPart}));
}

// work(begin, end) must not throw. A thread that cannot be started leaves its part to the calling thread. May throw
// std::bad_alloc, before any work is done.
template <class Work>
void for_each_part(std::int64_t items, std::int64_t parts, const Work& work) {
  const auto begin_of = [&](std::int64_t part) {  // items * part / parts without the product
    return items / parts * part + items % parts * part / parts;
  };
  std::vector<std::thread> started;
  started.reserve(static_cast<std::size_t>(parts - 1));
  std::int64_t next = 1;
  try {
    for (; next < parts; ++next) {
      started.emplace_back([&work, begin = begin_of(next), end = begin_of(next + 1)] { work(begin, end); });
    }
  } catch (const std::exception&) {
    work(begin_of(next), items);  // thread creation failed: do the rest here
  }
  work(0, begin_of(1));
  for (std::thread& thread : started) thread.join();
}

}  // namespace mxcheck_kernels::cpu
