#pragma once
// The report of a launch of a Blackwell kernel on Hopper: findings that the device writes into memory of the
// host.
//
// The checks are those that cost nothing beside the sums: descriptors, forms, allocation, lanes, copies of scales, who
// issues, and a watchdog. Those that need a shadow of every cell and byte are the CPU's (emulation/sm100).

#include <cstdint>

namespace mxcheck::emulation::on_sm90 {

enum class Code : std::uint32_t {
  none,
  instruction_descriptor,  // value: the descriptor
  matrix_descriptor,       // value: start, LBO and SBO are out of range or a form that is not modelled
  d_address,               // value: the address
  scale_address,           // value: the address
  copy_address,            // value: the address
  column,                  // value: a column that is not allocated
  lanes,                   // value: the address; another warp's lanes
  allocation,              // value: columns; no power of two from 32 to 512, no room or no such allocation
  allocation_grows,        // value: columns
  allocation_after_relinquish,
  cta_group,         // value: the second of two
  pair,              // cta_group::2 outside of a pair, or by its odd CTA
  issuer,            // value: a second thread that issues mma, cp or commit
  scale_copies,      // value: the address of the scales; other: the row
  not_freed,         // value: a column that is allocated at the end
  form,              // value: unused; a form that is not modelled on Hopper
  barrier_wait,      // value: an mbarrier's address; its phase did not end
  tensor_core_idle,  // no instruction came and no end: threads wait for each other elsewhere
};

struct DeviceFinding {
  Code code;
  std::uint32_t block;
  std::uint32_t warp;
  std::uint32_t lane;
  std::uint64_t value;
  std::uint64_t other;  // barrier_wait: the parity
};

inline constexpr std::uint32_t kMostFindings = 32;

// In mapped memory of the host: readable after a launch that has trapped.
struct Report {
  std::uint32_t count;  // may be above kMostFindings: those are lost
  DeviceFinding findings[kMostFindings];
};

}  // namespace mxcheck::emulation::on_sm90
