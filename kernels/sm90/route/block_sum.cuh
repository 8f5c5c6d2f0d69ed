#pragma once
// Sums within a warp and within a block of threads, of integers: the order makes no difference.

#include <cstdint>

#include <cuda_runtime.h>

namespace mxcheck_kernels::sm90 {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

__device__ __forceinline__ int lane_of_thread() { return static_cast<int>(threadIdx.x & 31U); }
__device__ __forceinline__ int warp_of_thread() { return static_cast<int>(threadIdx.x >> 5U); }

// True if an earlier kernel of the call reported an error; nothing is written then.
__device__ __forceinline__ bool stopped(const std::int32_t* stop) { return stop != nullptr && *stop != 0; }

// The sum over this and all lower lanes.
template <class T>
__device__ __forceinline__ T warp_prefix(T value) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const T below = __shfl_up_sync(kAllLanes, value, static_cast<unsigned>(step));
    if (lane_of_thread() >= step) value += below;
  }
  return value;
}

template <class T>
struct BlockSum {
  T before;  // over the threads before this one
  T all;
};

// The sum over kThreads threads, all of which call, and over those before this one; `part` is shared, [kThreads / 32].
// Ends with a barrier, so that part can be used again.
template <int kThreads, class T>
__device__ __forceinline__ BlockSum<T> block_prefix(T value, T* part) {
  static_assert(kThreads % 32 == 0 && kThreads <= 1024);
  const T to_here = warp_prefix(value);
  if (lane_of_thread() == 31) part[warp_of_thread()] = to_here;
  __syncthreads();
  BlockSum<T> sum{to_here - value, 0};
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) {
    const T of_warp = part[w];
    if (w < warp_of_thread()) sum.before += of_warp;
    sum.all += of_warp;
  }
  __syncthreads();
  return sum;
}

// Bit j of lane i goes to bit i of lane j.
__device__ __forceinline__ std::uint32_t transpose_bits(std::uint32_t row) {
  std::uint32_t low = 0x0000FFFFU;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const std::uint32_t other = __shfl_xor_sync(kAllLanes, row, step);
    row =
        (lane_of_thread() & step) != 0 ? ((other >> step) & low) | (row & ~low) : (row & low) | ((other & low) << step);
    low ^= low << (step / 2);
  }
  return row;
}

}  // namespace mxcheck_kernels::sm90
