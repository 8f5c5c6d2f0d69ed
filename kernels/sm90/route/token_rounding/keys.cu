// Scores of every pair, by expert: a tile of tokens is computed row by row, one warp a row, and leaves through shared
// memory as columns.

#include "kernels/sm90/route/row/block.cuh"
#include "kernels/sm90/route/token_rounding/job.h"
#include "kernels/sm90/route/token_rounding/scores.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

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
      // As signed numbers those that are marked are smaller than all others.
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
