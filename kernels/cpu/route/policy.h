#pragma once
// A router's policy read (kernels/candidate_route.h): the variant, the rule and the numbers that go with them.

#include <cstdint>

#include "kernels/common/dtype.h"
#include "kernels/common/route/policy.h"

namespace mxcheck_kernels::cpu {

enum class RouteOperation : std::uint8_t { route, route_round, route_metadata, route_backward };

struct RoutePlan {
  Score score = Score::logits;
  Weights weight = Weights::softmax_of_kept;
  bool packed = false;
  Dtype dtype = Dtype::bf16;
  bool nan_last = false;
  float scale = 1;
  TokenRoundingRule rule = TokenRoundingRule::none;

  // Rows with these are refused: NaN, or what is not finite.
  [[nodiscard]] bool refuses_nan() const { return packed || !nan_last; }
};

// Reads the names, types and flags of a policy, which supports() can be asked about. Throws Refusal: INVALID for a
// policy that cannot be read, UNSUPPORTED for what is not offered. route_metadata has no variant and reads no type.
RoutePlan read_route_policy(RouteOperation operation, const mxcheck_policy* policy, DLDataType type);

// All of it: numbers that do not fit one another are refused as INVALID.
const mxcheck_route_policy& check_route_numbers(RouteOperation operation, const mxcheck_policy* policy,
                                                const RoutePlan& plan);

}  // namespace mxcheck_kernels::cpu
