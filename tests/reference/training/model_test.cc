// The list of parameters against the table of docs/training.md, and configurations that cannot be.

#include <boost/math/constants/constants.hpp>
#include <boost/multiprecision/cpp_bin_float.hpp>

#include "numerics/elementary/elementary.h"
#include "reference/training/attention.h"
#include "reference/training/model.h"
#include "reference/training/optimizer.h"
#include "reference/training/parts.h"
#include "reference/training/passes.h"
#include "tests/reference/training/test_training.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

TEST(Parameters, are_those_of_the_table) {
  const ModelShape m{.layers = 2, .width = 64, .heads = 2, .experts = 8, .inner = 32, .top_k = 2, .length = 64};
  const std::vector<ParameterSpec> all = parameters_of(m);
  ASSERT_EQ(all.size(), 17U);
  EXPECT_EQ(all.front().name, "embedding");
  EXPECT_EQ(all.front().size(), 256 * 64);
  EXPECT_EQ(all.front().deviation, 0.125F);
  const char* const names[] = {"attention_norm", "qkv", "attention_out", "moe_norm", "router", "w1", "w2"};
  const std::int64_t sizes[] = {64, 3 * 64 * 64, 64 * 64, 64, 8 * 64, 8 * 64 * 64, 8 * 32 * 64};
  // 1 / 8, times 1 / 2 for two layers; w2 sums over n = 32.
  const float deviations[] = {0, 0.125F, 0.0625F, 0, 0.125F, 0.125F, static_cast<float>(std::sqrt(1 / 32.0)) * 0.5F};
  for (std::size_t l = 0; l < 2; ++l) {
    for (std::size_t i = 0; i < 7; ++i) {
      const ParameterSpec& p = all[1 + 7 * l + i];
      EXPECT_EQ(p.name, "layers." + std::to_string(l) + "." + names[i]);
      EXPECT_EQ(p.size(), sizes[i]) << p.name;
      EXPECT_EQ(p.deviation, deviations[i]) << p.name;
      EXPECT_EQ(p.kind, sizes[i] == 64 ? ParameterKind::gain : ParameterKind::matrix) << p.name;
    }
  }
  EXPECT_EQ(all[15].name, "final_norm");
  EXPECT_EQ(all[16].name, "output");
  EXPECT_EQ(parameter_count(m), 165184);
}

void expect_refused(const char* what, const std::function<void(TrainingConfig&)>& change) {
  TrainingConfig config = test_config("mxfp8");
  check(config);
  change(config);
  expect_error(ErrorKind::usage, what, [&] { check(config); });
}

TEST(TrainingConfigCheck, says_what_cannot_be) {
  expect_refused("layers is 0", [](auto& c) { c.model.layers = 0; });
  expect_refused("layers are 65537", [](auto& c) { c.model.layers = (1 << 16) + 1; });
  expect_refused("width is -1", [](auto& c) { c.model.width = -1; });
  expect_refused("an even number", [](auto& c) { c.model.heads = 32; });  // of one column each
  expect_refused("an even number", [](auto& c) { c.model.heads = 5; });
  expect_refused("top_k is 5", [](auto& c) { c.model.top_k = 5; });
  expect_refused("length is 16777217", [](auto& c) { c.model.length = (1 << 24) + 1; });
  expect_refused("batch is 0", [](auto& c) { c.batch = 0; });
  expect_refused("tokens a step", [](auto& c) { c.batch = 1 << 23; });
  expect_refused("steps is 0", [](auto& c) { c.steps = 0; });
  expect_refused("perturb is -3", [](auto& c) { c.perturb = -3; });
  expect_refused("token rounding by 'expert-choice'", [](auto& c) { c.rounding = TokenRoundingRule::expert_choice; });
  expect_refused("tile is 0", [](auto& c) { c.rounding = TokenRoundingRule::nr_f, c.tile = 0; });
  expect_refused("balance", [](auto& c) { c.balance = std::nanf(""); });
  expect_refused("peak_rate", [](auto& c) { c.optimizer.peak_rate = kInf; });
  expect_refused("last_rate", [](auto& c) { c.optimizer.last_rate = 1; });
  expect_refused("beta1", [](auto& c) { c.optimizer.beta1 = 1; });
  expect_refused("beta2", [](auto& c) { c.optimizer.beta2 = -0.5F; });
  expect_refused("epsilon", [](auto& c) { c.optimizer.epsilon = 0; });
  expect_refused("decay", [](auto& c) { c.optimizer.decay = -1; });
  expect_refused("clip", [](auto& c) { c.optimizer.clip = 0; });
  expect_refused("warm_up", [](auto& c) { c.optimizer.warm_up = -1; });
  expect_refused("warm_up is 16777217", [](auto& c) { c.optimizer.warm_up = (1 << 24) + 1; });
  expect_refused("fp32 or bf16", [](auto& c) { c.optimizer.moments = Format::e4m3; });
  expect_refused("none such", [](auto& c) { c.recipe.gemms[0].a.scales = "none such"; });
}

using namespace plain;

TEST(TokenLoss, losses_and_gradients_are_those_of_the_definition) {
  constexpr std::size_t kTokens = 11;
  const std::vector<float> z = values(kTokens * 256, 1, 9);
  std::vector<std::uint8_t> targets;
  for (std::size_t t = 0; t < kTokens; ++t) targets.push_back(static_cast<std::uint8_t>(t * 25));
  const TokenLoss loss = token_loss(z, targets, 1);
  std::vector<float> losses;
  for (std::size_t t = 0; t < kTokens; ++t) {
    const auto row = z.begin() + static_cast<std::ptrdiff_t>(t * 256);
    const float largest = *std::max_element(row, row + 256);
    std::vector<float> e;
    for (std::size_t i = 0; i < 256; ++i) e.push_back(exp_rn(sub(row[static_cast<std::ptrdiff_t>(i)], largest)));
    const float sum = pairwise(e);
    losses.push_back(sub(add(log_rn(sum), largest), row[targets[t]]));
    for (std::size_t i = 0; i < 256; ++i) {
      const float error = sub(div(e[i], sum), i == targets[t] ? 1.0F : 0.0F);
      ASSERT_EQ(loss.d_logits[t * 256 + i], bf16(mul(error, div(1, kTokens)))) << t << ' ' << i;
    }
  }
  EXPECT_EQ(loss.loss, div(pairwise(losses), kTokens));
}

TEST(TokenLoss, threads_change_nothing) {
  const std::vector<float> z = values(999 * 256, 1, 9);
  const std::vector<std::uint8_t> targets(999, 5);
  const TokenLoss one = token_loss(z, targets, 1), three = token_loss(z, targets, 3);
  EXPECT_EQ(one.loss, three.loss);
  EXPECT_EQ(one.d_logits, three.d_logits);
}

TEST(TokenLoss, what_is_not_finite_makes_its_row_and_the_loss_nan) {
  for (const float bad : {kNaN, kInf}) {
    for (const std::size_t place : {0U, 100U, 255U}) {
      std::vector<float> z = values(2 * 256, 1, 4);
      z[256 + place] = bad;
      const TokenLoss loss = token_loss(z, std::vector<std::uint8_t>{1, 2}, 1);
      EXPECT_TRUE(std::isnan(loss.loss));
      EXPECT_EQ(loss.d_logits[256], 0x7FFF);
      EXPECT_EQ(loss.d_logits[511], 0x7FFF);
      EXPECT_NE(loss.d_logits[0], 0x7FFF);
    }
  }
  std::vector<float> z(256, 0.0F);
  z[3] = -kInf;  // a token that cannot be, and is the target
  EXPECT_EQ(token_loss(z, std::vector<std::uint8_t>{3}, 1).loss, kInf);
}

TEST(Embedding, rows_are_those_of_the_tokens) {
  const std::vector<std::uint16_t> w = words(256 * 3, 1);
  const std::vector<float> x = embed(w, std::vector<std::uint8_t>{255, 0, 7}, 3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(x[i], wide(w[765 + i]));
    EXPECT_EQ(x[3 + i], wide(w[i]));
    EXPECT_EQ(x[6 + i], wide(w[21 + i]));
  }
}

// 2^24 + 1 is 2^24 in FP32, and 1 + 1 + 2^24 is not.
TEST(Embedding, gradients_are_summed_in_the_order_of_tokens) {
  const std::vector<std::uint8_t> tokens{9, 4, 9, 4, 9, 4};
  const std::vector<float> dx{0x1p24F, 1, 1, 1, 1, 0x1p24F};
  for (const int threads : {1, 3}) {
    const std::vector<float> dw = embed_backward(dx, tokens, 1, threads);
    EXPECT_EQ(dw[9], 0x1p24F);
    EXPECT_EQ(dw[4], 0x1p24F + 2);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(dw[0]), 0U);
  }
  EXPECT_EQ(
      std::bit_cast<std::uint32_t>(embed_backward(std::vector<float>{-0.0F}, std::vector<std::uint8_t>{1}, 1, 1)[1]),
      0U);
}

TEST(Embedding, sizes_that_do_not_agree_are_refused) {
  EXPECT_THROW(embed(std::vector<std::uint16_t>(255), std::vector<std::uint8_t>{1}, 1), Error);
  EXPECT_THROW(embed_backward(std::vector<float>(3), std::vector<std::uint8_t>{1}, 2, 1), Error);
  EXPECT_THROW(token_loss(std::vector<float>(256), std::vector<std::uint8_t>{1, 2}, 1), Error);
  EXPECT_THROW(token_loss({}, {}, 1), Error);
}

// Learning rates and bias corrections: known answers are from exact fractions (Python), rates of the cosine from
// 120-digit arithmetic.

using Wide = boost::multiprecision::number<boost::multiprecision::cpp_bin_float<120>>;

TEST(BiasCorrection, has_known_answers) {
  constexpr int kUpdates[] = {1, 2, 3, 13, 14, 24, 25, 26, 100, 1000};
  const auto expect = [&](float beta, std::initializer_list<std::uint32_t> right) {
    std::size_t i = 0;
    for (const std::uint32_t bits : right) {
      const int t = kUpdates[i++];
      EXPECT_EQ(std::bit_cast<std::uint32_t>(bias_correction(beta, t)), bits) << beta << ' ' << t;
    }
  };
  expect(0.9F, {0x3dccccd0, 0x3e428f5f, 0x3e8ac085, 0x3f3eeda2, 0x3f456f79, 0x3f6b946e, 0x3f6d9f30, 0x3f6f75ab,
                0x3f7ffe42, 0x3f800000});
  expect(0.95F, {0x3d4cccd0, 0x3dc7ae18, 0x3e120c4c, 0x3ef92b3d, 0x3f0327bd, 0x3f354037, 0x3f38fd01, 0x3f3c89f4,
                 0x3f7e7bfe, 0x3f800000});
  expect(0.999F, {0x3a831200, 0x3b030139, 0x3b4468b0, 0x3c53b74d, 0x3c63e35a, 0x3cc25c6c, 0x3cca5bcb, 0x3cd2591d,
                  0x3dc2fbb9, 0x3f21de67});
  expect(0.5F, {0x3f000000, 0x3f400000, 0x3f600000, 0x3f7ff800, 0x3f7ffc00, 0x3f7fffff, 0x3f800000, 0x3f800000,
                0x3f800000, 0x3f800000});
  EXPECT_EQ(bias_correction(0, 5), 1);
  EXPECT_EQ(bias_correction(0.9F, 1000000000), 1);
  EXPECT_THROW(bias_correction(1, 1), Error);
  EXPECT_THROW(bias_correction(0.9F, 0), Error);
}

TEST(LearningRate, rises_to_the_peak_and_falls_to_the_last) {
  TrainingConfig config = test_config("bf16");
  config.steps = 1000, config.optimizer.warm_up = 100;
  config.optimizer.peak_rate = 1e-3F, config.optimizer.last_rate = 1e-4F;
  EXPECT_EQ(learning_rate(config, 0), static_cast<float>(double{1e-3F} / 100));
  EXPECT_EQ(learning_rate(config, 99), 1e-3F);
  EXPECT_EQ(learning_rate(config, 100), 1e-3F);
  EXPECT_EQ(learning_rate(config, 999), 1e-4F);
  for (std::int64_t t = 101; t < 1000; t += 7) EXPECT_LT(learning_rate(config, t), learning_rate(config, t - 1)) << t;
  EXPECT_THROW(learning_rate(config, -1), Error);
  EXPECT_THROW(learning_rate(config, 1000), Error);
}

TEST(LearningRate, is_the_exact_number_rounded_once) {
  TrainingConfig config = test_config("bf16");
  config.steps = 61, config.optimizer.warm_up = 0;  // angles of 3 degrees, so 60 and 90 too
  for (const float last : {0.0F, 1e-4F, 0x1.8p-30F, 1e-3F}) {
    config.optimizer.peak_rate = 1e-3F, config.optimizer.last_rate = last;
    for (std::int64_t t = 0; t < 61; ++t) {
      Wide cosine = cos(boost::math::constants::pi<Wide>() * t / 60);
      if (t == 30) cosine = 0;
      const Wide rate = Wide(last) + (Wide(1e-3F) - Wide(last)) * (1 + cosine) / 2;
      EXPECT_EQ(learning_rate(config, t), rate.convert_to<float>()) << last << ' ' << t;
    }
  }
}

// Half way between peak and last: the mean of two FP32 numbers, which may lie between two others; it goes to the even.
TEST(LearningRate, a_middle_goes_to_the_even_number) {
  TrainingConfig config = test_config("bf16");
  config.steps = 3, config.optimizer.warm_up = 0;
  config.optimizer.peak_rate = 1 + 0x1p-23F, config.optimizer.last_rate = 1;
  EXPECT_EQ(learning_rate(config, 1), 1);
  config.optimizer.peak_rate = 1 + 0x1p-22F, config.optimizer.last_rate = 1 + 0x1p-23F;
  EXPECT_EQ(learning_rate(config, 1), 1 + 0x1p-22F);
}

TEST(LearningRate, runs_of_one_step_and_of_warm_up_alone) {
  TrainingConfig config = test_config("bf16");
  config.steps = 1, config.optimizer.warm_up = 0;
  EXPECT_EQ(learning_rate(config, 0), config.optimizer.peak_rate);
  config.optimizer.warm_up = 3;
  EXPECT_EQ(learning_rate(config, 0), static_cast<float>(double{config.optimizer.peak_rate} / 3));
  config.steps = 3;
  EXPECT_EQ(learning_rate(config, 2), config.optimizer.peak_rate);
}

// The table, against cosines and sines that are computed one by one with 100 digits.

TEST(RotaryTable, entries_are_exact_numbers_rounded_once) {
  constexpr std::int64_t kLength = 256;
  constexpr std::int64_t kWidth = 32;
  const RotaryTable table = rotary_table(kLength, kWidth);
  ASSERT_EQ(std::ssize(table.cosine), kLength * kWidth / 2);
  for (const std::int64_t p : {0, 1, 2, 100, 255}) {
    for (std::int64_t j = 0; j < kWidth / 2; ++j) {
      const Wide angle = Wide(p) * pow(Wide(10000), Wide(-2 * j) / kWidth);
      const auto at = static_cast<std::size_t>(p * kWidth / 2 + j);
      EXPECT_EQ(table.cosine[at], Wide(cos(angle)).convert_to<float>()) << p << ' ' << j;
      EXPECT_EQ(table.sine[at], Wide(sin(angle)).convert_to<float>()) << p << ' ' << j;
    }
  }
}

TEST(RotaryTable, every_entry_is_within_half_an_ulp_by_double_arithmetic) {
  const RotaryTable table = rotary_table(300, 6);
  for (std::int64_t p = 0; p < 300; ++p) {
    for (std::int64_t j = 0; j < 3; ++j) {
      // An angle below 300 is within 2^-43 as a double, its cosine too; half an ulp of FP32 is 2^-25 at most.
      const double angle = static_cast<double>(p) * std::pow(10000.0, -2.0 * static_cast<double>(j) / 6);
      const auto at = static_cast<std::size_t>(p * 3 + j);
      EXPECT_LE(std::abs(double{table.cosine[at]} - std::cos(angle)), 0x1p-25 + 0x1p-42);
      EXPECT_LE(std::abs(double{table.sine[at]} - std::sin(angle)), 0x1p-25 + 0x1p-42);
    }
  }
}

TEST(RotaryTable, odd_widths_and_negative_lengths_are_refused) {
  EXPECT_THROW(rotary_table(4, 3), Error);
  EXPECT_THROW(rotary_table(4, 0), Error);
  EXPECT_THROW(rotary_table(-1, 2), Error);
  EXPECT_TRUE(rotary_table(0, 2).cosine.empty());
}

// Rounding to BF16, over every upper half of an FP32 number with lower halves around the middle.

TEST(Bf16Rounding, is_to_the_nearest_number_ties_to_even) {
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    for (const std::uint32_t low : {0U, 1U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      const auto value = std::bit_cast<float>(high << 16 | low);
      ASSERT_EQ(to_bf16(value), plain::bf16(value)) << std::hex << (high << 16 | low);
    }
  }
}

TEST(Bf16Rounding, threads_change_nothing) {
  const std::vector<float> v = plain::values(100000, 1, 60);
  EXPECT_EQ(rounded_to_bf16(v, 1), rounded_to_bf16(v, 3));
}

// True if the middle (2 M + 1) 2^(e - 1) above the number M 2^e is below 1 / sqrt(n): 50 + 24 bits are exact.
bool middle_is_below(float x, std::int64_t n) {
  __extension__ using Wide = unsigned __int128;
  int exponent = 0;
  const Wide mantissa = static_cast<std::uint64_t>(std::ldexp(std::frexp(x, &exponent), 24));
  const Wide odd = 2 * mantissa + 1;
  return odd * odd * static_cast<Wide>(n) < Wide{1} << (2 - 2 * (exponent - 24));
}

TEST(OneOverRoot, is_the_nearest_fp32_number_for_every_size_that_a_configuration_can_have) {
  for (std::int64_t n = 1; n <= 1 << 24; ++n) {
    const float r = one_over_root(n);
    ASSERT_FALSE(middle_is_below(r, n)) << n;
    ASSERT_TRUE(middle_is_below(std::nextafter(r, 0.0F), n)) << n;
  }
}

}  // namespace
}  // namespace mxcheck
