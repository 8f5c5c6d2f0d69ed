#pragma once
// Runs a check over every number of a range of 32-bit patterns, on several threads: the engine of exhaustive suites.
//
//   sweep(0, kAllPatterns, 2, [](std::uint32_t pattern) { return f(pattern) == g(pattern); }).mismatches == 0
//
// The result depends on the range and the check alone: mismatches are counted, and the first is the lowest pattern,
// whatever the number of threads.
// Errors: those of a check; the first ends the sweep.
//
// Does not promise: the order in which patterns are visited. A check must be safe to call from several threads. Users
// must link Threads::Threads.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace mxcheck {

inline constexpr std::uint64_t kAllPatterns = std::uint64_t{1} << 32;  // every FP32
inline constexpr std::uint64_t kFiniteMagnitudes = 0x7F800000;         // every finite non-negative FP32, from 0 on

struct SweepResult {
  std::uint64_t checked = 0;
  std::uint64_t mismatches = 0;
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max();  // the lowest pattern that failed, if any did
  std::uint64_t last = 0;                                           // the highest one

  void add_mismatch(std::uint64_t pattern) {
    ++mismatches;
    first = std::min(first, pattern);
    last = std::max(last, pattern);
  }
  void merge(const SweepResult& other) {
    checked += other.checked;
    mismatches += other.mismatches;
    first = std::min(first, other.first);
    last = std::max(last, other.last);
  }
};

// Calls check_range(begin, end) -> SweepResult on pieces of [begin, end), for checks that gain from neighbours.
template <class CheckRange>
SweepResult sweep_ranges(std::uint64_t begin, std::uint64_t end, unsigned threads, const CheckRange& check_range) {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
  std::atomic<std::uint64_t> next{begin};
  std::mutex mutex;
  SweepResult total;
  std::exception_ptr failure;
  const auto work = [&] {
    SweepResult mine;
    try {
      for (std::uint64_t at = next.fetch_add(kPiece); at < end; at = next.fetch_add(kPiece)) {
        mine.merge(check_range(at, std::min(at + kPiece, end)));
      }
    } catch (...) {
      next = end;
      const std::scoped_lock lock(mutex);
      if (!failure) failure = std::current_exception();
    }
    const std::scoped_lock lock(mutex);
    total.merge(mine);
  };
  {
    std::vector<std::jthread> others;
    for (unsigned i = 1; i < threads; ++i) others.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
  return total;
}

// Calls check(pattern) -> bool on every pattern of [begin, end), end <= 2^32; false is a mismatch.
template <class Check>
SweepResult sweep(std::uint64_t begin, std::uint64_t end, unsigned threads, const Check& check) {
  return sweep_ranges(begin, end, threads, [&check](std::uint64_t from, std::uint64_t to) {
    SweepResult result;
    for (std::uint64_t pattern = from; pattern < to; ++pattern) {
      const bool pass = check(static_cast<std::uint32_t>(pattern));
      if (!pass) result.add_mismatch(pattern);
    }
    result.checked = to - from;
    return result;
  });
}

}  // namespace mxcheck
