#pragma once
// Parses a policy of quantize, quantize_dual, dequantize, scale_layout or cast; throws Refusal for anything that the
// library does not support.

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/candidate.h"
#include "kernels/common/dtype.h"

namespace mxcheck_kernels {

enum class QuantizeOperation : std::uint8_t { quantize, quantize_dual, dequantize, scale_layout, cast };

// The rule that makes a scale of a block's largest magnitude.
enum class ScaleRule : std::uint8_t {
  rceil,       // exact ceil(log2(amax / largest value))
  floor,       // floor(log2 amax) - largest exponent ("ocp")
  rceil_fp32,  // RN(amax * RN(1/largest value)) rounded up to a power of two ("torchao"): as rceil for every amax but
               // one, kFp32RuleException, an ulp above byte 0's range, whose product rounds back to 2^-127
  te,          // rceil_fp32, but NaN is ignored in amax, and an infinite amax gives byte 254
};

struct Shape {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

struct QuantizePolicy {
  Element element = Element::e4m3;
  ScaleRule rule = ScaleRule::rceil;
  Dtype dtype = Dtype::bf16;  // of the values: x or y
  Shape block;
  mxcheck_layout layout = MXCHECK_COMPACT;
};

struct OfferedRecipe {
  std::string_view name;
  ScaleRule rule;
};

// Throws Refusal: INVALID for a policy that cannot be read, UNSUPPORTED for what is not offered. scale_layout reads
// neither format, recipe nor type; dequantize and cast not at the recipe; cast not at block and layout.
QuantizePolicy read_quantize_policy(QuantizeOperation operation, const mxcheck_policy* policy, DLDataType type,
                                    std::span<const OfferedRecipe> recipes, std::span<const Shape> blocks);

}  // namespace mxcheck_kernels
