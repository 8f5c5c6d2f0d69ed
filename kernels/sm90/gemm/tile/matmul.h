#pragma once
// The arguments of every GEMM of this folder. D = alpha A B^T + C; A is m x k, B is n x k, codes row-major.
//
// Kinds
//   dense   A: m x k, B: n x k, D: m x n.
//   rows    A: m x k, cut into experts along m; B: experts x n x k; D: m x n. Row r of A meets the B of its expert.
//   depth   A: m x k, B: n x k, cut into experts along k, D: experts x m x n. An expert's columns begin at a multiple
//   of
//           16 bytes: at others TMA ends the kernel with an illegal instruction. One without columns has a sum of +0.
// Experts end (exclusive) at offsets[e], on the device: non-decreasing, from 0 or more to exactly m (rows) or k
// (depth). Nothing is checked on the device.
// row_index (dense, rows) selects: row i of A is row row_index[i] of a (and of its scales), of a_rows rows.
//
// a and b are aligned to 16 bytes, and so is a row of codes; d to its elements. m, n, k and a_rows are at most 2^31 -
// 1, and there are fewer than 2^31 tiles of 128 x 128. The sum is multiplied by alpha, rounded to FP32, before C is
// added. c, of d's type and shape, is read where accumulate is set, and may be d. With status a call does nothing
// unless the device reads 0 there. No allocation and no synchronization; the first launch of a process looks an entry
// point of the driver up.

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

namespace mxcheck_kernels::sm90 {

enum class MatmulKind : std::uint8_t { dense, rows, depth };
enum class MatmulOutput : std::uint8_t { bf16, fp32 };
// Rows and columns of D that a CTA works on at a time. The result does not depend on it; `chosen` is tile/choice.h's.
enum class MatmulTiles : std::uint8_t { chosen, m128n256, m128n192, m128n128, m128n64, m64n128, m64n64, m64n32 };

struct MatmulCall {
  MatmulKind kind = MatmulKind::dense;
  MatmulOutput output = MatmulOutput::bf16;
  MatmulTiles tiles = MatmulTiles::chosen;
  bool accumulate = false;
  float alpha = 1;
  bool transposed = false;  // C and D are n x m; dense, and bf16/decoded.h alone
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

}  // namespace mxcheck_kernels::sm90
