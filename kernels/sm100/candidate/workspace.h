#pragma once
// The workspace of a matmul holds scales in chunks, copies of operands that TMA cannot read where they are, offsets of
// such copies, and what D held before, which D gets back if the emulation finds something.
//
// Where operands lie and where groups end is not known when the workspace is asked for, so that there is always room
// for the copies. Extents are 64 bits; each product is checked.

#include <cstdint>

#include "kernels/candidate.h"

namespace mxcheck_kernels::sm100 {

struct Workspace {
  std::int64_t pitch = 0;  // bytes of a row of the copies: whole blocks of 32, one or more
  std::uint64_t a_at = 0;
  std::uint64_t b_at = 0;
  std::uint64_t scales_a_at = 0;
  std::uint64_t scales_b_at = 0;
  std::uint64_t offsets_at = 0;
  std::uint64_t d_at = 0;
  std::uint64_t bytes = 0;
};

// By the shapes alone: data may be null. Throws Refusal: INVALID where shapes are none, UNSUPPORTED where a coordinate
// would need more than the 31 bits that TMA has for it.
Workspace plan_workspace(const mxcheck_call& call);

}  // namespace mxcheck_kernels::sm100
