// Sums that are rounded once against numerics' accumulate(), which adds product by product: data made for the ends of
// what each way can decide, on every SIMD target.

#include "reference/accumulate/exact_tile.h"
#include "numerics/accumulate/contract.h"
#include "reference/accumulate/exact_rows.h"
#include "tests/kernels/cpu/simd_targets.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using Factors = std::vector<Factor>;

// significand * 2^exponent
Factor finite(std::uint32_t significand, int exponent, bool negative = false) {
  return {Factor::Kind::finite, negative, significand, exponent, 0};
}
Factor power(int exponent, bool negative = false) { return finite(1, exponent, negative); }
const Factor kZero = finite(0, 0);
const Factor kNan{Factor::Kind::nan, false, 0, 0, 0};
const Factor kInfinity{Factor::Kind::infinite, false, 0, 0, 0};

struct Problem {
  std::vector<Factors> a;
  std::vector<Factors> b;
  std::vector<std::uint32_t> c;  // rows of a x rows of b
  std::string what;

  [[nodiscard]] std::int64_t k() const { return static_cast<std::int64_t>(a[0].size()); }

  void add(const Factor& x, const Factor& y) {  // a product to the one output
    a[0].push_back(x);
    b[0].push_back(y);
  }
};

Problem one_output(std::uint32_t c = 0) { return {{{}}, {{}}, {c}, ""}; }

ExactRows rows_of(const std::vector<Factors>& rows) {
  ExactRows x(static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows[0].size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<double> values;
    for (const Factor& f : rows[i]) values.push_back(value_of(f));
    x.set_row(static_cast<std::int64_t>(i), values);
  }
  return x;
}

std::vector<std::uint32_t> expected(const Problem& p, Extent k) {
  std::vector<std::uint32_t> out;
  const auto part = [&](const Factors& row) {
    return std::span(row).subspan(static_cast<std::size_t>(k.begin), static_cast<std::size_t>(k.end - k.begin));
  };
  for (const Factors& x : p.a) {
    for (const Factors& y : p.b) out.push_back(accumulate(contract_named("exact"), part(x), part(y), p.c[out.size()]));
  }
  return out;
}

void expect_equal(const Problem& p, Extent k) {
  std::vector<std::uint32_t> got = p.c;
  const auto n = static_cast<std::int64_t>(p.b.size());
  exact_tile(rows_of(p.a), {0, static_cast<std::int64_t>(p.a.size())}, rows_of(p.b), {0, n}, k, got.data(), n);
  const std::vector<std::uint32_t> want = expected(p, k);
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i], want[i]) << std::hex << p.what << " output " << i << " c " << p.c[i] << std::dec << " k "
                               << k.begin << " to " << k.end;
}
void expect_equal(const Problem& p) { expect_equal(p, {0, p.k()}); }

// 2^exponent as a product of what factors can hold.
void add_power(Problem& p, int exponent, bool negative = false) {
  p.add(power(exponent / 2, negative), power(exponent - exponent / 2));
}

// Halfway between two FP32 numbers, and one term that is smaller by any number of bits and decides: in the same block
// of k, and in another.
TEST(ExactTile, a_tiny_term_decides_a_tie) {
  for (const int odd : {0, 1}) {
    for (const bool negative : {false, true}) {
      for (int below = 25; below <= 596; below += below < 130 ? 1 : 31) {
        for (const int sign : {-1, 0, 1}) {
          for (const int apart : {0, 256}) {
            Problem p = one_output();
            add_power(p, 0, negative);
            if (odd == 1) add_power(p, -23, negative);
            add_power(p, -24, negative);
            for (int i = 0; i < apart; ++i) p.add(kZero, kZero);
            if (sign != 0) add_power(p, -below, sign < 0);
            p.what = "below " + std::to_string(below) + " sign " + std::to_string(sign);
            expect_equal(p);
          }
        }
      }
    }
  }
}

// Terms just too small to be seen one by one: 1 + 2^-24 - 122 * 2^-52, and 250 times 0.99 * 2^-53, of which doubles
// add none. The error is 124 * 2^-52; a bound of a quarter of ours would decide, and wrongly.
TEST(ExactTile, many_terms_that_dot_products_lose_decide) {
  for (const bool negative : {false, true}) {
    Problem p = one_output();
    add_power(p, 0, negative);
    add_power(p, -24, negative);
    p.add(finite(122, -26, !negative), power(-26));
    for (int i = 0; i < 250; ++i) p.add(finite(99 * 41, -32, negative), power(-33));  // 4059 / 4096
    expect_equal(p);
    p.c[0] = 0x80000000;
    expect_equal(p);
  }
}

// Ties, and ties but for a bit, from below the least subnormal to beyond the largest number.
TEST(ExactTile, ties_are_right_in_all_of_fp32s_range) {
  for (int last = -152; last <= 106; ++last) {  // exponent of the significand's half bit
    for (const std::uint32_t significand : {0U, 1U, 2U, 3U, 0x1000000U, 0x1000001U, 0x1FFFFFEU, 0x1FFFFFFU}) {
      for (const int beyond : {0, 1, -1}) {
        for (const bool negative : {false, true}) {
          Problem p = one_output();
          p.add(finite(significand, last / 2, negative), power(last - last / 2));
          if (beyond != 0) add_power(p, last - 40, beyond < 0);
          p.what = "last " + std::to_string(last) + " significand " + std::to_string(significand);
          expect_equal(p);
        }
      }
    }
  }
}

TEST(ExactTile, c_counts_as_a_term) {
  for (const std::uint32_t c : {0x00000000U, 0x80000000U, 0x3F800000U, 0xBF800000U, 0x00000001U, 0x80000001U,
                                0x7F7FFFFFU, 0xFF7FFFFFU, 0x7F800000U, 0xFF800000U, 0x7FC00000U, 0xFFFFFFFFU}) {
    for (const Factor& x :
         {kZero, finite(0, 0, true), power(0), power(0, true), power(-24), power(103), power(103, true), power(-149),
          power(-150), power(-150, true), power(200), kInfinity, kNan}) {
      Problem p = one_output(c);
      p.add(x, power(0));
      p.what = "one product";
      expect_equal(p);
      p.add(x, power(-40));
      expect_equal(p);
      p.add(kZero, power(0, true));
      expect_equal(p);
    }
  }
}

TEST(ExactTile, specials_are_those_of_the_products_taken) {
  for (const Factor& x : {kNan, kInfinity, Factor{Factor::Kind::infinite, true, 0, 0, 0}}) {
    for (const Factor& y : {kZero, power(3), power(3, true), kInfinity, kNan}) {
      Problem p = one_output();
      for (int i = 0; i < 300; ++i) p.add(power(i % 7), power(1));
      p.a[0][270] = x;
      p.b[0][270] = y;
      expect_equal(p);
      expect_equal(p, {0, 270});  // beside it
      expect_equal(p, {271, 300});
      p.a[0][3] = kInfinity;
      expect_equal(p);
    }
  }
}

// Sums that cancel to nothing, or to a last term of any size, of values of all sizes.
TEST(ExactTile, what_is_left_of_sums_that_cancel) {
  std::mt19937 random(1);
  for (const int spread : {1, 20, 60, 250}) {
    for (const int left : {-596, -300, -149, -20, 0, 127, 1000}) {
      Problem p = one_output(random() % 2 == 0 ? 0 : 0x80000000);
      for (int i = 0; i < 300; ++i) {
        const auto exponent = [&] { return static_cast<int>(random() % static_cast<unsigned>(spread)) - spread / 2; };
        const Factor x = finite(static_cast<std::uint32_t>(random()), exponent(), random() % 2 == 0);
        const Factor y = finite(static_cast<std::uint32_t>(random()), exponent());
        p.add(x, y);
        p.add(x, finite(y.significand, y.exponent, true));
      }
      if (left != 1000) add_power(p, left, random() % 2 == 0);
      for (std::size_t i = p.a[0].size(); i-- > 1;) {  // in any order
        const std::size_t j = random() % (i + 1);
        std::swap(p.a[0][i], p.a[0][j]);
        std::swap(p.b[0][i], p.b[0][j]);
      }
      p.what = "spread " + std::to_string(spread) + " left " + std::to_string(left);
      expect_equal(p);
    }
  }
}

// Blocks of k whose values are of other sizes, larger ones after smaller ones, that cancel to a tie and a last bit.
TEST(ExactTile, blocks_of_k_have_ranges_of_their_own) {
  std::mt19937 random(3);
  for (int step = -90; step <= 90; step += 10) {
    for (const bool in_a : {false, true}) {
      Problem p = one_output();
      for (int i = 0; i < 384; ++i) {
        const int shift = i / 128 * step;
        const Factor x = finite(static_cast<std::uint32_t>(random()) | 1, in_a ? shift - 40 : -40);
        const Factor y = finite(static_cast<std::uint32_t>(random()) | 1, in_a ? -40 : shift - 40);
        p.add(x, y);
        p.add(x, finite(y.significand, y.exponent, true));
      }
      add_power(p, 0);
      add_power(p, -24);
      add_power(p, -130);
      for (const std::int64_t target : simd_targets()) {
        const UseSimdTarget use(target);
        p.what = "step " + std::to_string(step) + " " + simd_target_name(target);
        expect_equal(p);
      }
    }
  }
}

// The same, on machines without fused multiply-add, whose products of 64 bits would be rounded: what is left of a block
// of pairs that do not cancel one by one.
TEST(ExactTile, products_of_64_bits_are_exact_on_every_simd_target) {
  for (const std::int64_t target : simd_targets()) {
    const UseSimdTarget use(target);
    Problem p = one_output();
    const std::uint32_t all = 0xFFFFFFFF;  // all^2 = 2^64 - 2^33 + 1
    p.add(finite(all, 0), finite(all, 0));
    p.add(finite(1, 32, true), finite(1, 32));
    p.add(finite(1, 33), finite(1, 0));
    p.what = simd_target_name(target);
    expect_equal(p);
    p.c[0] = 0xBF800000;  // -1: nothing is left
    expect_equal(p);
  }
}

// The longest sums that two doubles hold, and longer ones: 1 * 1, which sets t = 2 and a unit of 2^-41, and many
// products just below half of that, with a last bit of 2^(2 - range). Other blocks take all of it away, so that any bit
// lost is what is left.
TEST(ExactTile, ranges_on_either_side_of_what_two_doubles_hold) {
  for (int range = 80; range <= 106; ++range) {
    const int bits = range - 44;
    const auto ones = [](int n) { return static_cast<std::uint32_t>((std::uint64_t{1} << n) - 1); };
    for (const int count : {131, 200, 255}) {
      Problem p = one_output();
      const auto add_all = [&](bool negative) {
        for (int i = 0; i < count; ++i)
          p.add(finite(ones(bits / 2), -bits / 2, negative), finite(ones(bits - bits / 2), bits / 2 + 2 - range));
      };
      const auto fill_block = [&] {
        while (p.k() % ExactRows::kBlock != 0) p.add(kZero, kZero);
      };
      add_power(p, 0);
      add_all(false);
      fill_block();
      add_power(p, 0, true);
      fill_block();
      add_all(true);
      p.what = "range " + std::to_string(range);
      expect_equal(p);
    }
  }
}

// Bits of significands, and how far apart exponents are: what decides which way computes.
Problem random_problem(int bits, int spread, std::size_t m, std::size_t n, std::size_t k, unsigned seed) {
  std::mt19937 random(seed);
  const auto draw = [&](std::vector<Factors>& rows, std::size_t count) {
    rows.resize(count);
    for (Factors& row : rows) {
      for (std::size_t i = 0; i < k; ++i)
        row.push_back(finite(static_cast<std::uint32_t>(random() >> (32 - bits)),
                             static_cast<int>(random() % static_cast<unsigned>(spread)) - spread, random() % 2 == 0));
    }
  };
  Problem p;
  draw(p.a, m);
  draw(p.b, n);
  for (std::size_t i = 0; i < m * n; ++i) {
    const auto exponent = static_cast<int>(random() % static_cast<unsigned>(2 * spread)) - 2 * spread + 2 * bits;
    const auto c = static_cast<float>(std::ldexp(static_cast<double>(random() % 1024), exponent));
    p.c.push_back(random() % 2 == 0 ? 0 : std::bit_cast<std::uint32_t>(c));
  }
  p.what = "bits " + std::to_string(bits) + " spread " + std::to_string(spread) + " seed " + std::to_string(seed);
  return p;
}

TEST(ExactTile, equals_the_exact_accumulator_on_every_simd_target) {
  for (const std::int64_t target : simd_targets()) {
    const UseSimdTarget use(target);
    unsigned seed = 0;
    for (const int bits : {1, 4, 8, 24, 28, 32}) {
      for (const int spread : {1, 8, 24, 40, 120}) {
        const std::size_t k = std::vector<std::size_t>{1, 5, 33, 255, 256, 257, 523}[seed % 7];
        Problem p = random_problem(bits, spread, 1 + seed % 6, 1 + seed * 7 % 35, k, seed);
        p.what += " " + simd_target_name(target);
        expect_equal(p);
        ++seed;
      }
    }
  }
}

// Small integers: ties in one output of four.
TEST(ExactTile, ties_of_small_integers) {
  Problem p = random_problem(8, 1, 7, 40, 700, 1);
  for (std::uint32_t& c : p.c) c = 0x4C000000;  // 2^25, whose last bit is worth 4
  expect_equal(p);
}

TEST(ExactTile, tiles_at_any_place_give_the_same_words_and_write_nothing_beside) {
  const Problem p = random_problem(24, 40, 70, 150, 300, 2);
  const ExactRows a = rows_of(p.a);
  const ExactRows b = rows_of(p.b);
  for (const Extent k : {Extent{0, 300}, Extent{100, 290}, Extent{256, 257}}) {
    const std::vector<std::uint32_t> whole = expected(p, k);
    for (const Extent rows : {Extent{0, 1}, Extent{62, 67}, Extent{69, 70}, Extent{0, 70}}) {
      for (const Extent cols : {Extent{0, 150}, Extent{17, 18}, Extent{120, 139}, Extent{128, 150}}) {
        std::vector<std::uint32_t> acc = p.c;
        std::vector<std::uint32_t> want = p.c;
        exact_tile(a, rows, b, cols, k, acc.data() + rows.begin * 150 + cols.begin, 150);
        for (std::int64_t i = rows.begin; i < rows.end; ++i)
          std::copy(whole.begin() + i * 150 + cols.begin, whole.begin() + i * 150 + cols.end,
                    want.begin() + i * 150 + cols.begin);
        EXPECT_EQ(acc, want) << rows.begin << " " << cols.begin << " " << k.begin;
      }
    }
  }
}

TEST(ExactTile, no_products_leave_c_but_the_sign_of_zero) {
  const ExactRows none(1, 0);
  for (const auto& [c, want] : std::initializer_list<std::pair<std::uint32_t, std::uint32_t>>{
           {0x80000000, 0}, {0x3F800001, 0x3F800001}, {0x80000001, 0x80000001}, {0xFF800001, 0x7FFFFFFF}}) {
    std::uint32_t word = c;
    exact_tile(none, {0, 1}, none, {0, 1}, {0, 0}, &word, 1);
    EXPECT_EQ(word, want);
  }
}

// Rows of exact values: what they hold, and the range that is known of them.

TEST(ExactRows, a_factors_value_is_exact) {
  EXPECT_EQ(value_of(factor(Format::e4m3, 0x7E)), 448);
  EXPECT_EQ(value_of(factor(Format::fp32, 0x80000001)), -0x1p-149);
  EXPECT_EQ(value_of({Factor::Kind::finite, true, 0xFFFFFFFF, -252, 46}), -std::ldexp(4294967295.0, -298));
  EXPECT_EQ(value_of({Factor::Kind::finite, false, 0xFFFFFFFF, 254, 31}), std::ldexp(4294967295.0, 223));
  EXPECT_TRUE(std::signbit(value_of(factor(Format::bf16, 0x8000))));
  EXPECT_EQ(value_of(factor(Format::e5m2, 0xFC)), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(value_of(factor(Format::e4m3, 0x7F))));
}

TEST(ExactRows, rows_lie_side_by_side_in_panels) {
  ExactRows x(18, 3);
  for (std::int64_t row = 0; row < 18; ++row) {
    const auto first = static_cast<double>(10 * row);
    x.set_row(row, std::vector<double>{first, first + 1, first + 2});
  }
  EXPECT_EQ(x.rows(), 18);
  for (std::int64_t row = 0; row < 18; ++row) {
    for (std::int64_t k = 0; k < 3; ++k) {
      EXPECT_EQ(x.values_of_row(row)[k * ExactRows::kPanel], static_cast<double>(10 * row + k));
      EXPECT_EQ(x.values(row / 16)[k * 16 + row % 16], static_cast<double>(10 * row + k));
    }
  }
  EXPECT_EQ(x.values(1)[2], 0);  // a lane beyond the rows
}

TEST(ExactRows, blocks_of_k_have_ranges_of_their_own) {
  std::vector<double> values(700, 0);
  values[0] = std::ldexp(-1, -298);
  values[600] = -3;  // 2^0 and below 2^2
  values[698] = 0.375;
  values[699] = std::numeric_limits<double>::infinity();  // not finite: of no range
  ExactRows x(2, 700);
  x.set_row(1, values);
  EXPECT_EQ(x.range(1, 0).quantum, -298);
  EXPECT_EQ(x.range(1, 0).top, -297);
  EXPECT_EQ(x.range(1, 1).quantum, ExactRows::kZeroQuantum);
  EXPECT_EQ(x.range(1, 1).top, ExactRows::kZeroTop);
  EXPECT_EQ(x.range(1, 2).quantum, -3);
  EXPECT_EQ(x.range(1, 2).top, 2);
  EXPECT_EQ(x.row(1).quantum, -298);
  EXPECT_EQ(x.row(1).bits, 2);
  EXPECT_NEAR(x.row(1).norm, std::sqrt(9 + 0.375 * 0.375), 1e-6);
  EXPECT_EQ(x.row(0).norm, 0);
}

TEST(ExactRows, the_ends_of_the_range_neither_overflow_nor_vanish) {
  ExactRows x(2, 2);
  x.set_row(0, std::vector<double>{0x1p255, 0x1p255});
  x.set_row(1, std::vector<double>{0x1p-298, 0});
  EXPECT_NEAR(x.row(0).norm / 0x1p255, std::sqrt(2.0), 1e-6);
  EXPECT_NEAR(x.row(1).norm / 0x1p-298, 1, 1e-6);
}

TEST(ExactRows, no_rows_and_no_k) {
  EXPECT_EQ(ExactRows(0, 5).rows(), 0);
  ExactRows x(1, 0);
  x.set_row(0, {});
  EXPECT_EQ(x.row(0).norm, 0);
}

}  // namespace
}  // namespace mxcheck
