#include "properties/statements/common.h"

#include "properties/gate/generate.h"

namespace mxcheck {

Got run_call(CheckContext& context, const Call& call, const Case& c) {
  // Statements ask about transposes, halves and padded copies of a case: not all of them need be within the limits.
  const OperationInfo* limits = context.process.operation(call.operation);
  if (limits != nullptr && !is_within_limits(c, *limits)) return {{}, std::nullopt, false, true};
  Ran ran = run_checked(context.process, call, c);
  Got got;
  got.finding = std::move(ran.finding);
  got.offered = got.finding || ran.outcome;
  if (ran.outcome) got.outputs = std::move(ran.outcome->outputs);
  return got;
}

Got run_problem(CheckContext& context, const Problem& problem, std::uint8_t poison) {
  Call call = problem.call();
  call.poison = poison;
  if (poison == kPoisons[1])
    call.byte_offset = 256;  // the second run of a case is also the one that says where it starts
  return run_call(context, call, problem.c);
}

std::optional<Finding> differ(const TensorInfo& info, std::span<const std::byte> expected,
                              std::span<const std::byte> observed, const std::string& summary) {
  std::optional<Difference> difference = compare(info, expected, observed, kPoisons[0]);
  if (!difference) return std::nullopt;
  Finding finding;
  finding.kind = FindingKind::mismatch;
  finding.summary = summary;
  finding.difference = std::move(difference);
  return finding;
}

std::optional<Finding> pass_on(CheckContext& context, const Got& got) {
  if (!got.offered) (got.outside_limits ? context.nothing_claimed : context.not_offered) = true;
  return got.finding;
}

std::optional<Finding> nothing_claimed(CheckContext& context) {
  context.nothing_claimed = true;
  return std::nullopt;
}

bool offers(std::span<const Variant> variants, const Variant& wanted) {
  return std::find(variants.begin(), variants.end(), wanted) != variants.end();
}

std::span<const std::uint8_t> as_u8(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

const std::vector<Statement>& all_statements() {
  static const std::vector<Statement> statements = [] {
    std::vector<Statement> all;
    for (std::vector<Statement> family :
         {equality_statements(), algebra_statements(), layout_statements(), product_statements(),
          large_product_statements(), route_statements(), route_law_statements(), route_row_law_statements(),
          route_refusal_statements(), conduct_statements()}) {
      for (Statement& s : family) all.push_back(std::move(s));
    }
    return all;
  }();
  return statements;
}

}  // namespace mxcheck
