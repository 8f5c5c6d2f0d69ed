// The table of matmuls: one operation for each contract, and how a call of each is checked and run. check_*: throws
// Refusal for what is not offered; *_workspace: bytes of a call, from its shapes alone; run_*: checks the call and
// enqueues it.

#include "kernels/candidate.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/common/boundary.h"
#include "kernels/sm90/gemm/candidate/call.h"
#include "kernels/sm90/gemm/candidate/mma.h"
#include "kernels/sm90/gemm/matmul.h"

namespace mxcheck_kernels::sm90 {
namespace {

// --- FP8 with block scales -------------------------------------------------------------------------------------------

constexpr std::int64_t kRowMultiple = 16;  // elements of 16 bytes

void check_fp8(const mxcheck_policy* policy, DLDataType type) {
  const mxcheck_matmul_policy& p = matmul_policy(policy);
  element_named(policy->format), element_named(p.format_b);
  if (!is_bf16(type) && !is_fp32(type)) unsupported("d is offered in BF16 and FP32");
  if (p.scale_type == MXCHECK_NO_SCALES) unsupported("a matmul without scales is not offered");
  if (p.scale_type == MXCHECK_E4M3) unsupported("scales are offered in E8M0 and FP32");
  const bool square = p.block_b_rows == 128 && p.block_b_cols == 128;
  const bool row = p.block_b_rows == 1 && p.block_b_cols == 128;
  if (policy->block_rows != 1 || policy->block_cols != 128 || (!square && !row)) {
    unsupported("scales are offered for blocks of 1x128 of a, and of 128x128 or 1x128 of b");
  }
  if (square && p.grouping == MXCHECK_DEPTH) unsupported("groups along depth are offered with 1x128 blocks of b alone");
}

std::uint64_t fp8_workspace(const mxcheck_call& call) { return plan_workspace(call, 1, kRowMultiple).bytes; }

void run_fp8(const mxcheck_call& call) {
  check_fp8(call.policy, output_type(call));
  const MatmulTensors x = read_matmul(call, kByteType, kByteType);
  const mxcheck_matmul_policy& p = *x.policy;
  const MatmulWorkspace plan = plan_workspace(call, 1, kRowMultiple);
  MatmulFp8 matmul;
  fill_matmul(matmul, x, call, plan.pitch == 0);
  matmul.a_format = element_named(p.policy.format), matmul.b_format = element_named(p.format_b);
  matmul.a_scale_type = matmul.b_scale_type = p.scale_type == MXCHECK_E8M0 ? MatmulScale::e8m0 : MatmulScale::fp32;
  matmul.b_block = p.block_b_rows == 128 ? MatmulBlock::square : MatmulBlock::row;
  matmul.scale_a = x.scale_a.data, matmul.scale_b = x.scale_b.data;
  require_workspace(call, plan.bytes);
  auto* const starts = reinterpret_cast<std::int64_t*>(static_cast<std::uint8_t*>(call.workspace) + plan.starts_at);
  if (p.grouping == MXCHECK_DEPTH) {
    matmul.scale_starts = starts, matmul.scale_columns = static_cast<int>(x.scale_a.cols);
  }
  check_matmul(matmul, x, call, kRowMultiple, starts);
  pad_operands(matmul, x, call, plan, 1);
  require_success(matmul_fp8_launch(matmul, stream_of(call)));
}

// --- BF16, and codes that are decoded to it: FP8 with scales of 1 x 32, NVFP4
// -----------------------------------------

void require_output(DLDataType type) {
  if (!is_bf16(type) && !is_fp32(type)) unsupported("d is offered in BF16 and FP32");
}

constexpr std::int64_t kBf16Multiple = 8;     // elements of 16 bytes
constexpr std::int64_t kDecodeMultiple = 32;  // of a block
constexpr std::int64_t kNvfp4Multiple = 16;   // of a block of NVFP4

// The operand that is decoded on its way to the tensor cores: the larger, which is then read from memory as codes
// alone. The other one, both where groups lie along depth, and A where its rows would have to be gathered, are decoded
// in the workspace. The result is the same.
enum class OnTheWay : std::uint8_t { none, a, b };

OnTheWay on_the_way(const mxcheck_matmul_policy& p, bool gathers) {
  if (p.grouping == MXCHECK_DEPTH) return OnTheWay::none;
  if (p.policy.cols <= p.policy.rows) return OnTheWay::a;
  return p.grouping == MXCHECK_DENSE && !gathers ? OnTheWay::b : OnTheWay::none;
}

bool gathers_rows(const mxcheck_call& call) {
  for (int i = 2; i < call.num_inputs; ++i) {
    if (same(call.inputs[i].dtype, kInt32Type)) return true;
  }
  return false;
}

// The workspace: what all matmuls have there, then A and B in BF16 where they are not decoded on their way.
struct DecodePlan {
  MatmulWorkspace common;
  OnTheWay on_the_way = OnTheWay::none;
  std::int64_t pitch = 0;  // elements of a row
  std::uint64_t a_at = 0;
  std::uint64_t b_at = 0;
  std::uint64_t bytes = 0;
};

DecodePlan plan_decode(const mxcheck_call& call) {
  DecodePlan plan;
  plan.common = plan_workspace(call, 1, kDecodeMultiple);
  const mxcheck_matmul_policy& p = matmul_policy(call.policy);
  plan.on_the_way = on_the_way(p, gathers_rows(call));
  plan.pitch = plan.common.pitch == 0 ? p.depth : plan.common.pitch;
  plan.a_at = plan.common.bytes;
  plan.b_at = plan.a_at + (plan.on_the_way == OnTheWay::a ? 0 : matrix_bytes(call, 0, plan.pitch, 2));
  plan.bytes = plan.b_at + (plan.on_the_way == OnTheWay::b ? 0 : matrix_bytes(call, 1, plan.pitch, 2));
  return plan;
}

DecodeOperand decoded(const char* format, const void* codes, const Checked& scales, void* values,
                      std::int64_t elements) {
  DecodeOperand x;
  x.format = element_named(format);
  x.codes = static_cast<const std::uint8_t*>(codes);
  x.scales = static_cast<const std::uint8_t*>(scales.data);
  x.values = static_cast<std::uint16_t*>(values);
  x.elements = elements;
  return x;
}

struct Decodable {
  const std::uint8_t* codes;
  const std::uint8_t* scales;
  const std::uint16_t* values;  // decoded
};

void set_operands(MatmulDecoded& matmul, OnTheWay on_the_way, const Decodable& a, const Decodable& b) {
  matmul.a = on_the_way == OnTheWay::a ? static_cast<const void*>(a.codes) : a.values;
  matmul.b = b.values;
  matmul.scale_a = a.scales;
  if (on_the_way != OnTheWay::b) return;
  matmul.transposed = true;
  std::swap(matmul.m, matmul.n);
  matmul.a = b.codes, matmul.b = a.values;
  matmul.a_rows = matmul.m;
  matmul.scale_a = b.scales;
}

void check_bf16(const mxcheck_policy* policy, DLDataType type) {
  const mxcheck_matmul_policy& p = matmul_policy(policy);
  if (std::string_view(policy->format) != "bf16" || std::string_view(p.format_b) != "bf16") {
    unsupported("both operands are offered in bf16");
  }
  require_output(type);
  if (p.scale_type != MXCHECK_NO_SCALES) unsupported("scales of bf16 are not offered");
  if (policy->block_rows != 0 || policy->block_cols != 0 || p.block_b_rows != 0 || p.block_b_cols != 0) {
    unsupported("without scales there are no blocks: they must be 0 x 0");
  }
}

std::uint64_t bf16_workspace(const mxcheck_call& call) { return plan_workspace(call, 2, kBf16Multiple).bytes; }

void run_bf16(const mxcheck_call& call) {
  check_bf16(call.policy, output_type(call));
  const MatmulTensors x = read_matmul(call, kBf16Type, kBf16Type);
  const MatmulWorkspace plan = plan_workspace(call, 2, kBf16Multiple);
  MatmulCall matmul;
  fill_matmul(matmul, x, call, plan.pitch == 0);
  require_workspace(call, plan.bytes);
  check_matmul(matmul, x, call, kBf16Multiple, nullptr);
  pad_operands(matmul, x, call, plan, 2);
  require_success(matmul_bf16_launch(matmul, stream_of(call)));
}

// NVFP4. An operand is decoded on its way where its rows are whole multiples of 16 bytes; otherwise both are decoded in
// the workspace, whatever their rows are.
bool is_nvfp4(const mxcheck_matmul_policy& p) { return p.scale_type == MXCHECK_E4M3; }

void check_nvfp4(const mxcheck_matmul_policy& p, DLDataType type) {
  if (std::string_view(p.policy.format) != "e2m1" || std::string_view(p.format_b) != "e2m1") {
    unsupported("with E4M3 scales both operands are offered in e2m1");
  }
  require_output(type);
  if (p.policy.block_rows != 1 || p.policy.block_cols != 16 || p.block_b_rows != 1 || p.block_b_cols != 16) {
    unsupported("E4M3 scales are offered for blocks of 1x16 of a and of b");
  }
}

DecodePlan plan_nvfp4(const mxcheck_call& call) {
  DecodePlan plan;
  plan.common = plan_workspace(call, 1, 1);
  const mxcheck_matmul_policy& p = matmul_policy(call.policy);
  if (p.depth % 32 == 0) plan.on_the_way = on_the_way(p, gathers_rows(call));
  plan.pitch = (p.depth + kNvfp4Multiple - 1) / kNvfp4Multiple * kNvfp4Multiple;
  if (plan.pitch > INT32_MAX) unsupported("depths are offered up to the last multiple of 16 below 2^31");
  plan.a_at = plan.common.bytes;
  plan.b_at = plan.a_at + (plan.on_the_way == OnTheWay::a ? 0 : matrix_bytes(call, 0, plan.pitch, 2));
  plan.bytes = plan.b_at + (plan.on_the_way == OnTheWay::b ? 0 : matrix_bytes(call, 1, plan.pitch, 2));
  return plan;
}

void run_nvfp4(const mxcheck_call& call) {
  const MatmulTensors x = read_matmul(call, kByteType, kByteType);
  const mxcheck_matmul_policy& p = *x.policy;
  const DecodePlan plan = plan_nvfp4(call);
  MatmulDecoded matmul;
  fill_matmul(matmul, x, call, plan.on_the_way != OnTheWay::none || p.depth % kNvfp4Multiple == 0);
  require_workspace(call, plan.bytes);
  auto* const workspace = static_cast<std::uint8_t*>(call.workspace);
  auto* const starts = reinterpret_cast<std::int64_t*>(workspace + plan.common.starts_at);
  check_matmul(matmul, x, call, kBf16Multiple, starts);
  if (matmul.m == 0 || matmul.n == 0) return;
  const auto operand = [&](const Checked& codes, const Checked& scales, std::uint64_t at) {
    return Nvfp4DecodeOperand{static_cast<const std::uint8_t*>(codes.data),
                              static_cast<const std::uint8_t*>(scales.data),
                              reinterpret_cast<std::uint16_t*>(workspace + at), codes.rows};
  };
  const Nvfp4DecodeOperand a = operand(x.a, x.scale_a, plan.a_at);
  const Nvfp4DecodeOperand b = operand(x.b, x.scale_b, plan.b_at);
  Nvfp4DecodeJob job;
  job.k = p.depth, job.pitch = plan.pitch, job.scale_columns = x.scale_a.cols, job.status = matmul.status;
  job.operands[0] = plan.on_the_way == OnTheWay::b ? a : b;
  job.operands[0].paired = plan.on_the_way != OnTheWay::none;
  if (plan.on_the_way == OnTheWay::none) job.operands[1] = a;
  if (p.grouping == MXCHECK_DEPTH && x.scale_a.cols * kNvfp4Multiple != p.depth) {  // groups that end within a block
    job.offsets = matmul.offsets - 1, job.starts = starts, job.experts = x.experts;
  }
  matmul.nvfp4 = true;
  set_operands(matmul, plan.on_the_way, {a.codes, a.scales, a.values}, {b.codes, b.scales, b.values});
  matmul.k = plan.pitch;
  const auto stream = stream_of(call);
  require_success(launch_decode_nvfp4(job, stream));
  require_success(plan.on_the_way == OnTheWay::none ? matmul_bf16_launch(matmul, stream)
                                                    : matmul_decoded_launch(matmul, stream));
}

void check_decode(const mxcheck_policy* policy, DLDataType type) {
  const mxcheck_matmul_policy& p = matmul_policy(policy);
  if (is_nvfp4(p)) return check_nvfp4(p, type);
  element_named(policy->format), element_named(p.format_b);
  require_output(type);
  if (p.scale_type != MXCHECK_E8M0) unsupported("operands that are decoded are offered with E8M0 and E4M3 scales");
  if (policy->block_rows != 1 || policy->block_cols != 32 || p.block_b_rows != 1 || p.block_b_cols != 32) {
    unsupported("scales are offered for blocks of 1x32 of a and of b");
  }
}

std::uint64_t decode_workspace(const mxcheck_call& call) {
  return is_nvfp4(matmul_policy(call.policy)) ? plan_nvfp4(call).bytes : plan_decode(call).bytes;
}

void run_decode(const mxcheck_call& call) {
  check_decode(call.policy, output_type(call));
  if (is_nvfp4(matmul_policy(call.policy))) return run_nvfp4(call);
  const MatmulTensors x = read_matmul(call, kByteType, kByteType);
  const mxcheck_matmul_policy& p = *x.policy;
  const DecodePlan plan = plan_decode(call);
  MatmulDecoded matmul;
  fill_matmul(matmul, x, call, plan.common.pitch == 0);
  require_workspace(call, plan.bytes);
  auto* const workspace = static_cast<std::uint8_t*>(call.workspace);
  auto* const starts = reinterpret_cast<std::int64_t*>(workspace + plan.common.starts_at);
  check_matmul(matmul, x, call, kBf16Multiple, starts);
  if (matmul.m == 0 || matmul.n == 0) return;
  pad_operands(matmul, x, call, plan.common, 1);
  const auto stream = stream_of(call);
  DecodeJob job;
  const DecodeOperand a = decoded(p.policy.format, matmul.a, x.scale_a, workspace + plan.a_at, x.a.rows * plan.pitch);
  const DecodeOperand b = decoded(p.format_b, matmul.b, x.scale_b, workspace + plan.b_at, x.b.rows * plan.pitch);
  job.operands[0] = plan.on_the_way == OnTheWay::b ? a : b;
  job.operands[0].paired = plan.on_the_way != OnTheWay::none;
  if (plan.on_the_way == OnTheWay::none) job.operands[1] = a;
  matmul.a_format = plan.on_the_way == OnTheWay::b ? b.format : a.format;
  set_operands(matmul, plan.on_the_way, {a.codes, a.scales, a.values}, {b.codes, b.scales, b.values});
  job.status = matmul.status;
  if (p.grouping == MXCHECK_DEPTH && x.scale_a.cols * 32 != p.depth) {  // groups that end within a block
    job.offsets = matmul.offsets - 1, job.starts = starts, job.experts = x.experts;
    job.pitch = plan.pitch, job.scale_columns = x.scale_a.cols;
  }
  require_success(launch_decode(job, stream));
  require_success(plan.on_the_way == OnTheWay::none ? matmul_bf16_launch(matmul, stream)
                                                    : matmul_decoded_launch(matmul, stream));
}

// --- one chain of mma for every output, and nothing on top -----------------------------------------------------------

const char* name_of(Code code) {
  constexpr const char* kNames[] = {"e4m3", "e5m2", "bf16", "fp16", "fp32"};
  return kNames[static_cast<int>(code)];
}

DLDataType type_of(Code code) {
  switch (code) {
    case Code::bf16: return kBf16Type;
    case Code::fp16: return {kDLFloat, 16, 1};
    case Code::tf32: return kFp32Type;
    default: return kByteType;
  }
}

void require_format(const mxcheck_matmul_policy& p, Code a, Code b) {
  if (std::string_view(p.policy.format) == name_of(a) && std::string_view(p.format_b) == name_of(b)) return;
  unsupported(std::string("formats ") + p.policy.format + " and " + p.format_b + " are not offered here");
}

void check_mma(Code a, Code b, const mxcheck_policy* policy, DLDataType type) {
  const mxcheck_matmul_policy& p = matmul_policy(policy);
  require_format(p, a, b);
  if (!is_fp32(type)) unsupported("d is FP32 here");
  if (p.grouping != MXCHECK_DENSE || p.scale_type != MXCHECK_NO_SCALES)
    unsupported("neither groups nor scales are offered here");
  if (policy->block_rows != 0 || policy->block_cols != 0 || p.block_b_rows != 0 || p.block_b_cols != 0) {
    unsupported("without scales there are no blocks: they must be 0 x 0");
  }
}

void run_mma(Code a, Code b, const mxcheck_call& call) {
  check_mma(a, b, call.policy, output_type(call));
  const MatmulTensors x = read_matmul(call, type_of(a), type_of(b));
  if (x.policy->alpha != 1) unsupported("alpha is not offered: it must be 1");
  if (x.index.data != nullptr || x.index.cols != 0) unsupported("a row index is not offered");
  MmaJob job;
  job.a_code = a, job.b_code = b;
  job.a = x.a.data, job.b = x.b.data;
  job.c = x.adds ? static_cast<const float*>(x.c.data) : nullptr;
  job.d = static_cast<float*>(x.d.data);
  job.m = x.policy->policy.rows, job.n = x.policy->policy.cols, job.k = x.policy->depth;
  if (job.m == 0 || job.n == 0) return;
  require_success(launch_mma(job, stream_of(call)));
}

// --- the table -------------------------------------------------------------------------------------------------------

constexpr mxcheck_operation with_limits(mxcheck_operation o) {
  o.max_rows = INT32_MAX, o.max_cols = INT32_MAX;
  return o;
}

// A matmul under `contract`: kCheck says what is offered, kRun runs it, kWorkspace says how many bytes it needs.
template <auto kCheck, auto kRun, auto kWorkspace>
constexpr mxcheck_operation matmul(const char* contract) {
  return with_limits(make_cuda_operation<kCheck, kRun, kWorkspace>("matmul", contract));
}

// One chain of mma of two operands of one format; needs no workspace.
template <Code kCode>
constexpr mxcheck_operation mma(const char* contract) {
  constexpr auto check = [](const mxcheck_policy* policy, DLDataType type) { check_mma(kCode, kCode, policy, type); };
  constexpr auto run = [](const mxcheck_call& call) { run_mma(kCode, kCode, call); };
  return with_limits(make_operation<check, run, kCallWithoutReport>("matmul", contract));
}

Code fp8_code(const char* format) { return element_named(format) == Element::e4m3 ? Code::e4m3 : Code::e5m2; }

// FP8 takes either format on either side.
void check_fp8_mma(const mxcheck_policy* policy, DLDataType type) {
  const mxcheck_matmul_policy& p = matmul_policy(policy);
  check_mma(fp8_code(p.policy.format), fp8_code(p.format_b), policy, type);
}
void run_fp8_mma(const mxcheck_call& call) {
  const mxcheck_matmul_policy& p = matmul_policy(call.policy);
  run_mma(fp8_code(p.policy.format), fp8_code(p.format_b), call);
}

constexpr std::array kOperations{
    matmul<check_fp8, run_fp8, fp8_workspace>("sm90_fp8+promote128"),
    matmul<check_bf16, run_bf16, bf16_workspace>("sm90_bf16"),
    matmul<check_decode, run_decode, decode_workspace>("sm90_bf16+decode"),
    with_limits(make_operation<check_fp8_mma, run_fp8_mma, kCallWithoutReport>("matmul", "sm90_fp8+from_c")),
    mma<Code::bf16>("sm90_bf16+from_c"),
    mma<Code::fp16>("sm90_fp16+from_c"),
    mma<Code::tf32>("sm90_tf32+from_c"),
};

constexpr mxcheck_candidate_table kTable = make_table("sm90_gemm", MXCHECK_SM90_VERSION, kDLCUDA, kOperations);

}  // namespace
}  // namespace mxcheck_kernels::sm90

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_kernels::sm90::kTable;
}
