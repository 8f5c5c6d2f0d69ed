#include "properties/operations/matmul/operation.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "numerics/text.h"
#include "properties/core/case_text.h"
#include "properties/core/invalid_call.h"
#include "properties/core/limits.h"
#include "properties/operations/matmul/masked.h"
#include "properties/operations/matmul/problem.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostCodes = std::int64_t{1} << 36;  // of an operand

constexpr std::int64_t kMostCancels = 128;  // k of a block

// K is cut by no block of 128, nor is a group's.
bool has_ragged_depth(const Case& c) {
  const bool by_depth = matmul_of(c.variant).groups == MXCHECK_DEPTH;
  return matmul_case(c).depth % 128 != 0 ||
         (by_depth && std::any_of(c.experts.begin(), c.experts.end(), [](std::int64_t e) { return e % 128 != 0; }));
}

std::vector<InvalidCall> invalid_matmuls() {
  using P = mxcheck_matmul_policy;
  return {
      invalid_policy<P>("the policy's depth disagrees with the operands", [](P& p) { return p.depth += 128, true; }),
      {"the second operand's format is unknown",
       [](Call& c) {
         const std::string wrong = "z" + std::string(read<P>(c.policy).format_b).substr(1);
         edit<P>(c.policy, [&](P& p) { p.format_b = wrong.c_str(); });
         return true;
       }},
      invalid_policy<P>("the depth is negative", [](P& p) { return p.depth = -1, true; }),
      invalid_policy<P>("the depth is 2^63 - 1", [](P& p) { return p.depth = INT64_MAX, true; }),
      wrapping_policy<P>("the depth is 2^32 more", [](P& p) { return p.depth += std::int64_t{1} << 32, true; }),
      invalid_policy<P>("accumulate is 2", [](P& p) { return std::exchange(p.accumulate, 2) == 1; }),  // C is there
      {"offsets are there and no groups",
       [](Call& c) { return read<P>(c.policy).grouping == MXCHECK_DENSE && unwanted_offsets().make(c); }},
      {"offsets of groups are missing",
       [](Call& c) {
         const auto offsets =
             std::find_if(c.inputs.begin(), c.inputs.end(), [](const CallTensor& t) { return t.is_offsets; });
         if (offsets == c.inputs.end()) return false;
         c.inputs.erase(offsets);
         return true;
       }},
      invalid_policy<P>("the type of scales is negative", [](P& p) { return p.scale_type = -1, true; }),
      invalid_policy<P>("the kind of groups is negative", [](P& p) { return p.grouping = -1, true; }),
      invalid_policy<P>("the type of scales is unknown", [](P& p) { return p.scale_type = 9, true; }),
      invalid_policy<P>("the kind of groups is unknown", [](P& p) { return p.grouping = 9, true; }),
      invalid_policy<P>("C is promised and missing", [](P& p) { return std::exchange(p.accumulate, 1) == 0; }),
      invalid_policy<P>("C is there that was not promised", [](P& p) { return std::exchange(p.accumulate, 0) != 0; }),
      invalid_policy<P>("the blocks of the second operand are of negative size",
                        [](P& p) { return p.block_b_cols = -128, true; }),
      invalid_policy<P>("the blocks of the second operand have 2^63 - 1 rows",
                        [](P& p) { return p.block_b_rows = INT64_MAX, true; }),
  };
}

class MatmulOperation final : public OperationOf<MatmulProblem> {
 public:
  [[nodiscard]] std::string_view name() const override { return "matmul"; }
  [[nodiscard]] std::string variant_name(std::string_view contract) const override {
    (void)parse_matmul_contract(contract);
    return "matmul:" + std::string(contract);
  }
  [[nodiscard]] bool has_contracts() const override { return true; }
  [[nodiscard]] bool promises_bits(std::string_view operation) const override {
    return parse_matmul_contract(contract_text(operation)).promises_bits();
  }
  [[nodiscard]] std::vector<Variant> askable(const std::string& operation) const override {
    return askable_matmuls(operation);
  }

  [[nodiscard]] Policy policy(const Case& c) const override {
    const MatmulVariant& v = matmul_of(c.variant);
    const MatmulCase& own = matmul_case(c);
    mxcheck_matmul_policy p{};
    p.policy.format = spec(v.format).name.data();
    p.policy.block_rows = v.block.rows, p.policy.block_cols = v.block.cols;
    p.policy.rows = c.rows, p.policy.cols = c.cols;
    p.policy.threads = c.threads;
    p.format_b = spec(v.format_b).name.data();
    p.block_b_rows = v.block_b.rows, p.block_b_cols = v.block_b.cols;
    p.depth = own.depth;
    p.scale_type = v.scales, p.grouping = v.groups;
    p.accumulate = own.adds ? 1 : 0;
    p.alpha = own.alpha;
    return pack(p, {offsetof(mxcheck_matmul_policy, format_b)});
  }
  [[nodiscard]] std::optional<IdentifiedAs> identified_as(const Variant& v) const override {
    if (matmul_of(v).groups != MXCHECK_DENSE) return std::nullopt;
    return Operation::identified_as(v);
  }

  [[nodiscard]] std::string variant_text(const Variant& variant) const override {
    const MatmulVariant& v = matmul_of(variant);
    return fmt::format("op={} format={} format_b={} block={} block_b={} scales={} groups={} d={}", variant.operation,
                       spec(v.format).name, spec(v.format_b).name, block_field_text(v.block),
                       block_field_text(v.block_b), kScaleTypes[static_cast<std::size_t>(v.scales)],
                       kGroupings[static_cast<std::size_t>(v.groups)], spec(variant.dtype).name);
  }
  [[nodiscard]] std::string shape_text(const Case& c) const override {
    std::string text = fmt::format(" depth={}", matmul_case(c).depth);
    if (is_masked(c.variant))
      text += " counts=" + join(matmul_case(c).counts, ",", [](std::int64_t n) { return std::to_string(n); });
    return text;
  }
  [[nodiscard]] std::string option_text(const Case& c) const override {
    std::string text;
    if (matmul_case(c).adds) text += " adds=1";
    if (matmul_case(c).alpha != 1) text += fmt::format(" alpha={}", matmul_case(c).alpha);
    if (matmul_case(c).cancels != 0) text += fmt::format(" cancels={}", matmul_case(c).cancels);
    return text;
  }
  bool set_field(Case& c, std::string_view field, std::string_view value) const override;
  void check(const Case& c) const override;

  [[nodiscard]] std::unique_ptr<Domain> domain(const DomainRequest& request) const override {
    return matmul_domain(request);
  }
  [[nodiscard]] std::vector<Case> simpler(const Case& c, const Finding& finding) const override {
    return simpler_matmuls(c, finding);
  }
  [[nodiscard]] std::int64_t experts_end(const Case& c) const override {
    return matmul_of(c.variant).groups == MXCHECK_DEPTH ? matmul_case(c).depth : c.rows;
  }
  void halve_rows(Case& c) const override {
    c.rows /= 2;
    fit(c);
  }
  void fit(Case& c) const override {
    fit_experts(c);
    fit_counts(c);
  }
  [[nodiscard]] std::int64_t work(const Case& c) const override { return c.elements() * matmul_case(c).depth; }

  [[nodiscard]] bool any_nan_is_equal(std::string_view operation) const override {
    return any_nan_in_d_is_equal(operation);
  }

  // C, alpha, a row index, ends that are no multiple of 128, operands that are not at multiples of 16 bytes.
  [[nodiscard]] bool is_option(const Case& c) const override {
    const bool is_misaligned = c.misaligned.inputs[0] % 16 != 0 || c.misaligned.inputs[1] % 16 != 0;
    return matmul_case(c).adds || matmul_case(c).alpha != 1 || c.gather != 0 || has_ragged_depth(c) || is_misaligned;
  }
  [[nodiscard]] Case without_options(Case c) const override {
    matmul_case(c).adds = false, matmul_case(c).alpha = 1;
    c.gather = 0;
    c.misaligned.inputs[0] = c.misaligned.inputs[1] = 0;
    const auto whole = [](std::int64_t depth) { return (depth + 127) / 128 * 128; };
    matmul_case(c).depth = whole(matmul_case(c).depth);
    if (matmul_of(std::as_const(c).variant).groups == MXCHECK_DEPTH) {
      for (std::int64_t& end : c.experts) end = whole(end);
    }
    return c;
  }
  [[nodiscard]] std::vector<InvalidCall> invalid_calls() const override {
    std::vector<InvalidCall> all = disagreeing_extents({unknown_format(), unknown_layout(), negative_layout()});
    const auto end = [](const Call& call) {
      const auto p = read<mxcheck_matmul_policy>(call.policy);
      return p.grouping == MXCHECK_DEPTH ? p.depth : p.policy.rows;
    };
    std::vector<InvalidCall> offsets = invalid_offsets(end);
    for (InvalidCall& one : offsets) {
      one.make = [make = one.make](Call& call) {
        return read<mxcheck_matmul_policy>(call.policy).grouping != MXCHECK_MASKED && make(call);
      };
    }
    add_invalid(all, {invalid_blocks(), offsets, invalid_counts(), invalid_matmuls(), invalid_row_index()});
    return all;
  }
  [[nodiscard]] bool has_invalid_calls(const Case& c) const override {
    return Operation::has_invalid_calls(c) && matmul_case(c).depth >= 2;
  }
  [[nodiscard]] std::vector<Case> large_cases(const Variant& v, Suite suite) const override {
    if (suite == Suite::quick && v.dtype != Format::bf16) return {};
    return {matmul_corner(v, 515, 263, 256, Data::normal, 5)};
  }
};

std::vector<std::int64_t> counts_field(std::string_view field, std::string_view value) {
  std::vector<std::int64_t> counts;
  for (const std::string_view part : split(value, ',')) counts.push_back(number_field<std::int64_t>(field, part));
  return counts;
}

bool MatmulOperation::set_field(Case& c, std::string_view field, std::string_view value) const {
  MatmulVariant& v = matmul_of(c.variant);
  MatmulCase& own = matmul_case(c);
  const FieldText f{field, value};
  return f.format("format", v.format) || f.format("format_b", v.format_b) ||
         f.read("block", [&] { v.block = block_field(value); }) ||
         f.read("block_b", [&] { v.block_b = block_field(value); }) || f.word("scales", v.scales, kScaleTypes) ||
         f.word("groups", v.groups, kGroupings) || f.number("depth", own.depth) ||
         f.read("counts", [&] { own.counts = counts_field(field, value); }) ||
         f.read("adds", [&] { own.adds = number_field<int>(field, value) != 0; }) || f.number("alpha", own.alpha) ||
         f.number("cancels", own.cancels);
}

void MatmulOperation::check(const Case& c) const {
  const std::int64_t depth = matmul_case(c).depth;
  const auto too_large = [](std::int64_t a, std::int64_t b) { return b != 0 && a > kMostCodes / b; };
  if (depth < 0 || too_large(c.rows, depth) || too_large(c.cols, depth)) {
    throw Error(ErrorKind::usage, fmt::format("a matmul of {} x {} x {}; operands of at most 2^36 codes are possible",
                                              c.rows, c.cols, depth));
  }
  const std::int64_t cancels = matmul_case(c).cancels;
  if (cancels < 0 || cancels > kMostCancels) {
    throw Error(ErrorKind::usage, fmt::format("case field cancels is {}: 0 to {} is possible", cancels, kMostCancels));
  }
  check_masked(c);
  const int groups = matmul_of(c.variant).groups;
  if ((groups == MXCHECK_ROWS || groups == MXCHECK_DEPTH) == c.experts.empty()) {
    throw Error(ErrorKind::usage, "case field experts goes with groups=rows and groups=depth");
  }
  if (!c.plants.empty() || c.stride != 0) throw Error(ErrorKind::usage, "a matmul has neither plants nor a stride");
}

}  // namespace

bool any_nan_in_d_is_equal(std::string_view operation) {
  const MatmulContract contract = parse_matmul_contract(contract_text(operation));
  return contract.sum->arithmetic != Arithmetic::fused || contract.promotion != 0 || !contract.promises_bits();
}

bool any_nan_in_d_is_equal(const Case& c) {
  const bool adds_last = matmul_case(c).adds && !parse_matmul_contract(contract_text(c.variant.operation)).from_c;
  return matmul_case(c).alpha != 1 || adds_last || any_nan_in_d_is_equal(c.variant.operation);
}

OperationModule matmul_module() {
  static const MatmulOperation kMatmul;
  OperationModule module{{&kMatmul}, matmul_statements()};
  for (Statement& s : large_matmul_statements()) module.statements.push_back(std::move(s));
  return module;
}

}  // namespace mxcheck
