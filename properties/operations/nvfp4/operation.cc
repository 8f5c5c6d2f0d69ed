#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/format/packing.h"
#include "numerics/scale/recipe.h"
#include "numerics/scale/recipe_words.h"
#include "properties/core/check.h"
#include "properties/core/invalid_call.h"
#include "properties/core/notation.h"
#include "properties/operations/nvfp4/dequantize.h"
#include "properties/operations/nvfp4/options.h"
#include "properties/operations/nvfp4/problem.h"
#include "properties/operations/scaled_blocks/expand.h"
#include "properties/operations/scaled_blocks/geometry.h"
#include "properties/operations/scaled_blocks/operation.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

// Elements of a case that rows of its table are compared with: each computes an answer.
constexpr std::int64_t kMostForRows = std::int64_t{1} << 17;

bool is_usable(const Recipe& recipe, float stored) {
  return std::isfinite(stored) && (stored > 0 || (stored == 0 && recipe.two_level.stored == StoredScale::amax));
}

// x as it is drawn, before rows are gathered.
Input drawn_matrix(Case c, const Recipe& recipe, float boundaries_scale) {
  c.gather = 0;
  if (c.data != Data::boundaries) return expand(c);
  Input x =
      expand_nvfp4_ties(c, outer_scale_of_stored(recipe.two_level, largest_value(Format::e2m1), boundaries_scale));
  for (const Plant& p : c.plants) {
    std::memcpy(x.bytes.data() + static_cast<std::size_t>(p.row * x.stride + p.col) * value_bytes(x.dtype), &p.bits,
                value_bytes(x.dtype));
  }
  return x;
}

// The scale of the matrix's own amax, or a multiple of it; 1 where the recipe has none that may be given.
float scale_of_matrix(const Case& c, const Recipe& recipe, const MatrixView& x, std::uint64_t of) {
  float stored = 1;
  if (x.rows != 0 && x.cols != 0) {
    const TwoLevel& levels = recipe.two_level;
    const float amax = magnitudes_of(x).amax(levels.amax);
    stored = stored_scale(levels, outer_scale(levels, largest_value(Format::e2m1), amax), amax);
  }
  const std::uint64_t word = random_word(c.seed, of);
  if (word % 4 == 0)
    stored *= std::ldexp(1.0F + static_cast<float>(word >> 8 & 0xFF) / 256, static_cast<int>((word >> 16) % 9) - 4);
  return is_usable(recipe, stored) ? stored : 1;
}

// The input of a call that is the tensor's scale.
float scale_of_call(const Call& call) {
  const std::uint32_t bits = blocks_case(case_of(call, call.inputs[0].dtype)).tensor_scale;
  return std::bit_cast<float>(bits);
}
float column_scale_of_call(const Call& call) {
  const std::uint32_t bits = blocks_case(case_of(call, call.inputs[0].dtype)).random.column_scale;
  return std::bit_cast<float>(bits);
}

}  // namespace

Nvfp4Problem::Nvfp4Problem(const Case& from) : Problem(from) {
  const Recipe of = recipe();
  const std::uint32_t given = blocks_case(c).tensor_scale;
  float stored = given != 0 ? std::bit_cast<float>(given) : drawn_tensor_scale(c, of);
  input = drawn_matrix(c, of, stored);
  if (c.gather != 0) gathered = gather_from(input, c.seed, c.gather);
  const bool is_transformed = options().hadamard != 0;
  std::vector<Nvfp4Matrix> matrices;
  if (is_transformed || options().has_both) matrices = nvfp4_matrices(*this);
  if (given == 0 && (c.data != Data::boundaries || is_transformed))
    stored = scale_of_matrix(c, of, matrices.empty() ? input.view() : matrices[0].view(), 0x0F7E2);
  tensor_scale = {stored};
  if (options().has_both) {
    const std::uint32_t columns = random().column_scale;
    column_scale = {columns != 0 ? std::bit_cast<float>(columns) : scale_of_matrix(c, of, matrices[1].view(), 0x0F7E3)};
  }
  describe_outputs();
}

Nvfp4Problem::Nvfp4Problem(const Case& with, Input x, float stored, float column_stored)
    : Problem(with), input(std::move(x)), tensor_scale{stored} {
  blocks_case(c).tensor_scale = std::bit_cast<std::uint32_t>(stored);
  blocks_case(c).random.column_scale = std::bit_cast<std::uint32_t>(column_stored);
  if (options().has_both) column_scale = {column_stored};
  if (c.gather != 0) {
    c.gather = std::max(c.gather, c.rows);
    gathered = gather_from(input, c.seed, c.gather);
  }
  describe_outputs();
}

Nvfp4Problem::Nvfp4Problem(const Call& call)
    : Nvfp4Problem(case_of(call, call.inputs[0].dtype), matrix_of_call(call, case_of(call, call.inputs[0].dtype)),
                   scale_of_call(call), column_scale_of_call(call)) {}

void Nvfp4Problem::describe_outputs() {
  const BlockShape block = blocks_of(std::as_const(c.variant)).block;
  TensorInfo codes{"codes", Format::e2m1x2, c.rows, (c.cols + 1) / 2, block.rows, block.cols / 2, false};
  TensorInfo scales = scales_info(c, "scales", block);
  scales.format = Format::e4m3;
  outputs = {std::move(codes), std::move(scales)};
  if (!options().has_both) return;
  const Case turned = transposed(c);
  codes = {"column codes", Format::e2m1x2, turned.rows, (turned.cols + 1) / 2, block.rows, block.cols / 2, false};
  scales = scales_info(turned, "column scales", block);
  scales.format = Format::e4m3;
  outputs.insert(outputs.end(), {codes, scales});
}

std::vector<std::size_t> Nvfp4Problem::order() const {
  return outputs.size() == 2 ? std::vector<std::size_t>{1, 0} : std::vector<std::size_t>{1, 0, 3, 2};
}

std::vector<ProblemInput> Nvfp4Problem::inputs() const {
  const bool gathers = c.gather != 0;
  std::vector<ProblemInput> all{
      {values_tensor(c.variant.dtype, c.rows_of_x(), c.cols, input.stride, gathers ? gathered.source : input.bytes),
       {}}};
  all[0].info = values_info("x", c.variant.dtype, c.rows_of_x(), input.stride);
  all.push_back(vector_input("tensor_scale", tensor_scale));
  if (options().has_both) all.push_back(vector_input("column_tensor_scale", column_scale));
  if (!c.experts.empty()) all.push_back(vector_input("offsets", c.experts));
  if (gathers) all.push_back(vector_input("row_index", gathered.index));
  return all;
}

QuantizedTensor Nvfp4Problem::quantized(const Recipe& recipe) const {
  return quantize(input.view(), Format::e2m1, blocks_of(c.variant).block, recipe, {.outer = tensor_scale}, c.experts);
}

std::vector<Bytes> Nvfp4Problem::outputs_of(const QuantizedTensor& q, const Case& of) {
  const ScaledBlocksVariant& v = blocks_of(of.variant);
  std::vector<std::uint8_t> scales = values_in<std::uint8_t>(q.scales().data);
  return {packed_rows(q.codes.as<std::uint8_t>(), of.cols),
          to_bytes(in_layout(of, scale_geometry(of, v.block), std::move(scales), v.layout))};
}

std::vector<ExpectedTensor> Nvfp4Problem::answer() const {
  std::vector<Bytes> bytes = options().any() ? nvfp4_outputs(*this, {}) : outputs_of(quantized(recipe()));
  std::vector<ExpectedTensor> answer;
  for (std::size_t i = 0; i < outputs.size(); ++i) answer.push_back({outputs[i], std::move(bytes[i])});
  return answer;
}

Table Nvfp4Problem::definitions(std::span<const Bytes> observed) const {
  if (c.elements() > kMostForRows || c.elements() == 0) return {};
  Table rows = options().any() ? nvfp4_options_table(*this) : nvfp4_table(*this, observed);
  if (c.gather != 0) merge(rows, gathers());
  return rows;
}

// Other source rows.
Table Nvfp4Problem::gathers() const {
  return gather_table(gathered, input, c.experts, [own = std::make_shared<Nvfp4Problem>(*this)](Input x) {
    Nvfp4Problem other = *own;
    other.input = std::move(x);
    std::vector<Bytes> bytes;
    for (ExpectedTensor& tensor : other.answer()) bytes.push_back(std::move(tensor.bytes));
    return bytes;
  });
}

namespace {

// The lines about an element's block: its amax, and the scale under the tensor's.
void explain_block(const Nvfp4Problem& p, std::int64_t row, std::int64_t col, Finding& finding) {
  const ScaledBlocksVariant& v = blocks_of(p.c.variant);
  const ScaleGeometry g = scale_geometry(p.c, v.block);
  const BlockBounds b = block_at_scale(p.c, g, scale_row_of(p.c, g, row), col / v.block.width(p.c.cols));
  BlockAmax amax;
  Plant largest = p.input.plant(b.first_row, b.first_col);
  for (std::int64_t i = b.first_row; i < b.end_row; ++i) {
    for (std::int64_t j = b.first_col; j < b.end_col; ++j) {
      const float value = p.input.view().at(i, j);
      amax.has_nan |= std::isnan(value);
      if (std::fabs(value) > amax.amax) amax.amax = std::fabs(value), largest = p.input.plant(i, j);
    }
  }
  const Recipe recipe = p.recipe();
  const OuterScale outer = outer_scale_of_stored(recipe.two_level, largest_value(Format::e2m1), p.tensor_scale[0]);
  const BlockScale scale = block_scale(recipe, Format::e2m1, amax, outer);
  finding.element.push_back(
      fmt::format("block     rows {} to {}, columns {} to {}", b.first_row, b.end_row - 1, b.first_col, b.end_col - 1));
  const Format dtype = p.c.variant.dtype;
  finding.element.push_back("amax      " + notations(dtype, largest.bits & ~sign_bit(dtype)) + " at " +
                            place_text(largest.row, largest.col) + (amax.has_nan ? "; the block holds a NaN" : ""));
  finding.element.push_back(fmt::format("tensor    scale ({}) {}", to_text(recipe.two_level.stored),
                                        notations(Format::fp32, std::bit_cast<std::uint32_t>(p.tensor_scale[0]))));
  finding.element.push_back("scale     " + notations(Format::e4m3, scale.byte) + " by the reference" +
                            (recipe.two_level.choice != BlockChoice::none ? ", where the amax becomes 6" : ""));
  finding.relevant.push_back(largest);
}

}  // namespace

void Nvfp4Problem::explain(std::size_t output, Finding& finding) const {
  if (options().any()) return explain_nvfp4_options(*this, output, finding);
  const Difference::Element& e = finding.difference->first;
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  const ScaleGeometry g = scale_geometry(c, v.block);
  if (output == 0) {
    const bool high = (e.expected & 0xF) == (e.observed & 0xF);  // the code that differs
    const std::int64_t col = std::min(c.cols - 1, 2 * e.col + (high ? 1 : 0));
    finding.element.push_back("input     x" + place_text(e.row, col) + " = " +
                              notations(input.dtype, input.bits(e.row, col)) + ", the " + (high ? "high" : "low") +
                              " nibble of its byte");
    finding.relevant.push_back(input.plant(e.row, col));
    finding.element.push_back(place_line(c, g, e.row, col));
    if (c.gather != 0) finding.element.push_back(gathered_line(gathered, e.row));
    explain_block(*this, e.row, col, finding);
  } else {
    ScalePlace place{e.row, e.col};
    if (v.layout == MXCHECK_TCGEN05) place = explain_tiled_byte(g, finding);
    if (place.row >= 0 && !input.bytes.empty()) {
      const BlockBounds b = block_at_scale(c, g, place.row, place.col);
      explain_block(*this, b.first_row, b.first_col, finding);
    }
  }
  explain_words(finding);
}

namespace {

// Rows by index: fewer source rows than rows, more, and, of few variants, more than 16 bits count.
std::vector<Case> gathered_corners(const Variant& v) {
  const ScaledBlocksVariant& blocks = blocks_of(v);
  if (blocks.options.has_both) return {};
  const std::int64_t height = blocks.block.rows;
  std::vector<Case> cases{blocks_corner(v, 2 * height + 5, 65, Data::slots, 120),
                          blocks_corner(v, 3 * height + 4, 80, Data::boundaries, 121)};
  cases[0].gather = height + 1;
  cases[1].gather = cases[1].rows + 40;
  cases[1].experts = {0, 1, 1, height + 3, cases[1].rows};
  if (blocks.recipe == "nvfp4" && !blocks.options.any()) {
    cases.push_back(blocks_corner(v, 99, 8, Data::slots, 122));
    cases.back().gather = 70'000;
  }
  return cases;
}

// Statement: equality, on all data; boundaries are the ties of expand.cc.
Statement equality() {
  Statement s = blocks_equality("quantize_nvfp4_equals_the_reference", "quantize_nvfp4",
                                "codes and scales under the tensor's scale are the reference's, byte for byte",
                                "numerics/scale/two_level.h; docs/nvfp4.md");
  s.cases_per_variant = 6;
  s.col_strides = false;
  s.corners = [](const Variant& v, Suite suite) {
    std::vector<Case> cases = usual_corners(v, suite);
    // 4,096 blocks; of squares, which have 16 times the elements, 1,024.
    const BlockShape block = blocks_of(v).block;
    for (std::uint64_t seed = 100; seed < 116; ++seed) {
      cases.push_back(blocks_corner(v, block.rows * 8, block.rows > 1 ? 128 : 512, Data::boundaries, seed));
    }
    for (Case& c : divisor_corners(v)) cases.push_back(std::move(c));
    for (Case& c : gathered_corners(v)) cases.push_back(std::move(c));
    const ScaledBlocksVariant& blocks = blocks_of(v);
    constexpr std::int64_t kMostOfAGrid = 65'535;  // blocks below one another
    if (blocks.block.rows > 1 && blocks.recipe == "nvfp4" && v.dtype == Format::bf16 && !blocks.options.any())
      cases.push_back(blocks_corner(v, kMostOfAGrid * blocks.block.rows + 1, 1, Data::slots, 116));
    return cases;
  };
  return s;
}

}  // namespace

OperationModule nvfp4_module() {
  ScaledBlocksTraits traits{"quantize_nvfp4"};
  traits.can_be_asked = [](const Variant&) { return true; };
  traits.depends_on_recipe = traits.has_two_levels = traits.has_options = true;
  traits.usual_in_quick = std::int64_t{1} << 17;
  traits.has_row_index_on_host = true;
  traits.invalid_calls = [] {
    std::vector<InvalidCall> all =
        invalid_scaled_blocks(disagreeing_extents({unknown_format(), unknown_recipe(), far_row_index()}));
    add_invalid(all, {invalid_nvfp4_options(), invalid_row_index()});
    return all;
  };
  static const OperationOf<Nvfp4Problem, ScaledBlocksOperation> kQuantize(traits);
  OperationModule module{{&kQuantize, &dequantize_nvfp4_operation()}, {equality()}};
  for (auto* family : {nvfp4_laws, nvfp4_options_laws}) {
    for (Statement& law : family()) module.statements.push_back(std::move(law));
  }
  for (Statement& statement : dequantize_nvfp4_statements()) module.statements.push_back(std::move(statement));
  return module;
}

}  // namespace mxcheck
