#include "kernels/sm90/moe/moe_builder.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "kernels/common/digest.h"
#include "kernels/common/refusal.h"
#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/layer/steps/steps.h"
#include "kernels/sm90/moe/few/plan.h"
#include "kernels/sm90/moe/moe_kernels.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr std::uint64_t kAlignment = 256;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;

constexpr std::int64_t kNoOffsets = 0;  // where there is no tensor: the sizes alone are asked for

using Pass = MoePlan (*)(const MoeCall&);

std::array<Pass, 2> passes_of(const MoeRecipe& recipe) {
  if (recipe.fp8()) return {forward_of_codes, backward_of_codes};
  return {forward_of_values, backward_of_values};
}

void require_memory(const mxcheck_kept_weights& kept, std::uint64_t bytes) {
  if (kept.memory == nullptr) invalid("policy.kept.memory is null");
  if (!is_aligned(kept.memory, kAlignment)) invalid("policy.kept.memory is not at a multiple of 256 bytes");
  if (kept.bytes >= bytes) return;
  invalid("policy.kept.bytes is " + std::to_string(kept.bytes) + ": must be at least " + std::to_string(bytes));
}

enum class Path : std::uint8_t { chosen, steps };

MoePlan plan_of(const mxcheck_call& call, bool backward, Path path) {
  const MoeCall checked = read_moe_call(call, backward);
  const bool few = path == Path::chosen && !backward && takes_few(checked);
  MoePlan plan = few ? forward_of_few(checked) : passes_of(*checked.recipe)[backward ? 1 : 0](checked);
  if (call.workspace != nullptr) require_workspace(call, plan.workspace_bytes);
  plan.asks_for_kept_bytes = checked.kept.mode == MXCHECK_WEIGHTS_BYTES;
  if (call.workspace != nullptr && checked.keeps_weights()) require_memory(checked.kept, plan.kept_bytes);
  return plan;
}

}  // namespace

RoutesJob routes_job(const MoeCall& c, int band) {
  const MoeTensors& t = c.tensors;
  RoutesJob job;
  job.rows.rows = c.routed, job.rows.experts = c.experts, job.rows.block = band, job.rows.source_rows = c.tokens;
  job.rows.offsets = t.offsets.data == nullptr ? &kNoOffsets : data_of<const std::int64_t>(t.offsets);
  job.rows.index = data_of<const std::int32_t>(t.row_token);
  job.slots.tokens = c.tokens, job.slots.slots = c.slots, job.slots.y_rows = c.routed;
  job.slots.token_offsets = data_of<const std::int64_t>(t.token_offsets);
  job.slots.token_rows = data_of<const std::int32_t>(t.token_rows);
  job.rows.report = job.slots.report = c.report;
  return job;
}

// The recipe by the digest of its name, each letter a word: names are compared on the device.
KeptJob kept_job(const MoeCall& c, Arena& memory) {
  KeptJob job;
  job.layer.pass = (c.backward ? 2U : 0U) + (c.interleaved ? 1U : 0U);
  for (std::size_t i = 0; i < c.recipe->name.size(); ++i)
    job.layer.recipe += digest_term(i, static_cast<unsigned char>(c.recipe->name[i]));
  job.layer.cols = c.d, job.layer.inner = c.n, job.layer.experts = c.experts;
  job.header = memory.at<KeptHeader>(memory.take(1, kKeptHeaderBytes));
  job.report = c.report;
  return job;
}

Part Arena::take(std::int64_t rows, std::int64_t row_bytes) {
  Part part;
  if (__builtin_mul_overflow(rows, row_bytes, &part.bytes) || part.bytes > kMostBytes) {
    invalid("the tensors are so large that no workspace would do");
  }
  part.bytes = (part.bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (part.bytes == 0) return part;
  auto next = taken_.begin();
  for (; next != taken_.end() && next->at - part.at < part.bytes; ++next) part.at = next->at + next->bytes;
  if (part.at > kMostBytes) invalid("the tensors are so large that no workspace would do");
  taken_.insert(next, part);
  bytes_ = std::max(bytes_, part.at + part.bytes);
  return part;
}

void Arena::drop(const Part& part) {
  const auto same = [&](const Part& taken) { return taken.at == part.at; };
  if (part.bytes != 0) taken_.erase(std::find_if(taken_.begin(), taken_.end(), same));
}

MoeBuilder::MoeBuilder(const MoeCall& call, int band) : memory(call.workspace), call_(call), kept_(call.kept.memory) {
  RoutesJob job = routes_job(call, band);
  job.header = memory.at<PlanHeader>(memory.take(1, kHeaderBytes));
  job.table = memory.at<RowTile>(memory.take(1, static_cast<std::int64_t>(table_bytes(job.rows))));
  header_ = job.header;
  routed_ = {call.routed, most_tiles(job.rows), header_, job.table};
  const std::uint64_t bytes = bytes_of(call.experts + call.tokens + 2, 1, 8) + bytes_of(call.routed, 1, 4) +
                              bytes_of(call.slots, 1, 4) + table_bytes(job.rows);
  add("check routes", MoeStepKind::check, bytes, [job](cudaStream_t stream) { return check_routes(job, stream); });
  add_kept_weights();
}

void MoeBuilder::add_kept_weights() {
  if (!call_.keeps_weights()) return;
  KeptJob job = kept_job(call_, kept_);
  job.plan = header_;
  // In every mode of the path of steps, whose workspace is one; until the last step.
  const Part digests = memory.take(1, 2 * sizeof(std::uint64_t));
  if (call_.reads_weights()) {
    job.digests = memory.at<unsigned long long>(digests);
    const bool keeps = call_.quantizes_weights();
    add(keeps ? "begin keeping weights" : "begin digests", MoeStepKind::check, 2 * sizeof(std::uint64_t),
        [job, keeps](cudaStream_t stream) {
          return keeps ? launch_begin_keeping(job, stream) : launch_begin_digests(job, stream);
        });
    add_digest("digest W1", call_.tensors.w1, job.digests);
    add_digest("digest W2", call_.tensors.w2, job.digests == nullptr ? nullptr : job.digests + 1);
    if (keeps) {
      keeping_ = job;
      return;
    }
  }
  add("check kept weights", MoeStepKind::check, sizeof(KeptHeader),
      [job](cudaStream_t stream) { return launch_check_kept_header(job, stream); });
}

void MoeBuilder::add_digest(const char* name, const Checked& w, unsigned long long* to) {
  add(name, MoeStepKind::check, w.bytes,
      [x = data_of<const std::uint16_t>(w), count = w.rows * w.cols, to, plan = header_](cudaStream_t stream) {
        return launch_digest(x, count, to, plan, stream);
      });
}

TiledRows MoeBuilder::plain_rows(std::int64_t rows) const {
  return {rows, (rows + kTileRows - 1) / kTileRows, header_, nullptr};
}

void MoeBuilder::add(std::string name, MoeStepKind kind, std::uint64_t bytes,
                     std::function<cudaError_t(cudaStream_t)> enqueue) {
  plan_.steps.push_back({std::move(name), kind, bytes, 0, std::move(enqueue), std::nullopt, std::nullopt});
}

void MoeBuilder::add_gemm(std::string name, std::uint64_t bytes, std::uint64_t products, const MoeGemm& gemm,
                          std::function<cudaError_t(cudaStream_t)> enqueue) {
  MoeProduct product = {name, gemm.d, gemm.outputs() * (gemm.output == MatmulOutput::bf16 ? 2U : 4U)};
  plan_.steps.push_back(
      {std::move(name), MoeStepKind::gemm, bytes, products, std::move(enqueue), gemm, std::move(product)});
}

void MoeBuilder::add_aggregate(const char* name, const Part& y, const Checked& o, bool weighted) {
  const MoeTensors& t = call_.tensors;
  AggregateJob job;
  job.y = memory.at<const std::uint16_t>(y);
  if (weighted) job.weights = data_of<const float>(t.row_weight);
  job.token_offsets = data_of<const std::int64_t>(t.token_offsets);
  job.token_rows = data_of<const std::int32_t>(t.token_rows);
  job.o = data_of<std::uint16_t>(o);
  job.tokens = call_.tokens, job.cols = call_.d, job.header = header_;
  const std::uint64_t bytes = bytes_of(call_.routed, call_.d, 2) + bytes_of(call_.tokens, call_.d, 2) +
                              bytes_of(call_.slots, 1, 4) + bytes_of(call_.tokens + 1, 1, 8) +
                              (weighted ? bytes_of(call_.routed, 1, 4) : 0);
  // Widths are multiples of 8 and tensors are aligned. Without routed rows job.weights is null, and so are no slots'.
  add(name, MoeStepKind::elementwise, bytes,
      [job](cudaStream_t stream) { return launch_aggregate(job, true, stream); });
}

MoePlan MoeBuilder::finish() {
  if (keeping_) {
    add("keep weights", MoeStepKind::check, sizeof(KeptHeader),
        [job = *keeping_](cudaStream_t stream) { return launch_write_kept_header(job, stream); });
  }
  plan_.workspace_bytes = memory.bytes(), plan_.kept_bytes = kept_.bytes();
  return std::move(plan_);
}

MoeGemm described(const MatmulCall& matmul) {
  MoeGemm gemm;
  gemm.kind = matmul.kind, gemm.output = matmul.output;
  gemm.a.data = matmul.a, gemm.b.data = matmul.b;
  gemm.m = matmul.m, gemm.n = matmul.n, gemm.k = matmul.k;
  gemm.experts = matmul.experts, gemm.offsets = matmul.offsets;
  gemm.d = matmul.d;
  return gemm;
}

void require_tiles(const char* name, std::int64_t m, std::int64_t n, std::int64_t experts, bool k_grouped) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::int64_t rows = m / 128 + 1;
  const std::int64_t all_rows = k_grouped ? rows * experts : rows + experts;
  if (all_rows <= kMost / (n / 128 + 1)) return;
  unsupported(std::string(name) + " has more tiles of 128x128 than are offered: at most " + std::to_string(kMost));
}

void add_gather(MoeBuilder& b, const char* name, const GatherRows& values, const GatherRows& scales) {
  const MoeCall& c = b.call();
  GatherJob job;
  job.values = values, job.scales = scales;
  job.tokens = c.tokens, job.header = b.header();
  job.token_offsets = data_of<const std::int64_t>(c.tensors.token_offsets);
  job.token_rows = data_of<const std::int32_t>(c.tensors.token_rows);
  // A token without rows is not counted as read: there may be fewer rows than tokens.
  const std::int64_t rows = std::min(c.tokens, c.routed) + c.routed;
  const std::uint64_t bytes =
      bytes_of(rows, values.row_bytes, 1) + bytes_of(rows, scales.row_bytes, 1) + bytes_of(c.slots, 1, 4);
  b.add(name, MoeStepKind::elementwise, bytes, [job](cudaStream_t stream) { return launch_gather(job, stream); });
}

HInput bf16_h(const MoeCall& call, const std::uint16_t* h) {
  HInput input;
  input.data = h, input.stride = 2 * call.n, input.interleaved = call.interleaved;
  return input;
}

HInput kept_h(const MoeCall& call) {
  if (!call.recipe->keeps_e5m6) return bf16_h(call, data_of<const std::uint16_t>(call.tensors.h));
  HInput input;
  input.data = call.tensors.h.data, input.scales = data_of<const std::uint8_t>(call.tensors.h_scales);
  input.stride = 2 * call.n, input.interleaved = call.interleaved, input.packed = true;
  return input;
}

std::uint64_t h_bytes(const MoeCall& call, const HInput& h) {
  return h.packed ? call.tensors.h.bytes + call.tensors.h_scales.bytes : bytes_of(call.routed, call.n, 4);
}

void add_swiglu(MoeBuilder& b, const std::uint16_t* h, const Part& a) {
  const MoeCall& c = b.call();
  RowsJob job;
  job.h = bf16_h(c, h);
  job.rows = c.routed, job.n = c.n;
  job.a = b.memory.at<std::uint16_t>(a);
  job.header = b.header();
  b.add("swiglu", MoeStepKind::elementwise, bytes_of(c.routed, c.n, 6),
        [job](cudaStream_t stream) { return launch_forward_rows(job, true, stream); });
}

void add_swiglu_backward(MoeBuilder& b, const HInput& h, const Part& p, const SwigluGradients& to) {
  const MoeCall& c = b.call();
  const Part sums = b.memory.take(1, static_cast<std::int64_t>(sums_bytes(c.routed, c.n, kRowPart)));
  RowsJob job;
  job.h = h;
  job.rows = c.routed, job.n = c.n;
  job.p = b.memory.at<const float>(p), job.weights = data_of<const float>(c.tensors.row_weight);
  job.a = b.memory.at<std::uint16_t>(to.a), job.dh = b.memory.at<std::uint16_t>(to.dh);
  job.ds = data_of<float>(c.tensors.ds), job.sums = b.memory.at<float>(sums);
  job.header = b.header();
  b.add("swiglu_backward", MoeStepKind::elementwise,
        h_bytes(c, h) + bytes_of(c.routed, c.n, 10) + bytes_of(c.routed, 1, 8),
        [job](cudaStream_t stream) { return launch_backward_rows(job, true, stream); });
  b.memory.drop(sums);
}

MoePlan moe_forward_plan(const mxcheck_call& call) { return plan_of(call, false, Path::chosen); }
MoePlan moe_forward_steps_plan(const mxcheck_call& call) { return plan_of(call, false, Path::steps); }
MoePlan moe_backward_plan(const mxcheck_call& call) { return plan_of(call, true, Path::steps); }

}  // namespace mxcheck_kernels::sm90
