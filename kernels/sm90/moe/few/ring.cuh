#pragma once
// The ring of stages of a GEMM of few tokens, filled by two warps: TMA of weights and rows, and scales.
//
// A stage has 128 of k: of a tile's columns of weights, and of an item's rows. Tiles of an item follow one another, so
// that neighbouring blocks of threads read neighbouring columns of memory. While `up` still runs, `down` fills its ring
// with weights, which do not depend on it.

#include <cstddef>
#include <cstdint>

#include "kernels/sm90/gemm/tile.cuh"
#include "kernels/sm90/moe/few/jobs.h"
#include "kernels/sm90/ptx/ptx.cuh"

namespace mxcheck_kernels::sm90 {

struct FewMaps {
  CUtensorMap w;
  CUtensorMap x;
};

// Kernel parameters beside the job.
struct FewTiles {
  int tiles = 0;    // of an item
  int half = 0;     // tiles of the gates, where the up values are a half of their own; else 0
  int kblocks = 0;  // stages
};

// kGroups_: warpgroups that multiply, each 64 columns of weights. Two, whose columns are 256 bytes of a row of BF16,
// read memory faster; one leaves twice as many tiles, where these are few.
template <FewWeights kWeights_, int kRows_, int kGroups_>
struct FewShape {
  static constexpr FewWeights kWeights = kWeights_;
  static constexpr int kRows = kRows_;  // of the largest item
  static constexpr bool kFp8 = kWeights != FewWeights::bf16;
  static constexpr int kGroups = kGroups_;
  static constexpr int kColumns = 64 * kGroups;  // of weights, in a tile
  static constexpr int kConsumers = 128 * kGroups;
  static constexpr int kThreads = kConsumers + (kFp8 ? 64 : 32);
  static constexpr bool kLarge = kRows > (kFp8 ? 32 : 8) && kWeights != FewWeights::codes;  // a stage
  static constexpr int kPerProcessor = kLarge ? 1 : 2;
  static constexpr int kBox = kRows < 32 ? kRows : 32;  // rows of a box of TMA

  static constexpr int kHalfStages = kFp8 ? 1 : 2;  // rows of 128 bytes of a stage's 128 of k
  static constexpr int kXPart = kRows * kRowBytes;
  static constexpr int kWBytes = kColumns * kFewStage * (kWeights == FewWeights::codes ? 1 : 2);
  static constexpr int kStageBytes = kWBytes + kHalfStages * kXPart;
  static constexpr int kScales = kFp8 ? kRows + 4 : 0;  // of a stage: the rows', and the weights'
  static constexpr int kRoom = (kPerProcessor == 2 ? 111 : 222) * 1024 - 1024;
  static constexpr int kMost = kRoom / (kStageBytes + kScales * 4 + 16);
  static constexpr int kStages = kMost < 12 ? kMost : 12;
  static_assert(kStages >= 3);
  static_assert(kWeights != FewWeights::blocks || kGroups == 2);  // a square of 128 x 128

  // Places in shared memory, from a multiple of 1,024 on.
  static constexpr int kScalesAt = kStages * kStageBytes;
  static constexpr int kBarriers = (kScalesAt + kStages * kScales * 4 + 15) / 16 * 16;
  static constexpr int kAmax = kBarriers + kStages * 16;  // two lots, of each warp
  static constexpr int kFlag = kAmax + 64;
  static constexpr int kBytes = kFlag + 16;
};

// The tiles of a block of threads, one after the other.
struct FewUnit {
  FewItem item;
  int number;  // of the item
  int tile;
  int column;   // the first of the weights'
  int columns;  // that are the tile's
};

template <class Shape>
struct FewRing {
  static constexpr int kStages = Shape::kStages;

  const FewGemmJob& job;
  const FewTiles& tiles;
  std::uint32_t shared;

  struct Cursor {
    int stage = 0;
    std::uint32_t parity = 0;
    __device__ __forceinline__ void advance() {
      if (++stage == kStages) stage = 0, parity ^= 1;
    }
  };

  __device__ __forceinline__ std::uint32_t full(int stage) const { return shared + Shape::kBarriers + stage * 16; }
  __device__ __forceinline__ std::uint32_t empty(int stage) const { return full(stage) + 8; }
  __device__ __forceinline__ std::uint32_t w_stage(int stage) const { return shared + stage * Shape::kStageBytes; }
  __device__ __forceinline__ std::uint32_t x_stage(int stage) const { return w_stage(stage) + Shape::kWBytes; }
  __device__ __forceinline__ std::uint32_t scales(int stage) const {
    return shared + Shape::kScalesAt + stage * Shape::kScales * 4;
  }
  __device__ __forceinline__ void wait_full(const Cursor& at) const {
    ptx::mbarrier_wait_parity(full(at.stage), at.parity);
  }
  __device__ __forceinline__ void wait_empty(const Cursor& at) const {
    ptx::mbarrier_wait_parity(empty(at.stage), at.parity ^ 1);
  }
  __device__ __forceinline__ void release(int stage) const { ptx::mbarrier_arrive(empty(stage)); }

  // By one thread.
  __device__ __forceinline__ void init() const {
    for (int i = 0; i < kStages; ++i) {
      ptx::mbarrier_init(full(i), 1 + (Shape::kFp8 ? 32 : 0));
      ptx::mbarrier_init(empty(i), Shape::kConsumers);
    }
    ptx::fence_mbarrier_init();
    ptx::fence_proxy_async();
  }

  // --- tiles ----

  // None where the routes are wrong.
  __device__ __forceinline__ int items() const {
    static_assert(offsetof(PlanHeader, status) == 0 && offsetof(PlanHeader, tiles) == 4);
    const int2 words = __ldcg(reinterpret_cast<const int2*>(job.table.header));
    return words.x == MXCHECK_OK ? words.y : 0;
  }

  __device__ __forceinline__ unsigned units(int items) const {
    return static_cast<unsigned>(items) * static_cast<unsigned>(tiles.tiles);
  }
  __device__ __forceinline__ FewUnit unit(unsigned number) const {
    FewUnit u;
    u.number = static_cast<int>(number / static_cast<unsigned>(tiles.tiles));
    u.tile = static_cast<int>(number % static_cast<unsigned>(tiles.tiles));
    const int4 words = __ldcg(reinterpret_cast<const int4*>(job.table.items) + u.number);
    u.item = {words.x, words.y, words.z, 0};
    const bool second = tiles.half != 0 && u.tile >= tiles.half;
    const int in_half = second ? u.tile - tiles.half : u.tile;
    const auto columns = static_cast<int>(job.columns);
    const int begin = second ? columns / 2 : 0;
    const int end = tiles.half == 0 ? columns : begin + columns / 2;
    u.column = begin + in_half * Shape::kColumns;
    u.columns = min(end - u.column, Shape::kColumns);
    return u;
  }

  // --- the warp of TMA, one lane ----

  __device__ __forceinline__ int boxes(const FewItem& item) const {
    return (item.rows + Shape::kBox - 1) / Shape::kBox;
  }
  __device__ __forceinline__ void load_weights(int stage, const CUtensorMap* map, const FewUnit& u, int kb) const {
    const std::uint32_t x_bytes = boxes(u.item) * Shape::kBox * kRowBytes * Shape::kHalfStages;
    ptx::mbarrier_arrive_expect_tx(full(stage), Shape::kWBytes + x_bytes);
    if constexpr (Shape::kWeights == FewWeights::codes) {
      ptx::cp_async_bulk_tensor_3d(w_stage(stage), map, full(stage), kb * kFewStage, u.column, u.item.expert);
    } else {
#pragma unroll
      for (int i = 0; i < Shape::kGroups; ++i) {
        ptx::cp_async_bulk_tensor_3d(w_stage(stage) + i * kFewStage * kRowBytes, map, full(stage), u.column + i * 64,
                                     kb * kFewStage, u.item.expert);
      }
    }
  }
  __device__ __forceinline__ void load_rows(int stage, const CUtensorMap* map, const FewUnit& u, int kb) const {
    const int count = boxes(u.item);
#pragma unroll
    for (int h = 0; h < Shape::kHalfStages; ++h) {
      for (int i = 0; i < count; ++i) {
        const std::uint32_t to = x_stage(stage) + h * Shape::kXPart + i * Shape::kBox * kRowBytes;
        ptx::cp_async_bulk_tensor_3d(to, map, full(stage), kb * kFewStage + h * 64, u.item.row + i * Shape::kBox, 0);
      }
    }
  }

  __device__ __forceinline__ void produce(const FewMaps& maps) const {
    ptx::prefetch_tensormap(&maps.w), ptx::prefetch_tensormap(&maps.x);
    const int begun = job.up ? 0 : begin_weights(maps.w);
    ptx::griddepcontrol_wait();
    load_tiles(maps, begun);
  }

  // The weights of the first stages, while the launch before still runs. The table is that of the launch before it,
  // which ended before it began. Returns how many stages they are.
  __device__ __forceinline__ int begin_weights(const CUtensorMap& map) const {
    const unsigned all = units(items());
    if (blockIdx.x >= all) return 0;
    const FewUnit first = unit(blockIdx.x);
    const int count = min(kStages, tiles.kblocks);
    for (int i = 0; i < count; ++i) load_weights(i, &map, first, i);
    return count;
  }

  // begun: stages of the first tile whose weights are on their way.
  __device__ __forceinline__ void load_tiles(const FewMaps& maps, int begun) const {
    const unsigned all = units(items());
    Cursor at;
    for (unsigned i = blockIdx.x; i < all; i += gridDim.x) {
      const FewUnit u = unit(i);
#pragma unroll 1
      for (int kb = 0; kb < tiles.kblocks; ++kb) {
        if (kb >= begun) {
          wait_empty(at);
          load_weights(at.stage, &maps.w, u, kb);
        }
        load_rows(at.stage, &maps.x, u, kb);
        at.advance();
      }
      begun = 0;
    }
  }

  // --- the warp of scales: a lane has rows `lane`, `lane` + 32 .., and four stages of them at a time ----

  __device__ __forceinline__ void produce_scales() const {
    constexpr int kEach = (Shape::kRows + 31) / 32;
    constexpr int kTogether = 4;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    ptx::griddepcontrol_wait();
    const unsigned all = units(items());
    const bool e8m0 = !job.coding.fp32;
    const std::int64_t blocks = tiles.kblocks;
    Cursor at;
    for (unsigned i = blockIdx.x; i < all; i += gridDim.x) {
      const FewUnit u = unit(i);
      const std::int64_t square = (std::int64_t{u.item.expert} * (job.columns / 128) + u.column / 128) * blocks;
      float next[kTogether][kEach];
      float next_square[kTogether];
      const auto load = [&](int from) {
#pragma unroll
        for (int t = 0; t < kTogether; ++t) {
          const int kb = min(from + t, tiles.kblocks - 1);
#pragma unroll
          for (int j = 0; j < kEach; ++j) {
            const std::int64_t row = u.item.row + min(lane + 32 * j, u.item.rows - 1);
            next[t][j] = __ldcg(job.x_scales + row * blocks + kb);
          }
          if constexpr (Shape::kWeights == FewWeights::codes) {
            next_square[t] = e8m0 ? value_of(__ldg(static_cast<const std::uint8_t*>(job.w_scales) + square + kb))
                                  : __ldg(static_cast<const float*>(job.w_scales) + square + kb);
          }
        }
      };
      load(0);
#pragma unroll 1
      for (int from = 0; from < tiles.kblocks; from += kTogether) {
        float now[kTogether][kEach];
        float now_square[kTogether];
#pragma unroll
        for (int t = 0; t < kTogether; ++t) {
#pragma unroll
          for (int j = 0; j < kEach; ++j) now[t][j] = next[t][j];
          now_square[t] = Shape::kWeights == FewWeights::codes ? next_square[t] : 0;
        }
        if (from + kTogether < tiles.kblocks) load(from + kTogether);
#pragma unroll
        for (int t = 0; t < kTogether; ++t) {
          if (from + t >= tiles.kblocks) break;
          wait_empty(at);
#pragma unroll
          for (int j = 0; j < kEach; ++j) {
            if (lane + 32 * j < Shape::kRows) ptx::st_shared(scales(at.stage) + (lane + 32 * j) * 4, now[t][j]);
          }
          if (Shape::kWeights == FewWeights::codes && lane == 0) {
            ptx::st_shared(scales(at.stage) + Shape::kRows * 4, now_square[t]);
          }
          ptx::mbarrier_arrive(full(at.stage));
          at.advance();
        }
      }
    }
  }
};

}  // namespace mxcheck_kernels::sm90
