// Each distribution holds what it is for, and an element depends on its place alone.

#include "properties/operations/layer/expand.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>

#include "properties/operations/layer/problem.h"
#include "reference/layer/swiglu.h"

namespace mxcheck {
namespace {

float value(std::uint16_t word) { return std::bit_cast<float>(std::uint32_t{word} << 16); }

Case swiglu_case(Data data, const char* format = "e4m3") {
  Case c = parse_case(std::string("op=swiglu_backward x=bf16 gate_up=halves outputs=rows format=") + format +
                      " recipe=rceil block=32 rows=128 cols=128 seed=7");
  c.data = data;
  return c;
}

TEST(ExpandSteps, an_element_depends_on_its_place_alone) {
  for (int data = 0; data < static_cast<int>(std::size(kDataNames)); ++data) {
    if (static_cast<Data>(data) == Data::every_word) continue;  // numbered row by row
    const Case c = swiglu_case(static_cast<Data>(data));
    Case window = c;
    layer_case(window).first_row = 37, layer_case(window).first_col = 50, window.rows = 3, window.cols = 5;
    window.experts = {0, 1, 3};
    const StepElements all(c);
    const StepElements part(window);
    const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
    for (std::int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(bits(all.weight(37 + i)), bits(part.weight(i)));
      for (std::int64_t j = 0; j < 5; ++j) {
        EXPECT_EQ(all.pair(37 + i, 50 + j).gate, part.pair(i, j).gate) << kDataNames[data];
        EXPECT_EQ(all.pair(37 + i, 50 + j).up, part.pair(i, j).up) << kDataNames[data];
        EXPECT_EQ(bits(all.p(37 + i, 50 + j)), bits(part.p(i, j))) << kDataNames[data];
        EXPECT_EQ(all.y(37 + i, 50 + j), part.y(i, j)) << kDataNames[data];
      }
    }
  }
}

TEST(ExpandSteps, codes_are_of_values_for_which_nothing_rounds) {
  for (const char* format : {"e4m3", "e5m2", "mxint8"}) {
    const StepElements elements(swiglu_case(Data::codes, format));
    for (std::int64_t i = 0; i < 64; ++i) {
      for (std::int64_t j = 0; j < 64; ++j) {
        const auto [g, u] = elements.pair(i, j);
        const double a = static_cast<double>(value(g)) * static_cast<double>(value(u));
        ASSERT_EQ(static_cast<double>(value(layer_bf16(swiglu(value(g), value(u))))), a);
        int exponent = 0;
        const double fraction = std::frexp(a, &exponent) * 256;
        ASSERT_EQ(fraction, std::nearbyint(fraction));
      }
    }
  }
}

// Where RN(g * q) * u is exactly between two BF16 values, where a scale byte changes, and gates of every kind.
TEST(ExpandSteps, boundaries_hold_ties_edges_and_thresholds) {
  Case c = swiglu_case(Data::boundaries);
  c.rows = 256;
  const StepElements elements(c);
  int ties = 0, largest = 0, below_q = 0, one_q = 0, exact = 0;
  for (std::int64_t i = 0; i < 256; ++i) {
    for (std::int64_t j = 0; j < 128; ++j) {
      const auto [gate, up] = elements.pair(i, j);
      const float g = value(gate);
      const float a = swiglu(g, value(up));
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(a);
      ties += (bits & 0xFFFF) == 0x8000, exact += (bits & 0xFFFF) == 0 && a != 0;
      int exponent = 0;
      largest += std::frexp(std::fabs(a), &exponent) == 0.875F;  // 448
      below_q += g < -88 && g > -89.5F, one_q += g > 16.4F && g < 16.9F;
    }
  }
  EXPECT_GT(ties, 200);
  EXPECT_GT(exact, 2000);
  EXPECT_GT(largest, 50);
  EXPECT_GT(below_q, 50);
  EXPECT_GT(one_q, 50);
}

TEST(ExpandSteps, special_products_are_all_of_their_lists) {
  Case c = swiglu_case(Data::every_row);
  c.rows = kSpecialRows, c.cols = kSpecialCols;
  const StepElements elements(c);
  std::set<std::uint32_t> pairs;
  for (std::int64_t j = 0; j < c.cols; ++j) {
    const auto [gate, up] = elements.pair(0, j);
    pairs.insert(static_cast<std::uint32_t>(gate) << 16 | up);
  }
  EXPECT_EQ(static_cast<std::int64_t>(pairs.size()), kSpecialCols);
  std::set<std::uint64_t> rows;
  for (std::int64_t i = 0; i < c.rows; ++i)
    rows.insert(std::uint64_t{std::bit_cast<std::uint32_t>(elements.p(i, 0))} << 32 |
                std::bit_cast<std::uint32_t>(elements.weight(i)));
  EXPECT_EQ(static_cast<std::int64_t>(rows.size()), kSpecialRows);
}

TEST(ExpandSteps, every_word_is_every_gate) {
  Case c = swiglu_case(Data::every_word);
  c.rows = c.cols = 256, c.seed = 37;
  const StepElements elements(c);
  std::set<std::uint16_t> gates;
  for (std::int64_t i = 0; i < 256; ++i) {
    for (std::int64_t j = 0; j < 256; ++j) gates.insert(elements.pair(i, j).gate);
  }
  EXPECT_EQ(gates.size(), 65'536U);
}

TEST(ExpandSteps, rows_columns_and_halves_can_be_told_apart) {
  for (const Data data : {Data::normal, Data::slots, Data::wide, Data::real}) {
    const StepElements elements(swiglu_case(data));
    std::set<std::vector<std::uint16_t>> lines;
    for (std::int64_t i = 0; i < 64; ++i) {
      std::vector<std::uint16_t> row, column, ups;
      for (std::int64_t j = 0; j < 64; ++j) {
        row.push_back(elements.pair(i, j).gate), column.push_back(elements.pair(j, i).gate);
        ups.push_back(elements.pair(i, j).up);
      }
      lines.insert(row), lines.insert(column), lines.insert(ups);
    }
    EXPECT_GE(lines.size(), 3U * 61) << to_text(data);
  }
}

TEST(ExpandSteps, sparse_blocks_have_one_element_or_none) {
  const StepElements elements(swiglu_case(Data::sparse));
  int empty = 0;
  for (std::int64_t i = 0; i < 128; ++i) {
    for (std::int64_t block = 0; block < 4; ++block) {
      int count = 0;
      for (std::int64_t j = 0; j < 32; ++j) count += elements.pair(i, block * 32 + j).up != 0 ? 1 : 0;
      EXPECT_LE(count, 1);
      empty += count == 0 ? 1 : 0;
    }
  }
  EXPECT_GT(empty, 60);
  EXPECT_LT(empty, 256);
}

TEST(ExpandSteps, slots_hold_every_count_dropped_ones_and_rows_used_twice) {
  const Case c = parse_case("op=aggregate weighted=1 rows=200 cols=2 y=300 k=4 drops=10 data=normal seed=7");
  const DrawnSlots slots = expand_slots(c);
  std::set<std::int64_t> counts;
  std::set<std::int32_t> rows;
  int dropped = 0, used = 0;
  for (std::size_t t = 0; t < 200; ++t) counts.insert(slots.token_offsets[t + 1] - slots.token_offsets[t]);
  for (const std::int32_t row : slots.token_rows) {
    ASSERT_TRUE(row >= -1 && row < 300);
    dropped += row < 0 ? 1 : 0, used += row >= 0 ? 1 : 0;
    if (row >= 0) rows.insert(row);
  }
  EXPECT_EQ(counts, (std::set<std::int64_t>{0, 1, 2, 3, 4}));
  EXPECT_GT(dropped, 20);
  EXPECT_LT(rows.size(), static_cast<std::size_t>(used));
  EXPECT_LT(rows.size(), 299U);
  Case window = c;
  layer_case(window).first_row = 50, window.rows = 1;
  const DrawnSlots one = expand_slots(window);
  EXPECT_EQ(one.token_rows, std::vector<std::int32_t>(slots.token_rows.begin() + slots.token_offsets[50],
                                                      slots.token_rows.begin() + slots.token_offsets[51]));
}

}  // namespace
}  // namespace mxcheck
