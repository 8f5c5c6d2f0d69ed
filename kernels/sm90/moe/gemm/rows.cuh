#pragma once
// Groups along rows with B as experts x k x n: the pipeline of gemm/bf16.cu, B's stages as columns.

#include <cstdint>

#include "kernels/sm90/moe/gemm/by_k.cuh"

namespace mxcheck_kernels::sm90 {

template <class Shape_, class Out>
struct RowsByK : MatmulRing<Shape_, Bf16Shared<Shape_, Out>, 2, 2> {
  using Shape = Shape_;
  using Shared = Bf16Shared<Shape, Out>;
  using Ring = MatmulRing<Shape, Shared, 2, 2>;
  using Cursor = typename Ring::Cursor;
  static constexpr int kAcc = Shape::kAccumulators;
  static_assert(Shape::kCluster == 1);

  __device__ __forceinline__ void init_barriers() const { Ring::init_ring(1); }

  __device__ __forceinline__ void produce(int warp, const MatmulMaps& maps) const {
    if (warp == 0) load_tiles(&maps.a, &maps.b);
  }

  __device__ __forceinline__ void load_one(const Cursor& at, const CUtensorMap* a_map, const CUtensorMap* b_map,
                                           const MatmulTile& tile, int kb) const {
    const std::uint32_t barrier = Ring::full(at.stage);
    ptx::mbarrier_arrive_expect_tx(barrier, Shared::kABytes + Shared::kBBytes);
    ptx::cp_async_bulk_tensor_3d(Ring::a_stage(at.stage), a_map, barrier, kb * kStageK, tile.row, 0);
    load_by_k<Shape::kN>(Ring::b_stage(at.stage), b_map, barrier, tile.col, kb * kStageK, tile.expert);
  }

  __device__ __forceinline__ void load_tiles(const CUtensorMap* a_map, const CUtensorMap* b_map) const {
    typename Ring::Schedule schedule(Ring::job, Ring::rank);
    MatmulTile tile;
    Cursor at;
    while (schedule.next(tile)) {
      if (Ring::lane == 0) {
        Ring::wait_empty(at);
        Ring::put_header(at.stage, tile);
        if (tile.kblocks == 0) {
          ptx::mbarrier_arrive(Ring::full(at.stage));
          at.advance();
        }
#pragma unroll 1
        for (int kb = 0; kb < tile.kblocks; ++kb) {
          if (kb != 0) Ring::wait_empty(at);
          load_one(at, a_map, b_map, tile, kb);
          at.advance();
        }
      }
      __syncwarp();
    }
    if (Ring::lane == 0) {
      tile.kblocks = kNoTile;
      Ring::wait_empty(at);
      Ring::put_header(at.stage, tile);
      ptx::mbarrier_arrive(Ring::full(at.stage));
    }
    __syncwarp();
  }

  __device__ __forceinline__ void consume(float (&acc)[kAcc], Cursor& at, int kblocks, int consumer) const {
    int before = 0;
#pragma unroll 4
    for (int kb = 0; kb < kblocks; ++kb) {
      Ring::wait_full(at);
      const std::uint64_t a = ptx::make_smem_desc(Ring::a_stage(at.stage) + consumer * Shape::kConsumerM * kRowBytes);
      const std::uint64_t b = ptx::make_smem_desc_mn_major(Ring::b_stage(at.stage), kBlockBytes);
      chain_stage_by_k<false>(
          *this, acc, at, before, kb, [a](int step) { return a + step * 2; }, [b](int step) { return b + step * 128; });
    }
    chain_end(*this, acc, before);
  }

  __device__ __forceinline__ void run_consumer(const CUtensorMap* c_map, const CUtensorMap* d_map, int index) const {
    consume_tiles<Out>(*this, c_map, d_map, index,
                       [&](float(&acc)[1][kAcc], Cursor& at, const MatmulTile& tile, const MatmulConsumer& me) {
                         consume(acc[0], at, tile.kblocks, me.index);
                       });
  }
};

}  // namespace mxcheck_kernels::sm90
