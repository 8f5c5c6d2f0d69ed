#pragma once
// A whole layer as a list of steps, each a launch or several: what "moe_forward" and "moe_backward" enqueue one after
// the other, and what a benchmark times one by one.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "kernels/candidate_moe.h"
#include "kernels/sm90/gemm/matmul.h"

namespace mxcheck_kernels::sm90 {

enum class MoeStepKind : std::uint8_t { check, quantize, gemm, elementwise };

// One operand of a GEMM.
struct MoeGemmOperand {
  const void* data = nullptr;
  const void* scales = nullptr;  // of 128 of k each; null for BF16
  bool by_k = false;             // [k, rows] in memory; else [rows, k]
};

// A GEMM as its contract has it, whatever kernel computes it: D = A B^T, kinds and offsets as gemm/matmul.h has
// them. BF16 is under sm90_bf16, codes in E4M3 under sm90_fp8+promote128.
struct MoeGemm {
  enum class Format : std::uint8_t { bf16, e4m3 };

  MatmulKind kind = MatmulKind::rows;
  Format format = Format::bf16;  // of both operands
  MatmulOutput output = MatmulOutput::bf16;
  MoeGemmOperand a;
  MoeGemmOperand b;  // by k and of kind rows: experts x k x n
  MatmulScale scale = MatmulScale::fp32;
  MatmulBlock b_block = MatmulBlock::square;  // of B's scales; A's are of one row
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;  // of kind depth all experts' together
  std::int64_t experts = 0;
  const std::int64_t* offsets = nullptr;  // on the device
  void* d = nullptr;
  const float* alpha = nullptr;  // on the device, once the step before has made it; null: 1

  [[nodiscard]] std::uint64_t outputs() const {
    const std::int64_t matrices = kind == MatmulKind::depth ? experts : 1;
    return static_cast<std::uint64_t>(matrices) * static_cast<std::uint64_t>(m) * static_cast<std::uint64_t>(n);
  }
};

// The output of a GEMM of the layer, once it is there.
struct MoeProduct {
  std::string gemm;  // its name in docs/layer.md
  const void* d = nullptr;
  std::uint64_t bytes = 0;
};

struct MoeStep {
  std::string name;  // of docs/layer.md where it is one: "up", "swiglu", ...; "quantize X", "check routes"
  MoeStepKind kind = MoeStepKind::elementwise;
  std::uint64_t bytes = 0;     // each input read once and each output written once, from and to memory
  std::uint64_t products = 0;  // multiply-adds of a GEMM
  std::function<cudaError_t(cudaStream_t)> enqueue;
  std::optional<MoeGemm> gemm;        // where kind is gemm: what its outputs can be compared by
  std::optional<MoeProduct> product;  // that is complete after this step
};

struct MoePlan {
  std::vector<MoeStep> steps;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t kept_bytes = 0;      // of the memory for kept weights
  bool asks_for_kept_bytes = false;  // the call's mode is MXCHECK_WEIGHTS_BYTES
};

// The plan of a call, which is checked first; throws Refusal. Data of tensors may be null where the workspace is: the
// plan is then for its bytes alone, and its steps must not be enqueued. Nothing is enqueued here.
MoePlan moe_forward_plan(const mxcheck_call& call);
// The same by the steps that large calls have, for few tokens too (few/plan.h).
MoePlan moe_forward_steps_plan(const mxcheck_call& call);
MoePlan moe_backward_plan(const mxcheck_call& call);

}  // namespace mxcheck_kernels::sm90
