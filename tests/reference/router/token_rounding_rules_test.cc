#include <gtest/gtest.h>

#include <boost/multiprecision/cpp_int.hpp>
#include <limits>
#include <random>

#include "reference/router/token_rounding.h"
#include "tests/reference/common/test_matrix.h"

namespace mxcheck {
namespace {

using test::thrown_by;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

TEST(TokenRoundingRules, have_names_in_the_order_of_the_enumeration) {
  const std::vector<std::string> names{"none", "nr-f",    "sr-f",          "nr-s",           "balance-f",     "up",
                                       "down", "nr-even", "expert-choice", "capacity-order", "capacity-score"};
  ASSERT_EQ(all_token_rounding_rules().size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const TokenRoundingRuleSpec& rule = all_token_rounding_rules()[i];
    EXPECT_EQ(rule.name, names[i]);
    EXPECT_EQ(static_cast<std::size_t>(rule.rule), i);
    EXPECT_EQ(token_rounding_rule_named(rule.name), rule.rule);
    EXPECT_EQ(rounds_to_tiles(rule.rule), i >= 1 && i <= 7) << rule.name;
    EXPECT_FALSE(rule.meaning.empty());
  }
  const auto thrown = thrown_by([] { token_rounding_rule_named("nr"); });
  EXPECT_EQ(thrown.kind, ErrorKind::usage);
  EXPECT_EQ(thrown.text,
            "unknown rule 'nr'; known are none, nr-f, sr-f, nr-s, balance-f, up, down, nr-even, expert-choice, "
            "capacity-order, capacity-score");
}

std::int64_t capacity_of(TokenRoundingRule rule, std::int64_t top_k, std::int64_t tile, std::int64_t capacity,
                         std::int64_t tokens, std::int64_t experts) {
  Router router;
  router.top_k = top_k;
  return token_rounding_capacity(router, {.rule = rule, .tile = tile, .capacity = capacity}, tokens, experts);
}

TEST(TokenRoundingCapacity, is_what_a_rule_can_fill_at_most) {
  EXPECT_EQ(capacity_of(TokenRoundingRule::none, 2, 8, 0, 100, 5), 200);
  EXPECT_EQ(capacity_of(TokenRoundingRule::capacity_order, 2, 8, 3, 100, 5), 200);
  EXPECT_EQ(capacity_of(TokenRoundingRule::capacity_score, 2, 8, 3, 100, 5), 200);
  EXPECT_EQ(capacity_of(TokenRoundingRule::expert_choice, 2, 8, 3, 100, 5), 15);
  EXPECT_EQ(capacity_of(TokenRoundingRule::expert_choice, 2, 8, 300, 100, 5), 500);
  EXPECT_EQ(capacity_of(TokenRoundingRule::expert_choice, 2, 8, 0, 100, 5), 0);
  for (const TokenRoundingRule rule :
       {TokenRoundingRule::nr_f, TokenRoundingRule::sr_f, TokenRoundingRule::nr_s, TokenRoundingRule::balance_f,
        TokenRoundingRule::up, TokenRoundingRule::down, TokenRoundingRule::nr_even}) {
    EXPECT_EQ(capacity_of(rule, 2, 8, 3, 100, 5), 235);
    EXPECT_EQ(capacity_of(rule, 2, 1, 3, 100, 5), 200);
    EXPECT_EQ(capacity_of(rule, 4, 128, 3, 100, 5), 500);  // all pairs
    EXPECT_EQ(capacity_of(rule, 4, kMost, 3, 100, 5), 500);
    EXPECT_EQ(capacity_of(rule, 1, 128, 3, 0, 5), 0);
  }
}

TEST(TokenRoundingCapacity, refuses_what_int32_cannot_count_and_what_makes_no_sense) {
  const auto text = [](auto... values) {
    const auto thrown = thrown_by([&] { static_cast<void>(capacity_of(values...)); });
    EXPECT_EQ(thrown.kind, ErrorKind::usage);
    return thrown.text;
  };
  EXPECT_EQ(capacity_of(TokenRoundingRule::none, 1, 1, 0, (std::int64_t{1} << 31) - 1, 2), (std::int64_t{1} << 31) - 1);
  EXPECT_EQ(text(TokenRoundingRule::none, 2, 1, 0, 1 << 30, 2), "routes: 2147483648 rows are more than int32 counts");
  EXPECT_EQ(text(TokenRoundingRule::expert_choice, 1, 1, 0, std::int64_t{1} << 31, 2),
            "tokens: 2147483648 rows are more than int32 counts");
  EXPECT_EQ(text(TokenRoundingRule::expert_choice, 1, 1, 1 << 20, 1 << 20, 1 << 11),
            "capacity: 2147483648 rows are more than int32 counts");
  EXPECT_EQ(text(TokenRoundingRule::nr_f, 1, 1 << 20, 0, 1 << 20, 1 << 11),
            "capacity: 2147483648 rows are more than int32 counts");
  EXPECT_EQ(capacity_of(TokenRoundingRule::nr_f, 1, 1 << 20, 0, 1 << 20, (1 << 11) - 1), ((1LL << 11) - 1) << 20);
  EXPECT_EQ(text(TokenRoundingRule::up, 1, kMost, 0, 1 << 30, kMost),
            "rows admitted: 9223372036854775807 x 1073741824 is beyond 2^63 - 1; use smaller dimensions");
  EXPECT_EQ(text(TokenRoundingRule::up, 1, 0, 0, 4, 4), "tile 0: must be 1 or more");
  EXPECT_EQ(text(TokenRoundingRule::expert_choice, 1, 0, -1, 4, 4), "capacity -1: must be 0 or more");
  EXPECT_EQ(capacity_of(TokenRoundingRule::none, 1, 0, -1, 4, 4), 4);  // neither is the rule's
  for (const std::int64_t top_k : {-1, 0, 5}) {
    EXPECT_EQ(text(TokenRoundingRule::none, top_k, 1, 0, 4, 4),
              "top_k " + std::to_string(top_k) + " of 4 x 4 logits: must be in [1, experts]");
  }
  EXPECT_EQ(text(TokenRoundingRule::none, 1, 1, 0, -1, 4), "top_k 1 of -1 x 4 logits: must be in [1, experts]");
}

TEST(CapacityFromFactor, is_exact_for_the_decimal_that_is_written) {
  const TokenRoundingRule up = TokenRoundingRule::expert_choice;
  const TokenRoundingRule down = TokenRoundingRule::capacity_order;
  EXPECT_EQ(capacity_from_factor(up, "1.25", 1024, 8, 64), 160);
  EXPECT_EQ(capacity_from_factor(down, "1.25", 1024, 8, 64), 160);
  EXPECT_EQ(capacity_from_factor(up, "1", 100, 2, 7), 29);
  EXPECT_EQ(capacity_from_factor(TokenRoundingRule::capacity_score, "1", 100, 2, 7), 28);
  EXPECT_EQ(capacity_from_factor(up, "1.1", 10, 1, 1), 11);   // the double is above 1.1,
  EXPECT_EQ(capacity_from_factor(down, "0.3", 10, 1, 1), 3);  // and this one below 0.3
  EXPECT_EQ(capacity_from_factor(up, "1.10000000000000001", 10, 1, 1), 12);
  EXPECT_EQ(capacity_from_factor(up, "0.0000000000000000000011", 1, 1, 1), 1);        // zeros in front are no digits
  EXPECT_EQ(capacity_from_factor(up, "1.10000000000000000000000000", 10, 1, 1), 11);  // nor those behind
  EXPECT_EQ(capacity_from_factor(up, "100000000000000000000e-20", 10, 1, 1), 10);
  EXPECT_EQ(capacity_from_factor(up, ".5", 10, 1, 1), 5);
  EXPECT_EQ(capacity_from_factor(up, "5.", 10, 1, 1), 50);
  EXPECT_EQ(capacity_from_factor(up, "+5E+2", 10, 1, 1), 5000);
  EXPECT_EQ(capacity_from_factor(up, "0", 10, 1, 1), 0);
  EXPECT_EQ(capacity_from_factor(up, "0e999999999999", 10, 1, 1), 0);
  EXPECT_EQ(capacity_from_factor(up, "1", 0, 1, 1), 0);
  EXPECT_EQ(capacity_from_factor(up, "1e-400", kMost, 1, kMost), 1);  // above 0
  EXPECT_EQ(capacity_from_factor(up, "1e-999999999", kMost, 1, kMost), 1);
  EXPECT_EQ(capacity_from_factor(down, "1e-400", kMost, 1, 1), 0);
  EXPECT_EQ(capacity_from_factor(down, "1", kMost, 1, 1), kMost);
  EXPECT_EQ(capacity_from_factor(down, "4611686018427387904", kMost, 1, kMost), std::int64_t{1} << 62);
}

TEST(CapacityFromFactor, is_the_quotient_of_rational_numbers) {
  using boost::multiprecision::cpp_int;
  std::mt19937_64 engine(5);
  int within = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const auto below_bits = [&](int bits) { return static_cast<std::int64_t>(engine() >> (64 - bits)); };
    const int exponent = static_cast<int>(engine() % 90) - 60;
    const std::int64_t m = below_bits(1 + static_cast<int>(engine() % 63));
    const std::string factor = std::to_string(m) + "e" + std::to_string(exponent);
    const std::int64_t tokens = below_bits(1 + static_cast<int>(engine() % 40));
    const std::int64_t top_k = below_bits(1 + static_cast<int>(engine() % 20));
    const std::int64_t experts = 1 + below_bits(1 + static_cast<int>(engine() % 62));
    cpp_int n = cpp_int(m) * tokens * top_k;
    cpp_int d = experts;
    (exponent < 0 ? d : n) *= boost::multiprecision::pow(cpp_int(10), static_cast<unsigned>(std::abs(exponent)));
    for (const TokenRoundingRule rule : {TokenRoundingRule::expert_choice, TokenRoundingRule::capacity_order}) {
      const cpp_int expected = rule == TokenRoundingRule::expert_choice ? cpp_int((n + d - 1) / d) : cpp_int(n / d);
      std::int64_t got = -1;
      const auto thrown = thrown_by([&] { got = capacity_from_factor(rule, factor, tokens, top_k, experts); });
      if (expected <= kMost) {
        EXPECT_EQ(got, expected) << factor << " " << tokens << " " << top_k << " " << experts;
        ++within;
      } else {
        EXPECT_EQ(thrown.text, "capacity: beyond 2^63 - 1; use a smaller factor");
        EXPECT_EQ(thrown.kind, ErrorKind::usage);
      }
    }
  }
  EXPECT_GT(within, 20000);
  EXPECT_LT(within, 39000);
}

TEST(CapacityFromFactor, refuses_what_makes_no_sense) {
  const auto text = [](TokenRoundingRule rule, std::string_view factor, std::int64_t tokens, std::int64_t top_k,
                       std::int64_t experts) {
    const auto thrown =
        thrown_by([&] { static_cast<void>(capacity_from_factor(rule, factor, tokens, top_k, experts)); });
    EXPECT_EQ(thrown.kind, ErrorKind::usage);
    return thrown.text;
  };
  const TokenRoundingRule rule = TokenRoundingRule::expert_choice;
  for (const char* factor : {"", "-1", "-0", "nan", "inf", "0x1p0", "1,1", "1.1.1", ".", "e5", "1e", "1e+", "1e5.5",
                             " 1", "1 ", "1.1x", "++1", "+-1"}) {
    EXPECT_EQ(text(rule, factor, 1, 1, 10),
              "capacity factor '" + std::string(factor) + "': must be a decimal number, 0 or more, such as 1.25");
  }
  EXPECT_EQ(text(rule, "1.2345678901234567890123", 1, 1, 10),
            "capacity factor '1.2345678901234567890123': has more than 19 significant digits");
  for (const TokenRoundingRule other : {TokenRoundingRule::none, TokenRoundingRule::nr_f, TokenRoundingRule::nr_even}) {
    EXPECT_EQ(text(other, "1", 1, 1, 1), "a capacity factor: only expert-choice and the capacity rules take one");
  }
  const std::string rest = " experts: sizes must be 0 or more, experts 1 or more";
  EXPECT_EQ(text(rule, "1", 1, 1, 0), "capacity of 1 tokens, top_k 1, 0" + rest);
  EXPECT_EQ(text(rule, "1", -1, 1, 10), "capacity of -1 tokens, top_k 1, 10" + rest);
  EXPECT_EQ(text(rule, "1", 1, -1, 10), "capacity of 1 tokens, top_k -1, 10" + rest);
  for (const char* factor : {"9223372036854775808", "1e19", "1e39", "1e400", "1e99999999999999999999"}) {
    EXPECT_EQ(text(rule, factor, 1, 1, 1), "capacity: beyond 2^63 - 1; use a smaller factor") << factor;
  }
  EXPECT_EQ(text(rule, "1", kMost, 2, 1), "routes: 9223372036854775807 x 2 is beyond 2^63 - 1; use smaller dimensions");
}

}  // namespace
}  // namespace mxcheck
