#pragma once
// D = A B^T of 8-bit floats with block scales, defined to the bit.
//
// A is m x k, B is n x k, codes row-major, k a multiple of 128. For every element of D:
//
//   acc = +0
//   for kb = 0 .. k/128 - 1:
//     partial = four chained wgmma k32 steps over columns 128 kb .., ascending, from zero
//     acc     = fma_rn(partial, mul_rn(scale_a, scale_b), acc)
//   value = accumulate ? add_rn(acc, C) : acc
//   D     = value, or RNE of value to BF16
//
// These operations in this order, whatever the tile, the schedule and the kind. Scales are FP32, or E8M0 bytes decoded
// to FP32 first (0 is the subnormal 2^-127, 255 is NaN).
//
// Kinds
//   dense   A: m x k, B: n x k, D: m x n.
//   rows    A: m x k, cut into experts along m; B: experts x n x k; D: m x n. Row r of A meets the B of its expert.
//   depth   A: m x k, B: n x k, cut into experts along k, D: experts x m x n. An expert's columns are a multiple of
//   128,
//           an expert without columns has acc = +0. Scales are per row and 128 columns on both sides.
// Experts end (exclusive) at offsets[e], on the device: non-decreasing, from 0 or more to exactly m (rows) or k
// (depth). Nothing is checked on the device.
//
// Scales
//   scale_a  [row of A][k / 128]
//   scale_b  block: [expert][ceil(n / 128)][k / 128], one for 128 x 128; row: [expert][n][k / 128]
// row_index (dense, rows) selects: row i of the product is row row_index[i] of a and of scale_a, which have a_rows
// rows.
//
// a and b are aligned to 16 bytes, d and the scales to their elements. m, n, k and a_rows are at most 2^31 - 1, and
// there are fewer than 2^31 tiles of 128 x 128. c, of d's type and shape, is read where
// accumulate is set, and may be d. With status a call does nothing unless the device reads 0 there. No allocation and
// no synchronization; the first launch of a process looks an entry point of the driver up.

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/geometry.h"

namespace mxcheck_sm90 {

enum class GemmKind : std::uint8_t { dense, rows, depth };
enum class GemmScale : std::uint8_t { e8m0, fp32 };
enum class GemmBlock : std::uint8_t { square, row };  // of B: 128 x 128, 1 x 128
enum class GemmOutput : std::uint8_t { bf16, fp32 };

struct GemmFp8 {
  GemmKind kind = GemmKind::dense;
  Element a_format = Element::e4m3;
  Element b_format = Element::e4m3;
  GemmScale a_scale_type = GemmScale::fp32;
  GemmScale b_scale_type = GemmScale::fp32;
  GemmBlock b_block = GemmBlock::square;
  GemmOutput output = GemmOutput::bf16;
  bool accumulate = false;
  const void* a = nullptr;
  const void* b = nullptr;
  const void* scale_a = nullptr;
  const void* scale_b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  int experts = 1;
  const std::int64_t* offsets = nullptr;
  const std::int32_t* row_index = nullptr;
  std::int64_t a_rows = 0;  // with row_index; without it m
  const std::int32_t* status = nullptr;
};

cudaError_t gemm_fp8_launch(const GemmFp8& gemm, cudaStream_t stream);

}  // namespace mxcheck_sm90
