#pragma once
// BF16 through NVFP4 and back: code * block scale, what the contract sm90_bf16+decode makes of operands with E4M3
// scales, in BF16, which holds it exactly. The tensor's own scale stays outside: the GEMM's alpha is made of both
// operands' amax. docs/layer.md has the recipes, two_level_values.cuh the numbers.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/layer/steps/plan.h"

namespace mxcheck_kernels::sm90 {

enum class TwoLevelBlocks : std::uint8_t { rows, columns, squares };  // 1 x 16, 16 x 1, 16 x 16 of the matrix

struct TwoLevelRule {
  bool squares = false;        // else 16 along k
  bool four_over_six = false;  // nvfp4_46; else nvfp4_te
  bool rotates = false;        // columns: each 16 whole rows by the Hadamard transform, first
  bool stochastic = false;     // nvfp4_te alone
};

// The random words of stochastic rounding: that of element i, row-major, is philox_word(seed, i mod 2^32, i / 2^32,
// stream, step).
struct RandomStream {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;
  std::uint32_t step = 0;
};

// The matrix is rows x cols, row i of it is row index[i] of x. Blocks start again at each expert: those of the table
// (rows), or, where expert_rows is not 0, each of that many rows.
struct TwoLevelJob {
  const std::uint16_t* x = nullptr;
  const std::int32_t* index = nullptr;  // null: row i
  std::int64_t cols = 0;
  std::int64_t expert_rows = 0;
  TiledRows rows;
  TwoLevelBlocks blocks = TwoLevelBlocks::rows;
  bool by_columns = false;  // squares: the errors of nvfp4_46 are added column by column, as the GEMM reads W^T
  TwoLevelRule rule;
  RandomStream random;
  std::uint16_t* values = nullptr;  // rows x cols
  std::uint32_t* amax = nullptr;    // the bits of the matrix's largest magnitude, as it was rotated
};

// True for a matrix that is narrow enough for the kernels' grids.
bool takes_two_level(TwoLevelBlocks blocks, std::int64_t cols);

// cols is a multiple of 8, and x and values are aligned to 16 bytes; they are different memory.
cudaError_t launch_two_level(const TwoLevelJob& job, cudaStream_t stream);

// alpha = RN(RN(amax_a / unit_a) * RN(amax_b / unit_b)) of a GEMM; an operand without amax has 1.
struct AlphaJob {
  float* alpha = nullptr;
  const std::uint32_t* amax_a = nullptr;
  const std::uint32_t* amax_b = nullptr;
  float unit_a = 1;
  float unit_b = 1;
};
cudaError_t launch_alpha(const AlphaJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
