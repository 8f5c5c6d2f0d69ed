#pragma once
// Groups along k, which both operands have from row to row, wherever the groups begin. The rows of an expert's last
// stage that are the next expert's are set to zero in shared memory, of both operands: a product with zero could be
// NaN.
//
// Rows that would have to be gathered are copied before: copying them on the way to the tensor cores was measured, and
// took longer (docs/performance.md).

#include <cstdint>

#include "kernels/sm90/moe/gemm/by_k.cuh"

namespace mxcheck_kernels::sm90 {

// A tile's rows of k: MatmulTile's kblock is the first, `depth` how many there are.
template <class Shape>
struct DepthSchedule {
  MatmulSchedule<Shape> tiles;
  const MatmulJob& job;
  int depth = 0;

  __device__ __forceinline__ DepthSchedule(const MatmulJob& job, unsigned rank) : tiles(job, rank), job(job) {}
  __device__ __forceinline__ bool next(MatmulTile& tile) {
    if (!tiles.next(tile)) return false;
    tile.kblock = tile.expert == 0 ? 0 : static_cast<int>(job.offsets[tile.expert - 1]);
    depth = static_cast<int>(job.offsets[tile.expert]) - tile.kblock;
    tile.kblocks = (depth + kStageK - 1) / kStageK;
    return true;
  }
};

template <class Shape_, class Out>
struct DepthByK : MatmulRing<Shape_, Bf16Shared<Shape_, Out>, 2, 2> {
  using Shape = Shape_;
  using Shared = Bf16Shared<Shape, Out>;
  using Ring = MatmulRing<Shape, Shared, 2, 2>;
  using Cursor = typename Ring::Cursor;
  using Schedule = DepthSchedule<Shape>;
  static constexpr int kAcc = Shape::kAccumulators;
  static_assert(Shape::kCluster == 1);

  __device__ __forceinline__ void init_barriers() const { Ring::init_ring(1); }

  __device__ __forceinline__ void produce(int warp, const MatmulMaps& maps) const {
    if (warp == 0) load_tiles(&maps.a, &maps.b);
  }

  __device__ __forceinline__ void put_header(int stage, const MatmulTile& tile, int depth) const {
    ptx::st_shared(Ring::header(stage), make_int4(tile.expert, tile.row, tile.rows, tile.col));
    ptx::st_shared(Ring::header(stage) + 16, make_int4(depth, tile.kblocks, 0, 0));
  }

  __device__ __forceinline__ void load_one(const Cursor& at, const CUtensorMap* a_map, const CUtensorMap* b_map,
                                           const MatmulTile& tile, int kb) const {
    const std::uint32_t barrier = Ring::full(at.stage);
    const int row = tile.kblock + kb * kStageK;
    ptx::mbarrier_arrive_expect_tx(barrier, Shared::kABytes + Shared::kBBytes);
    load_by_k<Shape::kM>(Ring::a_stage(at.stage), a_map, barrier, tile.row, row, 0);
    load_by_k<Shape::kN>(Ring::b_stage(at.stage), b_map, barrier, tile.col, row, 0);
  }

  __device__ __forceinline__ void load_tiles(const CUtensorMap* a_map, const CUtensorMap* b_map) const {
    Schedule schedule(Ring::job, Ring::rank);
    MatmulTile tile;
    Cursor at;
    while (schedule.next(tile)) {
      if (Ring::lane == 0) {
        Ring::wait_empty(at);
        put_header(at.stage, tile, schedule.depth);
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
      put_header(at.stage, tile, 0);
      ptx::mbarrier_arrive(Ring::full(at.stage));
    }
    __syncwarp();
  }

  // By both consumers together.
  __device__ __forceinline__ void clear_rows(int stage, int from, const MatmulConsumer& me) const {
    constexpr int kBlocks = (Shape::kM + Shape::kN) / kBlockColumns;
    constexpr int kOfA = Shape::kM / kBlockColumns;
    const int chunks = (kStageK - from) * 8;
    for (int i = me.index * 128 + me.thread; i < chunks * kBlocks; i += Shape::kConsumers * 128) {
      const int block = i / chunks;
      const std::uint32_t to = block < kOfA ? Ring::a_stage(stage) + block * kBlockBytes
                                            : Ring::b_stage(stage) + (block - kOfA) * kBlockBytes;
      ptx::st_shared(to + from * kRowBytes + i % chunks * 16, make_int4(0, 0, 0, 0));
    }
    ptx::fence_proxy_async();
    ptx::bar_sync<256>(3);
  }

  __device__ __forceinline__ void consume(float (&acc)[kAcc], Cursor& at, int depth, const MatmulConsumer& me) const {
    const int kblocks = (depth + kStageK - 1) / kStageK;
    int before = 0;
#pragma unroll 2
    for (int kb = 0; kb < kblocks; ++kb) {
      Ring::wait_full(at);
      if (depth - kb * kStageK < kStageK) clear_rows(at.stage, depth - kb * kStageK, me);
      const std::uint64_t a =
          ptx::make_smem_desc_mn_major(Ring::a_stage(at.stage) + me.index * kBlockBytes, kBlockBytes);
      const std::uint64_t b = ptx::make_smem_desc_mn_major(Ring::b_stage(at.stage), kBlockBytes);
      chain_stage_by_k<true>(
          *this, acc, at, before, kb, [a](int step) { return a + step * 128; },
          [b](int step) { return b + step * 128; });
    }
    chain_end(*this, acc, before);
  }

  // read_header's kblock is not filled in: it is the depth here.
  __device__ __forceinline__ MatmulTile read_header(int stage) const {
    const uint4 words = ptx::ld_shared_v4_u32(Ring::header(stage));
    const uint4 more = ptx::ld_shared_v4_u32(Ring::header(stage) + 16);
    MatmulTile tile;
    tile.expert = static_cast<int>(words.x);
    tile.row = static_cast<int>(words.y);
    tile.rows = static_cast<int>(words.z);
    tile.col = static_cast<int>(words.w);
    tile.kblock = static_cast<int>(more.x);
    tile.kblocks = static_cast<int>(more.y);
    return tile;
  }

  __device__ __forceinline__ void run_consumer(const CUtensorMap* c_map, const CUtensorMap* d_map, int index) const {
    consume_tiles<Out>(*this, c_map, d_map, index,
                       [&](float(&acc)[1][kAcc], Cursor& at, const MatmulTile& tile, const MatmulConsumer& me) {
                         consume(acc[0], at, tile.kblock, me);
                       });
  }
};

}  // namespace mxcheck_kernels::sm90
