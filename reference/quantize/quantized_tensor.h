#pragma once
// A quantized matrix: codes, and one or more levels of scales. The value of an element is its code times the scale of
// its block at each level.
//
//   codes E4M3 [rows, cols], one level: E8M0 of 1 x 32             MXFP8
//   codes E4M3 [rows, cols], one level: FP32 of 1 x 128            DeepSeek-V3
//   codes E2M1 [rows, cols], E4M3 of 1 x 16, then FP32 of 0 x 0    NVFP4: one FP32 scale of the whole tensor
//
// A level may hold what its scale is computed from: the inverse, or the tensor's amax (StoredScale of
// numerics/scale/two_level.h).
//
// Each code has a byte, or two in formats of more than 8 bits. A level's scales are row-major and compact; a block of 0
// rows or columns spans the matrix (reference/common/matrix.h). With expert offsets blocks of the first level restart
// at every expert.
//
// Errors: none; dequantize (reference/quantize/quantize.h) refuses shapes that do not fit one another.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "numerics/format/codec.h"
#include "numerics/scale/scale_rule.h"
#include "numerics/scale/two_level.h"
#include "numerics/tensor.h"
#include "reference/common/matrix.h"

namespace mxcheck {

struct ScaleLevel {
  BlockShape block;
  ScaleRule rule = ScaleRule::rceil;            // by which the scales were made: dequantizing does not ask
  Tensor scales{"", Format::e8m0, {0, 0}, {}};  // [scale rows, scale cols], of E8M0, FP32 or E4M3
  StoredScale stored = StoredScale::decode;     // a value is multiplied by the scale, or divided by it
  float unit = 1;                               // StoredScale::amax: multiplied by scale / unit, unit being L * vmax
  friend bool operator==(const ScaleLevel&, const ScaleLevel&) = default;

  // The value of scale i. NaN for an E8M0 byte of 255.
  [[nodiscard]] double scale(std::size_t i) const {
    const std::uint32_t code = scales.code(i);
    return scales.format == Format::fp32 ? double{std::bit_cast<float>(code)} : decode(scales.format, code);
  }
  // A value is multiplied by the first and divided by the second, of scale i.
  [[nodiscard]] std::pair<double, double> multiplier_and_divisor(std::size_t i) const {
    const double s = scale(i);
    return stored == StoredScale::encode ? std::pair(1.0, s) : std::pair(s, double{unit});
  }
};

struct QuantizedTensor {
  Tensor codes{"", Format::e4m3, {0, 0}, {}};  // [rows, cols]; its format is that of the elements
  std::vector<ScaleLevel> levels{1};           // from the smallest blocks to the largest; at least one
  friend bool operator==(const QuantizedTensor&, const QuantizedTensor&) = default;

  [[nodiscard]] Format element() const { return codes.format; }
  [[nodiscard]] std::int64_t rows() const { return codes.rows(); }
  [[nodiscard]] std::int64_t cols() const { return codes.cols(); }

  // The first level: the only one of all recipes but those with a scale of scales.
  [[nodiscard]] BlockShape block() const { return levels.front().block; }
  [[nodiscard]] const Tensor& scales() const { return levels.front().scales; }
  [[nodiscard]] Tensor& scales() { return levels.front().scales; }
  [[nodiscard]] std::int64_t scale_rows() const { return scales().rows(); }
  [[nodiscard]] std::int64_t scale_cols() const { return scales().cols(); }
  [[nodiscard]] double scale(std::size_t i) const { return levels.front().scale(i); }
  // All further levels at an element: code * scale is multiplied by the first and divided by the second, which is 1
  // where there is one level.
  [[nodiscard]] std::pair<double, double> outer_scale(std::int64_t row, std::int64_t col) const {
    double times = 1, over = 1;
    for (std::size_t i = 1; i < levels.size(); ++i) {
      const ScaleLevel& level = levels[i];
      const std::int64_t at = row / level.block.height(rows()) * level.scales.cols() + col / level.block.width(cols());
      const auto [multiplier, divisor] = level.multiplier_and_divisor(static_cast<std::size_t>(at));
      times *= multiplier, over *= divisor;
    }
    return {times, over};
  }
};

// Zeros of these sizes, with one level of scales. Errors: those of make_tensor.
inline QuantizedTensor make_quantized(Format element, std::int64_t rows, std::int64_t cols, BlockShape block,
                                      Format scale_format, std::int64_t scale_rows, std::int64_t scale_cols) {
  return {make_tensor(element, {rows, cols}, "codes"),
          {{block, ScaleRule::rceil, make_tensor(scale_format, {scale_rows, scale_cols}, "scales")}}};
}

}  // namespace mxcheck
