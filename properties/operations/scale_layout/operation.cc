#include "properties/operations/scaled_blocks/operation.h"

#include <utility>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "properties/core/check.h"
#include "properties/core/invalid_call.h"
#include "properties/operations/scale_layout/problem.h"
#include "properties/operations/scaled_blocks/expand.h"
#include "properties/operations/scaled_blocks/geometry.h"

namespace mxcheck {
OperationModule scale_layout_module() {
  ScaledBlocksTraits change{"scale_layout", false};
  // Scale bytes are the same whatever the elements are.
  change.can_be_asked = [](const Variant& v) {
    return blocks_of(v).format == Format::e4m3 && v.dtype == Format::bf16 && has_tiles(blocks_of(v).block);
  };
  change.invalid_calls = [] { return invalid_scaled_blocks({unwanted_row_index()}); };
  static const OperationOf<ScaleLayoutProblem, ScaledBlocksOperation> kScaleLayout(change);
  return {{&kScaleLayout},
          {blocks_equality("scale_layout_equals_the_reference", "scale_layout",
                           "scales change their layout and nothing else; padding holds the pad byte",
                           "reference/quantize/scale_layout.h")}};
}

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

ScaleLayoutProblem::ScaleLayoutProblem(const Call& call)
    : ScaleLayoutProblem(case_of(call, Format::bf16), input_bytes(call, 0)) {}

std::vector<ProblemInput> ScaleLayoutProblem::inputs() const {
  const ScaleGeometry g = scale_geometry(c, blocks_of(c.variant).block);
  std::vector<ProblemInput> all{{scales_tensor(g, layout_read(c), scales), {}}};
  if (!c.experts.empty()) all.push_back(vector_input("offsets", c.experts));
  return all;
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
  info.is_vector = true;
  return {{"scales_in", info, to_bytes(scales)}};
}

}  // namespace mxcheck
