#pragma once
// The parameters of a GEMM's launch. D = round(RN(alpha * A B^T) + C), groups as kernels/candidate_matmul.h has them.

#include <cstdint>

#include "kernels/sm100/tcgen05/descriptor.h"
#include "kernels/sm100/tcgen05/tensor_map.h"

namespace mxcheck::sm100::gemm {

enum class Grouping : std::uint8_t { dense, rows, depth };

struct Params {
  TensorMap a;         // [m, k] codes or values, boxes of 128 x 128 bytes, swizzled by 128; with gathered_rows
                       // [rows of A, k] and boxes of a row
  TensorMap b;         // [n or experts * n, k], boxes of Tile::kRowsB rows
  TensorMap scales_a;  // [chunks, 128] words: 128 x 4 chunks, along k first (kernels/sm100/scales/pack.h)
  TensorMap scales_b;
  InstructionDescriptor instruction;
  const std::int32_t* gathered_rows;  // m: row r of the product is row gathered_rows[r] of A; null: row r. Not of
                                      // groups along depth. Scales of A lie in the product's order all the same
  const float* factors_a;  // of Operands::promoted: [m, blocks], a block 128 of k; groups along depth: each its own,
                           // one after the other; with gathered_rows [rows of A, blocks], by the rows of A
  const float* factors_b;  // [ceil(n / block_b), blocks]; groups along rows: of each expert
  std::int64_t block_b;    // 128 or 1
  void* d;
  const void* c;  // or null; of d's type and shape
  bool bf16;      // d and c; FP32 otherwise
  float alpha;
  std::int64_t m, n, k;
  std::int64_t chunks_k;        // chunks of 128 along k, of all groups
  std::int64_t groups;          // 1 where dense
  const std::int64_t* offsets;  // groups + 1; ascending from 0 to m or k. Groups along depth: all but the last extent
                                // are multiples of 32
};

}  // namespace mxcheck::sm100::gemm
