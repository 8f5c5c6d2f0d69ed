// Which tokens every expert keeps: one block of threads an expert. The block that is done last adds up rows of experts
// and of tokens.

#include "kernels/sm90/route/row/block.cuh"
#include "kernels/sm90/route/token_rounding/job.h"
#include "kernels/sm90/route/token_rounding/listed.cuh"
#include "kernels/sm90/route/token_rounding/rank.cuh"
#include "kernels/sm90/route/token_rounding/swept.cuh"
#include "kernels/sm90/route/token_rounding/target.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kBalanceThreads = 256;

// balance_f: experts one after the other, because each decision moves the residual of all that follow. With over +
// under = tile, abs(z + under) < abs(z - over) if and only if 2 z < over - under.
__global__ void __launch_bounds__(kBalanceThreads) balance_kernel(const __grid_constant__ TokenRoundingJob job) {
  __shared__ std::int64_t overs[kBalanceThreads];
  __shared__ std::int64_t bounds[kBalanceThreads];
  __shared__ bool rises[kBalanceThreads];
  if (stopped(job.router.stop)) return;
  std::int64_t residual = 0;
  for (std::int64_t base = 0; base < job.router.experts; base += kBalanceThreads) {
    const std::int64_t e = base + threadIdx.x;
    const bool is = e < job.router.experts;
    const Between b = is ? between(job, job.count[e]) : Between{0, 0, false};
    overs[threadIdx.x] = b.over;
    bounds[threadIdx.x] = b.open ? b.over - b.under : INT64_MIN;
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll 8
      for (int i = 0; i < kBalanceThreads; ++i) {
        const bool up = 2 * residual < bounds[i];
        residual += (up ? job.tile : 0) - overs[i];
        rises[i] = up;
      }
    }
    __syncthreads();
    if (is) job.target[e] = job.count[e] + static_cast<std::uint32_t>(rises[threadIdx.x] ? b.under : -b.over);
    __syncthreads();
  }
}

struct SelectScratch {
  RankScratch rank;
  union {
    ListedScratch listed;
    SweptScratch swept;
  };
  bool last;
};

// out(i, the sum of in(0) to in(i - 1)); returns the sum of all.
template <class In, class Out>
__device__ std::int64_t prefix_of(std::int64_t count, const In& in, const Out& out, std::int64_t* part) {
  std::int64_t before = 0;
  for (std::int64_t base = 0; base < count; base += kRankThreads) {
    const std::int64_t i = base + threadIdx.x;
    const BlockSum<std::int64_t> sum = block_prefix<kRankThreads>(i < count ? in(i) : std::int64_t{0}, part);
    if (i < count) out(i, before + sum.before);
    before += sum.all;
  }
  return before;
}

__global__ void __launch_bounds__(kRankThreads, 2) select_kernel(const __grid_constant__ TokenRoundingJob job) {
  __shared__ SelectScratch scratch;
  __shared__ std::int64_t part[kRankThreads / 32];
  if (stopped(job.router.stop)) return;
  const std::int64_t expert = blockIdx.x;
  const std::int64_t experts = job.router.experts;
  const std::uint32_t f = job.count[expert];
  const Between b = job.rule == TokenRoundingRule::nr_s ? between(job, f) : Between{0, 0, false};
  std::uint32_t target = job.rule == TokenRoundingRule::balance_f
                             ? job.target[expert]
                             : static_cast<std::uint32_t>(target_of(job, expert, f));
  if (job.rule == TokenRoundingRule::expert_choice ||
      !keep_listed(job, expert, f, b, target, scratch.rank, scratch.listed)) {
    target = keep_swept(job, expert, f, b, target, scratch.rank, scratch.swept);
  }
  if (threadIdx.x == 0) job.target[expert] = target;

  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) scratch.last = atomicAdd(job.ticket, 1U) == gridDim.x - 1;
  __syncthreads();
  if (!scratch.last) return;
  __threadfence();
  prefix_of(
      job.padded_tokens / 32, [&](std::int64_t w) { return std::int64_t{__ldcg(job.word_rows + w)}; },
      [&](std::int64_t w, std::int64_t sum) { job.rows_before[w] = sum; }, part);
  const std::int64_t rows = prefix_of(
      experts, [&](std::int64_t e) { return std::int64_t{__ldcg(job.target + e)}; },
      [&](std::int64_t e, std::int64_t sum) {
        job.offsets[e] = sum;
        job.chosen[e] = static_cast<std::int32_t>(job.count[e]);
      },
      part);
  if (threadIdx.x == 0) job.offsets[experts] = rows;
}

}  // namespace

cudaError_t launch_token_rounding_select(const TokenRoundingJob& job, cudaStream_t stream) {
  if (job.rule == TokenRoundingRule::balance_f) {
    balance_kernel<<<1, kBalanceThreads, 0, stream>>>(job);
    const cudaError_t e = cudaGetLastError();
    if (e != cudaSuccess) return e;
  }
  select_kernel<<<static_cast<unsigned>(job.router.experts), kRankThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
