#pragma once
// A router as a call describes it, and token choice. Everything here throws Refusal unless it says otherwise.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/common/route/policy.h"
#include "kernels/sm90/common/arguments.h"

namespace mxcheck_kernels::sm90 {

enum class Logits : std::uint8_t { fp32, bf16 };

inline constexpr int kMostExperts = 4096;
inline constexpr int kMostKept = 128;

// Passed to kernels as it is.
struct Router {
  Score score = Score::logits;  // what is chosen by
  Weights weights = Weights::softmax_of_kept;
  Logits type = Logits::fp32;
  bool nan_refused = false;
  std::int32_t experts = 0;  // 1 to kMostExperts
  std::int32_t top_k = 0;    // 1 to min(experts, kMostKept)
  std::int32_t groups = 0;   // 0: no groups
  std::int32_t groups_kept = 0;
  std::int32_t tokens = 0;
  float scale = 1;
  const void* logits = nullptr;        // tokens rows, aligned to the element and to nothing more
  std::int64_t stride = 0;             // elements from row to row
  const float* bias = nullptr;         // experts values; null: none
  const std::int32_t* stop = nullptr;  // on the device: kernels write nothing where it is not 0; null: never
};

// INVALID for a policy that cannot be read or contradicts itself. tokens and experts are policy.rows and cols, which
// may be 0 (supports()): nothing is compared with them then. UNSUPPORTED for what is not offered.
Router read_router(const mxcheck_policy* policy, DLDataType type);

// The call's first inputs: logits and, where policy.bias says so and it is wanted, the bias. `tensors` are what was
// read, for require_disjoint.
struct RouterInputs {
  Router router;
  Checked tensors[2];
  int count = 1;  // of tensors
};
RouterInputs read_inputs(const mxcheck_call& call, bool bias_wanted = true);

// 64-bit, never overflowing for a Router.
inline std::int64_t slots_of(const Router& r) { return std::int64_t{r.tokens} * r.top_k; }

// Enqueues token choice: tokens x top_k experts, best first, and their weights; either may be null and is left out.
// Throws nothing. No workspace.
cudaError_t choose(const Router& router, std::int32_t* experts, float* weights, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
