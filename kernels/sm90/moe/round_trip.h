#pragma once
// BF16 through a block format and back: RN_BF16(code * scale), what the contract sm90_bf16+decode makes of quantized
// operands before its tensor cores see them. A layer needs no codes then, and both its GEMMs' operands are BF16.
//
// A block whose amax is NaN or Inf becomes NaN; under deepgemm_host its scale is 2^127 instead, and what is finite in
// it stays so (docs/numerics.md).

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/layer/steps/plan.h"

namespace mxcheck_kernels::sm90 {

enum class RoundFormat : std::uint8_t { e4m3, e5m2, e2m1, e2m3, e3m2 };
enum class RoundScale : std::uint8_t {
  rceil,          // E8M0, ceil(log2(amax / largest value))
  floor,          // E8M0, floor(log2 amax) - largest exponent
  deepgemm_host,  // rceil of max(amax, 1e-4)
};
struct RoundRule {
  RoundFormat format = RoundFormat::e4m3;
  RoundScale scale = RoundScale::rceil;
};

// The matrix is rows x cols, row i of it is row index[i] of x. Blocks are of 32 neighbours of a row (the last of a row
// is shorter), and of 32 neighbours of a column, from the first row of each expert on. Experts are those of the table
// (rows), or, where expert_rows is not 0, each of that many rows.
struct RoundTripJob {
  const std::uint16_t* x = nullptr;
  const std::int32_t* index = nullptr;  // null: row i
  std::int64_t cols = 0;
  std::int64_t expert_rows = 0;
  TiledRows rows;
  std::uint16_t* along_rows = nullptr;  // rows x cols, in blocks of a row; null: not written
  RoundRule row_rule;
  std::uint16_t* along_columns = nullptr;  // rows x cols, in blocks of a column; null: not written
  RoundRule column_rule;
};

// cols is a multiple of 8, x and the outputs are aligned to 16 bytes, and no output is x.
cudaError_t launch_round_trip(const RoundTripJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
