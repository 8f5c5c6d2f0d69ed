#include "properties/operations/scaled_blocks/operation.h"

#include <algorithm>
#include <utility>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "properties/core/check.h"
#include "properties/core/invalid_call.h"
#include "properties/core/notation.h"
#include "properties/operations/dequantize/problem.h"
#include "properties/operations/scaled_blocks/definitions.h"
#include "properties/operations/scaled_blocks/expand.h"
#include "properties/operations/scaled_blocks/geometry.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

// Every code at every scale byte.
std::vector<Case> every_code_and_scale(const Variant& v, Suite suite) {
  std::vector<Case> cases = usual_corners(v, suite);
  const BlockShape block = blocks_of(v).block;
  if (block.cols == 0) {
    cases.push_back(blocks_corner(v, 256, 256, Data::slots, 0));
  } else {
    const std::int64_t blocks = 256 * std::max<std::int64_t>(1, 256 / (block.rows * block.cols));
    cases.push_back(blocks_corner(v, block.rows * blocks / 16, block.cols * 16, Data::slots, 0));
  }
  return cases;
}

}  // namespace

OperationModule dequantize_module() {
  ScaledBlocksTraits dequantize{"dequantize", false};
  dequantize.can_be_asked = [](const Variant& v) { return v.dtype != Format::fp16; };
  dequantize.invalid_calls = [] {
    return invalid_scaled_blocks(disagreeing_extents({unknown_format(), unwanted_row_index()}));
  };
  dequantize.any_nan_is_equal = true;
  static const OperationOf<DequantizeProblem, ScaledBlocksOperation> kDequantize(dequantize);
  Statement s = blocks_equality("dequantize_equals_the_reference", "dequantize",
                                "values are code times scale, rounded once; a scale of 255 makes its block NaN",
                                "OCP MX 1.0 section 5.1");
  s.corners = every_code_and_scale;
  return {{&kDequantize}, {std::move(s)}};
}

namespace {

constexpr std::int64_t kMostDecodings = 1'000'000;  // elements: each row of the table computes an answer

TensorInfo values_info(const Case& c) {
  const BlockShape block = blocks_of(c.variant).block;
  return {"y",
          c.variant.dtype,
          c.rows,
          c.cols,
          block.rows == 0 ? c.rows : block.rows,
          block.cols == 0 ? c.cols : block.cols,
          true};
}

}  // namespace

DequantizeProblem::DequantizeProblem(const Case& from) : Problem(from), codes(expand_codes(from)) {
  const ScaledBlocksVariant& v = blocks_of(from.variant);
  const ScaleGeometry g = scale_geometry(from, v.block);
  std::vector<std::uint8_t> compact = expand_scale_bytes(from, g.count());
  for (const Plant& plant : from.plants) {  // a code and, in the byte above it, the scale byte of its block
    const std::int64_t at = scale_row_of(from, g, plant.row) * g.cols + plant.col / v.block.width(from.cols);
    compact[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(plant.bits >> 8);
  }
  scales = in_layout(from, g, std::move(compact), v.layout);
  outputs = {values_info(from)};
}

DequantizeProblem::DequantizeProblem(const Case& from, std::vector<std::uint8_t> given_codes,
                                     std::vector<std::uint8_t> given_scales)
    : Problem(from), codes(std::move(given_codes)), scales(std::move(given_scales)) {
  outputs = {values_info(from)};
}

DequantizeProblem::DequantizeProblem(const Call& call)
    : DequantizeProblem(case_of(call, call.outputs[0].dtype), input_bytes(call, 0), input_bytes(call, 1)) {}

std::vector<ProblemInput> DequantizeProblem::inputs() const {
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  std::vector<ProblemInput> all{{u8_tensor({c.rows, c.cols}, codes), {"codes"}},
                                {scales_tensor(scale_geometry(c, v.block), v.layout, scales), {"scales"}}};
  if (!c.experts.empty()) all.push_back(vector_input("offsets", c.experts));
  return all;
}

std::vector<ExpectedTensor> DequantizeProblem::answer() const {
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  const ScaleGeometry g = scale_geometry(c, v.block);
  const QuantizedTensor q{
      tensor_of(v.format, {c.rows, c.cols}, codes),
      {{v.block, ScaleRule::rceil, tensor_of(Format::e8m0, {g.rows, g.cols}, to_compact(g, scales, v.layout))}}};
  return {{outputs[0], c.variant.dtype == Format::fp32 ? to_bytes(dequantize(q, c.experts))
                                                       : to_bytes(dequantize_bf16(q, c.experts))}};
}

Table DequantizeProblem::definitions(std::span<const Bytes>) const {
  if (c.elements() > kMostDecodings) return {};
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  const ScaleGeometry g = scale_geometry(c, v.block);
  const auto d = std::make_shared<Decoding>();
  d->codes = tensor_of(v.format, {c.rows, c.cols}, codes);
  d->scales = tensor_of(Format::e8m0, {g.rows, g.cols}, to_compact(g, scales, v.layout));
  d->values = c.variant.dtype;
  for (std::int64_t i = 0; i < c.elements(); ++i)
    d->scale_index.push_back(scale_row_of(c, g, i / c.cols) * g.cols + i % c.cols / v.block.width(c.cols));
  return owning(decoding_table(*d, 0), d);
}

void DequantizeProblem::explain(std::size_t, Finding& finding) const {
  const Difference::Element& e = finding.difference->first;
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  const ScaleGeometry g = scale_geometry(c, v.block);
  const std::int64_t at = scale_row_of(c, g, e.row) * g.cols + e.col / v.block.width(c.cols);
  const std::uint8_t byte = to_compact(g, scales, v.layout)[static_cast<std::size_t>(at)];
  const std::uint8_t code = codes[static_cast<std::size_t>(e.row * c.cols + e.col)];
  finding.element.push_back("input     code" + place_text(e.row, e.col) + " = " + notations(v.format, code));
  finding.element.push_back(place_line(c, g, e.row, e.col));
  finding.element.push_back("scale     " + notations(Format::e8m0, byte));
  finding.relevant.push_back({e.row, e.col, static_cast<std::uint32_t>(byte << 8 | code)});
  explain_words(finding);
}

std::vector<SavedTensor> DequantizeProblem::saved() const {
  TensorInfo scale_bytes{"scales_in", Format::e8m0, 1, std::ssize(scales)};
  scale_bytes.is_vector = true;
  return {{"codes_in", {"codes_in", Format::e4m3, c.rows, c.cols}, to_bytes(codes)},
          {"scales_in", scale_bytes, to_bytes(scales)}};
}

}  // namespace mxcheck
