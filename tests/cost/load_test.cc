#include "cost/load.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/cost/cost_testing.h"

namespace mxcheck {
namespace {

using test::expect_error;

TEST(Load, balanced_rows_differ_by_one_at_most) {
  const Load load = load_of({.kind = LoadKind::balanced}, 100, 3, 2);  // 67, 67, 66 rows
  EXPECT_EQ(load.rows, 200);
  EXPECT_EQ(load.busiest, 67);
  EXPECT_EQ(load.tile_rows, 3 * 128);
  EXPECT_EQ(load.step_rows, 128 + 128 + 128);
  EXPECT_EQ(load.used, 3);
  EXPECT_EQ(load.imbalance, 1);
}

TEST(Load, counts_are_taken_as_they_are) {
  const LoadSpec spec{LoadKind::counts, 0, {128, 0, 129, 1}};
  const Load load = load_of(spec, 1000, 4, 2, 2);
  EXPECT_EQ(load.rows, 258);
  EXPECT_EQ(load.tile_rows, 128 + 0 + 256 + 128);
  EXPECT_EQ(load.step_rows, 128 + 0 + 192 + 64);
  EXPECT_EQ(load.busiest, 129);
  EXPECT_EQ(load.used, 3);
  EXPECT_EQ(load.imbalance, 130.0 / 129);  // 128 and 130 rows on two GPUs
}

TEST(Load, zipf_is_balanced_at_zero_and_never_above_a_row_of_each_token) {
  EXPECT_EQ(load_of({LoadKind::zipf, 0}, 512, 8, 2).busiest, load_of({LoadKind::balanced}, 512, 8, 2).busiest);
  const Load skewed = load_of({LoadKind::zipf, 1}, 1024, 8, 1);
  EXPECT_NEAR(skewed.busiest, 1024 / (1 + 1.0 / 2 + 1.0 / 3 + 1.0 / 4 + 1.0 / 5 + 1.0 / 6 + 1.0 / 7 + 1.0 / 8), 1);
  EXPECT_EQ(skewed.rows, 1024);
  const Load steep = load_of({LoadKind::zipf, 10}, 1024, 8, 2);
  EXPECT_EQ(steep.busiest, 1024);
  EXPECT_EQ(steep.rows, 2048);
  for (const double exponent : {0.1, 0.9, 2.5}) {
    const Load most = load_of({LoadKind::zipf, exponent}, 100, 64, 63);  // room for 64 rows more in all
    EXPECT_EQ(most.rows, 6300) << exponent;
    EXPECT_EQ(most.busiest, 100) << exponent;
  }
  const Load all = load_of({LoadKind::zipf, 3}, 1024, 8, 8);  // every token has every expert
  EXPECT_EQ(all.rows, 8192);
  EXPECT_EQ(all.busiest, 1024);
}

// Two tokens, each with one of two experts: none, one or two rows with 1/4, 1/2, 1/4.
TEST(Load, random_figures_are_expectations) {
  const Load load = load_of({.kind = LoadKind::random}, 2, 2, 1);
  EXPECT_DOUBLE_EQ(load.rows, 2);
  EXPECT_DOUBLE_EQ(load.tile_rows, 2 * 0.75 * 128);
  EXPECT_DOUBLE_EQ(load.step_rows, 2 * 0.75 * 64);
  EXPECT_DOUBLE_EQ(load.used, 2 * 0.75);
}

TEST(Load, random_agrees_with_drawn_routes) {
  constexpr int kTokens = 4096;
  constexpr int kExperts = 64;
  constexpr int kDraws = 200;
  std::mt19937_64 random(20261129);
  double tiles = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<int> rows(kExperts);
    for (int token = 0; token < kTokens; ++token) {
      const auto first = random() % kExperts;
      auto second = random() % (kExperts - 1);
      if (second >= first) ++second;
      ++rows[first], ++rows[second];
    }
    for (const int of : rows) {
      const int whole = (of + 127) / 128 * 128;
      tiles += whole;
    }
  }
  EXPECT_NEAR(load_of({}, kTokens, kExperts, 2).tile_rows / (tiles / kDraws), 1, 0.003);
}

TEST(Load, random_of_many_tokens_pads_half_a_tile_an_expert) {
  const Load load = load_of({}, std::int64_t{1} << 40, 16, 2);
  EXPECT_DOUBLE_EQ(load.rows, std::ldexp(2, 40));
  EXPECT_NEAR(load.tile_rows - load.rows, 16 * 63.5, 1);
}

TEST(Load, random_of_every_expert_is_no_chance) {
  const Load load = load_of({}, 129, 4, 4);
  EXPECT_EQ(load.tile_rows, 4 * 256);
  EXPECT_EQ(load.busiest, 129);
  EXPECT_EQ(load.used, 4);
  const std::int64_t beyond_doubles = (std::int64_t{1} << 53) + 3;
  const std::int64_t tiles = (beyond_doubles + 127) / 128;
  EXPECT_EQ(load_of({}, beyond_doubles, 1, 1).tile_rows, static_cast<double>(128 * tiles));
}

TEST(Load, says_what_is_wrong_with_counts) {
  const auto refused = [](std::vector<std::int64_t> counts, const std::string& text) {
    expect_error(ErrorKind::usage, text, [&] { load_of({LoadKind::counts, 0, counts}, 10, 2, 1); });
  };
  refused({1}, "load: 1 counts, and 2 experts: one count an expert is needed");
  refused({1, 11}, "load: expert 1 has 11 rows: 0 to 10, one of each token, are possible");
  refused({-1, 1}, "load: expert 0 has -1 rows");
  refused({0, 0}, "load: no expert has a row");
  expect_error(ErrorKind::usage, "an exponent from 0", [] { load_of({LoadKind::zipf, -1}, 10, 2, 1); });
  expect_error(ErrorKind::usage, "an exponent from 0", [] { load_of({LoadKind::zipf, std::nan("")}, 10, 2, 1); });
}

TEST(Counts, are_numbers_between_spaces_and_commas) {
  EXPECT_EQ(parse_counts(" 1,2\n3\t4 ,5\r\n", "f"), (std::vector<std::int64_t>{1, 2, 3, 4, 5}));
  EXPECT_TRUE(parse_counts("", "f").empty());
  for (const char* text : {"1 x", "1.5", "-1", "9223372036854775808", "0x10"})
    expect_error(ErrorKind::input, "f: '", [&] { parse_counts(text, "f"); });
  expect_error(ErrorKind::input, "f: more than 65536 counts", [] {
    std::string many;
    for (std::int64_t i = 0; i <= kMostExperts; ++i) many += "1 ";
    parse_counts(many, "f");
  });
}

TEST(Load, is_named_as_it_is_given) {
  EXPECT_EQ(to_text(LoadSpec{}), "random");
  EXPECT_EQ(to_text(LoadSpec{LoadKind::zipf, 0.5}), "zipf:0.5");
  EXPECT_EQ(to_text(LoadSpec{LoadKind::zipf, 1}), "zipf:1.0");
}

}  // namespace
}  // namespace mxcheck
