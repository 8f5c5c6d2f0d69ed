#pragma once
// How many tokens an expert gets of those f that chose it, for the rules that counts alone decide.

#include <cstdint>

#include "kernels/sm90/route/token_rounding/job.h"
#include "kernels/sm90/route/token_rounding/philox.cuh"

namespace mxcheck_kernels::sm90 {

// Where f lies: `over` rows above a multiple of the tile. `open` where the multiple above can be filled; otherwise the
// count is f (over 0) or goes down.
struct Between {
  std::int64_t over;
  std::int64_t under;
  bool open;
};

__device__ __forceinline__ Between between(const TokenRoundingJob& job, std::int64_t f) {
  const std::int64_t over = f % job.tile;
  const std::int64_t under = job.tile - over;
  return {over, under, over != 0 && under <= job.router.tokens - f};
}

__device__ __forceinline__ bool goes_up(const TokenRoundingJob& job, std::int64_t expert, std::int64_t f, Between b) {
  switch (job.rule) {
    case TokenRoundingRule::up: return true;
    case TokenRoundingRule::nr_f: return b.under < b.over;
    case TokenRoundingRule::nr_even: return b.under < b.over || (b.under == b.over && (f / job.tile) % 2 != 0);
    case TokenRoundingRule::sr_f: {
      const std::uint32_t word =
          philox_word(job.seed, static_cast<std::uint32_t>(expert), job.layer, static_cast<std::uint32_t>(job.step),
                      static_cast<std::uint32_t>(job.step >> 32U));
      // The tile is at most tokens here, and both sides are below 2^63.
      return word * static_cast<std::uint64_t>(job.tile) < static_cast<std::uint64_t>(b.over) << 32U;
    }
    default: return false;
  }
}

// An expert's tokens under every rule but nr_s, which needs scores, and balance_f, which needs the previous experts.
__device__ __forceinline__ std::int64_t target_of(const TokenRoundingJob& job, std::int64_t expert, std::int64_t f) {
  switch (job.rule) {
    case TokenRoundingRule::none: return f;
    case TokenRoundingRule::expert_choice: return min(job.limit, std::int64_t{job.router.tokens});
    case TokenRoundingRule::capacity_order:
    case TokenRoundingRule::capacity_score: return job.limit == 0 ? f : min(job.limit, f);
    default: break;
  }
  const Between b = between(job, f);
  return b.open && goes_up(job, expert, f, b) ? f + b.under : f - b.over;
}

}  // namespace mxcheck_kernels::sm90
