// The router with switches: off, it is the reference; on, each gives something else, which is named.

#include "properties/operations/router/faults.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "properties/operations/router/problem.h"

namespace mxcheck {
namespace {

void expect_same_floats(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  TensorInfo info{"weights", Format::fp32, 1, static_cast<std::int64_t>(a.size()), 0, 0, true};
  EXPECT_FALSE(compare(info, std::as_bytes(std::span(a)), std::as_bytes(std::span(b)), 0xA5)) << what;
}

std::vector<Case> cases_of(const char* operation) {
  std::vector<Case> cases;
  std::uint64_t seed = 1;
  for (const Variant& v : askable_routes(operation)) {
    for (const Data data : {Data::codes, Data::specials, Data::slots}) {
      if (++seed % 3 != 0) continue;
      Case c = route_corner(v, 23, 12, 1 + static_cast<std::int64_t>(seed % 4), data, seed);
      c.tile = 4, c.scale = 2.5F, c.capacity = static_cast<std::int64_t>(seed % 7);
      cases.push_back(c);
    }
  }
  return cases;
}

TEST(RouteModel, without_slips_gives_the_references_routes) {
  for (const Case& c : cases_of("route")) {
    const Problem p = make_problem(c);
    const Routes want = route(router_of(p), p.input.view);
    const Routes got = model_routes(router_of(p), p.input.view, {});
    ASSERT_EQ(want.experts, got.experts) << to_text(c);
    expect_same_floats(want.weights, got.weights, to_text(c));
  }
}

TEST(RouteModel, without_slips_gives_the_references_rows) {
  for (const Case& c : cases_of("route_round")) {
    const Problem p = make_problem(c);
    const RoundedTokens want = round_tokens(router_of(p), token_rounding_of(c), p.input.view);
    const RoundedTokens got = model_rows(router_of(p), token_rounding_of(c), p.input.view, {});
    ASSERT_EQ(want.chosen, got.chosen) << to_text(c);
    ASSERT_EQ(want.offsets, got.offsets) << to_text(c);
    ASSERT_EQ(want.row_token, got.row_token) << to_text(c);
    ASSERT_EQ(want.token_offsets, got.token_offsets) << to_text(c);
    ASSERT_EQ(want.token_rows, got.token_rows) << to_text(c);
    expect_same_floats(want.row_weight, got.row_weight, to_text(c));
  }
}

std::vector<std::vector<std::byte>> bytes_of(const Problem& p) {
  std::vector<std::vector<std::byte>> bytes;
  for (ExpectedTensor& t : reference_answer(p)) bytes.push_back(std::move(t.bytes));
  return bytes;
}

// A case in which the slip shows.
TEST(RouteModel, every_slip_is_named_where_it_shows) {
  std::vector<Case> cases = cases_of("route");
  for (Case& c : cases_of("route_round")) cases.push_back(c);
  for (const RouteSlip& slip : all_route_slips()) {
    RouteSlips one;
    one.*slip.on = true;
    bool named = false;
    for (const Case& c : cases) {
      const Problem p = make_problem(c);
      std::vector<std::vector<std::byte>> observed = bytes_of(p);
      const auto right = observed;
      if (c.variant.operation == "route") {
        const Routes r = model_routes(router_of(p), p.input.view, one);
        std::memcpy(observed[0].data(), r.experts.data(), observed[0].size());
        std::memcpy(observed[1].data(), r.weights.data(), observed[1].size());
      } else {
        const RoundedTokens a = model_rows(router_of(p), token_rounding_of(c), p.input.view, one);
        std::memcpy(observed[0].data(), a.chosen.data(), observed[0].size());
        std::memcpy(observed[1].data(), a.offsets.data(), observed[1].size());
        std::memcpy(observed[2].data(), a.row_token.data(), observed[2].size());
        std::memcpy(observed[3].data(), a.row_weight.data(), observed[3].size());
        std::memcpy(observed[4].data(), a.token_offsets.data(), observed[4].size());
        std::memcpy(observed[5].data(), a.token_rows.data(), observed[5].size());
      }
      if (observed == right) continue;
      const std::vector<std::string> names = routes_that_match(p, observed);
      named = std::find(names.begin(), names.end(), slip.text) != names.end();
      EXPECT_TRUE(named) << slip.text << " in " << to_text(c);
      break;
    }
    EXPECT_TRUE(named) << slip.text << " shows in no case";
  }
}

TEST(RouteModel, another_variant_rule_or_seed_is_named) {
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
    Problem other = make_problem(parse_case(base));
    other.c = parse_case(text);
    const std::vector<std::string> names = routes_that_match(make_problem(parse_case(base)), bytes_of(other));
    EXPECT_TRUE(std::find(names.begin(), names.end(), row.name) != names.end()) << row.name;
  }
}

TEST(RouteModel, metadata_in_descending_order_is_still_an_inverse) {
  const std::vector<std::int32_t> slots{1, 0, -1, 1, 1, 0};
  const RouteMetadata m = metadata_descending(slots, 2, {}, 2, 4);
  EXPECT_EQ(m.row_slot, (std::vector<std::int32_t>{5, 1, -1, -1, 4, 3, 0, -1, -1, -1, -1, -1}));
  EXPECT_EQ(m.row_token, (std::vector<std::int32_t>{2, 0, -1, -1, 2, 1, 0, -1, -1, -1, -1, -1}));
  EXPECT_EQ(m.slot_row, (std::vector<std::int32_t>{6, 1, -1, 5, 4, 0}));
}

}  // namespace
}  // namespace mxcheck
