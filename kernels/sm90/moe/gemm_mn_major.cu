// GEMMs of BF16 with MN-major operands: in shared memory they are columns, 64 of them in each row of 128 bytes, a row
// for each of a stage's 64 steps of k. Two kernels on the ring of gemm/tile: groups along m, whose B is MN-major, and
// groups along k, whose operands both are.

#include "kernels/sm90/moe/moe_kernels.h"

#include <cstdint>

#include "kernels/sm90/gemm/kernel.cuh"
#include "kernels/sm90/gemm/ring.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kStageK = 64;        // of BF16
inline constexpr int kBlockColumns = 64;  // of a row of 128 bytes
inline constexpr int kBlockBytes = kStageK * kRowBytes;

// Columns from `column` on, kColumns of them, of rows of k from `row` on. Columns and rows past the matrix are zeros.
template <int kColumns>
__device__ __forceinline__ void load_mn_major(std::uint32_t to, const CUtensorMap* map, std::uint32_t barrier,
                                              int column, int row, int matrix) {
#pragma unroll
  for (int i = 0; i < kColumns / kBlockColumns; ++i) {
    ptx::cp_async_bulk_tensor_3d(to + i * kBlockBytes, map, barrier, column + i * kBlockColumns, row, matrix);
  }
}

// One stage of the chain: a(i), b(i) are the operands of step i, 16 of k.
template <bool kAMnMajor, class Tile, int kAcc, class A, class B>
__device__ __forceinline__ void chain_stage_mn_major(const Tile& matmul, float (&acc)[kAcc], typename Tile::Cursor& at,
                                                     int& before, int kb, const A& a, const B& b) {
  ptx::warpgroup_fence_operand(acc);
  ptx::warpgroup_arrive();
#pragma unroll
  for (int i = 0; i < kStageK / 16; ++i) {
    ptx::wgmma<Code::bf16, Code::bf16, kAMnMajor, true>(acc, a(i), b(i), kb + i != 0);
  }
  ptx::warpgroup_commit_batch();
  ptx::warpgroup_fence_operand(acc);
  ptx::warpgroup_wait<1>();
  if (kb != 0) matmul.release(before);
  before = at.stage;
  at.advance();
}

// Tiles of 128 x 256, as gemm/bf16.cu has them for groups.
using MnMajorShape = Bf16Shape<256, 1>;

// ---- Groups along m ----

// Groups along rows with B as experts x k x n: the pipeline of gemm/kernel.cuh, B's stages as columns.
template <class Shape_, class Out>
struct MGrouped : MatmulRing<Shape_, Bf16Shared<Shape_, Out>, 2, 2> {
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
    load_mn_major<Shape::kN>(Ring::b_stage(at.stage), b_map, barrier, tile.col, kb * kStageK, tile.expert);
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
      chain_stage_mn_major<false>(
          *this, acc, at, before, kb, [a](int step) { return a + step * 2; }, [b](int step) { return b + step * 128; });
    }
    chain_end(*this, acc, before);
  }

  __device__ __forceinline__ void run_consumer(const CUtensorMap* c_map, const CUtensorMap* d_map, int index) const {
    consume_tiles<Out>(
        *this, c_map, d_map, index,
        [&](float(&acc)[1][kAcc], Cursor& at, const MatmulTile& tile, const MatmulConsumer& me, const auto& read_c) {
          read_c();
          consume(acc[0], at, tile.kblocks, me.index);
        });
  }
};

// ---- Groups along k ----

// A tile's rows of k: MatmulTile's kblock is the first, `group_k` how many there are.
template <class Shape>
struct KGroupedSchedule {
  MatmulSchedule<Shape> tiles;
  const MatmulJob& job;
  int group_k = 0;

  __device__ __forceinline__ KGroupedSchedule(const MatmulJob& job, unsigned rank) : tiles(job, rank), job(job) {}
  __device__ __forceinline__ bool next(MatmulTile& tile) {
    if (!tiles.next(tile)) return false;
    tile.kblock = tile.expert == 0 ? 0 : static_cast<int>(job.offsets[tile.expert - 1]);
    group_k = static_cast<int>(job.offsets[tile.expert]) - tile.kblock;
    tile.kblocks = (group_k + kStageK - 1) / kStageK;
    return true;
  }
};

// Groups along k, which both operands have from row to row, wherever the groups begin. The rows of an expert's last
// stage that are the next expert's are set to zero in shared memory, of both operands: a product with zero could be
// NaN.
//
// Rows that would have to be gathered are copied before: copying them on the way to the tensor cores was measured, and
// took longer (docs/performance.md).
template <class Shape_, class Out>
struct KGrouped : MatmulRing<Shape_, Bf16Shared<Shape_, Out>, 2, 2> {
  using Shape = Shape_;
  using Shared = Bf16Shared<Shape, Out>;
  using Ring = MatmulRing<Shape, Shared, 2, 2>;
  using Cursor = typename Ring::Cursor;
  using Schedule = KGroupedSchedule<Shape>;
  static constexpr int kAcc = Shape::kAccumulators;
  static_assert(Shape::kCluster == 1);

  __device__ __forceinline__ void init_barriers() const { Ring::init_ring(1); }

  __device__ __forceinline__ void produce(int warp, const MatmulMaps& maps) const {
    if (warp == 0) load_tiles(&maps.a, &maps.b);
  }

  __device__ __forceinline__ void put_header(int stage, const MatmulTile& tile, int group_k) const {
    ptx::st_shared(Ring::header(stage), make_int4(tile.expert, tile.row, tile.rows, tile.col));
    ptx::st_shared(Ring::header(stage) + 16, make_int4(group_k, tile.kblocks, 0, 0));
  }

  __device__ __forceinline__ void load_one(const Cursor& at, const CUtensorMap* a_map, const CUtensorMap* b_map,
                                           const MatmulTile& tile, int kb) const {
    const std::uint32_t barrier = Ring::full(at.stage);
    const int row = tile.kblock + kb * kStageK;
    ptx::mbarrier_arrive_expect_tx(barrier, Shared::kABytes + Shared::kBBytes);
    load_mn_major<Shape::kM>(Ring::a_stage(at.stage), a_map, barrier, tile.row, row, 0);
    load_mn_major<Shape::kN>(Ring::b_stage(at.stage), b_map, barrier, tile.col, row, 0);
  }

  __device__ __forceinline__ void load_tiles(const CUtensorMap* a_map, const CUtensorMap* b_map) const {
    Schedule schedule(Ring::job, Ring::rank);
    MatmulTile tile;
    Cursor at;
    while (schedule.next(tile)) {
      if (Ring::lane == 0) {
        Ring::wait_empty(at);
        put_header(at.stage, tile, schedule.group_k);
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

  __device__ __forceinline__ void consume(float (&acc)[kAcc], Cursor& at, int group_k, const MatmulConsumer& me) const {
    const int kblocks = (group_k + kStageK - 1) / kStageK;
    int before = 0;
#pragma unroll 2
    for (int kb = 0; kb < kblocks; ++kb) {
      Ring::wait_full(at);
      if (group_k - kb * kStageK < kStageK) clear_rows(at.stage, group_k - kb * kStageK, me);
      const std::uint64_t a =
          ptx::make_smem_desc_mn_major(Ring::a_stage(at.stage) + me.index * kBlockBytes, kBlockBytes);
      const std::uint64_t b = ptx::make_smem_desc_mn_major(Ring::b_stage(at.stage), kBlockBytes);
      chain_stage_mn_major<true>(
          *this, acc, at, before, kb, [a](int step) { return a + step * 128; },
          [b](int step) { return b + step * 128; });
    }
    chain_end(*this, acc, before);
  }

  // read_header's kblock is not filled in: it is the group_k here.
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
    consume_tiles<Out>(
        *this, c_map, d_map, index,
        [&](float(&acc)[1][kAcc], Cursor& at, const MatmulTile& tile, const MatmulConsumer& me, const auto& read_c) {
          read_c();
          consume(acc[0], at, tile.kblock, me);
        });
  }
};

// ---- The launch ----

namespace {

template <template <class, class> class Tile>
cudaError_t start_mn_major(const MatmulMaps& maps, const MatmulJob& job, MatmulOutput output, cudaStream_t stream) {
  return output == MatmulOutput::fp32 ? matmul_start<Tile<MnMajorShape, float>>(maps, job, stream)
                                      : matmul_start<Tile<MnMajorShape, __nv_bfloat16>>(maps, job, stream);
}

constexpr int kRaster = 16;

bool aligned(const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; }

bool valid(const MatmulCall& x) {
  const bool rows = x.kind == MatmulKind::rows;
  if (x.kind == MatmulKind::dense || x.accumulate || x.row_index != nullptr || x.n % 8 != 0 || !aligned(x.a) ||
      !aligned(x.b))
    return false;
  return (rows ? x.k : x.m) % 8 == 0 && matmul_valid(x, 1);
}

// Rows of k, columns columns, in boxes of 64 x 64.
cudaError_t encode_mn_major(CUtensorMap& map, const void* data, std::int64_t columns, std::int64_t k,
                            std::int64_t matrices) {
  return encode_map(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, data, columns, k, matrices, kStageK);
}

cudaError_t prepare(const MatmulCall& x, MatmulMaps& maps, MatmulJob& job) {
  if (const auto e = matmul_prepare_output(x, kStageK, kRowBytes, maps, job); e != cudaSuccess) return e;
  job.raster = kRaster;
  if (x.k == 0) return cudaSuccess;
  const bool rows = x.kind == MatmulKind::rows;
  const auto e = rows ? encode_map(maps.a, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, x.a, x.k, x.m, 1, MnMajorShape::kM)
                      : encode_mn_major(maps.a, x.a, x.m, x.k, 1);
  if (e != cudaSuccess) return e;
  return encode_mn_major(maps.b, x.b, x.n, x.k, rows ? x.experts : 1);
}

}  // namespace

cudaError_t matmul_mn_major_launch(const MatmulCall& x, cudaStream_t stream) {
  if (!valid(x)) return cudaErrorInvalidValue;
  if (matmul_empty(x)) return cudaSuccess;
  MatmulMaps maps;
  MatmulJob job;
  if (const auto e = prepare(x, maps, job); e != cudaSuccess) return e;
  if (x.kind == MatmulKind::rows) return start_mn_major<MGrouped>(maps, job, x.output, stream);
  return start_mn_major<KGrouped>(maps, job, x.output, stream);
}

}  // namespace mxcheck_kernels::sm90
