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
#include "kernels/sm90/gemm/fp8/scales.cuh"
#include "kernels/sm90/gemm/tile/consumer.cuh"
#include "kernels/sm90/gemm/tile/launch.cuh"
#include "kernels/sm90/gemm/tile/ring.cuh"
#include "kernels/sm90/gemm/tile/tile.cuh"
#include "kernels/sm90/ptx/ptx.cuh"

namespace mxcheck_kernels::sm90 {

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

  __device__ __forceinline__ void produce(int warp, const MatmulMaps& maps) const {
    if (warp == 0) {
      Ring::produce_codes(maps);
    } else if (warp == 1) {
      ScaleProducer<Fp8Matmul, true, !kBRow>{*this}.run();
    } else if (kBRow && warp == 2) {
      ScaleProducer<Fp8Matmul, false, false>{*this}.run();
    } else if (job.row_index != nullptr) {
      Ring::gather_rows(warp - (4 - kGatherWarps));
    }
  }

  // --- consumers ----------------------------------------------------------------------------------------------------

  // Before a stage's mma, and while none are in flight. Groups along depth have scales of 1 x 128 on both sides.
  __device__ __forceinline__ void clear_last(int stage, const MatmulTile& tile, int kb,
                                             const MatmulConsumer& me) const {
    if constexpr (kBRow) {
      if (tile.tail != 0 && kb + 1 == tile.kblocks) Ring::clear_tail(stage, tile, me.index * 128 + me.thread);
    }
  }

  // The scales of a thread's rows, and of B's blocks of 128 x 128, or where those of 1 x 128 are.
  struct StageScales {
    // Columns that share a scale in every tile.
    static constexpr int kSegment = Shape::kN % 128 == 0 ? 128 : Shape::kN % 64 == 0 ? 64 : 32;
    static constexpr int kSegments = Shape::kN / kSegment;
    float a[Shape::kRowSubs][2];
    float b[kBRow ? 1 : kSegments];
    std::uint32_t row;
  };
  // The 1 x 128 scales of B for a thread's columns, where they serve more than one of its accumulators.
  struct ColumnScales {
    float2 two[Shared::kKept > 0 ? Shared::kKept : 1];
  };

  __device__ __forceinline__ void read_scales(StageScales& s, int stage, const MatmulConsumer& me, int offset) const {
    const std::uint32_t at = scales(stage) + (Shape::row_of(me.index) + me.warp * 16 + lane / 4) * 4;
#pragma unroll
    for (int i = 0; i < Shape::kRowSubs; ++i) {
      s.a[i][0] = ptx::ld_shared_f32(at + i * 256);
      s.a[i][1] = ptx::ld_shared_f32(at + i * 256 + 32);
    }
    const std::uint32_t b = scales(stage) + Shape::kM * 4;
    if constexpr (kBRow) {
      s.row = b + Shape::column_of(me.index) * 4 + lane % 4 * 8;
    } else {
#pragma unroll
      for (int i = 0; i < StageScales::kSegments; ++i) {
        s.b[i] = ptx::ld_shared_f32(b + (offset + i * StageScales::kSegment) / 128 * 4);
      }
    }
  }

  // While the first mma of a stage run.
  static __device__ __forceinline__ void read_columns(ColumnScales& columns, const StageScales& s) {
#pragma unroll
    for (int i = 0; i < Shared::kKept; ++i) columns.two[i] = ptx::ld_shared_v2_f32(s.row + i * 32);
  }

  // acc += partial * scale, each product of scales rounded first.
  template <int kRowSub, int kColSub>
  __device__ __forceinline__ void add_partial(float (&acc)[kAcc], const float (&partial)[kAcc], const StageScales& s,
                                              const ColumnScales& columns) const {
    const float a0 = s.a[kRowSub][0];
    const float a1 = s.a[kRowSub][1];
    if constexpr (kBRow) {
#pragma unroll
      for (int i = 0; i < kAcc; i += 4) {
        float2 b;
        if (i / 4 < Shared::kKept) {
          b = columns.two[i / 4];
        } else {
          b = ptx::ld_shared_v2_f32(s.row + (kColSub * Shape::kSubN + i * 2) * 4);
        }
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
      const float2 b = ptx::ld_shared_v2_f32(s.row + i * 8);
      products[i + 0] = __fmul_rn(s.a[0][0], b.x);
      products[i + 1] = __fmul_rn(s.a[0][0], b.y);
      products[i + 2] = __fmul_rn(s.a[0][1], b.x);
      products[i + 3] = __fmul_rn(s.a[0][1], b.y);
    }
    ptx::warpgroup_fence_operand(products);
  }

  // Four chained k32 steps, from zero.
  template <int kRowSub, int kColSub>
  __device__ __forceinline__ void multiply(float (&partial)[kAcc], int stage, const MatmulConsumer& me) const {
    const std::uint64_t a = Ring::a_operand(stage, Shape::row_of(me.index) * kBlockK, kRowSub * 64 * kBlockK);
    const std::uint64_t b = Ring::b_operand(stage, (Shape::column_of(me.index) + kColSub * Shape::kSubN) * kBlockK);
    ptx::warpgroup_fence_operand(partial);
    ptx::warpgroup_arrive();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      ptx::wgmma<kA, kB>(partial, ptx::advance_smem_desc(a, i * 2), ptx::advance_smem_desc(b, i * 2), i != 0);
    }
    ptx::warpgroup_commit_batch();
  }
  // The same with A in registers.
  template <int kColSub>
  __device__ __forceinline__ void multiply(float (&partial)[kAcc], const std::uint32_t (&a)[4][4], int stage) const {
    const std::uint64_t b = Ring::b_operand(stage, kColSub * Shape::kSubN * kBlockK);
    ptx::warpgroup_fence_operand(partial);
    ptx::warpgroup_arrive();
#pragma unroll
    for (int i = 0; i < 4; ++i) ptx::wgmma<kA, kB>(partial, a[i], ptx::advance_smem_desc(b, i * 2), i != 0);
    ptx::warpgroup_commit_batch();
  }

  // `ahead` runs while the last sub-tile's mma do.
  template <int kSub, class Ahead>
  __device__ __forceinline__ void step(float (&acc)[Shape::kSubs][kAcc], float (&partial)[kAcc],
                                       const std::uint32_t (&a)[4][4], const StageScales& s, ColumnScales& columns,
                                       int stage, const MatmulConsumer& me, const Ahead& ahead) const {
    constexpr int kRowSub = kSub / Shape::kColSubs;
    constexpr int kColSub = kSub % Shape::kColSubs;
    constexpr bool kLast = kSub == Shape::kSubs - 1;
    if constexpr (Shape::kARegs) {
      multiply<kColSub>(partial, a, stage);
    } else {
      multiply<kRowSub, kColSub>(partial, stage, me);
    }
    if constexpr (kSub == 0) read_columns(columns, s);
    if constexpr (kLast) ahead();
    if constexpr (Shared::kProducts) {
      float products[kAcc];
      multiply_scales(products, s);
      ptx::warpgroup_wait<0>();
      ptx::warpgroup_fence_operand(partial);
      release(stage);
#pragma unroll
      for (int i = 0; i < kAcc; ++i) acc[0][i] = __fmaf_rn(partial[i], products[i], acc[0][i]);
      return;
    }
    ptx::warpgroup_wait<0>();
    ptx::warpgroup_fence_operand(partial);
    constexpr bool kRead = !kBRow || Shared::kKept == kAcc / 4;  // all scales
    if (kLast && kRead) release(stage);
    add_partial<kRowSub, kColSub>(acc[kSub], partial, s, columns);
    if (kLast && !kRead) release(stage);
    if constexpr (!kLast) step<kSub + 1>(acc, partial, a, s, columns, stage, me, ahead);
  }

  // A tile's mma, one partial after the other. The stage after is waited for, and its scales are read, while a stage's
  // last mma run: between a consumer's partials there is then little but the additions, for which the other consumer's
  // mma have the tensor cores. There always is a stage after: the next tile's first, or the end's.
  __device__ __forceinline__ void consume(float (&acc)[Shape::kSubs][kAcc], float (&partial)[kAcc], Cursor& at,
                                          const MatmulTile& tile, const MatmulConsumer& me) const {
    const int offset = tile.col % 128;
    Ring::wait_full(at);
    StageScales s;
    read_scales(s, at.stage, me, offset);
    for (int kb = 0; kb < tile.kblocks; ++kb) {
      std::uint32_t a[4][4];
      if constexpr (Shape::kARegs) {
        const int row = me.warp * 16 + lane % 16;
        const std::uint32_t from = a_stage(at.stage) + (me.index * Shape::kConsumerM + row) * kBlockK;
#pragma unroll
        for (int i = 0; i < 4; ++i) ptx::ldmatrix_x4(from + (((i * 2 + lane / 16) ^ (row % 8)) << 4), a[i]);
      }
      const int stage = at.stage;
      clear_last(stage, tile, kb, me);
      at.advance();
      StageScales next;
      ColumnScales columns;
      step<0>(acc, partial, a, s, columns, stage, me, [&] {
        Ring::wait_full(at);
        read_scales(next, at.stage, me, offset);
      });
      s = next;
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
    static_assert(!kBRow);  // columns past a group's end are not cleared here
    const auto begin = [&](float(&partial)[kAcc], StageScales& s, int& stage) {
      Ring::wait_full(at);
      stage = at.stage;
      read_scales(s, stage, me, offset);
      multiply<0, 0>(partial, stage, me);
      at.advance();
    };
    const auto end = [&](float(&partial)[kAcc], const StageScales& s, int stage) {
      ptx::warpgroup_fence_operand(partial);
      if (!kBRow) release(stage);
      add_partial<0, 0>(acc, partial, s, ColumnScales{});
      if (kBRow) release(stage);
    };
    // None is in flight from one turn of a loop to the next: ptxas would wait after every wgmma.
    int left = tile.kblocks;
    for (; left >= 4; left -= 4) {
      begin(p, ps, p_stage);
      begin(q, qs, q_stage);
      ptx::warpgroup_wait<1>();
      end(p, ps, p_stage);
      begin(p, ps, p_stage);
      ptx::warpgroup_wait<1>();
      end(q, qs, q_stage);
      begin(q, qs, q_stage);
      ptx::warpgroup_wait<1>();
      end(p, ps, p_stage);
      ptx::warpgroup_wait<0>();
      end(q, qs, q_stage);
    }
    for (; left > 0; --left) {
      begin(p, ps, p_stage);
      ptx::warpgroup_wait<0>();
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
cudaError_t matmul_fp8_prepare(const MatmulFp8& matmul, const MatmulBoxes& boxes, MatmulMaps& maps, MatmulJob& job);

template <class Shape, Code kA, Code kB, class Out, bool kBRow>
cudaError_t matmul_fp8_start(const MatmulFp8& matmul, int raster, cudaStream_t stream) {
  MatmulMaps maps;
  MatmulJob job;
  using Tile = Fp8Matmul<Shape, kA, kB, Out, kBRow>;
  if (const auto e = matmul_fp8_prepare(matmul, boxes_of<Tile>(), maps, job); e != cudaSuccess) return e;
  job.raster = raster;
  return matmul_start<Tile>(maps, job, stream);
}

}  // namespace mxcheck_kernels::sm90
