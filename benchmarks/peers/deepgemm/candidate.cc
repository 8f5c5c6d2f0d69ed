// DeepGEMM's FP8 GEMMs for Hopper behind the candidate interface, for benchmarks beside ours. Shapes are those of
// shapes.h; others are refused. Not for the gate: the device reports groups of rows that are no multiple of 128 as
// UNSUPPORTED, and D is overwritten all the same; and the TMA unit's reduction, by which C is added, flushes FP32
// subnormals to zero (PTX ISA, cp.reduce.async.bulk).

#include "kernels/candidate.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "benchmarks/peers/deepgemm/kernels.h"
#include "benchmarks/peers/peer.h"
#include "kernels/candidate_matmul.h"
#include "kernels/common/boundary.h"
#include "kernels/sm90/gemm/candidate/call.h"

namespace mxcheck_peers::deepgemm {
namespace {

using mxcheck_kernels::invalid;
using mxcheck_kernels::unsupported;
namespace sm90 = mxcheck_kernels::sm90;

// --- what is offered

Kind kind_of(const mxcheck_matmul_policy& p) {
  switch (p.grouping) {
    case MXCHECK_ROWS: return Kind::rows;
    case MXCHECK_MASKED: return Kind::masked;
    case MXCHECK_DEPTH: return Kind::depth;
    default: return p.block_b_rows == 1 ? Kind::sum : Kind::dense;
  }
}

void check(const mxcheck_policy* policy, DLDataType type) {
  const mxcheck_matmul_policy& p = sm90::matmul_policy(policy);
  if (policy->format != std::string_view("e4m3") || p.format_b != std::string_view("e4m3")) {
    unsupported("DeepGEMM takes codes of e4m3 on both sides");
  }
  if (p.scale_type != MXCHECK_FP32) unsupported("DeepGEMM takes FP32 scales on Hopper");
  if (policy->block_rows != 1 || policy->block_cols != kBlockK || p.block_b_cols != kBlockK) {
    unsupported("DeepGEMM takes blocks of 1x128 of a, and of 128x128 or 1x128 of b");
  }
  if (p.alpha != 1) unsupported("DeepGEMM has no alpha");
  const Kind kind = kind_of(p);
  if (accumulates(kind)) {
    if (p.block_b_rows != 1) unsupported("DeepGEMM sums groups along depth with 1x128 blocks of b alone");
    if (p.accumulate != 1 || !sm90::is_fp32(type)) {
      unsupported("DeepGEMM adds products of 1x128 by 1x128 to an FP32 D: accumulate must be 1 and d FP32");
    }
  } else {
    if (p.block_b_rows != kBlockK) unsupported("DeepGEMM takes groups of rows with 128x128 blocks of b alone");
    if (p.accumulate != 0 || !sm90::is_bf16(type)) {
      unsupported("DeepGEMM writes products of 1x128 by 128x128 in BF16, without C");
    }
  }
}

// --- workspace

// Where each part is; bytes from its beginning on. Parts that a kind does without have no bytes.
struct Layout {
  std::uint64_t status = 0;
  std::uint64_t groups = 0;
  std::uint64_t tensor_maps = 0;
  std::uint64_t scale_a = 0;
  std::uint64_t scale_b = 0;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t bytes = 0;
};

// Extents that fit in 32 bits, so that no product below overflows.
std::int64_t extent(const char* name, std::int64_t value) {
  if (value < 0 || value > INT32_MAX) invalid(std::string("policy.") + name + " must be 0 to 2^31 - 1");
  return value;
}

// Groups by the shape of the offsets or counts; 1 where there are none that can be read.
std::int64_t groups_of(const mxcheck_call& call, Kind kind) {
  const DLTensor& last = call.inputs[call.num_inputs - 1];
  if (kind == Kind::dense || kind == Kind::sum) return 1;
  if (last.ndim != 1 || last.shape == nullptr || last.shape[0] < 1 || last.shape[0] > 65537) return 1;
  return last.shape[0] - (kind == Kind::masked ? 0 : 1);
}

Layout layout_of(const mxcheck_call& call) {
  const mxcheck_matmul_policy& p = sm90::matmul_policy(call.policy);
  if (call.inputs == nullptr || call.num_inputs < 4) invalid("a matmul with scales has four inputs or more");
  const Kind kind = kind_of(p);
  const std::int64_t m = extent("rows", p.policy.rows);
  const std::int64_t n = extent("cols", p.policy.cols);
  const std::int64_t k = extent("depth", p.depth);
  const std::int64_t groups = groups_of(call, kind);
  Layout at;
  const auto take = [&](std::int64_t bytes) {
    const std::uint64_t begin = at.bytes;
    at.bytes += static_cast<std::uint64_t>(ceil_div(bytes, 256) * 256);
    return begin;
  };
  const std::int64_t blocks = ceil_div(k, kBlockK);
  at.status = take(4);
  at.groups = take(kind == Kind::rows ? m * 4 : groups * 4);
  at.tensor_maps = take(kind == Kind::depth ? kTensorMapBytes : 0);
  at.scale_a = take((m + 4 * groups) * blocks * 4);
  at.scale_b = take(accumulates(kind) ? (n + 4) * blocks * 4 : 0);
  at.a = take(kind == Kind::depth ? m * k : 0);
  at.b = take(kind == Kind::depth ? n * k : 0);
  return at;
}

std::uint64_t workspace(const mxcheck_call& call) { return layout_of(call).bytes; }

// --- a call

struct Work {
  sm90::MatmulTensors tensors;
  Kind kind = Kind::dense;
  Operands operands;
  std::int32_t* status = nullptr;
};

Work read(const mxcheck_call& call) {
  check(call.policy, sm90::output_type(call));
  Work w;
  w.tensors = sm90::read_matmul(call, mxcheck_kernels::kByteType, mxcheck_kernels::kByteType);
  const sm90::MatmulTensors& x = w.tensors;
  if (x.index.cols != 0) unsupported("DeepGEMM takes no row index");
  if (!sm90::is_aligned(x.a.data, 16) || !sm90::is_aligned(x.b.data, 16) || !sm90::is_aligned(x.d.data, 16)) {
    unsupported("DeepGEMM takes a, b and d at multiples of 16 bytes");
  }
  w.kind = kind_of(*x.policy);
  const Layout at = layout_of(call);
  sm90::require_workspace(call, at.bytes);
  auto* const base = static_cast<std::uint8_t*>(call.workspace);
  const bool square = !accumulates(w.kind);
  const bool depth = w.kind == Kind::depth;
  w.status = reinterpret_cast<std::int32_t*>(base + at.status);
  w.operands.a = depth ? base + at.a : x.a.data;
  w.operands.b = depth ? base + at.b : x.b.data;
  w.operands.scale_a = reinterpret_cast<const float*>(base + at.scale_a);
  w.operands.scale_b =
      square ? static_cast<const float*>(x.scale_b.data) : reinterpret_cast<const float*>(base + at.scale_b);
  w.operands.d = x.d.data;
  w.operands.groups = reinterpret_cast<const std::int32_t*>(base + at.groups);
  w.operands.tensor_maps = base + at.tensor_maps;
  return w;
}

std::span<const Instance> instances_of(Kind kind) {
  switch (kind) {
    case Kind::rows: return rows_instances();
    case Kind::masked: return masked_instances();
    case Kind::sum: return sum_instances();
    case Kind::depth: return depth_instances();
    default: return dense_instances();
  }
}

// The instance for a call. Instances of one masked shape differ in the rows that a group is expected to have; 0: the
// first.
const Instance& instance_of(const Work& w, std::int64_t expected_rows) {
  const mxcheck_matmul_policy& p = *w.tensors.policy;
  const std::int64_t groups = w.tensors.experts;
  const std::int64_t rows = w.kind == Kind::masked ? p.policy.rows / groups : p.policy.rows;
  for (const Instance& i : instances_of(w.kind)) {
    const Shape& s = i.shape;
    if (s.m != rows || s.n != p.policy.cols || s.k != p.depth || s.groups != groups) continue;
    if (w.kind == Kind::masked && expected_rows != 0 && s.expected_rows != expected_rows) continue;
    return i;
  }
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  unsupported("DeepGEMM is not compiled for " + text(groups) + " groups of " + text(rows) + "x" + text(p.policy.cols) +
              "x" + text(p.depth) + ": add the shape to benchmarks/peers/deepgemm/shapes.h");
}

// Scales, codes of groups along depth, and the groups themselves.
void enqueue_layouts(const mxcheck_call& call, const Work& w) {
  const sm90::MatmulTensors& x = w.tensors;
  const mxcheck_matmul_policy& p = *x.policy;
  cudaStream_t stream = sm90::stream_of(call);
  const auto fp32 = [](const mxcheck_kernels::Checked& from) { return static_cast<const float*>(from.data); };
  const std::int64_t matrices = w.kind == Kind::masked ? x.experts : 1;
  const std::int64_t blocks = ceil_div(p.depth, kBlockK);
  sm90::require_success(launch_scales(fp32(x.scale_a), const_cast<float*>(w.operands.scale_a), matrices,
                                      p.policy.rows / matrices, blocks, stream));
  if (accumulates(w.kind)) {
    sm90::require_success(
        launch_scales(fp32(x.scale_b), const_cast<float*>(w.operands.scale_b), 1, p.policy.cols, blocks, stream));
  }
  if (x.offsets.cols == 0) return;
  GroupsJob job;
  job.kind = w.kind;
  job.offsets = static_cast<const std::int64_t*>(x.offsets.data);
  job.groups = x.experts;
  job.end = w.kind == Kind::depth ? p.depth : p.policy.rows / matrices;
  job.multiple = kBlockK;
  job.to = const_cast<std::int32_t*>(w.operands.groups);
  job.status = w.status;
  job.report = sm90::report_of(call);
  sm90::require_success(launch_groups(job, stream));
  if (w.kind != Kind::depth) return;
  RegroupJob codes{x.a.data, const_cast<void*>(w.operands.a), p.policy.rows, p.depth, job.offsets, x.experts, w.status};
  sm90::require_success(launch_regroup(codes, stream));
  codes.from = x.b.data, codes.to = const_cast<void*>(w.operands.b), codes.rows = p.policy.cols;
  sm90::require_success(launch_regroup(codes, stream));
}

void enqueue_gemm(const mxcheck_call& call, const Work& w, const Instance& instance) {
  const sm90::MatmulTensors& x = w.tensors;
  if (x.adds && !x.in_place) {
    sm90::require_success(
        cudaMemcpyAsync(x.d.data, x.c.data, x.d.bytes, cudaMemcpyDeviceToDevice, sm90::stream_of(call)));
  }
  sm90::require_success(instance.launch(w.operands, sm90::stream_of(call)));
}

void run(const mxcheck_call& call) {
  const Work w = read(call);
  const Instance& instance = instance_of(w, 0);
  enqueue_layouts(call, w);
  enqueue_gemm(call, w, instance);
}

// --- tables

using mxcheck_kernels::guarded;
constexpr std::size_t kLeastCall = mxcheck_kernels::kCallWithoutReport;

constexpr std::array kOperations{
    mxcheck_kernels::make_cuda_operation<check, run, workspace>("matmul", "sm90_fp8+promote128")};
constexpr mxcheck_candidate_table kTable =
    mxcheck_kernels::make_table("deepgemm", MXCHECK_DEEPGEMM_VERSION, kDLCUDA, kOperations);

constexpr mxcheck_peer_steps kSteps{sizeof(mxcheck_peer_steps),
                                    [](const mxcheck_call* call) {
                                      return guarded<kLeastCall>(call, [](const mxcheck_call& c) {
                                        const Work w = read(c);
                                        instance_of(w, 0);
                                        enqueue_layouts(c, w);
                                        sm90::require_success(cudaStreamSynchronize(sm90::stream_of(c)));
                                      });
                                    },
                                    [](const mxcheck_call* call, std::int64_t expected_rows) {
                                      return guarded<kLeastCall>(call, [expected_rows](const mxcheck_call& c) {
                                        const Work w = read(c);
                                        enqueue_gemm(c, w, instance_of(w, expected_rows));
                                      });
                                    }};

}  // namespace
}  // namespace mxcheck_peers::deepgemm

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_peers::deepgemm::kTable;
}

extern "C" __attribute__((visibility("default"))) const mxcheck_peer_steps* mxcheck_peer(void) {
  return &mxcheck_peers::deepgemm::kSteps;
}
