#pragma once
// Rows that start anywhere. A warp reads the aligned vectors that cover its part of a row and shifts them into place,
// and shifts codes the other way before they are stored: both in whole vectors but for the edges, where a byte beside
// them is another warp's or not the tensor's.

#include "kernels/sm90/ptx/ptx.cuh"
#include "kernels/sm90/quantize/tile.cuh"

namespace mxcheck_kernels::sm90 {

// Bytes of a vector of 4 or 2 words: 16 or 8.
template <int kVector>
inline constexpr int kVectorBytes = 4 * kVector;

// Shared memory of a warp: the vector after its last one, and the first and last words of codes, of each of its rows.
template <int kRows, int kVector, int kCodeWords>
struct Edges {
  alignas(16) std::uint32_t tail[kRows][kVector];
  alignas(8) std::uint8_t codes[kRows][2][4 * kCodeWords];
};

// One element after the other: a loop, because few vectors of a call reach past its tensor.
template <class T, int kVector>
__device__ __forceinline__ void load_inside(const Matrix& x, std::int64_t offset, std::uint32_t (&w)[kVector]) {
  constexpr int kSize = static_cast<int>(sizeof(T));
  std::uint64_t low = 0;
  std::uint64_t high = 0;
#pragma unroll 1
  for (int i = 0; i < kVectorBytes<kVector>; i += kSize) {
    const std::int64_t at = offset + i;
    std::uint64_t bits = 0;
    if (at >= 0 && at < x.bytes) {
      const auto* from = static_cast<const std::uint8_t*>(x.data) + at;
      if constexpr (kSize == 2) {
        bits = *reinterpret_cast<const std::uint16_t*>(from);
      } else {
        bits = *reinterpret_cast<const std::uint32_t*>(from);
      }
    }
    low = low >> 8 * kSize | high << (64 - 8 * kSize);
    high = high >> 8 * kSize | bits << (64 - 8 * kSize);
  }
  if constexpr (kVector == 2) {
    w[0] = static_cast<std::uint32_t>(high), w[1] = static_cast<std::uint32_t>(high >> 32);
  } else {
    w[0] = static_cast<std::uint32_t>(low), w[1] = static_cast<std::uint32_t>(low >> 32);
    w[2] = static_cast<std::uint32_t>(high), w[3] = static_cast<std::uint32_t>(high >> 32);
  }
}

__device__ __forceinline__ std::uint64_t of_lane(std::uint64_t value, int lane) {
  const auto low = __shfl_sync(kAll, static_cast<std::uint32_t>(value), lane);
  const auto high = __shfl_sync(kAll, static_cast<std::uint32_t>(value >> 32), lane);
  return std::uint64_t{high} << 32 | low;
}

// A lane's words of each row from the warp's column `col`, of which `cols` are left to the right: as aligned vectors,
// that begin up to a vector before the columns. Returns how many bytes before, for row `lane`.
template <class T, int kVector, int kRows, class Values, class Edge>
__device__ __forceinline__ int load_shifted(const Matrix& x, std::int64_t first, int rows, std::int64_t col, int cols,
                                            Values (&a)[kRows], Edge& edge) {
  constexpr int kBytes = kVectorBytes<kVector>;
  constexpr std::uint64_t kMask = kBytes - 1;
  constexpr int kOfLane = Values::kWords * 4;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int bytes = cols * static_cast<int>(sizeof(T));
  const auto data = reinterpret_cast<std::uint64_t>(x.data);
  std::uint64_t mine = 0;  // where row `lane` begins
  if (lane < rows) {
    const std::int64_t row = x.index != nullptr ? x.index[first + lane] : first + lane;
    mine = data + static_cast<std::uint64_t>(row * x.stride + col) * sizeof(T);
  }
  const int before = static_cast<int>(mine & kMask);
  const std::uint64_t end = (mine + static_cast<std::uint64_t>(bytes) + kMask) & ~kMask;
  const bool crosses = lane < rows && ((mine & ~kMask) < data || end > data + static_cast<std::uint64_t>(x.bytes));
  const bool careful = __any_sync(kAll, crosses);  // the first and the last rows of a call
  std::uint32_t tail[kVector];
  const auto load_all = [&](const auto& load) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::uint64_t row = of_lane(mine, r);
      const int row_end = r < rows ? static_cast<int>(row & kMask) + bytes : 0;
#pragma unroll
      for (int i = 0; i < Values::kWords; i += kVector) {
        const int at = lane * kOfLane + i * 4;
        std::uint32_t w[kVector];
        load((row & ~kMask) + at, at < row_end, w);
#pragma unroll
        for (int j = 0; j < kVector; ++j) a[r].w[i + j] = w[j];
      }
    }
    load((mine & ~kMask) + 32 * kOfLane, lane < rows && 32 * kOfLane < before + bytes, tail);
  };
  if (!careful) {
    load_all([](std::uint64_t at, bool wanted, std::uint32_t(&w)[kVector]) { ptx::ld_global_nc_if(at, wanted, w); });
  } else {
    load_all([&](std::uint64_t at, bool wanted, std::uint32_t(&w)[kVector]) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) w[i] = 0;
      if (wanted) load_inside<T, kVector>(x, static_cast<std::int64_t>(at - data), w);
    });
  }
  if (lane < kRows) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) edge.tail[lane][i] = tail[i];
  }
  return before;
}

// The lane's words of one row, from aligned vectors that begin `bytes` before them.
template <class T, int kVector, int kWords>
__device__ __forceinline__ void shift_words(std::uint32_t (&w)[kWords], const std::uint32_t (&tail)[kVector],
                                            int bytes) {
  std::uint32_t c[kWords + kVector];
#pragma unroll
  for (int i = 0; i < kWords; ++i) c[i] = w[i];
#pragma unroll
  for (int i = 0; i < kVector; ++i) c[kWords + i] = __shfl_down_sync(kAll, w[i], 1);
  if (threadIdx.x % 32 == 31) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) c[kWords + i] = tail[i];
  }
  if constexpr (kVector == 4) {
#pragma unroll
    for (int i = 0; i < kWords + 2; ++i) c[i] = (bytes & 8) != 0 ? c[i + 2] : c[i];
  }
#pragma unroll
  for (int i = 0; i < kWords + 1; ++i) c[i] = (bytes & 4) != 0 ? c[i + 1] : c[i];
#pragma unroll
  for (int i = 0; i < kWords; ++i) w[i] = sizeof(T) == 2 ? __funnelshift_r(c[i], c[i + 1], 8 * (bytes & 3)) : c[i];
}

// All rows, after which lanes beyond `cols` columns hold +0 in place of what follows the row.
template <class T, int kVector, int kRows, class Values, class Edge>
__device__ __forceinline__ void shift_rows(Values (&a)[kRows], int cols, int before, const Edge& edge) {
  constexpr int kWords = Values::kWords;
  constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
  __syncwarp();
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    shift_words<T, kVector, kWords>(a[r].w, edge.tail[r], __shfl_sync(kAll, before, r));
  }
  if (cols >= 32 * kWords * kPerWord) return;
  const int mine = cols - static_cast<int>(threadIdx.x) % 32 * kWords * kPerWord;
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    const int left = mine - i * kPerWord;
    const std::uint32_t mask = left >= kPerWord ? ~0U : left == 1 && kPerWord == 2 ? 0xFFFFU : 0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) a[r].w[i] &= mask;
  }
}

// The lane's codes of one row, moved up by the `bytes` that the row's first is past an aligned word; the first lane's
// are preceded by the last lane's.
__device__ __forceinline__ std::uint32_t shift_codes(std::uint32_t codes, int bytes) {
  const std::uint32_t before = __shfl_sync(kAll, codes, threadIdx.x - 1);
  return __funnelshift_l(before, codes, 8 * bytes);
}
__device__ __forceinline__ uint2 shift_codes(uint2 codes, int bytes) {
  const std::uint32_t x = __shfl_sync(kAll, codes.x, threadIdx.x - 1);
  const std::uint32_t y = __shfl_sync(kAll, codes.y, threadIdx.x - 1);
  const bool word = (bytes & 4) != 0;
  const std::uint32_t low = word ? x : y;
  const std::uint32_t middle = word ? y : codes.x;
  const std::uint32_t high = word ? codes.x : codes.y;
  return {__funnelshift_l(low, middle, 8 * (bytes & 3)), __funnelshift_l(middle, high, 8 * (bytes & 3))};
}
// Bytes of the first and the last words of each row, which are not all of this row's part.
template <class Codes, int kRows, class Edge>
__device__ __forceinline__ void store_edges(std::uint8_t* to, std::int64_t stride, int rows, int cols, bool whole,
                                            const Edge& edge) {
  constexpr int kSize = static_cast<int>(sizeof(Codes));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int j = lane % kSize;
#pragma unroll
  for (int first = 0; first < kRows; first += 32 / kSize) {
    const int r = first + lane / kSize;
    std::uint8_t* row = to + r * stride;
    const int n = static_cast<int>(reinterpret_cast<std::uint64_t>(row) % kSize);
    if (whole) {  // the first lane's word holds the end of the last lane's too
      if (n != 0) row[j < n ? cols + j - n : j - n] = edge.codes[r][0][j];
      continue;
    }
    if (r >= rows) continue;
    const int last = (n + cols) / kSize * kSize;  // of the last word, which is the first where there is one alone
    if (j >= n && j < n + cols && (n != 0 || last == 0)) row[j - n] = edge.codes[r][0][j];
    if (last != 0 && last + j < n + cols) row[last + j - n] = edge.codes[r][1][j];
  }
}

// Codes of the warp's rows, from code(r), a word or two of a lane. to: the first row's first code; cols of them.
template <class Codes, int kRows, class Edge, class Code>
__device__ __forceinline__ void store_shifted(std::uint8_t* to, std::int64_t stride, int rows, int cols, Edge& edge,
                                              const Code& code) {
  constexpr int kSize = static_cast<int>(sizeof(Codes));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool whole = rows == kRows && cols == 32 * kSize;
  std::uint8_t* row = to;
  if (whole) {
#pragma unroll
    for (int r = 0; r < kRows; ++r, row += stride) {
      const auto n = static_cast<unsigned>(reinterpret_cast<std::uint64_t>(row) % kSize);
      const Codes w = shift_codes(code(r), static_cast<int>(n));
      if (lane == 0) *reinterpret_cast<Codes*>(edge.codes[r][0]) = w;
      if (lane != 0 || n == 0) ptx::st_global_no_allocate(row - n + lane * kSize, w);
    }
  } else {
#pragma unroll
    for (int r = 0; r < kRows; ++r, row += stride) {
      const int n = static_cast<int>(reinterpret_cast<std::uint64_t>(row) % kSize);
      const Codes w = shift_codes(code(r), n);
      const int at = lane * kSize - n;
      if (r < rows && at >= 0 && at + kSize <= cols) ptx::st_global_no_allocate(row + at, w);
      if (lane == 0) *reinterpret_cast<Codes*>(edge.codes[r][0]) = w;
      if (lane == (n + cols) / kSize % 32) *reinterpret_cast<Codes*>(edge.codes[r][1]) = w;
    }
  }
  __syncwarp();
  store_edges<Codes, kRows>(to, stride, rows, cols, whole, edge);
  __syncwarp();
}

}  // namespace mxcheck_kernels::sm90
