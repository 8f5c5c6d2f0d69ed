// Published reckonings and figures about MXFP8 and fine-grained layers, from their shapes alone.

#include <array>
#include <string>
#include <vector>

#include "cost/estimate.h"
#include "tests/cost/cost_testing.h"

namespace mxcheck {
namespace {

// ---- Cursor, "1.5x faster MoE training with MXFP8 kernels built from scratch" ----

// The B200 of its reckonings: 3,300 TFLOPS in FP8, quantizing at 6.5 TB/s.
Card reckoned_b200() {
  Card card = card_named("B200");
  card.launch.value = 0;
  for (EngineRate& rate : card.engines) {
    if (rate.engine == Engine::mx) rate.rows.value = 3300.0 / 4500;
  }
  for (MoverShare& share : card.movers) {
    if (share.mover == Mover::quantize || share.mover == Mover::quantize_tokens) share.of_copy.value = 1;
  }
  return card;
}

// "Death by a thousand quantizations": 131,072 x 7,168 by 7,168 x 2,048. d_down of a layer with one expert is that
// product.
TEST(Cursor, quantizing_both_operands_takes_almost_40_percent_of_the_product) {
  const LayerShape shape{131072, 7168, 2048, 1, 1};
  const Estimate e = estimate(shape, layer_recipe_named("mxfp8"), reckoned_b200(), test::kBalanced);
  const Step& gemm = test::step_of(e.backward, "d_down");
  const Step& a = test::step_of(e.backward, "quantize dO");
  const Step& b = test::step_of(e.backward, "quantize W2");
  EXPECT_NEAR(gemm.operations / 1e12, 3.85, 0.005);
  EXPECT_NEAR(gemm.us / 1000, 1.16, 0.01);
  EXPECT_NEAR((a.bytes + b.bytes) / 1e9, 2.9, 0.05);
  EXPECT_NEAR((a.us + b.us) / 1000, 0.44, 0.01);
  EXPECT_NEAR((a.us + b.us) / gemm.us, 0.38, 0.005);
  // A quantized along its columns, too, for the backward pass.
  const Step& transposed = test::step_of(e.backward, "quantize dO along tokens");
  EXPECT_NEAR((a.us + b.us + transposed.us) / 1000, 0.88, 0.01);
  EXPECT_NEAR((a.us + b.us + transposed.us) / gemm.us, 0.76, 0.01);
}

// Table 2: scales of blocks of 32 on CUDA cores, of the time of the product. The post gives Hopper 60 TFLOPS in FP32,
// NVIDIA's data sheet 67.
TEST(Cursor, dequantizing_blocks_of_32_takes_longer_than_the_product) {
  Card hopper = card_named("H100");
  hopper.fp32.value = 60;
  constexpr double kOperations = 1e15;
  EXPECT_NEAR(dequantize_seconds(kOperations, 32, hopper) / (kOperations / 1979e12), 1.03, 0.005);
  EXPECT_NEAR(dequantize_seconds(kOperations, 32, card_named("B200")) / (kOperations / 4500e12), 1.76, 0.005);
}

// ---- SonicMoE, arXiv 2512.14080 ----

// Its model of 30 B parameters, of equal operations at each granularity: n, E, K.
constexpr std::array<LayerShape, 4> kGranularities{
    {{32768, 4096, 2048, 32, 2}, {32768, 4096, 1024, 64, 4}, {32768, 4096, 512, 128, 8}, {32768, 4096, 256, 256, 16}}};

// Figure 1, left: kept memory does not grow with granularity. Keeping Y, or X by rows, would.
TEST(SonicMoe, figure_1_kept_memory_is_constant_over_granularity) {
  double last_with_y = 0;
  for (const LayerShape& s : kGranularities) {
    const Estimate e = estimate(s, layer_recipe_named("bf16"), card_named("H100"), test::kBalanced);
    EXPECT_EQ(e.kept.bytes(), 6.0 * 32768 * 4096) << s.top_k;  // n K = d: 2 T d + 4 T d
    EXPECT_EQ(e.kept.bytes(), sonicmoe_kept(s));
    const double with_y = e.kept.bytes() + 2 * product({s.tokens, s.top_k, s.d_model});
    EXPECT_GT(with_y, last_with_y);
    last_with_y = with_y;
  }
}

// Figure 1, right: SonicMoE is at 86 to 91 % of cuBLAS's products, activation and aggregation, one after another. Read
// from figure 14: 555, 505 and 430 TFLOPS. Our products have 0.954 of cuBLASLt's rate (docs/performance.md, BF16, 8
// groups).
TEST(SonicMoe, figure_1_the_bound_of_forward_rates_follows_from_the_shapes) {
  constexpr std::array<double, 4> kSonic{0, 555, 505, 430};
  for (std::size_t i = 1; i < kGranularities.size(); ++i) {
    const Estimate e = estimate(kGranularities[i], layer_recipe_named("bf16"), card_named("H100"), test::kBalanced);
    const double us = e.forward.us() - test::step_of(e.forward, "gather X").us;
    EXPECT_NEAR(0.88 / 0.954 * e.useful_forward / us / 1e6 / kSonic[i], 1, 0.06) << kGranularities[i].top_k;
  }
}

// Figure 3: bytes of a forward pass grow linearly with granularity.
TEST(SonicMoe, figure_3_bytes_are_linear_in_granularity) {
  std::vector<double> bytes;
  for (const LayerShape& s : kGranularities)
    bytes.push_back(estimate(s, layer_recipe_named("bf16"), card_named("H100"), test::kBalanced).forward.bytes());
  EXPECT_GT(bytes[1], bytes[0]);
  EXPECT_DOUBLE_EQ(bytes[2] - bytes[1], 2 * (bytes[1] - bytes[0]));
  EXPECT_DOUBLE_EQ(bytes[3] - bytes[2], 4 * (bytes[1] - bytes[0]));
}

// The formula counts an expert's X, A and Y and its weights once, and not H: the same sum by hand.
TEST(SonicMoe, arithmetic_intensity_is_that_of_one_expert) {
  const LayerShape s{24576, 1536, 256, 128, 8};
  const double rows = 24576.0 * 8 / 128;
  const double operations = 6 * rows * 256 * 1536;
  const double bytes = 2 * (rows * 1536 + rows * 256 + rows * 256 + rows * 1536) + 2 * 3.0 * 256 * 1536;
  EXPECT_NEAR(sonicmoe_intensity(s), operations / bytes, 1e-9);
  EXPECT_LT(sonicmoe_intensity({24576, 1536, 256, 256, 8}), sonicmoe_intensity(s));   // sparser
  EXPECT_LT(sonicmoe_intensity({24576, 1536, 128, 128, 16}), sonicmoe_intensity(s));  // more granular
}

// Figure 11: what tiles of 128 rows waste at T = 16384, by layer and experts; beside what routes drawn on an H200 gave
// (docs/performance_log.md, Every case of partly filled tiles), of the rows in tiles.
TEST(SonicMoe, figure_11_padding_follows_from_the_shapes) {
  struct Padding {
    std::int64_t experts, top_k;
    double percent;
  };
  const std::string page = test::read_file(MXCHECK_SOURCE_DIR "/docs/performance_log.md");
  for (const Padding& p : {Padding{64, 8, 2.8},
                           {128, 8, 6.3},
                           {256, 8, 10.6},
                           {512, 8, 20.3},
                           {16, 2, 4.1},
                           {32, 2, 6.2},
                           {64, 2, 9.9},
                           {128, 2, 19.5},
                           {64, 4, 5.5},
                           {128, 4, 11.1},
                           {256, 4, 19.5},
                           {512, 10, 16.7}}) {
    const Load load = load_of({}, 16384, p.experts, p.top_k);
    EXPECT_NEAR(100 * (1 - load.rows / load.tile_rows), p.percent, 1.2) << p.experts << ", " << p.top_k;
    const std::string row = " E=" + std::to_string(p.experts) + " K=" + std::to_string(p.top_k) + " | ";
    EXPECT_NE(page.find(row), std::string::npos) << row;
  }
  // "The waste grows linearly with sparsity": twice the experts, twice the padded rows.
  const auto waste = [](std::int64_t experts) {
    const Load load = load_of({}, 16384, experts, 4);
    return load.tile_rows - load.rows;
  };
  EXPECT_NEAR(waste(128) / waste(64), 2, 0.05);
  EXPECT_NEAR(waste(256) / waste(128), 2, 0.05);
}

// Figure 16's layers, GEMMs of a forward pass by rounded tokens, which fill every tile: the gains in percent that this
// project measured on an H200 (docs/performance_log.md, Every case of partly filled tiles).
TEST(SonicMoe, figure_16_rounding_gains_the_padding) {
  const auto gain = [](std::int64_t experts) {
    const LayerShape s{16384, 4096, 1024, experts, 4};
    const auto gemms = [&](const EstimateOptions& options) {
      return estimate(s, layer_recipe_named("bf16"), card_named("H200"), options).forward.us_of(StepKind::gemm);
    };
    return 100 * (gemms({}) / gemms(test::kBalanced) - 1);
  };
  EXPECT_NEAR(gain(64), 7.1, 1);
  EXPECT_NEAR(gain(128), 12.3, 1);
  EXPECT_NEAR(gain(256), 25.0, 1);
}

}  // namespace
}  // namespace mxcheck
