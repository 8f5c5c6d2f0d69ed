#pragma once
// The SIMD engine's interface to accumulate.cc. Internal.

#include <cstdint>

#include "reference/accumulate/accumulate.h"

namespace mxcheck::detail {

struct ChainJob {
  const PackedOperand& a;
  const PackedOperand& b;
  Extent rows;
  Extent cols;
  Extent steps;
  std::uint32_t* acc;  // of (rows.begin, cols.begin)
  std::int64_t ld;
};

// Needs runs_on_engine(job.a.contract()).
void run_chains(const ChainJob& job);

// One step of one output by the plain model.
std::uint32_t plain_step(const ChainJob& job, std::int64_t row, std::int64_t col, std::int64_t step, std::uint32_t c);

}  // namespace mxcheck::detail
