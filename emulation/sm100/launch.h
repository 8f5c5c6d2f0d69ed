#pragma once
// A kernel's launch on the CPU: every thread of a cluster is a fibre, clusters run one after the other, and the
// asynchronous operations (TMA, tcgen05) happen when the schedule says.
//
//   const LaunchResult r = launch({.blocks = 2, .threads = 192, .cluster = 2, .shared_bytes = 100'000}, {}, [&] {
//   kernel(params); }); if (!r.findings.empty()) ...
//
// A launch's results depend on its shape, its options and the kernel alone: the same seed is the same run.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/sm100/finding.h"

namespace mxcheck::emulation::sm100 {

// When asynchronous operations happen. All are legal: a right kernel has the same bits and no findings under each.
enum class Schedule : std::uint8_t {
  eager,   // at their issue; warps in turn
  lazy,    // only when no thread can go on without, one at a time; loads of tensor memory deliver at their wait
  random,  // any time after their issue; any warp that can go on, changed at every instruction
};

std::string_view name_of(Schedule schedule);

struct LaunchShape {
  unsigned blocks = 1;
  unsigned threads = 128;        // a multiple of 32, up to 1024
  unsigned cluster = 1;          // divides blocks; up to 16
  std::size_t shared_bytes = 0;  // dynamic shared memory, up to 232,448
};

struct LaunchOptions {
  Schedule schedule = Schedule::eager;
  std::uint64_t seed = 1;
  bool checks = true;   // false: no shadow state, bits alone; they must be the same
  bool strict = false;  // Hazard::live_scales too, which production kernels have (facts of docs/blackwell.md)
  std::uint64_t max_steps = 200'000'000;    // of all threads, in one cluster: a thread that polls for ever ends there
  std::uint64_t limit_ns = 10'000'000'000;  // on a card (emulation/on_sm90), in place of it: how long a thread may wait
};

struct LaunchResult {
  std::vector<Finding> findings;
  bool completed = false;      // every thread came to its end
  std::string dump;            // of the threads and barriers, where it did not
  std::uint64_t mmas = 0;      // executed, of both CTAs of a pair one
  std::uint64_t switches = 0;  // between threads
  double seconds = 0;          // of the kernel on a card (emulation/on_sm90); 0 on the CPU
};

// Error{usage} for a shape that no launch has.
LaunchResult launch(const LaunchShape& shape, const LaunchOptions& options, const std::function<void()>& kernel);

}  // namespace mxcheck::emulation::sm100
