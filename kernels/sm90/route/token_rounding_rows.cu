// Rows by expert and by token from the kept bits: one block of threads for 32 tokens. First the pairs, a warp per run
// of experts and a lane per token; then the weights, 8 lanes a token.

#include "kernels/sm90/route/block_sum.cuh"
#include "kernels/sm90/route/token_rounding_call.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kOfToken = 8;  // lanes
static_assert(32 * kOfToken == kThreads);

// The kept experts of one word of tokens, 32 at a time.
struct Group {
  std::uint32_t mine;  // of this lane's token, bit i for expert first + i
  std::uint32_t bits;  // of expert first + lane, by token
  std::int32_t row;    // of the first of these tokens that expert first + lane keeps

  __device__ __forceinline__ static Group read(const TokenRoundingJob& job, std::int64_t word, int first) {
    const int e = first + lane_of_thread();
    Group g{0, 0, 0};
    if (e < job.router.experts) {
      const KeptWord w = job.kept[word * job.router.experts + e];
      g.bits = w.bits;
      g.row = static_cast<std::int32_t>(job.offsets[e]) + static_cast<std::int32_t>(w.before);
    }
    g.mine = transpose_bits(g.bits);
    return g;
  }
};

// Rows, tokens and experts of the pairs of a group; `at` is where this lane's token goes on.
__device__ __forceinline__ void write_pairs(const TokenRoundingJob& job, Group g, int first, std::int64_t token,
                                            std::int64_t& at) {
  const std::uint32_t lower = (1U << lane_of_thread()) - 1;
  const unsigned steps = __reduce_max_sync(kAllLanes, static_cast<unsigned>(__popc(g.mine)));
  for (unsigned i = 0; i < steps; ++i) {
    const bool is = g.mine != 0;
    const int from = is ? __ffs(static_cast<int>(g.mine)) - 1 : 0;
    g.mine &= g.mine - 1;
    const std::uint32_t bits = __shfl_sync(kAllLanes, g.bits, from);
    const std::int32_t row = __shfl_sync(kAllLanes, g.row, from) + __popc(bits & lower);
    if (!is) continue;
    job.row_token[row] = static_cast<std::int32_t>(token);
    job.token_rows[at] = row;
    job.pair_expert[at++] = first + from;
  }
}

// The weight that token choice gave a pair, for the rule `none`.
__device__ __forceinline__ float own_weight(const TokenRoundingJob& job, std::int64_t token, int expert) {
  const std::int64_t slot = token * job.router.top_k;
  for (int k = 0; k < job.router.top_k; ++k) {
    if (job.slot_expert[slot + k] == expert) return job.slot_weight[slot + k];
  }
  return 0;
}

// Weights of `rows` pairs from `at` on, by the lanes of one token; other lanes of the warp have other tokens.
__device__ __forceinline__ void write_weights(const TokenRoundingJob& job, std::int64_t token, std::int64_t at,
                                              unsigned rows) {
  const int lane = lane_of_thread();
  const auto own = static_cast<unsigned>(lane % kOfToken);
  const bool given = job.rule == TokenRoundingRule::none;  // by token choice
  const unsigned most = __reduce_max_sync(kAllLanes, rows);
  const auto score_of = [&](unsigned i) {
    if (i >= rows) return 0.0F;
    const std::int32_t expert = job.pair_expert[at + i];
    if (given) return own_weight(job, token, expert);
    return __uint_as_float(job.keys[expert * job.padded_tokens + token] & ~kChose);
  };
  float score = score_of(own);
  float sum = 0;
  if (job.renormalize && !given) {
    // A sum from left to right. +0 for what is missing changes nothing, as scores are no less than +0.
    for (unsigned base = 0; base < most; base += kOfToken) {
      if (base != 0) score = score_of(base + own);
#pragma unroll
      for (int i = 0; i < kOfToken; ++i) {
        sum = __fadd_rn(sum, __shfl_sync(kAllLanes, score, lane / kOfToken * kOfToken + i));
      }
    }
  }
  for (unsigned base = 0; base < most; base += kOfToken) {
    if (most > kOfToken) score = score_of(base + own);
    if (base + own >= rows) continue;
    float weight = score;
    if (!given) {
      if (job.renormalize) weight = sum == 0 ? 0.0F : __fdiv_rn(weight, sum);
      weight = __fmul_rn(weight, job.router.scale);
    }
    job.row_weight[job.token_rows[at + base + own]] = weight;
  }
}

// Behind the last row. The last token's offset is written here too: there may be no block of tokens at all.
__device__ __forceinline__ void write_padding(const TokenRoundingJob& job) {
  const std::int64_t all = job.offsets[job.router.experts];
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (thread == 0) job.token_offsets[job.router.tokens] = all;
  for (std::int64_t r = all + thread; r < job.capacity; r += std::int64_t{gridDim.x} * kThreads) {
    job.row_token[r] = -1;
    job.row_weight[r] = 0;
    job.token_rows[r] = -1;
  }
}

__global__ void __launch_bounds__(kThreads, 8) rows_kernel(const __grid_constant__ TokenRoundingJob job) {
  __shared__ std::uint32_t part[kWarps][32];  // rows of a token among the experts of a warp
  __shared__ std::uint32_t before[32];        // of a token, those of the tokens before in this block
  __shared__ std::uint32_t rows_of[32];
  if (stopped(job.router.stop)) return;
  const std::int64_t word = blockIdx.x;
  if (word < job.padded_tokens / 32) {
    const int lane = lane_of_thread();
    const int warp = warp_of_thread();
    // Neighbouring groups of 32 experts to a warp, most often one.
    const int run = (job.router.experts + 32 * kWarps - 1) / (32 * kWarps) * 32;
    const int begin = warp * run;
    const int end = min(begin + run, job.router.experts);
    const std::int64_t token = word * 32 + lane;
    Group g{0, 0, 0};
    std::uint32_t rows = 0;
    for (int first = begin + (run - 32); first >= begin; first -= 32) {
      g = Group::read(job, word, first);
      rows += static_cast<std::uint32_t>(__popc(g.mine));
    }
    part[warp][lane] = rows;
    __syncthreads();
    std::uint32_t all = 0;
    std::uint32_t lower = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) lower += part[w][lane];
      all += part[w][lane];
    }
    const std::uint32_t of_tokens = warp_prefix(all) - all;
    const std::int64_t base = job.rows_before[word];
    if (warp == 0) {
      before[lane] = of_tokens, rows_of[lane] = all;
      if (token < job.router.tokens) job.token_offsets[token] = base + of_tokens;
    }
    std::int64_t at = base + of_tokens + lower;
    for (int first = begin; first < end; first += 32) {
      if (first != begin) g = Group::read(job, word, first);
      write_pairs(job, g, first, token, at);
    }
    __syncthreads();
    const int own = static_cast<int>(threadIdx.x) / kOfToken;
    write_weights(job, word * 32 + own, base + before[own], rows_of[own]);
  }
  write_padding(job);
}

}  // namespace

cudaError_t launch_token_rounding_rows(const TokenRoundingJob& job, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(max(std::int64_t{1}, job.padded_tokens / 32));
  rows_kernel<<<blocks, kThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
