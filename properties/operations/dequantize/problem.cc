#include "properties/operations/dequantize/problem.h"

#include <utility>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "properties/core/check.h"
#include "properties/core/notation.h"
#include "properties/operations/scaled_blocks/expand.h"
#include "properties/operations/scaled_blocks/geometry.h"
#include "properties/operations/scaled_blocks/operation.h"
#include "properties/operations/scaled_blocks/place.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

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

Call DequantizeProblem::call() const {
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  Call call;
  call.operation = c.variant.operation;
  call.policy = operation_named(c.variant.operation).policy(c);
  const ScaleGeometry g = scale_geometry(c, v.block);
  const bool tiled = v.layout == MXCHECK_TCGEN05;
  call.inputs.push_back(u8_tensor({c.rows, c.cols}, codes));
  call.inputs.push_back(u8_tensor(tiled ? std::vector{g.tiled_bytes} : std::vector{g.rows, g.cols}, scales));
  if (!c.experts.empty()) call.inputs.push_back(offsets_tensor(c.experts));
  call.outputs = output_tensors(outputs, v.layout);
  return call;
}

std::vector<ExpectedTensor> DequantizeProblem::answer() const {
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  const ScaleGeometry g = scale_geometry(c, v.block);
  Quantized q;
  q.element = v.format, q.block = v.block, q.rows = c.rows, q.cols = c.cols;
  q.scale_rows = g.rows, q.scale_cols = g.cols;
  q.codes = codes;
  q.scales = to_compact(g, scales, v.layout);
  return {{outputs[0], c.variant.dtype == Format::fp32 ? to_bytes(dequantize(q, c.experts))
                                                       : to_bytes(dequantize_bf16(q, c.experts))}};
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
  TensorInfo scale_bytes{"scales_in", Format::e8m0, 1, static_cast<std::int64_t>(scales.size())};
  return {{"codes_in", {"codes_in", Format::e4m3, c.rows, c.cols}, to_bytes(codes)},
          {"scales_in", scale_bytes, to_bytes(scales), true}};
}

}  // namespace mxcheck
