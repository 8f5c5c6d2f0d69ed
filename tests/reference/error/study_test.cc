#include "reference/error/study.h"
#include "reference/error/input_facts.h"
#include "reference/error/matmul_error.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

Study study_of(const std::vector<float>& values, const char* recipe, Format element = Format::e4m3) {
  const auto cols = static_cast<std::int64_t>(values.size());
  return study(fp32_matrix(1, cols, values).view(), element, {1, 32}, recipe_named(recipe));
}

std::vector<float> padded(std::vector<float> values, std::size_t size = 32) {
  values.resize(size);
  return values;
}

TEST(Study, measures_a_block_computed_by_hand) {
  // Scale 1: 448 and 1 stay, 2^-10 is a tie between 0 and 2^-9, which goes to the even 0.
  const Study s = study_of(padded({448, 1, 0x1p-10F}), "rceil");
  EXPECT_EQ(s.nonzero, 3U);
  EXPECT_EQ(s.error.flushed, 1U);
  EXPECT_DOUBLE_EQ(s.zeroed_share, 1.0 / 3);
  EXPECT_DOUBLE_EQ(s.error.sqnr_db, 10 * std::log10((448.0 * 448 + 1 + 0x1p-20) / 0x1p-20));
  EXPECT_EQ(s.error.median_relative, 0);
  EXPECT_EQ(s.error.max_relative, 1);
  EXPECT_EQ(s.blocks, 1U);
  EXPECT_EQ(s.scales[127], 1U);
  EXPECT_EQ(s.distinct_scales, 1U);
  EXPECT_EQ(s.amax_lowest, 448);
  EXPECT_EQ(s.amax_highest, 448);
}

TEST(Study, sees_floor_saturate_where_rceil_does_not) {
  const Study floor = study_of(padded({500, 1}), "floor");
  EXPECT_EQ(floor.error.saturated, 1U);
  EXPECT_EQ(floor.scales[127], 1U);
  EXPECT_DOUBLE_EQ(floor.error.max_relative, 52.0 / 500);
  const Study rceil = study_of(padded({500, 1}), "rceil");
  EXPECT_EQ(rceil.error.saturated, 0U);
  EXPECT_EQ(rceil.scales[128], 1U);
}

TEST(Study, counts_what_was_flushed_to_zero_and_what_was_saturated) {
  // floor gives an amax of 897 the scale 2, whose largest value is 896 and whose smallest is 2^-8.
  const Study s = study_of(padded({0, 0x1p-30F, -0x1p-30F, 896, -897, 890, 2}), "floor");
  EXPECT_EQ(s.scales[128], 1U);
  EXPECT_EQ(s.error.flushed, 2U) << "a zero is not flushed";
  EXPECT_EQ(s.error.saturated, 1U) << "neither the largest itself nor what is rounded up to it";
  EXPECT_EQ(s.error.flushed_share, 2.0 / 32);
  EXPECT_EQ(s.error.saturated_share, 1.0 / 32);
}

TEST(Study, an_infinite_code_is_not_a_saturated_one) {
  Recipe recipe = recipe_named("floor");
  recipe.overflow = Overflow::non_saturate;
  const std::vector<float> values = padded({63000});  // 2^15 * 1.92: scale 1, and E5M2's largest is 57344
  const Study s = study(fp32_matrix(1, 32, values).view(), Format::e5m2, {1, 32}, recipe);
  EXPECT_EQ(s.scales[127], 1U);
  EXPECT_EQ(s.error.max_relative, std::numeric_limits<double>::infinity());
  EXPECT_EQ(s.error.saturated, 0U);
}

TEST(Study, counts_dead_blocks_apart_from_blocks_of_zeros) {
  // The clamp of 1e-4 gives byte 105, a scale of 2^-22: 1e-12 / 2^-22 = 4.2e-6 rounds to 0.
  std::vector<float> values(96);
  std::fill(values.begin(), values.begin() + 32, 1e-12F);
  values[64] = 1;
  const Study clamped = study_of(values, "deepgemm_host");
  EXPECT_EQ(clamped.blocks, 3U);
  EXPECT_EQ(clamped.zero_blocks, 1U);
  EXPECT_EQ(clamped.dead_blocks, 1U);
  EXPECT_EQ(clamped.clamped_blocks, 1U);
  EXPECT_EQ(clamped.error.flushed, 32U);
  EXPECT_DOUBLE_EQ(clamped.zeroed_share, 32.0 / 33);
  EXPECT_EQ(clamped.scales[105], 2U);
  const Study norm = study_of(values, "rceil");
  EXPECT_EQ(norm.dead_blocks, 0U);
  EXPECT_EQ(norm.clamped_blocks, 0U);
  EXPECT_EQ(norm.error.flushed, 0U);
  EXPECT_EQ(norm.distinct_scales, 3U);
}

TEST(Study, counts_fp32_scales_as_floats_and_by_exponent_field) {
  std::vector<float> values(64);
  values[0] = 448;         // scale 1
  values[32] = 1.5 * 448;  // scale 1.5: the same exponent field
  const Study s = study_of(values, "fp32");
  EXPECT_EQ(s.distinct_scales, 2U);
  EXPECT_EQ(s.scales[127], 2U);
}

// The study of a matrix has the errors of these dequantized values.
void expect_errors_of(const std::vector<float>& values, const MatrixView& view, const Study& s,
                      const std::string& what) {
  double signal = 0, noise = 0;
  std::uint64_t flushed = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = view.at(static_cast<std::int64_t>(i) / view.cols, static_cast<std::int64_t>(i) % view.cols);
    signal += x * x;
    noise += (values[i] - x) * (values[i] - x);
    if (x != 0 && values[i] == 0) ++flushed;
  }
  // Two sums of n squares in different orders differ by at most n * 2^-53 of themselves, 4.3 dB times that: below 1e-9
  // dB up to a million elements, and these are thousands.
  EXPECT_NEAR(s.error.sqnr_db, 10 * std::log10(signal / noise), 1e-9) << what;
  EXPECT_EQ(s.error.flushed, flushed) << what;
}

TEST(Study, follows_quantize_and_dequantize_for_every_shape_and_format) {
  const std::int64_t rows = 45, cols = 71;
  const TestMatrix input(Format::bf16, rows, cols, random_values(rows * cols, 7), 3);
  const MatrixView view = input.view();
  for (const Format element : kQuantizedFormats) {
    for (const BlockShape block : kShapes) {
      for (const char* recipe : {"floor", "dsv3_fp32", "deepgemm_host"}) {
        const QuantizedTensor q = quantize(view, element, block, recipe_named(recipe));
        const std::vector<float> values = dequantize(q);
        const Study s = study(view, element, block, recipe_named(recipe));
        expect_errors_of(values, view, s, recipe + to_text(block));
        EXPECT_EQ(s.blocks, static_cast<std::uint64_t>(q.scale_rows() * q.scale_cols()));
        std::uint64_t scales = 0;
        for (const std::uint64_t n : s.scales) scales += n;
        EXPECT_EQ(scales, s.blocks);
      }
    }
  }
}

// Two levels of scales: the values are dequantize's, and a block below a scale of 0 is dead whatever its codes are.
TEST(Study, follows_quantize_and_dequantize_for_two_levels_of_scales) {
  const std::int64_t rows = 45, cols = 71;
  const TestMatrix input(Format::bf16, rows, cols, random_values(rows * cols, 7), 3);
  const MatrixView view = input.view();
  for (const Recipe& recipe : two_level_recipes()) {
    for (const BlockShape block : {BlockShape{1, 16}, BlockShape{16, 16}, BlockShape{16, 1}}) {
      const QuantizedTensor q = quantize(view, Format::e2m1, block, recipe);
      const std::vector<float> values = dequantize(q);
      const Study s = study(view, Format::e2m1, block, recipe);
      expect_errors_of(values, view, s, recipe.name + to_text(block));
      for (std::size_t i = 0; i < 256; ++i) {
        const auto count = std::ranges::count(q.scales().as<std::uint8_t>(), static_cast<std::uint8_t>(i));
        EXPECT_EQ(s.scales[i], static_cast<std::uint64_t>(count)) << recipe.name << i;
      }
    }
  }
}

TEST(Study, counts_a_block_below_a_scale_of_zero_as_dead) {
  std::vector<float> values(32, 1);
  std::fill(values.begin() + 16, values.end(), 0x1p-22F);  // nvfp4_te: codes of 6 under a scale of 0
  const TestMatrix input = fp32_matrix(1, 32, values);
  const QuantizedTensor q = quantize(input.view(), Format::e2m1, {1, 16}, any_recipe_named("nvfp4_te"));
  EXPECT_EQ(q.scales().code(1), 0U);
  EXPECT_EQ(q.codes.code(16), 7U);
  const Study s = study(input.view(), Format::e2m1, {1, 16}, any_recipe_named("nvfp4_te"));
  EXPECT_EQ(s.dead_blocks, 1U);
  EXPECT_EQ(s.error.flushed, 16U);
  EXPECT_EQ(s.error.saturated, 0U);
}

TEST(Study, does_not_depend_on_threads) {
  const TestMatrix input(Format::fp32, 300, 200, random_values(300 * 200, 8));
  const Study one = study(input.view(), Format::e4m3, {32, 1}, recipe_named("te"), 1);
  const Study many = study(input.view(), Format::e4m3, {32, 1}, recipe_named("te"), 5);
  EXPECT_EQ(one.error.sqnr_db, many.error.sqnr_db);
  EXPECT_EQ(one.error.median_relative, many.error.median_relative);
  EXPECT_EQ(one.scales, many.scales);
}

TEST(Study, of_panels_is_that_of_the_whole) {
  const std::int64_t rows = 100, cols = 71;
  const TestMatrix input(Format::bf16, rows, cols, random_values(rows * cols, 9));
  const MatrixView view = input.view();
  for (const char* name : {"rceil", "dsv3_fp32"}) {
    const Recipe recipe = recipe_named(name);
    const Study whole = study(view, Format::e5m2, {32, 1}, recipe);
    StudyMeter meter(Format::e5m2, {32, 1}, recipe);
    do {
      for (std::int64_t at = 0; at < rows; at += 32) {
        const MatrixView panel{view.dtype,
                               view.data + at * view.row_stride * 2,
                               std::min<std::int64_t>(32, rows - at),
                               cols,
                               view.row_stride,
                               at};
        meter.add(meter.measure(panel, quantize(panel, Format::e5m2, {32, 1}, recipe)));
      }
    } while (!meter.finish_pass());
    const Study s = meter.study();
    EXPECT_EQ(s.error.sqnr_db, whole.error.sqnr_db);
    EXPECT_EQ(s.error.median_relative, whole.error.median_relative);
    EXPECT_EQ(s.error.max_relative, whole.error.max_relative);
    EXPECT_EQ(s.zeroed_share, whole.zeroed_share);
    EXPECT_EQ(s.blocks, whole.blocks);
    EXPECT_EQ(s.scales, whole.scales);
    EXPECT_EQ(s.distinct_scales, whole.distinct_scales);
    EXPECT_EQ(s.amax_lowest, whole.amax_lowest);
    EXPECT_EQ(s.amax_highest, whole.amax_highest);
  }
}

TEST(Study, takes_not_a_number_by_the_rules_of_the_measures) {
  const Study s = study_of(padded({1, kNaN, 2}), "rceil");
  EXPECT_TRUE(std::isnan(s.error.sqnr_db));
  EXPECT_EQ(s.error.nan_in_both, 1U);
  EXPECT_EQ(s.error.nan_introduced, 31U);
  EXPECT_EQ(s.nonzero, 2U);
  EXPECT_EQ(s.dead_blocks, 0U);
  EXPECT_EQ(s.scales[255], 1U);
}

TEST(Study, refuses_a_matrix_without_elements) {
  expect_thrown(ErrorKind::usage, "a matrix of 0 x 8 has no elements to measure", [] {
    study(MatrixView{Format::fp32, nullptr, 0, 8, 8}, Format::e4m3, {}, {});
  });
}

TEST(InputFacts, find_bf16_exact_for_bf16_and_half_an_ulp_off_for_fp32) {
  const TestMatrix bf16(Format::bf16, 8, 8, random_values(64, 9));
  EXPECT_EQ(study_bf16(bf16.view()).sqnr_db, std::numeric_limits<double>::infinity());
  const ErrorMeasures m = study_bf16(fp32_matrix(1, 1, {1 + 0x1p-9F}).view());  // to 1
  EXPECT_DOUBLE_EQ(m.max_relative, 0x1p-9 / (1 + 0x1p-9));
}

TEST(InputFacts, count_what_the_input_holds) {
  const float inf = kInf;
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
  const std::vector<float> w = random_values(n * k, 3);
  const TestMatrix x(Format::bf16, m, k, random_values(m * k, 2));
  const TestMatrix nk(Format::bf16, n, k, w);
  const TestMatrix kn(Format::bf16, k, n, transposed(w, n, k));
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

TEST(MatmulErrorMeter, takes_two_levels_of_scales) {
  // A scale of 1/448 below the tensor's amax of 6 and the block's: 5 and 0.25 are ties, to the even 4 and 0.
  std::vector<float> x(16);
  x[0] = 6, x[1] = 5, x[2] = 0.25F;
  const TestMatrix activations = fp32_matrix(1, 16, x);
  const TestMatrix weights = fp32_matrix(1, 16, std::vector<float>(16, 1));
  const MatmulErrorMeter product(activations.view(), weights.view(), WeightsLayout::nk);
  for (const char* recipe : {"nvfp4", "nvfp4_te", "nvfp4_compressed_tensors"}) {  // s, the amax and S stored
    const MatmulError e = product.error(Format::e2m1, {1, 16}, any_recipe_named(recipe));
    EXPECT_NEAR(e.frobenius, 1.25 / 11.25, 1e-6) << recipe;
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
  expect_thrown(ErrorKind::usage,
                "K is 3, the activations' columns, and 4, the weights' columns; weights of K x N are layout kn",
                [&] { MatmulErrorMeter(x.view(), w.view(), WeightsLayout::nk); });
  const MatmulErrorMeter right(x.view(), w.view(), WeightsLayout::kn);
  EXPECT_EQ(right.n(), 4);
  expect_thrown(ErrorKind::usage, "block 32x1 lies across K; a matmul takes blocks along K", [&] {
    static_cast<void>(right.error(Format::e4m3, {32, 1}, kNorm));
  });
}

TEST(ScaleSet, counts_floats_by_their_bits) {
  ScaleSet set;
  EXPECT_EQ(set.count(), 0U);
  for (const float scale :
       {1.0F, 1.0F, 1.5F, -1.0F, 0.0F, -0.0F, 0x1p-149F, std::numeric_limits<float>::max(), 1.5F, kNaN, kNaN})
    set.add(scale);
  EXPECT_EQ(set.count(), 8U);
}

}  // namespace
}  // namespace mxcheck
