#pragma once
// Shared by the kernels: a block's tile and the places of its scales, as the device computes them (kernels/candidate.h
// has the layouts); a lane's share of a tile, 4 columns of its warp's 16 rows, in registers, loading it, and amax in
// either direction; scales and codes. Loads go through the read-only path and stores past L1: of the ways measured
// (docs/performance.md) these two together reach the copy's rate, plain stores 92 % of it.

#include <cstdint>

#include <cuda_bf16.h>

#include "kernels/candidate.h"
#include "kernels/sm90/common/element.cuh"
#include "kernels/sm90/ptx/ptx.cuh"
#include "kernels/sm90/quantize/quantize.h"

namespace mxcheck_kernels::sm90 {

// --- places ----------------------------------------------------------------------------------------------------------

// False if the block has no work. Waits for the plan kernel, which may still be running.
__device__ __forceinline__ bool find_tile(const Rows& rows, std::int64_t t, RowTile& tile) {
  if (rows.header != nullptr) {
    ptx::griddepcontrol_wait();
    if (rows.table != nullptr) {
      tile = rows.table[t];
      return tile.rows != 0;
    }
    if (rows.header->status != MXCHECK_OK) return false;
  }
  tile.first_row = t * kTile;
  tile.bands = t * (kTile / 32);
  tile.quads = 0;
  tile.rows = static_cast<std::int32_t>(min(static_cast<std::int64_t>(kTile), rows.rows - tile.first_row));
  tile.in_expert = static_cast<std::int32_t>(t);
  tile.of_expert = static_cast<std::int32_t>(rows.tiles);
  return true;
}

// One block's place among tiles: row tile t, column tile c of `columns`.
struct Place {
  RowTile tile;
  std::int64_t t = 0;
  std::int64_t c = 0;
  std::int64_t columns = 0;  // column tiles
  std::int64_t cols = 0;     // of the matrix
};

__device__ __forceinline__ std::int64_t in_scale_tile(int row, int col) { return row % 32 * 16 + row / 32 * 4 + col; }

// Offset of the scale of 1 x kBlock block j (of this tile: 0 .. 128 / kBlock - 1) of row i.
template <int kBlock>
__device__ __forceinline__ std::int64_t row_scale_offset(const Place& p, bool tiled, int i, int j) {
  const std::int64_t col = p.c * (kTile / kBlock) + j;
  if (!tiled) return (p.tile.first_row + i) * divide_up(p.cols, kBlock) + col;
  const std::int64_t tiles = divide_up(divide_up(p.cols, kBlock), 4);
  return (p.t * tiles + col / 4) * kScaleTile + in_scale_tile(i, static_cast<int>(col % 4));
}

// Offset of the scale of kBlock x 1 block b (of this tile) of column i. Tiles hold the transposed scales.
template <int kBlock>
__device__ __forceinline__ std::int64_t column_scale_offset(const Place& p, bool tiled, int i, int b) {
  if (!tiled) return ((kBlock == 32 ? p.tile.bands : p.t) + b) * p.cols + p.c * kTile + i;
  if (kBlock == 32) {
    const std::int64_t before = (p.t - p.tile.in_expert) * p.columns;
    return (before + p.c * p.tile.of_expert + p.tile.in_expert) * kScaleTile + in_scale_tile(i, b);
  }
  const std::int64_t tiles = divide_up(p.tile.of_expert, 4);
  return (p.tile.quads * p.columns + p.c * tiles + p.tile.in_expert / 4) * kScaleTile +
         in_scale_tile(i, p.tile.in_expert % 4);
}

// --- a lane's share --------------------------------------------------------------------------------------------------

inline constexpr unsigned kAll = 0xFFFFFFFF;

// Words of 32 bits that 4 elements take, and the elements as FP32.
template <class T>
struct Four;

template <>
struct Four<__nv_bfloat16> {
  static constexpr int kWords = 2;
  std::uint32_t w[2];
  __device__ __forceinline__ float4 values() const {
    return {__uint_as_float(w[0] << 16), __uint_as_float(w[0] & 0xFFFF0000), __uint_as_float(w[1] << 16),
            __uint_as_float(w[1] & 0xFFFF0000)};
  }
};

template <>
struct Four<float> {
  static constexpr int kWords = 4;
  std::uint32_t w[4];
  __device__ __forceinline__ float4 values() const {
    return {__uint_as_float(w[0]), __uint_as_float(w[1]), __uint_as_float(w[2]), __uint_as_float(w[3])};
  }
};

// Rows of x from `first` on, `rows` of them, at column `col`, by load(pointer, r); with an index the rows that it
// names. Whole tiles take a path without a condition or a multiplication for each row.
template <int kRows, class T, class Load>
__device__ __forceinline__ void load_rows(const Matrix& x, std::int64_t first, int rows, std::int64_t col, bool inside,
                                          const Load& load) {
  const T* at = static_cast<const T*>(x.data) + col;
  if (x.index != nullptr) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::int32_t source = lane < rows ? x.index[first + lane] : 0;
    std::int32_t row[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) row[r] = __shfl_sync(kAll, source, r);
    if (!inside) return;
    if (rows == kRows) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) load(at + row[r] * x.stride, r);
    } else {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (r < rows) load(at + row[r] * x.stride, r);
      }
    }
    return;
  }
  if (!inside) return;
  at += first * x.stride;
  if (rows == kRows) {
#pragma unroll
    for (int r = 0; r < kRows; ++r, at += x.stride) load(at, r);
  } else {
#pragma unroll
    for (int r = 0; r < kRows; ++r, at += x.stride) {
      if (r < rows) load(at, r);
    }
  }
}

// The same for a row-major output of rows * stride bytes: store(pointer, r).
template <int kRows, class Store>
__device__ __forceinline__ void store_rows(std::uint8_t* at, std::int64_t stride, int rows, bool inside,
                                           const Store& store) {
  if (!inside) return;
  if (rows == kRows) {
#pragma unroll
    for (int r = 0; r < kRows; ++r, at += stride) store(at, r);
  } else {
#pragma unroll
    for (int r = 0; r < kRows; ++r, at += stride) {
      if (r < rows) store(at, r);
    }
  }
}

// A lane's 4 columns from `col`, aligned as a vector and all inside or all outside; what lies outside the matrix is +0.
template <class T>
__device__ __forceinline__ void load_tile(const Matrix& x, std::int64_t first, int rows, std::int64_t col, bool inside,
                                          Four<T> (&a)[kWarpRows]) {
  if (rows < kWarpRows || !inside) {
#pragma unroll
    for (int r = 0; r < kWarpRows; ++r) a[r] = {};
  }
  load_rows<kWarpRows, T>(x, first, rows, col, inside, [&](const T* at, int r) { ptx::ld_global_nc(at, a[r].w); });
}

// Amax words: for BF16 two to a word, 16 bits each without sign; for FP32 one to a word. Both compare as integers.
template <class T>
__device__ __forceinline__ std::uint32_t magnitudes(std::uint32_t word) {
  return word & (sizeof(T) == 2 ? 0x7FFF7FFF : 0x7FFFFFFF);
}
template <class T>
__device__ __forceinline__ std::uint32_t larger(std::uint32_t a, std::uint32_t b) {
  return sizeof(T) == 2 ? __vmaxu2(a, b) : max(a, b);
}

// The amax of the lane's columns over its rows, as amax words.
template <class T>
__device__ __forceinline__ Four<T> column_amax(const Four<T> (&a)[kWarpRows]) {
  Four<T> m = {};
#pragma unroll
  for (int r = 0; r < kWarpRows; ++r) {
#pragma unroll
    for (int i = 0; i < Four<T>::kWords; ++i) m.w[i] = larger<T>(m.w[i], magnitudes<T>(a[r].w[i]));
  }
  return m;
}

template <class T>
__device__ __forceinline__ Four<T> larger(const Four<T>& a, const Four<T>& b) {
  Four<T> m;
#pragma unroll
  for (int i = 0; i < Four<T>::kWords; ++i) m.w[i] = larger<T>(a.w[i], b.w[i]);
  return m;
}

// Amax words of four columns as FP32 bits.
__device__ __forceinline__ uint4 amax_bits(const Four<__nv_bfloat16>& m) {
  return {m.w[0] << 16, m.w[0] & 0xFFFF0000, m.w[1] << 16, m.w[1] & 0xFFFF0000};
}
__device__ __forceinline__ uint4 amax_bits(const Four<float>& m) { return {m.w[0], m.w[1], m.w[2], m.w[3]}; }

__device__ __forceinline__ std::uint32_t largest(uint4 m) { return max(max(m.x, m.y), max(m.z, m.w)); }

// One step of a reduction that halves the words: the lane whose bit kMask is set keeps the upper half.
template <class T, int kWords, int kMask>
__device__ __forceinline__ void reduce_scatter(std::uint32_t* w) {
  const bool upper = (threadIdx.x & kMask) != 0;
#pragma unroll
  for (int i = 0; i < kWords / 2; ++i) {
    const std::uint32_t kept = upper ? w[i + kWords / 2] : w[i];
    const std::uint32_t sent = upper ? w[i] : w[i + kWords / 2];
    w[i] = larger<T>(kept, __shfl_xor_sync(kAll, sent, kMask));
  }
}

template <class T, int kWords, int kMask>
__device__ __forceinline__ void reduce(std::uint32_t* w) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) w[i] = larger<T>(w[i], __shfl_xor_sync(kAll, w[i], kMask));
}

// Amax words of `kRows` rows, from the words of one row each: for BF16 rows 2i and 2i + 1 share a word.
template <class T, int kRows, class RowWord>
__device__ __forceinline__ void row_words(std::uint32_t* w, const RowWord& of_row) {
  if constexpr (sizeof(T) == 2) {
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) {
      const std::uint32_t even = of_row(2 * i);
      const std::uint32_t odd = of_row(2 * i + 1);
      w[i] = __vmaxu2(__byte_perm(even, odd, 0x5410), __byte_perm(even, odd, 0x7632));
    }
  } else {
#pragma unroll
    for (int i = 0; i < kRows; ++i) w[i] = of_row(i);
  }
}

// The amax of two rows as FP32 bits, from their word or words.
template <class T>
__device__ __forceinline__ uint2 two_rows(const std::uint32_t* w) {
  if constexpr (sizeof(T) == 2) {
    return {w[0] << 16, w[0] & 0xFFFF0000};
  } else {
    return {w[0], w[1]};
  }
}

// The amax of rows 2k and 2k + 1 of the warp's in a 1 x kBlock block: k = lane % 8 in block lane / 8 for blocks of 32,
// k = lane / 4 for blocks of 128.
template <class T, int kBlock>
__device__ __forceinline__ uint2 row_amax(const Four<T> (&a)[kWarpRows]) {
  constexpr int kWords = kWarpRows * static_cast<int>(sizeof(T)) / 4;
  std::uint32_t w[kWords];
  row_words<T, kWarpRows>(w, [&](int r) {
    std::uint32_t m = magnitudes<T>(a[r].w[0]);
#pragma unroll
    for (int i = 1; i < Four<T>::kWords; ++i) m = larger<T>(m, magnitudes<T>(a[r].w[i]));
    return m;
  });
  constexpr int kFirst = kBlock == 32 ? 4 : 16;
  reduce_scatter<T, kWords, kFirst>(w);
  reduce_scatter<T, kWords / 2, kFirst / 2>(w);
  reduce_scatter<T, kWords / 4, kFirst / 4>(w);
  if constexpr (kBlock == 128) {
    reduce<T, kWords / 8, 2>(w);
    reduce<T, kWords / 8, 1>(w);
  }
  return two_rows<T>(w);
}

// --- scales and codes ------------------------------------------------------------------------------------------------

template <Element kElement>
__device__ __forceinline__ std::uint32_t scale_bytes(uint4 amax, std::uint32_t addend) {
  return scale_byte<kElement>(amax.x, addend) | scale_byte<kElement>(amax.y, addend) << 8 |
         scale_byte<kElement>(amax.z, addend) << 16 | scale_byte<kElement>(amax.w, addend) << 24;
}

__device__ __forceinline__ std::uint32_t byte_of(std::uint32_t word, int i) { return word >> 8 * i & 0xFF; }

__device__ __forceinline__ float4 factors_of(std::uint32_t bytes) {
  return {factor_of(byte_of(bytes, 0)), factor_of(byte_of(bytes, 1)), factor_of(byte_of(bytes, 2)),
          factor_of(byte_of(bytes, 3))};
}

template <Element kElement>
__device__ __forceinline__ std::uint32_t encode(float4 v, float4 factor) {
  return encode4<kElement>(v.x * factor.x, v.y * factor.y, v.z * factor.z, v.w * factor.w);
}

// Four scales from shared memory: one word, or as many bytes as count.
__device__ __forceinline__ void store_scales(const ScalePlace& to, std::int64_t offset, std::uint32_t word, int count) {
  if (to.words) {
    *reinterpret_cast<std::uint32_t*>(to.bytes + offset) = word;
  } else {
    for (int i = 0; i < count; ++i) to.bytes[offset + i] = static_cast<std::uint8_t>(word >> 8 * i);
  }
}

// --- the launch ------------------------------------------------------------------------------------------------------

// A kernel that calls find_tile. Where there is a plan kernel it begins while that still runs.
template <class... Parameters, class... Arguments>
cudaError_t launch_after_plan(void (*kernel)(Parameters...), const Rows& rows, unsigned grid, int threads,
                              cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = {grid, 1, 1}, config.blockDim = {static_cast<unsigned>(threads), 1, 1}, config.stream = stream;
  config.attrs = &early, config.numAttrs = rows.header != nullptr ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace mxcheck_kernels::sm90
