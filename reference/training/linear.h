#pragma once
// A linear map y = x W^T of BF16 operands under sm90_bf16, and its gradients: docs/training.md. W is out x in, x is
// rows x in, dy rows x out, all row-major.
//
// Errors: those of matmul.

#include <cstdint>
#include <span>
#include <vector>

namespace mxcheck {

struct LinearShape {
  std::int64_t rows = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
};

std::vector<std::uint16_t> linear_bf16(const LinearShape& s, std::span<const std::uint16_t> x,
                                       std::span<const std::uint16_t> w, int threads = 0);
std::vector<float> linear(const LinearShape& s, std::span<const std::uint16_t> x, std::span<const std::uint16_t> w,
                          int threads = 0);
// dy W, rows x in.
std::vector<float> linear_dx(const LinearShape& s, std::span<const std::uint16_t> dy, std::span<const std::uint16_t> w,
                             int threads = 0);
std::vector<std::uint16_t> linear_dx_bf16(const LinearShape& s, std::span<const std::uint16_t> dy,
                                          std::span<const std::uint16_t> w, int threads = 0);
// dy^T x, out x in.
std::vector<float> linear_dw(const LinearShape& s, std::span<const std::uint16_t> dy, std::span<const std::uint16_t> x,
                             int threads = 0);

}  // namespace mxcheck
