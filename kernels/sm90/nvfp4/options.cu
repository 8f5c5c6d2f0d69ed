// NVFP4 quantization with stochastic rounding, a Hadamard transform of 16, or both, from one read of x.
//
// Layout: that of tile.cuh. The two threads of a block of 16 columns hold a group of the transform: three stages of its
// butterfly are within a thread, the fourth exchanges eight numbers with the neighbour. Compute: every element becomes
// a float, a result of BF16 rounded to its values, so that amax, scales and codes are computed from the same numbers as
// if the transformed matrix had been stored. Words: Philox of each element's number, ten rounds a word; quotients that
// are rounded by words are those of the recipe in FP32, of the exact one rounded once from doubles.

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/common/nvfp4/options.h"
#include "kernels/sm90/nvfp4/levels.cuh"
#include "kernels/sm90/nvfp4/nvfp4.h"
#include "kernels/sm90/nvfp4/tile.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

template <class T>
__device__ __forceinline__ Eight<float> floats_of(const Eight<T>& e) {
  Eight<float> f;
#pragma unroll
  for (int i = 0; i < kElements; ++i) f.w[i] = __float_as_uint(element(e, i));
  return f;
}

// The transform of the 16 elements that this thread and its neighbour hold, with the signs of this thread's eight in
// the lowest bits.
__device__ __forceinline__ void transform(Eight<float>& e, std::uint32_t signs, bool to_bf16) {
  float v[kElements];
#pragma unroll
  for (int i = 0; i < kElements; ++i) v[i] = __uint_as_float(e.w[i] ^ (signs >> i & 1U) << 31);
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
  const bool is_low = threadIdx.x % 2 == 0;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const float beside = __shfl_xor_sync(kAllLanes, v[i], 1);
    const float sum = is_low ? __fadd_rn(v[i], beside) : __fsub_rn(beside, v[i]);
    const float scaled = __fmul_rn(sum, 0.25F);
    e.w[i] = to_bf16 ? static_cast<std::uint32_t>(__bfloat16_as_ushort(__float2bfloat16_rn(scaled))) << 16
                     : __float_as_uint(scaled);
  }
}

template <bool kExact>
__device__ __forceinline__ std::uint32_t stochastic_code(const Nvfp4Outer& outer, const Nvfp4Scale& scale, float x,
                                                         std::uint32_t word) {
  if (isnan(x) || scale.byte == kE4m3Nan) return kE2m1Nan;
  float value = 0;
  if constexpr (kExact) {
    const double step = static_cast<double>(e4m3_value(scale.byte)) * static_cast<double>(outer.decode);
    value = scale.byte == 0 ? __fmul_rn(x, 0.0F) : __double2float_rn(__ddiv_rn(static_cast<double>(x), step));
  } else {
    value = __fmul_rn(x, scale.factor);
  }
  if (isnan(value)) return kE2m1Nan;
  const std::uint32_t bits = __float_as_uint(value);
  return nvfp4_stochastic_code(bits & kMagnitude, word) | (bits >> 28 & 8U);
}

// Codes, element i's in nibble i, as encode_eight() makes them to nearest; number: of the first element.
template <bool kExact>
__device__ __forceinline__ std::uint32_t encode_by_words(const Nvfp4Words& words, const Nvfp4Outer& outer,
                                                         const Nvfp4Scale& scale, const Eight<float>& e,
                                                         std::uint64_t number, int count) {
  std::uint32_t codes = 0;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    if (i >= count) continue;
    const std::uint32_t word = nvfp4_word(words, number + static_cast<std::uint64_t>(i));
    codes |= stochastic_code<kExact>(outer, scale, element(e, i), word) << (4 * i);
  }
  return codes;
}

template <class T, bool kSquare, bool kExact, bool kVector>
__global__ void __launch_bounds__(kThreads)
    nvfp4_option_kernel(const __grid_constant__ Nvfp4Job job, const __grid_constant__ Nvfp4OptionJob options) {
  // ---- layout
  const int across = static_cast<int>(threadIdx.x) % kAcross;
  const int group = static_cast<int>(threadIdx.x) / kAcross;
  const std::int64_t tile_row = static_cast<std::int64_t>(blockIdx.z) * kMostDown + blockIdx.y;
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * kTileCols + across * kElements;
  const std::int64_t first_row = tile_row * kTileRows + group * kRowsOfThread;

  // ---- load and transform
  Eight<float> x[kRowsOfThread];
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
    const std::int64_t row = first_row + r;
    x[r] = floats_of(row < job.rows
                         ? load_eight<T, kVector>(static_cast<const T*>(job.x) + row * job.stride, col, job.cols)
                         : Eight<T>{});
  }
  if (options.transforms) {
    const std::uint32_t signs = options.signs >> (across % 2 * kElements);
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) transform(x[r], signs, options.to_bf16);
  }
  const Nvfp4Recipe recipe = kExact ? Nvfp4Recipe::exact : job.recipe;
  const Nvfp4Outer outer = outer_of(recipe, __ldg(job.tensor_scale));

  // ---- reduce
  std::uint32_t amax[kRowsOfThread];
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
    amax[r] = largest(x[r]);
    if (!kExact && amax[r] > kInfinityBits) amax[r] = largest_number(x[r]);
  }
  Nvfp4Scale scales[kRowsOfThread];
  if constexpr (kSquare) {
    __shared__ std::uint32_t shared[kTileRows / kRowsOfThread][kTileBlocks];
    std::uint32_t bits = max(max(amax[0], amax[1]), max(amax[2], amax[3]));
    bits = max(bits, __shfl_xor_sync(kAllLanes, bits, 1));
    bits = largest_of_rows(shared, group, across / 2, bits);
    scales[0] = scale_of(recipe, outer, __uint_as_float(bits));
    const bool mine = group == 0 && across % 2 == 0 && col < job.cols && first_row < job.rows;
    if (mine) job.scales[tile_row * divide_up(job.cols, 16) + col / 16] = static_cast<std::uint8_t>(scales[0].byte);
  } else {
    scales_of_rows(recipe, outer, amax, scales);
    store_scales(job, first_row, col, scales);
  }

  // ---- compute and store
  const int count = static_cast<int>(min(static_cast<std::int64_t>(kElements), job.cols - col));
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
    const std::int64_t row = first_row + r;
    if (row >= job.rows) continue;
    const Nvfp4Scale& scale = scales[kSquare ? 0 : r];
    const auto number = static_cast<std::uint64_t>(row * job.cols + col);
    const std::uint32_t codes = options.stochastic
                                    ? encode_by_words<kExact>(options.words, outer, scale, x[r], number, count)
                                    : encode_eight<kExact>(recipe, outer, scale, x[r], count);
    store_codes<kVector>(job, row, col, codes);
  }
}

template <class T, bool kSquare, bool kExact>
cudaError_t launch_options(const Nvfp4Job& job, const Nvfp4OptionJob& options, bool vector, cudaStream_t stream) {
  if (job.cols == 0 || job.rows == 0) return cudaSuccess;
  dim3 grid;
  if (!grid_of(job, grid)) return cudaErrorInvalidValue;
  if (vector) {
    nvfp4_option_kernel<T, kSquare, kExact, true><<<grid, kThreads, 0, stream>>>(job, options);
  } else {
    nvfp4_option_kernel<T, kSquare, kExact, false><<<grid, kThreads, 0, stream>>>(job, options);
  }
  return cudaGetLastError();
}

template <class T>
cudaError_t launch_options(const Nvfp4Job& job, const Nvfp4OptionJob& options, bool square, bool vector,
                           cudaStream_t stream) {
  const bool exact = job.recipe == Nvfp4Recipe::exact;
  if (square) {
    return exact ? launch_options<T, true, true>(job, options, vector, stream)
                 : launch_options<T, true, false>(job, options, vector, stream);
  }
  return exact ? launch_options<T, false, true>(job, options, vector, stream)
               : launch_options<T, false, false>(job, options, vector, stream);
}

}  // namespace

cudaError_t quantize_nvfp4_with_options(const Nvfp4Job& job, const Nvfp4OptionJob& options, int block_rows,
                                        Nvfp4Values values, bool vector, cudaStream_t stream) {
  const bool square = block_rows != 1;
  return values == Nvfp4Values::bf16 ? launch_options<__nv_bfloat16>(job, options, square, vector, stream)
                                     : launch_options<float>(job, options, square, vector, stream);
}

}  // namespace mxcheck_kernels::sm90
