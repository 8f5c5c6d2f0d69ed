#include "properties/operations/scale_layout/operation.h"

#include <utility>

#include "numerics/bytes.h"
#include "properties/core/invalid_call.h"
#include "properties/operations/scale_layout/problem.h"
#include "properties/operations/scaled_blocks/operation.h"

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

}  // namespace mxcheck
