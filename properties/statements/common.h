#pragma once
// What the statements share: running a problem, comparing one output, asking for a second variant.

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "properties/core/statement.h"
#include "properties/operations/operations.h"

namespace mxcheck {

// The families of statements; all_statements() is these in a row.
std::vector<Statement> equality_statements();
std::vector<Statement> algebra_statements();
std::vector<Statement> layout_statements();
std::vector<Statement> product_statements();
std::vector<Statement> large_product_statements();
std::vector<Statement> route_statements();
std::vector<Statement> route_law_statements();
std::vector<Statement> route_row_law_statements();
std::vector<Statement> route_refusal_statements();
std::vector<Statement> conduct_statements();

inline constexpr std::uint8_t kPoisons[] = {0xA5, 0x3C};

// The outputs of a run, or the finding that stopped it, or neither: not offered.
struct Got {
  std::vector<std::vector<std::byte>> outputs;
  std::optional<Finding> finding;
  bool offered = true;
  bool outside_limits = false;  // the candidate does not claim shapes like this one
  [[nodiscard]] bool usable() const { return offered && !finding; }
};
Got run_problem(CheckContext& context, const Problem& problem, std::uint8_t poison = kPoisons[0]);
Got run_call(CheckContext& context, const Call& call, const Case& c);

// A mismatch finding if the tensors differ; explained when they are outputs of the problem.
std::optional<Finding> differ(const TensorInfo& info, std::span<const std::byte> expected,
                              std::span<const std::byte> observed, const std::string& summary);

// A finding passed on from Got: its own, or nothing where the candidate does not offer the case.
std::optional<Finding> pass_on(CheckContext& context, const Got& got);

// A library that has been held to the reference is as good a reference, and a hundred times as fast.
std::optional<Finding> equals_cpu_library(CheckContext& context, const Case& c);

// What a check returns for a case that its statement says nothing about.
std::optional<Finding> nothing_claimed(CheckContext& context);

bool offers(std::span<const Variant> variants, const Variant& wanted);
std::span<const std::uint8_t> as_u8(const std::vector<std::byte>& bytes);

}  // namespace mxcheck
