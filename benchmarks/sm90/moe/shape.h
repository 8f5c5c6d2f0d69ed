#pragma once
// A layer to measure: its sizes on the command line, what it computes and keeps, and SonicMoE's rates at three of them;
// routes; and the tensors of its two calls under a recipe.
//
//   const MoeShape shape = parse_moe_shape("32768,4096,1024,128,8");  // T,d,n,E,K
//   shape.operations(Direction::forward)                              // 6 R n d, R = T K
//   const LayerRoutes routes = draw_moe_routes(shape, RouteLoad::skewed, 7);
//   busiest_expert(routes)                                            // its rows over the mean of all
//   bytes_of(moe_tensors(shape, layer_recipe_named("dsv3")).kept)     // what the backward pass needs of the forward
//   one
//
// Errors: Error{usage} of parse_moe_shape, and for a recipe that keeps what the interface has no type for.

#include <dlpack/dlpack.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "numerics/names.h"
#include "reference/layer/layer_recipe.h"
#include "reference/layer/routes.h"

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
inline constexpr std::string_view kSonicMoeCard = "H200";  // part of the name of the card
struct SonicMoeRate {
  MoeShape shape;
  double forward = 0;  // with what training keeps
  double backward = 0;
};
const SonicMoeRate* find_sonic_moe_rate(const MoeShape& shape);  // null: not measured

// Kept by SonicMoE for the backward pass beside the routes: X and H in BF16, 2 T d + 4 T K n bytes.
std::uint64_t sonic_moe_kept_bytes(const MoeShape& shape);

// --- routes

enum class RouteLoad : std::uint8_t {
  uniform,  // every expert is as likely
  skewed,   // the logits of each expert are raised by 0 to 1.5 of their standard deviation
};
inline constexpr std::array<Named<RouteLoad>, 2> kRouteLoads{
    {{"uniform", RouteLoad::uniform}, {"skewed", RouteLoad::skewed}}};

// Rows sorted by expert, tokens ascending within one; slots best first. The same for the same arguments.
LayerRoutes draw_moe_routes(const MoeShape& shape, RouteLoad load, std::uint64_t seed);

double busiest_expert(const LayerRoutes& routes);

// --- tensors

struct MoeTensor {
  std::string name;
  DLDataType type{};
  std::vector<std::int64_t> shape;

  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::uint64_t bytes() const { return static_cast<std::uint64_t>(elements()) * (type.bits / 8U); }
};
std::uint64_t bytes_of(std::span<const MoeTensor> tensors);

struct MoeTensors {
  std::vector<MoeTensor> given;   // x, w1, w2, d_o
  std::vector<MoeTensor> routes;  // row_token, row_weight, token_offsets, token_rows, offsets
  // Outputs of the forward pass and inputs of the backward one: h, h scales, x, x scales, those that there are; x as it
  // was given is not among them.
  std::vector<MoeTensor> kept;
  bool keeps_given_x = true;
  std::vector<MoeTensor> forward;   // o
  std::vector<MoeTensor> backward;  // dx, dw1, dw2, ds

  // Kept in all, x as it was given included: what an implementation holds between the passes beside weights and routes.
  [[nodiscard]] std::uint64_t kept_bytes() const;
};
MoeTensors moe_tensors(const MoeShape& shape, const LayerRecipe& recipe);

// The tensors by name, in the order of a call; x is "x" where the recipe keeps it as it was given.
std::vector<std::string> moe_inputs(const MoeTensors& tensors, Direction direction);
std::vector<std::string> moe_outputs(const MoeTensors& tensors, Direction direction);

// Bytes of a call's inputs and outputs.
std::uint64_t moe_call_bytes(const MoeTensors& tensors, Direction direction);

}  // namespace mxcheck::bench
