#pragma once
// BF16 rotated along k and through MS-EDEN and back: code * block scale in BF16, which holds it exactly, as two_level.h
// has it of the other recipes of NVFP4. docs/layer.md has the definition, ms_eden_values.cuh the numbers.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/moe/two_level.h"

namespace mxcheck_kernels::sm90 {

struct MsEdenRule {
  bool requantizes = false;  // the operand is made of what the recipe's forward pass made of the tensor
};

// The matrix is rows x cols, row i of it is row index[i] of x. k runs along its rows, or down its columns: those of
// each expert of the table, or all.
//
// x stands for x * amax / unit, rounded once to FP32, where there is an amax: values of two levels.
struct MsEdenJob {
  const std::uint16_t* x = nullptr;
  const std::int32_t* index = nullptr;  // null: row i
  const std::uint32_t* x_amax = nullptr;
  float x_unit = 1;
  std::int64_t cols = 0;
  TiledRows rows;
  bool down_columns = false;
  RandomStream random;               // the word of element i, row-major, is a block's whose first element it is
  std::uint32_t signs = 0;           // the stream of the rotation's signs: words 0 to 3
  std::uint16_t* rotated = nullptr;  // rows x cols
  std::uint16_t* values = nullptr;   // rows x cols
  std::uint32_t* amax = nullptr;     // the bits of the largest finite magnitude of `rotated`
};

// True for a matrix that is narrow enough for the kernels' grids.
bool takes_ms_eden(bool down_columns, std::int64_t cols);

// x, rotated and values are different memory.
cudaError_t launch_ms_eden(const MsEdenJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
