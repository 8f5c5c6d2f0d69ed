#pragma once
// The error of a GEMM that is due to quantizing its operands.
//
// Y = X W with X of M x K (activations, K last) and W of N x K (`nk`: Y = X W^T) or K x N (`kn`). Blocks lie along K in
// both: a block of 1 x n of X is 1 x n of an nk W and n x 1 of a kn W; a square block is the same in both.
// Both results are computed in double from exact operands: the inputs as they are, and code * scale, which a double
// holds. A product of two inputs is exact in double too (24 + 24 bits), so what is left is the rounding of sums:
//   |computed - exact| <= gamma_K * (|X| |W|),   gamma_K = K u / (1 - K u),   u = 2^-53
// elementwise and for any order of summation (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
// That is 2e-12 for K = 16384; the quantization error is about 1e-2. Code * FP32 scale has up to 32 bits, so that its
// products may round once more: the bound with K + 1; with quotients of two levels of scales K + 3.
//
// Measures, over Y (exact) and Z (of the quantized operands):
//   sqnr_db        10 * log10(sum Y^2 / sum (Z - Y)^2); +Inf without error, -Inf for error without signal
//   frobenius      sqrt(sum (Z - Y)^2 / sum Y^2)
//   max_over_rms   max |Z - Y| / sqrt(mean Y^2)
// NaN and Inf in an operand, or that quantization makes, leave NaN in all three.
//
//   const MatmulErrorMeter meter(x, w, WeightsLayout::nk);
//   meter.error(Format::e4m3, {1, 32}, recipe_named("rceil")).sqnr_db
//
// Errors: Error{usage} naming both sizes when K differs, for empty operands and for blocks across K (n x 1).

#include <cstdint>
#include <vector>

#include "reference/quantize/quantize.h"

namespace mxcheck {

enum class WeightsLayout : std::uint8_t { nk, kn };

struct MatmulError {
  double sqnr_db = 0;
  double frobenius = 0;
  double max_over_rms = 0;
};

// The views' memory must outlive it. Holds the exact result: 8 bytes for each of M * N.
class MatmulErrorMeter {
 public:
  MatmulErrorMeter(const MatrixView& activations, const MatrixView& weights, WeightsLayout layout);

  [[nodiscard]] MatmulError error(Format element, BlockShape block, const Recipe& recipe) const;
  [[nodiscard]] MatmulError error_of_bf16() const;  // both operands rounded to BF16, nearest even

  [[nodiscard]] std::int64_t m() const { return x_.rows; }
  [[nodiscard]] std::int64_t n() const { return layout_ == WeightsLayout::nk ? w_.rows : w_.cols; }
  [[nodiscard]] std::int64_t k() const { return x_.cols; }
  [[nodiscard]] double gamma() const;

 private:
  [[nodiscard]] std::vector<double> multiply(const std::vector<double>& x, const std::vector<double>& w) const;
  [[nodiscard]] MatmulError compare(const std::vector<double>& z) const;

  MatrixView x_, w_;
  WeightsLayout layout_;
  std::vector<double> exact_;
};

}  // namespace mxcheck
