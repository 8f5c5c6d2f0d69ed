#pragma once
// The butterfly of a random Hadamard transform of 16, 32, 64 or 128. A thread has 16 consecutive elements of a group,
// and its neighbours the next ones: the first four stages are in a thread, the other three between lanes. Every sum and
// difference is rounded to FP32, a difference as the sum with what has the other sign.

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/common/nvfp4/options.h"
#include "kernels/sm90/nvfp4/nvfp4.h"
#include "kernels/sm90/nvfp4/tile.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kMostBlocksOfGroup = 8;

// The host's part of a transform, beside a kernel's other arguments.
struct Nvfp4Transform {
  int blocks = 0;  // of 16, in a group; 0: no transform
  float factor = 1;
  // The signs of each block. Shifted to the left by i their bits 31 and, of BF16, 15 are those of word i of the block.
  std::uint32_t signs[kMostBlocksOfGroup] = {};
};

// T: of x.
template <class T>
Nvfp4Transform transform_of(const Nvfp4OptionJob& options) {
  Nvfp4Transform transform;
  if (options.group == 0) return transform;
  transform.blocks = options.group / kElements, transform.factor = nvfp4_hadamard_factor(options.group);
  constexpr int kInWord = 4 / static_cast<int>(sizeof(T));
  for (int e = 0; e < options.group; ++e) {
    const int i = e % kElements;
    const int top = 32 / kInWord * (i % kInWord + 1) - 1;  // of the element, in its word
    transform.signs[e / kElements] |= (options.signs[e / 32] >> e % 32 & 1U) << (top - i / kInWord);
  }
  return transform;
}

// The signs of this thread's block.
__device__ __forceinline__ std::uint32_t signs_of_lane(const Nvfp4Transform& transform) {
  return transform.signs[threadIdx.x & static_cast<unsigned>(transform.blocks - 1)];
}

__device__ __forceinline__ void round_block(const float (&v)[kElements], Block<__nv_bfloat16>& to) {
#pragma unroll
  for (int i = 0; i < kElements / 2; ++i) {
    const __nv_bfloat162 two = __floats2bfloat162_rn(v[2 * i], v[2 * i + 1]);
    to.w[i] = static_cast<std::uint32_t>(__bfloat16_as_ushort(two.x)) |
              static_cast<std::uint32_t>(__bfloat16_as_ushort(two.y)) << 16;
  }
}
__device__ __forceinline__ void round_block(const float (&v)[kElements], Block<float>& to) {
#pragma unroll
  for (int i = 0; i < kElements; ++i) to.w[i] = __float_as_uint(v[i]);
}

// The block after the transform, by all lanes of a warp. To: the type whose values are quantized.
template <class To, class T>
__device__ __forceinline__ Block<To> transformed(Block<T> b, const Nvfp4Transform& transform, std::uint32_t signs) {
  constexpr std::uint32_t kTops = sizeof(T) == 2 ? 0x80008000U : 0x80000000U;
#pragma unroll
  for (int i = 0; i < Block<T>::kWords; ++i) b.w[i] ^= signs << i & kTops;
  float v[kElements];
#pragma unroll
  for (int i = 0; i < kElements; ++i) v[i] = element(b, i);
#pragma unroll
  for (int h = 1; h < kElements; h *= 2) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if ((i & h) != 0) continue;
      const float low = v[i];
      const float high = v[i + h];
      v[i] = __fadd_rn(low, high), v[i + h] = __fsub_rn(low, high);
    }
  }
#pragma unroll
  for (int h = 1; h < kMostBlocksOfGroup; h *= 2) {
    if (h >= transform.blocks) break;
    const float sign = (threadIdx.x & static_cast<unsigned>(h)) != 0 ? -1.0F : 1.0F;
#pragma unroll
    for (int i = 0; i < kElements; ++i) v[i] = __fmaf_rn(v[i], sign, __shfl_xor_sync(kAllLanes, v[i], h));
  }
#pragma unroll
  for (int i = 0; i < kElements; ++i) v[i] = __fmul_rn(v[i], transform.factor);
  Block<To> to;
  round_block(v, to);
  return to;
}

// A thread's four blocks: transformed, if that is asked, else as they are. To is T without a transform.
template <class To, class T>
__device__ __forceinline__ void transform_blocks(const Nvfp4Transform& transform, const Block<T> (&raw)[kRowsOfThread],
                                                 Block<To> (&x)[kRowsOfThread]) {
  if (transform.blocks != 0) {
    const std::uint32_t signs = signs_of_lane(transform);
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) x[r] = transformed<To>(raw[r], transform, signs);
  } else if constexpr (sizeof(To) == sizeof(T)) {
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) x[r] = raw[r];
  }
}

}  // namespace mxcheck_kernels::sm90
