// GEMMs that promise no order of their sums: every output lies in the interval that holds all of them.

#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "numerics/format/codec.h"
#include "properties/core/check.h"
#include "properties/operations/matmul/fields.h"
#include "properties/operations/matmul/operation.h"
#include "properties/operations/matmul/problem.h"
#include "reference/matmul/any_order.h"

namespace mxcheck {
namespace {

std::uint32_t word_at(const Bytes& bytes, std::size_t i, std::size_t width) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + i * width, width);
  return word;
}

// The outputs, with the exact sum in place of each that is outside of its interval. The exact sum, rounded once, lies
// in every interval, so that outputs which are that need none.
Bytes nearest_right(const MatmulProblem& p, Format output, const Bytes& exact, const Bytes& observed) {
  const std::size_t width = size_of(output);
  std::vector<std::uint8_t> differs(observed.size() / width);
  for (std::size_t i = 0; i < differs.size(); ++i)
    differs[i] = std::memcmp(exact.data() + i * width, observed.data() + i * width, width) != 0 ? 1 : 0;
  const std::vector<OutputRange> ranges = any_order_ranges(p.matmul(p.contract()), differs);
  Bytes right = observed;
  for (std::size_t i = 0; i < differs.size(); ++i) {
    if (differs[i] == 0 || ranges[i].holds(output, word_at(observed, i, width))) continue;
    std::memcpy(right.data() + i * width, exact.data() + i * width, width);
  }
  return right;
}

std::optional<Finding> is_a_sum_of_its_products(CheckContext& context, const Case& c) {
  const ProblemAndAnswer posed = problem_and_answer_of(context, c);
  const auto& p = static_cast<const MatmulProblem&>(*posed.problem);
  const TensorInfo& d = posed.answer.front().info;
  const bool large = c.elements() > 100'000;
  Bytes before;
  for (const std::uint8_t poison : kPoisons) {
    if (large && poison != kPoisons[c.seed & 1]) continue;
    const CallOutputs got = run_problem(context, p, poison);
    if (!got.usable()) return propagate(context, got);
    if (!before.empty() && before == got.outputs[0]) continue;  // as most kernels give it again
    before = got.outputs[0];
    const Bytes right = nearest_right(p, d.format, posed.answer.front().bytes, got.outputs[0]);
    auto finding = differ(d, right, got.outputs[0], "D is outside of what any order of its sums can give");
    if (!finding) continue;
    p.explain(0, *finding);
    if (context.thorough) tell_matches(p, posed.answer, got.outputs, *finding, {poison, context.causes});
    return finding;
  }
  return std::nullopt;
}

}  // namespace

Statement any_order_statement(const Statement& equality) {
  Statement s = equality;
  s.name = "matmul_is_a_sum_of_its_products";
  s.sentence =
      "where no order of sums is promised, every output lies in the interval that holds the result of every order";
  s.source = "reference/matmul/any_order.h";
  s.applies = [](const Variant& v, std::span<const Variant>) { return is_matmul(v.operation) && !promises_bits(v); };
  s.check = is_a_sum_of_its_products;
  s.data.insert(s.data.end(), {Data::slots, Data::sparse});  // few or short terms: narrow intervals
  s.repeats_bits = false;
  s.recorded = false;
  return s;
}

}  // namespace mxcheck
