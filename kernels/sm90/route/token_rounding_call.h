#pragma once
// "route_round": token choice, counts, ranking, rounding and metadata.
//
// The stages on the device, after token choice:
//
//   keys    the score of every pair as the bits of an FP32 number >= +0, one row per expert, with the sign bit set
//           where the token chose the expert: "chose it first, then larger score" is the order of unsigned integers.
//           Beside them one bit per pair for "chose it", and the largest key of each tile among those that did not
//   select  per expert: how many it gets, those that come or go for it, one bit per pair for "kept"
//   rows    per token: its kept experts ascending, their rows and weights
//
// The kept pairs and their rows are integers; sums of scores are one thread's each, in the order of the definition.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/candidate_route.h"
#include "kernels/sm90/route/route_call.h"

namespace mxcheck_kernels::sm90 {

// All three throw Refusal.
void token_rounding_supports(const mxcheck_policy* policy, DLDataType type);
std::uint64_t token_rounding_workspace(const mxcheck_call& call);
void token_rounding_run(const mxcheck_call& call);

// none: nothing is ranked by scores, and a key is the mark alone.
enum class TokenRoundingScore : std::uint8_t { none, softmax, sigmoid, sqrtsoftplus };

inline constexpr std::uint32_t kChose = 1U << 31U;  // the mark of a key

// One word of the tokens that an expert keeps: the token 32 i + b of word i is kept where bit b is set. `before`: kept
// tokens of the same expert in all words before.
struct KeptWord {
  std::uint32_t bits;
  std::uint32_t before;
};

struct TokenRoundingJob {
  TokenRoundingRule rule = TokenRoundingRule::none;
  TokenRoundingScore score = TokenRoundingScore::softmax;
  bool renormalize = true;
  Router router;  // its `stop` is read by every kernel
  std::int64_t tile = 1;
  std::int64_t limit = 0;  // of expert_choice and the capacity rules
  std::int64_t capacity = 0;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint32_t layer = 0;

  // Workspace.
  std::int32_t* slot_expert = nullptr;  // [tokens, top_k] of token choice
  float* slot_weight = nullptr;         // [tokens, top_k], of the rule `none`
  std::uint32_t* keys = nullptr;        // [experts, padded_tokens]; 0 past the last token
  std::int64_t padded_tokens = 0;       // a multiple of 32
  KeptWord* kept = nullptr;             // [padded_tokens / 32, experts]
  std::uint32_t* chose = nullptr;       // [experts, padded_tokens / 32] a bit per token; select corrects them
  std::int32_t* most = nullptr;         // [experts, key_tiles] largest key of those that did not choose it, or < 0
  std::uint32_t* count = nullptr;       // [experts] tokens that chose the expert; begins as 0
  std::uint32_t* target = nullptr;      // [experts] tokens that it gets
  std::uint32_t* word_rows = nullptr;   // [padded_tokens / 32] rows of 32 tokens; begins as 0
  std::int64_t* rows_before = nullptr;  // [padded_tokens / 32] rows of all tokens before these 32
  std::int32_t* pair_expert = nullptr;  // [capacity] as token_rows
  std::uint32_t* ticket = nullptr;      // blocks that are done; begins as 0
  std::uint32_t* boundary = nullptr;    // [experts, tile], of nr-s with tiles too large for shared memory

  std::int32_t* chosen = nullptr;
  std::int64_t* offsets = nullptr;
  std::int32_t* row_token = nullptr;
  float* row_weight = nullptr;
  std::int64_t* token_offsets = nullptr;
  std::int32_t* token_rows = nullptr;
};

inline constexpr std::int64_t kSharedBoundary = 2048;  // scores of nr-s that are sorted in shared memory

// Tokens of a tile of keys, whole sectors of 8 at least: one block of threads computes them for all experts.
__host__ __device__ constexpr int key_tile_shift(int experts) {
  if (experts <= 512) return 5;
  return experts <= 1024 ? 4 : 3;
}

// All enqueue, and return what the launch returned.
cudaError_t launch_token_rounding_keys(const TokenRoundingJob& job, cudaStream_t stream);
cudaError_t launch_token_rounding_select(const TokenRoundingJob& job, cudaStream_t stream);
cudaError_t launch_token_rounding_rows(const TokenRoundingJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
