#include "properties/operations/quantize/operation.h"

#include <utility>

#include "properties/core/invalid_call.h"
#include "properties/operations/quantize/problem.h"
#include "properties/operations/scaled_blocks/operation.h"

namespace mxcheck {
namespace {

class Quantize final : public ScaledBlocksOperation {
 public:
  explicit Quantize(std::string_view name) : ScaledBlocksOperation(name, true) {}

  [[nodiscard]] std::unique_ptr<Problem> make_problem(const Case& c) const override {
    return std::make_unique<QuantizeProblem>(c);
  }
  [[nodiscard]] std::unique_ptr<Problem> problem_of(const Call& call) const override {
    return quantize_problem_of(call);
  }
  [[nodiscard]] std::vector<InvalidCall> invalid_calls() const override {
    std::vector<InvalidCall> all{disagreeing_cols(), huge_cols(), unknown_format(), unknown_recipe()};
    add_invalid(all, {blocks_and_layouts(), offsets(), invalid_row_index()});
    return all;
  }

 protected:
  // The columns of quantize_dual are the rows turned: its blocks have one row.
  [[nodiscard]] bool can_be_asked(const Variant& v) const override {
    const BlockShape block = blocks_of(v).block;
    return name() == "quantize" || (block.rows == 1 && block.cols > 1);
  }
  [[nodiscard]] bool depends_on_recipe() const override { return true; }
};

}  // namespace

OperationModule quantize_module() {
  static const Quantize kQuantize("quantize");
  static const Quantize kDual("quantize_dual");
  OperationModule module{{&kQuantize, &kDual}, quantize_equality_statements()};
  for (const auto& family : {quantize_algebra_statements(), quantize_layout_statements(), large_tensor_statements()}) {
    module.statements.insert(module.statements.end(), family.begin(), family.end());
  }
  return module;
}

}  // namespace mxcheck
