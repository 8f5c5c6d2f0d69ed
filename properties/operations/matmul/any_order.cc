// GEMMs that promise no order of their sums: every output lies in the interval that holds all of them.

#include <optional>
#include <span>
#include <vector>

#include "properties/core/claims.h"
#include "properties/operations/matmul/fields.h"
#include "properties/operations/matmul/operation.h"
#include "properties/operations/matmul/problem.h"

namespace mxcheck {
namespace {

std::optional<Finding> is_a_sum_of_its_products(CheckContext& context, const Case& c) {
  const auto ranges = [](const Problem& of, std::size_t, const std::vector<Bytes>&,
                         std::span<const std::uint8_t> wanted) {
    const auto& p = static_cast<const MatmulProblem&>(of);
    return any_order_ranges(p.matmul(p.contract()), wanted);
  };
  return lies_within(context, c, ranges, "D is outside of what any order of its sums can give");
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
