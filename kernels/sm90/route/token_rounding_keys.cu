// Scores of every pair, by expert: a tile of tokens is computed row by row, one warp a row, and leaves through shared
// memory as columns.

#include <cstdint>

#include "kernels/sm90/route/block_sum.cuh"
#include "kernels/sm90/route/router_math.cuh"
#include "kernels/sm90/route/token_rounding_call.h"

namespace mxcheck_kernels::sm90 {
namespace {

// ---- The scores of a row of logits, by one warp, to shared memory ----

constexpr int kOfLane = 8;            // neighbouring experts of a lane
constexpr int kChunk = 32 * kOfLane;  // experts of a warp at a time
static_assert(kMostExperts <= 32 * kChunk, "a lane holds the sum of one chunk");

// Where an expert's score lies within its token's: a word is skipped after every 32, so that lanes that hold 8
// neighbours each store to different banks.
__host__ __device__ constexpr int place_of(int expert) { return expert + expert / 32; }

// Odd, so that one expert's scores of 32 tokens lie in different banks.
__host__ __device__ constexpr int pitch_of(int experts) { return place_of(experts) | 1; }

__device__ __forceinline__ float widened(std::uint32_t bf16) { return __uint_as_float(bf16 << 16U); }

template <bool kBf16>
struct Row {
  const void* first;
  int experts;
  bool aligned;  // to 16 bytes

  // Experts e to e + 7; NaN, which has score +0 and is no maximum, past the last.
  __device__ __forceinline__ void load(int e, float (&x)[kOfLane]) const {
    const bool whole = aligned && e + kOfLane <= experts;
    if constexpr (kBf16) {
      const auto* at = static_cast<const std::uint16_t*>(first) + e;
      if (whole) {
        const uint4 v = __ldg(reinterpret_cast<const uint4*>(at));
        const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          x[2 * i] = widened(words[i]);
          x[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000U);
        }
        return;
      }
#pragma unroll
      for (int i = 0; i < kOfLane; ++i) x[i] = e + i < experts ? widened(__ldg(at + i)) : __uint_as_float(0x7FC00000U);
    } else {
      const auto* at = static_cast<const float*>(first) + e;
      if (whole) {
        const float4 a = __ldg(reinterpret_cast<const float4*>(at));
        const float4 b = __ldg(reinterpret_cast<const float4*>(at) + 1);
        x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w, x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
        return;
      }
#pragma unroll
      for (int i = 0; i < kOfLane; ++i) x[i] = e + i < experts ? __ldg(at + i) : __uint_as_float(0x7FC00000U);
    }
  }
};

template <TokenRoundingScore kScore>
__device__ __forceinline__ float element_score(float x) {
  return kScore == TokenRoundingScore::sigmoid ? sigmoid(x) : sqrtsoftplus(x);
}

// Stores the scores that a lane holds of a row to shared memory.
__device__ __forceinline__ void put(std::uint32_t* scores, int first, int experts, const float (&x)[kOfLane]) {
  std::uint32_t* at = scores + place_of(first);  // of neighbours no word is left out
  const bool whole = first + kOfLane <= experts;
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) {
    if (whole || first + i < experts) at[i] = __float_as_uint(x[i]);
  }
}

// x / sum for x in [0, 1] and sum in [1, kMostExperts], rounded to nearest: the reciprocal is one for a whole row.
// `near` is within 2 units in the last place, one correction leaves less than one, and from there the second gives the
// correctly rounded quotient: the remainder is exact and the reciprocal is the correctly rounded one (Markstein). A
// remainder is a multiple of 2^-47 times the power of two in x, so none is lost for x from 2^-100 on; 0 stays 0.
__device__ __forceinline__ void divide(float (&x)[kOfLane], float sum) {
  const float inverse = __frcp_rn(sum);
  constexpr std::uint32_t kSmall = 27U << 23U;  // bits of 2^-100
  std::uint32_t least = ~0U;
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) least = min(least, __float_as_uint(x[i]) - 1);  // 0 is the largest then
  if (least < kSmall - 1) {
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) x[i] = __fdiv_rn(x[i], sum);
    return;
  }
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) {
    const float near = __fmul_rn(x[i], inverse);
    const float nearer = __fmaf_rn(__fmaf_rn(-sum, near, x[i]), inverse, near);
    x[i] = __fmaf_rn(__fmaf_rn(-sum, nearer, x[i]), inverse, nearer);
  }
}

// The softmax of a row to `scores`. kOne: one chunk, which stays in registers.
template <bool kBf16, bool kOne>
__device__ __forceinline__ void softmax_of(const Row<kBf16>& row, std::uint32_t* scores) {
  const int lane = lane_of_thread();
  const int own = lane * kOfLane;
  float x[kOfLane];
  float m = -INFINITY;
  for (int chunk = 0; chunk < row.experts; chunk += kChunk) {
    row.load(chunk + own, x);
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) m = fmaxf(m, x[i]);
    if constexpr (kOne) break;
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) m = fmaxf(m, __shfl_xor_sync(kAllLanes, m, step));

  // Neighbours within a lane, then lanes, then chunks; what is missing up to a power of two is +0.
  float total = 0;
  for (int chunk = 0; chunk < row.experts; chunk += kChunk) {
    if constexpr (!kOne) row.load(chunk + own, x);
    float sums[kOfLane];
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) sums[i] = x[i] = exp_rn(x[i] == m ? 0.0F : __fsub_rn(x[i], m));  // +0 for NaN
#pragma unroll
    for (int width = 1; width < kOfLane; width *= 2) {
#pragma unroll
      for (int i = 0; i < kOfLane; i += 2 * width) sums[i] = __fadd_rn(sums[i], sums[i + width]);
    }
    float sum = sums[0];
#pragma unroll
    for (int step = 1; step < 32; step *= 2) sum = __fadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, step));
    if (kOne || lane == chunk / kChunk) total = sum;
    if constexpr (kOne) break;
    put(scores, chunk + own, row.experts, x);
  }
  if constexpr (!kOne) {
#pragma unroll
    for (int step = 1; step < 32; step *= 2) total = __fadd_rn(total, __shfl_xor_sync(kAllLanes, total, step));
  }
  if (total == 0) total = 1;  // a row of NaN alone: all are +0
  for (int first = own; first < row.experts; first += kChunk) {
    if constexpr (!kOne) {
      const std::uint32_t* at = scores + place_of(first);
#pragma unroll
      for (int i = 0; i < kOfLane; ++i) x[i] = first + i < row.experts ? __uint_as_float(at[i]) : 0.0F;
    }
    divide(x, total);
    put(scores, first, row.experts, x);
    if constexpr (kOne) break;
  }
}

template <bool kBf16, TokenRoundingScore kScore, bool kOne>
__device__ __forceinline__ void scores_of(const Row<kBf16>& row, std::uint32_t* scores) {
  if constexpr (kScore == TokenRoundingScore::softmax) {
    softmax_of<kBf16, kOne>(row, scores);
  } else {
    for (int e = lane_of_thread() * kOfLane; e < row.experts; e += kChunk) {
      float x[kOfLane];
      row.load(e, x);
#pragma unroll
      for (int i = 0; i < kOfLane; ++i) x[i] = element_score<kScore>(x[i]);
      put(scores, e, row.experts, x);
    }
  }
}

// ---- A tile of keys ----

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

constexpr std::size_t shared_bytes(int experts) {
  return (static_cast<std::size_t>(pitch_of(experts) << key_tile_shift(experts)) + static_cast<std::size_t>(experts)) *
         4;
}
static_assert(shared_bytes(kMostExperts) <= 227 * 1024);

// A tile from shared memory to keys: a thread takes 4 neighbouring tokens of an expert, which lie in different banks
// because the pitch is odd.
__device__ __forceinline__ void store_tile(const TokenRoundingJob& job, const std::uint32_t* scores, int pitch,
                                           int shift) {
  const int experts = job.router.experts;
  const int fours = 1 << (shift - 2);  // of an expert
  const int r = (static_cast<int>(threadIdx.x) & (fours - 1)) * 4;
  const int step = kThreads >> (shift - 2);  // a multiple of 32
  int e = static_cast<int>(threadIdx.x) >> (shift - 2);
  int of_warp = warp_of_thread() * 32 >> (shift - 2);
  const std::int64_t tiles = job.padded_tokens >> shift;
  const std::uint32_t* from = scores + r * pitch + place_of(e);
  std::uint32_t* to = job.keys + e * job.padded_tokens + (std::int64_t{blockIdx.x} << shift) + r;
  std::int32_t* most_to = job.most + e * tiles + blockIdx.x;
#pragma unroll 2
  for (; of_warp < experts; of_warp += step) {
    std::int32_t most = -1;
    if (e < experts) {
      const uint4 keys = make_uint4(from[0], from[pitch], from[2 * pitch], from[3 * pitch]);
      __stcg(reinterpret_cast<uint4*>(to), keys);
      // Read as signed numbers, those that are marked are smaller than all others.
      most = max(max(static_cast<std::int32_t>(keys.x), static_cast<std::int32_t>(keys.y)),
                 max(static_cast<std::int32_t>(keys.z), static_cast<std::int32_t>(keys.w)));
    }
#pragma unroll
    for (int other = 1; other < 8; other *= 2) {
      if (other < fours) most = max(most, __shfl_xor_sync(kAllLanes, most, other));
    }
    if (r == 0 && e < experts) *most_to = most;
    e += step, from += place_of(step), to += step * job.padded_tokens, most_to += step * tiles;
  }
}

// kOne: no more experts than one chunk.
template <bool kBf16, TokenRoundingScore kScore, bool kOne>
__global__ void __launch_bounds__(kThreads, 4) keys_kernel(const __grid_constant__ TokenRoundingJob job) {
  extern __shared__ std::uint32_t shared[];
  if (stopped(job.router.stop)) return;
  const int experts = job.router.experts;
  const int top_k = job.router.top_k;
  const int shift = kOne ? key_tile_shift(kChunk) : key_tile_shift(experts);
  const int pitch = pitch_of(experts);
  std::uint32_t* chose = shared + (pitch << shift);  // of an expert, a bit per token of the tile
  const std::int64_t first = std::int64_t{blockIdx.x} << shift;
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += kThreads) chose[e] = 0;
  __syncthreads();

  const int size = kBf16 ? 2 : 4;
  const int lane = lane_of_thread();
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(job.router.logits) % 16 == 0 && job.router.stride * size % 16 == 0;
  for (int r = warp_of_thread(); r < 1 << shift; r += kWarps) {
    const std::int64_t token = first + r;
    std::uint32_t* scores = shared + r * pitch;
    if (token >= job.router.tokens) {
      for (int e = lane; e < experts; e += 32) scores[place_of(e)] = 0;
      continue;
    }
    const std::int32_t* slots = job.slot_expert + token * top_k;
    std::int32_t slot = lane < top_k ? slots[lane] : 0;  // under way while the scores are computed
    if constexpr (kScore != TokenRoundingScore::none) {
      const Row<kBf16> row{static_cast<const char*>(job.router.logits) + token * job.router.stride * size, experts,
                           aligned};
      scores_of<kBf16, kScore, kOne>(row, scores);
      __syncwarp();
    }
    for (int k = lane; k < top_k; k += 32) {
      if (k != lane) slot = slots[k];
      if constexpr (kScore != TokenRoundingScore::none) scores[place_of(slot)] |= kChose;
      atomicOr(&chose[slot], 1U << r);
    }
  }
  __syncthreads();

  if constexpr (kScore != TokenRoundingScore::none) store_tile(job, shared, pitch, shift);
  // A tile of 8 or 16 tokens is one or two bytes of the word; the lowest bits come first.
  const std::int64_t pitch_of_bits = job.padded_tokens / 8;
  auto* to = reinterpret_cast<std::uint8_t*>(job.chose) + (first / 8);
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += kThreads) {
    const std::uint32_t bits = chose[e];
    std::uint8_t* at = to + e * pitch_of_bits;
    if (shift == 5) {
      *reinterpret_cast<std::uint32_t*>(at) = bits;
    } else if (shift == 4) {
      *reinterpret_cast<std::uint16_t*>(at) = static_cast<std::uint16_t>(bits);
    } else {
      *at = static_cast<std::uint8_t>(bits);
    }
    if (bits != 0) atomicAdd(&job.count[e], static_cast<std::uint32_t>(__popc(bits)));
  }
}

template <bool kBf16, TokenRoundingScore kScore, bool kOne = false>
cudaError_t launch(const TokenRoundingJob& job, cudaStream_t stream) {
  const std::size_t bytes = shared_bytes(job.router.experts);
  const cudaError_t e = cudaFuncSetAttribute(keys_kernel<kBf16, kScore, kOne>,
                                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (e != cudaSuccess) return e;
  const auto blocks = static_cast<unsigned>(job.padded_tokens >> key_tile_shift(job.router.experts));
  keys_kernel<kBf16, kScore, kOne><<<blocks, kThreads, bytes, stream>>>(job);
  return cudaGetLastError();
}

template <bool kBf16>
cudaError_t launch_score(const TokenRoundingJob& job, cudaStream_t stream) {
  switch (job.score) {
    case TokenRoundingScore::softmax:
      if (job.router.experts <= kChunk) return launch<kBf16, TokenRoundingScore::softmax, true>(job, stream);
      return launch<kBf16, TokenRoundingScore::softmax>(job, stream);
    case TokenRoundingScore::sigmoid: return launch<kBf16, TokenRoundingScore::sigmoid>(job, stream);
    case TokenRoundingScore::sqrtsoftplus: return launch<kBf16, TokenRoundingScore::sqrtsoftplus>(job, stream);
    default: return launch<true, TokenRoundingScore::none>(job, stream);
  }
}

}  // namespace

cudaError_t launch_token_rounding_keys(const TokenRoundingJob& job, cudaStream_t stream) {
  if (job.router.tokens == 0) return cudaSuccess;
  return job.router.type == Logits::bf16 ? launch_score<true>(job, stream) : launch_score<false>(job, stream);
}

}  // namespace mxcheck_kernels::sm90
