#include "reference/router/metadata.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <string>

#include "tests/reference/common/test_matrix.h"

namespace mxcheck {
namespace {

using test::thrown_by;
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

struct Drawn {
  Ints slot_experts;
  Offsets token_offsets;
  std::int64_t experts, tile;
  bool dropped;
};

// Some experts without tokens, one time in three one that takes nearly all; routes dropped one time in two.
Drawn draw(std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(n));
  };
  constexpr std::array<std::int64_t, 6> kTiles{1, 1, 2, 7, 32, 128};
  Drawn d{{}, {0}, 1 + below(30), kTiles[static_cast<std::size_t>(below(6))], below(2) == 0};
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
    const Drawn d = draw(seed);
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
    const Drawn d = draw(seed);
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
    const auto thrown = thrown_by([&] { static_cast<void>(route_metadata(experts, width, offsets, count, tile)); });
    EXPECT_EQ(thrown.kind, kind) << text;
    EXPECT_EQ(thrown.text, text);
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
  const auto thrown = thrown_by([] { static_cast<void>(metadata_capacity(std::int64_t{1} << 31, 8, 1)); });
  EXPECT_EQ(thrown.kind, ErrorKind::usage);
  EXPECT_EQ(thrown.text,
            "route metadata: 2147483648 rows (2147483648 slots, 8 experts, tile 1) are more than int32 counts");
  EXPECT_EQ(thrown_by([] { static_cast<void>(metadata_capacity(-1, 8, 1)); }).kind, ErrorKind::usage);
  // One route an expert and as much padding as there can be: the last row is the capacity's last but none.
  const RouteMetadata m = route_metadata(Ints{0, 1, 2}, 1, {}, 3, 4);
  EXPECT_EQ(m.offsets.back(), 12);
  EXPECT_EQ(metadata_capacity(3, 3, 4), 12);
}

}  // namespace
}  // namespace mxcheck
