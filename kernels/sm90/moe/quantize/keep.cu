// A warp has four rows of 256 columns, a lane eight neighbours of each: three words, which pass through shared memory
// so that a warp stores and loads words that follow one another. Packed words lie at multiples of four bytes, H at
// multiples of 16.

#include "kernels/sm90/moe/quantize/keep.h"

#include <limits>

#include "kernels/sm90/layer/steps/values.cuh"
#include "kernels/sm90/moe/quantize/e5m6.cuh"
#include "kernels/sm90/moe/quantize/rounding.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kRows = 4;                  // of a warp
constexpr int kColumns = 32 * kEach;      // of a warp
constexpr int kWords = kColumns / 8 * 3;  // of a warp's row
constexpr int kLanesOfBlock = 128 / kEach;
constexpr std::uint32_t kNanHalf = 0x7E00;  // E5M6's NaN, 0x7E0

using WarpWords = std::uint32_t[kRows][kWords];

// What a lane has: its first row, how many of them there are, its column, and how many words its warp has of a row.
struct LanePlace {
  std::int64_t row;
  int rows;
  std::int64_t col;
  int words;
};
__device__ __forceinline__ LanePlace lane_place(std::int64_t rows, std::int64_t cols, unsigned chunks) {
  const unsigned group = blockIdx.x / chunks;
  const std::int64_t chunk = blockIdx.x - group * chunks;
  const std::int64_t row = (std::int64_t{group} * kWarps + threadIdx.x / 32) * kRows;
  const std::int64_t left = min(cols - chunk * kColumns, std::int64_t{kColumns});
  return {row, static_cast<int>(min(rows - row, std::int64_t{kRows})), chunk * kColumns + threadIdx.x % 32 * kEach,
          static_cast<int>(left) / 8 * 3};
}
// The words of a warp's first row; a row has 3 for each 8 columns.
__device__ __forceinline__ std::int64_t first_word(const LanePlace& at, std::int64_t cols) {
  return at.row * (cols / 8 * 3) + (at.col / kColumns) * kWords;
}

__device__ __forceinline__ bool refused(const PlanHeader* header) {
  return header != nullptr && header->status != MXCHECK_OK;
}

__device__ __forceinline__ std::uint32_t to_halves(float low, float high) {
  std::uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
__device__ __forceinline__ float2 of_halves(std::uint32_t halves) {
  float2 v;
  asm("{.reg .f16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
      : "=f"(v.x), "=f"(v.y)
      : "r"(halves));
  return v;
}

// Codes as halves. The quotient of a rounded value is a code's value, and so exact in FP32 and as a half.
__device__ __forceinline__ std::uint32_t two_codes(const Rounding& rule, std::uint32_t two, std::uint32_t lowest,
                                                   float factor) {
  const std::uint32_t rounded = rounded2<false>(rule, two, lowest);
  return to_halves(__fmul_rn(low_half(rounded), factor), __fmul_rn(high_half(rounded), factor));
}
__device__ __noinline__ std::uint32_t two_exact_codes(const Rounding& rule, std::uint32_t two, std::uint32_t byte) {
  if (byte == 255) return twice(kNanHalf);
  return to_halves(exact_value(rule, two & 0xFFFF, byte), exact_value(rule, two >> 16, byte));
}

struct BlockCode {
  std::uint32_t amax;  // these two twice
  std::uint32_t lowest;
  std::uint32_t byte;
};
__device__ __forceinline__ void encode_row(const Rounding& rule, const uint4& v, const BlockCode& block,
                                           std::uint32_t (&words)[3]) {
  const std::uint32_t in[4] = {v.x, v.y, v.z, v.w};
  std::uint32_t halves[4];
  if (not_ordinary(rule, block.amax) == 0) {
    const float factor = power_of(254 - block.byte);
#pragma unroll
    for (int i = 0; i < 4; ++i) halves[i] = two_codes(rule, in[i], block.lowest, factor);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) halves[i] = two_exact_codes(rule, in[i], block.byte);
  }
  pack_e5m6(halves, words);
}

__global__ void __launch_bounds__(kThreads, 4)
    keep(const __grid_constant__ KeepJob job, const __grid_constant__ Rounding rule, unsigned chunks) {
  __shared__ WarpWords shared[kWarps];
  if (refused(job.header)) return;
  const LanePlace at = lane_place(job.rows, job.cols, chunks);
  const bool inside = at.col < job.cols;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  WarpWords& mine = shared[threadIdx.x / 32];
  const std::uint16_t* const h = job.h + at.row * job.cols + at.col;
  uint4 v[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    v[i] = inside && i < at.rows ? __ldg(reinterpret_cast<const uint4*>(h + i * job.cols)) : uint4{};
  }
  const std::int64_t blocks = (job.cols + 127) / 128;
  std::uint8_t* const scale = job.scales + at.row * blocks + at.col / 128;
#pragma unroll
  for (int i = 0; i < kRows; i += 2) {
    const std::uint32_t first = amax_of(v[i]) & 0x7FFF7FFF;
    const std::uint32_t second = amax_of(v[i + 1]) & 0x7FFF7FFF;
    std::uint32_t amax = larger2(__byte_perm(first, second, 0x5410), __byte_perm(first, second, 0x7632));
#pragma unroll
    for (int mask = 1; mask < kLanesOfBlock; mask *= 2) amax = larger2(amax, __shfl_xor_sync(kAllLanes, amax, mask));
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const std::uint32_t of = __byte_perm(amax, amax, k == 0 ? 0x1010 : 0x3232);
      const std::uint32_t byte = exact_byte(rule, of & 0xFFFF);
      std::uint32_t words[3];
      encode_row(rule, v[i + k], {of, lowest_steps(rule, of), byte}, words);
#pragma unroll
      for (int j = 0; j < 3; ++j) mine[i + k][lane * 3 + j] = words[j];
      if (lane % kLanesOfBlock == 0 && inside && i + k < at.rows) {
        scale[(i + k) * blocks] = static_cast<std::uint8_t>(byte);
      }
    }
  }
  __syncwarp();
  std::uint32_t* const to = reinterpret_cast<std::uint32_t*>(job.packed) + first_word(at, job.cols);
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = lane; j < kWords; j += 32) {
      if (i < at.rows && j < at.words) to[i * (job.cols / 8 * 3) + j] = mine[i][j];
    }
  }
}

__device__ __forceinline__ uint4 decode_row(const std::uint32_t* row, float scale) {
  const std::uint32_t words[3] = {row[0], row[1], row[2]};
  std::uint32_t halves[4];
  unpack_e5m6(words, halves);
  std::uint32_t out[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 v = of_halves(halves[i]);
    out[i] = to_bf16x2(__fmul_rn(v.x, scale), __fmul_rn(v.y, scale));  // exact products, 2^-147 and up
  }
  return make_uint4(out[0], out[1], out[2], out[3]);
}

__global__ void __launch_bounds__(kThreads, 4) restore(const __grid_constant__ RestoreJob job, unsigned chunks) {
  __shared__ WarpWords shared[kWarps];
  if (refused(job.header)) return;
  const LanePlace at = lane_place(job.rows, job.cols, chunks);
  const bool inside = at.col < job.cols;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  WarpWords& mine = shared[threadIdx.x / 32];
  const std::uint32_t* const from = reinterpret_cast<const std::uint32_t*>(job.packed) + first_word(at, job.cols);
  const std::int64_t blocks = (job.cols + 127) / 128;
  const std::uint8_t* const scale = job.scales + at.row * blocks + at.col / 128;
  std::uint32_t words[kRows][kWords / 32];
  std::uint32_t bytes[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kWords / 32; ++j) {
      const bool there = i < at.rows && j * 32 + lane < at.words;
      words[i][j] = there ? __ldg(from + i * (job.cols / 8 * 3) + j * 32 + lane) : 0;
    }
    bytes[i] = inside && i < at.rows ? __ldg(scale + i * blocks) : 0;
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kWords / 32; ++j) mine[i][j * 32 + lane] = words[i][j];
  }
  __syncwarp();
  std::uint16_t* const h = job.h + at.row * job.cols + at.col;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const uint4 v = decode_row(mine[i] + lane * 3, value_of(bytes[i]));
    if (inside && i < at.rows) store_16(h + i * job.cols, v);
  }
}

constexpr std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

// Blocks of threads, and how many are beside each other; none where there are too many.
struct Grid {
  std::int64_t blocks;
  std::int64_t chunks;
  [[nodiscard]] bool fits() const { return blocks <= std::numeric_limits<std::int32_t>::max(); }
};
Grid grid_of(std::int64_t rows, std::int64_t cols) {
  const std::int64_t chunks = divide_up(cols, kColumns);
  return {divide_up(rows, kWarps * kRows) * chunks, chunks};
}

}  // namespace

cudaError_t launch_keep(const KeepJob& job, cudaStream_t stream) {
  const Grid grid = grid_of(job.rows, job.cols);
  if (grid.blocks == 0) return cudaSuccess;
  if (!grid.fits()) return cudaErrorInvalidValue;
  keep<<<static_cast<unsigned>(grid.blocks), kThreads, 0, stream>>>(job, rounding_of(kRoundE5m6, true, false),
                                                                    static_cast<unsigned>(grid.chunks));
  return cudaGetLastError();
}

cudaError_t launch_restore(const RestoreJob& job, cudaStream_t stream) {
  const Grid grid = grid_of(job.rows, job.cols);
  if (grid.blocks == 0) return cudaSuccess;
  if (!grid.fits()) return cudaErrorInvalidValue;
  restore<<<static_cast<unsigned>(grid.blocks), kThreads, 0, stream>>>(job, static_cast<unsigned>(grid.chunks));
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
