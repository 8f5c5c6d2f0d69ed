#pragma once
// The SIMD engine's interface to accumulate.cc. Internal.

#include <cstdint>

#include "reference/accumulate/accumulate.h"
#include "reference/accumulate/exact_rows.h"
#include "reference/accumulate/operand.h"

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

// --- the loops over k of exact_tile.h
//
// In SIMD. They need rounding to nearest and subnormals kept.

// sums[(i - rows.begin) * ld + (p - panels.begin) * kPanel + lane] += the dot product of a's row i and that lane of b's
// panel p over k: every 256 of k are summed apart, each product by a fused multiply-add where the machine has one.
// Lanes beyond b's rows are written too.
struct DotProducts {
  const ExactRows& a;
  const ExactRows& b;
  Extent rows;
  Extent panels;
  Extent k;
  double* sums;
  std::int64_t ld;
};
void run_dot_products(const DotProducts& job);

// For each lane of b's panel, over k: high, the sum of the products of a's row, rounded to multiples of sigma's last
// bit, and low, the sum of what that leaves. Padded to whole panels, as are sigma, high and low.
struct SplitSums {
  const double* a;  // from k's begin on, kPanel apart
  const double* b;  // the same, of the panel
  std::int64_t count;
  const double* sigma;
  double* high;
  double* low;
  bool wide;  // products may have more than 53 bits
};
// False, and nothing done, for wide products on a machine without fused multiply-add.
bool run_split_sums(const SplitSums& job);

}  // namespace mxcheck::detail
