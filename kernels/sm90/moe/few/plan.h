#pragma once
// The forward pass of few tokens, as decoding has them: three launches, whose time is that of reading the weights of
// the experts that have rows. Every output has the bits of the path of steps (moe_plan.h).
//
//   const MoePlan plan = moe_few_plan(call, weights);   // weights quantized once, by a server
//
// Taken for 256 tokens at most, 4,096 routed rows and 1,024 experts, where there is at least one row, and no width is
// 0. Recipes: those whose forward pass multiplies BF16 as it is, and those of FP8 in blocks of 128.

#include <cstdint>

#include "kernels/sm90/moe/moe_call.h"
#include "kernels/sm90/moe/moe_plan.h"

namespace mxcheck_kernels::sm90 {

inline constexpr std::int64_t kFewTokens = 256;
inline constexpr std::int64_t kFewRows = 4096;
inline constexpr std::int64_t kFewExperts = 1024;

// Both weights of a layer on the device, as a recipe of FP8 in blocks of 128 quantizes them for its forward pass: E4M3
// in squares of 128 x 128, transposed, so that k is last (square_codes.h, SquareScales::shared). Codes begin at
// multiples of 16 bytes; scales are FP32, or E8M0 bytes for a recipe of powers of two.
struct MoeCodedWeights {
  const std::uint8_t* w1 = nullptr;  // [experts, 2 n, d], columns of W1 in the order that the call's gate_up says
  const void* w1_scales = nullptr;   // [experts, 2 n / 128, d / 128]
  const std::uint8_t* w2 = nullptr;  // [experts, d, n]
  const void* w2_scales = nullptr;   // [experts, d / 128, n / 128]
};

// True if the forward pass of this call has this path; the policy alone says so.
bool takes_few(const MoeCall& call);

// The plan of a forward pass, of few tokens. In place of the call's w1 and w2, which are checked and not read, it reads
// `weights`. Throws Refusal: UNSUPPORTED for another call than takes_few's, or a recipe without FP8 codes.
MoePlan moe_few_plan(const mxcheck_call& call, const MoeCodedWeights& weights);

// Plan of a call that takes_few; weights are quantized on their way where the recipe does.
MoePlan forward_of_few(const MoeCall& call);

}  // namespace mxcheck_kernels::sm90
