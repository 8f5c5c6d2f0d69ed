#include "cost/card.h"

#include <string>

#include "tests/cost/cost_testing.h"

namespace mxcheck {
namespace {

TEST(Card, every_number_has_a_source_and_is_above_zero) {
  for (const Card& card : all_cards()) {
    for (const CardFigure& f : figures_of(card)) {
      const std::string what = std::string(card.name) + ", " + std::string(f.part) + " " + std::string(f.what);
      EXPECT_GT(f.figure.value, 0) << what;
      EXPECT_FALSE(f.figure.source.empty()) << what;
    }
  }
}

TEST(Card, shares_of_peaks_and_links_are_below_one) {
  for (const Card& card : all_cards()) {
    for (const CardFigure& f : figures_of(card)) {
      const bool is_share = f.unit == "of peak" || f.unit == "of NVLink" || f.unit == "of network";
      EXPECT_TRUE(!is_share || f.figure.value < 1) << f.what;
    }
    EXPECT_LT(card.copy.value, card.bandwidth.value);
  }
}

TEST(Card, hopper_has_neither_block_scales_nor_four_bits_in_its_tensor_cores) {
  for (const Card& card : all_cards()) {
    const bool blackwell = card.architecture == Architecture::blackwell;
    EXPECT_EQ(card.engine(Engine::mx) != nullptr, blackwell) << card.name;
    EXPECT_EQ(card.engine(Engine::nvfp4) != nullptr, blackwell) << card.name;
    EXPECT_NE(card.engine(Engine::bf16), nullptr);
  }
}

TEST(Card, is_found_by_name_and_unknown_ones_are_refused) {
  EXPECT_EQ(card_named("B200").engine(Engine::mx)->peak.value, 4500);
  test::expect_error(ErrorKind::usage, "unknown card 'H20'; known are H100, H200, B200", [] { card_named("H20"); });
}

// The share that says what was measured on this project's own kernels is the figure of the page that it names.
TEST(Card, measured_shares_are_those_of_the_page) {
  const std::string page = test::read_file(MXCHECK_SOURCE_DIR "/docs/performance.md");
  for (const std::string_view text :
       {"the copy moves 4170 GB/s, an empty kernel takes 0.69 us", "on an H100 whose best copy is at 3022 GB/s",
        "BF16, 8 groups of 4096 rows, 4096x7168 | 2890 | 666 |",
        "FP8 1x128 by 128x128, 8 groups of 4096 rows, 4096x7168 | 1594 | 1208 |",
        "BF16, weight gradient, 4 groups of k = 4096, FP32 D + C, 4096x7168 | 1612 | 597 |",
        "FP8 1x128 by 1x128, weight gradient, 4 groups of k = 4096, FP32 D + C, 4096x7168 | 1274 | 755 |",
        "FP8 1x128 by 1x128, 32768x7168x2048 | 1080 | 890 |",
        "`swiglu` 262144x1024 halves bf16 | 1611 | 403.9 | 3988 | 0.961 |",
        "`swiglu_backward` 262144x1024 halves bf16 | 3760 | 981.5 | 3831 | 0.923 |",
        "`aggregate` 32768x4096 of 8 rows | 2418 | 605.0 | 3997 | 0.963 |",
        "1x128 fp32 | 3255 | 664.4 | 4899 | 1.180 |", "0.67 to 0.98 of a copy", "0.30 to 0.35"}) {
    EXPECT_NE(page.find(text), std::string::npos) << text;
  }
  const Card& h200 = card_named("H200");
  EXPECT_EQ(h200.copy.value, 4170);
  // A share of three digits is off by half of its last one, 0.0005, at most; those of two digits are held closer than
  // their 0.005.
  EXPECT_NEAR(h200.engine(Engine::bf16)->rows.value, 666.0 / 989, 0.0005);
  EXPECT_NEAR(h200.engine(Engine::bf16)->tokens.value, 597.0 / 989, 0.0005);
  EXPECT_NEAR(h200.engine(Engine::fp8)->rows.value, 1208.0 / 1979, 0.0005);
  EXPECT_NEAR(h200.engine(Engine::fp8_lines)->rows.value, 890.0 / 1979, 0.0005);
  EXPECT_NEAR(h200.engine(Engine::fp8_lines)->tokens.value, 755.0 / 1979, 0.0005);
}

}  // namespace
}  // namespace mxcheck
