#include "properties/core/operation.h"

#include <gtest/gtest.h>

#include <set>

#include "properties/core/check.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

TEST(Operation, each_is_found_by_its_name) {
  std::set<std::string_view> names;
  for (const Operation* o : all_operations()) {
    EXPECT_TRUE(names.insert(o->name()).second) << o->name();
    EXPECT_EQ(find_operation(o->name()), o);
    EXPECT_EQ(&operation_named(o->name()), o);
  }
  for (const char* name : {"quantize", "quantize_dual", "dequantize", "scale_layout", "cast", "matmul", "route",
                           "route_round", "route_metadata", "route_backward"})
    EXPECT_TRUE(names.count(name)) << name;
  EXPECT_EQ(find_operation("matmul:any_contract"), find_operation("matmul"));
  EXPECT_EQ(find_operation("quantise"), nullptr);
  EXPECT_EQ(find_operation(""), nullptr);
  test::expect_error(ErrorKind::usage, "no operation 'quantise'; known are quantize, quantize_dual, dequantize",
                     [] { (void)operation_named("quantise"); });
}

// What the gate relies on, of all that could be asked: a variant is its text, in a case and alone.
TEST(Operation, what_can_be_asked_survives_the_way_to_text_and_back) {
  for (const Operation* o : all_operations()) {
    const bool has_contract = o->name() == "matmul";
    const std::string operation = o->variant_name(has_contract ? "sm90_fp8+promote128" : "exact");
    const std::vector<Variant> variants = o->askable(operation);
    EXPECT_FALSE(variants.empty()) << operation;
    std::set<std::string> texts;
    for (const Variant& v : variants) {
      const std::string text = to_text(v);
      ASSERT_TRUE(texts.insert(text).second) << text;
      ASSERT_EQ(parse_variant(text), v) << text;
      ASSERT_EQ(find_operation(v.operation), o) << text;
    }
    EXPECT_TRUE(offers(variants, variants.back()));
    EXPECT_FALSE(offers({}, variants.back()));
  }
}

TEST(Operation, every_statement_has_a_name_of_its_own_and_a_check) {
  std::set<std::string_view> names;
  for (const Statement& s : all_statements()) {
    EXPECT_TRUE(names.insert(s.name).second) << s.name;
    EXPECT_FALSE(s.sentence.empty() || s.source.empty()) << s.name;
    EXPECT_TRUE(s.applies && s.check) << s.name;
    EXPECT_TRUE(!s.data.empty() || s.corners) << s.name;
  }
}

TEST(Operation, half_the_rows_have_no_experts_and_options_are_told) {
  const Operation& quantize = operation_named("quantize");
  Case c = parse_case("op=quantize rows=9 cols=4 experts=0,2,9");
  EXPECT_TRUE(quantize.is_option(c));
  quantize.halve_rows(c);
  EXPECT_EQ(c.rows, 4);
  EXPECT_TRUE(c.experts.empty());
  EXPECT_FALSE(quantize.is_option(c));
  EXPECT_TRUE(quantize.is_option(parse_case("op=quantize rows=9 cols=4 stride=5")));
  EXPECT_TRUE(quantize.is_option(parse_case("op=quantize rows=9 cols=4 gather=5")));
  EXPECT_FALSE(quantize.is_option(parse_case("op=quantize rows=9 cols=4 stride=4")));
  EXPECT_TRUE(quantize.has_invalid_calls(c));
  EXPECT_FALSE(quantize.has_invalid_calls(parse_case("op=quantize rows=1 cols=4")));
}

TEST(Operation, a_problem_is_its_case_and_its_call_gives_it_back) {
  const Case c = parse_case("op=quantize block=1x32 rows=3 cols=40 data=normal seed=5");
  const std::unique_ptr<Problem> p = make_problem(c);
  EXPECT_EQ(p->c, c);
  const Call call = p->call();
  const std::unique_ptr<Problem> again = operation_named(call.operation).problem_of(call);
  const auto a = p->answer(), b = again->answer();
  ASSERT_EQ(a.size(), p->outputs.size());
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].bytes, b[i].bytes) << a[i].info.name;
  const std::vector<std::size_t> order = p->order();
  EXPECT_EQ(std::set<std::size_t>(order.begin(), order.end()).size(), p->outputs.size());
}

}  // namespace
}  // namespace mxcheck
