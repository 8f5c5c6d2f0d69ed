#pragma once
// Shared by the GEMMs of transposed.h: operands in shared memory as columns, 64 of them in each row of 128 bytes, a row
// for each of a stage's 64 steps of k.

#include <cstdint>

#include "kernels/sm90/gemm/kernel.cuh"
#include "kernels/sm90/gemm/ring.cuh"
#include "kernels/sm90/moe/gemm/transposed.h"

namespace mxcheck_kernels::sm90 {

inline constexpr int kStageK = 64;        // of BF16
inline constexpr int kBlockColumns = 64;  // of a row of 128 bytes
inline constexpr int kBlockBytes = kStageK * kRowBytes;

// Columns from `column` on, kColumns of them, of rows of k from `row` on. Columns and rows past the matrix are zeros.
template <int kColumns>
__device__ __forceinline__ void load_by_k(std::uint32_t to, const CUtensorMap* map, std::uint32_t barrier, int column,
                                          int row, int matrix) {
#pragma unroll
  for (int i = 0; i < kColumns / kBlockColumns; ++i) {
    ptx::cp_async_bulk_tensor_3d(to + i * kBlockBytes, map, barrier, column + i * kBlockColumns, row, matrix);
  }
}

// One stage of the chain: a(i), b(i) are the operands of step i, 16 of k.
template <bool kAByK, class Tile, int kAcc, class A, class B>
__device__ __forceinline__ void chain_stage_by_k(const Tile& matmul, float (&acc)[kAcc], typename Tile::Cursor& at,
                                                 int& before, int kb, const A& a, const B& b) {
  ptx::warpgroup_fence_operand(acc);
  ptx::warpgroup_arrive();
#pragma unroll
  for (int i = 0; i < kStageK / 16; ++i) {
    ptx::wgmma<Code::bf16, Code::bf16, kAByK, true>(acc, a(i), b(i), kb + i != 0);
  }
  ptx::warpgroup_commit_batch();
  ptx::warpgroup_fence_operand(acc);
  ptx::warpgroup_wait<1>();
  if (kb != 0) matmul.release(before);
  before = at.stage;
  at.advance();
}

}  // namespace mxcheck_kernels::sm90
