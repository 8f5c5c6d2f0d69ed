// The candidate's bytes are the reference's bytes.

#include "numerics/scale/recipe.h"
#include "properties/statements/common.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostToMatch = 1'000'000;  // elements: a reference answer for each recipe costs time

// Which other recipe would give exactly the observed bytes: the likeliest cause, by name.
std::vector<std::string> recipes_that_match(const Problem& p, const std::vector<std::vector<std::byte>>& observed) {
  std::vector<std::string> names;
  const auto try_recipe = [&](const Recipe& recipe, const std::string& name) {
    const std::vector<ExpectedTensor> answer = reference_answer(p, recipe);
    bool equal = true;
    for (std::size_t i = 0; i < answer.size(); ++i) equal = equal && answer[i].bytes == observed[i];
    if (equal) names.push_back(name);
  };
  for (const Recipe& recipe : all_recipes()) {
    if (recipe.rule != ScaleRule::fp32 && recipe.name != p.c.variant.recipe)
      try_recipe(recipe, "recipe " + recipe.name);
  }
  Recipe changed = recipe_named(p.c.variant.recipe);
  changed.rounding = Rounding::nearest_away, try_recipe(changed, "ties away from zero");
  changed.rounding = Rounding::toward_zero, try_recipe(changed, "rounding toward zero");
  changed = recipe_named(p.c.variant.recipe);
  changed.overflow = Overflow::non_saturate, try_recipe(changed, "a non-saturating cast");
  return names;
}

std::optional<Finding> equals_reference(CheckContext& context, const Case& c) {
  const Problem p = make_problem(c);
  const std::vector<ExpectedTensor> expected = reference_answer(p);
  const bool quantizing = c.variant.operation == "quantize" || c.variant.operation == "quantize_dual";
  const bool one_of_many = c.data == Data::every_amax || c.data == Data::every_word;  // chunks of a whole domain
  for (std::uint8_t poison : kPoisons) {
    if (one_of_many && c.elements() > 1'000'000 && poison != kPoisons[c.seed >> 24 & 1]) continue;
    const Got got = run_problem(context, p, poison);
    if (!got.usable()) return pass_on(context, got);
    for (std::size_t n = 0; n < expected.size(); ++n) {
      const std::size_t i = quantizing ? n ^ 1 : n;  // scales before the codes that follow from them
      std::optional<Finding> finding = differ(expected[i].info, expected[i].bytes, got.outputs[i],
                                              expected[i].info.name + " differ from the reference");
      if (!finding) continue;
      explain(p, i, *finding);
      if (context.thorough && quantizing && c.elements() <= kMostToMatch)
        finding->matches = recipes_that_match(p, got.outputs);
      return finding;
    }
  }
  return std::nullopt;
}

Case corner(const Variant& v, std::int64_t rows, std::int64_t cols, Data data, std::uint64_t seed) {
  Case c;
  c.variant = v;
  c.rows = rows, c.cols = cols, c.data = data, c.seed = seed, c.pad = 255;
  return c;
}

// Shapes and data that every variant meets on every run, whatever the seed.
std::vector<Case> usual_corners(const Variant& v, Suite) {
  const std::int64_t width = v.block.cols == 0 ? 96 : v.block.cols;
  const std::int64_t height = v.block.rows == 0 ? 1 : v.block.rows;
  std::vector<Case> cases{
      corner(v, 0, 5, Data::zeros, 1),
      corner(v, 3, 0, Data::zeros, 2),
      corner(v, 1, 1, Data::boundaries, 3),
      corner(v, height * 2 + 1, width * 3 + 1, Data::specials, 4),
      corner(v, height * 3, width * 2, Data::boundaries, 5),
      corner(v, height + 17, width * 5 + 31, Data::slots, 6),
      corner(v, 131, width * 4 - 1, Data::slots, 7),
      corner(v, height * 2 - 1, 2 * width - 1, Data::bits, 8),
  };
  if (v.operation != "cast") cases[6].experts = {0, 0, 1, 34, 34, 131};
  cases[4].stride = cases[4].cols + 3;
  if (v.recipe == "rceil" && v.format == Format::e4m3 && v.wide == Format::bf16) {  // beyond 16 bits, each way
    cases.push_back(corner(v, 66'001, 3, Data::slots, 9));
    cases.push_back(corner(v, 3, 66'001, Data::slots, 10));
  }
  return cases;
}

// Every code at every scale byte.
std::vector<Case> dequantize_corners(const Variant& v, Suite suite) {
  std::vector<Case> cases = usual_corners(v, suite);
  if (v.block.cols == 0) {
    cases.push_back(corner(v, 256, 256, Data::slots, 0));
  } else {
    const std::int64_t blocks = 256 * std::max<std::int64_t>(1, 256 / (v.block.rows * v.block.cols));
    cases.push_back(corner(v, v.block.rows * blocks / 16, v.block.cols * 16, Data::slots, 0));
  }
  return cases;
}

bool is(const Variant& v, std::string_view operation) { return v.operation == operation; }

const std::vector<Data> kMixture{Data::boundaries, Data::boundaries, Data::boundaries, Data::boundaries,
                                 Data::codes,      Data::slots,      Data::normal,     Data::real,
                                 Data::bits,       Data::specials,   Data::wide,       Data::sparse};

Statement equality(std::string_view name, std::string_view operation, std::string_view sentence,
                   std::string_view source) {
  Statement s;
  s.name = name, s.sentence = sentence, s.source = source;
  s.applies = [operation](const Variant& v, std::span<const Variant>) { return is(v, operation); };
  s.data = kMixture;
  s.check = equals_reference;
  s.corners = operation == "dequantize" ? dequantize_corners : usual_corners;
  s.cases_per_variant = 10;
  return s;
}

Statement every_bf16_value() {
  Statement s;
  s.name = "every_bf16_value_at_every_scale_is_cast_as_the_reference";
  s.sentence =
      "each of the 65,536 BF16 values, in a block of every scale byte that a BF16 amax can have, gets the reference's "
      "code";
  s.source = "OCP MX 1.0 section 6.3; OFP8 1.0 section 5";
  s.applies = [](const Variant& v, std::span<const Variant>) {
    return is(v, "quantize") && v.block == BlockShape{1, 32} && v.layout == 0 && v.wide != Format::fp16 &&
           (v.recipe == "rceil" || v.recipe == "floor" || v.wide == Format::bf16);
  };
  s.check = equals_reference;
  s.corners = [](const Variant& v, Suite suite) -> std::vector<Case> {
    const bool norm = v.recipe == "rceil" || v.recipe == "floor";
    if (suite == Suite::quick && !(norm && v.wide == Format::bf16)) return {};
    return {corner(v, kEveryBf16Rows, 32, Data::every_bf16, 0)};
  };
  return s;
}

Statement every_amax() {
  Statement s;
  s.name = "every_amax_is_scaled_as_the_reference";
  s.sentence =
      "each non-negative BF16 amax (and, in the exhaustive suite, each FP32 amax) gets the reference's scale byte";
  s.source = "numerics/scale/scale_rule.h: the rule's exact definition";
  s.applies = [](const Variant& v, std::span<const Variant>) {
    return is(v, "quantize") && v.block == BlockShape{1, 32} && v.layout == 0 && v.wide != Format::fp16;
  };
  s.check = equals_reference;
  s.corners = [](const Variant& v, Suite suite) {
    std::vector<Case> cases;
    if (v.wide == Format::bf16) cases.push_back(corner(v, 32768, 1, Data::every_amax, 0));
    constexpr std::uint64_t kChunk = std::uint64_t{1} << 24;
    if (v.wide == Format::fp32) {
      // Around 448 * 2^-127, 448 * 2^-126 and 448: the ends of the subnormal quotients and an ordinary edge.
      for (std::uint64_t from : {0x04600000U - 4096U, 0x04E00000U - 4096U, 0x43E00000U - 4096U, 0x7F7FF000U, 0U}) {
        cases.push_back(corner(v, 8192, 1, Data::every_amax, from));
      }
    }
    if (v.wide == Format::fp32 && suite == Suite::exhaustive && v.recipe != "ocp") {  // floor by another name
      for (std::uint64_t from = 0; from < (std::uint64_t{1} << 31); from += kChunk) {
        cases.push_back(corner(v, static_cast<std::int64_t>(kChunk), 1, Data::every_amax, from));
      }
    }
    return cases;
  };
  return s;
}

Statement every_cast() {
  Statement s;
  s.name = "every_word_is_cast_as_the_reference";
  s.sentence =
      "without a scale, each BF16 word (and, in the exhaustive suite, each of the 2^32 FP32 words) gets the "
      "reference's code";
  s.source = "OFP8 1.0 section 5";
  s.applies = [](const Variant& v, std::span<const Variant>) { return is(v, "cast") && v.wide != Format::fp16; };
  s.check = equals_reference;
  s.corners = [](const Variant& v, Suite suite) {
    std::vector<Case> cases;
    constexpr std::uint64_t kChunk = std::uint64_t{1} << 24;
    if (v.wide == Format::bf16) cases.push_back(corner(v, 65536, 1, Data::every_word, 0));
    if (v.wide == Format::fp32 && suite != Suite::exhaustive) {
      // Zero, the smallest codes and their halves, the largest, and infinity, of either format, with either sign.
      for (std::uint64_t from : {0x00000000U, 0x37000000U, 0x3A800000U, 0x43E00000U, 0x47600000U, 0x7F800000U}) {
        for (std::uint64_t sign : {0x00000000U, 0x80000000U}) {
          cases.push_back(corner(v, 8192, 1, Data::every_word, ((from | sign) - 4096U) & 0xFFFFFFFFU));
        }
      }
    }
    if (v.wide == Format::fp32 && suite == Suite::exhaustive) {
      for (std::uint64_t from = 0; from < (std::uint64_t{1} << 32); from += kChunk) {
        cases.push_back(corner(v, 1 << 14, 1 << 10, Data::every_word, from));
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
    Variant tiled = v;
    tiled.layout = 1;
    const bool preferred = v.layout == (offers(all, tiled) ? 1 : 0);
    return preferred && v.wide == Format::bf16 && v.recipe == "rceil" && v.format == Format::e4m3 &&
           (is(v, "quantize") || is(v, "quantize_dual"));
  };
  s.check = equals_cpu_library;
  s.corners = [](const Variant& v, Suite suite) -> std::vector<Case> {
    const bool main_block = v.block == BlockShape{1, 32} || v.block == BlockShape{32, 1};
    if (suite == Suite::quick) return {corner(v, 2048, 7168, Data::slots, 12)};
    std::vector<Case> cases{corner(v, 32768, 7168, Data::slots, 12)};
    if (suite == Suite::exhaustive && is(v, "quantize") && main_block) {
      cases.push_back(corner(v, 131072, 7168, Data::slots, 13));
      cases.push_back(corner(v, 299'600, 7171, Data::slots, 14));  // 2^31 + 1,000,000 elements and odd rows
      cases.push_back(
          corner(v, 599'200, 7171, Data::slots, 15));  // 2^32 + 1,900,000: a number that is not signed wraps
    }
    return cases;
  };
  return s;
}

Statement large_tensors() {
  Statement s;
  s.name = "large_tensors_equal_the_reference";
  s.sentence = "tensors of over sixteen million elements have the reference's bytes, each and every one";
  s.source = "reference/quantize/quantize.h";
  s.applies = [](const Variant& v, std::span<const Variant> all) {
    if (is_matmul(v.operation) || is_route(v.operation)) return false;
    Variant tiled = v;
    tiled.layout = 1;
    const bool preferred = v.layout == (offers(all, tiled) ? 1 : 0);
    return preferred && v.wide != Format::fp16 && v.recipe == "rceil" && v.format == Format::e4m3;
  };
  s.check = equals_reference;
  s.corners = [](const Variant& v, Suite suite) -> std::vector<Case> {
    const bool main_block = v.block == BlockShape{1, 32} || v.block == BlockShape{32, 1};
    if (suite == Suite::quick && v.wide == Format::fp32) return {};
    Case c = corner(v, main_block ? 4099 : 1027, 4111, Data::codes, 11);
    c.experts = {0, 0, 100, 1027};
    c.experts.back() = c.rows;
    if ((is(v, "quantize") && v.block.rows == 1) || is(v, "cast")) c.experts.clear();
    return {c};
  };
  return s;
}

}  // namespace

std::optional<Finding> equals_cpu_library(CheckContext& context, const Case& c) {
  if (context.cpu == nullptr) {
    context.not_offered = true;
    return std::nullopt;
  }
  Case plain = c;
  plain.gather = 0;
  const Problem p = make_problem(plain);
  const Got got = run_problem(context, p);
  if (!got.usable()) return pass_on(context, got);
  const Ran cpu = run_checked(*context.cpu, p.call(), plain);
  if (!cpu.outcome) {
    context.not_offered = true;
    return std::nullopt;
  }
  for (std::size_t n = 0; n < p.outputs.size(); ++n) {
    // Scales before the codes that follow from them.
    const std::size_t i = p.outputs.size() > 1 && !is_route(c.variant.operation) ? n ^ 1 : n;
    std::optional<Finding> finding = differ(p.outputs[i], cpu.outcome->outputs[i], got.outputs[i],
                                            p.outputs[i].name + " differ from the CPU library's");
    if (!finding) continue;
    explain(p, i, *finding);
    return finding;
  }
  return std::nullopt;
}

std::vector<Statement> equality_statements() {
  return {
      equality("quantize_equals_the_reference", "quantize", "codes and scales are the reference's, byte for byte",
               "OCP MX 1.0 section 6.3; reference/quantize/quantize.h"),
      equality("quantize_dual_equals_the_reference", "quantize_dual",
               "row and column codes and scales from one read are the reference's, byte for byte",
               "reference/quantize/quantize.h"),
      equality("cast_equals_the_reference", "cast", "codes without a scale are the reference's, byte for byte",
               "OFP8 1.0 section 5"),
      equality("dequantize_equals_the_reference", "dequantize",
               "values are code times scale, rounded once; a scale of 255 makes its block NaN",
               "OCP MX 1.0 section 5.1"),
      equality("scale_layout_equals_the_reference", "scale_layout",
               "scales change their layout and nothing else; padding holds the pad byte",
               "reference/quantize/scale_layout.h"),
      every_bf16_value(),
      every_amax(),
      every_cast(),
      large_tensors(),
      cpu_library(),
  };
}

}  // namespace mxcheck
