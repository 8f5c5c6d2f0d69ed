#include "properties/operations/scale_layout/problem.h"

#include <utility>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "properties/core/check.h"
#include "properties/operations/scaled_blocks/expand.h"
#include "properties/operations/scaled_blocks/geometry.h"
#include "properties/operations/scaled_blocks/operation.h"
#include "properties/operations/scaled_blocks/place.h"

namespace mxcheck {
namespace {

int layout_read(const Case& c) {
  return blocks_of(c.variant).layout == MXCHECK_COMPACT ? MXCHECK_TCGEN05 : MXCHECK_COMPACT;
}

}  // namespace

ScaleLayoutProblem::ScaleLayoutProblem(const Case& from) : Problem(from) {
  const BlockShape block = blocks_of(from.variant).block;
  const ScaleGeometry g = scale_geometry(from, block);
  scales = in_layout(from, g, expand_scale_bytes(from, g.count()), layout_read(from));
  outputs = {scales_info(from, "scales", block)};
}

ScaleLayoutProblem::ScaleLayoutProblem(const Case& from, std::vector<std::uint8_t> given)
    : Problem(from), scales(std::move(given)) {
  outputs = {scales_info(from, "scales", blocks_of(from.variant).block)};
}

Call ScaleLayoutProblem::call() const {
  Call call;
  call.operation = c.variant.operation;
  call.policy = operation_named(c.variant.operation).policy(c);
  const ScaleGeometry g = scale_geometry(c, blocks_of(c.variant).block);
  const bool tiled = layout_read(c) == MXCHECK_TCGEN05;
  call.inputs.push_back(u8_tensor(tiled ? std::vector{g.tiled_bytes} : std::vector{g.rows, g.cols}, scales));
  if (!c.experts.empty()) call.inputs.push_back(offsets_tensor(c.experts));
  call.outputs = output_tensors(outputs, blocks_of(c.variant).layout);
  return call;
}

std::vector<ExpectedTensor> ScaleLayoutProblem::answer() const {
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  const ScaleGeometry g = scale_geometry(c, v.block);
  return {{outputs[0], to_bytes(in_layout(c, g, to_compact(g, scales, layout_read(c)), v.layout))}};
}

void ScaleLayoutProblem::explain(std::size_t, Finding& finding) const {
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  if (v.layout == MXCHECK_TCGEN05) explain_tiled_byte(scale_geometry(c, v.block), finding);
  explain_words(finding);
}

std::vector<SavedTensor> ScaleLayoutProblem::saved() const {
  TensorInfo info{"scales_in", Format::e8m0, 1, static_cast<std::int64_t>(scales.size())};
  return {{"scales_in", info, to_bytes(scales), true}};
}

}  // namespace mxcheck
