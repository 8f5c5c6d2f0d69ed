#pragma once
// Finds the router variant that a black box follows: docs/identify.md, docs/router.md.
//
//   const RouteBox box = [](const RouteCall& call) { return RouteAnswer{experts, weights}; };
//   identify_router({32, 4}, box).explaining == std::vector<std::string>{"topk-softmax"}
//
// Probes: normal logits, logits far apart, ties everywhere, zeros of both signs, subnormals and huge ones. Experts
// are integers that are equal or not; weights are FP32 words, any two NaNs equal.
//
// Errors: Error{usage} for top_k that does not fit, and answers of another size; what the box throws.
//
// Does not promise: groups, biases, scales, NaN and infinite logits, which are options of a call and are not tried.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "properties/core/definitions.h"

namespace mxcheck {

struct RouteSpace {
  std::int64_t experts = 32;
  std::int64_t top_k = 4;
  Format logits = Format::fp32;  // the type of what the box reads, to which the inputs are rounded first
};
struct RouteCall {
  std::int64_t tokens = 0;
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::vector<float> logits;    // tokens x experts
  Format dtype = Format::fp32;  // of the logits, which have values of that type alone
};
struct RouteAnswer {
  std::vector<std::int32_t> experts;  // tokens x top_k, best first
  std::vector<float> weights;
};
using RouteBox = std::function<RouteAnswer(const RouteCall& call)>;

Match identify_router(const RouteSpace& space, const RouteBox& box, const std::string& declared = "");
// An answer that is there already, as a dump's is.
Match match_routes(const std::string& name, const RouteCall& call, const RouteAnswer& answer);

}  // namespace mxcheck
