#pragma once
// NVFP4 quantization of bands (rows of blocks), SIMD, dispatched at run time to the best target of the machine.
// Arguments are trusted: candidate.cc has checked them.

#include <cstdint>

#include "kernels/common/nvfp4/options.h"
#include "kernels/common/nvfp4/policy.h"
#include "kernels/common/nvfp4/value.h"
#include "kernels/cpu/nvfp4/levels.h"
#include "kernels/cpu/quantize/scale_map.h"

namespace mxcheck_kernels::cpu {

struct Nvfp4Job {
  Levels levels;
  Nvfp4Values values = Nvfp4Values::bf16;
  const void* x = nullptr;
  std::int64_t cols = 0;
  std::int64_t stride = 0;              // of x, in elements
  const std::int32_t* index = nullptr;  // row i is row index[i] of x; null: row i
  std::int64_t block_rows = 1;
  std::uint8_t* codes = nullptr;  // (cols + 1) / 2 bytes a row
  std::uint8_t* scales = nullptr;
  const ScaleMap* map = nullptr;
  bool stream = false;  // codes bypass the cache
  // With options: they say which, and values is the type of x. Column c of the matrix is col_step elements further on.
  const Nvfp4Options* options = nullptr;
  Nvfp4Words words;
  std::int64_t col_step = 1;

  [[nodiscard]] std::int64_t row_of_x(std::int64_t row) const { return index != nullptr ? index[row] : row; }
};

// Quantizes the bands [begin, end) of job.map. Does not throw. Padding of tiled scales is not written.
void quantize_nvfp4_bands(const Nvfp4Job& job, std::int64_t begin, std::int64_t end);

// --- and back
//
// NVFP4 codes and their scales back to values, SIMD, dispatched at run time to the best target of the machine.
// Arguments are trusted: candidate.cc has checked them.

struct Nvfp4ValuesJob {
  Nvfp4TensorScale scale;
  Nvfp4Values values = Nvfp4Values::bf16;  // bf16 or fp32
  const std::uint8_t* codes = nullptr;     // (cols + 1) / 2 bytes a row
  const std::uint8_t* scales = nullptr;
  const ScaleMap* map = nullptr;
  std::int64_t cols = 0;
  void* y = nullptr;
  bool stream = false;  // y bypasses the cache
};

// The bands [begin, end) of job.map. Does not throw.
void dequantize_nvfp4_bands(const Nvfp4ValuesJob& job, std::int64_t begin, std::int64_t end);

}  // namespace mxcheck_kernels::cpu
