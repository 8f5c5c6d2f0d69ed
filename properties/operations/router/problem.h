#pragma once
// Routers as problems of the gate, one of each operation: logits or routes drawn from a case, the call, and the
// reference's answer.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "properties/core/input.h"
#include "properties/core/operation.h"
#include "properties/operations/router/definitions.h"
#include "properties/operations/router/fields.h"

namespace mxcheck {

// Parts that all share.
class RouterProblem : public Problem {
 public:
  using Problem::Problem;
  [[nodiscard]] std::vector<ExpectedTensor> answer() const final;
  void explain(std::size_t output, Finding& finding) const final;
  [[nodiscard]] Table definitions(std::span<const Bytes> observed) const final;

 protected:
  [[nodiscard]] virtual std::vector<Bytes> reference() const = 0;
  // The lines before the words that were expected and observed.
  virtual void tell(std::size_t output, Finding& finding) const = 0;
  [[nodiscard]] virtual Table table() const = 0;
};

// Parts that those which read logits share.
class LogitsProblem : public RouterProblem {
 public:
  Input input;  // logits
  std::vector<float> bias;

  // The router as the reference takes it; pointers into this. Losses have none.
  [[nodiscard]] Router router() const;

 protected:
  explicit LogitsProblem(const Case& c);     // drawn
  explicit LogitsProblem(const Call& call);  // that a call poses
  [[nodiscard]] std::vector<ProblemInput> inputs() const override;
};

// route.
class ChoiceProblem final : public LogitsProblem {
 public:
  explicit ChoiceProblem(const Case& c) : LogitsProblem(c) { describe_outputs(); }
  explicit ChoiceProblem(const Call& call) : LogitsProblem(call) { describe_outputs(); }
  ChoiceProblem(const LogitsProblem& of, const Variant& as);  // of the same logits

 private:
  void describe_outputs();
  [[nodiscard]] std::vector<Bytes> reference() const override { return bytes_of(route(router(), input.view())); }
  void tell(std::size_t output, Finding& finding) const override;
  [[nodiscard]] Table table() const override { return choice_definitions(router(), input.view()); }
};

// route_round.
class RoundingProblem final : public LogitsProblem {
 public:
  explicit RoundingProblem(const Case& c) : LogitsProblem(c) { describe_outputs(); }
  explicit RoundingProblem(const Call& call) : LogitsProblem(call) { describe_outputs(); }
  [[nodiscard]] TokenRounding token_rounding() const;
  [[nodiscard]] RoundedTokens rows() const { return round_tokens(router(), token_rounding(), input.view()); }

 private:
  void describe_outputs();
  [[nodiscard]] std::vector<Bytes> reference() const override { return bytes_of(rows()); }
  void tell(std::size_t output, Finding& finding) const override;
  [[nodiscard]] Table table() const override { return rounding_definitions(router(), token_rounding(), input.view()); }
};

// route_backward.
class GradientProblem final : public LogitsProblem {
 public:
  explicit GradientProblem(const Case& c);
  explicit GradientProblem(const Call& call);

  std::vector<std::int32_t> routes;  // experts of the tokens
  std::vector<float> gradient;       // of their weights

 private:
  void describe_outputs();
  [[nodiscard]] std::vector<ProblemInput> inputs() const override;
  [[nodiscard]] std::vector<Bytes> reference() const override;
  void tell(std::size_t output, Finding& finding) const override;
  [[nodiscard]] Table table() const override { return gradient_definitions(router(), input.view(), routes, gradient); }
};

// route_balance_loss, route_z_loss.
class LossProblem final : public LogitsProblem {
 public:
  explicit LossProblem(const Case& c);
  explicit LossProblem(const Call& call);

  std::vector<std::int32_t> counts;  // of the balance loss: routes of each expert
  [[nodiscard]] bool is_balance() const { return c.variant.operation == kBalanceLoss.name; }
  [[nodiscard]] RouterLossInputs of() const { return {input.view(), counts, route_case(c).scale}; }

 private:
  void describe_outputs();
  [[nodiscard]] std::vector<ProblemInput> inputs() const override;
  [[nodiscard]] std::vector<Bytes> reference() const override;
  void tell(std::size_t output, Finding& finding) const override;
  [[nodiscard]] Table table() const override { return loss_definitions(of()); }
};

// route_metadata.
class MetadataProblem final : public RouterProblem {
 public:
  explicit MetadataProblem(const Case& c);
  explicit MetadataProblem(const Call& call);

  std::vector<std::int32_t> routes;         // experts of the slots
  std::vector<std::int64_t> token_offsets;  // of ragged tokens
  [[nodiscard]] RouteMetadata metadata() const;

 private:
  void describe_outputs();
  [[nodiscard]] std::vector<ProblemInput> inputs() const override;
  [[nodiscard]] std::vector<Bytes> reference() const override { return bytes_of(metadata()); }
  void tell(std::size_t output, Finding& finding) const override;
  [[nodiscard]] Table table() const override;
};

// Drawn tensors (properties/operations/router/problem.cc).
Input expand_logits(const Case& c);
std::vector<float> expand_bias(const Case& c);
std::vector<std::int64_t> expand_token_offsets(const Case& c);
std::vector<std::int32_t> expand_slot_experts(const Case& c, std::int64_t slots);
std::vector<std::int32_t> expand_chosen_experts(const Case& c);  // tokens x top_k, of a token all different
std::vector<float> expand_gradient(const Case& c, std::span<const std::int32_t> experts);
std::vector<std::int32_t> expand_counts(const Case& c);  // by the case's loads
// The values of data=every_row, as bits of the logits' type: seven, or fewer where a router refuses some.
std::vector<std::uint32_t> small_alphabet(const Variant& v);

}  // namespace mxcheck
