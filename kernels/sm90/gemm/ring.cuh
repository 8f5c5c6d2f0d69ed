#pragma once
// The pipeline that the GEMMs share: a ring of stages in shared memory, 128 bytes of every row of B (or two times as
// many, in two boxes), and of A 128 or, of narrower elements, as many columns.
//
// A stage is full when A and B, its scales if there are any and, at a tile's start, the tile's header are there. The
// schedule and TMA are one warp's; rows of A that are gathered are copied by kGatherWarps.

#include <cstdint>

#include "kernels/sm90/gemm/tile.cuh"
#include "kernels/sm90/ptx/ptx.cuh"

namespace mxcheck_kernels::sm90 {

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

template <class Shape, class Shared, int kElementBytes, int kGatherWarps>
struct MatmulRing {
  using Cursor = StageCursor<Shared::kStages>;
  using Schedule = MatmulSchedule<Shape>;
  static constexpr int kStages = Shared::kStages;
  static constexpr int kCluster = Shape::kCluster;
  static constexpr unsigned kAllLanes = 0xFFFFFFFF;

  const MatmulJob& job;
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
  // wgmma's operands, `from` + `further` bytes into a stage. Of the stages' own addresses nothing but a multiple is
  // computed anew: uniform instructions between a consumer's mma are not free (0.6 % of a GEMM).
  __device__ __forceinline__ std::uint64_t a_operand(int stage, std::uint32_t from, std::uint32_t further = 0) const {
    return ptx::advance_smem_desc(ptx::make_smem_desc(a_stage(0) + from),
                                  stage * (Shared::kABytes / 16) + further / 16);
  }
  __device__ __forceinline__ std::uint64_t b_operand(int stage, std::uint32_t further = 0) const {
    return ptx::advance_smem_desc(ptx::make_smem_desc(b_stage(0)), stage * (Shared::kBBytes / 16) + further / 16);
  }
  __device__ __forceinline__ std::uint32_t header(int stage) const {
    return shared + Shared::kHeaders + stage * Shared::kHeaderBytes;
  }

  // --- producer -----------------------------------------------------------------------------------------------------

  __device__ __forceinline__ void wait_empty(const Cursor& at) const {
    ptx::mbarrier_wait_parity(empty(at.stage), at.parity ^ 1);
  }

  __device__ __forceinline__ void put_header(int stage, const MatmulTile& tile) const {
    ptx::st_shared(header(stage), make_int4(tile.expert, tile.row, tile.rows, tile.col));
    ptx::st_shared(header(stage) + 16, make_int4(tile.kblock, tile.kblocks, tile.k, tile.tail));
  }

  __device__ __forceinline__ void load_stage(const Cursor& at, const MatmulMaps& maps, const MatmulTile& tile,
                                             int kb) const {
    const bool gathered = job.row_index != nullptr;
    const std::uint32_t barrier = full(at.stage);
    const int x = tile.k + kb * Shape::kColumns;
    const int b_expert = has_matrices(job) ? tile.expert : 0;
    ptx::mbarrier_arrive_expect_tx(barrier, Shape::kBoxesOfB * kCluster * job.b_bytes + (gathered ? 0 : job.a_bytes));
    if (!gathered) {
      ptx::cp_async_bulk_tensor_3d(a_stage(at.stage), &maps.a, barrier, x / Shape::kCodesInByte, tile.row, 0);
    }
    if constexpr (kCluster == 1) {
#pragma unroll
      for (int i = 0; i < Shape::kBoxesOfB; ++i) {
        const std::uint32_t to = b_stage(at.stage) + i * Shape::kN * kRowBytes;
        ptx::cp_async_bulk_tensor_3d(to, &maps.b, barrier, x + i * (Shape::kColumns / Shape::kBoxesOfB), tile.col,
                                     b_expert);
      }
    } else {
      constexpr std::uint16_t kAll = (1 << kCluster) - 1;
      const int part = static_cast<int>(rank) * Shape::kRowsOfB;
      const std::uint32_t to = b_stage(at.stage) + part * kRowBytes;
      ptx::cp_async_bulk_tensor_3d_multicast(to, &maps.b, barrier, x, tile.col + part, b_expert, kAll);
    }
  }

  __device__ __forceinline__ void produce_codes(const MatmulMaps& maps) const {
    if (lane == 0 && job.kblocks > 0) {
      if (job.row_index == nullptr) ptx::prefetch_tensormap(&maps.a);
      ptx::prefetch_tensormap(&maps.b);
    }
    Schedule schedule(job, rank);
    MatmulTile tile;
    Cursor at;
    while (schedule.next(tile)) {
      if (lane == 0) {
        wait_empty(at);
        put_header(at.stage, tile);
        if (tile.kblocks == 0) {
          ptx::mbarrier_arrive(full(at.stage));
          at.advance();
        } else {
          load_stage(at, maps, tile, 0);
          at.advance();
#pragma unroll 1
          for (int kb = 1; kb < tile.kblocks; ++kb) {
            wait_empty(at);
            load_stage(at, maps, tile, kb);
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
      ptx::mbarrier_arrive(full(at.stage));
    }
    __syncwarp();
  }

  // Rows of A by index, 512 bytes a warp and copy, in the layout that TMA would give them.
  __device__ __forceinline__ void gather_rows(int warp) const {
    constexpr int kHeld = Shape::kM / 32;
    constexpr int kPitch = Shape::kARowBytes;
    constexpr int kChunks = kPitch / 16;
    constexpr int kRows = 32 / kChunks;
    constexpr int kTogether = kGatherWarps == 1 ? 2 : 32 / (kRows * kGatherWarps);  // copies: of more, one warp spills
    static_assert(kChunks == 8 || kChunks == 4 || kChunks == 2);
    Schedule schedule(job, rank);
    MatmulTile tile;
    Cursor at;
    const auto done = [&] {
      ptx::cp_async_mbarrier_arrive_noinc(full(at.stage));
      at.advance();
    };
    const std::int64_t pitch = job.k * kElementBytes / Shape::kCodesInByte;
    const int chunks = static_cast<int>(pitch / 16);
    const int chunk = lane % kChunks;
    while (schedule.next(tile)) {
      int held[kHeld];
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        const int row = lane + 32 * i;
        held[i] = row < tile.rows ? __ldg(job.row_index + tile.row + row) : -1;
      }
      const std::uint8_t* from = job.a + chunk * 16;
      int at_chunk = chunk;
      for (int kb = 0; kb < tile.kblocks; ++kb, from += kPitch, at_chunk += kChunks) {
        wait_empty(at);
        const std::uint32_t to = a_stage(at.stage);
        const bool past = at_chunk >= chunks;
        const std::uint8_t* const column = past ? job.a : from;
#pragma unroll
        for (int i = 0; i < kHeld; ++i) {
#pragma unroll kTogether
          for (int first = 32 * i; first < 32 * (i + 1); first += kRows * kGatherWarps) {
            const int row = first + warp * kRows + lane / kChunks;
            const int swizzled = chunk ^ row / (8 / kChunks) % kChunks;
            const int source = __shfl_sync(kAllLanes, held[i], row % 32);
            ptx::cp_async_16(to + row * kPitch + swizzled * 16, column + max(source, 0) * pitch,
                             source < 0 || past ? 0 : 16);
          }
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
  }

  // --- consumers ----------------------------------------------------------------------------------------------------

  // Rows that were gathered came by ordinary writes, which wgmma is to see.
  __device__ __forceinline__ void wait_full(const Cursor& at) const {
    ptx::mbarrier_wait_parity(full(at.stage), at.parity);
    if (job.row_index != nullptr) ptx::fence_proxy_async();
  }

  // A stage that is the last of an expert's columns may have the next expert's as well, which are no zeros: products
  // with zero could be NaN. By all consumers together, for A and B, in the layout that TMA gave them.
  __device__ __forceinline__ void clear_tail(int stage, const MatmulTile& tile, int thread) const {
    constexpr int kBytes =
        kRowBytes / Shape::kColumns;  // of an element of B; A's are no other where experts have depth
    const int from = tile.tail * kBytes;
    const int chunks = 8 - from / 16;
    for (int i = thread; i < (Shape::kM + Shape::kN) * chunks; i += Shape::kConsumers * 128) {
      const int row = i / chunks;
      const int chunk = from / 16 + i % chunks;
      const std::uint32_t first =
          row < Shape::kM ? a_stage(stage) + row * kRowBytes : b_stage(stage) + (row - Shape::kM) * kRowBytes;
      const std::uint32_t at = first + ((chunk ^ row % 8) << 4);
      const int kept = max(from - chunk * 16, 0);  // bytes, of the first chunk alone
      uint4 words = kept == 0 ? make_uint4(0, 0, 0, 0) : ptx::ld_shared_v4_u32(at);
      const auto keep = [kept](std::uint32_t word, int index) {
        const int bytes = kept - index * 4;
        return bytes >= 4 ? word : bytes <= 0 ? 0 : word & ((1U << bytes * 8) - 1);
      };
      ptx::st_shared(at, make_int4(static_cast<int>(keep(words.x, 0)), static_cast<int>(keep(words.y, 1)),
                                   static_cast<int>(keep(words.z, 2)), static_cast<int>(keep(words.w, 3))));
    }
    ptx::fence_proxy_async();
    ptx::bar_sync<Shape::kConsumers * 128>(3);
  }

  // Every thread for what it read: one for its warp would do, but racecheck does not model intra-warp ordering.
  __device__ __forceinline__ void release(int stage) const {
    if constexpr (kCluster == 1) {
      ptx::mbarrier_arrive(empty(stage));
    } else {
#pragma unroll
      for (int r = 0; r < kCluster; ++r) ptx::mbarrier_arrive_cluster(empty(stage), static_cast<std::uint32_t>(r));
    }
  }

  __device__ __forceinline__ MatmulTile read_header(int stage) const {
    const uint4 words = ptx::ld_shared_v4_u32(header(stage));
    const uint4 more = ptx::ld_shared_v4_u32(header(stage) + 16);
    MatmulTile tile;
    tile.expert = static_cast<int>(words.x);
    tile.row = static_cast<int>(words.y);
    tile.rows = static_cast<int>(words.z);
    tile.col = static_cast<int>(words.w);
    tile.kblocks = static_cast<int>(more.y);
    tile.tail = static_cast<int>(more.w);
    return tile;
  }

  // By one thread. `arrivals`: of the producer's threads at a full stage, without those that gather.
  __device__ __forceinline__ void init_ring(int arrivals) const {
    const int gather = job.row_index != nullptr ? kGatherWarps * 32 : 0;
    for (int i = 0; i < kStages; ++i) {
      ptx::mbarrier_init(full(i), static_cast<std::uint32_t>(arrivals + gather));
      ptx::mbarrier_init(empty(i), Shape::kConsumers * 128 * kCluster);
    }
    for (int i = 0; i < Shape::kConsumers * Shared::kSlots; ++i)
      ptx::mbarrier_init(shared + Shared::kLoaded + i * 8, 1);
    ptx::fence_mbarrier_init();
    ptx::fence_proxy_async();
  }
};

}  // namespace mxcheck_kernels::sm90
