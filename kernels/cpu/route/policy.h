#pragma once
// A router's policy read (kernels/candidate_route.h): the variant, the rule and the numbers that go with them.

#include <cstdint>

#include "kernels/candidate_route.h"
#include "kernels/cpu/quantize/element.h"

namespace mxcheck_cpu {

enum class RouteOperation : std::uint8_t { route, route_round, route_metadata, route_backward };

enum class RouteScore : std::uint8_t { logits, softmax, sigmoid, sqrtsoftplus };  // what experts are chosen by
enum class RouteWeight : std::uint8_t { softmax_of_kept, raw, over_sum, over_sum_plus_tiny, over_tiny_then_sum };
enum class RouteRule : std::uint8_t {
  none,
  nr_f,
  sr_f,
  nr_s,
  balance_f,
  up,
  down,
  nr_even,
  expert_choice,
  capacity_order,
  capacity_score
};

struct RoutePlan {
  RouteScore score = RouteScore::logits;
  RouteWeight weight = RouteWeight::softmax_of_kept;
  bool packed = false;
  Wide wide = Wide::bf16;
  bool nan_last = false;
  float scale = 1;
  RouteRule rule = RouteRule::none;

  // Rows with these are refused: NaN, or what is not finite.
  [[nodiscard]] bool refuses_nan() const { return packed || !nan_last; }
};

inline bool rounds_to_tiles(RouteRule rule) { return rule >= RouteRule::nr_f && rule <= RouteRule::nr_even; }

// What supports() can be asked: names, types and flags. Throws Refusal: INVALID for a policy that cannot be read,
// UNSUPPORTED for what is not offered. route_metadata has no variant and looks at no type.
RoutePlan read_route_policy(RouteOperation operation, const mxcheck_policy* policy, DLDataType wide);

// All of it: numbers that do not fit one another are refused as INVALID.
const mxcheck_route_policy& check_route_numbers(RouteOperation operation, const mxcheck_policy* policy,
                                                const RoutePlan& plan);

}  // namespace mxcheck_cpu
