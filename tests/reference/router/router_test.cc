// Token choice against rows worked out by hand and against the slow oracle, over every row of a small alphabet.

#include "reference/router/router.h"
#include "reference/router/metadata.h"
#include "reference/router/parts.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/reference/router/oracle.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

Routes route_row(const Router& router, const Row& row) {
  return route(router, fp32_matrix(1, static_cast<std::int64_t>(row.size()), row).view());
}

void expect_routes(std::string_view name, const Row& row, const std::vector<std::int32_t>& experts, const Row& weights,
                   NanLogits nan = NanLogits::refuse) {
  const Router router = router_of(name, static_cast<std::int64_t>(experts.size()), nan);
  const Routes r = route_row(router, row);
  EXPECT_EQ(r.experts, experts) << name;
  EXPECT_EQ(bits(r.weights), bits(weights)) << name << " " << testing::PrintToString(r.weights);
}

TEST(Route, by_hand_topk_softmax) {
  const float e1 = exp_rn(-1);
  expect_routes("topk-softmax", {0, 2, 1}, {1}, {1});
  expect_routes("topk-softmax", {0, 2, 1}, {1, 2}, {1 / (1 + e1), e1 / (1 + e1)});
  expect_routes("topk-softmax", {3, 3, 3, 3}, {0, 1, 2, 3}, {0.25F, 0.25F, 0.25F, 0.25F});
  expect_routes("topk-softmax", {-0.0F, 0, -0.0F}, {0, 1, 2}, {1 / 3.0F, 1 / 3.0F, 1 / 3.0F});
}

TEST(Route, by_hand_infinities_share_the_weight) {
  expect_routes("topk-softmax", {kInf, 1, kInf}, {0, 2, 1}, {0.5F, 0.5F, 0});
  expect_routes("topk-softmax", {-kInf, -kInf}, {0, 1}, {0.5F, 0.5F});
  expect_routes("topk-softmax", {-kInf, 5}, {1, 0}, {1, 0});
  expect_routes("softmax-topk", {-kInf, -kInf, -kInf, -kInf}, {0, 1}, {0.25F, 0.25F});
  expect_routes("sigmoid-raw", {-kInf, 0, kInf}, {2, 1, 0}, {1, 0.5F, 0});
  expect_routes("sqrtsoftplus-raw", {-kInf, kInf}, {1, 0}, {kInf, 0});
  expect_routes("sqrtsoftplus", {-kInf, kInf}, {1, 0}, {kNaN, 0});
}

TEST(Route, by_hand_nan_comes_last_with_weight_0) {
  expect_routes("topk-softmax", {kNaN, 1, -kInf}, {1, 2, 0}, {1, 0, 0}, NanLogits::last);
  expect_routes("topk-softmax", {kNaN, -kNaN, kNaN}, {0, 1, 2}, {0, 0, 0}, NanLogits::last);
  expect_routes("softmax-topk-renorm", {kNaN, kNaN}, {0, 1}, {0, 0}, NanLogits::last);
  expect_routes("softmax-topk", {kNaN, 0, 0}, {1, 2, 0}, {0.5F, 0.5F, 0}, NanLogits::last);
  // A score of +0 comes before a NaN, whose score is +0 too.
  expect_routes("sigmoid-raw", {kNaN, -kInf}, {1, 0}, {0, 0}, NanLogits::last);
}

TEST(Route, by_hand_scores_over_their_sum) {
  expect_routes("sigmoid", {0, 0}, {0}, {0.5F});
  expect_routes("sigmoid", {0, 0}, {0, 1}, {0.5F, 0.5F});
  expect_routes("sigmoid-tiny-first", {0, 0}, {0}, {1});
  expect_routes("softmax-topk-renorm", {0, 0, 0, 0}, {0, 1}, {0.5F, 0.5F});
  // Both scores are 2.9e-39, a subnormal: 1e-20 is all there is in the sum.
  const float tiny = exp_rn(-88.7F);
  expect_routes("sigmoid", {-88.7F, -88.7F}, {0, 1}, {tiny / 1e-20F, tiny / 1e-20F});
  const float s0 = std::sqrt(log1p_rn(1));
  expect_routes("sqrtsoftplus-raw", {0, -200}, {0, 1}, {s0, 0});
}

TEST(Route, scale_multiplies_every_weight_once) {
  Router router = router_of("topk-softmax", 2);
  router.scale = 2.5F;
  EXPECT_EQ(route_row(router, {1, 1, 0}).weights, (Row{1.25F, 1.25F}));
  router.scale = 0.1F;
  const float e1 = exp_rn(-1);
  EXPECT_EQ(route_row(router, {1, 0}).weights, (Row{0.1F * (1 / (1 + e1)), 0.1F * (e1 / (1 + e1))}));
}

TEST(Route, bias_chooses_and_does_not_weigh) {
  const Row bias{0, 0, 1};
  Router router = router_of("sigmoid-raw", 2);
  router.bias = bias;
  const Routes r = route_row(router, {0, 3, -3});
  EXPECT_EQ(r.experts, (std::vector<std::int32_t>{2, 1}));
  EXPECT_EQ(r.weights, (Row{sigmoid_of(-3), sigmoid_of(3)}));
  // The largest of the kept is no longer the first: m is the largest all the same.
  router.variant = &router_variant_named("topk-softmax");
  const Row far{0, 0, 300};
  router.bias = far;
  EXPECT_EQ(route_row(router, {0, 200, -1}).weights, (Row{0, 1}));
}

TEST(Route, groups_are_chosen_by_the_sum_of_their_largest_keys) {
  Router router = router_of("sigmoid-raw", 2);
  router.groups = 2;
  router.groups_kept = 1;  // two keys a group: 0.9999 + 0.0001 is less than 0.5 + 0.52
  EXPECT_EQ(route_row(router, {9, -9, 0, 0.1F}).experts, (std::vector<std::int32_t>{3, 2}));
  EXPECT_EQ(route_row(router, {9, 0, 0, 0}).experts, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(route_row(router, {0, 0, 0, 0}).experts, (std::vector<std::int32_t>{0, 1}));
  router.groups_kept = 2;  // both groups: no limit
  EXPECT_EQ(route_row(router, {-1, 0, 1, 2}).experts, (std::vector<std::int32_t>{3, 2}));
  router.top_k = 1;
  router.groups_kept = 1;  // one key a group
  EXPECT_EQ(route_row(router, {9, -9, 8, 8}).experts, (std::vector<std::int32_t>{0}));
}

TEST(Route, groups_whose_sum_is_nan_come_last) {
  Router router = router_of("topk-softmax", 2, NanLogits::last);
  router.groups = 2;
  router.groups_kept = 1;
  EXPECT_EQ(route_row(router, {kInf, kNaN, -kInf, -kInf}).experts, (std::vector<std::int32_t>{2, 3}));
  EXPECT_EQ(route_row(router, {kInf, -kInf, kNaN, kNaN}).experts, (std::vector<std::int32_t>{2, 3}));
  EXPECT_EQ(route_row(router, {kInf, -kInf, kInf, kNaN}).experts, (std::vector<std::int32_t>{0, 1}));
}

// Every row of `experts` letters, as one matrix.
TestMatrix all_rows(std::span<const float> alphabet, std::int64_t experts, std::vector<Row>& rows) {
  std::int64_t count = 1;
  for (std::int64_t i = 0; i < experts; ++i) count *= static_cast<std::int64_t>(alphabet.size());
  std::vector<float> values;
  rows.clear();
  for (std::int64_t n = 0; n < count; ++n) {
    Row row;
    for (std::int64_t rest = n; std::ssize(row) < experts; rest /= std::ssize(alphabet))
      row.push_back(alphabet[static_cast<std::size_t>(rest % std::ssize(alphabet))]);
    values.insert(values.end(), row.begin(), row.end());
    rows.push_back(row);
  }
  return fp32_matrix(count, experts, values);
}

// How many rows were compared.
std::size_t compare(const Router& router, const TestMatrix& matrix, const std::vector<Row>& rows) {
  const Routes routes = route(router, matrix.view());
  const auto k = static_cast<std::size_t>(router.top_k);
  for (std::size_t t = 0; t < rows.size(); ++t) {
    const Choice expected = choose(router, rows[t]);
    const std::span experts = std::span(routes.experts).subspan(t * k, k);
    const std::span weights = std::span(routes.weights).subspan(t * k, k);
    const bool equal =
        std::equal(experts.begin(), experts.end(), expected.experts.begin()) && bits(weights) == bits(expected.weights);
    if (equal) continue;
    ADD_FAILURE() << router.variant->name << " top_k " << router.top_k << " groups " << router.groups << " kept "
                  << router.groups_kept << " row " << testing::PrintToString(rows[t]) << " weights "
                  << testing::PrintToString(std::vector<float>(weights.begin(), weights.end())) << " expected "
                  << testing::PrintToString(expected.weights);
    return t;
  }
  return rows.size();
}

// exp(-46) is 1.05e-20, next to which the 1e-20 in sums counts.
constexpr std::array kLetters{-kInf, kNaN, 1.0F, 0.0F, -0.0F, -46.0F, kInf};
constexpr std::array kFinite{-1.0F, -0.0F, 0.0F, 1.0F, 1 + 0x1p-23F, -1 - 0x1p-23F};

std::span<const float> alphabet_of(const RouterVariant& variant) {
  return variant.packed ? std::span<const float>(kFinite) : kLetters;
}

TEST(Route, every_row_of_seven_letters_and_up_to_five_experts) {
  std::size_t compared = 0;
  for (const RouterVariant& variant : all_router_variants()) {
    std::vector<Row> rows;
    for (std::int64_t experts = 1; experts <= (kSanitized ? 3 : 5); ++experts) {
      const TestMatrix matrix = all_rows(alphabet_of(variant), experts, rows);
      for (std::int64_t k = 1; k <= experts; ++k)
        compared += compare(router_of(variant.name, k, NanLogits::last), matrix, rows);
    }
  }
  std::cout << compared << " rows\n";
}

TEST(Route, every_row_with_every_bias_and_choice_of_groups) {
  const std::array<Row, 4> biases{Row{}, Row{0, 0.5F, -0.5F, 0}, Row{kInf, -kInf, kNaN, 0}, Row{1, -1, 2.5F, -2.5F}};
  for (const RouterVariant& variant : all_router_variants()) {
    std::vector<Row> rows;
    const std::span<const float> letters = alphabet_of(variant);
    const TestMatrix matrix = all_rows(letters.first(kSanitized ? 3 : letters.size()), 4, rows);
    for (std::size_t b = 0; b < biases.size(); ++b) {
      if (variant.packed && b == 2) continue;
      for (const std::int64_t groups : {0, 1, 2, 4}) {
        for (std::int64_t kept = groups == 0 ? 0 : 1; kept <= groups; ++kept) {
          for (std::int64_t k = 1; k <= (groups == 0 ? 4 : 4 / groups * kept); ++k) {
            Router router = router_of(variant.name, k, NanLogits::last);
            router.bias = biases.at(b);
            router.groups = groups;
            router.groups_kept = kept;
            router.scale = 1.5F;
            compare(router, matrix, rows);
          }
        }
      }
    }
  }
}

TEST(Route, larger_rows_of_all_three_types_with_strides) {
  for (const RouterVariant& variant : all_router_variants()) {
    for (const Format dtype : {Format::fp32, Format::bf16, Format::fp16}) {
      for (const std::int64_t experts : {8, 60, 128, 257}) {
        std::vector<float> values = random_values(20 * experts, 3 + static_cast<std::uint64_t>(experts));
        for (float& v : values) v *= 0x1p-24F;  // below 2^15, so that FP16 has no infinities
        const TestMatrix matrix(dtype, 20, experts, values, 3);
        std::vector<Row> rows;
        for (std::int64_t t = 0; t < 20; ++t) {
          Row& row = rows.emplace_back(static_cast<std::size_t>(experts));
          matrix.view().read_row(t, row);
        }
        for (const std::int64_t k : {1, 8, 33, 60}) {
          if (k <= experts) compare(router_of(variant.name, k), matrix, rows);
        }
      }
    }
  }
}

TEST(Route, threads_change_nothing) {
  const TestMatrix matrix = fp32_matrix(3000, 64, random_values(3000 * 64, 5));
  for (const RouterVariant& variant : all_router_variants()) {
    const Router router = router_of(variant.name, 6);
    const Routes one = route(router, matrix.view(), 1);
    const std::vector<float> scores = router_scores(router, matrix.view(), 1);
    for (const int threads : {0, 2, 3, 7}) {
      const Routes many = route(router, matrix.view(), threads);
      EXPECT_EQ(many.experts, one.experts) << variant.name;
      EXPECT_EQ(bits(many.weights), bits(one.weights)) << variant.name;
      EXPECT_EQ(bits(router_scores(router, matrix.view(), threads)), bits(scores)) << variant.name;
    }
  }
}

TEST(RouterScores, are_the_definitions_for_every_row) {
  for (const RouterVariant& variant : all_router_variants()) {
    std::vector<Row> rows;
    const TestMatrix matrix = all_rows(alphabet_of(variant), 4, rows);
    const std::vector<float> scores = router_scores(router_of(variant.name, 1, NanLogits::last), matrix.view());
    for (std::size_t t = 0; t < rows.size(); ++t) {
      const Row expected = scores_row(variant.score, rows[t]);
      ASSERT_EQ(bits(std::span(scores).subspan(4 * t, 4)), bits(expected))
          << variant.name << " " << testing::PrintToString(rows[t]);
    }
  }
}

TEST(Route, no_tokens_no_routes) {
  const MatrixView none{Format::bf16, nullptr, 0, 8, 8};
  EXPECT_TRUE(route(router_of("sigmoid", 2), none).experts.empty());
  EXPECT_TRUE(router_scores(router_of("sigmoid", 2), none).empty());
}

using Ints = std::vector<std::int32_t>;
using Offsets = std::vector<std::int64_t>;

TEST(RouteMetadata, sorts_routes_by_expert_and_keeps_their_order) {
  const RouteMetadata m = route_metadata(Ints{2, 0, 0, 3, 2, 0}, 2, {}, 4, 1);  // three tokens
  EXPECT_EQ(m.counts, (Ints{3, 0, 2, 1}));
  EXPECT_EQ(m.offsets, (Offsets{0, 3, 3, 5, 6}));
  EXPECT_EQ(m.row_slot, (Ints{1, 2, 5, 0, 4, 3}));
  EXPECT_EQ(m.row_token, (Ints{0, 1, 2, 0, 2, 1}));
  EXPECT_EQ(m.row_expert, (Ints{0, 0, 0, 2, 2, 3}));
  EXPECT_EQ(m.slot_row, (Ints{3, 0, 1, 5, 4, 2}));
}

TEST(RouteMetadata, starts_experts_at_multiples_of_the_tile_and_leaves_dropped_routes_out) {
  const RouteMetadata m = route_metadata(Ints{2, 0, 0, -1, 2, 0}, 3, {}, 4, 2);  // two tokens
  EXPECT_EQ(m.counts, (Ints{3, 0, 2, 0}));
  EXPECT_EQ(m.offsets, (Offsets{0, 4, 4, 6, 6}));
  EXPECT_EQ(m.row_slot, (Ints{1, 2, 5, -1, 0, 4, -1, -1, -1, -1}));
  EXPECT_EQ(m.row_token, (Ints{0, 0, 1, -1, 0, 1, -1, -1, -1, -1}));
  EXPECT_EQ(m.row_expert, (Ints{0, 0, 0, -1, 2, 2, -1, -1, -1, -1}));
  EXPECT_EQ(m.slot_row, (Ints{4, 0, 1, -1, 5, 2}));
}

TEST(RouteMetadata, takes_tokens_of_any_number_of_slots) {
  const Offsets tokens{0, 0, 3, 3, 4, 6, 6, 6};  // tokens 0, 2, 5 and 6 have none
  const RouteMetadata m = route_metadata(Ints{2, 0, 1, 2, 0, 2}, 0, tokens, 3, 1);
  EXPECT_EQ(m.row_token, (Ints{1, 4, 1, 1, 3, 4}));
  EXPECT_EQ(m.row_slot, (Ints{1, 4, 2, 0, 3, 5}));
}

TEST(RouteMetadata, of_nothing_is_nothing) {
  for (const std::int64_t tile : {1, 8}) {
    const RouteMetadata none = route_metadata({}, 3, {}, 2, tile);
    EXPECT_EQ(none.counts, (Ints{0, 0}));
    EXPECT_EQ(none.offsets, (Offsets{0, 0, 0}));
    EXPECT_EQ(none.row_slot, Ints(static_cast<std::size_t>(2 * (tile - 1)), -1));
    EXPECT_TRUE(none.slot_row.empty());
    EXPECT_EQ(route_metadata({}, 0, Offsets{0, 0}, 2, tile).offsets, (Offsets{0, 0, 0}));
    const RouteMetadata dropped = route_metadata(Ints{-1, -1}, 1, {}, 0, tile);  // no experts
    EXPECT_EQ(dropped.offsets, Offsets{0});
    EXPECT_EQ(dropped.slot_row, (Ints{-1, -1}));
  }
}

struct DrawnRoutes {
  Ints slot_experts;
  Offsets token_offsets;
  std::int64_t experts, tile;
  bool dropped;
};

// Some experts without tokens, one time in three one that takes nearly all; routes dropped one time in two.
DrawnRoutes draw(std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(n));
  };
  constexpr std::array<std::int64_t, 6> kTiles{1, 1, 2, 7, 32, 128};
  DrawnRoutes d{{}, {0}, 1 + below(30), kTiles[static_cast<std::size_t>(below(6))], below(2) == 0};
  const bool favourite = below(3) == 0;
  for (std::int64_t token = below(80); token-- > 0;) {
    for (std::int64_t slots = below(5); slots-- > 0;) {
      std::int64_t e = below(d.experts) & ~below(2);
      if (favourite && below(8) != 0) e = d.experts / 2;
      if (d.dropped && below(4) == 0) e = -1;
      d.slot_experts.push_back(static_cast<std::int32_t>(e));
    }
    d.token_offsets.push_back(static_cast<std::int64_t>(d.slot_experts.size()));
  }
  return d;
}

TEST(RouteMetadata, is_a_stable_sort_with_padding) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const DrawnRoutes d = draw(seed);
    const auto slots = static_cast<std::int64_t>(d.slot_experts.size());
    Ints order(d.slot_experts.size());
    std::iota(order.begin(), order.end(), 0);
    const auto expert = [&](std::int32_t slot) { return d.slot_experts[static_cast<std::size_t>(slot)]; };
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return expert(a) < expert(b); });
    RouteMetadata expected{.offsets = {0}, .slot_row = Ints(order.size(), -1)};
    auto next = std::find_if(order.begin(), order.end(), [&](auto slot) { return expert(slot) >= 0; });
    for (std::int32_t e = 0; e < d.experts; ++e) {
      expected.counts.push_back(0);
      for (; next != order.end() && expert(*next) == e; ++next) {
        ++expected.counts.back();
        expected.slot_row[static_cast<std::size_t>(*next)] = static_cast<std::int32_t>(expected.row_slot.size());
        expected.row_slot.push_back(*next);
        expected.row_expert.push_back(e);
        const auto token = std::upper_bound(d.token_offsets.begin(), d.token_offsets.end(), *next);
        expected.row_token.push_back(static_cast<std::int32_t>(token - d.token_offsets.begin() - 1));
      }
      for (; static_cast<std::int64_t>(expected.row_slot.size()) % d.tile != 0;) {
        for (Ints* rows : {&expected.row_slot, &expected.row_token, &expected.row_expert}) rows->push_back(-1);
      }
      expected.offsets.push_back(static_cast<std::int64_t>(expected.row_slot.size()));
    }
    const auto capacity = static_cast<std::size_t>(metadata_capacity(slots, d.experts, d.tile));
    ASSERT_GE(capacity, expected.row_slot.size());
    for (Ints* rows : {&expected.row_slot, &expected.row_token, &expected.row_expert}) rows->resize(capacity, -1);
    const RouteMetadata m = route_metadata(d.slot_experts, 0, d.token_offsets, d.experts, d.tile);
    EXPECT_EQ(m.counts, expected.counts) << seed;
    EXPECT_EQ(m.offsets, expected.offsets) << seed;
    EXPECT_EQ(m.row_slot, expected.row_slot) << seed;
    EXPECT_EQ(m.row_token, expected.row_token) << seed;
    EXPECT_EQ(m.row_expert, expected.row_expert) << seed;
    EXPECT_EQ(m.slot_row, expected.slot_row) << seed;
  }
}

TEST(RouteMetadata, rows_and_slots_are_each_others_inverse) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const DrawnRoutes d = draw(seed);
    const RouteMetadata m = route_metadata(d.slot_experts, 0, d.token_offsets, d.experts, d.tile);
    std::int64_t kept = 0;
    for (std::size_t slot = 0; slot < d.slot_experts.size(); ++slot) {
      EXPECT_EQ(m.slot_row[slot] < 0, d.slot_experts[slot] < 0) << seed;
      if (m.slot_row[slot] < 0) continue;
      ++kept;
      const auto row = static_cast<std::size_t>(m.slot_row[slot]);
      EXPECT_EQ(m.row_slot.at(row), static_cast<std::int32_t>(slot)) << seed;
      EXPECT_EQ(m.row_expert[row], d.slot_experts[slot]) << seed;
    }
    EXPECT_EQ(std::accumulate(m.counts.begin(), m.counts.end(), std::int64_t{0}), kept) << seed;
    EXPECT_EQ(std::count_if(m.row_slot.begin(), m.row_slot.end(), [](auto slot) { return slot >= 0; }), kept) << seed;
    EXPECT_EQ(m.offsets.front(), 0);
    for (std::size_t e = 0; e < m.counts.size(); ++e) {
      EXPECT_EQ(m.offsets[e] % d.tile, 0) << seed;
      EXPECT_EQ(m.offsets[e + 1], m.offsets[e] + (m.counts[e] + d.tile - 1) / d.tile * d.tile) << seed;
      for (std::int64_t row = m.offsets[e] + 1; row < m.offsets[e] + m.counts[e]; ++row) {
        const auto r = static_cast<std::size_t>(row);
        EXPECT_LT(m.row_slot[r - 1], m.row_slot[r]) << seed;
        EXPECT_LE(m.row_token[r - 1], m.row_token[r]) << seed;
      }
    }
  }
}

TEST(RouteMetadata, of_a_width_is_that_of_equal_offsets) {
  for (const std::int64_t width : {1, 2, 5}) {
    Ints experts;
    Offsets offsets{0};
    for (std::int32_t i = 0; i < 40; ++i) experts.push_back(i * 7 % 11 - 1);
    while (offsets.back() < 40) offsets.push_back(offsets.back() + width);
    const RouteMetadata a = route_metadata(experts, width, {}, 10, 4);
    const RouteMetadata b = route_metadata(experts, 0, offsets, 10, 4);
    EXPECT_EQ(a.row_token, b.row_token);
    EXPECT_EQ(a.row_slot, b.row_slot);
  }
}

TEST(RouteMetadata, refuses_what_makes_no_sense) {
  const auto expect = [](ErrorKind kind, const std::string& text, const Ints& experts, std::int64_t width,
                         const Offsets& offsets, std::int64_t count, std::int64_t tile) {
    expect_thrown(kind, text, [&] { static_cast<void>(route_metadata(experts, width, offsets, count, tile)); });
  };
  const ErrorKind usage = ErrorKind::usage;
  const ErrorKind input = ErrorKind::input;
  const std::string name = "route metadata: ";
  const std::string width_help = " a token; give a width that divides them, or token offsets";
  expect(usage, name + "3 slots, 4 experts, tile 0: sizes must be 0 or more, the tile 1 or more", {0, 1, 2}, 1, {}, 4,
         0);
  expect(usage, name + "3 slots, -1 experts, tile 1: sizes must be 0 or more, the tile 1 or more", {0, 1, 2}, 1, {}, -1,
         1);
  expect(usage, name + "3 slots cannot be cut into 2" + width_help, {0, 1, 2}, 2, {}, 4, 1);
  expect(usage, name + "3 slots cannot be cut into 0" + width_help, {0, 1, 2}, 0, {}, 4, 1);
  expect(usage, name + "0 slots cannot be cut into -1" + width_help, {}, -1, {}, 4, 1);
  expect(usage, name + "2147483648 rows (1 slots, 1 experts, tile 2147483648) are more than int32 counts", {0}, 1, {},
         1, std::int64_t{1} << 31);
  expect(usage, "padding of experts to the tile: 4 x 9223372036854775806 is beyond 2^63 - 1; use smaller dimensions",
         {0}, 1, {}, 4, std::numeric_limits<std::int64_t>::max());
  expect(input, name + "slot 1 has expert 4: must be in [0, 4), or -1 for a dropped route", {0, 4, -2}, 1, {}, 4, 1);
  expect(input, name + "slot 2 has expert -2: must be in [0, 4), or -1 for a dropped route", {0, -1, -2}, 1, {}, 4, 1);
  expect(input, name + "slot 0 has expert 0: must be in [0, 0), or -1 for a dropped route", {0}, 1, {}, 0, 1);
  expect(input, name + "token offset 0 is 1: must be 0", {0, 1}, 1, {1, 2}, 4, 1);
  expect(input, name + "token offset 2 is 0: must be at least the one before, 1", {0, 1}, 1, {0, 1, 0, 2}, 4, 1);
  expect(input, name + "last token offset (offset 1) is 3: must be the number of slots, 2", {0, 1}, 1, {0, 3}, 4, 1);
  expect(input, name + "last token offset (offset 0) is 0: must be the number of slots, 2", {0, 1}, 1, {0}, 4, 1);
}

TEST(MetadataCapacity, is_that_of_experts_one_short_of_nothing_but_padding) {
  EXPECT_EQ(metadata_capacity(100, 8, 1), 100);
  EXPECT_EQ(metadata_capacity(100, 8, 128), 100 + 8 * 127);
  EXPECT_EQ(metadata_capacity(0, 0, 1), 0);
  EXPECT_EQ(metadata_capacity((std::int64_t{1} << 31) - 1, 8, 1), (std::int64_t{1} << 31) - 1);
  expect_thrown(ErrorKind::usage,
                "route metadata: 2147483648 rows (2147483648 slots, 8 experts, tile 1) are more than int32 counts",
                [] { static_cast<void>(metadata_capacity(std::int64_t{1} << 31, 8, 1)); });
  EXPECT_EQ(thrown_by([] { static_cast<void>(metadata_capacity(-1, 8, 1)); }).kind, ErrorKind::usage);
  // One route an expert and as much padding as there can be: the last row is the capacity's last but none.
  const RouteMetadata m = route_metadata(Ints{0, 1, 2}, 1, {}, 3, 4);
  EXPECT_EQ(m.offsets.back(), 12);
  EXPECT_EQ(metadata_capacity(3, 3, 4), 12);
}

// Values as integers in their order, the first few of them, and packed values.

using namespace router_parts;

TEST(OrderKey, descends_with_the_value_and_then_with_the_index) {
  const std::vector<float> ascending{kNaN, -kInf, -3e38F, -1, -0x1p-149F, 0, 0x1p-149F, 1, 3e38F, kInf};
  for (std::size_t i = 0; i + 1 < ascending.size(); ++i) {
    EXPECT_LT(order_key(ascending[i], 0), order_key(ascending[i + 1], 1000)) << ascending[i + 1];
    EXPECT_LT(order_key(ascending[i], 7), order_key(ascending[i], 6)) << ascending[i];
  }
  EXPECT_EQ(order_key(-0.0F, 3), order_key(0.0F, 3));
  EXPECT_EQ(order_key(-kNaN, 3), order_key(kNaN, 3));
  EXPECT_NE(order_key(kNaN, std::numeric_limits<std::int32_t>::max()), 0U);
  for (const std::int64_t index : {0, 1, 255, 1 << 23}) EXPECT_EQ(index_of(order_key(-2.5F, index)), index);
}

// 32 and fewer are inserted one by one, more are selected and sorted: either side of the border.
TEST(FirstInOrder, are_the_largest_keys_descending) {
  std::mt19937_64 engine(1);
  std::vector<std::uint64_t> scratch;
  for (const std::size_t size : {1U, 2U, 31U, 32U, 33U, 100U}) {
    std::vector<std::uint64_t> keys(size);
    for (std::uint64_t& key : keys) key = engine();
    std::vector<std::uint64_t> sorted = keys;
    std::sort(sorted.rbegin(), sorted.rend());
    for (std::size_t count = 0; count <= size; ++count) {
      std::vector<std::uint64_t> first(count);
      first_in_order(keys, first, scratch);
      EXPECT_EQ(first, std::vector<std::uint64_t>(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count)))
          << count << " of " << size;
    }
  }
}

TEST(Packed, replaces_the_low_bits_so_that_the_first_of_equals_is_largest) {
  EXPECT_EQ(packed_bits(1), 0);
  EXPECT_EQ(packed_bits(8), 3);
  EXPECT_EQ(packed_bits(9), 4);
  const float x = std::bit_cast<float>(0x3F80000FU);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(cleared(x, 3)), 0x3F800008U);
  for (std::int64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(packed(x, i, 3), packed_of(x, static_cast<std::size_t>(i), 8));
    EXPECT_EQ(packed(-x, i, 3), packed_of(-x, static_cast<std::size_t>(i), 8));
    EXPECT_EQ(cleared(packed(x, i, 3), 3), cleared(x, 3));
    if (i != 0) {
      EXPECT_LT(packed(x, i, 3), packed(x, i - 1, 3));
      EXPECT_LT(packed(-x, i, 3), packed(-x, i - 1, 3));
    }
  }
}

// Scores of rows and weights of those that are kept, against the slow way of tests/reference/router/oracle.h and by
// hand.

TEST(Scores, are_those_of_the_oracle) {
  const std::vector<Row> rows{{0},       {1, 2, 3},          {-100, 88, 0.5F}, {kInf, 1, kInf}, {-kInf, -kInf},
                              {kNaN, 1}, {kNaN, kNaN, kNaN}, {1e30F, -1e30F},  {-0.0F, 0.0F}};
  for (const RouterScore score :
       {RouterScore::logits, RouterScore::softmax, RouterScore::sigmoid, RouterScore::sqrtsoftplus}) {
    for (const Row& row : rows) {
      Row scores(row.size(), -7);
      scores_of(score, row, scores);
      EXPECT_EQ(bits(scores), bits(scores_row(score, row))) << static_cast<int>(score);
    }
  }
}

TEST(Scores, by_hand) {
  EXPECT_EQ(sigmoid(0), 0.5F);
  EXPECT_EQ(sigmoid(kInf), 1);
  EXPECT_EQ(sigmoid(-kInf), 0);
  EXPECT_EQ(sqrtsoftplus(-kInf), 0);
  EXPECT_EQ(sqrtsoftplus(1e6F), 1e3F);
  Row scores(4);
  float log_sum = 0;
  softmax(Row{2, 2, 2, 2}, scores, &log_sum);
  EXPECT_EQ(scores, (Row{0.25F, 0.25F, 0.25F, 0.25F}));
  EXPECT_EQ(log_sum, 2 + 0x1.62e43p+0F);  // ln 4
}

TEST(KeptWeights, divide_as_the_variant_says) {
  const Row kept{0.5F, 0.25F};
  Row weights(2);
  EXPECT_EQ(kept_weights(router_of("softmax-topk", 2), kept, weights), 1);
  EXPECT_EQ(weights, kept);
  EXPECT_EQ(kept_weights(router_of("softmax-topk-renorm", 2), kept, weights), 0.75F);
  EXPECT_EQ(weights, (Row{0.5F / 0.75F, 0.25F / 0.75F}));
  EXPECT_EQ(kept_weights(router_of("sigmoid", 1), std::span(kept).first(1), std::span(weights).first(1)), 1);
  EXPECT_EQ(weights[0], 0.5F);  // top_k of 1: raw
  const Row nothing{0, 0};
  EXPECT_EQ(kept_weights(router_of("sigmoid", 2), nothing, weights), 1e-20F);
  EXPECT_EQ(kept_weights(router_of("softmax-topk-renorm", 2), nothing, weights), 0);
  EXPECT_EQ(weights, nothing);
  const Row small{1e-28F, 1e-20F};  // 1e-28 is lost in a sum that starts at 1e-20, and so is its order
  EXPECT_EQ(kept_weights(router_of("sigmoid-tiny-first", 2), small, weights), 1e-20F + 1e-28F + 1e-20F);
  EXPECT_EQ(kept_weights(router_of("topk-softmax", 2), Row{3, 3}, weights), 1);
  EXPECT_EQ(weights, (Row{0.5F, 0.5F}));
}

TEST(RouterScores, are_scores_of_every_row) {
  const Row values{1, 2, 3, kNaN, 0, -1};
  const TestMatrix m = fp32_matrix(2, 3, values);
  for (const auto* name : {"topk-softmax", "sigmoid", "sqrtsoftplus-raw"}) {
    const Router router = router_of(name, 1, NanLogits::last);
    Row expected = scores_row(router.variant->score, {1, 2, 3});
    const Row second = scores_row(router.variant->score, {kNaN, 0, -1});
    expected.insert(expected.end(), second.begin(), second.end());
    EXPECT_EQ(bits(router_scores(router, m.view())), bits(expected)) << name;
  }
}

// The router variants' names, and every router, matrix and value that is refused.

using Experts = std::vector<std::int32_t>;

TEST(Variants, have_names_and_unknown_ones_are_refused_with_the_list) {
  std::set<std::string_view> names;
  for (const RouterVariant& v : all_router_variants()) {
    EXPECT_EQ(&router_variant_named(v.name), &v);
    EXPECT_FALSE(v.meaning.empty());
    names.insert(v.name);
  }
  EXPECT_EQ(names.size(), 9U);
  expect_thrown(
      ErrorKind::usage,
      "unknown router 'topk'; known are topk-softmax, topk-softmax-packed, softmax-topk, softmax-topk-renorm, "
      "sigmoid, sigmoid-raw, sigmoid-tiny-first, sqrtsoftplus, sqrtsoftplus-raw",
      [] { router_variant_named("topk"); });
}

struct Refused {
  std::function<void(Router&)> change;
  std::string text;
};

TEST(Refused, routers_that_do_not_fit) {
  const TestMatrix m = fp32_matrix(2, 8, Row(16, 1.0F));
  const Row seven(7, 0.0F);
  const std::vector<Refused> cases{
      {[](Router& r) { r.variant = nullptr; }, "a router without a variant: must have one"},
      {[](Router& r) { r.top_k = 0; }, "top_k 0: must be from 1 to the 8 experts"},
      {[](Router& r) { r.top_k = 9; }, "top_k 9: must be from 1 to the 8 experts"},
      {[](Router& r) { r.groups = -1; }, "groups -1: must be 0 (none) or more"},
      {[](Router& r) { r.groups_kept = 1; }, "groups_kept 1 without groups: must be 0"},
      {[](Router& r) { r.groups = 3, r.groups_kept = 1; }, "groups 3: must divide the 8 experts"},
      {[](Router& r) { r.groups = 16, r.groups_kept = 1; }, "groups 16: must divide the 8 experts"},
      {[](Router& r) { r.groups = 4; }, "groups_kept 0: must be from 1 to the 4 groups"},
      {[](Router& r) { r.groups = 4, r.groups_kept = 5; }, "groups_kept 5: must be from 1 to the 4 groups"},
      {[](Router& r) { r.groups = 4, r.groups_kept = 1, r.top_k = 3; },
       "top_k 3: must be at most the 2 experts of 1 groups"},
      {[&](Router& r) { r.bias = seven; }, "bias of 7 values: must be one of each of the 8 experts"},
  };
  for (const Refused& c : cases) {
    Router router = router_of("topk-softmax", 2);
    c.change(router);
    for (const std::function<void()>& call : std::initializer_list<std::function<void()>>{
             [&] { route(router, m.view()); }, [&] { router_scores(router, m.view()); },
             [&] { route_backward(router, m.view(), {}, {}, 0); }}) {
      expect_thrown(ErrorKind::usage, c.text, call);
    }
  }
}

TEST(Refused, matrices_and_sizes_beyond_reason) {
  const Router router = router_of("topk-softmax", 1);
  const std::byte nothing{};
  const std::byte* data = &nothing;  // never read
  const auto refuse = [&](const Router& r, const MatrixView& m, ErrorKind kind, const std::string& text) {
    expect_error(kind, text, [&] { route(r, m); });
  };
  refuse(router, {Format::e4m3, data, 1, 1, 1}, ErrorKind::usage, "must be fp32, bf16 or fp16");
  refuse(router, {Format::fp32, data, 1, 2, 1}, ErrorKind::usage, "row stride");
  refuse(router, {Format::fp32, nullptr, 1, 1, 1}, ErrorKind::usage, "without data");
  refuse(router, {Format::fp32, nullptr, 3, 0, 0}, ErrorKind::usage, "top_k 1: must be from 1 to the 0 experts");
  refuse(router, {Format::fp32, data, 1, std::int64_t{1} << 31, std::int64_t{1} << 31}, ErrorKind::usage, "fewer than");
  refuse(router_of("topk-softmax-packed", 1), {Format::fp32, data, 1, (1 << 23) + 1, (1 << 23) + 1}, ErrorKind::usage,
         "has room for 2^23");
  refuse(router, {Format::bf16, data, std::int64_t{1} << 61, 1, 1}, ErrorKind::environment, "no memory");
}

TEST(Refused, nan_and_infinities_naming_the_first) {
  Row values(3000 * 32, 1.0F);
  values[2500 * 32 + 1] = kNaN;
  values[2000 * 32 + 7] = kNaN;
  values[2000 * 32 + 9] = kNaN;
  const TestMatrix m = fp32_matrix(3000, 32, values);
  values[1000 * 32 + 5] = -kInf;
  const TestMatrix with_inf = fp32_matrix(3000, 32, values);
  for (const int threads : {1, 2, 5}) {
    const auto text_of = [&](const Router& r, const TestMatrix& matrix) {
      const Thrown t = thrown_by([&] { route(r, matrix.view(), threads); });
      EXPECT_EQ(t.kind, ErrorKind::input);
      EXPECT_EQ(thrown_by([&] { router_scores(r, matrix.view(), threads); }).text, t.text);
      EXPECT_EQ(thrown_by([&] { route_backward(r, matrix.view(), {}, {}, 0, threads); }).text, t.text);
      return t.text;
    };
    const std::string tail = ": this router takes none (nan=refuse); remove it, or let NaN come last";
    EXPECT_EQ(text_of(router_of("sigmoid", 2), m), "NaN at row 2000, column 7" + tail);
    EXPECT_EQ(text_of(router_of("sigmoid", 2), with_inf), "NaN at row 2000, column 7" + tail);
    const std::string finite = ": packed order takes finite logits alone";
    EXPECT_EQ(text_of(router_of("topk-softmax-packed", 2), with_inf), "Inf at row 1000, column 5" + finite);
    EXPECT_EQ(text_of(router_of("topk-softmax-packed", 2, NanLogits::last), m), "NaN at row 2000, column 7" + finite);
    EXPECT_NO_THROW(route(router_of("sigmoid", 2, NanLogits::last), with_inf.view(), threads));
  }
}

TEST(Refused, nan_in_the_bias_and_sums_that_packed_order_cannot_hold) {
  const Row bias{0, kNaN, kNaN};
  const TestMatrix m = fp32_matrix(2, 3, Row(6, 3e38F));
  Router router = router_of("topk-softmax", 1);
  router.bias = bias;
  expect_thrown(ErrorKind::input,
                "NaN in the bias of expert 1: this router takes none (nan=refuse); remove it, or let NaN come last",
                [&] { route(router, m.view()); });
  router.nan = NanLogits::last;
  EXPECT_EQ(route(router, m.view()).experts, (Experts{0, 0}));

  const Row large{0, 0, 3e38F};
  router = router_of("topk-softmax-packed", 1);
  router.bias = large;
  expect_thrown(ErrorKind::input, "row 0, column 2: with its bias no finite number, and packed order takes those alone",
                [&] { route(router, m.view()); });
}

}  // namespace
}  // namespace mxcheck
