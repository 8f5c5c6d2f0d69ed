#pragma once
// The GEMM of FP8 (matmul_fp8_launch): persistent, one producer warpgroup and two consumer warpgroups, a ring of stages
// of 128 columns in shared memory.
//
// A stage is full when A, B, its scales and, at a tile's start, the tile's header are there. Warps of the producer:
//   0     the schedule, TMA of A and B
//   1     scales of A, and B's of 128 x 128
//   2     B's scales of 1 x 128; without them rows of A that are gathered
//   3     rows of A that are gathered
// A consumer multiplies a stage into a partial, releases the stage and adds the partial to the accumulator, while the
// other consumer uses the tensor cores.

#include <cstdint>

#include "kernels/sm90/gemm/kernel.cuh"
#include "kernels/sm90/gemm/matmul.h"
#include "kernels/sm90/gemm/ring.cuh"
#include "kernels/sm90/gemm/tile.cuh"
#include "kernels/sm90/gemm/tiles.h"
#include "kernels/sm90/ptx/ptx.cuh"

namespace mxcheck_kernels::sm90 {

template <class Shape, class Out, bool kBRow>
struct MatmulShared : MatmulLayout<Shape, Out, Shape::kM + (kBRow ? Shape::kN : 4)> {
  // B's scales of 1 x 128 that a thread reads before a stage's first partial is there, and keeps for its other rows.
  // Pairs of them: all where the accumulators leave registers for it, otherwise half (12 of 16 are 10 % slower).
  static constexpr int kPairs = Shape::kAccumulators / 4;
  static constexpr bool kFew = Shape::kAccumulators < 64;
  static constexpr int kKept = !kBRow || Shape::kRowSubs == 1 ? 0 : kFew ? kPairs : kPairs / 2;
  // The products of 1 x 128 scales are ready before the partial is.
  static constexpr bool kProducts = kBRow && Shape::kSubs == 1 && Shape::kSubN == 128;
  static constexpr int kFloats = (Shape::kSubs + 1) * Shape::kAccumulators;
  static constexpr int kConsumerRegs = kKept > 0 && !kFew ? 232 : kFloats > 128 ? 216 : 208;
  static constexpr int kProducerRegs = producer_registers(kConsumerRegs);
};

// --- scales ----------------------------------------------------------------------------------------------------------
//
// Scales of A's rows, B's rows and B's blocks on their way from memory to a GEMM's stages: a warp of the producer.
//
// A warp shares its part of the processor with warps of both consumers, and their L1 with the tensor cores' operands.
// So few instructions and few loads count: a lane is a row, rows lie apart, and a load of every stage's own scale would
// take 32 of the L1's turns each (tiles of 128 x 64 ran at half the rate). Where rows are aligned for it a lane loads
// the scales of several stages at once, and as many ahead of their use.

// FP32 that an E8M0 byte stands for.
__device__ __forceinline__ std::uint32_t scale_bits(std::uint32_t raw, bool e8m0) {
  if (!e8m0) return raw;
  if (raw == 0) return 0x00400000;
  return raw == 0xFF ? 0x7FC00000 : raw << 23;
}

// The next kCount scales of a row, as they lie in memory: E8M0 bytes, in one word, or FP32 words.
template <int kCount, bool kE8m0>
struct RowScales {
  std::uint32_t words[kE8m0 ? 1 : kCount] = {};

  __device__ __forceinline__ void load(const std::uint8_t* from) {
    if constexpr (kE8m0) {
      static_assert(kCount == 4 || kCount == 2);
      words[0] = kCount == 4 ? __ldg(reinterpret_cast<const std::uint32_t*>(from))
                             : __ldg(reinterpret_cast<const std::uint16_t*>(from));
    } else if constexpr (kCount == 4) {
      const uint4 v = __ldg(reinterpret_cast<const uint4*>(from));
      words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
    } else {
      const uint2 v = __ldg(reinterpret_cast<const uint2*>(from));
      words[0] = v.x, words[1] = v.y;
    }
  }
  __device__ __forceinline__ std::uint32_t bits(int i) const {
    if constexpr (kE8m0) return scale_bits(words[0] >> (8 * i) & 0xFF, true);
    return words[kE8m0 ? 0 : i];
  }
};
// One, of either type.
struct OneScale {
  std::uint32_t word = 0;
  __device__ __forceinline__ void load(const std::uint8_t* from, bool e8m0) {
    word = e8m0 ? __ldg(from) : __ldg(reinterpret_cast<const std::uint32_t*>(from));
  }
};

// kOfA: scales of A's rows, otherwise of B's; with kBlocks also those of B's blocks of 128 x 128, in the first lanes.
template <class Matmul, bool kOfA, bool kBlocks>
struct ScaleProducer {
  using Shape = typename Matmul::Shape;
  using Cursor = typename Matmul::Cursor;
  static constexpr int kEach = (kOfA ? Shape::kM : Shape::kN) / 32;  // rows of a lane: `lane`, `lane` + 32 ..
  static constexpr int kPlace = kOfA ? 0 : Shape::kM * 4;
  // Stages of 1 x 128 scales on both sides take longer than a load in tiles of many columns: there the next group is
  // loaded when this one is stored, which leaves the consumers more registers.
  static constexpr bool kEarly = (kOfA && kBlocks) || Shape::kN < 192;
  static constexpr int kTogether = kEarly && kEach <= 4 ? 4 : 2;  // stages of a load: there are 40 to 88 registers
  // Groups of them ahead, to cover some 800 clocks: stages of 64 x 64 take 250, of 128 x 256 1100.
  static constexpr int kDeep = kEach <= 2 ? 2 : 1;

  const Matmul& matmul;

  // Where a lane's scales of a tile begin.
  struct Rows {
    const std::uint8_t* row[kOfA ? kEach : 1];
    std::uint32_t further[kOfA ? 1 : kEach];  // rows from B's first: those of A may be gathered
    std::uint32_t pitch = 0;                  // bytes of B's rows
    const std::uint8_t* block = nullptr;

    __device__ __forceinline__ const std::uint8_t* at(int i) const {
      if constexpr (kOfA) return row[i];
      return row[0] + std::uint64_t{further[i]} * pitch;
    }
    __device__ __forceinline__ void advance(int bytes, int of_block) {
#pragma unroll
      for (auto& one : row) one += bytes;
      if constexpr (kBlocks) block += of_block;
    }
  };

  __device__ __forceinline__ void run() const {
    const MatmulJob& job = matmul.job;
    const bool e8m0 = kOfA ? job.a_e8m0 : job.b_e8m0;
    const bool aligned = (!kBlocks || e8m0 == job.b_e8m0) && is_aligned(kOfA ? job.scale_a : job.scale_b, e8m0) &&
                         (!kBlocks || is_aligned(job.scale_b, e8m0)) && job.scale_columns % kTogether == 0;
    typename Matmul::Schedule schedule(job, matmul.rank);
    MatmulTile tile;
    Cursor at;
    while (schedule.next(tile)) {
      const Rows rows = rows_of(tile);
      if (tile.kblocks == 0) {
        matmul.wait_empty(at);
        publish(at);
      } else if (!aligned || tile.kblock % kTogether != 0 || tile.kblocks % kTogether != 0) {
        one_by_one(rows, tile.kblocks, at);
      } else if (e8m0) {
        together<true>(rows, tile.kblocks, at);
      } else {
        together<false>(rows, tile.kblocks, at);
      }
    }
    matmul.wait_empty(at);
    publish(at);
  }

 private:
  static __device__ __forceinline__ bool is_aligned(const void* scales, bool e8m0) {
    return reinterpret_cast<std::uintptr_t>(scales) % (kTogether * (e8m0 ? 1 : 4)) == 0;
  }

  // Every lane, for what it stored.
  __device__ __forceinline__ void publish(Cursor& at) const {
    ptx::mbarrier_arrive(matmul.full(at.stage));
    at.advance();
  }

  // Rows past the end use an arbitrary valid scale: no one reads their results.
  __device__ __forceinline__ Rows rows_of(const MatmulTile& tile) const {
    const MatmulJob& job = matmul.job;
    const int lane = matmul.lane;
    const auto place = [&](const void* scales, bool e8m0, std::int64_t row) {
      return static_cast<const std::uint8_t*>(scales) + (row * job.scale_columns + tile.kblock) * (e8m0 ? 1 : 4);
    };
    Rows rows;
    const int last = max(tile.rows, 1) - 1;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if constexpr (kOfA) {
        int row = min(tile.row + min(lane + 32 * i, last), job.m - 1);
        if (job.row_index != nullptr) row = __ldg(job.row_index + row);
        rows.row[i] = place(job.scale_a, job.a_e8m0, row);
      } else {
        const std::int64_t first = has_matrices(job) ? std::int64_t{tile.expert} * job.n : 0;
        rows.row[0] = place(job.scale_b, job.b_e8m0, first + tile.col);
        rows.further[i] = static_cast<std::uint32_t>(min(lane + 32 * i, job.n - 1 - tile.col));
        rows.pitch = static_cast<std::uint32_t>(job.scale_columns) * (job.b_e8m0 ? 1 : 4);
      }
    }
    if constexpr (kBlocks) {
      const int blocks = (job.n - 1) / 128 + 1;
      const std::int64_t first = has_matrices(job) ? std::int64_t{tile.expert} * blocks : 0;
      rows.block = place(job.scale_b, job.b_e8m0, first + min(tile.col / 128 + lane % 4, blocks - 1));
    }
    return rows;
  }

  // Stores the scales of a tile whose depth is a multiple of kTogether stages: one load takes those of kTogether.
  template <bool kE8m0>
  __device__ __forceinline__ void together(Rows rows, int kblocks, Cursor& at) const {
    using Scales = RowScales<kTogether, kE8m0>;
    constexpr int kBytes = kTogether * (kE8m0 ? 1 : 4);
    struct Group {
      Scales row[kDeep][kEach];
      Scales block[kDeep];
    };
    Group next;
    const auto load = [&](int from) {
#pragma unroll
      for (int j = 0; j < kDeep; ++j) {
        if (from + j * kTogether < kblocks) {
#pragma unroll
          for (int i = 0; i < kEach; ++i) next.row[j][i].load(rows.at(i) + j * kBytes);
          if constexpr (kBlocks) next.block[j].load(rows.block + j * kBytes);
        }
      }
      rows.advance(kDeep * kBytes, kDeep * kBytes);
    };
    load(0);
#pragma unroll 1
    for (int from = 0; from < kblocks; from += kDeep * kTogether) {
      Group now;
      if constexpr (kEarly) {
        now = next;
        load(from + kDeep * kTogether);
      }
      const Group& group = kEarly ? now : next;
#pragma unroll
      for (int j = 0; j < kDeep; ++j) {
        if (from + j * kTogether >= kblocks) break;
#pragma unroll
        for (int t = 0; t < kTogether; ++t) {
          matmul.wait_empty(at);
          const std::uint32_t to = matmul.scales(at.stage) + kPlace + matmul.lane * 4;
#pragma unroll
          for (int i = 0; i < kEach; ++i) ptx::st_shared(to + i * 128, group.row[j][i].bits(t));
          if constexpr (kBlocks) {
            if (matmul.lane < 4) ptx::st_shared(to + Shape::kM * 4, group.block[j].bits(t));
          }
          publish(at);
        }
      }
      if constexpr (!kEarly) load(from + kDeep * kTogether);
    }
  }

  // Any other.
  __device__ __forceinline__ void one_by_one(Rows rows, int kblocks, Cursor& at) const {
    const MatmulJob& job = matmul.job;
    const bool e8m0 = kOfA ? job.a_e8m0 : job.b_e8m0;
    const int bytes = e8m0 ? 1 : 4;
    OneScale next[kEach];
    OneScale next_block;
    const auto load = [&] {
#pragma unroll
      for (int i = 0; i < kEach; ++i) next[i].load(rows.at(i), e8m0);
      if constexpr (kBlocks) next_block.load(rows.block, job.b_e8m0);
      rows.advance(bytes, job.b_e8m0 ? 1 : 4);
    };
    load();
#pragma unroll 1
    for (int kb = 0; kb < kblocks; ++kb) {
      std::uint32_t now[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) now[i] = next[i].word;
      const std::uint32_t now_block = next_block.word;
      if (kb + 1 < kblocks) load();
      matmul.wait_empty(at);
      const std::uint32_t to = matmul.scales(at.stage) + kPlace + matmul.lane * 4;
#pragma unroll
      for (int i = 0; i < kEach; ++i) ptx::st_shared(to + i * 128, scale_bits(now[i], e8m0));
      if constexpr (kBlocks) {
        if (matmul.lane < 4) ptx::st_shared(to + Shape::kM * 4, scale_bits(now_block, job.b_e8m0));
      }
      publish(at);
    }
  }
};

// --- the kernel ------------------------------------------------------------------------------------------------------

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
  // C and D of a whole tile are in shared memory: C is asked for some stages after a tile's start, when the D before it
  // has left.
  static constexpr bool kLateC = kBRow && Shared::kSlots == Shared::kChunks;
  static constexpr int kStagesBeforeC = 4;

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

  // Before the last stage's mma, and while none are in flight. Groups along depth have scales of 1 x 128 on both sides.
  __device__ __forceinline__ void clear_last(int stage, const MatmulTile& tile, const MatmulConsumer& me) const {
    if (tile.tail != 0) Ring::clear_tail(stage, tile, me.index * 128 + me.thread);
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

  // `ahead` runs while the last sub-tile's mma do.
  template <int kSub, class Ahead>
  __device__ __forceinline__ void step(float (&acc)[Shape::kSubs][kAcc], float (&partial)[kAcc], const StageScales& s,
                                       ColumnScales& columns, int stage, const MatmulConsumer& me,
                                       const Ahead& ahead) const {
    constexpr int kRowSub = kSub / Shape::kColSubs;
    constexpr int kColSub = kSub % Shape::kColSubs;
    constexpr bool kLast = kSub == Shape::kSubs - 1;
    multiply<kRowSub, kColSub>(partial, stage, me);
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
    if constexpr (!kLast) step<kSub + 1>(acc, partial, s, columns, stage, me, ahead);
  }

  // A tile's mma, one partial after the other. The stage after is waited for, and its scales are read, while a stage's
  // last mma run: between a consumer's partials there is then little but the additions, for which the other consumer's
  // mma have the tensor cores. There always is a stage after: the next tile's first, or the end's.
  template <class ReadC>
  __device__ __forceinline__ void consume(float (&acc)[Shape::kSubs][kAcc], float (&partial)[kAcc], Cursor& at,
                                          const MatmulTile& tile, const MatmulConsumer& me, const ReadC& read_c) const {
    if constexpr (!kLateC) read_c();
    const int offset = tile.col % 128;
    Ring::wait_full(at);
    StageScales s;
    read_scales(s, at.stage, me, offset);
    const auto stage_of = [&] {
      const int stage = at.stage;
      at.advance();
      StageScales next;
      ColumnScales columns;
      step<0>(acc, partial, s, columns, stage, me, [&] {
        Ring::wait_full(at);
        read_scales(next, at.stage, me, offset);
      });
      s = next;
    };
    // Conditions are outside of the loop over stages: one inside took 7 % of the time.
    const int last = kBRow ? tile.kblocks - 1 : tile.kblocks;
    int kb = 0;
    if constexpr (kLateC) {
      const int c_from = min(kStagesBeforeC, last);
#pragma unroll 1
      for (; kb < c_from; ++kb) stage_of();
      read_c();
    }
#pragma unroll 1
    for (; kb < last; ++kb) stage_of();
    if constexpr (kBRow) {
      clear_last(at.stage, tile, me);
      stage_of();
    }
  }

  __device__ __forceinline__ void run_consumer(const CUtensorMap* c_map, const CUtensorMap* d_map, int index) const {
    float partial[kAcc];
#pragma unroll
    for (float& value : partial) value = 0;
    consume_tiles<Out>(
        *this, c_map, d_map, index,
        [&](float(&acc)[Shape::kSubs][kAcc], Cursor& at, const MatmulTile& tile, const MatmulConsumer& me,
            const auto& read_c) { consume(acc, partial, at, tile, me, read_c); });
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

// --- its launch ------------------------------------------------------------------------------------------------------
//
// nvcc takes 27 s for each pair of formats, of which there are four: those of A in E4M3 are in fp8.cu, those of A in
// E5M2 in fp8_e5m2.cu.

template <std::size_t kRow, class Out>
using Fp8Tiles = MatmulShape<kTilesTable[kRow].row_subs, kTilesTable[kRow].col_subs, kTilesTable[kRow].sub_n,
                             kTilesTable[kRow].cluster,
                             std::is_same_v<Out, float> ? kTilesTable[kRow].slots_fp32 : kTilesTable[kRow].slots,
                             kTilesTable[kRow].consumers, kTilesTable[kRow].beside>;
inline constexpr int kRaster = 16;

template <Code kA, Code kB, class Out>
cudaError_t matmul_rows_to(const MatmulFp8& matmul, cudaStream_t stream) {
  return with_tiles<MatmulKernel::fp8_rows>(chosen_tiles(matmul, MatmulKernel::fp8_rows), [&](auto row) {
    return matmul_fp8_start<Fp8Tiles<row.value, Out>, kA, kB, Out, true>(matmul, kRaster, stream);
  });
}

template <Code kA, Code kB, class Out>
cudaError_t matmul_formats_to(const MatmulFp8& matmul, cudaStream_t stream) {
  if (matmul.b_block == MatmulBlock::row) return matmul_rows_to<kA, kB, Out>(matmul, stream);
  return with_tiles<MatmulKernel::fp8>(chosen_tiles(matmul, MatmulKernel::fp8), [&](auto row) {
    return matmul_fp8_start<Fp8Tiles<row.value, Out>, kA, kB, Out, false>(matmul, kRaster, stream);
  });
}

template <Code kA, Code kB>
cudaError_t matmul_formats(const MatmulFp8& matmul, cudaStream_t stream) {
  return matmul.output == MatmulOutput::fp32 ? matmul_formats_to<kA, kB, float>(matmul, stream)
                                             : matmul_formats_to<kA, kB, __nv_bfloat16>(matmul, stream);
}

cudaError_t matmul_fp8_e5m2(const MatmulFp8& matmul, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
