// launch_transpose for blocks of 128 rows: tiles of 128 rows and 128 columns, of which a block of threads has one. A
// warp has 16 rows, half a warp eight of them, a lane eight neighbouring columns of those, so that what a lane holds of
// a column are eight codes that follow one another in the output.
//
// Tiles of the first 128 columns come first, all experts one after the other, then those of the next 128. Rows that are
// gathered are read once for each of their experts; of 128 columns all rows of 32768 tokens are 8 MB in BF16, which
// stay in L2 from expert to expert, while 4096 columns of them would be read from memory each time. A tile's output
// follows that of the tile before it, codes and scales, so that their lines are written whole.
//
// Rows past the tile's and columns past the matrix's are the last ones again: no amax changes by them, no load needs a
// predicate, and their codes are not kept.

#include <cstdint>
#include <limits>

#include "kernels/sm90/layer/steps/columns.cuh"
#include "kernels/sm90/layer/steps/steps.h"
#include "kernels/sm90/ptx/arithmetic.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kWideCols = 128;
constexpr int kWideThreads = 256;
constexpr int kLaneRows = 8;
constexpr int kWideParts = kTileRows / kLaneRows;  // half warps
static_assert(kWideThreads == kWideParts * kWideCols / kEach);

struct WideShared {
  TransposedTile<kWideCols> codes;  // before that the parts' amax: see there
  alignas(16) float factors[kWideCols];
  alignas(16) float lows[kWideCols];
  alignas(16) float rows[kTileRows];  // scales of what is coded anew
};

// A lane's place: its rows and columns in the tile.
struct WideLane {
  int part;
  int row;
  int column;
  std::int64_t source;      // column of x
  std::int32_t source_row;  // row of x of the lane's row lane % 8
};

__device__ __forceinline__ WideLane wide_lane(const TransposeJob& job, const RowTile& tile, std::int64_t col) {
  const int thread = static_cast<int>(threadIdx.x);
  WideLane at;
  at.part = thread / 16;
  at.row = at.part * kLaneRows;
  at.column = thread % 16 * kEach;
  at.source = min(col + at.column, job.cols - kEach);
  const std::int32_t row = tile.first + min(at.row + thread % kLaneRows, tile.rows - 1);
  at.source_row = job.index == nullptr ? row : __ldg(job.index + row);
  return at;
}

// The lane's number of row r, of those that half a warp has one of for each of its rows.
template <class T>
__device__ __forceinline__ T of_row(T mine, int r) {
  return __shfl_sync(kAllLanes, mine, r, 16);
}

// Writes the scale of a column's amax, in the threads that have one, to memory and shared memory. Passes a barrier;
// true for all threads where a column's codes are made by division.
template <class Coder>
__device__ __forceinline__ bool share_scales(const TransposeJob& job, const Coder& coder, const RowTile& tile,
                                             std::int64_t col, std::uint32_t amax, WideShared& shared) {
  const int column = static_cast<int>(threadIdx.x);
  bool divides = false;
  if (column < kWideCols) {
    const BlockScale s = coder.scale_of(amax);
    divides = Coder::divides(s);
    // A column of zeros alone becomes zeros of the same signs by any factor. 0 is one that FP16 has.
    shared.factors[column] = !Coder::kFp32 && amax == 0 ? 0.0F : s.factor;
    shared.lows[column] = s.low;
    if (col + column < job.cols) coder.store_scale(job.out.scales, (col + column) * job.out.bands + tile.band, s);
  }
  if constexpr (Coder::kFp32) return __syncthreads_or(static_cast<int>(divides)) != 0;
  __syncthreads();
  return false;
}

template <class Coder>
__device__ __forceinline__ BlockScale shared_scale(const WideShared& shared, int column) {
  return {0, shared.factors[column], Coder::kFp32 ? shared.lows[column] : 0.0F};
}

// Eight rows of a column to codes in shared memory.
template <bool kDivides, class Coder>
__device__ __forceinline__ void put_column(const Coder& coder, const float (&x)[kLaneRows], const BlockScale& s,
                                           int column, int part, WideShared& shared) {
  uint2 codes;
  if constexpr (kDivides) {
    codes = make_uint2(coder.codes(x[0], x[1], x[2], x[3], s), coder.codes(x[4], x[5], x[6], x[7], s));
  } else {
    codes = make_uint2(coder.template codes_by<false>(x[0], x[1], x[2], x[3], s),
                       coder.template codes_by<false>(x[4], x[5], x[6], x[7], s));
  }
  put_eight(shared.codes, column, part, codes);
}

// The codes, written and waited for.
__device__ __forceinline__ void store_wide(const TransposeJob& job, const RowTile& tile, std::int64_t col,
                                           const WideShared& shared) {
  const ColumnCodes& out = job.out;
  const std::int64_t first = out.padded ? std::int64_t{tile.band} * kTileRows : tile.first;
  store_transposed<kWideThreads, kWideCols>(
      shared.codes, {out.codes + col * out.stride + first, out.stride, job.cols - col, tile.rows, out.padded},
      static_cast<int>(threadIdx.x));
}

// --- BF16 ------------------------------------------------------------------------------------------------------------

// Eight columns of eight rows.
__device__ __forceinline__ void load_words(const TransposeJob& job, const WideLane& at, uint4 (&v)[kLaneRows]) {
  const auto* const x = static_cast<const std::uint16_t*>(job.x) + at.source;
  const auto stride = static_cast<std::int32_t>(job.stride);  // a product of 64 bits by one instruction
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    v[r] = __ldg(reinterpret_cast<const uint4*>(x + std::int64_t{of_row(at.source_row, r)} * stride));
  }
}

// The amax of this thread's column, of all parts; +0 where it has none. Passes a barrier.
__device__ __forceinline__ std::uint32_t amax_of_column(const uint4 (&v)[kLaneRows], const WideLane& at,
                                                        WideShared& shared) {
  uint4 m = v[0];
#pragma unroll
  for (int r = 1; r < kLaneRows; ++r) {
    m = make_uint4(ptx::max_nan_xorsign_abs_bf16x2(m.x, v[r].x), ptx::max_nan_xorsign_abs_bf16x2(m.y, v[r].y),
                   ptx::max_nan_xorsign_abs_bf16x2(m.z, v[r].z), ptx::max_nan_xorsign_abs_bf16x2(m.w, v[r].w));
  }
  constexpr int kPlaces = kWideCols / kEach;  // of uint4 in a part
  shared.codes[at.part * kPlaces + at.column / kEach] = m;
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x);
  if (column >= kWideCols) return 0;
  const auto* const words = reinterpret_cast<const std::uint32_t*>(shared.codes) + column / 2;
  std::uint32_t two = 0;
#pragma unroll
  for (int p = 0; p < kWideParts; ++p) two = ptx::max_nan_xorsign_abs_bf16x2(two, words[p * (kWideCols / 2)]);
  two &= 0x7FFF7FFF;
  return column % 2 == 0 ? two << 16 : two & 0xFFFF0000;
}

__device__ __forceinline__ std::uint32_t word_of(const uint4& v, int k) {
  return k == 0 ? v.x : k == 1 ? v.y : k == 2 ? v.z : v.w;
}

template <bool kDivides, class Coder>
__device__ __forceinline__ void encode_words(const Coder& coder, const uint4 (&v)[kLaneRows], const WideLane& at,
                                             WideShared& shared) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    float low[kLaneRows];
    float high[kLaneRows];
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r) {
      low[r] = low_half(word_of(v[r], k));
      high[r] = high_half(word_of(v[r], k));
    }
    const int column = at.column + 2 * k;
    put_column<kDivides>(coder, low, shared_scale<Coder>(shared, column), column, at.part, shared);
    put_column<kDivides>(coder, high, shared_scale<Coder>(shared, column + 1), column + 1, at.part, shared);
  }
}

// 4: 64 registers a thread, half of them the tile; 128 KB of loads on their way on each processor.
template <class Coder>
__global__ void __launch_bounds__(kWideThreads, 4)
    transpose_wide(const __grid_constant__ TransposeJob job, const __grid_constant__ Coder coder) {
  __shared__ WideShared shared;
  RowTile tile;
  if (!find_tile(job.rows, blockIdx.x, kTileRows, tile)) return;
  const std::int64_t col = std::int64_t{blockIdx.y} * kWideCols;
  const WideLane at = wide_lane(job, tile, col);
  uint4 v[kLaneRows];
  load_words(job, at, v);
  const std::uint32_t amax = amax_of_column(v, at, shared);
  if (share_scales(job, coder, tile, col, amax, shared)) {
    encode_words<true>(coder, v, at, shared);
  } else {
    encode_words<false>(coder, v, at, shared);
  }
  __syncthreads();
  store_wide(job, tile, col, shared);
}

// --- codes with scales of blocks of 1 x 128: what dsv3 makes of the X that it keeps ----------------------------------
//
// A tile's rows have one scale each.
//
// The codes of a lane, as halves, which every E4M3 and E5M2 value is, and the scales of their rows.
//
// E4M3 codes with E8M0 scales, to E4M3 codes with E8M0 scales, stay halves. With 2^m the largest scale of a warp's 16
// rows, code * scale / 2^m is a half as long as no row's scale is below 2^(m - 14): a code is an integer times 2^-9, of
// four bits, and below 2^9, so that the number is one times 2^-23. A code of the output is that of the half times
// 2^m / s, s the column's scale: exact, or so small that the code is a zero. A warp for which that is not so, as with a
// scale of NaN, takes FP32; so it does where 2^m / s is above 2^15. That is two numbers an instruction instead of one,
// and no conversion to FP32.

using Halves = std::uint32_t[kLaneRows][kEach / 2];  // of eight rows eight columns

// The scale of row lane % 8; of an E8M0 scale the byte too.
struct WideScale {
  float value;
  std::uint32_t byte;  // 255 without
};

__device__ __forceinline__ WideScale load_scale(const TransposeJob& job, const WideLane& at, unsigned block) {
  const std::int64_t place = at.source_row * job.scale_blocks + block;
  if (!job.e8m0) return {__ldg(static_cast<const float*>(job.scales) + place), 255};
  const std::uint32_t byte = __ldg(static_cast<const std::uint8_t*>(job.scales) + place);
  return {value_of(byte), byte};
}

// `codes` has two.
template <Element kSource>
__device__ __forceinline__ std::uint32_t halves_of(std::uint32_t codes) {
  if constexpr (kSource == Element::e4m3) {
    return ptx::cvt_rn_f16x2_e4m3x2(static_cast<std::uint16_t>(codes));
  } else {
    return ptx::cvt_rn_f16x2_e5m2x2(static_cast<std::uint16_t>(codes));
  }
}

template <Element kSource>
__device__ __forceinline__ void load_halves(const TransposeJob& job, const WideLane& at, Halves& x) {
  const auto* const codes = static_cast<const std::uint8_t*>(job.x) + at.source;
  const auto stride = static_cast<std::int32_t>(job.stride);  // a product of 64 bits by one instruction
  uint2 eight[kLaneRows];
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    eight[r] = __ldg(reinterpret_cast<const uint2*>(codes + std::int64_t{of_row(at.source_row, r)} * stride));
  }
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    x[r][0] = halves_of<kSource>(eight[r].x & 0xFFFF), x[r][1] = halves_of<kSource>(eight[r].x >> 16);
    x[r][2] = halves_of<kSource>(eight[r].y & 0xFFFF), x[r][3] = halves_of<kSource>(eight[r].y >> 16);
  }
}

__device__ __forceinline__ void amax_in_floats(const Halves& x, float scale, float (&amax)[kEach]) {
#pragma unroll
  for (int i = 0; i < kEach; ++i) amax[i] = 0;
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    const float s = of_row(scale, r);
#pragma unroll
    for (int k = 0; k < kEach / 2; ++k) {
      const float2 two = ptx::cvt_f32_f16x2(x[r][k]);
      amax[2 * k] = ptx::max_nan_f32(amax[2 * k], fabsf(__fmul_rn(two.x, s)));
      amax[2 * k + 1] = ptx::max_nan_f32(amax[2 * k + 1], fabsf(__fmul_rn(two.y, s)));
    }
  }
}

// If a warp's numbers are halves times its largest scale, makes them so, and that the scale of all rows.
__device__ __forceinline__ bool share_scale(WideScale& scale, Halves& x) {
  constexpr std::uint32_t kMost = 246;  // up to there 480 * 2^m is finite; from 1 on m needs no subnormal
  const std::uint32_t most = __reduce_max_sync(kAllLanes, scale.byte);
  const std::uint32_t least = __reduce_min_sync(kAllLanes, scale.byte);
  if (most < 1 || most > kMost || most - least > 14) return false;
  const std::uint32_t mine = ((15 - (most - scale.byte)) << 10) * 0x10001;  // 2^(byte - most), twice
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    const std::uint32_t factor = of_row(mine, r);
#pragma unroll
    for (int k = 0; k < kEach / 2; ++k) x[r][k] = ptx::mul_rn_f16x2(x[r][k], factor);
  }
  scale.value = value_of(most);
  return true;
}

__device__ __forceinline__ void amax_in_halves(const Halves& x, float scale, float (&amax)[kEach]) {
#pragma unroll
  for (int k = 0; k < kEach / 2; ++k) {
    std::uint32_t two = x[0][k];
#pragma unroll
    for (int r = 1; r < kLaneRows; ++r) {
      two = ptx::max_nan_xorsign_abs_f16x2(two, x[r][k]);
    }
    const float2 of = ptx::cvt_f32_f16x2(two & 0x7FFF7FFF);
    amax[2 * k] = __fmul_rn(of.x, scale);
    amax[2 * k + 1] = __fmul_rn(of.y, scale);
  }
}

// True if 2^m / s is 2^15 or less, or NaN, in all of a warp's columns.
__device__ __forceinline__ bool columns_are_halves(float scale, const WideLane& at, const WideShared& shared) {
  float largest = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) largest = fmaxf(largest, shared.factors[at.column + i]);
  return __all_sync(kAllLanes, __fmul_rn(largest, scale) <= 0x1p15F ? 1 : 0) != 0;
}

__device__ __forceinline__ void encode_halves(const Halves& x, float scale, const WideLane& at, WideShared& shared) {
#pragma unroll
  for (int k = 0; k < kEach / 2; ++k) {
    const int column = at.column + 2 * k;
    const float2 s = *reinterpret_cast<const float2*>(shared.factors + column);
    const std::uint32_t factor = ptx::cvt_rn_f16x2_f32(__fmul_rn(s.x, scale), __fmul_rn(s.y, scale));
    std::uint32_t four[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      four[i] = __byte_perm(ptx::cvt_rn_satfinite_e4m3x2_f16x2(ptx::mul_rn_f16x2(x[2 * i][k], factor)),
                            ptx::cvt_rn_satfinite_e4m3x2_f16x2(ptx::mul_rn_f16x2(x[2 * i + 1][k], factor)), 0x5140);
    }
    put_eight(shared.codes, column, at.part,
              make_uint2(__byte_perm(four[0], four[1], 0x5410), __byte_perm(four[2], four[3], 0x5410)));
    put_eight(shared.codes, column + 1, at.part,
              make_uint2(__byte_perm(four[0], four[1], 0x7632), __byte_perm(four[2], four[3], 0x7632)));
  }
}

// The amax of this thread's column, of all parts; +0 where it has none. Passes a barrier.
__device__ __forceinline__ std::uint32_t amax_of_column(const float (&mine)[kEach], const WideLane& at,
                                                        WideShared& shared) {
  auto* const all = reinterpret_cast<float*>(shared.codes);
  auto* const to = reinterpret_cast<float4*>(all + at.part * kWideCols + at.column);
  to[0] = make_float4(mine[0], mine[1], mine[2], mine[3]);
  to[1] = make_float4(mine[4], mine[5], mine[6], mine[7]);
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x);
  if (column >= kWideCols) return 0;
  std::uint32_t amax = 0;
#pragma unroll
  for (int p = 0; p < kWideParts; ++p) amax = max(amax, __float_as_uint(all[p * kWideCols + column]));
  return amax;
}

template <bool kDivides, class Coder>
__device__ __forceinline__ void encode_floats(const Coder& coder, const Halves& x, const WideLane& at,
                                              WideShared& shared) {
#pragma unroll
  for (int k = 0; k < kEach / 2; ++k) {
    float low[kLaneRows];
    float high[kLaneRows];
    const auto* const of_rows = reinterpret_cast<const float4*>(shared.rows + at.row);
    const float4 s[2] = {of_rows[0], of_rows[1]};
    const float scales[kLaneRows] = {s[0].x, s[0].y, s[0].z, s[0].w, s[1].x, s[1].y, s[1].z, s[1].w};
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r) {
      const float2 two = ptx::cvt_f32_f16x2(x[r][k]);
      low[r] = __fmul_rn(two.x, scales[r]);
      high[r] = __fmul_rn(two.y, scales[r]);
    }
    const int column = at.column + 2 * k;
    put_column<kDivides>(coder, low, shared_scale<Coder>(shared, column), column, at.part, shared);
    put_column<kDivides>(coder, high, shared_scale<Coder>(shared, column + 1), column + 1, at.part, shared);
  }
}

// 4: 64 registers a thread.
template <Element kSource, class Coder>
__global__ void __launch_bounds__(kWideThreads, 4)
    transpose_wide_codes(const __grid_constant__ TransposeJob job, const __grid_constant__ Coder coder) {
  constexpr bool kHalves = kSource == Element::e4m3 && Coder::kElement == Element::e4m3 && !Coder::kFp32;
  __shared__ WideShared shared;
  RowTile tile;
  if (!find_tile(job.rows, blockIdx.x, kTileRows, tile)) return;
  const std::int64_t col = std::int64_t{blockIdx.y} * kWideCols;
  const WideLane at = wide_lane(job, tile, col);
  WideScale scale = load_scale(job, at, blockIdx.y);
  Halves x;
  load_halves<kSource>(job, at, x);
  float amax[kEach];
  bool exact = false;
  if constexpr (kHalves) exact = share_scale(scale, x);
  if (exact) {
    amax_in_halves(x, scale.value, amax);
  } else {
    amax_in_floats(x, scale.value, amax);
  }
  shared.rows[at.row + threadIdx.x % kLaneRows] = scale.value;
  const bool divides = share_scales(job, coder, tile, col, amax_of_column(amax, at, shared), shared);
  if (kHalves && exact && columns_are_halves(scale.value, at, shared)) {
    encode_halves(x, scale.value, at, shared);
  } else if (divides) {
    encode_floats<true>(coder, x, at, shared);
  } else {
    encode_floats<false>(coder, x, at, shared);
  }
  __syncthreads();
  store_wide(job, tile, col, shared);
}

cudaError_t launch_wide_codes(const TransposeJob& job, const dim3& grid, cudaStream_t stream) {
  return with_coder(job.out.coding, [&](auto coder) {
    using C = decltype(coder);
    auto* const kernel =
        job.element == Element::e4m3 ? transpose_wide_codes<Element::e4m3, C> : transpose_wide_codes<Element::e5m2, C>;
    kernel<<<grid, kWideThreads, 0, stream>>>(job, coder);
    return cudaGetLastError();
  });
}

}  // namespace

bool takes_wide(const TransposeJob& job, bool vector) {
  constexpr std::int64_t kMostParts = 65535;  // of a grid's second extent
  return vector && job.out.coding.block == kTileRows && (job.scales != nullptr || job.dtype == Dtype::bf16) &&
         job.stride <= std::numeric_limits<std::int32_t>::max() && job.cols >= kEach &&
         job.cols <= kMostParts * kWideCols;
}

cudaError_t launch_wide(const TransposeJob& job, cudaStream_t stream) {
  if (job.rows.tiles == 0) return cudaSuccess;
  const auto parts = static_cast<unsigned>((job.cols + kWideCols - 1) / kWideCols);
  const dim3 grid(static_cast<unsigned>(job.rows.tiles), parts);
  if (job.scales != nullptr) return launch_wide_codes(job, grid, stream);
  return with_coder(job.out.coding, [&](auto coder) {
    transpose_wide<<<grid, kWideThreads, 0, stream>>>(job, coder);
    return cudaGetLastError();
  });
}

}  // namespace mxcheck_kernels::sm90
