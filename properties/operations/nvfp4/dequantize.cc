#include "properties/operations/nvfp4/dequantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "numerics/bytes.h"
#include "numerics/format/codec.h"
#include "numerics/format/packing.h"
#include "numerics/scale/recipe_words.h"
#include "properties/core/check.h"
#include "properties/core/input.h"
#include "properties/core/invalid_call.h"
#include "properties/core/law.h"
#include "properties/core/notation.h"
#include "properties/core/rng.h"
#include "properties/operations/nvfp4/problem.h"
#include "properties/operations/scaled_blocks/divisors.h"
#include "properties/operations/scaled_blocks/expand.h"
#include "properties/operations/scaled_blocks/geometry.h"
#include "properties/operations/scaled_blocks/operation.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostDecoded = std::int64_t{1} << 17;  // elements: each row of the table computes an answer
constexpr std::uint64_t kDrawnScales = 32;                    // of which each slip shows under one
constexpr std::uint8_t kE4m3One = 0x38;

// Block scales: half of them positive numbers, a quarter at an end of E4M3, a quarter any byte, of either sign.
std::vector<std::uint8_t> drawn_scale_bytes(const Case& c, const ScaleGeometry& g) {
  if (c.data == Data::slots) return expand_scale_bytes(c, g.count());  // one byte after the other
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(g.count()), kE4m3One);
  constexpr std::uint8_t kEnds[] = {0x00, 0x01, 0x07, 0x08, 0x7D, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF};
  for (std::size_t i = 0; i < scales.size() && c.data != Data::zeros; ++i) {
    const std::uint64_t word = random_word(c.seed ^ 0x5CA1E, i);
    const std::uint64_t any = word >> 8;
    scales[i] = static_cast<std::uint8_t>(word % 4 == 0   ? kEnds[any % std::size(kEnds)]
                                          : word % 4 == 1 ? any
                                                          : 1 + any % 0x7E);
  }
  return scales;
}

// The codes of a case, packed. What stands in the last nibble of a row of odd length counts for nothing.
std::vector<std::uint8_t> drawn_packed_codes(const Case& c) {
  std::vector<std::uint8_t> codes = expand_codes(c);
  for (std::uint8_t& code : codes) code &= 0xF;
  std::vector<std::uint8_t> packed = values_in<std::uint8_t>(packed_rows(codes, c.cols));
  const auto line = static_cast<std::size_t>((c.cols + 1) / 2);
  for (std::size_t row = 1; c.cols % 2 != 0 && row * line <= packed.size(); ++row)
    packed[row * line - 1] |= static_cast<std::uint8_t>(random_word(c.seed ^ 0x0DD, row) << 4);
  return packed;
}

float given_scale(const Call& call) {
  const Case c = case_of(call, call.outputs[0].dtype);
  return std::bit_cast<float>(blocks_case(c).tensor_scale);
}

TensorInfo values_of_nvfp4(const Case& c) {
  const BlockShape block = blocks_of(c.variant).block;
  return {"y", c.variant.dtype, c.rows, c.cols, block.rows, block.cols, true};
}

}  // namespace

namespace {

std::uint32_t nearest_bf16(double value) {
  return encode(Format::bf16, value, Rounding::nearest_even, Overflow::non_saturate);
}

// The number that the recipe stores for a scale by which products are multiplied.
float stored_for(const Recipe& recipe, double s) {
  const double unit = double{recipe.two_level.limit} * largest_value(Format::e2m1);
  const StoredScale kind = recipe.two_level.stored;
  const double stored = kind == StoredScale::decode ? s : kind == StoredScale::encode ? 1 / s : s * unit;
  return std::bit_cast<float>(std::max(1U, nearest_bits(Format::fp32, stored)));
}

// A scale under which a product of 4 to 6 bits is nearly an odd number of 9 bits, times 2^exponent, such that BF16 has
// another number for it if FP32 comes first: the value in FP32, or, where is_scale, the scale that multiplies.
float beside_a_tie(const Recipe& recipe, int exponent, std::uint64_t word, bool is_scale) {
  constexpr double kProducts[] = {9, 11, 13, 15, 27, 33, 39, 45};
  float stored = 1;
  for (std::uint64_t tries = 0; tries < 256; ++tries) {
    const double middle = 257 + 2 * static_cast<double>((word + tries) & 127);
    const double product = kProducts[((word >> 8) + tries) & 7];
    stored = stored_for(recipe, std::ldexp(middle / product, exponent));
    const double exact = under_tensor_scale(recipe, product, stored);
    const double by_scale = product * static_cast<double>(static_cast<float>(under_tensor_scale(recipe, 1, stored)));
    const double other = is_scale ? by_scale : static_cast<double>(static_cast<float>(exact));
    if (nearest_bf16(exact) != nearest_bf16(other)) break;
  }
  return stored;
}

}  // namespace

float drawn_scale_of_values(const Case& c, const Recipe& recipe) {
  const std::uint64_t word = random_word(c.seed, 0xDE9), other = random_word(c.seed, 0xDEA);
  const std::uint64_t number = c.seed / 8;  // among the seeds of a kind
  const int exponent = static_cast<int>(word >> 8 & 31) - 16;
  const double fraction = 1 + static_cast<double>(other >> 41) / 0x1p23;
  switch (c.seed % 8) {
    case 0: return beside_a_tie(recipe, exponent, word >> 16, false);
    case 1:
    case 2: return beside_a_tie(recipe, exponent, word >> 16, recipe.two_level.stored != StoredScale::decode);
    case 3: return stored_for(recipe, std::ldexp(static_cast<double>(16 + (word >> 16 & 15)), exponent));
    case 4: {  // S is at most 2^128
      const int lowest = recipe.two_level.stored == StoredScale::encode ? -127 : -149;
      const int above = static_cast<int>(number / 2 % 4 * 4 + (word >> 16 & 3));
      return stored_for(recipe, std::ldexp(number % 2 == 0 ? 1 : fraction, lowest + above));
    }
    case 5: return stored_for(recipe, std::ldexp(fraction, 127 - static_cast<int>(word >> 16 & 15)));
    case 6: return stored_for(recipe, std::ldexp(fraction, exponent));
    default: break;
  }
  return std::bit_cast<float>(static_cast<std::uint32_t>(1 + (other >> 8) % 0x7F7FFFFF));
}

double under_tensor_scale(const Recipe& recipe, double product, double tensor_scale) {
  switch (recipe.two_level.stored) {
    case StoredScale::decode: return product * tensor_scale;
    case StoredScale::encode: return product / tensor_scale;
    case StoredScale::amax: break;
  }
  return product * tensor_scale / (double{recipe.two_level.limit} * largest_value(Format::e2m1));
}

QuantizedTensor nvfp4_tensor(BlockShape block, const Recipe& recipe, std::vector<std::int64_t> shape,
                             const std::vector<std::uint8_t>& codes, std::vector<std::int64_t> scale_shape,
                             const std::vector<std::uint8_t>& scales, float tensor_scale) {
  const bool is_empty = shape[0] == 0 || shape[1] == 0;
  ScaleLevel outer{{0, 0}, ScaleRule::fp32, {}, recipe.two_level.stored};
  outer.scales = tensor_of(Format::fp32, {shape[0] == 0 ? 0 : 1, shape[1] == 0 ? 0 : 1},
                           is_empty ? std::vector<float>() : std::vector<float>{tensor_scale});
  if (outer.stored == StoredScale::amax) outer.unit = recipe.two_level.limit * largest_value(Format::e2m1);
  ScaleLevel blocks{block, ScaleRule::e4m3, tensor_of(Format::e4m3, std::move(scale_shape), scales)};
  return {tensor_of(Format::e2m1, std::move(shape), codes), {std::move(blocks), std::move(outer)}};
}

DequantizeNvfp4Problem::DequantizeNvfp4Problem(const Case& from) : Problem(from), codes(drawn_packed_codes(from)) {
  const ScaledBlocksVariant& v = blocks_of(from.variant);
  const ScaleGeometry g = scale_geometry(from, v.block);
  std::vector<std::uint8_t> compact = drawn_scale_bytes(from, g);
  for (const Plant& plant : from.plants) {  // a code and, in the byte above it, the scale byte of its block
    const std::int64_t at = scale_row_of(from, g, plant.row) * g.cols + plant.col / v.block.width(from.cols);
    compact[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(plant.bits >> 8);
  }
  scales = in_layout(from, g, std::move(compact), v.layout);
  const std::uint32_t given = blocks_case(from).tensor_scale;
  tensor_scale = {given != 0 ? std::bit_cast<float>(given) : drawn_scale_of_values(from, recipe())};
  outputs = {values_of_nvfp4(c)};
}

DequantizeNvfp4Problem::DequantizeNvfp4Problem(const Case& with, std::vector<std::uint8_t> given_codes,
                                               std::vector<std::uint8_t> given_scales, float stored)
    : Problem(with), codes(std::move(given_codes)), scales(std::move(given_scales)), tensor_scale{stored} {
  blocks_case(c).tensor_scale = std::bit_cast<std::uint32_t>(stored);
  outputs = {values_of_nvfp4(c)};
}

DequantizeNvfp4Problem::DequantizeNvfp4Problem(const Call& call)
    : DequantizeNvfp4Problem(case_of(call, call.outputs[0].dtype), input_bytes(call, 0), input_bytes(call, 1),
                             given_scale(call)) {}

std::vector<ProblemInput> DequantizeNvfp4Problem::inputs() const {
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  TensorInfo scales_of = scales_info(c, "scales", v.block);
  scales_of.format = Format::e4m3;
  std::vector<ProblemInput> all{matrix_input({"codes", Format::e2m1x2, c.rows, (c.cols + 1) / 2}, codes),
                                {scales_tensor(scale_geometry(c, v.block), v.layout, scales), std::move(scales_of)},
                                vector_input("tensor_scale", tensor_scale)};
  if (!c.experts.empty()) all.push_back(vector_input("offsets", c.experts));
  return all;
}

std::vector<std::uint8_t> DequantizeNvfp4Problem::compact_scales() const {
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  return to_compact(scale_geometry(c, v.block), scales, v.layout);
}

std::vector<std::int64_t> DequantizeNvfp4Problem::scale_index() const {
  const BlockShape block = blocks_of(c.variant).block;
  const ScaleGeometry g = scale_geometry(c, block);
  std::vector<std::int64_t> index;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    const std::int64_t first = scale_row_of(c, g, i) * g.cols;
    for (std::int64_t j = 0; j < c.cols; ++j) index.push_back(first + j / block.width(c.cols));
  }
  return index;
}

std::vector<ExpectedTensor> DequantizeNvfp4Problem::answer() const {
  const BlockShape block = blocks_of(c.variant).block;
  const ScaleGeometry g = scale_geometry(c, block);
  const QuantizedTensor q =
      nvfp4_tensor(block, recipe(), {c.rows, c.cols}, unpacked_rows(std::as_bytes(std::span(codes)), c.cols),
                   {g.rows, g.cols}, compact_scales(), tensor_scale[0]);
  return {{outputs[0], c.variant.dtype == Format::fp32 ? to_bytes(dequantize(q, c.experts))
                                                       : to_bytes(dequantize_bf16(q, c.experts))}};
}

Table DequantizeNvfp4Problem::definitions(std::span<const Bytes>) const {
  if (c.elements() > kMostDecoded || c.elements() == 0) return {};
  return nvfp4_values_table(*this);
}

void DequantizeNvfp4Problem::explain(std::size_t, Finding& finding) const {
  const Difference::Element& e = finding.difference->first;
  const BlockShape block = blocks_of(c.variant).block;
  const ScaleGeometry g = scale_geometry(c, block);
  const std::int64_t at = scale_row_of(c, g, e.row) * g.cols + e.col / block.width(c.cols);
  const std::uint8_t byte = compact_scales()[static_cast<std::size_t>(at)];
  const std::uint8_t pair = codes[static_cast<std::size_t>(e.row * ((c.cols + 1) / 2) + e.col / 2)];
  const std::uint8_t code = e.col % 2 == 0 ? pair & 0xF : pair >> 4;
  finding.element.push_back("input     code" + place_text(e.row, e.col) + " = " + notations(Format::e2m1, code) +
                            ", the " + (e.col % 2 == 0 ? "low" : "high") + " nibble of its byte");
  finding.element.push_back(place_line(c, g, e.row, e.col));
  finding.element.push_back("scale     " + notations(Format::e4m3, byte));
  finding.element.push_back(fmt::format("tensor    scale ({}) {}", to_text(recipe().two_level.stored),
                                        notations(Format::fp32, std::bit_cast<std::uint32_t>(tensor_scale[0]))));
  finding.relevant.push_back({e.row, e.col, static_cast<std::uint32_t>(byte << 8 | code)});
  explain_words(finding);
}

namespace {

bool is_dequantize_nvfp4(const Variant& v, std::span<const Variant>) { return v.operation == "dequantize_nvfp4"; }

// The tensor's scale times 2^k, where no value is subnormal or too large: every value is 2^k times as large.
void scaled_values(const Law& law, const Case& c) {
  Case dense = c;
  dense.misaligned = {};
  const DequantizeNvfp4Problem p(dense);
  const float stored = p.tensor_scale[0];
  const double s = under_tensor_scale(p.recipe(), 1, stored);
  const int k = 1 + static_cast<int>(c.seed / 8 % 8);
  if (!(s > 0x1p-100 && s < 0x1p100) || !(stored > 0x1p-100F && stored < 0x1p100F)) law.says_nothing();
  const int shift = p.recipe().two_level.stored == StoredScale::encode ? -k : k;
  const Law::Outputs before = law.outputs(p);
  const Law::Outputs after = law.outputs(DequantizeNvfp4Problem(dense, p.codes, p.scales, std::ldexp(stored, shift)));
  Bytes want = before[0];
  const std::size_t width = value_bytes(c.variant.dtype);
  const std::uint32_t exponent = static_cast<std::uint32_t>(k) << spec(c.variant.dtype).mantissa_bits;
  for (std::size_t i = 0; i < want.size() / width; ++i) {
    const auto word = static_cast<std::uint32_t>(word_at(want, width, i));
    const double value = decode(c.variant.dtype, word);
    const std::uint32_t scaled = value == 0 || std::isnan(value) ? word : word + exponent;
    std::memcpy(want.data() + i * width, &scaled, width);
  }
  law.equal(p.outputs[0], want, after[0],
            "values under the tensor's scale times 2^" + std::to_string(k) + " are not 2^" + std::to_string(k) +
                " times those under it");
}

// Every code at every scale byte, under the scales of the tensor that so many seeds draw.
std::vector<Case> every_nibble_and_scale(const Variant& v, Suite suite) {
  std::vector<Case> cases = usual_corners(v, suite);
  const BlockShape block = blocks_of(v).block;
  for (std::uint64_t seed = 0; seed < kDrawnScales; ++seed)
    cases.push_back(blocks_corner(v, block.rows * 16, block.cols * 16, Data::slots, seed));
  for (const std::uint32_t mantissa : kDivisorMantissas) {  // kernels multiply by an inverse of what is stored
    cases.push_back(blocks_corner(v, block.rows * 16, block.cols * 16, Data::slots, mantissa));
    blocks_case(cases.back()).tensor_scale =
        std::bit_cast<std::uint32_t>(1.0F) - (mantissa > 16 ? 1U << 23 : 0) + mantissa;
  }
  return cases;
}

}  // namespace

const Operation& dequantize_nvfp4_operation() {
  static const OperationOf<DequantizeNvfp4Problem, ScaledBlocksOperation> kDequantize([] {
    ScaledBlocksTraits traits{"dequantize_nvfp4", false};
    traits.can_be_asked = [](const Variant& v) { return v.dtype != Format::fp16; };
    traits.depends_on_recipe = traits.has_two_levels = traits.any_nan_is_equal = true;
    traits.usual_in_quick = std::int64_t{1} << 17;
    traits.invalid_calls = [] {
      return invalid_scaled_blocks(disagreeing_extents({unknown_format(), unknown_recipe(), unwanted_row_index()}));
    };
    return traits;
  }());
  return kDequantize;
}

std::vector<Statement> dequantize_nvfp4_statements() {
  Statement equality = blocks_equality(
      "dequantize_nvfp4_equals_the_reference", "dequantize_nvfp4",
      "values are code times block scale under the tensor's scale, rounded once; a NaN scale makes its block NaN",
      "docs/nvfp4.md");
  equality.data = {Data::normal, Data::bits, Data::slots, Data::zeros};
  equality.cases_per_variant = 4;
  equality.col_strides = false;
  equality.corners = every_nibble_and_scale;
  return {std::move(equality),
          law_statement(
              "nvfp4_values_scale_with_the_tensor_scale",
              "the tensor's scale times 2^k makes every value 2^k times as large, where none leaves the range",
              "docs/nvfp4.md", is_dequantize_nvfp4, {Data::normal, Data::bits, Data::slots}, 30, false, scaled_values)};
}

}  // namespace mxcheck
