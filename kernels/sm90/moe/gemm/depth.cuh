#pragma once
// Groups along k, which both operands have from row to row, wherever the groups begin. The rows of an expert's last
// stage that are the next expert's are set to zero in shared memory, of both operands: a product with zero could be
// NaN.
//
// Where an operand is gathered all warps of the producer copy its rows.

#include <cstdint>

#include "kernels/sm90/moe/gemm/by_k.cuh"

namespace mxcheck_kernels::sm90 {

enum class Gathered : std::uint8_t { none, a, b };

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

template <class Shape_, class Out, Gathered kGathered>
struct DepthByK : MatmulRing<Shape_, Bf16Shared<Shape_, Out>, 2, 2> {
  using Shape = Shape_;
  using Shared = Bf16Shared<Shape, Out>;
  using Ring = MatmulRing<Shape, Shared, 2, 2>;
  using Cursor = typename Ring::Cursor;
  using Schedule = DepthSchedule<Shape>;
  static constexpr int kAcc = Shape::kAccumulators;
  static constexpr int kGatheredColumns = kGathered == Gathered::a ? Shape::kM : Shape::kN;
  static constexpr int kWarpRows = kStageK / 4;  // of a stage that is gathered, of a warp of the producer
  static_assert(Shape::kCluster == 1);

  __device__ __forceinline__ void init_barriers() const {
    constexpr int kGathering = kGathered == Gathered::none ? 0 : 128;
    for (int i = 0; i < Ring::kStages; ++i) {
      ptx::barrier_init(Ring::full(i), 1 + kGathering);
      ptx::barrier_init(Ring::empty(i), kConsumers * 128);
    }
    ptx::fence_barrier_init();
    ptx::fence_async();
  }

  __device__ __forceinline__ void produce(int warp, const CUtensorMap* a_map, const CUtensorMap* b_map) const {
    if (warp == 0 || kGathered != Gathered::none) load_tiles(warp, a_map, b_map);
  }

  __device__ __forceinline__ void put_header(int stage, const MatmulTile& tile, int depth) const {
    ptx::store_shared(Ring::header(stage), make_int4(tile.expert, tile.row, tile.rows, tile.col));
    ptx::store_shared(Ring::header(stage) + 16, make_int4(depth, tile.kblocks, 0, 0));
  }

  __device__ __forceinline__ void load_one(const Cursor& at, const CUtensorMap* a_map, const CUtensorMap* b_map,
                                           const MatmulTile& tile, int kb) const {
    constexpr bool kA = kGathered != Gathered::a;
    constexpr bool kB = kGathered != Gathered::b;
    const std::uint32_t barrier = Ring::full(at.stage);
    const int row = tile.kblock + kb * kStageK;
    ptx::barrier_arrive_expect(barrier, (kA ? Shared::kABytes : 0) + (kB ? Shared::kBBytes : 0));
    if constexpr (kA) load_by_k<Shape::kM>(Ring::a_stage(at.stage), a_map, barrier, tile.row, row, 0);
    if constexpr (kB) load_by_k<Shape::kN>(Ring::b_stage(at.stage), b_map, barrier, tile.col, row, 0);
  }

  // A stage of the gathered operand: this warp's 16 rows, `index` of lane i the source of row i, -1 past the end.
  __device__ __forceinline__ void gather_stage(std::uint32_t to, int warp, int index, int column) const {
    constexpr int kChunks = kGatheredColumns / 8;  // of 16 bytes, of a row
    constexpr int kRows = 32 / kChunks;            // at once
    const int width = kGathered == Gathered::a ? Ring::job.m : Ring::job.n;
    const int chunk = Ring::lane % kChunks;
    const bool past = column + chunk * 8 >= width;
    const std::uint8_t* const source =
        (kGathered == Gathered::a ? Ring::job.a : Ring::job.b) + (past ? 0 : (std::int64_t{column} + chunk * 8) * 2);
    to += chunk / 8 * kBlockBytes;
#pragma unroll
    for (int i = 0; i < kWarpRows; i += kRows) {
      const int mine = i + Ring::lane / kChunks;
      const int row = __shfl_sync(Ring::kAllLanes, index, mine);
      const int at = warp * kWarpRows + mine;
      ptx::copy_16(to + at * kRowBytes + (chunk % 8 ^ at % 8) * 16, source + std::int64_t{max(row, 0)} * width * 2,
                   row < 0 || past ? 0 : 16);
    }
  }

  __device__ __forceinline__ int index_of(const MatmulTile& tile, int depth, int k) const {
    if constexpr (kGathered == Gathered::none) return -1;
    return k < depth && Ring::lane < kWarpRows ? __ldg(Ring::job.row_index + tile.kblock + k) : -1;
  }

  // Warp 0 has the headers and TMA, and every warp a quarter of the rows that are gathered.
  __device__ __forceinline__ void load_tiles(int warp, const CUtensorMap* a_map, const CUtensorMap* b_map) const {
    const bool leader = warp == 0 && Ring::lane == 0;
    const int mine = warp * kWarpRows + Ring::lane;
    Schedule schedule(Ring::job, Ring::rank);
    MatmulTile tile;
    Cursor at;
    while (true) {
      const bool more = schedule.next(tile);
      if (!more) tile.kblocks = kNoTile;
      Ring::wait_empty(at);
      if (leader) put_header(at.stage, tile, schedule.depth);
      if (tile.kblocks <= 0) {
        if (leader || kGathered != Gathered::none) {
          if (leader) ptx::barrier_arrive(Ring::full(at.stage));
          if (kGathered != Gathered::none) ptx::barrier_arrive(Ring::full(at.stage));
        }
        at.advance();
        if (!more) return;
        continue;
      }
      int index = index_of(tile, schedule.depth, mine);
#pragma unroll 1
      for (int kb = 0; kb < tile.kblocks; ++kb) {
        if (kb != 0) Ring::wait_empty(at);
        if (leader) load_one(at, a_map, b_map, tile, kb);
        if constexpr (kGathered != Gathered::none) {
          const int next = index_of(tile, schedule.depth, (kb + 1) * kStageK + mine);
          if constexpr (kGathered == Gathered::a) {
            gather_stage(Ring::a_stage(at.stage), warp, index, tile.row);
          } else {
            gather_stage(Ring::b_stage(at.stage), warp, index, tile.col);
          }
          index = next;
          ptx::copy_arrive(Ring::full(at.stage));
        }
        at.advance();
      }
    }
  }

  // By both consumers together.
  __device__ __forceinline__ void clear_rows(int stage, int from, const MatmulConsumer& me) const {
    constexpr int kBlocks = (Shape::kM + Shape::kN) / kBlockColumns;
    constexpr int kOfA = Shape::kM / kBlockColumns;
    const int chunks = (kStageK - from) * 8;
    for (int i = me.index * 128 + me.thread; i < chunks * kBlocks; i += kConsumers * 128) {
      const int block = i / chunks;
      const std::uint32_t to = block < kOfA ? Ring::a_stage(stage) + block * kBlockBytes
                                            : Ring::b_stage(stage) + (block - kOfA) * kBlockBytes;
      ptx::store_shared(to + from * kRowBytes + i % chunks * 16, make_int4(0, 0, 0, 0));
    }
    ptx::fence_async();
    asm volatile("bar.sync 3, 256;" ::: "memory");
  }

  __device__ __forceinline__ void consume(float (&acc)[kAcc], Cursor& at, int depth, const MatmulConsumer& me) const {
    const int kblocks = (depth + kStageK - 1) / kStageK;
    int before = 0;
#pragma unroll 2
    for (int kb = 0; kb < kblocks; ++kb) {
      Ring::wait_full(at);
      if (depth - kb * kStageK < kStageK) clear_rows(at.stage, depth - kb * kStageK, me);
      const std::uint64_t a = ptx::wgmma_operand_by_k(Ring::a_stage(at.stage) + me.index * kBlockBytes, kBlockBytes);
      const std::uint64_t b = ptx::wgmma_operand_by_k(Ring::b_stage(at.stage), kBlockBytes);
      chain_stage_by_k<true>(
          *this, acc, at, before, kb, [a](int step) { return a + step * 128; },
          [b](int step) { return b + step * 128; });
    }
    chain_end(*this, acc, before);
  }

  // read_header's kblock is not filled in: it is the depth here.
  __device__ __forceinline__ MatmulTile read_header(int stage) const {
    const uint4 words = ptx::load_shared_16(Ring::header(stage));
    const uint4 more = ptx::load_shared_16(Ring::header(stage) + 16);
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
