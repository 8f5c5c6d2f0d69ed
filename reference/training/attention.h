#pragma once
// Causal attention with rotary positions, and its gradient: docs/training.md. qkv is tokens x 3 width: q, k, v, head
// after head; tokens are sequence after sequence.
//
// Errors: Error{usage} for sizes that do not agree.

#include <cstdint>
#include <span>
#include <vector>

namespace mxcheck {

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

}  // namespace mxcheck
