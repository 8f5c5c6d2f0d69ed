#pragma once
// The GEMM kernel of fp8.h: persistent, one producer warpgroup and two consumer warpgroups, a ring of stages of
// 128 columns in shared memory.
//
// A stage is full when A, B, its scales and, at a tile's start, the tile's header are there. Warps of the producer:
//   0     the schedule, TMA of A and B
//   1     scales of A, and B's of 128 x 128
//   2     B's scales of 1 x 128; without them rows of A that are gathered
//   3     rows of A that are gathered
// A consumer multiplies a stage into a partial, gives the stage back and adds the partial to the accumulator, while the
// other consumer has the tensor cores.

#include <cstdint>

#include <cuda_bf16.h>

#include "kernels/sm90/gemm/ptx.cuh"
#include "kernels/sm90/gemm/tile.cuh"
#include "kernels/sm90/gemm/wgmma.cuh"

namespace mxcheck_sm90 {

// A place in the ring of stages.
template <int kStages>
struct StageCursor {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

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

template <class Shape, Element kA, Element kB, class Out, bool kBRow>
struct Gemm {
  using Shared = GemmShared<Shape, Out, kBRow>;
  using Cursor = StageCursor<Shared::kStages>;
  using Schedule = GemmSchedule<Shape>;
  static constexpr int kStages = Shared::kStages;
  static constexpr int kCluster = Shape::kCluster;
  static constexpr int kAcc = Shape::kAccumulators;
  static constexpr unsigned kAllLanes = 0xFFFFFFFF;
  static constexpr int kGatherWarps = kBRow ? 1 : 2;

  const GemmJob& job;
  std::uint32_t shared;
  std::uint32_t rank;
  int lane;

  __device__ __forceinline__ std::uint32_t full(int stage) const { return shared + Shared::kFull + stage * 8; }
  __device__ __forceinline__ std::uint32_t empty(int stage) const { return shared + Shared::kEmpty + stage * 8; }
  __device__ __forceinline__ std::uint32_t a_stage(int stage) const {
    return shared + Shared::kA + stage * Shared::kABytes;
  }
  __device__ __forceinline__ std::uint32_t b_stage(int stage) const {
    return shared + Shared::kB + stage * Shared::kBBytes;
  }
  __device__ __forceinline__ std::uint32_t scales(int stage) const {
    return shared + Shared::kScales + stage * Shared::kScaleBytes;
  }
  __device__ __forceinline__ std::uint32_t header(int stage) const {
    return shared + Shared::kHeaders + stage * Shared::kHeaderBytes;
  }

  // --- producer -----------------------------------------------------------------------------------------------------

  __device__ __forceinline__ void wait_empty(const Cursor& at) const {
    ptx::barrier_wait(empty(at.stage), at.parity ^ 1);
  }

  __device__ __forceinline__ void put_header(int stage, const GemmTile& tile) const {
    ptx::store_shared(header(stage), make_int4(tile.expert, tile.row, tile.rows, tile.col));
    ptx::store_shared(header(stage) + 16, make_int4(tile.kblock, tile.kblocks, 0, 0));
  }

  __device__ __forceinline__ void load_stage(const Cursor& at, const CUtensorMap* a_map, const CUtensorMap* b_map,
                                             const GemmTile& tile, int kb) const {
    const bool gathered = job.row_index != nullptr;
    const std::uint32_t barrier = full(at.stage);
    const int x = (tile.kblock + kb) * kBlockK;
    const int b_expert = job.kind == GemmKind::rows ? tile.expert : 0;
    ptx::barrier_arrive_expect(barrier, Shared::kBBytes + (gathered ? 0 : Shared::kABytes));
    if (!gathered) ptx::tma_load(a_stage(at.stage), a_map, barrier, x, tile.row, 0);
    if constexpr (kCluster == 1) {
      ptx::tma_load(b_stage(at.stage), b_map, barrier, x, tile.col, b_expert);
    } else {
      constexpr int kPart = Shape::kN / kCluster;
      const int part = static_cast<int>(rank);
      ptx::tma_load_multicast(b_stage(at.stage) + part * kPart * kBlockK, b_map, barrier, x, tile.col + part * kPart,
                              b_expert, (1 << kCluster) - 1);
    }
  }

  __device__ __forceinline__ void produce_codes(const CUtensorMap* a_map, const CUtensorMap* b_map) const {
    if (lane == 0 && job.kblocks > 0) {
      if (job.row_index == nullptr) ptx::prefetch_map(a_map);
      ptx::prefetch_map(b_map);
    }
    Schedule schedule(job, rank);
    GemmTile tile;
    Cursor at;
    while (schedule.next(tile)) {
      if (lane == 0) {
        wait_empty(at);
        put_header(at.stage, tile);
        if (tile.kblocks == 0) {
          ptx::barrier_arrive(full(at.stage));
          at.advance();
        } else {
          load_stage(at, a_map, b_map, tile, 0);
          at.advance();
#pragma unroll 1
          for (int kb = 1; kb < tile.kblocks; ++kb) {
            wait_empty(at);
            load_stage(at, a_map, b_map, tile, kb);
            at.advance();
          }
        }
      }
      __syncwarp();
    }
    if (lane == 0) {
      tile.kblocks = kNoTile;
      wait_empty(at);
      put_header(at.stage, tile);
      ptx::barrier_arrive(full(at.stage));
    }
    __syncwarp();
  }

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
    GemmTile tile;
    Cursor at;
    const auto publish = [&] {
      __syncwarp();
      if (lane == 0) ptx::barrier_arrive(full(at.stage));
      at.advance();
    };
    while (schedule.next(tile)) {
      // Rows past the end take another's scale; nothing of theirs is stored.
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
        if (job.kind == GemmKind::rows) first = std::int64_t{tile.expert} * job.n;
#pragma unroll
        for (int i = 0; i < kEach; ++i) row[i] = tile.col + min(lane + 32 * i, job.n - 1 - tile.col);
      }
      if constexpr (kBlocks) {
        const int blocks = (job.n - 1) / 128 + 1;
        block = min(tile.col / 128 + lane % 4, blocks - 1);
        if (job.kind == GemmKind::rows) block += std::int64_t{tile.expert} * blocks;
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

  // Rows of A by index, 4 rows a warp and copy, in the layout that TMA would give them.
  __device__ __forceinline__ void gather_rows(int warp) const {
    constexpr int kLag = 2;  // stages between a copy and the word that it is there
    constexpr int kHeld = Shape::kM / 32;
    constexpr int kCopies = Shape::kM / (4 * kGatherWarps);
    Schedule schedule(job, rank);
    GemmTile tile;
    Cursor at;
    Cursor told;
    int untold = 0;
    const auto tell = [&] {
      ptx::fence_async();
      __syncwarp();
      if (lane == 0) ptx::barrier_arrive(full(told.stage));
      told.advance();
    };
    const auto done = [&] {
      ptx::copy_commit();
      at.advance();
      if (untold == kLag) {
        ptx::copy_wait<kLag>();
        tell();
      } else {
        ++untold;
      }
    };
    const int chunk = lane % 8;
    while (schedule.next(tile)) {
      int held[kHeld];
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        const int row = lane + 32 * i;
        held[i] = row < tile.rows ? __ldg(job.row_index + tile.row + row) : -1;
      }
      const std::uint8_t* from = job.a + std::int64_t{tile.kblock} * kBlockK + chunk * 16;
      for (int kb = 0; kb < tile.kblocks; ++kb, from += kBlockK) {
        wait_empty(at);
        const std::uint32_t to = a_stage(at.stage);
#pragma unroll
        for (int i = 0; i < kCopies; ++i) {
          const int first = i * 4 * kGatherWarps;
          const int row = first + warp * 4 + lane / 8;
          const int source = __shfl_sync(kAllLanes, held[first / 32], row % 32);
          ptx::copy_16(to + row * kBlockK + ((chunk ^ (row % 8)) << 4), from + max(source, 0) * job.k,
                       source < 0 ? 0 : 16);
        }
        done();
      }
      if (tile.kblocks == 0) {
        wait_empty(at);
        done();
      }
    }
    wait_empty(at);
    done();
    ptx::copy_wait<0>();
    for (; untold > 0; --untold) tell();
  }

  __device__ __forceinline__ void produce(int warp, const CUtensorMap* a_map, const CUtensorMap* b_map) const {
    if (warp == 0) {
      produce_codes(a_map, b_map);
    } else if (warp == 1) {
      produce_scales<true, !kBRow>();
    } else if (kBRow && warp == 2) {
      produce_scales<false, false>();
    } else if (job.row_index != nullptr) {
      gather_rows(warp - (4 - kGatherWarps));
    }
  }

  // --- consumers ----------------------------------------------------------------------------------------------------

  struct Consumer {
    int index;   // of the consumer
    int thread;  // of its 128
    int warp;
  };

  __device__ __forceinline__ void release(int stage) const {
    __syncwarp();
    if constexpr (kCluster == 1) {
      if (lane == 0) ptx::barrier_arrive(empty(stage));
    } else {
      if (lane < kCluster) ptx::barrier_arrive_at(empty(stage), static_cast<std::uint32_t>(lane));
    }
  }

  // The scales of a thread's rows, and of B's blocks of 128 x 128, or where those of 1 x 128 are.
  struct StageScales {
    static constexpr int kSegment = Shape::kN % 128 == 0 ? 128 : 64;  // columns that share a scale in every tile
    static constexpr int kSegments = Shape::kN / kSegment;
    float a[Shape::kRowSubs][2];
    float b[kBRow ? 1 : kSegments];
    std::uint32_t row;
  };

  __device__ __forceinline__ void read_scales(StageScales& s, int stage, const Consumer& me, int offset) const {
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
  __device__ __forceinline__ void multiply(float (&partial)[kAcc], int stage, const Consumer& me) const {
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
                                       const Consumer& me) const {
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

  // A tile's products, one partial after the other.
  __device__ __forceinline__ void consume(float (&acc)[Shape::kSubs][kAcc], float (&partial)[kAcc], Cursor& at,
                                          const GemmTile& tile, const Consumer& me) const {
    const int offset = tile.col % 128;
    for (int kb = 0; kb < tile.kblocks; ++kb) {
      ptx::barrier_wait(full(at.stage), at.parity);
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
                                                const GemmTile& tile, const Consumer& me) const {
    const int offset = tile.col % 128;
    StageScales ps;
    StageScales qs;
    int p_stage = 0;
    int q_stage = 0;
    const auto begin = [&](float(&partial)[kAcc], StageScales& s, int& stage) {
      ptx::barrier_wait(full(at.stage), at.parity);
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

  // --- D ------------------------------------------------------------------------------------------------------------

  // Where a chunk of 64 rows and 128 bytes of D is.
  struct Place {
    int x = 0;     // column
    int y = 0;     // row, of the matrix
    int z = 0;     // matrix
    int rows = 0;  // that are the tile's, from y on; none if not positive
  };

  __device__ __forceinline__ Place place(int chunk, const GemmTile& tile, const Consumer& me) const {
    const int sub = chunk / Shared::kSubChunks;
    const int row = me.index * Shape::kConsumerM + sub / Shape::kColSubs * 64;
    Place at;
    at.x = tile.col + sub % Shape::kColSubs * Shape::kSubN + chunk % Shared::kSubChunks * Shared::kChunkColumns;
    at.y = tile.row + row;
    at.z = job.kind == GemmKind::depth ? tile.expert : 0;
    at.rows = at.x < job.n ? tile.rows - row : 0;
    return at;
  }

  __device__ __forceinline__ std::uint32_t slot(int chunk, const Consumer& me) const {
    return shared + Shared::kOut + (me.index * Shared::kSlots + chunk % Shared::kSlots) * kChunkBytes;
  }
  __device__ __forceinline__ std::uint32_t loaded(int chunk, const Consumer& me) const {
    return shared + Shared::kLoaded + (me.index * Shared::kSlots + chunk % Shared::kSlots) * 8;
  }

  __device__ __forceinline__ void load_chunk(int chunk, const CUtensorMap* c_map, const GemmTile& tile,
                                             const Consumer& me) const {
    const Place at = place(chunk, tile, me);
    ptx::tma_wait_read<0>();
    ptx::fence_async();
    ptx::barrier_arrive_expect(loaded(chunk, me), kChunkBytes);
    ptx::tma_load(slot(chunk, me), c_map, loaded(chunk, me), at.x, at.y, at.z);
  }

  // By the consumer's threads: elements of D that are the tile's, copy(element, shared address) or
  // copy(16 bytes, shared address).
  template <class Value, class Copy>
  __device__ __forceinline__ void each(const Place& at, std::uint32_t from, const Consumer& me, void* matrix,
                                       const Copy& copy) const {
    constexpr int kColumns = 128 / static_cast<int>(sizeof(Value));
    constexpr int kElements = static_cast<int>(sizeof(Value) / sizeof(Out));
    Out* const d = static_cast<Out*>(matrix) + (std::int64_t{at.z} * job.m + at.y) * job.n + at.x;
#pragma unroll 1
    for (int i = me.thread; i < kChunkRows * kColumns; i += 128) {
      const int row = i / kColumns;
      const int byte = i % kColumns * static_cast<int>(sizeof(Value));
      const int column = i % kColumns * kElements;
      if (row < at.rows && column < job.n - at.x) {
        copy(reinterpret_cast<Value*>(d + std::int64_t{row} * job.n + column),
             from + row * 128 + (byte ^ (row % 8 << 4)));
      }
    }
  }

  __device__ __forceinline__ void fill_chunk(const Place& at, std::uint32_t to, const Consumer& me) const {
    each<Out>(at, to, me, const_cast<void*>(job.c), [](const Out* d, std::uint32_t s) {
      if constexpr (sizeof(Out) == 2) {
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(s), "h"(*reinterpret_cast<const std::uint16_t*>(d)) : "memory");
      } else {
        ptx::store_shared(s, *d);
      }
    });
  }
  __device__ __forceinline__ void drain_chunk(const Place& at, std::uint32_t from, const Consumer& me) const {
    if (job.d_aligned) {
      each<uint4>(at, from, me, job.d, [](uint4* d, std::uint32_t s) { *d = ptx::load_shared_16(s); });
      return;
    }
    each<Out>(at, from, me, job.d, [](Out* d, std::uint32_t s) {
      if constexpr (sizeof(Out) == 2) {
        std::uint16_t v;
        asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(s) : "memory");
        *reinterpret_cast<std::uint16_t*>(d) = v;
      } else {
        *d = ptx::load_shared(s);
      }
    });
  }

  // A thread's elements of a chunk, from `acc` on, to shared memory; with kAdd they are added to what is there.
  template <bool kAdd>
  __device__ __forceinline__ void write_chunk(const float* acc, std::uint32_t to, const Consumer& me) const {
    const int row = lane / 4;
    const std::uint32_t base = to + (me.warp * 16 + row) * 128;
#pragma unroll
    for (int j = 0; j < Shared::kChunkColumns / 8; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float x = acc[j * 4 + half * 2];
        float y = acc[j * 4 + half * 2 + 1];
        if constexpr (sizeof(Out) == 2) {
          const std::uint32_t at = base + half * 1024 + ((j ^ row) << 4) + lane % 4 * 4;
          if constexpr (kAdd) {
            const std::uint32_t old = ptx::load_shared_word(at);
            x = __fadd_rn(x, __uint_as_float(old << 16));
            y = __fadd_rn(y, __uint_as_float(old & 0xFFFF0000));
          }
          const std::uint32_t low = __bfloat16_as_ushort(__float2bfloat16_rn(x));
          const std::uint32_t high = __bfloat16_as_ushort(__float2bfloat16_rn(y));
          ptx::store_shared(at, high << 16 | low);
        } else {
          const std::uint32_t at = base + half * 1024 + (((j * 2 + lane % 4 / 2) ^ row) << 4) + lane % 2 * 8;
          if constexpr (kAdd) {
            const float2 old = ptx::load_shared_2(at);
            x = __fadd_rn(x, old.x);
            y = __fadd_rn(y, old.y);
          }
          ptx::store_shared(at, make_float2(x, y));
        }
      }
    }
  }

  // uses: of each slot, how often it was loaded.
  __device__ __forceinline__ void store_tile(const float (&acc)[Shape::kSubs][kAcc], const CUtensorMap* c_map,
                                             const CUtensorMap* d_map, const GemmTile& tile, const Consumer& me,
                                             std::uint32_t& uses) const {
    const int barrier = 1 + me.index;
    const bool leader = me.thread == 0;
    const bool load = job.accumulate && job.d_tiled;
#pragma unroll
    for (int chunk = 0; chunk < Shared::kChunks; ++chunk) {
      const std::uint32_t to = slot(chunk, me);
      const Place at = place(chunk, tile, me);
      if (load) {
        ptx::barrier_wait(loaded(chunk, me), uses & 1);
      } else {
        if (leader) ptx::tma_wait_read<Shared::kSlots - 1>();
        ptx::warpgroup_barrier(barrier);
        if (job.accumulate) {
          fill_chunk(at, to, me);
          ptx::warpgroup_barrier(barrier);
        }
      }
      const float* const from =
          &acc[chunk / Shared::kSubChunks][chunk % Shared::kSubChunks * Shared::kChunkColumns / 2];
      if (job.accumulate) {
        write_chunk<true>(from, to, me);
      } else {
        write_chunk<false>(from, to, me);
      }
      ptx::fence_async();
      ptx::warpgroup_barrier(barrier);
      // TMA leaves out what is past the matrix; what is past the expert is another's.
      const bool whole =
          job.d_tiled && (at.rows >= kChunkRows || job.kind != GemmKind::rows || at.y + at.rows == job.m);
      if (at.rows > 0) {
        if (!whole) {
          drain_chunk(at, to, me);
        } else if (leader) {
          ptx::tma_store(d_map, to, at.x, at.y, at.z);
        }
      }
      if (leader) ptx::tma_commit();
      if (chunk % Shared::kSlots == Shared::kSlots - 1) ++uses;
      if (load && chunk + Shared::kSlots < Shared::kChunks) {
        if (!whole) ptx::warpgroup_barrier(barrier);
        if (leader) load_chunk(chunk + Shared::kSlots, c_map, tile, me);
      }
    }
  }

  __device__ __forceinline__ void run_consumer(const CUtensorMap* c_map, const CUtensorMap* d_map, int index) const {
    const int thread = static_cast<int>(threadIdx.x) % 128;
    const Consumer me = {index, thread, __shfl_sync(kAllLanes, thread / 32, 0)};
    float partial[Shape::kAhead ? 2 : 1][kAcc];
#pragma unroll
    for (auto& one : partial) {
#pragma unroll
      for (float& value : one) value = 0;
    }
    Cursor at;
    std::uint32_t uses = 0;
    while (true) {
      ptx::barrier_wait(full(at.stage), at.parity);
      const uint4 words = ptx::load_shared_16(header(at.stage));
      const uint4 more = ptx::load_shared_16(header(at.stage) + 16);
      GemmTile tile;
      tile.expert = static_cast<int>(words.x);
      tile.row = static_cast<int>(words.y);
      tile.rows = static_cast<int>(words.z);
      tile.col = static_cast<int>(words.w);
      tile.kblocks = static_cast<int>(more.y);
      if (tile.kblocks == kNoTile) break;
      if (job.accumulate && job.d_tiled) {
        ptx::warpgroup_barrier(1 + me.index);
        if (me.thread == 0) {
#pragma unroll
          for (int chunk = 0; chunk < Shared::kSlots; ++chunk) load_chunk(chunk, c_map, tile, me);
#pragma unroll
          for (int chunk = Shared::kSlots; chunk < Shared::kChunks; ++chunk) {
            const Place to = place(chunk, tile, me);
            ptx::tma_prefetch(c_map, to.x, to.y, to.z);
          }
        }
      }
      float acc[Shape::kSubs][kAcc];
#pragma unroll
      for (auto& one : acc) {
#pragma unroll
        for (float& value : one) value = 0;
      }
      if (tile.kblocks == 0) {
        release(at.stage);
        at.advance();
      } else if constexpr (Shape::kAhead) {
        consume_ahead(acc[0], partial[0], partial[1], at, tile, me);
      } else {
        consume(acc, partial[0], at, tile, me);
      }
      store_tile(acc, c_map, d_map, tile, me, uses);
    }
    if (me.thread == 0) ptx::tma_wait();
  }

  __device__ __forceinline__ void init_barriers() const {
    const std::uint32_t gather = job.row_index != nullptr ? kGatherWarps : 0;
    for (int i = 0; i < kStages; ++i) {
      ptx::barrier_init(full(i), 2 + (kBRow ? 1 : 0) + gather);
      ptx::barrier_init(empty(i), kConsumers * 4 * kCluster);
    }
    for (int i = 0; i < kConsumers * Shared::kSlots; ++i) ptx::barrier_init(shared + Shared::kLoaded + i * 8, 1);
    ptx::fence_barrier_init();
    ptx::fence_async();
  }
};

template <class Shape, Element kA, Element kB, class Out, bool kBRow>
__global__ void __launch_bounds__(kGemmThreads, 1)
    gemm_fp8_kernel(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                    const __grid_constant__ CUtensorMap c_map, const __grid_constant__ CUtensorMap d_map,
                    const __grid_constant__ GemmJob job) {
  if (job.status != nullptr && *job.status != 0) return;
  extern __shared__ __align__(1024) std::uint8_t memory[];
  const int warp = __shfl_sync(0xFFFFFFFF, static_cast<int>(threadIdx.x) / 32, 0);
  using Tile = Gemm<Shape, kA, kB, Out, kBRow>;
  const Tile gemm = {job, ptx::shared_address(memory), Shape::kCluster == 1 ? 0 : ptx::cluster_rank(),
                     static_cast<int>(threadIdx.x) % 32};
  if (threadIdx.x == 0) gemm.init_barriers();
  __syncthreads();
  if constexpr (Shape::kCluster > 1) ptx::cluster_barrier();
  if (warp < 4) {
    ptx::fewer_registers<Tile::Shared::kProducerRegs>();
    gemm.produce(warp, &a_map, &b_map);
  } else {
    ptx::more_registers<Tile::Shared::kConsumerRegs>();
    gemm.run_consumer(&c_map, &d_map, warp / 4 - 1);
  }
  // Shared memory that a neighbour may still write or signal stays.
  if constexpr (Shape::kCluster > 1) {
    __syncwarp();
    ptx::cluster_barrier();
  }
}

struct GemmMaps {
  CUtensorMap a;
  CUtensorMap b;
  CUtensorMap c;
  CUtensorMap d;
};

// Maps for a shape's boxes, and the job; fp8.cu. Not for m, n = 0.
cudaError_t gemm_fp8_prepare(const GemmFp8& gemm, int rows_of_a, int rows_of_b, GemmMaps& maps, GemmJob& job);

template <class Shape, Element kA, Element kB, class Out, bool kBRow>
cudaError_t gemm_fp8_start(const GemmFp8& gemm, int raster, cudaStream_t stream) {
  using Shared = GemmShared<Shape, Out, kBRow>;
  GemmMaps maps;
  GemmJob job;
  if (const auto e = gemm_fp8_prepare(gemm, Shape::kM, Shape::kN / Shape::kCluster, maps, job); e != cudaSuccess) {
    return e;
  }
  job.raster = raster;
  const auto kernel = gemm_fp8_kernel<Shape, kA, kB, Out, kBRow>;
  int device = 0;
  int processors = 0;
  if (const auto e = cudaGetDevice(&device); e != cudaSuccess) return e;
  if (const auto e = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device); e != cudaSuccess) {
    return e;
  }
  if (const auto e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shared::kBytes);
      e != cudaSuccess) {
    return e;
  }
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = Shape::kCluster;
  cluster.val.clusterDim.y = 1;
  cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(processors / Shape::kCluster * Shape::kCluster));
  config.blockDim = dim3(kGemmThreads);
  config.dynamicSmemBytes = Shared::kBytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = Shape::kCluster > 1 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, maps.a, maps.b, maps.c, maps.d, job);
}

}  // namespace mxcheck_sm90
