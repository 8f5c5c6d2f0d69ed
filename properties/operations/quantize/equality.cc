// The candidate's bytes are the reference's bytes.

#include "kernels/candidate.h"
#include "numerics/scale/recipe.h"
#include "properties/core/check.h"
#include "properties/operations/quantize/operation.h"
#include "properties/operations/quantize/problem.h"
#include "properties/operations/scaled_blocks/expand.h"
#include "properties/operations/scaled_blocks/operation.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostToMatch = 1'000'000;  // elements: a reference answer for each recipe costs time
constexpr std::uint64_t kChunk = std::uint64_t{1} << 24;

// Which other recipe would give exactly the observed bytes: the likeliest cause, by name.
std::vector<std::string> recipes_that_match(const Problem& problem,
                                            const std::vector<std::vector<std::byte>>& observed) {
  const auto& p = dynamic_cast<const QuantizeProblem&>(problem);
  if (p.c.elements() > kMostToMatch) return {};
  const std::string& own = blocks_of(p.c.variant).recipe;
  std::vector<std::string> names;
  const auto try_recipe = [&](const Recipe& recipe, const std::string& name) {
    const std::vector<ExpectedTensor> answer = p.answer(recipe);
    bool equal = true;
    for (std::size_t i = 0; i < answer.size(); ++i) equal = equal && answer[i].bytes == observed[i];
    if (equal) names.push_back(name);
  };
  for (const Recipe& recipe : all_recipes()) {
    if (recipe.has_e8m0_scales() && recipe.name != own) try_recipe(recipe, "recipe " + recipe.name);
  }
  Recipe changed = recipe_named(own);
  changed.rounding = Rounding::nearest_away, try_recipe(changed, "ties away from zero");
  changed.rounding = Rounding::toward_zero, try_recipe(changed, "rounding toward zero");
  changed = recipe_named(own);
  changed.overflow = Overflow::non_saturate, try_recipe(changed, "a non-saturating cast");
  return names;
}

std::optional<Finding> equals_reference(CheckContext& context, const Case& c) {
  const Posed posed = posed_of(context, c);
  EqualityOptions options;
  const bool one_of_many = c.data == Data::every_amax || c.data == Data::every_word;  // chunks of a whole domain
  if (one_of_many) options.poison_of_large = kPoisons[c.seed >> 24 & 1];
  if (c.variant.operation != "cast") options.matches = recipes_that_match;
  return equals_answer(context, *posed.problem, posed.answer, options);
}

bool is_quantize(const Variant& v, BlockShape block) {
  return v.operation == "quantize" && blocks_of(v).block == block && blocks_of(v).layout == MXCHECK_COMPACT &&
         v.dtype != Format::fp16;
}

Statement every_bf16_value() {
  Statement s;
  s.name = "every_bf16_value_at_every_scale_is_cast_as_the_reference";
  s.sentence =
      "each of the 65,536 BF16 values, in a block of every scale byte that a BF16 amax can have, gets the reference's "
      "code";
  s.source = "OCP MX 1.0 section 6.3; OFP8 1.0 section 5";
  const auto is_norm = [](const Variant& v) {
    return blocks_of(v).recipe == "rceil" || blocks_of(v).recipe == "floor";
  };
  s.applies = [is_norm](const Variant& v, std::span<const Variant>) {
    return is_quantize(v, {1, 32}) && (is_norm(v) || v.dtype == Format::bf16);
  };
  s.check = equals_reference;
  s.corners = [is_norm](const Variant& v, Suite suite) -> std::vector<Case> {
    if (suite == Suite::quick && !(is_norm(v) && v.dtype == Format::bf16)) return {};
    return {blocks_corner(v, kEveryBf16Rows, 32, Data::every_bf16, 0)};
  };
  return s;
}

Statement every_amax() {
  Statement s;
  s.name = "every_amax_is_scaled_as_the_reference";
  s.sentence =
      "each non-negative BF16 amax (and, in the exhaustive suite, each FP32 amax) gets the reference's scale byte";
  s.source = "numerics/scale/scale_rule.h: the rule's exact definition";
  s.applies = [](const Variant& v, std::span<const Variant>) { return is_quantize(v, {1, 32}); };
  s.check = equals_reference;
  s.corners = [](const Variant& v, Suite suite) {
    std::vector<Case> cases;
    if (v.dtype == Format::bf16) cases.push_back(blocks_corner(v, 32768, 1, Data::every_amax, 0));
    if (v.dtype == Format::fp32) {
      // Around 448 * 2^-127, 448 * 2^-126 and 448: the ends of the subnormal quotients and an ordinary edge.
      for (std::uint64_t from : {0x04600000U - 4096U, 0x04E00000U - 4096U, 0x43E00000U - 4096U, 0x7F7FF000U, 0U}) {
        cases.push_back(blocks_corner(v, 8192, 1, Data::every_amax, from));
      }
    }
    // ocp is floor by another name.
    if (v.dtype == Format::fp32 && suite == Suite::exhaustive && blocks_of(v).recipe != "ocp") {
      for (std::uint64_t from = 0; from < (std::uint64_t{1} << 31); from += kChunk) {
        cases.push_back(blocks_corner(v, static_cast<std::int64_t>(kChunk), 1, Data::every_amax, from));
      }
    }
    return cases;
  };
  return s;
}

Statement cpu_library() {
  Statement s;
  s.name = "large_tensors_equal_the_cpu_library";
  s.sentence =
      "tensors of production size (up to more than 2^32 elements in the exhaustive suite) have the bytes of the "
      "in-tree CPU library";
  s.source = "kernels/cpu";
  s.device = Statement::Device::cuda;
  s.applies = [](const Variant& v, std::span<const Variant> all) {
    if (v.operation != "quantize" && v.operation != "quantize_dual") return false;
    const ScaledBlocksVariant& blocks = blocks_of(v);
    Variant tiled = v;
    blocks_of(tiled).layout = MXCHECK_TCGEN05;
    const bool preferred = blocks.layout == (offers(all, tiled) ? MXCHECK_TCGEN05 : MXCHECK_COMPACT);
    return preferred && v.dtype == Format::bf16 && blocks.recipe == "rceil" && blocks.format == Format::e4m3;
  };
  s.check = equals_cpu_library;
  s.corners = [](const Variant& v, Suite suite) -> std::vector<Case> {
    const BlockShape block = blocks_of(v).block;
    const bool main_block = block == BlockShape{1, 32} || block == BlockShape{32, 1};
    if (suite == Suite::quick) return {blocks_corner(v, 2048, 7168, Data::slots, 12)};
    std::vector<Case> cases{blocks_corner(v, 32768, 7168, Data::slots, 12)};
    if (suite == Suite::exhaustive && v.operation == "quantize" && main_block) {
      cases.push_back(blocks_corner(v, 131072, 7168, Data::slots, 13));
      cases.push_back(blocks_corner(v, 299'600, 7171, Data::slots, 14));  // 2^31 + 1,000,000 elements, odd rows
      cases.push_back(blocks_corner(v, 599'200, 7171, Data::slots, 15));  // 2^32 + 1,900,000: wraps in 32 bits
    }
    return cases;
  };
  return s;
}

}  // namespace

std::vector<Statement> quantize_equality_statements() {
  std::vector<Statement> all{
      blocks_equality("quantize_equals_the_reference", "quantize",
                      "codes and scales are the reference's, byte for byte",
                      "OCP MX 1.0 section 6.3; reference/quantize/quantize.h"),
      blocks_equality("quantize_dual_equals_the_reference", "quantize_dual",
                      "row and column codes and scales from one read are the reference's, byte for byte",
                      "reference/quantize/quantize.h"),
      every_bf16_value(),
      every_amax(),
      cpu_library(),
  };
  all[0].check = all[1].check = equals_reference;
  return all;
}

}  // namespace mxcheck
