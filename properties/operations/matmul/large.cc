// GEMMs of production size: every output against the GPU model, on the device.

#include <algorithm>
#include <span>

#include "properties/core/check.h"
#include "properties/core/layers/layers.h"
#include "properties/core/limits.h"
#include "properties/core/notation.h"
#include "properties/operations/matmul/model_claim.h"
#include "properties/operations/matmul/operation.h"
#include "properties/operations/matmul/problem.h"

namespace mxcheck {
namespace {

std::int64_t outputs_of(const TensorInfo& d) { return d.rows * d.cols; }

bool same_word(const TensorInfo& d, std::uint32_t a, std::uint32_t b) {
  return ulp_distance_of_codes(d.format, a, b) == 0 || a == b;
}

// The first output that differs, with the steps that lead to it, computed here from the same operands.
Finding finding_of(const MatmulProblem& p, const DeviceComparison& found) {
  const TensorInfo& d = p.outputs[0];
  Finding finding;
  finding.kind = FindingKind::mismatch;
  finding.summary = "D differs from the GPU model of " + std::string(contract_text(p.c.variant.operation));
  Difference& difference = finding.difference.emplace();
  difference.tensor = d;
  difference.count = static_cast<std::int64_t>(found.differing);
  difference.total = static_cast<std::int64_t>(found.compared);
  const auto at = static_cast<std::int64_t>(found.first);
  difference.first = {at / d.cols, at % d.cols, found.expected, found.observed,
                      ulp_distance_of_codes(d.format, found.expected, found.observed)};
  difference.last = difference.worst = difference.first;
  difference.first_alone = true;
  const std::uint32_t reference = p.explain_steps(finding);
  if (!same_word(d, reference, found.expected)) {
    finding.summary = "the GPU model itself differs from the reference, a defect of mxcheck; nothing is said of D";
    finding.element.push_back("reference " + notations(d.format, reference));
  }
  return finding;
}

std::optional<Finding> equals_gpu_model(CheckContext& context, const Case& c) {
  const auto model = model_of(c);
  const OperationInfo* limits = context.process.operation(c.variant.operation);
  if (!model || limits == nullptr || !is_within_limits(c, *limits)) return nothing_claimed(context);
  context.not_checked = context.process.why_no_model();
  if (!context.not_checked.empty()) return std::nullopt;
  const MatmulProblem p(c);
  Call call = p.call();
  call.poison = kPoisons[c.seed & 1];
  call.model = *model;
  call.outputs[0].on_device = true;
  const Ran ran = run_checked(context.process, call, c);
  if (ran.finding) return ran.finding;
  if (!ran.outcome) {
    context.not_offered = true;
    return std::nullopt;
  }
  const DeviceComparison& found = ran.outcome->comparison;
  context.not_checked = ran.outcome->not_compared;
  if (context.not_checked.empty() && static_cast<std::int64_t>(found.compared) != outputs_of(p.outputs[0])) {
    context.not_checked = "the GPU model compared " + std::to_string(found.compared) + " of " +
                          std::to_string(outputs_of(p.outputs[0])) + " outputs";
  }
  if (!context.not_checked.empty() || found.differing == 0) return std::nullopt;
  return finding_of(p, found);
}

// Experts, at most eight, of about the same size, none a multiple of a tile; of eight one is empty; along depth whole
// blocks of 128.
void make_ragged(Case& c, std::int64_t experts = 8) {
  const bool by_depth = matmul_of(c.variant).groups == MXCHECK_DEPTH;
  const std::int64_t end = by_depth ? matmul_case(c).depth : c.rows;
  const std::int64_t unit = by_depth ? 128 : 1;
  static constexpr std::int64_t kParts[] = {0, 131, 250, 250, 517, 641, 768, 905};  // of 1024
  c.experts.clear();
  for (std::int64_t e = 0; e < experts; ++e) c.experts.push_back(end * kParts[8 * e / experts] / 1024 / unit * unit);
  c.experts.push_back(end);
}

// `tokens` rows, or, for weight gradients, so many of depth.
Case production(const Variant& v, std::int64_t tokens, Data data, std::uint64_t seed) {
  const int groups = matmul_of(v).groups;
  const bool gradient = groups == MXCHECK_DEPTH;
  Case c =
      gradient ? matmul_corner(v, 7168, 2048, tokens, data, seed) : matmul_corner(v, tokens, 7168, 2048, data, seed);
  if (groups != MXCHECK_DENSE) make_ragged(c);
  return c;
}

std::vector<Case> large_corners(const Variant& v, Suite suite) {
  std::vector<Case> cases;
  const auto add = [&cases](Case c) {
    if (model_of(c)) cases.push_back(std::move(c));
  };
  add(matmul_corner(v, 2048, 1536, 1024, Data::normal, 21));
  if (suite == Suite::quick) return cases;
  add(matmul_corner(v, 2048, 1536, 1024, Data::boundaries, 22));
  add(matmul_corner(v, 2048, 1536, 1024, Data::specials, 23));
  add(production(v, 8192, Data::normal, 24));
  if (suite == Suite::full || matmul_of(v).format != matmul_of(v).format_b) return cases;
  add(production(v, 131'072, Data::normal, 25));
  // More than 2^31 outputs.
  if (matmul_of(v).groups == MXCHECK_DENSE) add(matmul_corner(v, 300'032, 7168, 128, Data::normal, 26));
  return cases;
}

// The products of a layer as one device of many computes them under expert parallelism (DeepSeek-V3's 256 experts on 32
// devices are eight on each): m, n and k whole, 512 rows to an expert, and as many experts, at most eight, as keep the
// weights, which are drawn on the host, below 2^28 elements.
std::vector<Case> layer_products(const Variant& v, const ProductionLayer& layer, std::uint64_t seed) {
  constexpr std::int64_t kMostWeights = std::int64_t{1} << 28;
  const std::int64_t fitting = std::clamp<std::int64_t>(kMostWeights / (2 * layer.n * layer.d), 1, 8);
  const std::int64_t experts = std::min(fitting, layer.experts);
  const std::int64_t rows = 512 * experts;
  const bool gradient = matmul_of(v).groups == MXCHECK_DEPTH;
  std::vector<Case> cases;
  if (gradient) {
    cases = {matmul_corner(v, layer.d, 2 * layer.n, rows, Data::normal, seed),
             matmul_corner(v, layer.n, layer.d, rows, Data::normal, seed + 1)};
  } else {
    cases = {matmul_corner(v, rows, 2 * layer.n, layer.d, Data::normal, seed),
             matmul_corner(v, rows, layer.d, layer.n, Data::normal, seed + 1)};
  }
  for (Case& c : cases) make_ragged(c, experts);
  return cases;
}

// Each layer once with groups of rows and once with groups of depth (its weights' gradients), from one variant to the
// next: a kernel's tiles do not depend on the formats, so that all variants together meet all layers.
std::vector<Case> layer_corners(std::span<const Variant> variants, Suite suite) {
  std::vector<Case> cases;
  if (suite == Suite::quick) return cases;
  for (const int groups : {MXCHECK_ROWS, MXCHECK_DEPTH}) {
    std::vector<Variant> of;
    for (const Variant& v : variants) {
      if (matmul_of(v).groups == groups) of.push_back(v);
    }
    for (std::size_t i = 0; !of.empty() && i < production_layers().size(); ++i) {
      for (Case& c :
           layer_products(of[i % of.size()], production_layers()[i], 30 + 4 * i + (groups == MXCHECK_DEPTH ? 2 : 0))) {
        if (model_of(c)) cases.push_back(std::move(c));
      }
    }
  }
  return cases;
}

}  // namespace

std::vector<Statement> large_matmul_statements() {
  Statement s;
  s.name = "large_products_equal_the_gpu_model";
  s.sentence =
      "every output of products of production size (131072 x 7168 x 2048, and more than 2^31 outputs, in the "
      "exhaustive suite) has the bits that the contract's model computes on the device";
  s.source = "properties/gpu_model/gpu_model.h; numerics/accumulate/contract.h";
  s.device = Statement::Device::cuda;
  s.applies = [](const Variant& v, std::span<const Variant>) { return model_knows(v); };
  s.check = equals_gpu_model;
  s.corners = large_corners;
  s.shared_corners = layer_corners;
  s.experts = 0, s.strides = false;
  s.recorded = false;
  return {s};
}

}  // namespace mxcheck
