// Codes with scales of 1 x 32 to BF16, in memory.

#include "kernels/sm90/gemm/matmul.h"

#include <algorithm>

#include "kernels/sm90/common/element.cuh"
#include "kernels/sm90/ptx/arithmetic.cuh"
#include "kernels/sm90/ptx/ptx.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kDecodeThreads = 256;
constexpr int kEach = 4;  // words of 8 codes a thread
constexpr int kBlockWords = kDecodeThreads * kEach;

__device__ __forceinline__ std::uint32_t two_bf16(float2 v) { return ptx::cvt_rn_bf16x2_f32(v.x, v.y); }

// FP32 holds code * scale exactly, down to 2^-143, but for what is Inf in BF16 as well: one rounding.
template <Element kElement>
__device__ __forceinline__ uint4 decode8(uint2 codes, float scale) {
  const auto pair = [scale](std::uint32_t two) {
    const float2 v = decode2<kElement>(two & 0xFFFF);
    return two_bf16(make_float2(__fmul_rn(v.x, scale), __fmul_rn(v.y, scale)));
  };
  return make_uint4(pair(codes.x), pair(codes.x >> 16), pair(codes.y), pair(codes.y >> 16));
}

template <Element kElement>
__device__ __forceinline__ void decode_words(const DecodeOperand& x, std::int64_t first) {
  const std::int64_t words = x.elements / 8;
  uint2 codes[kEach];
  std::uint32_t scale[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const std::int64_t at = first + i * kDecodeThreads;
    if (at < words) {
      codes[i] = __ldcs(reinterpret_cast<const uint2*>(x.codes) + at);
      scale[i] = __ldg(x.scales + at / 4);
    }
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const std::int64_t at = first + i * kDecodeThreads;
    if (at >= words) continue;
    const uint4 v = decode8<kElement>(codes[i], value_of(scale[i]));
    if (x.paired) {
      uint2* const to = reinterpret_cast<uint2*>(x.values) + at / 2 * 4 + at % 2;
      to[0] = make_uint2(v.x, v.z);
      to[2] = make_uint2(v.y, v.w);
    } else {
      reinterpret_cast<uint4*>(x.values)[at] = v;
    }
  }
}

// The launch runs under the end of the kernel before, and the GEMM's under this one's: the GEMM waits for this kernel's
// end, and so for that of the one before.
__device__ __forceinline__ void begin() {
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
}

__global__ void __launch_bounds__(kDecodeThreads) decode(const __grid_constant__ DecodeJob job) {
  begin();
  if (job.status != nullptr && *job.status != 0) return;
  const DecodeOperand& x = job.operands[blockIdx.y];
  const std::int64_t words = x.elements / 8;
  const std::int64_t stride = std::int64_t{gridDim.x} * kBlockWords;
  for (std::int64_t at = std::int64_t{blockIdx.x} * kBlockWords; at < words; at += stride) {
    if (x.format == Element::e4m3) {
      decode_words<Element::e4m3>(x, at + threadIdx.x);
    } else {
      decode_words<Element::e5m2>(x, at + threadIdx.x);
    }
  }
}

// The group that has this column: the last that begins at or before it and is not empty.
__device__ __forceinline__ std::int64_t group_of(const DecodeJob& job, std::int64_t column) {
  std::int64_t low = 0;
  std::int64_t high = job.experts;
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (job.offsets[middle] <= column ? low : high) = middle;
  }
  return low;
}

// An element a thread: for groups that end within a block.
__global__ void __launch_bounds__(kDecodeThreads) decode_groups(const __grid_constant__ DecodeJob job) {
  begin();
  if (job.status != nullptr && *job.status != 0) return;
  const DecodeOperand& x = job.operands[blockIdx.y];
  const std::int64_t stride = std::int64_t{gridDim.x} * kDecodeThreads;
  const std::int64_t end = job.offsets[job.experts];
  for (std::int64_t i = std::int64_t{blockIdx.x} * kDecodeThreads + threadIdx.x; i < x.elements; i += stride) {
    const std::int64_t column = i % job.pitch;
    std::uint32_t word = 0;
    if (column < end) {
      const std::int64_t group = group_of(job, column);
      const std::int64_t scale = job.starts[group] + (column - job.offsets[group]) / 32;
      const float by = value_of(x.scales[i / job.pitch * job.scale_columns + scale]);
      const float2 v =
          x.format == Element::e4m3 ? decode2<Element::e4m3>(x.codes[i]) : decode2<Element::e5m2>(x.codes[i]);
      word = two_bf16(make_float2(__fmul_rn(v.x, by), 0));
    }
    x.values[i] = static_cast<std::uint16_t>(word);
  }
}

}  // namespace

cudaError_t launch_decode(const DecodeJob& job, cudaStream_t stream) {
  const std::int64_t most = std::max(job.operands[0].elements, job.operands[1].elements) / 8;
  if (most == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((most + kBlockWords - 1) / kBlockWords, 1 << 20));
  const unsigned operands = job.operands[1].elements > 0 ? 2 : 1;
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks, operands);
  config.blockDim = dim3(kDecodeThreads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, job.offsets != nullptr ? decode_groups : decode, job);
}

}  // namespace mxcheck_kernels::sm90
