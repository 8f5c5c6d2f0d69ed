#pragma once
// RMS normalization and its gradient: docs/training.md. x and dy are rows x width, gain has width elements.
//
// Errors: Error{usage} for sizes that do not agree.

#include <cstdint>
#include <span>
#include <vector>

namespace mxcheck {

inline constexpr float kNormEpsilon = 0x1p-16F;

struct Norm {
  std::vector<std::uint16_t> y;  // BF16
  std::vector<float> scale;      // r of each row
};
Norm norm(std::span<const float> x, std::span<const float> gain, int threads = 0);

struct NormGradient {
  std::vector<float> dx;
  std::vector<float> dgain;
};
NormGradient norm_backward(std::span<const float> dy, std::span<const float> x, std::span<const float> scale,
                           std::span<const float> gain, int threads = 0);

}  // namespace mxcheck
