// Faults, other variants, rules and seeds are named by the bytes that they give.

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "numerics/bytes.h"
#include "properties/core/check.h"
#include "properties/operations/router/definitions.h"
#include "properties/operations/router/faults.h"
#include "properties/operations/router/problem.h"
#include "tests/properties/operations/router/some_cases.h"

namespace mxcheck {
namespace {

using Answers = std::vector<Bytes>;

Answers answer_of(const Problem& p) {
  Answers bytes;
  for (ExpectedTensor& t : p.answer()) bytes.push_back(std::move(t.bytes));
  return bytes;
}

std::vector<std::string> names_of(const Problem& p, const Answers& observed) {
  Finding finding;
  tell_matches(p, p.answer(), observed, finding);
  return finding.matches;
}

Answers model_of(const Problem& p, const RouterFaults& faults) {
  if (const auto* r = dynamic_cast<const RoundingProblem*>(&p))
    return bytes_of(model_rows(r->router(), r->token_rounding(), r->input.view(), faults));
  const auto& choice = dynamic_cast<const ChoiceProblem&>(p);
  return bytes_of(model_routes(choice.router(), choice.input.view(), faults));
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
      const std::unique_ptr<Problem> p = make_problem(c);
      const Answers observed = model_of(*p, one);
      if (observed == answer_of(*p)) continue;
      named = has(names_of(*p, observed), fault.text);
      EXPECT_TRUE(named) << fault.text << " in " << to_text(c);
      break;
    }
    EXPECT_TRUE(named) << fault.text << " shows in no case";
  }
}

TEST(RouterMatches, every_fault_of_losses_is_named_where_it_shows) {
  for (const char* operation : {"route_balance_loss", "route_z_loss"}) {
    const std::vector<Case> cases = test::some_losses(operation);
    std::set<std::string_view> names;
    for (const LossFault& fault : all_loss_faults()) {
      EXPECT_TRUE(names.insert(fault.text).second) << fault.text << " is there twice";
      LossFaults one;
      one.*fault.on = true;
      bool shows = false;
      for (const Case& c : cases) {
        const LossProblem p(c);
        if (!fault.is_of(p.of())) break;
        const Answers observed = bytes_of(model_loss(p.of(), one), c.variant.dtype);
        if (observed == answer_of(p)) continue;
        EXPECT_TRUE(has(names_of(p, observed), fault.text)) << fault.text << " in " << to_text(c);
        shows = true;
      }
      EXPECT_EQ(shows, fault.is_of(LossProblem(cases[0]).of())) << fault.text;
    }
  }
  const Case fp32 = parse_case("op=route_z_loss x=fp32 rows=9 cols=5 scale=0.3 data=normal seed=7");
  const LossProblem p(fp32);
  LossProblem rounded = p;
  std::vector<float> logits = values_in<float>(p.input.bytes);
  for (float& x : logits)
    x = static_cast<float>(decode(Format::bf16, nearest_bits(Format::bf16, static_cast<double>(x))));
  rounded.input.bytes = to_bytes(logits);
  EXPECT_EQ(names_of(p, answer_of(rounded)), std::vector<std::string>{"logits rounded to BF16 first"});
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
    const RoundingProblem p(parse_case(base));
    RoundingProblem other = p;
    other.c = parse_case(text);
    const std::vector<std::string> names = names_of(p, answer_of(other));
    EXPECT_TRUE(has(names, row.name)) << row.name;
  }
}

Definition row_named(const Table& table, const std::string& name) {
  const auto row = std::ranges::find(table, name, &Definition::name);
  return row == table.end() ? Definition{} : *row;
}

TEST(RouterMatches, rows_of_a_table_have_names_of_their_own_and_sources) {
  const RoundingProblem p(
      parse_case("op=route_round variant=sigmoid x=fp32 nan=last bias=1 limited=1 rule=up weights=renorm rows=9 cols=8 "
                 "k=2 groups=4 kept=3 tile=2 scale=0.5 step=3 layer=4 data=specials seed=7"));
  const Table choice = choice_definitions(p.router(), p.input.view());
  const Table rounding = rounding_definitions(p.router(), p.token_rounding(), p.input.view());
  for (const Table& table : {choice, rounding}) {
    std::set<std::string> names;
    for (const Definition& row : table) EXPECT_TRUE(names.insert(row.name).second) << row.name << " is there twice";
    EXPECT_EQ(names.count("variant sigmoid"), 0U);
    EXPECT_EQ(row_named(table, "variant softmax-topk").source, "lm-engine, MegaBlocks");
    EXPECT_EQ(row_named(table, "variant sqrtsoftplus-raw").source, "");
  }
  EXPECT_EQ(row_named(rounding, "rule nr-f").source, "SonicMoE, algorithm 4");
  EXPECT_EQ(router_variants(p.router(), p.input.view()).size(), all_router_variants().size());
  EXPECT_EQ(choice.size(), all_router_variants().size() - 1 + choice_slips(p.router(), p.input.view()).size());
}

TEST(RouterMatches, slips_of_other_logits_and_of_the_answers_form_are_named) {
  const ChoiceProblem p(
      parse_case("op=route variant=sigmoid x=fp32 nan=last bias=1 limited=0 rows=60 cols=9 k=3 data=specials seed=5"));
  const Routes right = route(p.router(), p.input.view());
  const auto with = [&](auto change) {
    ChoiceProblem other = p;
    auto logits = values_in<float>(other.input.bytes);
    change(logits, other.bias);
    other.input.bytes = to_bytes(logits);
    return bytes_of(route(other.router(), other.input.view()));
  };
  EXPECT_TRUE(has(names_of(p, with([](auto& x, auto&) {
                             for (float& v : x) v = std::isnan(v) ? 0 : v;
                           })),
                  "NaN taken for zero"));
  EXPECT_TRUE(has(names_of(p, with([](auto& x, auto& bias) {
                             for (std::size_t i = 0; i < x.size(); ++i) x[i] += bias[i % 9];
                             std::fill(bias.begin(), bias.end(), 0.0F);
                           })),
                  "a bias added to the logits, weights included"));
  Routes sorted = right;
  for (std::size_t t = 0; t < 60; ++t) {
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 3 * t; j + 1 < 3 * t + 3; ++j) {
        if (sorted.experts[j] < sorted.experts[j + 1]) continue;
        std::swap(sorted.experts[j], sorted.experts[j + 1]), std::swap(sorted.weights[j], sorted.weights[j + 1]);
      }
    }
  }
  EXPECT_EQ(names_of(p, bytes_of(sorted)),
            std::vector<std::string>{"experts in the order of their index, not best first"});
  Routes cut = right;
  for (float& w : cut.weights) {
    w = static_cast<float>(decode(
        Format::bf16, encode(Format::bf16, static_cast<double>(w), Rounding::nearest_even, Overflow::non_saturate)));
  }
  EXPECT_EQ(names_of(p, bytes_of(cut)), std::vector<std::string>{"weights rounded to BF16"});
}

TEST(RouterMatches, packed_order_has_ties_that_go_to_the_larger_index) {
  const std::vector<float> logits{1, 1, 0, 1, -2, -2, -2, -3};
  Router router;
  router.variant = &router_variant_named("topk-softmax-packed"), router.top_k = 2;
  const MatrixView view{Format::fp32, std::as_bytes(std::span(logits)).data(), 2, 4, 4};
  const Definition row = row_named(choice_slips(router, view), "ties that go to the larger index");
  EXPECT_EQ(values_in<std::int32_t>(row.bytes(0)), (std::vector<std::int32_t>{3, 1, 2, 1}));
  EXPECT_EQ(route(router, view).experts, (std::vector<std::int32_t>{0, 1, 0, 1}));
}

TEST(RouterMatches, nothing_is_named_for_bytes_that_no_fault_gives) {
  const ChoiceProblem p(parse_case("op=route variant=softmax-topk x=fp32 rows=40 cols=9 k=3 data=normal seed=7"));
  Answers observed = answer_of(p);
  observed[1][5] ^= std::byte{1};
  EXPECT_TRUE(names_of(p, observed).empty());
}

TEST(RouterMatches, a_nan_of_another_payload_is_the_same) {
  const GradientProblem p(
      parse_case("op=route_backward variant=sigmoid x=fp32 rows=40 cols=9 k=3 scale=2 data=specials seed=7"));
  GradientProblem other = p;
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
  EXPECT_TRUE(has(names_of(p, observed), "no scale"));
}

TEST(RouterMatches, metadata_in_descending_order_is_named) {
  const MetadataProblem p(parse_case("op=route_metadata rows=20 cols=5 k=2 tile=4 drops=10 data=normal seed=3"));
  const Answers observed = bytes_of(metadata_descending(p.routes, 2, {}, 5, 4));
  EXPECT_EQ(names_of(p, observed), std::vector<std::string>{"tokens of an expert in descending order"});
}

}  // namespace
}  // namespace mxcheck
