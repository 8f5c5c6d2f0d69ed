// GEMMs that promise the accuracy of a contract and no bits of it (as_accurate_as:CONTRACT): over all cases together
// their errors are no larger than the contract's own.
//
// Errors are those against the exact value, as parts of the sum of magnitudes |alpha| sum |a b| + |C| that an output is
// made of: what accumulators lose is in proportion to that, whatever cancels. Of each case up to 16 outputs of those
// that differ from the contract's are compared, drawn so that no element of an operand is of two of them: operands are
// drawn independently, by element and by case, so that these outputs' errors are independent (scales of blocks of rows
// aside, which multiply both errors of an output and leave their order).
//
// ErrorTally (properties/core/claims.h) makes a verdict of them. Its sets are all outputs, and those of cases with one
// property in common: a type of a tensor, a kind of groups, deep products.
//
// An error beyond what any order of sums in the contract's accumulators gives is found by any_order.cc, in one case.

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "numerics/format/codec.h"
#include "properties/core/claims.h"
#include "properties/core/rng.h"
#include "properties/operations/matmul/fields.h"
#include "properties/operations/matmul/operation.h"
#include "properties/operations/matmul/problem.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kDeep = 1024;

// The sets that a case's output belongs to, beside those of its variant and data: "C added".
std::vector<std::string> sets_of(const Case& c) {
  std::vector<std::string> sets{matmul_case(c).depth < kDeep ? "depth below 1024" : "depth of 1024 and more"};
  if (matmul_case(c).adds) sets.emplace_back("C added");
  if (matmul_case(c).alpha != 1) sets.emplace_back("another alpha than 1");
  return sets;
}

// Outputs among them, drawn, that share no row and no column of D: no element of an operand is of two of them, but of a
// gathered row, where one output is enough.
std::vector<std::size_t> apart(const Case& c, std::vector<std::size_t> outputs) {
  const std::size_t most = c.gather != 0 ? 1 : 16;
  const auto cols = static_cast<std::size_t>(c.cols);
  std::vector<std::size_t> taken;
  Draw draw(derived_seed(c.seed, "outputs whose errors are compared"));
  while (!outputs.empty() && taken.size() < most) {
    const std::size_t at = outputs[draw.below(outputs.size())];
    taken.push_back(at);
    std::erase_if(outputs, [&](std::size_t o) { return o / cols == at / cols || o % cols == at % cols; });
  }
  return taken;
}

std::optional<Finding> compares_errors(CheckContext& context, const Case& c) {
  const ProblemAndAnswer posed = problem_and_answer_of(context, c);
  const auto& p = static_cast<const MatmulProblem&>(*posed.problem);
  const CallOutputs got = run_problem(context, p, kPoisons[c.seed & 1]);
  if (!got.usable()) return propagate(context, got);
  const Bytes& own = posed.answer.front().bytes;
  const Format format = posed.answer.front().info.format;
  auto* const tally = dynamic_cast<ErrorTally*>(context.tally.get());
  if (own.empty() || tally == nullptr) return std::nullopt;
  std::vector<std::size_t> outputs;
  const std::vector<std::uint8_t> differs = differing(got.outputs[0], own, format);
  for (std::size_t i = 0; i < differs.size(); ++i) {
    if (differs[i] != 0) outputs.push_back(i);
  }
  if (outputs.empty()) {
    tally->add(c, sets_of(c), 0, 0, 0);
    return std::nullopt;
  }
  const Matmul m = p.matmul(p.contract());
  for (const std::size_t at : apart(c, outputs)) {
    tally->add(c, sets_of(c), exact_output(m, static_cast<std::int64_t>(at)),
               decode(format, word_at(got.outputs[0], format, at)), decode(format, word_at(own, format, at)));
  }
  return std::nullopt;
}

// Deep products, in which accumulators lose most, of every variant: at least 5 each and 128 together, with a seed that
// no other variant has.
std::vector<Case> deep_products(std::span<const Variant> variants, Suite suite) {
  constexpr std::array<std::int64_t, 5> kDepths{512, 1024, 2048, 256, 4096};
  constexpr std::array kKinds{Data::normal, Data::normal, Data::boundaries, Data::normal, Data::sparse, Data::normal};
  constexpr std::size_t kFewest = 128;
  const std::size_t factor = suite == Suite::quick ? 1 : suite == Suite::full ? 4 : 16;
  const std::size_t each = factor * std::max(kDepths.size(), kFewest / std::max<std::size_t>(1, variants.size()) + 1);
  std::vector<Case> cases;
  for (const Variant& v : variants) {
    for (std::size_t i = 0; i < each; ++i) {
      cases.push_back(matmul_corner(v, 16, 16, kDepths[i % kDepths.size()], kKinds[i % kKinds.size()],
                                    derived_seed(i, to_text(v)) >> 16));
    }
  }
  return cases;
}

}  // namespace

Statement accuracy_statement(const Statement& equality) {
  Statement s = equality;
  s.name = "matmul_is_as_accurate_as_its_contract";
  s.sentence =
      "where a contract's accuracy is promised, errors against the exact value are no larger than the contract's own";
  s.source = "properties/operations/matmul/accuracy.cc; numerics/measure/paired_errors.h";
  s.applies = [](const Variant& v, std::span<const Variant>) {
    return is_matmul(v.operation) && parse_matmul_contract(contract_text(v.operation)).as_accurate;
  };
  s.check = compares_errors;
  // Products that are alike wherever they stand in a sum: of structured ones some orders are better than others.
  s.data = {Data::normal, Data::normal, Data::boundaries, Data::sparse};
  s.corners = {};  // their seeds are those of other variants too
  s.shared_corners = deep_products;
  s.covers_pairs = false;
  s.repeats_bits = false;
  s.recorded = false;
  s.tally = [] { return std::make_shared<ErrorTally>("D", "the sum of magnitudes"); };
  return s;
}

}  // namespace mxcheck
