#pragma once
// The GEMMs of this folder as launches: their arguments, and what each computes, defined to the bit. D = alpha A B^T +
// C; A is m x k, B is n x k, codes row-major.
//
// Kinds
//   dense   A: m x k, B: n x k, D: m x n.
//   rows    A: m x k, cut into experts along m; B: experts x n x k; D: m x n. Row r of A meets the B of its expert.
//   depth   A: m x k, B: n x k, cut into experts along k, D: experts x m x n. An expert's columns begin at
//           multiples of 16 bytes: elsewhere TMA ends the kernel with an illegal instruction. An expert without
//           columns has a sum of +0.
//   masked  A: m x k, B: experts x n x k, D: m x n. Each expert has m / experts rows of A and D, its capacity, a whole
//           number. The first offsets[e] of them, 0 to the capacity, meet its B; the kernel may write the others of D.
//
// Groups. For rows and depth, expert e ends (exclusive) at offsets[e], on the device: non-decreasing, from 0 or more to
// exactly m (rows) or k (depth). Nothing is checked on the device. row_index (dense, rows) selects: row i of A is row
// row_index[i] of a (and of its scales), of a_rows rows.
//
// Bounds and errors.
// a and b are aligned to 16 bytes, and so is a row of codes; d to its elements. m, n, k and a_rows are at most 2^31 -
// 1, and there are fewer than 2^31 tiles of 128 x 128. The sum is multiplied by alpha, rounded to FP32, before C is
// added. c, of d's type and shape, is read where accumulate is set, and may be d. With status a call does nothing
// unless the device reads 0 there. No allocation and no synchronization; the first launch of a process looks an entry
// point of the driver up.
//
// No result depends on tile, schedule and kind.

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/common/dtype.h"

namespace mxcheck_kernels::sm90 {

enum class MatmulKind : std::uint8_t { dense, rows, depth, masked };
enum class MatmulOutput : std::uint8_t { bf16, fp32 };
// Rows and columns of D that a CTA works on at a time. The result does not depend on it; `chosen` is tiles.h's.
enum class MatmulTiles : std::uint8_t { chosen, m128n256, m128n192, m128n128, m128n64, m64n128, m64n64, m64n32 };

struct MatmulCall {
  MatmulKind kind = MatmulKind::dense;
  MatmulOutput output = MatmulOutput::bf16;
  MatmulTiles tiles = MatmulTiles::chosen;
  bool accumulate = false;
  float alpha = 1;
  const float* alpha_at = nullptr;  // on the device, in place of alpha
  bool transposed = false;          // C and D are n x m; dense, and matmul_decoded_launch alone
  const void* a = nullptr;
  const void* b = nullptr;
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

// --- BF16 -----------------------------------------------------------------------------------------------------------
//
// k is a multiple of 8.
//
//   acc   = wgmma k16 steps over k, one chain, ascending, from zero; +0 without columns
//   sum   = alpha == 1 ? acc : mul_rn(acc, alpha)
//   value = accumulate ? add_rn(sum, C) : sum
//   D     = value, or RNE of value to BF16
//
// Past the end of k a chain may continue over zeros, up to the next multiple of 64: a step of zeros leaves every sum as
// it is.

cudaError_t matmul_bf16_launch(const MatmulCall& matmul, cudaStream_t stream);

// --- MXFP8 by decoding ----------------------------------------------------------------------------------------------
//
// The same with A given as 8-bit codes and E8M0 scales of 1 x 32, that are decoded (DecodeJob) on their way to the
// tensor cores. k is a multiple of 32.
//
// b is BF16 with the columns of every 16 in the order of DecodeOperand's `paired`: a thread's four codes of a step are
// then neighbours. The terms of one step have no order, so the result is that of BF16.
//
// With `transposed` A is what D has as columns: A's rows are read from memory as codes alone, so it is the operand with
// the more of them.

// A of NVFP4 (`nvfp4`): E2M1, two codes a byte, that of the even column in the low nibble, and E4M3 scales of 1 x 16,
// whose sign counts for nothing and whose NaN makes the block NaN. a_format counts for nothing then, and b is as
// Nvfp4DecodeOperand's `paired` says: A is decoded to values times 2^-8, which saves a multiplication, and the products
// are the same.

struct MatmulDecoded : MatmulCall {
  Element a_format = Element::e4m3;
  bool nvfp4 = false;
  const std::uint8_t* scale_a = nullptr;  // [row of A][k / 32], of NVFP4 [row of A][k / 16]
};

cudaError_t matmul_decoded_launch(const MatmulDecoded& matmul, cudaStream_t stream);

// Codes with scales of 1 x 32 to BF16: RN(code * scale), ties to even, of the exact product. Subnormals stay, beyond
// BF16's largest there is Inf, NaN where the code or the scale (byte 255) is one.

// Rows one after the other, each a multiple of 32 elements. codes and values are aligned to 16 bytes.
struct DecodeOperand {
  Element format = Element::e4m3;
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* scales = nullptr;  // E8M0
  std::uint16_t* values = nullptr;
  std::int64_t elements = 0;
  bool paired = false;  // values of 16 elements in the order 0 1 4 5 8 9 12 13 2 3 6 7 10 11 14 15
};

struct DecodeJob {
  DecodeOperand operands[2];             // the second may be empty
  const std::int32_t* status = nullptr;  // nothing is done unless the device reads 0 there
  // Groups along a row of `pitch` elements that end within a block, or none: experts + 1 offsets, and the column of
  // each one's first scale, of scale_columns in a row. Elements from the last end on become zeros.
  const std::int64_t* offsets = nullptr;
  const std::int64_t* starts = nullptr;
  std::int64_t experts = 0;
  std::int64_t pitch = 0;
  std::int64_t scale_columns = 0;
};

cudaError_t launch_decode(const DecodeJob& job, cudaStream_t stream);

// --- NVFP4 by decoding ----------------------------------------------------------------------------------------------
//
// Packed E2M1 codes with E4M3 scales of 1 x 16 to BF16, which holds every product: it has at most six significant bits.

struct Nvfp4DecodeOperand {
  const std::uint8_t* codes = nullptr;   // [rows][ceil(k / 2)]; where k is a multiple of 16 aligned to 4 bytes
  const std::uint8_t* scales = nullptr;  // [rows][scale_columns]
  std::uint16_t* values = nullptr;       // [rows][pitch], aligned to 16 bytes
  std::int64_t rows = 0;
  // Values are times 2^8, and those of 16 elements in the order 0 2 4 6 8 10 12 14 1 3 5 7 9 11 13 15; k % 16 == 0.
  bool paired = false;
};

struct Nvfp4DecodeJob {
  Nvfp4DecodeOperand operands[2];  // the second may be empty
  std::int64_t k = 0;
  std::int64_t pitch = 0;  // k, rounded up to 16; elements past k are zeros
  std::int64_t scale_columns = 0;
  const std::int32_t* status = nullptr;  // nothing is done unless the device reads 0 there
  // Groups along k, or none: as DecodeJob's.
  const std::int64_t* offsets = nullptr;
  const std::int64_t* starts = nullptr;
  std::int64_t experts = 0;
};

cudaError_t launch_decode_nvfp4(const Nvfp4DecodeJob& job, cudaStream_t stream);

// --- FP8 ------------------------------------------------------------------------------------------------------------
//
// 8-bit floats with block scales. k is a multiple of 16.
//
// For every element of D:
//
//   acc = +0
//   for kb = 0 .. ceil(k/128) - 1:
//     partial = four chained wgmma k32 steps over columns 128 kb .., ascending, from zero; zeros past the end of k or
//               of the expert's columns: a step of zeros leaves every sum as it is
//     acc     = fma_rn(partial, mul_rn(scale_a, scale_b), acc)
//   sum   = alpha == 1 ? acc : mul_rn(acc, alpha)
//   value = accumulate ? add_rn(sum, C) : sum
//   D     = value, or RNE of value to BF16
//
// These operations in this order. Scales are FP32, or E8M0 bytes decoded to FP32 first (0 is the subnormal 2^-127, 255
// is NaN); they are aligned to their elements.
//
// Scales
//   scale_a  [row of A][ceil(k / 128)]
//   scale_b  block: [expert][ceil(n / 128)][ceil(k / 128)], one for 128 x 128; row: [expert][n][ceil(k / 128)]
// Depth: scales are per row and 128 columns on both sides, from each expert's first column on. With experts of other
// columns than multiples of 128, scale_starts[e], on the device, is where those of expert e begin, of scale_columns in
// all; without it they begin at offsets / 128.

enum class MatmulScale : std::uint8_t { e8m0, fp32 };
enum class MatmulBlock : std::uint8_t { square, row };  // of B: 128 x 128, 1 x 128

struct MatmulFp8 : MatmulCall {
  Element a_format = Element::e4m3;
  Element b_format = Element::e4m3;
  MatmulScale a_scale_type = MatmulScale::fp32;
  MatmulScale b_scale_type = MatmulScale::fp32;
  MatmulBlock b_block = MatmulBlock::square;
  const void* scale_a = nullptr;
  const void* scale_b = nullptr;
  const std::int64_t* scale_starts = nullptr;
  int scale_columns = 0;
};

cudaError_t matmul_fp8_launch(const MatmulFp8& matmul, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
