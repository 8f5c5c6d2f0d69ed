#include "kernels/sm90/moe/steps/builder.h"

#include <limits>
#include <utility>

#include "kernels/sm90/layer/steps/steps.h"
#include "kernels/sm90/moe/steps/routes.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr std::int64_t kNoOffsets = 0;  // where there is no tensor: the sizes alone are asked for

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

}  // namespace

MoeBuilder::MoeBuilder(const MoeCall& call, int band) : memory(call.workspace), call_(call) {
  RoutesJob job = routes_job(call, band);
  job.header = memory.at<PlanHeader>(memory.take(1, kHeaderBytes));
  job.table = memory.at<RowTile>(memory.take(1, static_cast<std::int64_t>(table_bytes(job.rows))));
  header_ = job.header;
  routed_ = {call.routed, most_tiles(job.rows), header_, job.table};
  const std::uint64_t bytes = bytes_of(call.experts + call.tokens + 2, 1, 8) + bytes_of(call.routed, 1, 4) +
                              bytes_of(call.slots, 1, 4) + table_bytes(job.rows);
  add("check routes", MoeStepKind::check, bytes, [job](cudaStream_t stream) { return check_routes(job, stream); });
}

TiledRows MoeBuilder::plain_rows(std::int64_t rows) const {
  return {rows, (rows + kTileRows - 1) / kTileRows, header_, nullptr};
}

void MoeBuilder::add(std::string name, MoeStepKind kind, std::uint64_t bytes,
                     std::function<cudaError_t(cudaStream_t)> enqueue) {
  plan_.steps.push_back({std::move(name), kind, bytes, 0, std::move(enqueue), std::nullopt});
}

void MoeBuilder::add_gemm(std::string name, std::uint64_t bytes, std::uint64_t products, const MoeGemm& gemm,
                          std::function<cudaError_t(cudaStream_t)> enqueue) {
  plan_.steps.push_back({std::move(name), MoeStepKind::gemm, bytes, products, std::move(enqueue), gemm});
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
  plan_.workspace_bytes = memory.bytes();
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

void require_tiles(const char* name, std::int64_t m, std::int64_t n, std::int64_t experts, bool depth) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::int64_t rows = m / 128 + 1;
  const std::int64_t all_rows = depth ? rows * experts : rows + experts;
  if (all_rows <= kMost / (n / 128 + 1)) return;
  unsupported(std::string(name) + " has more tiles of 128x128 than are offered: at most " + std::to_string(kMost));
}

}  // namespace mxcheck_kernels::sm90
