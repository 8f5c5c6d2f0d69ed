// Codes with scales of 1 x 32, or of NVFP4 with scales of 1 x 16, to BF16, in memory.

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
template <class Job>
__device__ __forceinline__ std::int64_t group_of(const Job& job, std::int64_t column) {
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

// --- NVFP4 -----------------------------------------------------------------------------------------------------------

// E4M3's magnitude, at FP32's place, is scale * 2^-120; times 2^126, or 2^134, it is what a code's bits below, code *
// 2^-126, are multiplied by, in two exact products: 2^120 is the other factor.
__device__ __forceinline__ std::uint32_t nvfp4_scale(std::uint32_t byte, bool times_256) {
  const std::uint32_t magnitude = byte & 0x7F;
  const float value = __fmul_rn(__uint_as_float(magnitude << 20), 0x1p126F) * (times_256 ? 256.0F : 1.0F);
  return __byte_perm(magnitude == 0x7F ? 0x7FC00000 : __float_as_uint(value), 0, 0x3232);
}

// Two values: of the codes in bits 0 to 3 and 16 to 19.
__device__ __forceinline__ std::uint32_t nvfp4_two(std::uint32_t codes, std::uint32_t scale) {
  const std::uint32_t bits = (codes & 0x00080008) << 12 | (codes & 0x00070007) << 6;
  return ptx::mul_rn_bf16x2(ptx::mul_rn_bf16x2(bits, 0x7B807B80), scale);
}

// Eight codes a word, of rows without a gap.
__global__ void __launch_bounds__(kDecodeThreads) decode_nvfp4(const __grid_constant__ Nvfp4DecodeJob job) {
  begin();
  if (job.status != nullptr && *job.status != 0) return;
  const Nvfp4DecodeOperand& x = job.operands[blockIdx.y];
  const std::int64_t words = x.rows * job.k / 8;
  const std::int64_t stride = std::int64_t{gridDim.x} * kBlockWords;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kBlockWords + threadIdx.x; first < words; first += stride) {
    std::uint32_t codes[kEach];
    std::uint32_t scale[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const std::int64_t at = first + i * kDecodeThreads;
      if (at < words) {
        codes[i] = __ldcs(reinterpret_cast<const std::uint32_t*>(x.codes) + at);
        scale[i] = __ldg(x.scales + at / 2);
      }
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const std::int64_t at = first + i * kDecodeThreads;
      if (at >= words) continue;
      const std::uint32_t by = nvfp4_scale(scale[i], x.paired);
      std::uint32_t v[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::uint32_t two = x.paired ? codes[i] >> (j / 2 * 16 + j % 2 * 4) : codes[i] >> j * 8;
        v[j] = nvfp4_two(x.paired ? (two & 0xF) | (two & 0xF00) << 8 : (two & 0xF) | (two & 0xF0) << 12, by);
      }
      if (x.paired) {  // the first and the third of four, then the second and the fourth
        uint2* const to = reinterpret_cast<uint2*>(x.values) + at / 2 * 4 + at % 2;
        to[0] = make_uint2(v[0], v[2]);
        to[2] = make_uint2(v[1], v[3]);
      } else {
        reinterpret_cast<uint4*>(x.values)[at] = make_uint4(v[0], v[1], v[2], v[3]);
      }
    }
  }
}

// An element a thread: for rows that end within a block, and groups along them.
__global__ void __launch_bounds__(kDecodeThreads) decode_nvfp4_any(const __grid_constant__ Nvfp4DecodeJob job) {
  begin();
  if (job.status != nullptr && *job.status != 0) return;
  const Nvfp4DecodeOperand& x = job.operands[blockIdx.y];
  const std::int64_t stride = std::int64_t{gridDim.x} * kDecodeThreads;
  const std::int64_t end = job.offsets != nullptr ? job.offsets[job.experts] : job.k;
  const std::int64_t row_bytes = (job.k + 1) / 2;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kDecodeThreads + threadIdx.x; i < x.rows * job.pitch; i += stride) {
    const std::int64_t row = i / job.pitch;
    const std::int64_t column = i % job.pitch;
    std::uint32_t value = 0;
    if (column < end) {
      std::int64_t scale = column / 16;
      if (job.offsets != nullptr) {
        const std::int64_t group = group_of(job, column);
        scale = job.starts[group] + (column - job.offsets[group]) / 16;
      }
      const std::uint32_t code = x.codes[row * row_bytes + column / 2] >> column % 2 * 4 & 0xF;
      value = nvfp4_two(code, nvfp4_scale(x.scales[row * job.scale_columns + scale], false));
    }
    x.values[i] = static_cast<std::uint16_t>(value);
  }
}

// `kernel` for as many blocks as `units` need, `each` a block, and two operands or one.
template <class Job>
cudaError_t launch_early(void (*kernel)(Job), const Job& job, std::int64_t units, int each, bool two,
                         cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((units + each - 1) / each, 1 << 20));
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks, two ? 2 : 1);
  config.blockDim = dim3(kDecodeThreads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, job);
}

}  // namespace

cudaError_t launch_decode(const DecodeJob& job, cudaStream_t stream) {
  const std::int64_t most = std::max(job.operands[0].elements, job.operands[1].elements) / 8;
  if (most == 0) return cudaSuccess;
  return launch_early(job.offsets != nullptr ? decode_groups : decode, job, most, kBlockWords,
                      job.operands[1].elements > 0, stream);
}

cudaError_t launch_decode_nvfp4(const Nvfp4DecodeJob& job, cudaStream_t stream) {
  const std::int64_t most = std::max(job.operands[0].rows, job.operands[1].rows) * job.pitch;
  if (most == 0) return cudaSuccess;
  const bool any = job.offsets != nullptr || job.k % 16 != 0;
  return launch_early(any ? decode_nvfp4_any : decode_nvfp4, job, any ? most : most / 8,
                      any ? kDecodeThreads : kBlockWords, job.operands[1].rows > 0, stream);
}

}  // namespace mxcheck_kernels::sm90
