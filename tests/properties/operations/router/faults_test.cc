// The router with switches: off, it is the reference; on, each gives something else, which is named.

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "properties/core/check.h"
#include "properties/core/compare.h"
#include "properties/operations/router/faults.h"
#include "properties/operations/router/problem.h"
#include "tests/properties/operations/router/some_cases.h"

namespace mxcheck {
namespace {

using test::cases_of;

void expect_same_floats(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  TensorInfo info{"weights", Format::fp32, 1, static_cast<std::int64_t>(a.size()), 0, 0, true};
  EXPECT_FALSE(compare(info, std::as_bytes(std::span(a)), std::as_bytes(std::span(b)), 0xA5)) << what;
}

TEST(RouterModel, without_faults_gives_the_references_routes) {
  for (const Case& c : cases_of("route")) {
    const RouteProblem p(c);
    const Routes want = route(p.router(), p.input.view());
    const Routes got = model_routes(p.router(), p.input.view(), {});
    ASSERT_EQ(want.experts, got.experts) << to_text(c);
    expect_same_floats(want.weights, got.weights, to_text(c));
  }
}

TEST(RouterModel, without_faults_gives_the_references_rows) {
  for (const Case& c : cases_of("route_round")) {
    const RouteProblem p(c);
    const RoundedTokens want = round_tokens(p.router(), p.token_rounding(), p.input.view());
    const RoundedTokens got = model_rows(p.router(), p.token_rounding(), p.input.view(), {});
    ASSERT_EQ(want.chosen, got.chosen) << to_text(c);
    ASSERT_EQ(want.offsets, got.offsets) << to_text(c);
    ASSERT_EQ(want.row_token, got.row_token) << to_text(c);
    ASSERT_EQ(want.token_offsets, got.token_offsets) << to_text(c);
    ASSERT_EQ(want.token_rows, got.token_rows) << to_text(c);
    expect_same_floats(want.row_weight, got.row_weight, to_text(c));
  }
}

TEST(RouterModel, metadata_in_descending_order_is_still_an_inverse) {
  const std::vector<std::int32_t> slots{1, 0, -1, 1, 1, 0};
  const RouteMetadata m = metadata_descending(slots, 2, {}, 2, 4);
  EXPECT_EQ(m.row_slot, (std::vector<std::int32_t>{5, 1, -1, -1, 4, 3, 0, -1, -1, -1, -1, -1}));
  EXPECT_EQ(m.row_token, (std::vector<std::int32_t>{2, 0, -1, -1, 2, 1, 0, -1, -1, -1, -1, -1}));
  EXPECT_EQ(m.slot_row, (std::vector<std::int32_t>{6, 1, -1, 5, 4, 0}));
}

}  // namespace

// Faults, other variants, rules and seeds are named by the bytes that they give.

namespace {

using Answers = std::vector<Bytes>;

Answers answer_of(const RouteProblem& p) {
  Answers bytes;
  for (ExpectedTensor& t : p.answer()) bytes.push_back(std::move(t.bytes));
  return bytes;
}

std::vector<std::string> names_of(const RouteProblem& p, const Answers& observed) {
  Finding finding;
  tell_matches(p, p.answer(), observed, finding);
  return finding.matches;
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// In the first case in which the fault shows.
TEST(RouterMatches, every_fault_is_named_where_it_shows) {
  std::vector<Case> cases = test::cases_of("route");
  for (Case& c : test::cases_of("route_round")) cases.push_back(c);
  for (const RouterFault& fault : all_router_faults()) {
    RouterFaults one;
    one.*fault.on = true;
    bool named = false;
    for (const Case& c : cases) {
      const RouteProblem p(c);
      const bool rounds = c.variant.operation == "route_round";
      const Answers observed = rounds ? bytes_of(model_rows(p.router(), p.token_rounding(), p.input.view(), one))
                                      : bytes_of(model_routes(p.router(), p.input.view(), one));
      if (observed == answer_of(p)) continue;
      named = has(names_of(p, observed), fault.text);
      EXPECT_TRUE(named) << fault.text << " in " << to_text(c);
      break;
    }
    EXPECT_TRUE(named) << fault.text << " shows in no case";
  }
}

TEST(RouterMatches, another_variant_rule_or_seed_is_named) {
  struct Row {
    const char* field;
    const char* is;
    const char* name;
  };
  const std::string base =
      "op=route_round variant=softmax-topk-renorm x=fp32 nan=refuse bias=1 limited=0 rule=sr-f weights=renorm rows=90 "
      "cols=12 k=3 tile=8 step=4294967299 layer=5 data=normal seed=7";
  for (const Row& row :
       {Row{"rule=sr-f", "rule=nr-s", "rule nr-s"}, Row{"weights=renorm", "weights=raw", "raw scores for weights"},
        Row{"layer=5", "layer=0", "a layer of 0"}, Row{"step=4294967299", "step=3", "a step of 32 bits"},
        Row{"bias=1", "bias=0", "no bias"}, Row{"softmax-topk-renorm", "sigmoid", "variant sigmoid"}}) {
    std::string text = base;
    text.replace(text.find(row.field), std::string(row.field).size(), row.is);
    const RouteProblem p(parse_case(base));
    RouteProblem other = p;
    other.c = parse_case(text);
    const std::vector<std::string> names = names_of(p, answer_of(other));
    EXPECT_TRUE(has(names, row.name)) << row.name;
  }
}

TEST(RouterMatches, nothing_is_named_for_bytes_that_no_fault_gives) {
  const RouteProblem p(parse_case("op=route variant=softmax-topk x=fp32 rows=40 cols=9 k=3 data=normal seed=7"));
  Answers observed = answer_of(p);
  observed[1][5] ^= std::byte{1};
  EXPECT_TRUE(names_of(p, observed).empty());
}

TEST(RouterMatches, a_nan_of_another_payload_is_the_same) {
  const RouteProblem p(
      parse_case("op=route_backward variant=sigmoid x=fp32 rows=40 cols=9 k=3 scale=2 data=specials seed=7"));
  RouteProblem other = p;
  route_case(other.c).scale = 1;
  Answers observed = answer_of(other);
  ASSERT_NE(observed, answer_of(p));
  bool any = false;
  for (std::size_t i = 0; i + 4 <= observed[0].size(); i += 4) {
    const bool is_nan =
        (observed[0][i + 3] & std::byte{0x7F}) == std::byte{0x7F} && observed[0][i + 2] > std::byte{0x80};
    if (is_nan) observed[0][i] ^= std::byte{1}, any = true;
  }
  EXPECT_TRUE(any);
  EXPECT_TRUE(has(names_of(p, observed), "a scale of 1"));
}

TEST(RouterMatches, metadata_in_descending_order_is_named) {
  const RouteProblem p(parse_case("op=route_metadata rows=20 cols=5 k=2 tile=4 drops=10 data=normal seed=3"));
  const Answers observed = bytes_of(metadata_descending(p.routes, 2, {}, 5, 4));
  EXPECT_EQ(names_of(p, observed), std::vector<std::string>{"tokens of an expert in descending order"});
}

}  // namespace
}  // namespace mxcheck
