// Steps of a layer under claims: the right library holds, sums in another order hold, faults are found, and claims that
// there are not are refused. At night: of the catalogue's faults of each step how many each claim finds, a row of
// docs/contracts.md. Run by itself the test prints that table, and before it a row of each fault:
//
//   build/release/bin/step_claims_test --gtest_filter='*Table*' | grep '^|'

#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "properties/gate/gate.h"
#include "tests/libraries/gate_on.h"

namespace {

using mxcheck::test::expect_held, mxcheck::test::ShellAnswer, mxcheck::test::WrongLibrary;

// fault: "" for the library itself.
std::string library_of(const std::string& fault) {
  return fault.empty() ? MXCHECK_CPU_LAYER_LIBRARY : MXCHECK_LAYER_FAULTS + fault + ".so";
}
ShellAnswer claimed(const std::string& fault, const std::string& claim, const std::string& only) {
  return mxcheck::test::gate_on(library_of(fault), "",
                                "--claim " + claim + " --cases 60 --seed 1 --only '" + only + "' 2>&1");
}

void expect_outside(const std::string& fault, const std::string& operation, const std::string& only,
                    const std::string& text) {
  const ShellAnswer ran = claimed(fault, operation + "=any_order", only);
  EXPECT_EQ(ran.code, 1) << fault << ran.out;
  for (const std::string& said : {text, "--claim " + operation + "=any_order --reproduce"})
    EXPECT_TRUE(ran.says(said)) << fault << ": " << said << ran.out;
}

constexpr const char* kRows = "aggregate_is_a_sum_of_its_products";
constexpr const char* kRowErrors = "aggregate_is_as_accurate_as_the_reference";

TEST(StepClaims, hold_of_sums_of_rows_in_whatever_order) {
  for (const char* order : {"", "rows_added_in_ascending_order", "slots_added_in_reverse", "aggregate_in_fp64",
                            "product_and_sum_rounded_apart", "sum_begins_at_minus_zero"})
    expect_held(claimed(order, "aggregate=any_order", kRows), {kRows});
  expect_held(claimed("slots_added_in_reverse", "aggregate=as_accurate_as:exact", "*aggregate*"), {kRows, kRowErrors});
}

TEST(StepClaims, find_what_is_no_sum_of_a_tokens_rows) {
  for (const char* fault : {"sum_in_bf16", "dropped_slot_ends_the_token", "weight_of_the_slot"})
    expect_outside(fault, "aggregate", kRows, "o is outside of what any order of its sums can give");
}

TEST(StepClaims, find_larger_errors_than_the_references) {
  const ShellAnswer ran = claimed("sum_in_bf16", "aggregate=as_accurate_as:exact", kRowErrors);
  EXPECT_EQ(ran.code, 1) << ran.out;
  EXPECT_TRUE(ran.says("o is less accurate than its contract")) << ran.out;
}

TEST(StepClaims, ask_for_no_bits_and_leave_the_other_steps_theirs) {
  const ShellAnswer ran = claimed("slots_added_in_reverse", "aggregate=any_order", "*aggregate*");
  expect_held(ran, {kRows});
  EXPECT_TRUE(ran.says("aggregate is held to any_order instead of exact, which it declares")) << ran.out;
  EXPECT_EQ(claimed("slots_added_in_reverse", "aggregate=any_order", "permuting_tokens*").code, 4);
}

// Rows that come back from ranks.
ShellAnswer combined(const std::string& fault) {
  return mxcheck::test::gate_on(
      MXCHECK_DISPATCH_FAULTS + fault + ".so", "",
      "--claim combine=any_order --cases 60 --seed 1 --only combine_is_a_sum_of_its_products 2>&1");
}

TEST(StepClaims, hold_of_rows_that_come_back_in_whatever_order) {
  for (const char* order : {"rows_added_up_rank_by_rank", "rows_added_as_they_arrive"})
    expect_held(combined(order), {"combine_is_a_sum_of_its_products"});
  const ShellAnswer twice = combined("token_counted_twice");
  EXPECT_EQ(twice.code, 1) << twice.out;
  EXPECT_TRUE(twice.says("o is outside of what any order of its sums can give")) << twice.out;
}

TEST(StepClaims, find_larger_errors_of_rows_that_come_back) {
  constexpr const char* kErrors = "combine_is_as_accurate_as_the_reference";
  const auto accurate = [&](const std::string& library) {
    return mxcheck::test::gate_on(
        library, "",
        std::string("--claim combine=as_accurate_as:exact --cases 60 --seed 1 --only ") + kErrors + " 2>&1");
  };
  for (const char* order : {"rows_added_up_rank_by_rank", "rows_added_as_they_arrive"})
    expect_held(accurate(MXCHECK_DISPATCH_FAULTS + std::string(order) + ".so"), {kErrors});
  const ShellAnswer rounded = accurate(library_of("sum_in_bf16"));
  EXPECT_EQ(rounded.code, 1) << rounded.out;
  EXPECT_TRUE(rounded.says("o is less accurate than its contract")) << rounded.out;
}

constexpr const char* kSwiglu = "swiglu_is_within_its_interval";
constexpr const char* kGradient = "swiglu_backward_is_within_its_interval";

TEST(StepClaims, hold_of_every_sigmoid_and_order_of_swiglu) {
  for (const char* order : {"", "exp_by_exp2", "gate_divided"})
    expect_held(claimed(order, "swiglu=any_order", kSwiglu), {kSwiglu});
  expect_held(claimed("sigmoid_by_tanh", "swiglu=any_order+tanh", kSwiglu), {kSwiglu});
  expect_held(claimed("derivative_as_a_sum", "swiglu_backward=any_order", kGradient), {kGradient});
  const char* errors = "swiglu_is_as_accurate_as_the_reference";
  expect_held(claimed("gate_times_q_times_u_first", "swiglu=as_accurate_as:exact", errors), {errors});
}

TEST(StepClaims, find_what_is_no_swiglu_and_no_gradient_of_it) {
  const std::string text = " is outside of what any right sigmoid and order of operations gives";
  for (const char* fault : {"silu_rounded_to_bf16", "a_truncated", "sigmoid_by_tanh"})
    expect_outside(fault, "swiglu", kSwiglu, "a" + text);
  for (const char* fault : {"da_without_weight", "du_of_rounded_silu"})
    expect_outside(fault, "swiglu_backward", kGradient, "dh" + text);
  for (const char* fault : {"a_not_rounded_before_codes", "largest_value_rounds_up", "column_amax_over_32_rows"})
    expect_outside(fault, "swiglu", kSwiglu, text);
}

constexpr const char* kRoutes = "route_is_within_its_intervals";

ShellAnswer routed(const std::string& fault, const std::string& claim, const std::string& only) {
  return mxcheck::test::gate_on(MXCHECK_HOST_ROUTE, "ROUTE_FAULT=" + fault,
                                "--claim route=" + claim + " --cases 200 --seed 1 --only '" + only + "' 2>&1");
}

TEST(StepClaims, hold_of_right_routes_and_find_wrong_experts_and_weights) {
  expect_held(routed("", "as_accurate_as:exact", "route_*"), {kRoutes, "route_is_as_accurate_as_the_reference"});
  for (const auto& [fault, text] :
       {std::pair{"bias_in_weights", "weights are outside of what any right exp and order of sums gives"},
        std::pair{"not_renormalized", "weights are outside"},
        std::pair{"larger_index", "experts are those of no right"},
        std::pair{"duplicate_route", "experts are those of no right scores and order"}}) {
    const ShellAnswer ran = routed(fault, "any_order", kRoutes);
    EXPECT_EQ(ran.code, 1) << fault << ran.out;
    EXPECT_TRUE(ran.says(text)) << fault << ran.out;
  }
}

TEST(StepClaims, that_there_are_not_are_refused) {
  for (const auto& [claim, text] :
       {std::pair{"aggregate=any_oder", "'any_oder' is no claim about aggregate; known are any_order"},
        std::pair{"aggregate=as_accurate_as:sm90_bf16", "is no claim about aggregate"},
        std::pair{"quantize_transposed=any_order", "is no claim about quantize_transposed, which promises bits"},
        std::pair{"dequantize=any_order", "has no such operation"},
        std::pair{"any_order", "; claims by name are made about "}}) {
    const ShellAnswer ran = claimed("", claim, "*");
    EXPECT_EQ(ran.code, 2) << ran.out;
    EXPECT_TRUE(ran.says(text)) << claim << ran.out;
  }
}

// ---- the table of docs/contracts.md
// -------------------------------------------------------------------------------------

struct Step {
  const char* operation;
  const char* interval;
  const char* accuracy;
  const char* catalogue = "layer";
  int cases = 60;  // drawn ones of each statement; 0: as many as the suite has
};
constexpr Step kSteps[] = {
    {"aggregate", kRows, kRowErrors, "layer", 0},
    {"swiglu", kSwiglu, "swiglu_is_as_accurate_as_the_reference"},
    {"swiglu_backward", kGradient, "swiglu_backward_is_as_accurate_as_the_reference"},
    {"route", kRoutes, "route_is_as_accurate_as_the_reference", "route", 400},
};

bool finds(const Step& step, const std::string& library, const std::string& claim, const char* statement) {
  mxcheck::GateOptions options;
  options.tool = MXCHECK_TOOL, options.library = library, options.seed = 1, options.cases = step.cases;
  if (!claim.empty()) options.claims = {claim};
  const mxcheck::Statement* const s = mxcheck::find_statement(statement);
  if (s == nullptr) throw std::runtime_error(std::string("no statement ") + statement);
  return run_statement(*s, options).verdict == mxcheck::Verdict::failed;
}

class ClaimsTable : public testing::TestWithParam<Step> {};

TEST_P(ClaimsTable, has_of_each_step_what_the_page_says) {
  const Step& step = GetParam();
  const std::string name = step.operation, equality = name + "_equals_the_reference";
  int count = -1, found[3] = {};
  const bool is_of_routes = std::string_view(step.catalogue) == "route";
  std::vector<WrongLibrary> libraries = mxcheck::test::wrong_libraries(step.catalogue);
  if (is_of_routes) libraries.push_back({"", "control", "", "", "", "0", "", "nothing is changed"});
  for (const WrongLibrary& one : libraries) {
    const bool is_right = one.name == "control";
    if (one.statements()[0] != equality && !is_right) continue;
    setenv("ROUTE_FAULT", is_right ? "" : one.name.c_str(), 1);
    const std::string library = is_of_routes ? MXCHECK_HOST_ROUTE : library_of(one.name);
    bool is[3] = {finds(step, library, "", equality.c_str()), finds(step, library, name + "=any_order", step.interval),
                  false};
    is[2] = is[1] || finds(step, library, name + "=as_accurate_as:exact", step.accuracy);
    std::printf("| %s | %s | %s | %s |\n", one.what.c_str(), is[0] ? "found" : "-", is[1] ? "found" : "-",
                is[2] ? "found" : "-");
    std::fflush(stdout);
    ++count;
    for (int i = 0; i < 3; ++i) found[i] += is[i] ? 1 : 0;
    EXPECT_FALSE(is_right && (is[0] || is[1] || is[2]));
  }
  const std::string row = fmt::format("| `{}` | {} | {} | {} | {} |", name, count, found[0], found[1], found[2]);
  std::printf("%s\n", row.c_str());
  std::ifstream file(MXCHECK_CONTRACTS_PAGE);
  std::ostringstream page;
  page << file.rdbuf();
  EXPECT_NE(page.str().find("\n" + row + "\n"), std::string::npos) << "docs/contracts.md lacks: " << row;
}

INSTANTIATE_TEST_SUITE_P(All, ClaimsTable, testing::ValuesIn(kSteps),
                         [](const auto& info) { return info.param.operation; });

}  // namespace
