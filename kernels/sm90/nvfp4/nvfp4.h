#pragma once
// The host's side of the kernels in quantize.cu, both.cu and values.cu.

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/common/nvfp4/options.h"
#include "kernels/common/nvfp4/policy.h"

namespace mxcheck_kernels::sm90 {

__host__ __device__ constexpr std::int64_t divide_up(std::int64_t value, std::int64_t by) {
  return value / by + (value % by != 0 ? 1 : 0);
}

// A matrix that is quantized. Arguments are trusted: candidate.cc has checked them.
struct Nvfp4Job {
  const void* x = nullptr;
  std::int64_t stride = 0;  // of x, in elements
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t blocks = 0;  // of columns
  const float* tensor_scale = nullptr;
  std::uint8_t* codes = nullptr;  // (cols + 1) / 2 bytes a row
  std::uint8_t* scales = nullptr;
  std::uint8_t pad = 0;
  bool tiled = false;   // scales lie in tiles of 128 x 4
  bool words = false;   // four scales of a row may be written as one word
  bool vector = false;  // cols is a multiple of 8, x and its row stride, in bytes, of 16, and codes are aligned to 4
  bool wide = false;    // and all blocks have 16 columns, and codes are aligned to 8
  Nvfp4Recipe recipe = Nvfp4Recipe::exact;
  // Factors as operands: of constants the compiler would make shifts, for another pipe, which is the busier.
  std::uint32_t sixteen = 16;
  std::uint32_t tiny_code = 1U << 22;
};

// Options of a call (kernels/candidate_nvfp4.h). The transform is a butterfly.
struct Nvfp4OptionJob {
  bool stochastic = false;
  int group = 0;         // of the transform; 0: none
  bool to_bf16 = false;  // the transform's result
  std::uint32_t signs[4] = {0, 0, 0, 0};
  Nvfp4Words words;
  std::uint32_t column_counter[2] = {0, 0};  // of both directions
};

// With a transform cols is a multiple of its group. INVALID_VALUE for a matrix that needs more blocks of threads than a
// launch has.
cudaError_t quantize_nvfp4(const Nvfp4Job& job, const Nvfp4OptionJob& options, int block_rows, Nvfp4Values values,
                           cudaStream_t stream);

// Both directions of a matrix. columns: the transposed matrix, without x and its stride; the transform is its alone. Of
// its fields `vector` and `wide` what they say of codes holds.
cudaError_t quantize_nvfp4_both(const Nvfp4Job& rows, const Nvfp4Job& columns, const Nvfp4OptionJob& options,
                                int block_rows, Nvfp4Values values, cudaStream_t stream);

// Codes that become values. Arguments are trusted.
struct Nvfp4ValuesJob {
  const std::uint8_t* codes = nullptr;  // (cols + 1) / 2 bytes a row
  const std::uint8_t* scales = nullptr;
  const float* tensor_scale = nullptr;
  void* y = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  int block_rows = 1;
  bool tiled = false;
  Nvfp4Recipe recipe = Nvfp4Recipe::exact;
};

// values: bf16 or fp32. vector: 16 bytes of values of a row begin at multiples of 16 in y, and their codes at multiples
// of 4 bytes (bf16) or 2 (fp32). INVALID_VALUE for a matrix of more columns than a launch has blocks of threads for.
cudaError_t dequantize_nvfp4(const Nvfp4ValuesJob& job, Nvfp4Values values, bool vector, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
