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
namespace {

class ScaleLayoutChange final : public ScaledBlocksOperation {
 public:
  ScaleLayoutChange() : ScaledBlocksOperation("scale_layout", false) {}

  [[nodiscard]] std::unique_ptr<Problem> make_problem(const Case& c) const override {
    return std::make_unique<ScaleLayoutProblem>(c);
  }
  [[nodiscard]] std::unique_ptr<Problem> problem_of(const Call& call) const override {
    const CallTensor& scales = call.inputs[0];
    return std::make_unique<ScaleLayoutProblem>(case_of(call), values_in<std::uint8_t>({scales.data, scales.bytes}));
  }
  [[nodiscard]] std::vector<InvalidCall> invalid_calls() const override {
    std::vector<InvalidCall> all{unwanted_row_index()};
    add_invalid(all, {blocks_and_layouts(), offsets()});
    return all;
  }

 protected:
  // Scale bytes are the same whatever the elements are.
  [[nodiscard]] bool can_be_asked(const Variant& v) const override {
    return blocks_of(v).format == Format::e4m3 && v.dtype == Format::bf16 && has_tiles(blocks_of(v).block);
  }
};

}  // namespace

OperationModule scale_layout_module() {
  static const ScaleLayoutChange kScaleLayout;
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
