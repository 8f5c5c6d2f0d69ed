#pragma once
// A layer's sizes on the command line, what it computes and keeps, and SonicMoE's rates at three of them.
//
//   const MoeShape shape = parse_moe_shape("32768,4096,1024,128,8");  // T,d,n,E,K
//   shape.operations(Direction::forward)                              // 6 R n d, R = T K
//
// Errors: Error{usage} of parse_moe_shape.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mxcheck::bench {

enum class Direction : std::uint8_t { forward, backward };
std::string_view to_text(Direction direction);

struct MoeShape {
  std::int64_t tokens = 0;   // T
  std::int64_t width = 0;    // d
  std::int64_t inner = 0;    // n
  std::int64_t experts = 0;  // E
  std::int64_t top_k = 0;    // K

  [[nodiscard]] std::int64_t rows() const { return tokens * top_k; }  // R: no route is dropped
  // Operations of the GEMMs, two for each product: up 4 R n d and down 2 R n d; each of both has two gradients.
  [[nodiscard]] double operations(Direction direction) const;
  [[nodiscard]] double tflops(Direction direction, double microseconds) const {
    return operations(direction) / microseconds / 1e6;
  }
  [[nodiscard]] std::string text() const;  // "T=32768 d=4096 n=1024 E=128 K=8"
  friend bool operator==(const MoeShape&, const MoeShape&) = default;
};

MoeShape parse_moe_shape(std::string_view text);
std::span<const MoeShape> default_moe_shapes();
std::span<const MoeShape> quick_moe_shapes();

// TFLOPS of SonicMoE (December 2025) in BF16, with the router: its own benchmark, run on an H200.
struct SonicMoeRate {
  MoeShape shape;
  double forward = 0;  // with what training keeps
  double backward = 0;
};
const SonicMoeRate* find_sonic_moe_rate(const MoeShape& shape);  // null: not measured

// Kept by SonicMoE for the backward pass beside the routes: X and H in BF16, 2 T d + 4 T K n bytes.
std::uint64_t sonic_moe_kept_bytes(const MoeShape& shape);

}  // namespace mxcheck::bench
