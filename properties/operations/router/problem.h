#pragma once
// Routers as problems of the gate: logits drawn from a case, the call, and the reference's answer.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "properties/core/input.h"
#include "properties/core/operation.h"
#include "properties/operations/router/fields.h"
#include "reference/router/metadata.h"
#include "reference/router/router.h"
#include "reference/router/token_rounding.h"

namespace mxcheck {

class RouteProblem final : public Problem {
 public:
  explicit RouteProblem(const Case& c);     // drawn
  explicit RouteProblem(const Call& call);  // that a call poses

  Input input;  // logits
  std::vector<float> bias;
  std::vector<std::int32_t> routes;         // experts: of the tokens (route_backward), of the slots (route_metadata)
  std::vector<std::int64_t> token_offsets;  // route_metadata, of ragged tokens
  std::vector<float> gradient;              // route_backward

  [[nodiscard]] Call call() const override;
  [[nodiscard]] std::vector<ExpectedTensor> answer() const override;
  void explain(std::size_t output, Finding& finding) const override;
  [[nodiscard]] std::vector<SavedTensor> saved() const override;
  [[nodiscard]] Table definitions(std::span<const Bytes> observed) const override;

  void describe_outputs();  // of the case as it is
  // As the reference takes it; pointers into this.
  [[nodiscard]] Router router() const;
  [[nodiscard]] TokenRounding token_rounding() const;
  [[nodiscard]] RouteMetadata metadata() const;
};

// Drawn tensors (properties/operations/router/problem.cc).
Input expand_logits(const Case& c);
std::vector<float> expand_bias(const Case& c);
std::vector<std::int64_t> expand_token_offsets(const Case& c);
std::vector<std::int32_t> expand_slot_experts(const Case& c, std::int64_t slots);
std::vector<std::int32_t> expand_chosen_experts(const Case& c);  // tokens x top_k, of a token all different
std::vector<float> expand_gradient(const Case& c, std::span<const std::int32_t> experts);
// The values of data=every_row, as bits of the logits' type: seven, or fewer where a router refuses some.
std::vector<std::uint32_t> small_alphabet(const Variant& v);

}  // namespace mxcheck
