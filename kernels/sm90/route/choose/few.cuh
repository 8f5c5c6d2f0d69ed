#pragma once
// Token choice where top_k is at most 32 and experts are not limited to groups: four lanes a row, eight rows a warp.
//
// The best kList experts are in the kList best groups of 8 neighbours, a group being as good as its best expert: for a
// group that is not among them kList groups hold an expert that comes before all of its own (equal values included, as
// groups ascend with their experts). So a row is read once for the largest of each group, and its best groups once
// more, out of L1, for their experts. Each lane keeps a sorted list of the best it has seen; lists meet by shuffles.
//
// FP32 values are chosen by keys of 32 bits, which leave something open where values share their upper bits:
// choose/settle.cuh resolves it, given the best key that is not in the list.
//
// Scores without a bias are chosen by logits. Softmax is monotonic, as subtraction, exp and division by the sum round
// correctly, so that scores can only be equal where logits are not; sigmoid and sqrtsoftplus round twice, and a larger
// logit may have a score that is less by parts in 2^22 (tests/kernels/sm90/route/row/math_test.cc). Both are settled.
//
// few_check.cuh looks for NaN, few_row.cuh has a row and its keys, few_sum.cuh the softmax, few_list.cuh the choice,
// few_settle.cuh the exact order, few_write.cuh the weights: a chain of templates for each type, choice and list, as a
// row's state is in registers.

#include "kernels/sm90/route/choose/few_check.cuh"
#include "kernels/sm90/route/choose/few_write.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kFewThreads = 128;
inline constexpr int kFewRows = kFewThreads / kLanes;

// Blocks of a multiprocessor that registers must allow; 0: as it comes.
template <Logits kType, Choice kChoice, int kList>
constexpr int kBlocks = !ChooseFew<kType, kChoice, kList>::kSettled ? 0
                        : kList > 16                                ? 5
                        : kChoice != Choice::plain                  ? 6
                                                                    : 8;

template <Logits kType, Choice kChoice, int kList>
__global__ void __launch_bounds__(kFewThreads, kBlocks<kType, kChoice, kList>)
    choose_few(const __grid_constant__ ChooseJob job) {
  const Router& r = job.router;
  if (r.stop != nullptr && *r.stop != 0) return;
  const std::int64_t token = std::int64_t{blockIdx.x} * kFewRows + threadIdx.x / kLanes;
  const bool real = token < r.tokens;
  const std::int64_t read = real ? token : std::int64_t{r.tokens} - 1;  // shuffles need full warps
  using N = ChooseFew<kType, kChoice, kList>;
  N few{{{{{job, row_of(r, read), static_cast<int>(threadIdx.x % kLanes), job.low, {}, {}}}}}};
  if constexpr (N::kScore != Score::logits) few.roots = near_roots();
  if (job.first_nan != nullptr) look_for_nan<kType>(job, few.row, read, few.lane);
  typename N::Key ranks[N::kPer];
  if constexpr (N::kScore == Score::softmax) {
    const int groups = (r.experts + kGroup - 1) / kGroup;
    const int rounds = (groups + kLanes - 1) / kLanes;
    // Where keys are whole logits the largest is the first that is chosen.
    if constexpr (N::kHalf) {
      few.choose_experts(ranks);
      few.softmax.largest = __fadd_rn(value_of(__shfl_sync(kWarp, ranks[0], 0, kLanes)), 0.0F);  // no -0
      few.sum_row(rounds);
    } else {
      few.softmax.largest = few.largest_of_row(rounds);
      few.sum_row(rounds);
      few.choose_experts(ranks);
    }
  } else {
    few.choose_experts(ranks);
  }
  few.write(ranks, token, read);
}

template <Logits kType, Choice kChoice>
cudaError_t launch_few(const ChooseJob& job, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((std::int64_t{job.router.tokens} + kFewRows - 1) / kFewRows);
  if (job.router.top_k <= 8) {
    choose_few<kType, kChoice, 8><<<blocks, kFewThreads, 0, stream>>>(job);
  } else if (job.router.top_k <= 16) {
    choose_few<kType, kChoice, 16><<<blocks, kFewThreads, 0, stream>>>(job);
  } else {
    choose_few<kType, kChoice, 32><<<blocks, kFewThreads, 0, stream>>>(job);
  }
  return cudaGetLastError();
}

template <Logits kType, Choice kPlain, Choice kBiased>
cudaError_t launch_either(const ChooseJob& job, cudaStream_t stream) {
  return job.router.bias == nullptr ? launch_few<kType, kPlain>(job, stream) : launch_few<kType, kBiased>(job, stream);
}

template <Logits kType>
cudaError_t launch_choice(const ChooseJob& job, cudaStream_t stream) {
  using enum Choice;
  switch (job.router.score) {
    case Score::softmax: return launch_either<kType, softmax, softmax_biased>(job, stream);
    case Score::sigmoid: return launch_either<kType, sigmoid, sigmoid_biased>(job, stream);
    case Score::sqrtsoftplus: return launch_either<kType, sqrtsoftplus, sqrtsoftplus_biased>(job, stream);
    default: return launch_either<kType, plain, biased>(job, stream);
  }
}

}  // namespace mxcheck_kernels::sm90
