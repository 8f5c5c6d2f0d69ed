#pragma once
// dispatch and combine as problems of the gate: routes and rows drawn from a case, the call, and the reference's
// answer.
//
// No element depends on how large the case is: those of a token are those of its number, and those of a slot's row of
// y, and its weight, those of token and place among its slots. Kinds of data are those of aggregate's y
// (properties/operations/layer/expand.h); of codes and scales any byte, but zeros and those that say their place.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "properties/core/operation.h"
#include "properties/operations/dispatch/fields.h"
#include "properties/operations/layer/problem.h"
#include "reference/layer/dispatch.h"

namespace mxcheck {

// Routes that own their tensors.
struct DrawnRoutes {
  std::vector<std::int64_t> rank_tokens;
  std::vector<std::int32_t> expert_rank;
  std::vector<std::int64_t> token_offsets;
  std::vector<std::int32_t> slot_experts;
  std::int64_t capacity = 0;
  [[nodiscard]] RankedRoutes view() const { return {rank_tokens, expert_rank, token_offsets, slot_experts, capacity}; }
};
DrawnRoutes expand_routes(const Case& c);

// The part of a problem that dispatch and combine share.
class RoutedProblem : public Problem {
 public:
  explicit RoutedProblem(const Case& c);     // drawn
  explicit RoutedProblem(const Call& call);  // that a call poses

  DrawnRoutes routes;
  DispatchPlan plan;

  [[nodiscard]] Call call() const override;
  void place_again() { plan = plan_dispatch(routes.view()); }  // after routes have changed

 protected:
  void add_routes(std::vector<ProblemInput>& to) const;
  // Lines of a report: a row's rank, expert, token and slot; a slot's token, expert and row.
  [[nodiscard]] std::string row_text(std::int64_t row) const;
  [[nodiscard]] std::string slot_text(std::int64_t slot) const;
};

class DispatchProblem final : public RoutedProblem {
 public:
  explicit DispatchProblem(const Case& c);
  explicit DispatchProblem(const Call& call);

  std::vector<std::uint16_t> x;     // BF16
  std::vector<std::uint8_t> codes;  // or codes, and the scales of blocks of 1 x 128
  std::vector<std::uint8_t> scales;

  [[nodiscard]] std::vector<ExpectedTensor> answer() const override;
  void explain(std::size_t output, Finding& finding) const override;
  [[nodiscard]] Table definitions(std::span<const Bytes> observed) const override;
  [[nodiscard]] std::vector<ProblemInput> inputs() const override;

  void describe_outputs();  // of the plan as it is
  [[nodiscard]] bool coded() const { return has_coded_rows(c.variant); }
  // The answer where rows stand elsewhere.
  [[nodiscard]] std::vector<Bytes> answer_of(const DispatchPlan& placed) const;
};

class CombineProblem final : public RoutedProblem {
 public:
  explicit CombineProblem(const Case& c);
  explicit CombineProblem(const Call& call);

  std::vector<std::uint16_t> y;
  std::vector<float> weights;  // of slots, where weighted

  [[nodiscard]] std::vector<ExpectedTensor> answer() const override;
  void explain(std::size_t output, Finding& finding) const override;
  [[nodiscard]] Table definitions(std::span<const Bytes> observed) const override;
  [[nodiscard]] std::vector<ProblemInput> inputs() const override;

  void describe_outputs();
  // The same sums as an aggregation, whose table and lines are those of combine.
  [[nodiscard]] AggregateProblem as_aggregation() const;
};

}  // namespace mxcheck
