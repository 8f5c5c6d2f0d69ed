#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference/error/input_facts.h"
#include "reference/error/matmul_error.h"
#include "reference/error/scale_set.h"
#include "tests/reference/common/test_matrix.h"

namespace mxcheck {
namespace {

using test::fp32_matrix;
using test::TestMatrix;

TEST(InputFacts, find_bf16_exact_for_bf16_and_half_an_ulp_off_for_fp32) {
  const TestMatrix bf16(Format::bf16, 8, 8, test::random_values(64, 9));
  EXPECT_EQ(study_bf16(bf16.view()).sqnr_db, std::numeric_limits<double>::infinity());
  const ErrorMeasures m = study_bf16(fp32_matrix(1, 1, {1 + 0x1p-9F}).view());  // to 1
  EXPECT_DOUBLE_EQ(m.max_relative, 0x1p-9 / (1 + 0x1p-9));
}

TEST(InputFacts, count_what_the_input_holds) {
  const float inf = std::numeric_limits<float>::infinity();
  const InputFacts f = input_facts(fp32_matrix(1, 6, {0, -0.0F, -3, 0.5, inf, std::nanf("")}).view());
  EXPECT_EQ(f.count, 6U);
  EXPECT_EQ(f.zeros, 2U);
  EXPECT_EQ(f.nan, 1U);
  EXPECT_EQ(f.infinite, 1U);
  EXPECT_EQ(f.smallest, 0.5F);
  EXPECT_EQ(f.largest, 3);
}

TEST(InputFacts, of_parts_are_those_of_the_whole) {
  InputFacts sum = input_facts(fp32_matrix(1, 3, {0, 0, std::nanf("")}).view());
  EXPECT_EQ(sum.smallest, 0);
  sum.add(input_facts(fp32_matrix(1, 2, {3, -0.5}).view()));
  sum.add(input_facts(fp32_matrix(1, 1, {2}).view()));
  EXPECT_EQ(sum.count, 6U);
  EXPECT_EQ(sum.zeros, 2U);
  EXPECT_EQ(sum.smallest, 0.5F);
  EXPECT_EQ(sum.largest, 3);
}

TEST(InputFacts, of_bf16_count_what_rounding_loses) {
  // Half of BF16's smallest subnormal is a tie with 0; what lies above its largest becomes infinite, or that by a tie.
  const ErrorMeasures m = study_bf16(fp32_matrix(1, 4, {0x1p-134F, 0x1p-133F, 0x1.FEp127F, 0x1.FEFFFEp127F}).view());
  EXPECT_EQ(m.flushed, 1U);
  EXPECT_EQ(m.saturated, 1U);
  EXPECT_TRUE(std::isfinite(m.max_relative));
}

using test::fp32_matrix;
using test::TestMatrix;
using test::thrown_by;

const Recipe kNorm = recipe_named("rceil");

TEST(MatmulErrorMeter, has_the_error_computed_by_hand) {
  std::vector<float> x(32);
  x[0] = 448;      // scale 1
  x[1] = 1.0625F;  // a tie between 1 and 1.125, to the even 1
  const TestMatrix activations = fp32_matrix(1, 32, x);
  const TestMatrix weights = fp32_matrix(1, 32, std::vector<float>(32, 1));
  const MatmulErrorMeter product(activations.view(), weights.view(), WeightsLayout::nk);
  const MatmulError e = product.error(Format::e4m3, {1, 32}, kNorm);
  EXPECT_DOUBLE_EQ(e.frobenius, 0.0625 / 449.0625);
  EXPECT_DOUBLE_EQ(e.max_over_rms, 0.0625 / 449.0625);
  EXPECT_DOUBLE_EQ(e.sqnr_db, 20 * std::log10(449.0625 / 0.0625));
}

TEST(MatmulErrorMeter, takes_weights_in_either_layout_with_blocks_along_k) {
  const std::int64_t m = 5, n = 7, k = 70;
  const std::vector<float> w = test::random_values(n * k, 3);
  const TestMatrix x(Format::bf16, m, k, test::random_values(m * k, 2));
  const TestMatrix nk(Format::bf16, n, k, w);
  const TestMatrix kn(Format::bf16, k, n, test::transposed(w, n, k));
  for (const BlockShape block : {BlockShape{1, 32}, BlockShape{32, 32}, BlockShape{1, 0}}) {
    for (const char* recipe : {"floor", "fp32"}) {
      const Recipe r = recipe_named(recipe);
      const MatmulError a = MatmulErrorMeter(x.view(), nk.view(), WeightsLayout::nk).error(Format::e4m3, block, r);
      const MatmulError b = MatmulErrorMeter(x.view(), kn.view(), WeightsLayout::kn).error(Format::e4m3, block, r);
      // Eigen sums in another order: an output is off by at most 70 * 2^-53 of its terms, some 30 times that of the
      // error that the SQNR squares, and a factor of e in that is 8.7 dB: below 3e-12 dB.
      EXPECT_NEAR(a.sqnr_db, b.sqnr_db, 1e-9);
      EXPECT_GT(a.sqnr_db, 10);
    }
  }
}

TEST(MatmulErrorMeter, has_no_error_where_the_operands_are_representable) {
  const TestMatrix x = fp32_matrix(1, 2, {1, 2});
  const TestMatrix w = fp32_matrix(1, 2, {3, 4});
  const MatmulErrorMeter product(x.view(), w.view(), WeightsLayout::nk);
  EXPECT_EQ(product.error(Format::e4m3, {1, 32}, kNorm).sqnr_db, std::numeric_limits<double>::infinity());
  EXPECT_EQ(product.error_of_bf16().frobenius, 0);
  EXPECT_DOUBLE_EQ(product.gamma(), 0x1p-52 / (1 - 0x1p-52));  // K = 2
}

TEST(MatmulErrorMeter, of_numbers_that_are_none_has_no_error_to_state) {
  const TestMatrix x = fp32_matrix(1, 2, {1, std::nanf("")});
  const TestMatrix w = fp32_matrix(1, 2, {3, 4});
  EXPECT_TRUE(std::isnan(
      MatmulErrorMeter(x.view(), w.view(), WeightsLayout::nk).error(Format::e4m3, {1, 32}, kNorm).frobenius));
}

TEST(MatmulErrorMeter, names_both_sizes_when_k_differs) {
  const TestMatrix x = fp32_matrix(2, 3, std::vector<float>(6, 1));
  const TestMatrix w = fp32_matrix(3, 4, std::vector<float>(12, 1));
  const auto thrown = thrown_by([&] { MatmulErrorMeter(x.view(), w.view(), WeightsLayout::nk); });
  EXPECT_EQ(thrown.kind, ErrorKind::usage);
  EXPECT_EQ(thrown.text,
            "K is 3, the activations' columns, and 4, the weights' columns; weights of K x N are layout kn");
  const MatmulErrorMeter right(x.view(), w.view(), WeightsLayout::kn);
  EXPECT_EQ(right.n(), 4);
  const auto across = thrown_by([&] { static_cast<void>(right.error(Format::e4m3, {32, 1}, kNorm)); });
  EXPECT_EQ(across.text, "block 32x1 lies across K; a matmul takes blocks along K");
}

TEST(ScaleSet, counts_floats_by_their_bits) {
  ScaleSet set;
  EXPECT_EQ(set.count(), 0U);
  for (const float scale : {1.0F, 1.0F, 1.5F, -1.0F, 0.0F, -0.0F, 0x1p-149F, std::numeric_limits<float>::max(), 1.5F,
                            std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::quiet_NaN()})
    set.add(scale);
  EXPECT_EQ(set.count(), 8U);
}

}  // namespace
}  // namespace mxcheck
