// The candidate's bytes are the reference's bytes.

#include <cmath>
#include <numeric>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "numerics/scale/recipe.h"
#include "properties/core/law.h"
#include "properties/core/notation.h"
#include "properties/operations/quantize/problem.h"
#include "properties/operations/scale_layout/problem.h"
#include "properties/operations/scaled_blocks/expand.h"
#include "properties/operations/scaled_blocks/geometry.h"
#include "properties/operations/scaled_blocks/operation.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

constexpr std::uint64_t kChunk = std::uint64_t{1} << 24;

std::optional<Finding> quantize_equals_reference(CheckContext& context, const Case& c) {
  EqualityOptions options;
  const bool one_of_many = c.data == Data::every_amax || c.data == Data::every_word;  // chunks of a whole domain
  if (one_of_many) options.poison_of_large = kPoisons[c.seed >> 24 & 1];
  return equals_reference(context, c, options);
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
  s.check = quantize_equals_reference;
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
  s.check = quantize_equals_reference;
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

// A block that the matrix's end cuts in both directions holds zeros of both signs and one NaN or infinity: at its
// beginning, its end, or alone. Where none of them is an element, the block has one.
Statement nan_beside_zeros() {
  Statement s;
  s.name = "a_nan_beside_zeros_poisons_a_cut_block_as_in_the_reference";
  s.sentence =
      "where a NaN or an infinity stands among zeros of both signs in a block that the end of the matrix cuts, codes "
      "and "
      "scales are the reference's";
  s.source = "docs/design.md, the norm: a NaN or Inf anywhere in a block makes scale and elements NaN";
  s.applies = [](const Variant& v, std::span<const Variant>) {
    return v.operation == "quantize" || v.operation == "quantize_dual" || v.operation == "quantize_transposed";
  };
  s.check = quantize_equals_reference;
  s.corners = [](const Variant& v, Suite) {
    const BlockShape block = blocks_of(v).block;
    const std::int64_t height = block.rows == 0 ? 40 : block.rows;
    const std::int64_t width = block.cols == 0 ? 40 : block.cols;
    const std::uint32_t sign = sign_bit(v.dtype);
    const std::uint32_t infinity = spec(v.dtype).max_code + 1;
    std::vector<Case> cases;
    for (const std::int64_t cut : {1, 2, 5}) {
      for (const std::uint32_t bits : {infinity | 1, sign | (sign - 1), sign | infinity}) {
        const std::int64_t rows = height == 1 ? cut : height + cut;
        const std::int64_t cols = width == 1 ? cut : width + cut;
        Case c = blocks_corner(v, rows, cols, Data::zeros, 1);
        const bool at_end = cases.size() % 2 == 0;
        const std::int64_t row = at_end || height == 1 ? rows - 1 : height;
        const std::int64_t col = at_end || width == 1 ? cols - 1 : width;
        c.plants = {{row, col, bits}};
        for (const std::int64_t other : {height == 1 ? 0 : height, rows - 1}) {
          if (other != row) c.plants.push_back({other, cols - 1, sign});
        }
        if (cut > 1) c.plants.push_back({rows - 1, cols - 2, sign});
        cases.push_back(std::move(c));
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
      nan_beside_zeros(),
      cpu_library(),
  };
  all[0].check = all[1].check = quantize_equals_reference;
  return all;
}

// The part of a counterexample that a person reads first: the element, its block, and what should have become of it.

namespace {

// Lines about the block, and its amax as a relevant element.
BlockScale explain_block(const QuantizeProblem& p, const BlockBounds& b, Finding& finding) {
  const MatrixView x = p.input.view();
  BlockAmax amax;
  Plant largest = p.input.plant(b.first_row, b.first_col);
  Plant nan = largest;
  for (std::int64_t i = b.first_row; i < b.end_row; ++i) {
    for (std::int64_t j = b.first_col; j < b.end_col; ++j) {
      const float value = x.at(i, j);
      if (std::isnan(value)) {
        amax.has_nan = true, nan = p.input.plant(i, j);
      } else if (std::fabs(value) > amax.amax) {
        amax.amax = std::fabs(value), largest = p.input.plant(i, j);
      }
    }
  }
  const Format dtype = p.c.variant.dtype;
  finding.element.push_back("block     rows " + std::to_string(b.first_row) + " to " + std::to_string(b.end_row - 1) +
                            ", columns " + std::to_string(b.first_col) + " to " + std::to_string(b.end_col - 1));
  const std::uint32_t magnitude = largest.bits & ~sign_bit(dtype);
  finding.element.push_back("amax      " + notations(dtype, magnitude) + " at " + place_text(largest.row, largest.col) +
                            (amax.has_nan ? "; the block holds a NaN at " + place_text(nan.row, nan.col) : ""));
  const ScaledBlocksVariant& v = blocks_of(p.c.variant);
  const BlockScale scale = block_scale(recipe_named(v.recipe), v.format, amax);
  finding.element.push_back("scale     " + notations(Format::e8m0, scale.byte) + " by the reference");
  finding.relevant.push_back(largest);
  if (amax.has_nan) finding.relevant.push_back(nan);
  return scale;
}

}  // namespace

void QuantizeProblem::explain_code(BlockShape block, Finding& finding) const {
  const Difference::Element& e = finding.difference->first;
  const bool is_cast = c.variant.operation == "cast";
  const ScaleGeometry g = scale_geometry(c, block);
  explain_input(e.row, e.col, finding);
  if (!is_cast) finding.element.push_back(place_line(c, g, e.row, e.col));
  if (c.gather != 0) finding.element.push_back(gathered_line(gathered, e.row));
  if (is_cast) return;
  const BlockBounds b = block_at_scale(c, g, scale_row_of(c, g, e.row), e.col / block.width(c.cols));
  const BlockScale scale = explain_block(*this, b, finding);
  if (!scale.poisoned) {
    const double value = static_cast<double>(input.view().at(e.row, e.col)) * scale.factor;
    finding.element.push_back("scaled    x / 2^" + std::to_string(int{scale.byte} - 127) + " = " + notations(value) +
                              " exactly");
  }
}

void QuantizeProblem::explain_scale(BlockShape block, Finding& finding) const {
  const ScaleGeometry g = scale_geometry(c, block);
  ScalePlace place{finding.difference->first.row, finding.difference->first.col};
  if (blocks_of(c.variant).layout == MXCHECK_TCGEN05) place = explain_tiled_byte(g, finding);
  if (place.row >= 0 && !input.bytes.empty()) explain_block(*this, block_at_scale(c, g, place.row, place.col), finding);
}

void QuantizeProblem::explain(std::size_t output, Finding& finding) const {
  const BlockShape own = blocks_of(c.variant).block;
  const BlockShape block = output >= 2 ? own.transposed() : own;  // the column side of quantize_dual
  if (finding.difference->tensor.format == Format::e8m0)
    explain_scale(block, finding);
  else
    explain_code(block, finding);
  explain_words(finding);
}

// Layouts, padding, tails and experts: where a block is must not matter to what it becomes.

namespace {

bool is_quantize(const Variant& v) { return v.operation == "quantize"; }

std::vector<Data> usual_data() {
  return {Data::boundaries, Data::normal, Data::real, Data::specials, Data::slots, Data::wide};
}

// A dense copy of the input with other extents: what is new is +0.
Input padded(const Input& from, std::int64_t rows, std::int64_t cols) {
  return make_input(from.dtype, rows, cols, cols, [&](std::int64_t i, std::int64_t j) {
    return i < from.rows && j < from.cols ? from.bits(i, j) : 0;
  });
}

std::vector<std::byte> corner_of(std::span<const std::byte> matrix, std::int64_t stride, std::int64_t rows,
                                 std::int64_t cols) {
  std::vector<std::byte> out;
  for (std::int64_t i = 0; i < rows; ++i) {
    out.insert(out.end(), matrix.begin() + i * stride, matrix.begin() + i * stride + cols);
  }
  return out;
}

std::vector<std::byte> compact_bytes(const Case& c, const std::vector<std::byte>& scales) {
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  return to_bytes(to_compact(scale_geometry(c, v.block), values_in<std::uint8_t>(scales), v.layout));
}

void tiled_equals_compact(const Law& law, const Case& c) {
  Case compact = c;
  blocks_of(compact.variant).layout = MXCHECK_COMPACT;
  const Input input = expand(c);
  const QuantizeProblem tiled_problem(c, input);
  const Law::Outputs tiled = law.outputs(tiled_problem);
  const Law::Outputs plain = law.outputs(QuantizeProblem(compact, input));
  law.equal(tiled_problem.outputs[0], plain[0], tiled[0], "codes depend on the layout of the scales");
  Case changing = c;
  changing.variant.operation = "scale_layout", changing.variant.dtype = Format::bf16;
  blocks_of(changing.variant).format = Format::e4m3, blocks_of(changing.variant).recipe = "rceil";
  const ScaleLayoutProblem change(changing, values_in<std::uint8_t>(plain[1]));
  if (!offers(law.context().variants, changing.variant)) {
    return law.equal(tiled_problem.outputs[1], change.answer()[0].bytes, tiled[1],
                     "tiled scales are not the compact scales in tiles");
  }
  const Law::Outputs changed = law.outputs(change);
  law.equal(tiled_problem.outputs[1], changed[0], tiled[1],
            "tiled scales differ from compact scales after scale_layout");
}

void padding_has_no_influence(const Law& law, const Case& c) {
  Case tight = c;
  tight.stride = 0;
  const Input input = expand(c);  // NaN after each row
  const Law::Outputs strided = law.outputs(QuantizeProblem(c, input));
  Case other_pad = tight;
  blocks_case(other_pad).pad = static_cast<std::uint8_t>(blocks_case(c).pad ^ 0xFF);
  const QuantizeProblem plain(other_pad, padded(input, c.rows, c.cols));
  const Law::Outputs dense = law.outputs(plain);
  law.equal(plain.outputs[0], dense[0], strided[0], "codes depend on what lies behind the rows");
  law.equal(compact_scales_info(c), compact_bytes(other_pad, dense[1]), compact_bytes(c, strided[1]),
            "scales depend on what lies behind the rows or on the pad byte");
}

void tails_equal_padded(const Law& law, const Case& c) {
  if (c.elements() == 0) law.says_nothing();
  const Input input = expand(c);
  const QuantizeProblem plain(c, padded(input, c.rows, c.cols));
  const Law::Outputs cut = law.outputs(plain);
  const OperationInfo& limits = *law.context().process.operation(c.variant.operation);
  const auto up = [](std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; };
  const BlockShape block = blocks_of(c.variant).block;
  Case whole = c;  // whole blocks, and a shape that the candidate takes
  whole.rows = up(c.rows, std::lcm(std::max<std::int64_t>(1, block.rows), limits.rows_multiple));
  whole.cols =
      block.cols == 0 ? up(c.cols + 5, limits.cols_multiple) : up(c.cols, std::lcm(block.cols, limits.cols_multiple));
  const Law::Outputs full = law.outputs(QuantizeProblem(whole, padded(input, whole.rows, whole.cols)));
  law.equal(plain.outputs[0], corner_of(full[0], whole.cols, c.rows, c.cols), cut[0],
            "codes of a cut block differ from the same block filled up with zeros");
  const TensorInfo scales = compact_scales_info(c);
  const std::vector<std::byte> full_scales =
      corner_of(compact_bytes(whole, full[1]), compact_scales_info(whole).cols, scales.rows, scales.cols);
  law.equal(scales, full_scales, compact_bytes(c, cut[1]),
            "the scale of a cut block differs from the same block filled up with zeros");
}

void experts_are_alone(const Law& law, const Case& c) {
  if (c.experts.empty()) law.says_nothing();
  const Input input = expand(c);
  const QuantizeProblem together_problem(c, input);
  const Law::Outputs together = law.outputs(together_problem);
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
  for (std::size_t e = 1; e < c.experts.size(); ++e) {
    Case alone = c;
    alone.experts.clear();
    alone.rows = c.experts[e] - c.experts[e - 1];
    alone.plants.clear();
    Input part = input;
    const auto row_bytes = static_cast<std::ptrdiff_t>(input.row_bytes());
    part.bytes.assign(input.bytes.begin() + c.experts[e - 1] * row_bytes,
                      input.bytes.begin() + c.experts[e] * row_bytes);
    part.rows = alone.rows;
    const Law::Outputs got = law.outputs(QuantizeProblem(alone, part));
    codes.insert(codes.end(), got[0].begin(), got[0].end());
    scales.insert(scales.end(), got[1].begin(), got[1].end());
  }
  law.equal(together_problem.outputs[1], scales, together[1], "scales of an expert depend on the rows of another");
  law.equal(together_problem.outputs[0], codes, together[0], "codes of an expert depend on the rows of another");
}

// Cases of this statement always have experts.
std::vector<Case> expert_corners(const Variant& v, Suite) {
  std::vector<Case> cases;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Case c;
    c.variant = v, c.rows = 150, c.cols = 67, c.data = seed % 2 == 0 ? Data::boundaries : Data::slots, c.seed = seed,
    blocks_case(c).pad = 254;
    const std::vector<std::int64_t> offsets[] = {
        {0, 0, 31, 64, 150}, {0, 1, 2, 150, 150}, {0, 129, 130, 150}, {0, 33, 97, 150}};
    c.experts = offsets[seed];
    cases.push_back(c);
  }
  return cases;
}

}  // namespace

std::vector<Statement> quantize_layout_statements() {
  const auto tiled = [](const Variant& v, std::span<const Variant> all) {
    if (!is_quantize(v) || blocks_of(v).layout != MXCHECK_TCGEN05) return false;
    Variant compact = v;
    blocks_of(compact).layout = MXCHECK_COMPACT;
    return offers(all, compact);
  };
  const auto any = [](const Variant& v, std::span<const Variant>) { return is_quantize(v); };
  std::vector<Statement> s{
      law_statement("tiled_scales_equal_compact_scales_after_the_layout_change",
                    "scales written straight in tiles are the compact scales after scale_layout, padding included",
                    "cuBLAS documentation, 1D block scaling factors layout", tiled, usual_data(), 30, true,
                    tiled_equals_compact),
      law_statement("padding_has_no_influence",
                    "what lies behind the rows of x, and the pad byte of the tiles, change no code and no scale",
                    "kernels/candidate.h", any, usual_data(), 30, true, padding_has_no_influence),
      law_statement("tails_equal_the_same_rows_padded_with_zeros",
                    "a block cut by the edge has the scale and codes that it has when zeros fill it up",
                    "reference/quantize/quantize.h", any, usual_data(), 0, false, tails_equal_padded),
      law_statement(
          "experts_do_not_see_each_other",
          "quantizing with expert offsets gives what each expert gives alone: no block crosses an expert's end",
          "reference/quantize/quantize.h", any, usual_data(), 100, false, experts_are_alone),
  };
  s[3].corners = expert_corners, s[3].cases_per_variant = 1;
  return s;
}

}  // namespace mxcheck
