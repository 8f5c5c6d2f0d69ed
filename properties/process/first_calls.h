#pragma once
// The first calls of a kind: of candidates that compile when they are called, those that may have to. They have a time
// limit of their own and are counted, so that a report tells compiling from running.
//
// A kind is an operation with the texts and blocks of its policy, and of each tensor its type and how its extents and
// its address are usually specialized on: 0, 1, a multiple of 16, or another number. With static shapes, each shape.

#include <chrono>
#include <cstdint>
#include <set>
#include <string>

#include "properties/process/wire.h"

namespace mxcheck {

// The limits of one call, of which a first call may take the larger, and of its process.
struct TimeLimits {
  std::chrono::milliseconds call{20'000};         // plus 1 s for every 20 MB
  std::chrono::milliseconds first_call{300'000};  // likewise; of candidates behind an adapter
  std::uint64_t memory = 0;                       // bytes of a process; 0: default_memory_limit()
  TimeLimits() = default;
  template <class Rep, class Period>
  TimeLimits(std::chrono::duration<Rep, Period> limit) : call(limit) {}  // NOLINT: a limit is that of a call
};

struct FirstCallCount {
  std::int64_t calls = 0;
  double seconds = 0;  // of all of them
  double longest = 0;
  std::string longest_kind;  // "quantize e4m3 te, bf16 3 x 64"
  void add(double took, const std::string& kind);
  void add(const FirstCallCount& other);
};

// The first calls in one process of a candidate.
class FirstCalls {
 public:
  // True if a call of this kind has not been made since forget().
  bool is_first(const std::string& operation, const wire::Message& message, bool static_shapes);
  void forget() { made_.clear(); }                      // a fresh process
  void took(std::chrono::steady_clock::duration time);  // that call, which is_first was last asked about
  [[nodiscard]] const FirstCallCount& count() const { return count_; }

 private:
  std::set<std::string> made_;
  std::string last_;
  FirstCallCount count_;
};

}  // namespace mxcheck
