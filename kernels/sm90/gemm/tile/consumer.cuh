#pragma once
// Shared by the GEMMs' consumers: a consumer's tiles, and the chain of BF16 mma.

#include <cstdint>
#include <type_traits>

#include "kernels/sm90/gemm/tile/output.cuh"
#include "kernels/sm90/gemm/tile/tile.cuh"
#include "kernels/sm90/ptx/ptx.cuh"
#include "kernels/sm90/ptx/wgmma.cuh"

namespace mxcheck_kernels::sm90 {

template <int kSubs, int kAcc>
__device__ __forceinline__ void multiply_all(float (&acc)[kSubs][kAcc], float by) {
#pragma unroll
  for (auto& one : acc) {
#pragma unroll
    for (float& value : one) value = __fmul_rn(value, by);
  }
}

// consume(acc, at, tile, me): the mma of a tile that has columns, from zeros.
template <class Out, class Tile, class Consume>
__device__ __forceinline__ void consume_tiles(const Tile& matmul, const CUtensorMap* c_map, const CUtensorMap* d_map,
                                              int index, const Consume& consume) {
  using Shape = typename Tile::Shape;
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const MatmulConsumer me = {index, thread, __shfl_sync(Tile::kAllLanes, thread / 32, 0)};
  const MatmulStore<Shape, typename Tile::Shared, Out> out = {matmul.job, matmul.shared, matmul.lane, me};
  typename Tile::Cursor at;
  std::uint32_t uses = 0;
  while (true) {
    ptx::mbarrier_wait_parity(matmul.full(at.stage), at.parity);
    const MatmulTile tile = matmul.read_header(at.stage);
    if (tile.kblocks == kNoTile) break;
    out.load_first(c_map, tile);
    float acc[Shape::kSubs][Shape::kAccumulators];
#pragma unroll
    for (auto& one : acc) {
#pragma unroll
      for (float& value : one) value = 0;
    }
    if (tile.kblocks == 0) {
      matmul.release(at.stage);
      at.advance();
    } else {
      consume(acc, at, tile, me);
    }
    if (matmul.job.alpha != 1) multiply_all(acc, matmul.job.alpha);
    out.store_tile(acc, c_map, d_map, tile, uses);
  }
  out.finish();
}

// mma of kSteps of 16 columns, added to the chain, or the chain's first; a(i): A of step i. Those before them are done
// when this returns.
template <int kSteps, int kAcc, class Operand>
__device__ __forceinline__ void chain_steps(float (&acc)[kAcc], std::uint64_t b, bool add, const Operand& a) {
  ptx::warpgroup_fence_operand(acc);
  ptx::warpgroup_arrive();
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const int begun = add || i != 0 ? 1 : 0;
    if constexpr (std::is_same_v<std::decay_t<decltype(a(i))>, std::uint64_t>) {
      ptx::wgmma<Code::bf16, Code::bf16>(acc, a(i), ptx::advance_smem_desc(b, i * 2), begun);
    } else {
      ptx::wgmma_bf16(acc, a(i), ptx::advance_smem_desc(b, i * 2), begun);
    }
  }
  ptx::warpgroup_commit_batch();
  ptx::warpgroup_fence_operand(acc);
  ptx::warpgroup_wait<1>();
}

// A stage's mma, added to the chain while those of the stage `before` may still be on their way.
template <class Tile, int kAcc, class Operand>
__device__ __forceinline__ void chain_stage(const Tile& matmul, float (&acc)[kAcc], typename Tile::Cursor& at,
                                            int& before, int kb, const Operand& a) {
  chain_steps<Tile::Shape::kColumns / 16>(acc, matmul.b_operand(at.stage), kb != 0, a);
  if (kb != 0) matmul.release(before);
  before = at.stage;
  at.advance();
}

template <class Tile, int kAcc>
__device__ __forceinline__ void chain_end(const Tile& matmul, float (&acc)[kAcc], int before) {
  ptx::warpgroup_wait<0>();
  ptx::warpgroup_fence_operand(acc);
  matmul.release(before);
}

}  // namespace mxcheck_kernels::sm90
