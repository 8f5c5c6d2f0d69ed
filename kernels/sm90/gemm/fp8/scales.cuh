#pragma once
// Scales of A's rows, B's rows and B's blocks on their way from memory to a GEMM's stages: a warp of the producer.
//
// A warp shares its part of the processor with warps of both consumers, and their L1 with the tensor cores' operands.
// So few instructions and few loads count: a lane is a row, rows lie apart, and a load of every stage's own scale would
// take 32 of the L1's turns each (tiles of 128 x 64 ran at half the rate). Where rows are aligned for it a lane loads
// the scales of several stages at once, and as many ahead of their use.

#include <cstdint>

#include "kernels/sm90/gemm/tile/tile.cuh"
#include "kernels/sm90/ptx/ptx.cuh"

namespace mxcheck_kernels::sm90 {

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

  // Rows past the end use an arbitrary valid scale; their results are not stored.
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
        const std::int64_t first = job.kind == MatmulKind::rows ? std::int64_t{tile.expert} * job.n : 0;
        rows.row[0] = place(job.scale_b, job.b_e8m0, first + tile.col);
        rows.further[i] = static_cast<std::uint32_t>(min(lane + 32 * i, job.n - 1 - tile.col));
        rows.pitch = static_cast<std::uint32_t>(job.scale_columns) * (job.b_e8m0 ? 1 : 4);
      }
    }
    if constexpr (kBlocks) {
      const int blocks = (job.n - 1) / 128 + 1;
      const std::int64_t first = job.kind == MatmulKind::rows ? std::int64_t{tile.expert} * blocks : 0;
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

}  // namespace mxcheck_kernels::sm90
