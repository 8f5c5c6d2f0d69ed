#pragma once
// The benchmarks' own kernels: values to work on, scales as cuBLASLt wants them, a distance, operands turned for the
// GPU model. An element depends on seed and place alone.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace mxcheck::bench {

enum class Filling : std::uint8_t {
  e4m3,         // codes of normal values with a standard deviation of 115
  bf16,         // normal, 1
  fp32,         // normal, 1000
  e8m0_scales,  // bytes 120 to 130
  fp32_scales,  // 0.75 to 1.25
  two_codes,    // bytes of any two codes of four bits
  e4m3_scales   // 0.5 to 0.9375
};
// Element i depends on seed and i alone.
void fill(void* to, std::int64_t count, Filling filling, std::uint32_t seed, cudaStream_t stream);

// Compact scales [rows, blocks], E8M0 or FP32, as FP32 [blocks, rows], or [rows, blocks rounded up to 4].
void scales_by_block(const void* scales, bool e8m0, std::int64_t rows, std::int64_t blocks, float* to,
                     cudaStream_t stream);
void scales_padded(const void* scales, bool e8m0, std::int64_t rows, std::int64_t blocks, float* to,
                   cudaStream_t stream);

// sums[0] += sum of (x - y)^2, sums[1] += sum of x^2, of BF16. NaN stays NaN.
void add_squares(const void* x, const void* y, std::int64_t count, double* sums, cudaStream_t stream);

// Fills with values of training tensors: normal, with row scales and outliers.
void fill_normal(void* to, std::int64_t rows, std::int64_t cols, bool fp32, std::uint32_t seed, cudaStream_t stream);
// Kernels that do nothing, for what a launch alone takes.
void launch_nothing(cudaStream_t stream);

// Reads `count` words of 4 bytes, and writes 16 bytes for each: as a decoder of 4 bits to 16 must, and nothing else.
void launch_widening(const void* from, void* to, std::int64_t count, cudaStream_t stream);

// --- a layer's inputs

// BF16 of nearly normal numbers of this standard deviation, within 3.5 of it; element i depends on seed and i alone.
void fill_normal(void* to, std::int64_t count, float deviation, std::uint32_t seed, cudaStream_t stream);

// --- operands of the GPU model
//
// Operands that lie by k, as the GPU model reads them: with k last.

// matrices x rows x cols of 16-bit words to matrices x cols x rows.
void transpose_words(const void* from, void* to, std::int64_t matrices, std::int64_t rows, std::int64_t cols,
                     cudaStream_t stream);

}  // namespace mxcheck::bench
