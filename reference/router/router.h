#pragma once
// Token choice: which experts a token goes to, and with what weights, to the bit. docs/router.md has the definition of
// every variant.
//
// Shapes. Logits are tokens x experts, FP32 or BF16 (FP16), row-major with any row stride. Routes are tokens x top_k.
//
//   Router router{.variant = &router_variant_named("topk-softmax"), .top_k = 8};
//   const Routes routes = route(router, {Format::fp32, logits, tokens, experts, experts});
//
// Errors: Error{usage} for a router that does not fit the logits (top_k of 0 or above experts, groups that do not
// divide the experts, a bias of another length ...), naming what would; Error{input} for a NaN in logits or bias where
// the router refuses them, naming the first. Threads (0: the machine's) change nothing but the time.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/common/matrix.h"

namespace mxcheck {

enum class RouterScore : std::uint8_t { logits, softmax, sigmoid, sqrtsoftplus };
enum class RouterWeights : std::uint8_t {
  softmax_of_kept,  // softmax over the kept logits alone
  raw,              // the kept scores
  sum,              // kept scores over their sum
  sum_plus_tiny,    // over their sum plus 1e-20 where top_k > 1, else raw
  tiny_then_sum,    // over a sum that starts at 1e-20
};
enum class NanLogits : std::uint8_t { refuse, last };

struct RouterVariant {
  std::string_view name;
  RouterScore score;
  RouterWeights weights;
  bool packed;  // the order of bit-packed values (docs/router.md), FP32's deviations included
  std::string_view meaning;
};
std::span<const RouterVariant> all_router_variants();
const RouterVariant& router_variant_named(std::string_view name);  // Error{usage} lists the names

struct Router {
  const RouterVariant* variant = nullptr;
  std::int64_t top_k = 0;
  std::int64_t groups = 0;  // group-limited where not 0
  std::int64_t groups_kept = 0;
  NanLogits nan = NanLogits::refuse;
  float scale = 1;              // of every weight
  std::span<const float> bias;  // per expert; for choosing alone. Empty: none
};

struct Routes {
  std::int64_t tokens = 0;
  std::int64_t top_k = 0;
  std::vector<std::int32_t> experts;  // tokens x top_k, best first
  std::vector<float> weights;         // tokens x top_k
};

// The bias alone, as route() checks it: Error{usage} for another length than `experts`, Error{input} for a NaN that the
// router refuses.
void check_bias(const Router& router, std::int64_t experts);

Routes route(const Router& router, const MatrixView& logits, int threads = 0);

// The score of every pair, tokens x experts: softmax over all experts for the variants of logits and softmax, else the
// element's own; +0 for NaN. What token rounding ranks by, and what the load-balancing loss averages.
std::vector<float> router_scores(const Router& router, const MatrixView& logits, int threads = 0);

// The gradient of the logits, tokens x experts in FP32, from that of the weights. experts and gradient are tokens x
// width; an expert of -1 is none, and its gradient is not read.
std::vector<float> route_backward(const Router& router, const MatrixView& logits, std::span<const std::int32_t> experts,
                                  std::span<const float> gradient, std::int64_t width, int threads = 0);

}  // namespace mxcheck
