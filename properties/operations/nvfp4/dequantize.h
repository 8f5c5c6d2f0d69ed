#pragma once
// dequantize_nvfp4: packed E2M1 codes, E4M3 scales of blocks and the tensor's scale in, values y out: code * b * s, or
// code * b / S, or code * b * amax / (L * 6), as the recipe stores the tensor's scale; exact, then rounded once. The
// interface is stated in kernels/candidate.h.
//
// The tensor's scale of a case is the case's tensor_scale where it has one, and otherwise follows from the seed alone,
// whatever the data: of eight seeds three put products beside midpoints of BF16, where a value that is rounded to FP32
// first goes to the other side; one has few bits, whose products are such midpoints; one makes values subnormal and
// one too large, if they can be; the others are any.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "numerics/scale/recipe.h"
#include "properties/core/operation.h"
#include "properties/core/statement.h"
#include "properties/operations/scaled_blocks/fields.h"
#include "reference/quantize/quantized_tensor.h"

namespace mxcheck {

class DequantizeNvfp4Problem final : public Problem {
 public:
  explicit DequantizeNvfp4Problem(const Case& c);     // drawn
  explicit DequantizeNvfp4Problem(const Call& call);  // that a call poses
  // Given: packed codes, scales in the variant's layout, and the tensor's scale.
  DequantizeNvfp4Problem(const Case& c, std::vector<std::uint8_t> codes, std::vector<std::uint8_t> scales,
                         float tensor_scale);

  std::vector<std::uint8_t> codes;  // two a byte; of rows of odd length the last high nibble holds anything
  std::vector<std::uint8_t> scales;
  std::vector<float> tensor_scale;  // one

  [[nodiscard]] std::vector<ProblemInput> inputs() const override;
  [[nodiscard]] std::vector<ExpectedTensor> answer() const override;
  void explain(std::size_t output, Finding& finding) const override;
  [[nodiscard]] Table definitions(std::span<const Bytes> observed) const override;

  [[nodiscard]] Recipe recipe() const { return any_recipe_named(blocks_of(c.variant).recipe); }
  [[nodiscard]] std::vector<std::uint8_t> compact_scales() const;
  // The index of an element's scale among the compact ones.
  [[nodiscard]] std::vector<std::int64_t> scale_index() const;
};

// A quantized matrix of two levels from its parts; codes: one a byte.
QuantizedTensor nvfp4_tensor(BlockShape block, const Recipe& recipe, std::vector<std::int64_t> shape,
                             const std::vector<std::uint8_t>& codes, std::vector<std::int64_t> scale_shape,
                             const std::vector<std::uint8_t>& scales, float tensor_scale);

// A product code * b under the tensor's scale, as the recipe stores it, nearly exact: the double is on the right side
// of every midpoint of FP32 and BF16.
double under_tensor_scale(const Recipe& recipe, double product, double tensor_scale);

// The tensor's scale of a case that has none.
float drawn_scale_of_values(const Case& c, const Recipe& recipe);

// Slips of decoding: of nibbles, of block scales, of the tensor's scale, of roundings.
Table nvfp4_values_table(const DequantizeNvfp4Problem& problem);

const Operation& dequantize_nvfp4_operation();
std::vector<Statement> dequantize_nvfp4_statements();

}  // namespace mxcheck
