// Contracts by name, and what a chain of steps is.

#include "numerics/accumulate/contract.h"
#include "numerics/format/codec.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

std::vector<Factor> factors(const Contract& contract, Format format, std::initializer_list<std::uint32_t> codes) {
  std::vector<Factor> out;
  for (std::uint32_t code : codes) out.push_back(operand(contract, format, code));
  return out;
}

std::vector<Factor> repeated(const Contract& contract, Format format, std::uint32_t code, std::size_t count) {
  return std::vector(count, operand(contract, format, code));
}

TEST(Contract, names_are_unique_and_found) {
  std::set<std::string_view> names;
  for (const Contract& c : all_contracts()) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    EXPECT_EQ(&contract_named(c.name), &c);
    EXPECT_FALSE(c.operands.empty());
    EXPECT_FALSE(c.note.empty());
    EXPECT_FALSE(to_text(c.evidence).empty());
    EXPECT_EQ(c.arithmetic == Arithmetic::fused, c.step.terms > 0);
    EXPECT_EQ(c.scales.empty(), c.scale_terms == 0);
  }
  expect_error(ErrorKind::usage, "sm90_fp8", [&] { (void)contract_named("sm90_fp4"); });
}

TEST(Contract, operands_are_checked) {
  EXPECT_NO_THROW(check_operands(contract_named("sm90_fp8"), Format::e4m3, Format::e5m2));
  EXPECT_THROW(check_operands(contract_named("sm90_fp8"), Format::e4m3, Format::bf16), Error);
  EXPECT_THROW(check_operands(contract_named("sm100_f16"), Format::fp16, Format::bf16), Error);
  EXPECT_THROW(check_operands(contract_named("exact"), Format::e8m0, Format::e4m3), Error);
}

// The accumulator of wgmma FP8 keeps 13 fraction bits, whether anything is added or not.
TEST(Contract, an_fp8_accumulator_loses_what_is_small) {
  const Contract& c = contract_named("sm90_fp8");
  const auto one = factors(c, Format::e4m3, {0x38});
  EXPECT_EQ(accumulate(c, one, one, std::bit_cast<std::uint32_t>(16384.0F)), std::bit_cast<std::uint32_t>(16384.0F));
  const auto zero = repeated(c, Format::e4m3, 0, 32);
  EXPECT_EQ(accumulate(c, zero, zero, 0x3F8003FF), 0x3F800000U);
  EXPECT_EQ(accumulate(c, {}, {}, 0x3F8003FF), 0x3F8003FFU);  // no step, no loss
}

// A sum of ones ends at 2^14, where the window's unit is 2 and every further product is truncated to zero.
TEST(Contract, steps_follow_one_another) {
  const Contract& c = contract_named("sm90_fp8");
  for (const auto& [count, sum] :
       {std::pair{8192, 8192.0F}, {16384, 16384.0F}, {16416, 16384.0F}, {1 << 20, 16384.0F}}) {
    const auto ones = repeated(c, Format::e4m3, 0x38, static_cast<std::size_t>(count));
    EXPECT_EQ(accumulate(c, ones, ones, 0), std::bit_cast<std::uint32_t>(sum)) << count;
  }
}

TEST(Contract, a_partial_step_is_filled_with_zeros) {
  for (const Contract& c : all_contracts()) {
    if (c.scale_terms != 0) continue;
    const Format f = c.operands.front();
    std::mt19937 random(3);
    std::vector<Factor> a;
    std::vector<Factor> b;
    for (int k = 0; k < 45; ++k) {
      a.push_back(
          operand(c, f, encode(f, static_cast<int>(random() % 64) - 31, Rounding::nearest_even, Overflow::saturate)));
      b.push_back(
          operand(c, f, encode(f, static_cast<int>(random() % 64) - 31, Rounding::nearest_even, Overflow::saturate)));
    }
    const std::uint32_t c0 = encode(c.step.output.c, 3, Rounding::nearest_even, Overflow::saturate);
    const std::uint32_t d = accumulate(c, a, b, c0);
    a.resize(128, operand(c, f, 0));
    b.resize(128, operand(c, f, 0));
    EXPECT_EQ(accumulate(c, a, b, c0), d) << c.name;
  }
}

TEST(Contract, small_integers_agree_in_all) {
  for (const Contract& c : all_contracts()) {
    const Format f = c.operands.front();
    std::mt19937 random(4);
    std::vector<Factor> a;
    std::vector<Factor> b;
    int sum = 5;
    for (int k = 0; k < 64; ++k) {
      const int x = static_cast<int>(random() % 5) - 2;
      const int y = static_cast<int>(random() % 5) - 2;
      sum += x * y;
      a.push_back(operand(c, f, encode(f, x, Rounding::nearest_even, Overflow::saturate)));
      b.push_back(operand(c, f, encode(f, y, Rounding::nearest_even, Overflow::saturate)));
    }
    std::vector<std::uint8_t> unit(c.scale_terms == 0 ? 0 : 64 / static_cast<std::size_t>(c.scale_terms),
                                   c.scales.empty() || c.scales[0] == Format::e8m0 ? 127 : 0x38);
    const ContractScales scales{c.scales.empty() ? Format::e8m0 : c.scales[0], unit, unit};
    const std::uint32_t c0 = encode(c.step.output.c, 5, Rounding::nearest_even, Overflow::saturate);
    EXPECT_EQ(accumulate(c, a, b, c0, c.scale_terms == 0 ? nullptr : &scales),
              encode(c.step.output.c, sum, Rounding::nearest_even, Overflow::saturate))
        << c.name;
  }
}

TEST(Contract, tf32_ignores_the_low_bits_of_a_word) {
  const Contract& c = contract_named("sm90_tf32");
  EXPECT_EQ(operand(c, Format::fp32, 0x3F801FFF).significand, 0x800000U);
  EXPECT_EQ(operand(c, Format::fp32, 0x7F800001).kind, Factor::Kind::infinite);  // its payload is not read
  EXPECT_EQ(operand(c, Format::fp32, 0x7F802000).kind, Factor::Kind::nan);
}

TEST(Contract, ieee_and_exact_know_specials) {
  for (std::string_view name : {"ieee_fp32", "exact"}) {
    const Contract& c = contract_named(name);
    const auto run = [&](std::uint32_t a, std::uint32_t b, std::uint32_t c0) {
      return accumulate(c, factors(c, Format::bf16, {a}), factors(c, Format::bf16, {b}), c0);
    };
    EXPECT_EQ(run(0x7F80, 0x0000, 0), 0x7FFFFFFFU) << name;
    EXPECT_EQ(run(0x7F80, 0x3F80, 0xFF800000), 0x7FFFFFFFU) << name;
    EXPECT_EQ(run(0x7F80, 0xBF80, 0), 0xFF800000U) << name;
    EXPECT_EQ(run(0x7FC0, 0x3F80, 0), 0x7FFFFFFFU) << name;
    EXPECT_EQ(run(0x3F80, 0x3F80, 0x7FC00000), 0x7FFFFFFFU) << name;
    EXPECT_EQ(run(0x3F80, 0x3F80, 0x3F800000), 0x40000000U) << name;
  }
}

// The sum 2^24 + 1 + 1 distinguishes `exact`, which gives 2^24 + 2, from `ieee_fp32`, which gives 2^24.
TEST(Contract, exact_rounds_once) {
  const Contract& exact = contract_named("exact");
  const Contract& ieee = contract_named("ieee_fp32");
  const auto a = factors(exact, Format::bf16, {0x4B80, 0x3F80, 0x3F80});
  const auto one = factors(exact, Format::bf16, {0x3F80, 0x3F80, 0x3F80});
  EXPECT_EQ(accumulate(exact, a, one, 0), std::bit_cast<std::uint32_t>(16777218.0F));
  EXPECT_EQ(accumulate(ieee, a, one, 0), std::bit_cast<std::uint32_t>(16777216.0F));
}

TEST(Contract, scales_are_checked) {
  const Contract& mx = contract_named("sm100_mxf8f6f4");
  const auto x = repeated(mx, Format::e4m3, 0x38, 33);
  const std::vector<std::uint8_t> two{127, 128};
  const ContractScales scales{Format::e8m0, two, two};
  EXPECT_EQ(accumulate(mx, x, x, 0, &scales), std::bit_cast<std::uint32_t>(36.0F));
  EXPECT_THROW((void)accumulate(mx, x, x, 0), Error);
  const ContractScales ue4m3{Format::e4m3, two, two};
  EXPECT_THROW((void)accumulate(mx, x, x, 0, &ue4m3), Error);
  const ContractScales one{Format::e8m0, std::span(two).first(1), two};
  EXPECT_THROW((void)accumulate(mx, x, x, 0, &one), Error);
  EXPECT_THROW((void)accumulate(contract_named("sm90_fp8"), x, x, 0, &scales), Error);
  EXPECT_THROW((void)accumulate(mx, x, std::span(x).first(3), 0, &scales), Error);
}

// FP4: 64 products in groups of 16 that are exact, aligned by their scales alone.
TEST(Contract, fp4_groups_are_exact) {
  const Contract& mx = contract_named("sm100_mxf4");
  const auto six = repeated(mx, Format::e2m1, 0x7, 64);
  const std::vector<std::uint8_t> scales_a{127, 130};
  const std::vector<std::uint8_t> scales_b{127, 127};
  const ContractScales scales{Format::e8m0, scales_a, scales_b};
  EXPECT_EQ(accumulate(mx, six, six, 0, &scales), std::bit_cast<std::uint32_t>(36.0F * 32 + 36.0F * 32 * 8));
  const Contract& nv = contract_named("sm100_nvf4");
  const std::vector<std::uint8_t> ue4m3{0x38, 0xB8, 0x40, 0x3C};  // 1, 1 (its sign is ignored), 2, 1.5
  const ContractScales nv_scales{Format::e4m3, ue4m3, ue4m3};
  EXPECT_EQ(accumulate(nv, six, six, 0, &nv_scales), std::bit_cast<std::uint32_t>(36.0F * 16 * (1 + 1 + 4 + 2.25F)));
}

}  // namespace
}  // namespace mxcheck
