// The table: a matmul of MXFP8 and one of NVFP4, on operands and scales in the form that TMA and tcgen05 read; all of
// it kernels, under the emulation.

#include "kernels/candidate.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#ifdef MXCHECK_SM100_ON_CARD
  #include "emulation/on_sm90/launch.h"
#endif
#include "kernels/common/boundary.h"
#include "kernels/sm100/candidate/matmul.h"
#include "kernels/sm100/candidate/stage.h"
#include "kernels/sm100/gemm/emulated.h"

namespace mxcheck_kernels::sm100 {
namespace {

namespace gemm = mxcheck::sm100::gemm;

MatmulShape shape_of(const MatmulTensors& x) {
  const mxcheck_matmul_policy& p = *x.policy;
  return {.m = p.policy.rows,
          .n = p.policy.cols,
          .k = p.depth,
          .groups = x.experts,
          .by_rows = p.grouping == MXCHECK_ROWS,
          .by_depth = p.grouping == MXCHECK_DEPTH};
}

gemm::Problem problem_of(const MatmulTensors& x, const MatmulShape& shape) {
  const mxcheck_matmul_policy& p = *x.policy;
  gemm::Problem g;
  g.a = x.a.data, g.b = x.b.data;
  if (x.gathers) g.gathered_rows = static_cast<const std::int32_t*>(x.index.data), g.rows_a = x.a.rows;
  if (is_nvfp4(p)) {
    g.operands = gemm::Operands::nvfp4;
  } else {
    g.e5m2_a = element_named(p.policy.format) == Element::e5m2;
    g.e5m2_b = element_named(p.format_b) == Element::e5m2;
  }
  g.d = x.d.data;
  g.c = x.adds ? x.c.data : nullptr;
  g.alpha = p.alpha;
  g.m = shape.m, g.n = shape.n, g.k = shape.k;
  g.grouping = shape.by_rows ? gemm::Grouping::rows : shape.by_depth ? gemm::Grouping::depth : gemm::Grouping::dense;
  g.groups = shape.groups;
  g.offsets = static_cast<const std::int64_t*>(x.offsets.data);
  return g;
}

void check_scaled(const mxcheck_policy* policy, DLDataType type) {
  const mxcheck_matmul_policy& p = matmul_policy(policy);
  element_named(policy->format), element_named(p.format_b);
  dtype_of("d", type);
  if (p.scale_type != MXCHECK_E8M0) unsupported("operands are offered with E8M0 scales");
  if (policy->block_rows != 1 || policy->block_cols != 32 || p.block_b_rows != 1 || p.block_b_cols != 32) {
    unsupported("scales are offered for blocks of 1x32 of a and of b");
  }
}

void check_nvfp4(const mxcheck_policy* policy, DLDataType type) {
  const mxcheck_matmul_policy& p = matmul_policy(policy);
  for (const char* const format : {policy->format, p.format_b}) {
    if (std::string_view(format) != "e2m1") unsupported("format " + std::string(format) + " is not offered: e2m1 is");
  }
  dtype_of("d", type);
  if (!is_nvfp4(p)) unsupported("operands of e2m1 are offered with E4M3 scales");
  if (policy->block_rows != 1 || policy->block_cols != 16 || p.block_b_rows != 1 || p.block_b_cols != 16) {
    unsupported("E4M3 scales are offered for blocks of 1x16 of a and of b");
  }
}

std::uint64_t scaled_workspace(const mxcheck_call& call) { return plan_workspace(call).bytes; }

template <void (*kCheck)(const mxcheck_policy*, DLDataType)>
void run_scaled(const mxcheck_call& call) {
  const DLDataType type = output_type(call);
  kCheck(call.policy, type);
  const MatmulTensors x = read_matmul(call);
  const Workspace plan = plan_workspace(call);
  require_workspace(call, plan.bytes);
  const MatmulShape shape = shape_of(x);
  if (shape.m == 0 || shape.n == 0) return;
  const Staging s = make_staging(x, shape, plan, call.workspace);
  gemm::Problem g = problem_of(x, shape);
  g.bf16 = dtype_of("d", type) == Dtype::bf16;
  stage(s, g);
  Saved d(x.d, s.at<std::byte>(plan.d_at));
  const gemm::Emulated emulated = gemm::run_emulated(g, variant_of(shape, g.operands), options_of(shape));
  if (!emulated.error.empty()) throw Refusal(MXCHECK_FAILED, emulated.error);
  require_clean("the GEMM", emulated.result);
  d.keep_new();
}

template <void (*kCheck)(const mxcheck_policy*, DLDataType)>
constexpr mxcheck_operation matmul(const char* contract) {
  mxcheck_operation o = make_operation<kCheck, run_scaled<kCheck>>("matmul", contract);
  o.max_rows = kMostRows, o.max_cols = kMostCols;
  o.workspace = [](const mxcheck_call* call, std::uint64_t* bytes) {
    return guarded<sizeof(mxcheck_call)>(call, [bytes](const mxcheck_call& c) { *bytes = scaled_workspace(c); });
  };
  return o;
}

#ifdef MXCHECK_SM100_ON_CARD
// Launches of NVFP4 failed on an H200 (docs/blackwell.md).
constexpr std::array kOperations{matmul<check_scaled>("sm100_mxf8f6f4")};
[[maybe_unused]] constexpr auto kNotOnCard = matmul<check_nvfp4>("sm100_nvf4");
#else
constexpr std::array kOperations{matmul<check_scaled>("sm100_mxf8f6f4"), matmul<check_nvfp4>("sm100_nvf4")};
#endif
constexpr mxcheck_candidate_table kTable = make_table(kName, MXCHECK_SM100_EMULATED_VERSION, kDLCPU, kOperations);

}  // namespace
}  // namespace mxcheck_kernels::sm100

#ifdef MXCHECK_SM100_ON_CARD
extern "C" __attribute__((visibility("default"))) const char* mxcheck_candidate_refusal(void) {
  static const std::string refusal = mxcheck::emulation::on_sm90::card_refusal();
  return refusal.c_str();
}
extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return *mxcheck_candidate_refusal() == 0 ? &mxcheck_kernels::sm100::kTable : nullptr;
}
#else
extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_kernels::sm100::kTable;
}
#endif
