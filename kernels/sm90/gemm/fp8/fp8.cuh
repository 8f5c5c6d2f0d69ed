#pragma once
// The GEMM kernel of fp8.h: persistent, one producer warpgroup and two consumer warpgroups, a ring of stages of
// 128 columns in shared memory.
//
// A stage is full when A, B, its scales and, at a tile's start, the tile's header are there. Warps of the producer:
//   0     the schedule, TMA of A and B
//   1     scales of A, and B's of 128 x 128
//   2     B's scales of 1 x 128; without them rows of A that are gathered
//   3     rows of A that are gathered
// A consumer multiplies a stage into a partial, releases the stage and adds the partial to the accumulator, while the
// other consumer uses the tensor cores.

#include <cstdint>

#include "kernels/sm90/gemm/fp8/fp8.h"
#include "kernels/sm90/gemm/ptx/ptx.cuh"
#include "kernels/sm90/gemm/tile/consumer.cuh"
#include "kernels/sm90/gemm/tile/launch.cuh"
#include "kernels/sm90/gemm/tile/ring.cuh"
#include "kernels/sm90/gemm/tile/tile.cuh"

namespace mxcheck_kernels::sm90 {

// E8M0, or the bits of an FP32.
__device__ __forceinline__ std::uint32_t load_scale(const void* scales, bool e8m0, std::int64_t at) {
  return e8m0 ? __ldg(static_cast<const std::uint8_t*>(scales) + at)
              : __ldg(static_cast<const std::uint32_t*>(scales) + at);
}
__device__ __forceinline__ std::uint32_t scale_bits(std::uint32_t raw, bool e8m0) {
  if (!e8m0) return raw;
  if (raw == 0) return 0x00400000;
  return raw == 0xFF ? 0x7FC00000 : raw << 23;
}

template <class Shape_, Code kA, Code kB, class Out, bool kBRow>
struct Fp8Matmul : MatmulRing<Shape_, MatmulShared<Shape_, Out, kBRow>, 1, kBRow ? 1 : 2> {
  using Shape = Shape_;
  using Shared = MatmulShared<Shape, Out, kBRow>;
  static constexpr int kGatherWarps = kBRow ? 1 : 2;
  using Ring = MatmulRing<Shape, Shared, 1, kGatherWarps>;
  using Cursor = typename Ring::Cursor;
  using Schedule = typename Ring::Schedule;
  using Ring::a_stage, Ring::b_stage, Ring::full, Ring::job, Ring::lane, Ring::rank, Ring::release, Ring::shared,
      Ring::wait_empty;
  static constexpr int kAcc = Shape::kAccumulators;

  __device__ __forceinline__ std::uint32_t scales(int stage) const {
    return shared + Shared::kScales + stage * Shared::kScaleBytes;
  }

  // --- producer -----------------------------------------------------------------------------------------------------

  // A lane's scales of a stage: of A's rows or B's rows `lane`, `lane` + 32 ..; with kBlocks also B's of 128 x 128 in
  // the first lanes. Loads run kDeep stages ahead of their use.
  template <bool kOfA, bool kBlocks>
  __device__ __forceinline__ void produce_scales() const {
    constexpr int kEach = (kOfA ? Shape::kM : Shape::kN) / 32;
    constexpr int kDeep = kEach <= 4 && Shape::kSubs == 1 ? 2 : 1;  // a larger tile takes longer
    constexpr int kPlace = kOfA ? 0 : Shape::kM * 4;
    const void* const source = kOfA ? job.scale_a : job.scale_b;
    const bool e8m0 = kOfA ? job.a_e8m0 : job.b_e8m0;
    Schedule schedule(job, rank);
    MatmulTile tile;
    Cursor at;
    const auto publish = [&] {  // every lane for what it stored
      ptx::barrier_arrive(full(at.stage));
      at.advance();
    };
    while (schedule.next(tile)) {
      // Rows past the end use an arbitrary valid scale; their results are not stored.
      int row[kEach];
      std::int64_t first = 0;
      std::int64_t block = 0;
      if constexpr (kOfA) {
        const int last = max(tile.rows, 1) - 1;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          row[i] = min(tile.row + min(lane + 32 * i, last), job.m - 1);
          if (job.row_index != nullptr) row[i] = __ldg(job.row_index + row[i]);
        }
      } else {
        if (job.kind == MatmulKind::rows) first = std::int64_t{tile.expert} * job.n;
#pragma unroll
        for (int i = 0; i < kEach; ++i) row[i] = tile.col + min(lane + 32 * i, job.n - 1 - tile.col);
      }
      if constexpr (kBlocks) {
        const int blocks = (job.n - 1) / 128 + 1;
        block = min(tile.col / 128 + lane % 4, blocks - 1);
        if (job.kind == MatmulKind::rows) block += std::int64_t{tile.expert} * blocks;
      }
      std::uint32_t next[kDeep][kEach];
      std::uint32_t next_block[kDeep];
      const auto load = [&](int from) {
#pragma unroll
        for (int j = 0; j < kDeep; ++j) {
          if (from + j < tile.kblocks) {
            const std::int64_t column = tile.kblock + from + j;
#pragma unroll
            for (int i = 0; i < kEach; ++i) {
              next[j][i] = load_scale(source, e8m0, (first + row[i]) * job.kblocks + column);
            }
            if constexpr (kBlocks) next_block[j] = load_scale(job.scale_b, job.b_e8m0, block * job.kblocks + column);
          }
        }
      };
      load(0);
      for (int from = 0; from < tile.kblocks; from += kDeep) {
        std::uint32_t now[kDeep][kEach];
        std::uint32_t now_block[kDeep];
#pragma unroll
        for (int j = 0; j < kDeep; ++j) {
#pragma unroll
          for (int i = 0; i < kEach; ++i) now[j][i] = next[j][i];
          now_block[j] = next_block[j];
        }
        load(from + kDeep);
#pragma unroll
        for (int j = 0; j < kDeep; ++j) {
          if (from + j < tile.kblocks) {
            wait_empty(at);
            const std::uint32_t to = scales(at.stage) + kPlace + lane * 4;
#pragma unroll
            for (int i = 0; i < kEach; ++i) ptx::store_shared(to + i * 128, scale_bits(now[j][i], e8m0));
            if constexpr (kBlocks) {
              if (lane < 4) ptx::store_shared(to + Shape::kM * 4, scale_bits(now_block[j], job.b_e8m0));
            }
            publish();
          }
        }
      }
      if (tile.kblocks == 0) {
        wait_empty(at);
        publish();
      }
    }
    wait_empty(at);
    publish();
  }

  __device__ __forceinline__ void produce(int warp, const CUtensorMap* a_map, const CUtensorMap* b_map) const {
    if (warp == 0) {
      Ring::produce_codes(a_map, b_map);
    } else if (warp == 1) {
      produce_scales<true, !kBRow>();
    } else if (kBRow && warp == 2) {
      produce_scales<false, false>();
    } else if (job.row_index != nullptr) {
      Ring::gather_rows(warp - (4 - kGatherWarps));
    }
  }

  // --- consumers ----------------------------------------------------------------------------------------------------

  // The scales of a thread's rows, and of B's blocks of 128 x 128, or where those of 1 x 128 are.
  struct StageScales {
    static constexpr int kSegment = Shape::kN % 128 == 0 ? 128 : 64;  // columns that share a scale in every tile
    static constexpr int kSegments = Shape::kN / kSegment;
    float a[Shape::kRowSubs][2];
    float b[kBRow ? 1 : kSegments];
    std::uint32_t row;
  };

  __device__ __forceinline__ void read_scales(StageScales& s, int stage, const MatmulConsumer& me, int offset) const {
    const std::uint32_t at = scales(stage) + (me.index * Shape::kConsumerM + me.warp * 16 + lane / 4) * 4;
#pragma unroll
    for (int i = 0; i < Shape::kRowSubs; ++i) {
      s.a[i][0] = ptx::load_shared(at + i * 256);
      s.a[i][1] = ptx::load_shared(at + i * 256 + 32);
    }
    const std::uint32_t b = scales(stage) + Shape::kM * 4;
    if constexpr (kBRow) {
      s.row = b + lane % 4 * 8;
    } else {
#pragma unroll
      for (int i = 0; i < StageScales::kSegments; ++i) {
        s.b[i] = ptx::load_shared(b + (offset + i * StageScales::kSegment) / 128 * 4);
      }
    }
  }

  // acc += partial * scale, each product of scales rounded first.
  template <int kRowSub, int kColSub>
  __device__ __forceinline__ void add_partial(float (&acc)[kAcc], const float (&partial)[kAcc],
                                              const StageScales& s) const {
    const float a0 = s.a[kRowSub][0];
    const float a1 = s.a[kRowSub][1];
    if constexpr (kBRow) {
#pragma unroll
      for (int i = 0; i < kAcc; i += 4) {
        const float2 b = ptx::load_shared_2(s.row + (kColSub * Shape::kSubN + i * 2) * 4);
        acc[i + 0] = __fmaf_rn(partial[i + 0], __fmul_rn(a0, b.x), acc[i + 0]);
        acc[i + 1] = __fmaf_rn(partial[i + 1], __fmul_rn(a0, b.y), acc[i + 1]);
        acc[i + 2] = __fmaf_rn(partial[i + 2], __fmul_rn(a1, b.x), acc[i + 2]);
        acc[i + 3] = __fmaf_rn(partial[i + 3], __fmul_rn(a1, b.y), acc[i + 3]);
      }
    } else {
      constexpr int kHeld = StageScales::kSegment / 2;
#pragma unroll
      for (int first = 0; first < kAcc; first += kHeld) {
        const float b = s.b[(kColSub * Shape::kSubN + first * 2) / StageScales::kSegment];
        const float s0 = __fmul_rn(a0, b);
        const float s1 = __fmul_rn(a1, b);
#pragma unroll
        for (int i = first; i < first + kHeld; i += 4) {
          acc[i + 0] = __fmaf_rn(partial[i + 0], s0, acc[i + 0]);
          acc[i + 1] = __fmaf_rn(partial[i + 1], s0, acc[i + 1]);
          acc[i + 2] = __fmaf_rn(partial[i + 2], s1, acc[i + 2]);
          acc[i + 3] = __fmaf_rn(partial[i + 3], s1, acc[i + 3]);
        }
      }
    }
  }

  // The scales of a thread's products, where B has one for each of its rows; before the partial is there.
  __device__ __forceinline__ void multiply_scales(float (&products)[kAcc], const StageScales& s) const {
#pragma unroll
    for (int i = 0; i < kAcc; i += 4) {
      const float2 b = ptx::load_shared_2(s.row + i * 8);
      products[i + 0] = __fmul_rn(s.a[0][0], b.x);
      products[i + 1] = __fmul_rn(s.a[0][0], b.y);
      products[i + 2] = __fmul_rn(s.a[0][1], b.x);
      products[i + 3] = __fmul_rn(s.a[0][1], b.y);
    }
    ptx::wgmma_hold(products);
  }

  // Four chained k32 steps, from zero.
  template <int kRowSub, int kColSub>
  __device__ __forceinline__ void multiply(float (&partial)[kAcc], int stage, const MatmulConsumer& me) const {
    const std::uint64_t a =
        ptx::wgmma_operand(a_stage(stage) + (me.index * Shape::kConsumerM + kRowSub * 64) * kBlockK);
    const std::uint64_t b = ptx::wgmma_operand(b_stage(stage) + kColSub * Shape::kSubN * kBlockK);
    ptx::wgmma_hold(partial);
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < 4; ++i) ptx::wgmma<kA, kB>(partial, a + i * 2, b + i * 2, i != 0);
    ptx::wgmma_commit();
  }
  // The same with A in registers.
  template <int kColSub>
  __device__ __forceinline__ void multiply(float (&partial)[kAcc], const std::uint32_t (&a)[4][4], int stage) const {
    const std::uint64_t b = ptx::wgmma_operand(b_stage(stage) + kColSub * Shape::kSubN * kBlockK);
    ptx::wgmma_hold(partial);
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < 4; ++i) ptx::wgmma<kA, kB>(partial, a[i], b + i * 2, i != 0);
    ptx::wgmma_commit();
  }

  template <int kSub>
  __device__ __forceinline__ void step(float (&acc)[Shape::kSubs][kAcc], float (&partial)[kAcc],
                                       const std::uint32_t (&a)[4][4], const StageScales& s, int stage,
                                       const MatmulConsumer& me) const {
    constexpr int kRowSub = kSub / Shape::kColSubs;
    constexpr int kColSub = kSub % Shape::kColSubs;
    constexpr bool kLast = kSub == Shape::kSubs - 1;
    if constexpr (Shape::kARegs) {
      multiply<kColSub>(partial, a, stage);
    } else {
      multiply<kRowSub, kColSub>(partial, stage, me);
    }
    if constexpr (Shared::kProducts) {
      float products[kAcc];
      multiply_scales(products, s);
      ptx::wgmma_wait<0>();
      ptx::wgmma_hold(partial);
      release(stage);
#pragma unroll
      for (int i = 0; i < kAcc; ++i) acc[0][i] = __fmaf_rn(partial[i], products[i], acc[0][i]);
      return;
    }
    ptx::wgmma_wait<0>();
    ptx::wgmma_hold(partial);
    if (kLast && !kBRow) release(stage);
    add_partial<kRowSub, kColSub>(acc[kSub], partial, s);
    if (kLast && kBRow) release(stage);
    if constexpr (!kLast) step<kSub + 1>(acc, partial, a, s, stage, me);
  }

  // A tile's mma, one partial after the other.
  __device__ __forceinline__ void consume(float (&acc)[Shape::kSubs][kAcc], float (&partial)[kAcc], Cursor& at,
                                          const MatmulTile& tile, const MatmulConsumer& me) const {
    const int offset = tile.col % 128;
    for (int kb = 0; kb < tile.kblocks; ++kb) {
      Ring::wait_full(at);
      StageScales s;
      read_scales(s, at.stage, me, offset);
      std::uint32_t a[4][4];
      if constexpr (Shape::kARegs) {
        const int row = me.warp * 16 + lane % 16;
        const std::uint32_t from = a_stage(at.stage) + (me.index * Shape::kConsumerM + row) * kBlockK;
#pragma unroll
        for (int i = 0; i < 4; ++i) ptx::load_matrices(from + (((i * 2 + lane / 16) ^ (row % 8)) << 4), a[i]);
      }
      step<0>(acc, partial, a, s, at.stage, me);
      at.advance();
    }
  }

  // The same, four stages at a time, with the next partial begun before one is added.
  __device__ __forceinline__ void consume_ahead(float (&acc)[kAcc], float (&p)[kAcc], float (&q)[kAcc], Cursor& at,
                                                const MatmulTile& tile, const MatmulConsumer& me) const {
    const int offset = tile.col % 128;
    StageScales ps;
    StageScales qs;
    int p_stage = 0;
    int q_stage = 0;
    const auto begin = [&](float(&partial)[kAcc], StageScales& s, int& stage) {
      Ring::wait_full(at);
      stage = at.stage;
      read_scales(s, stage, me, offset);
      multiply<0, 0>(partial, stage, me);
      at.advance();
    };
    const auto end = [&](float(&partial)[kAcc], const StageScales& s, int stage) {
      ptx::wgmma_hold(partial);
      if (!kBRow) release(stage);
      add_partial<0, 0>(acc, partial, s);
      if (kBRow) release(stage);
    };
    // None is in flight from one turn of a loop to the next: ptxas would wait after every wgmma.
    int left = tile.kblocks;
    for (; left >= 4; left -= 4) {
      begin(p, ps, p_stage);
      begin(q, qs, q_stage);
      ptx::wgmma_wait<1>();
      end(p, ps, p_stage);
      begin(p, ps, p_stage);
      ptx::wgmma_wait<1>();
      end(q, qs, q_stage);
      begin(q, qs, q_stage);
      ptx::wgmma_wait<1>();
      end(p, ps, p_stage);
      ptx::wgmma_wait<0>();
      end(q, qs, q_stage);
    }
    for (; left > 0; --left) {
      begin(p, ps, p_stage);
      ptx::wgmma_wait<0>();
      end(p, ps, p_stage);
    }
  }

  __device__ __forceinline__ void run_consumer(const CUtensorMap* c_map, const CUtensorMap* d_map, int index) const {
    float partial[Shape::kAhead ? 2 : 1][kAcc];
#pragma unroll
    for (auto& one : partial) {
#pragma unroll
      for (float& value : one) value = 0;
    }
    consume_tiles<Out>(
        *this, c_map, d_map, index,
        [&](float(&acc)[Shape::kSubs][kAcc], Cursor& at, const MatmulTile& tile, const MatmulConsumer& me) {
          if constexpr (Shape::kAhead) {
            consume_ahead(acc[0], partial[0], partial[1], at, tile, me);
          } else {
            consume(acc, partial[0], at, tile, me);
          }
        });
  }

  __device__ __forceinline__ void init_barriers() const { Ring::init_ring(1 + (kBRow ? 64 : 32)); }
};

// Maps for a shape's boxes, and the job; fp8.cu. Not for m, n = 0.
cudaError_t matmul_fp8_prepare(const MatmulFp8& matmul, int rows_of_a, int rows_of_b, MatmulMaps& maps, MatmulJob& job);

template <class Shape, Code kA, Code kB, class Out, bool kBRow>
cudaError_t matmul_fp8_start(const MatmulFp8& matmul, int raster, cudaStream_t stream) {
  MatmulMaps maps;
  MatmulJob job;
  if (const auto e = matmul_fp8_prepare(matmul, Shape::kM, Shape::kN / Shape::kCluster, maps, job); e != cudaSuccess) {
    return e;
  }
  job.raster = raster;
  return matmul_start<Fp8Matmul<Shape, kA, kB, Out, kBRow>>(maps, job, stream);
}

}  // namespace mxcheck_kernels::sm90
