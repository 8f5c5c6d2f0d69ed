#include "properties/operations/dequantize/operation.h"

#include <algorithm>
#include <utility>

#include "numerics/bytes.h"
#include "properties/core/invalid_call.h"
#include "properties/operations/dequantize/problem.h"
#include "properties/operations/scaled_blocks/operation.h"

namespace mxcheck {
namespace {

class Dequantize final : public ScaledBlocksOperation {
 public:
  Dequantize() : ScaledBlocksOperation("dequantize", false) {}

  [[nodiscard]] std::unique_ptr<Problem> make_problem(const Case& c) const override {
    return std::make_unique<DequantizeProblem>(c);
  }
  [[nodiscard]] std::unique_ptr<Problem> problem_of(const Call& call) const override {
    Case c = case_of(call);
    c.variant.dtype = call.outputs[0].dtype;
    const auto bytes = [&](std::size_t i) {
      return values_in<std::uint8_t>({call.inputs[i].data, call.inputs[i].bytes});
    };
    return std::make_unique<DequantizeProblem>(c, bytes(0), bytes(1));
  }
  [[nodiscard]] bool any_nan_is_equal(std::string_view) const override { return true; }
  [[nodiscard]] std::vector<InvalidCall> invalid_calls() const override {
    std::vector<InvalidCall> all{disagreeing_cols(), huge_cols(), unknown_format(), unwanted_row_index()};
    add_invalid(all, {blocks_and_layouts(), offsets()});
    return all;
  }

 protected:
  [[nodiscard]] bool can_be_asked(const Variant& v) const override { return v.dtype != Format::fp16; }
};

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
  static const Dequantize kDequantize;
  Statement s = blocks_equality("dequantize_equals_the_reference", "dequantize",
                                "values are code times scale, rounded once; a scale of 255 makes its block NaN",
                                "OCP MX 1.0 section 5.1");
  s.corners = every_code_and_scale;
  return {{&kDequantize}, {std::move(s)}};
}

}  // namespace mxcheck
