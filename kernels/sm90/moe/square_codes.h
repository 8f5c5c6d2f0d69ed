#pragma once
// BF16 to FP8 codes whose scale is shared by 128 x 128 numbers or by a whole tensor, as they lie and transposed, from
// one read: weights for the GEMMs of both directions, and gradients of recipes that have them so.
//
// The matrix is rows x cols, row i of it is row index[i] of x. Squares begin at each expert's first row, and at
// multiples of 128 columns; those at an edge are smaller. Experts are those of the table, or, where expert_rows is not
// 0, each of that many rows. The scale's rule is coding.scale, its block is not read.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/layer/steps/plan.h"
#include "kernels/sm90/layer/steps/steps.h"

namespace mxcheck_kernels::sm90 {

// Where a direction's scales go, FP32 or E8M0 as the coding says.
enum class SquareScales : std::uint8_t {
  each,    // one for each row and 128 columns of the codes: [rows, ceil(cols / 128)] as they lie, [cols, bands]
           // transposed, bands as in layer/steps/steps.h; with expert_rows [experts * cols, ceil(expert_rows / 128)]
  shared,  // one for each square, each expert's one below the other: [sum of ceil(rows_e / 128), ceil(cols / 128)] as
           // they lie; transposed (expert_rows alone) [experts * ceil(cols / 128), ceil(expert_rows / 128)]
};

struct SquareJob {
  const std::uint16_t* x = nullptr;
  const std::int32_t* index = nullptr;  // null: row i
  std::int64_t cols = 0;
  std::int64_t expert_rows = 0;
  TiledRows rows;
  DeviceCoding coding;
  const float* amax = nullptr;  // on the device: of the whole tensor, shared by all; null: each square's own
  SquareScales kind = SquareScales::each;

  std::uint8_t* codes = nullptr;  // rows x cols; null: neither is written
  void* scales = nullptr;
  // With expert_rows: experts x cols x expert_rows. Else cols x stride, an expert's rows from 128 times the number of
  // squares of rows before it on, and +0 up to the next multiple of 128.
  std::uint8_t* transposed = nullptr;  // null: neither is written
  void* transposed_scales = nullptr;
  std::int64_t stride = 0;
  std::int64_t bands = 0;  // of transposed_scales, with SquareScales::each
};
// cols is a multiple of 8, expert_rows of 16, x and codes are aligned to 16 bytes, and so should stride be;
// cudaErrorInvalidValue for others than these, and for shared scales transposed without expert_rows.
cudaError_t launch_square(const SquareJob& job, cudaStream_t stream);

// Sets an amax to 0 before kernels find it as the maximum of magnitudes' bits. A call that was refused leaves it: it
// may be one of kept weights. header may be null.
cudaError_t launch_begin_amax(std::uint32_t* amax, const PlanHeader* header, cudaStream_t stream);

// The largest magnitude of elements numbers of x, NaN if one is; +0 without any. amax is set by the call.
struct AmaxJob {
  const std::uint16_t* x = nullptr;
  std::int64_t elements = 0;
  float* amax = nullptr;
  const PlanHeader* header = nullptr;
};
cudaError_t launch_amax(const AmaxJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
