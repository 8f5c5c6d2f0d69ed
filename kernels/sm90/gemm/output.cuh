#pragma once
// D: from a consumer's accumulators through shared memory, in chunks of 64 rows of 128 or 64 bytes; C comes in the same
// way.

#include <cstdint>

#include <cuda_bf16.h>

#include "kernels/sm90/gemm/tile.cuh"
#include "kernels/sm90/ptx/ptx.cuh"

namespace mxcheck_kernels::sm90 {

struct MatmulConsumer {
  int index;   // of the consumer
  int thread;  // of its 128
  int warp;
};

template <class Shape, class Shared, class Out>
struct MatmulStore {
  static constexpr int kAcc = Shape::kAccumulators;

  const MatmulJob& job;
  std::uint32_t shared;
  int lane;
  MatmulConsumer me;

  // Where a chunk of D is.
  struct Place {
    int x = 0;     // column
    int y = 0;     // row, of the matrix
    int z = 0;     // matrix
    int rows = 0;  // that are the tile's, from y on; none if not positive
  };

  // Rows and columns of D, which is n x m where its transpose is computed.
  __device__ __forceinline__ int d_rows() const { return Shape::kTransposed ? job.n : job.m; }
  __device__ __forceinline__ int d_columns() const { return Shape::kTransposed ? job.m : job.n; }

  // A chunk of the transpose: its first accumulator's column, and of FP32 its first row of the consumer's 64.
  static constexpr int kChunksDown = Shape::kTransposed ? 64 / Shared::kChunkColumns : 1;
  static __device__ constexpr int transposed_column(int chunk) { return chunk / kChunksDown * 64; }
  static __device__ constexpr int transposed_row(int chunk) { return chunk % kChunksDown * Shared::kChunkColumns; }

  __device__ __forceinline__ Place place(int chunk, const MatmulTile& tile) const {
    if constexpr (Shape::kTransposed) {
      Place at;
      at.x = tile.row + me.index * Shape::kConsumerM + transposed_row(chunk);
      at.y = tile.col + transposed_column(chunk);
      at.rows = at.x < job.m ? job.n - at.y : 0;
      return at;
    }
    const int sub = chunk / Shared::kSubChunks;
    const int row = Shape::row_of(me.index) + sub / Shape::kColSubs * 64;
    Place at;
    at.x = tile.col + Shape::column_of(me.index) + sub % Shape::kColSubs * Shape::kSubN +
           chunk % Shared::kSubChunks * Shared::kChunkColumns;
    at.y = tile.row + row;
    at.z = job.kind == MatmulKind::depth ? tile.expert : 0;
    at.rows = at.x < job.n ? tile.rows - row : 0;
    return at;
  }

  __device__ __forceinline__ std::uint32_t slot(int chunk) const {
    return shared + Shared::kOut + (me.index * Shared::kSlots + chunk % Shared::kSlots) * Shared::kChunkBytes;
  }
  // 16 bytes' places in a row are swizzled as TMA does it: by the row, in rows of 64 bytes by every other row.
  static __device__ __forceinline__ int swizzle_of(int row) {
    return Shared::kChunkRowBytes == 128 ? row % 8 : row / 2 % 4;
  }
  __device__ __forceinline__ std::uint32_t loaded(int chunk) const {
    return shared + Shared::kLoaded + (me.index * Shared::kSlots + chunk % Shared::kSlots) * 8;
  }

  __device__ __forceinline__ void load_chunk(int chunk, const CUtensorMap* c_map, const MatmulTile& tile) const {
    const Place at = place(chunk, tile);
    ptx::cp_async_bulk_wait_group_read<0>();
    ptx::fence_proxy_async();
    ptx::mbarrier_arrive_expect_tx(loaded(chunk), Shared::kChunkBytes);
    ptx::cp_async_bulk_tensor_3d(slot(chunk), c_map, loaded(chunk), at.x, at.y, at.z);
  }

  // By the consumer's threads: elements of D that are the tile's, copy(element, shared address) or
  // copy(16 bytes, shared address).
  template <class Value, class Copy>
  __device__ __forceinline__ void each(const Place& at, std::uint32_t from, void* matrix, const Copy& copy) const {
    constexpr int kColumns = Shared::kChunkRowBytes / static_cast<int>(sizeof(Value));
    constexpr int kElements = static_cast<int>(sizeof(Value) / sizeof(Out));
    const std::int64_t pitch = d_columns();
    Out* const d = static_cast<Out*>(matrix) + (std::int64_t{at.z} * d_rows() + at.y) * pitch + at.x;
#pragma unroll 1
    for (int i = me.thread; i < kChunkRows * kColumns; i += 128) {
      const int row = i / kColumns;
      const int byte = i % kColumns * static_cast<int>(sizeof(Value));
      const int column = i % kColumns * kElements;
      if (row < at.rows && column < d_columns() - at.x) {
        copy(reinterpret_cast<Value*>(d + row * pitch + column),
             from + row * Shared::kChunkRowBytes + (byte ^ (swizzle_of(row) << 4)));
      }
    }
  }

  __device__ __forceinline__ void fill_chunk(const Place& at, std::uint32_t to) const {
    each<Out>(at, to, const_cast<void*>(job.c), [](const Out* d, std::uint32_t s) {
      if constexpr (sizeof(Out) == 2) {
        ptx::st_shared(s, *reinterpret_cast<const std::uint16_t*>(d));
      } else {
        ptx::st_shared(s, *d);
      }
    });
  }
  __device__ __forceinline__ void drain_chunk(const Place& at, std::uint32_t from) const {
    if (job.d_aligned) {
      each<uint4>(at, from, job.d, [](uint4* d, std::uint32_t s) { *d = ptx::ld_shared_v4_u32(s); });
      return;
    }
    each<Out>(at, from, job.d, [](Out* d, std::uint32_t s) {
      if constexpr (sizeof(Out) == 2) {
        *reinterpret_cast<std::uint16_t*>(d) = ptx::ld_shared_u16(s);
      } else {
        *d = ptx::ld_shared_f32(s);
      }
    });
  }

  // A warp's 16 rows of a chunk, from its accumulators on, to shared memory; with kAdd they are added to what is there.
  template <bool kAdd>
  __device__ __forceinline__ void write_chunk(const float* acc, std::uint32_t to) const {
    if constexpr (sizeof(Out) == 2) {
      write_halves<kAdd>(acc, to);
    } else {
      write_floats<kAdd>(acc, to);
    }
  }

  // Two neighbours of D, with kAdd added to those that are there.
  template <bool kAdd>
  static __device__ __forceinline__ std::uint32_t two_halves(float x, float y, std::uint32_t there) {
    if constexpr (kAdd) {
      x = __fadd_rn(x, __uint_as_float(there << 16));
      y = __fadd_rn(y, __uint_as_float(there & 0xFFFF0000));
    }
    const std::uint32_t low = __bfloat16_as_ushort(__float2bfloat16_rn(x));
    const std::uint32_t high = __bfloat16_as_ushort(__float2bfloat16_rn(y));
    return high << 16 | low;
  }

  // Four matrices at a time, of 8 rows by 8 columns each: two below one another, and the two to their right.
  template <bool kAdd>
  __device__ __forceinline__ void write_halves(const float* acc, std::uint32_t to) const {
    const int row = lane % 8;
    const std::uint32_t base =
        to + (me.warp * 16 + lane / 8 % 2 * 8 + row) * Shared::kChunkRowBytes + ((lane / 16 ^ swizzle_of(row)) << 4);
#pragma unroll
    for (int j = 0; j < Shared::kChunkColumns / 8; j += 2) {
      const std::uint32_t at = base ^ (j << 4);
      std::uint32_t words[4] = {};
      if constexpr (kAdd) ptx::ldmatrix_x4(at, words);
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = two_halves<kAdd>(acc[j * 4 + i * 2], acc[j * 4 + i * 2 + 1], words[i]);
      ptx::stmatrix_x4(at, words);
    }
  }

  // Four lanes have 32 bytes of a row. Odd rows take the accumulators two further on (mod 4): the same ones as the row
  // above would cause bank conflicts.
  template <bool kAdd>
  __device__ __forceinline__ void write_floats(const float* acc, std::uint32_t to) const {
    const int row = lane / 4;
    const bool odd = row % 2 != 0;
    const std::uint32_t base =
        to + (me.warp * 16 + row) * 128 + ((lane % 4 / 2 ^ row ^ (odd ? 4 : 0)) << 4) + lane % 2 * 8;
#pragma unroll
    for (int j = 0; j < Shared::kChunkColumns / 8; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int even_from = j * 4 + half * 2;
        const int odd_from = (j ^ 2) * 4 + half * 2;
        float x = odd ? acc[odd_from] : acc[even_from];
        float y = odd ? acc[odd_from + 1] : acc[even_from + 1];
        const std::uint32_t at = (base ^ (j << 5)) + half * 1024;
        if constexpr (kAdd) {
          const float2 old = ptx::ld_shared_v2_f32(at);
          x = __fadd_rn(x, old.x);
          y = __fadd_rn(y, old.y);
        }
        ptx::st_shared(at, make_float2(x, y));
      }
    }
  }

  // The same of the transpose: an accumulator's column is D's row. Matrices as in write_halves, each transposed.
  template <bool kAdd>
  __device__ __forceinline__ void write_halves_transposed(const float* acc, std::uint32_t to) const {
    const int column = me.warp * 2 + lane / 8 % 2;  // of 16 bytes
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      const int row = (j + lane / 16) * 8 + lane % 8;
      const std::uint32_t at = to + row * 128 + ((column ^ lane % 8) << 4);
      std::uint32_t words[4] = {};
      if constexpr (kAdd) ptx::ldmatrix_x4_trans(at, words);
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = two_halves<kAdd>(acc[j * 4 + i * 2], acc[j * 4 + i * 2 + 1], words[i]);
      ptx::stmatrix_x4_trans(at, words);
    }
  }
  // A chunk of FP32 has the rows of two warps.
  template <bool kAdd>
  __device__ __forceinline__ void write_floats_transposed(const float* acc, int first_row, std::uint32_t to) const {
    const int from = me.warp * 16 - first_row;
    if (from < 0 || from >= Shared::kChunkColumns) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = lane % 4 * 2 + i % 2;  // of 8
      const int column = from + lane / 4 + i / 2 * 8;
      const std::uint32_t at = to + row * 128 + ((column / 4 ^ row) << 4) + column % 4 * 4;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        float x = acc[j * 4 + i];
        if constexpr (kAdd) x = __fadd_rn(x, ptx::ld_shared_f32(at + j * 1024));
        ptx::st_shared(at + j * 1024, x);
      }
    }
  }

  // Accumulators to as many chunks as there are slots, from `first` on.
  template <bool kAdd>
  __device__ __forceinline__ void write_slots(const float (&acc)[Shape::kSubs][kAcc], int first,
                                              std::uint32_t uses) const {
#pragma unroll
    for (int i = 0; i < Shared::kSlots; ++i) {
      const int chunk = first + i;
      if (kAdd && job.d_tiled) ptx::mbarrier_wait_parity(loaded(chunk), uses & 1);
      if constexpr (Shape::kTransposed) {
        static_assert(Shape::kSubs == 1);
        const float* const from = &acc[0][transposed_column(chunk) / 2];
        if constexpr (sizeof(Out) == 2) {
          write_halves_transposed<kAdd>(from, slot(chunk));
        } else {
          write_floats_transposed<kAdd>(from, transposed_row(chunk), slot(chunk));
        }
      } else {
        const int column = chunk % Shared::kSubChunks * Shared::kChunkColumns;
        write_chunk<kAdd>(&acc[chunk / Shared::kSubChunks][column / 2], slot(chunk));
      }
    }
  }

  // A tile's chunks, as many at a time as there are slots. uses: how often slots were loaded.
  __device__ __forceinline__ void store_tile(const float (&acc)[Shape::kSubs][kAcc], const CUtensorMap* c_map,
                                             const CUtensorMap* d_map, const MatmulTile& tile,
                                             std::uint32_t& uses) const {
    constexpr int kSlots = Shared::kSlots;
    const int barrier = 1 + me.index;
    const bool leader = me.thread == 0;
    const bool load = job.accumulate && job.d_tiled;
    // TMA leaves out rows past the matrix; rows past the expert belong to the next one, or, of a masked group below its
    // capacity, to no one.
    const int rows = tile.rows - Shape::row_of(me.index);
    const bool in_group = job.kind == MatmulKind::masked && Shape::row_of(me.index) + Shape::kConsumerM <=
                                                                job.capacity - (tile.row - tile.expert * job.capacity);
    const bool whole =
        job.d_tiled && (rows >= Shape::kConsumerM || !has_matrices(job) || in_group || tile.row + tile.rows == job.m);
#pragma unroll
    for (int first = 0; first < Shared::kChunks; first += kSlots) {
      if (!load) {
        if (leader) ptx::cp_async_bulk_wait_group_read<0>();
        ptx::bar_sync<128>(barrier);
        if (job.accumulate) {
#pragma unroll 1
          for (int chunk = first; chunk < first + kSlots; ++chunk) fill_chunk(place(chunk, tile), slot(chunk));
          ptx::bar_sync<128>(barrier);
        }
      }
      if (job.accumulate) {
        write_slots<true>(acc, first, uses);
      } else {
        write_slots<false>(acc, first, uses);
      }
      ++uses;
      ptx::fence_proxy_async();
      ptx::bar_sync<128>(barrier);
      // Every slot is written, by every warp.
      if (!whole) {
#pragma unroll 1
        for (int chunk = first; chunk < first + kSlots; ++chunk) drain_chunk(place(chunk, tile), slot(chunk));
        if (load) ptx::bar_sync<128>(barrier);
      } else if (leader) {
#pragma unroll
        for (int chunk = first; chunk < first + kSlots; ++chunk) {
          const Place at = place(chunk, tile);
          if (at.rows > 0) ptx::cp_async_bulk_tensor_3d_store(d_map, slot(chunk), at.x, at.y, at.z);
        }
        ptx::cp_async_bulk_commit_group();
      }
      if (load && leader) {
#pragma unroll
        for (int chunk = first + kSlots; chunk < min(first + 2 * kSlots, Shared::kChunks); ++chunk) {
          load_chunk(chunk, c_map, tile);
        }
      }
    }
  }

  // At a tile's start, before its first mma: C on its way into the slots.
  __device__ __forceinline__ void load_first(const CUtensorMap* c_map, const MatmulTile& tile) const {
    if (!job.accumulate || !job.d_tiled) return;
    ptx::bar_sync<128>(1 + me.index);
    if (me.thread != 0) return;
#pragma unroll
    for (int chunk = 0; chunk < Shared::kSlots; ++chunk) load_chunk(chunk, c_map, tile);
#pragma unroll
    for (int chunk = Shared::kSlots; chunk < Shared::kChunks; ++chunk) {
      const Place to = place(chunk, tile);
      ptx::cp_async_bulk_prefetch_tensor_3d(c_map, to.x, to.y, to.z);
    }
  }

  // At the end of all.
  __device__ __forceinline__ void finish() const {
    if (me.thread == 0) ptx::cp_async_bulk_wait_group<0>();
  }
};

}  // namespace mxcheck_kernels::sm90
