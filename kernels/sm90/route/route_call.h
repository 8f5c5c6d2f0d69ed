#pragma once
// A router as a call describes it, and the launch interface of its kernels: token choice, the check of those arguments
// that only the device can read, and the gradient. Reading throws Refusal.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/candidate_route.h"
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

// "route_metadata": rows by expert from the experts of slots (metadata.cu). All three throw Refusal.
void metadata_supports(const mxcheck_policy* policy, DLDataType type);
std::uint64_t metadata_workspace(const mxcheck_call& call);
void metadata_run(const mxcheck_call& call);

// ---- Launches: each enqueues, and returns what the launch returned ----

// Token choice: tokens x top_k experts, best first, and their weights; either may be null and is left out. No
// workspace.
cudaError_t topk(const Router& router, std::int32_t* experts, float* weights, cudaStream_t stream);

// The result of a check, in the workspace: status is 0 where everything is right.
struct CheckResult {
  unsigned long long first;  // index of the first error: logits row by row, then the bias, then the experts
  std::int32_t status;       // mxcheck_status; read by every other kernel of the call: Router::stop
};
inline constexpr std::uint64_t kCheckBytes = 256;

// Finds NaN in logits and bias (where router.nan_refused), experts outside [-1, router.experts) (where not null;
// tokens x router.top_k). The first found goes to `report`, which may be null, and into result->status.
cudaError_t launch_check(const Router& router, const std::int32_t* experts, CheckResult* result,
                         mxcheck_device_report* report, cudaStream_t stream);

// The same for a kernel that looks at the logits itself, in three steps: begin_check; that kernel, which lowers
// result->first to the number of a NaN's element; end_check, which looks at the bias and tells.
cudaError_t begin_check(CheckResult* result, cudaStream_t stream);
cudaError_t end_check(const Router& router, CheckResult* result, mxcheck_device_report* report, cudaStream_t stream);

// The gradient of logits from that of the weights.
struct BackwardJob {
  Router router;
  const std::int32_t* experts = nullptr;  // tokens x top_k: [-1, router.experts)
  const float* gradient = nullptr;        // tokens x top_k
  void* out = nullptr;                    // tokens x router.experts, of the logits' type
};

// One warp a row. Of routes of a token to the same expert the last counts.
cudaError_t launch_backward(const BackwardJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
