// GEMMs: the bits of D are those of the contract that the operation claims.

#include "properties/operations/matmul/problem.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "properties/core/check.h"
#include "properties/core/layers/layers.h"
#include "properties/core/limits.h"
#include "properties/core/notation.h"
#include "properties/gpu_model/gpu_model.h"
#include "properties/operations/matmul/fields.h"
#include "properties/operations/matmul/operation.h"
#include "reference/matmul/matmul.h"

namespace mxcheck {
namespace {

std::optional<Finding> equals_contract(CheckContext& context, const Case& c) {
  const ProblemAndAnswer posed = problem_and_answer_of(context, c);
  const auto& p = static_cast<const MatmulProblem&>(*posed.problem);
  const ExpectedTensor& expected = posed.answer.front();
  const bool large = c.elements() > 100'000;
  for (std::uint8_t poison : kPoisons) {
    if (large && poison != kPoisons[c.seed & 1]) continue;
    const CallOutputs got = run_problem(context, p, poison, &posed.answer);
    if (!got.usable()) return propagate(context, got);
    if (got.are_the_answer) continue;
    auto finding = differ(expected.info, expected.bytes, got.outputs[0],
                          "D differs from its contract, " + std::string(contract_text(c.variant.operation)));
    if (!finding) continue;
    p.explain(0, *finding);
    if (context.thorough) tell_matches(p, posed.answer, got.outputs, *finding, {poison, context.causes});
    return finding;
  }
  return std::nullopt;
}

// Integers: no contract rounds, so that the exact product is the only right one, whatever was claimed.
std::optional<Finding> sums_integers(CheckContext& context, const Case& c) {
  const MatmulProblem p(c);
  const CallOutputs got = run_problem(context, p);
  if (!got.usable()) return propagate(context, got);
  const bool in_bf16 = matmul_of(c.variant).scales == MXCHECK_E4M3;  // exact in BF16, and no operand of "exact" itself
  const ExpectedTensor expected = p.answer(parse_matmul_contract(in_bf16 ? "exact+decode" : "exact"));
  auto finding =
      differ(expected.info, expected.bytes, got.outputs[0], "D differs from the exact product of small integers");
  if (finding) p.explain(0, *finding);
  return finding;
}

// C in D's own memory: D is what it is in memory of its own.
std::optional<Finding> updates_in_place(CheckContext& context, const Case& c) {
  Case adding = c;
  matmul_case(adding).adds = true;
  const MatmulProblem p(adding);
  const CallOutputs apart = run_problem(context, p);
  if (!apart.usable()) return propagate(context, apart);
  Call call = p.call();
  call.misaligned = c.misaligned;
  call.outputs[0].in_place_of = matmul_of(c.variant).scales != MXCHECK_NO_SCALES ? 4 : 2;
  call.guard_pages = (c.seed & 1) != 0;
  CallOutputs in_place = run_call(context, call, adding);
  if (!in_place.usable() && !in_place.finding && call.guard_pages) {
    // Between guards operands begin where they must to end at a page, which may be refused.
    call.guard_pages = false;
    in_place = run_call(context, call, adding);
  }
  if (in_place.finding) return in_place.finding;
  if (!in_place.usable()) {
    Finding finding;
    finding.kind = FindingKind::refused;
    finding.summary = "the candidate takes C, and not where it is in D's memory";
    return finding;
  }
  return differ(p.outputs[0], apart.outputs[0], in_place.outputs[0], "D differs where C is in its memory");
}

bool is_plain(const Variant& v) {
  return is_matmul(v.operation) && promises_bits(v) && parse_matmul_contract(contract_text(v.operation)).from_c;
}

Statement scales_statement(const Statement& equality) {
  Statement scales = equality;
  scales.name = "matmul_of_special_scales_equals_its_contract";
  scales.sentence =
      "scales that are negative, zero, subnormal, infinite or NaN (FP32), 0, 254 or 255 (E8M0), zero, NaN or signed "
      "(E4M3), give the contract's bits, each of A with those of B";
  scales.applies = [](const Variant& v, std::span<const Variant>) {
    return is_matmul(v.operation) && promises_bits(v) && matmul_of(v).scales != MXCHECK_NO_SCALES;
  };
  scales.data = {};
  scales.corners = matmuls_of_special_scales;
  scales.shared_corners = matmuls_of_special_blocks;
  scales.cases_per_variant = 0, scales.covers_pairs = false;
  return scales;
}

}  // namespace

constexpr int kBitsOfIntegers = 13;  // below the first: of the sums of matmul_of_small_integers_is_exact

std::vector<Statement> matmul_statements() {
  std::vector<Statement> s(4);
  const auto promises = [](const Variant& v, std::span<const Variant>) {
    return is_matmul(v.operation) && promises_bits(v);
  };
  s[0].name = "matmul_equals_its_contract";
  s[0].sentence =
      "every output has the bits that the operation's accumulation contract gives, whatever the shape, groups and data";
  s[0].source = "reference/matmul/matmul.h; numerics/accumulate/contract.h";
  s[0].applies = promises;
  s[0].data = {Data::normal, Data::normal, Data::boundaries, Data::boundaries, Data::slots,
               Data::wide,   Data::bits,   Data::specials,   Data::sparse};
  s[0].experts = 0, s[0].strides = false;
  s[0].check = equals_contract;
  s[0].corners = usual_matmuls;
  s[0].cases_per_variant = 2;
  s[0].covers_pairs = true;

  s[1] = s[0];
  s[1].applies = [](const Variant& v, std::span<const Variant>) {
    return is_matmul(v.operation) && parse_matmul_contract(contract_text(v.operation)).kept_bits >= kBitsOfIntegers;
  };
  s[1].name = "matmul_of_small_integers_is_exact";
  s[1].sentence = "where no rounding can happen, D is the exact product, whatever contract is claimed";
  // Products of at most 4 over a drawn k of at most 2560, and a C of at most 4.
  s[1].source = "sums below 2^14, which the 14 significant bits of the narrowest accumulator hold";
  s[1].data = {Data::codes};
  s[1].check = sums_integers;
  s[1].corners = {};
  s[1].cases_per_variant = 2;
  s[1].covers_pairs = false;

  s[2] = s[0];
  s[2].name = "matmul_sums_are_the_tensor_cores";
  s[2].sentence =
      "sums that start from C are the chained steps of the contract: by the million, several widths of the instruction";
  s[2].source = "numerics/accumulate/fused_sum.h";
  s[2].applies = [](const Variant& v, std::span<const Variant>) { return is_plain(v); };
  s[2].data = {};
  s[2].corners = many_sums_of_steps;

  s[3] = s[1];
  s[3].applies = promises;
  s[3].name = "matmul_updates_c_in_place";
  s[3].sentence = "where C lies in D's memory, D is the same as where it does not";
  s[3].source = "kernels/candidate_matmul.h";
  s[3].data = {Data::normal, Data::boundaries, Data::specials};
  s[3].check = updates_in_place;
  s.push_back(any_order_statement(s[0]));
  s.push_back(accuracy_statement(s[0]));
  s.push_back(scales_statement(s[0]));
  s[0].shared_corners = matmuls_of_each_kind;
  return s;
}

// GEMMs of production size: every output against the GPU model, on the device.

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
  difference.kinds = {kind_of(d, difference.first)};
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
  if (!model || limits == nullptr || !is_within_limits(c, *limits)) return not_applicable(context);
  context.not_checked = context.process.why_no_model();
  if (!context.not_checked.empty()) return std::nullopt;
  const MatmulProblem p(c);
  Call call = p.call();
  call.poison = kPoisons[c.seed & 1];
  call.model = *model;
  call.outputs[0].on_device = true;
  const CallVerdict ran = run_checked(context.process, call, c);
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

namespace {

std::optional<int> model_format(std::string_view sum, Format format) {
  if (sum == "sm90_fp8" && format == Format::e4m3) return MXCHECK_GPU_MODEL_E4M3;
  if (sum == "sm90_fp8" && format == Format::e5m2) return MXCHECK_GPU_MODEL_E5M2;
  if (sum == "sm90_bf16" && format == Format::bf16) return MXCHECK_GPU_MODEL_BF16;
  if (sum == "sm90_fp16" && format == Format::fp16) return MXCHECK_GPU_MODEL_FP16;
  if (sum == "sm90_tf32" && format == Format::fp32) return MXCHECK_GPU_MODEL_TF32;
  return std::nullopt;
}

// The GPU model of a variant's GEMMs, as far as the variant alone decides; nothing where there is none.
std::optional<DeviceModel> model_of_variant(const Variant& variant) {
  if (!is_matmul(variant.operation) || is_masked(variant)) return std::nullopt;
  if (variant.dtype != Format::fp32 && variant.dtype != Format::bf16) return std::nullopt;
  const MatmulVariant& v = matmul_of(variant);
  const MatmulContract contract = parse_matmul_contract(contract_text(variant.operation));
  // Whatever a contract may say beside these three, the model knows nothing of.
  MatmulContract known;
  known.sum = contract.sum, known.promotion = contract.promotion;
  known.decodes = contract.decodes, known.from_c = contract.from_c;
  if (to_text(known) != to_text(contract)) return std::nullopt;
  DeviceModel model;
  model.promotion = static_cast<std::int32_t>(contract.promotion);
  constexpr BlockShape kMx{1, 32};
  const bool is_mx = v.format == Format::e4m3 && v.format_b == Format::e4m3 && v.scales == MXCHECK_E8M0 &&
                     v.block == kMx && v.block_b == kMx;
  if (contract.decodes && !is_mx && v.scales != MXCHECK_E4M3) return std::nullopt;
  if (contract.decodes) model.decodes = is_mx ? DeviceModel::kDecodesMx : DeviceModel::kDecodesNvfp4;
  const Format a = contract.decodes ? Format::bf16 : v.format;
  const Format b = contract.decodes ? Format::bf16 : v.format_b;
  const auto a_format = model_format(contract.sum->name, a);
  const auto b_format = model_format(contract.sum->name, b);
  if (!a_format || !b_format || contract.promotion % contract.sum->step.terms != 0) return std::nullopt;
  model.a_format = *a_format, model.b_format = *b_format;
  if (v.scales == MXCHECK_NO_SCALES || contract.decodes) return model;
  const auto fits = [&](BlockShape block) { return block.cols > 0 && block.cols % contract.promotion == 0; };
  const bool blocks = contract.promotion != 0 && fits(v.block) && fits(v.block_b) && v.block.rows == 1 &&
                      (v.block_b.rows == 1 || v.block_b.rows == 128);
  return blocks ? std::optional(model) : std::nullopt;
}

// Groups with k start where the model begins intervals and blocks: at multiples of each.
bool depth_groups_fit(const Case& c, const DeviceModel& model) {
  const std::int64_t of[] = {model.promotion, matmul_of(c.variant).block.cols, matmul_of(c.variant).block_b.cols};
  for (std::size_t e = 1; e < c.experts.size(); ++e) {
    if (c.experts[e] == c.experts[e - 1]) continue;
    if (std::any_of(std::begin(of), std::end(of), [&](std::int64_t n) { return n > 0 && c.experts[e - 1] % n != 0; }))
      return false;
  }
  return true;
}

}  // namespace

bool model_knows(const Variant& v) { return model_of_variant(v).has_value(); }

std::optional<DeviceModel> model_of(const Case& c) {
  const auto model = model_of_variant(c.variant);
  if (!model) return std::nullopt;
  const bool from_c = parse_matmul_contract(contract_text(c.variant.operation)).from_c;
  if (matmul_case(c).adds && (from_c || c.variant.dtype != Format::fp32)) return std::nullopt;
  if (matmul_of(c.variant).groups == MXCHECK_DEPTH && !depth_groups_fit(c, *model)) return std::nullopt;
  return model;
}

}  // namespace mxcheck
