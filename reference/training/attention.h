#pragma once
// Causal attention with rotary positions, linear maps and RMS normalization, with their gradients: docs/training.md.
//
// Errors: Error{usage} for sizes that do not agree.

#include <cstdint>
#include <span>
#include <vector>

namespace mxcheck {

// --- attention
//
// qkv is tokens x 3 width: q, k, v, head after head; tokens are sequence after sequence.

struct AttentionShape {
  std::int64_t sequences = 0;
  std::int64_t length = 0;
  std::int64_t heads = 0;
  std::int64_t head_width = 0;  // even
  [[nodiscard]] std::int64_t tokens() const { return sequences * length; }
  [[nodiscard]] std::int64_t width() const { return heads * head_width; }
};

// length x head_width / 2: cosines and sines of position * 10000^(-2j / head_width), each the exact number rounded
// once.
struct RotaryTable {
  std::vector<float> cosine;
  std::vector<float> sine;
};
RotaryTable rotary_table(std::int64_t length, std::int64_t head_width);

struct Attention {
  std::vector<std::uint16_t> qkv;  // with q and k rotated
  std::vector<std::uint16_t> p;    // sequences x heads x length x length
  std::vector<std::uint16_t> out;  // tokens x width
};
Attention attention(const AttentionShape& s, const RotaryTable& table, std::span<const std::uint16_t> qkv,
                    int threads = 0);

// The gradient of qkv before the rotation, BF16, from that of `out`.
std::vector<std::uint16_t> attention_backward(const AttentionShape& s, const RotaryTable& table, const Attention& kept,
                                              std::span<const std::uint16_t> d_out, int threads = 0);

// --- linear maps
//
// y = x W^T of BF16 operands under sm90_bf16, and its gradients. W is out x in, x is rows x in, dy rows x out, all
// row-major. Errors: those of matmul.

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

// --- RMS normalization
//
// And its gradient. x and dy are rows x width, gain has width elements.

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
