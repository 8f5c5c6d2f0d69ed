// H to E5M6. Packed words lie at multiples of four bytes, H at multiples of 16.

#include "kernels/sm90/moe/quantize/keep.h"

#include "kernels/sm90/moe/quantize/keep.cuh"
#include "kernels/sm90/moe/quantize/rounding.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kLanesOfBlock = 128 / kEach;
constexpr std::uint32_t kNanHalf = 0x7E00;  // E5M6's NaN, 0x7E0

__device__ __forceinline__ std::uint32_t to_halves(float low, float high) {
  std::uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
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

__global__ void __launch_bounds__(kKeepThreads, 4)
    keep(const __grid_constant__ KeepJob job, const __grid_constant__ Rounding rule, unsigned chunks) {
  __shared__ KeepWords shared[kKeepWarps];
  if (refused(job.header)) return;
  const KeepPlace at = keep_place(job.rows, job.cols, chunks);
  const bool inside = at.col < job.cols;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  KeepWords& mine = shared[threadIdx.x / 32];
  const std::uint16_t* const h = job.h + at.row * job.cols + at.col;
  uint4 v[kKeepRows];
#pragma unroll
  for (int i = 0; i < kKeepRows; ++i) {
    v[i] = inside && i < at.rows ? __ldg(reinterpret_cast<const uint4*>(h + i * job.cols)) : uint4{};
  }
  const std::int64_t blocks = (job.cols + 127) / 128;
  std::uint8_t* const scale = job.scales + at.row * blocks + at.col / 128;
#pragma unroll
  for (int i = 0; i < kKeepRows; i += 2) {
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
  for (int i = 0; i < kKeepRows; ++i) {
#pragma unroll
    for (int j = lane; j < kKeepWords; j += 32) {
      if (i < at.rows && j < at.words) to[i * (job.cols / 8 * 3) + j] = mine[i][j];
    }
  }
}

}  // namespace

cudaError_t launch_keep(const KeepJob& job, cudaStream_t stream) {
  const KeepGrid grid = keep_grid(job.rows, job.cols);
  if (grid.blocks == 0) return cudaSuccess;
  if (!grid.fits()) return cudaErrorInvalidValue;
  keep<<<static_cast<unsigned>(grid.blocks), kKeepThreads, 0, stream>>>(job, rounding_of(kRoundE5m6, true, false),
                                                                        static_cast<unsigned>(grid.chunks));
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
