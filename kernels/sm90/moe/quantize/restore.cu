// H from E5M6. A code times its scale is exact in FP32, 2^-147 and up, or Inf, and is rounded once to BF16.

#include "kernels/sm90/moe/quantize/keep.cuh"
#include "kernels/sm90/moe/quantize/keep.h"

namespace mxcheck_kernels::sm90 {
namespace {

__device__ __forceinline__ float2 of_halves(std::uint32_t halves) {
  float2 v;
  asm("{.reg .f16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
      : "=f"(v.x), "=f"(v.y)
      : "r"(halves));
  return v;
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

__global__ void __launch_bounds__(kKeepThreads, 4) restore(const __grid_constant__ RestoreJob job, unsigned chunks) {
  __shared__ KeepWords shared[kKeepWarps];
  if (refused(job.header)) return;
  const KeepPlace at = keep_place(job.rows, job.cols, chunks);
  const bool inside = at.col < job.cols;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  KeepWords& mine = shared[threadIdx.x / 32];
  const std::uint32_t* const from = reinterpret_cast<const std::uint32_t*>(job.packed) + first_word(at, job.cols);
  const std::int64_t blocks = (job.cols + 127) / 128;
  const std::uint8_t* const scale = job.scales + at.row * blocks + at.col / 128;
  std::uint32_t words[kKeepRows][kKeepWords / 32];
  std::uint32_t bytes[kKeepRows];
#pragma unroll
  for (int i = 0; i < kKeepRows; ++i) {
#pragma unroll
    for (int j = 0; j < kKeepWords / 32; ++j) {
      const bool there = i < at.rows && j * 32 + lane < at.words;
      words[i][j] = there ? __ldg(from + i * (job.cols / 8 * 3) + j * 32 + lane) : 0;
    }
    bytes[i] = inside && i < at.rows ? __ldg(scale + i * blocks) : 0;
  }
#pragma unroll
  for (int i = 0; i < kKeepRows; ++i) {
#pragma unroll
    for (int j = 0; j < kKeepWords / 32; ++j) mine[i][j * 32 + lane] = words[i][j];
  }
  __syncwarp();
  std::uint16_t* const h = job.h + at.row * job.cols + at.col;
#pragma unroll
  for (int i = 0; i < kKeepRows; ++i) {
    const uint4 v = decode_row(mine[i] + lane * 3, value_of(bytes[i]));
    if (inside && i < at.rows) store_16(h + i * job.cols, v);
  }
}

}  // namespace

cudaError_t launch_restore(const RestoreJob& job, cudaStream_t stream) {
  const KeepGrid grid = keep_grid(job.rows, job.cols);
  if (grid.blocks == 0) return cudaSuccess;
  if (!grid.fits()) return cudaErrorInvalidValue;
  restore<<<static_cast<unsigned>(grid.blocks), kKeepThreads, 0, stream>>>(job, static_cast<unsigned>(grid.chunks));
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
