#pragma once
// The table of blocks that share a scale: other recipes, and slips of scales, codes, layouts, casts and decoding, each
// a row of properties/core/definitions.h. The gate asks it for quantize, cast, dequantize and scale_layout, `golden
// verify` for the goldens about them, and identify for casts and quantizations.
//
//   BlocksProblem p{x, Format::e4m3, {1, 32}, recipe_named("rceil")};
//   p.expected = quantize(p.view(), p.element, p.block, p.recipe);
//   p.own_scales = scales_of_the_candidate;
//   likeliest_causes({info, p.expected.codes.data, observed}, blocks_table(p, 0, 1), 0, "code");
//
// Rows refer to what they are made of, which must outlive them.

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "numerics/scale/recipe.h"
#include "numerics/tensor.h"
#include "properties/core/definitions.h"
#include "reference/quantize/quantize.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {

// A matrix to quantize, and a candidate's answer to it.
struct BlocksProblem {
  Tensor x;  // of BF16, FP16 or FP32
  Format element = Format::e4m3;
  BlockShape block;
  Recipe recipe;
  std::uint8_t pad_byte = 0;
  std::vector<std::int64_t> offsets;
  QuantizedTensor expected;
  // The candidate's own, where it has them in the right form: causes are looked for one at a time, so that wrong scales
  // are not held against codes that are right for them.
  std::optional<Tensor> own_scales;
  Bytes own_codes = {};  // none: nothing is said of codes that do not follow from wrong scales

  [[nodiscard]] std::int64_t rows() const { return x.shape[0]; }
  [[nodiscard]] std::int64_t cols() const { return x.shape[1]; }
  [[nodiscard]] MatrixView view() const { return {x.format, x.data.data(), rows(), cols(), cols()}; }
  [[nodiscard]] float at(std::int64_t i) const { return view().at(i / cols(), i % cols()); }
  [[nodiscard]] const Tensor& scales_of_codes() const { return own_scales ? *own_scales : expected.scales(); }
  // The index of an element's scale, row-major in the compact shape.
  [[nodiscard]] std::vector<std::int64_t> scale_index() const;
  // The largest magnitude of each block, row-major; NaN where an element is.
  [[nodiscard]] std::vector<float> amaxes() const;
};

// Rows about codes, as output number `codes`, and compact scales, as output number `scales`.
Table blocks_table(const BlocksProblem& p, std::size_t codes, std::size_t scales);
// The other recipes of these rows, and rules of E8M0 scales that no recipe has: the nearest power of two.
Table recipe_rows(const BlocksProblem& p, std::size_t codes, std::size_t scales);
// The whole table of a matrix whose answer is not computed yet; observed: the candidate's outputs, scales compact.
// Outputs of codes along tokens are the transposes of both. Rows keep alive what they need.
Table coded_table(BlocksProblem p, bool is_transposed, std::size_t codes, std::size_t scales,
                  std::span<const Bytes> observed);
Table scale_rows(const BlocksProblem& p, std::size_t scales);  // of these the rows about scales alone
// Rows about the scales in a layout; none where the blocks have no such layout.
Table layout_table(const BlocksProblem& p, ScaleLayout layout, std::size_t output);

// The gate's cases of equality as matrices of this type: the corners of its statements and one of each kind of data, in
// whole blocks, or, without a block, of casts. For black boxes, which have no experts, strides and index.
struct GateMatrix {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<float> x;
};
std::vector<GateMatrix> gate_matrices(Format element, std::optional<BlockShape> block, Format type);

// Roundings and treatments of overflow by name ("nearest_even, saturate"), of values that are cast to the format.
Table casts_table(Format format, std::vector<double> values, std::size_t output);
// Stochastic casts of the values with these random words, one a value.
Table stochastic_table(Format format, std::vector<double> values, std::vector<std::uint32_t> words, std::size_t output);
// True if these codes may be of a stochastic cast, whose random words are its own: each is one of the two beside its
// value, as often the upper one, and as often not the nearer, as is due (six standard deviations are let pass). bits:
// random ones of a value, the top ones of its word; fractions count by as many.
bool is_stochastic_cast(Format format, Overflow overflow, std::span<const double> values,
                        std::span<const std::uint32_t> codes, int bits = 32);
// Slips of a cast of values of this type that should be to nearest even with this overflow; only FP64 has slips that
// go by way of FP32.
Table cast_slips(Format format, Overflow overflow, const std::vector<double>& values, std::size_t output,
                 Format type = Format::fp32);

// Slips of casting an element, which rows about casts and rows about codes under the candidate's own scales share.
struct ElementSlip {
  std::string name;
  std::function<std::uint32_t(double v)> code;
};

// Slips of a cast with this rounding and overflow; of: the name of what is cast, "a product".
std::vector<ElementSlip> element_slips(Format f, Rounding r, Overflow o, const std::string& of);

// The codes of the values as bytes of an output.
Bytes codes_of(Format format, const std::vector<double>& values, const std::function<std::uint32_t(double)>& code);
inline constexpr double kPoisoned = std::numeric_limits<double>::quiet_NaN();  // an element of a block with a NaN

// Codes times E8M0 scales, decoded to FP32 or BF16. scale_index: of each code.
struct Decoding {
  Tensor codes;
  Tensor scales;
  std::vector<std::int64_t> scale_index;
  Format values = Format::fp32;
};
Table decoding_table(const Decoding& d, std::size_t output);

// E4M3 as AMD's MI300 has it: bias 8, largest value 240 (saturating), no negative zero, NaN is 0x80.
std::uint32_t encode_fnuz(double value);

}  // namespace mxcheck
