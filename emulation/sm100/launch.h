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

namespace mxcheck::emulation::sm100 {

// --- findings
//
// Findings: what a launch did that the PTX ISA forbids or leaves undefined.

enum class Hazard : std::uint8_t {
  allocation,     // tensor memory: allocated, freed or relinquished against the rules, columns that nobody owns
  address,        // outside shared or tensor memory, another warp's lanes, alignment
  uninitialized,  // tensor memory or shared memory that nothing has written
  not_complete,   // read before the operation that writes it is known to be complete
  not_ordered,    // complete, but no tcgen05.fence orders it
  overwritten,    // written while something before may still read or write it
  proxy,          // generic and async accesses without a fence.proxy.async between them
  descriptor,     // of a matrix in shared memory, or of an instruction
  swizzle,        // written by TMA in one swizzle, read in another
  scale_copies,   // copies of scales that must be equal and are not
  live_scales,    // strict: tcgen05.cp onto scales that an mma before may still read
  issue,          // who issues: several lanes, several threads, both cta_groups
  collective,     // a warp, a CTA or a cluster does not execute together what it must
  barrier,        // mbarrier: not initialized, too many arrivals, scope, overlap
  phase,          // mbarrier: a phase that nobody waited for, or a wait that missed one
  transaction,    // mbarrier: bytes that do not add up
  launch,         // cluster launch control
  exit,           // what is left when a CTA ends; accesses to a CTA that has ended
  deadlock,       // nothing can go on
  unknown,        // a form that is not modelled: the run says nothing about it
};

std::string_view name_of(Hazard hazard);

struct Finding {
  Hazard hazard;
  std::string who;          // "cta 0 warp 1 lane 0 (mma)"
  std::string instruction;  // "tcgen05.ld.32x32b.x32"
  std::string what;         // what is wrong, where: column, lane, byte, barrier
  std::string right;        // what would be right
  std::size_t times = 1;    // met again by the same role at the same instruction
};

std::string text_of(const Finding& finding);

// The findings that differ in hazard, role, instruction or in what would be right, the first of each in full.
class Findings {
 public:
  void add(Finding finding, std::string_view role);
  [[nodiscard]] const std::vector<Finding>& all() const { return all_; }

 private:
  std::vector<Finding> all_;
  std::vector<std::string> keys_;
};

// --- the launch

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
