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

// One step of the outputs of a row by the plain model: of columns `cols`, those whose `wanted` is not 0. Both arrays
// begin at cols.begin.
void plain_step(const ChainJob& job, std::int64_t row, Extent cols, std::int64_t step, const std::int32_t* wanted,
                std::uint32_t* acc);

}  // namespace mxcheck::detail
