// MMAs of the FP4 kinds against the contracts sm100_mxf4 and sm100_nvf4, to the bit: every code, every scale byte, the
// window's floor, c about the sums, and whole rows of several steps.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "emulation/sm100/tensor_core/groups.h"
#include "emulation/sm100/tensor_core/instruction.h"
#include "numerics/accumulate/contract.h"
#include "numerics/error.h"

namespace mxcheck::emulation::sm100 {
namespace {

constexpr std::size_t kStep = 64;
constexpr std::array kFp4Kinds{MmaKind::mxf4, MmaKind::mxf4nvf4_block32, MmaKind::mxf4nvf4_block16};

struct Fp4Problem {
  Instruction instruction;
  std::size_t rows, n;
  std::size_t per_row;             // scales of a step
  std::vector<std::uint8_t> a, b;  // codes, one each
  std::vector<std::uint8_t> scales_a, scales_b;
  std::vector<std::uint32_t> d;

  Fp4Problem(MmaKind kind, std::size_t m, std::size_t columns)
      : instruction{.kind = kind,
                    .a = Format::e2m1,
                    .b = Format::e2m1,
                    .m = 128,
                    .n = static_cast<int>(columns),
                    .k = static_cast<int>(kStep)},
        rows(m),
        n(columns),
        per_row(static_cast<std::size_t>(scales_of_row(kind))),
        a(m * kStep),
        b(columns * kStep),
        scales_a(m * per_row, one()),
        scales_b(columns * per_row, one()),
        d(m * columns) {}

  [[nodiscard]] bool nvfp4() const { return instruction.kind == MmaKind::mxf4nvf4_block16; }
  [[nodiscard]] std::uint8_t one() const { return nvfp4() ? 0x38 : 127; }
};

std::vector<std::uint8_t> packed(const std::vector<std::uint8_t>& codes) {
  std::vector<std::uint8_t> bytes(codes.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
  return bytes;
}

std::vector<Factor> fp4_factors(const std::vector<std::uint8_t>& codes, bool negate) {
  std::vector<Factor> out;
  for (const std::uint8_t code : codes) out.push_back(factor(Format::e2m1, negate ? code ^ 8U : code));
  return out;
}

std::vector<std::uint32_t> fp4_expected(const Fp4Problem& p, bool accumulates = true) {
  const FusedSum step = fused_sum_of(p.instruction);
  const std::vector<Factor> a = fp4_factors(p.a, p.instruction.negate_a);
  const std::vector<Factor> b = fp4_factors(p.b, p.instruction.negate_b);
  std::vector<std::uint32_t> d(p.d.size());
  for (std::size_t i = 0; i < d.size(); ++i) {
    const std::size_t row = i / p.n;
    const std::size_t column = i % p.n;
    const StepScales scales{p.nvfp4() ? Format::e4m3 : Format::e8m0,
                            std::span(p.scales_a).subspan(row * p.per_row, p.per_row),
                            std::span(p.scales_b).subspan(column * p.per_row, p.per_row)};
    d[i] = fused_sum(step, std::span(a).subspan(row * kStep, kStep), std::span(b).subspan(column * kStep, kStep),
                     accumulates ? p.d[i] : 0, &scales);
  }
  return d;
}

std::vector<std::uint32_t> fp4_computed(const Fp4Problem& p, bool accumulates = true) {
  std::vector<std::uint32_t> d = p.d;
  multiply(p.instruction, packed(p.a).data(), packed(p.b).data(), p.scales_a.data(), p.scales_b.data(), d.data(), p.n,
           static_cast<int>(p.rows), accumulates);
  return d;
}

void expect_contract(const Fp4Problem& p, const std::string& what, bool accumulates = true) {
  const std::vector<std::uint32_t> right = fp4_expected(p, accumulates);
  const std::vector<std::uint32_t> found = fp4_computed(p, accumulates);
  std::size_t wrong = 0;
  std::size_t first = 0;
  for (std::size_t i = right.size(); i-- > 0;) {
    if (found[i] != right[i]) ++wrong, first = i;
  }
  EXPECT_EQ(wrong, 0U) << to_text(p.instruction.kind) << ", " << what << ": the first of " << right.size() << " is D["
                       << first / p.n << "][" << first % p.n << "] = 0x" << std::hex << found[first] << ", right 0x"
                       << right[first] << ", c 0x" << p.d[first];
}

// An FP32 word whose exponent lies within `reach` of another's.
std::uint32_t near(std::uint32_t word, int reach, std::mt19937& random) {
  if (random() % 8 == 0) return 0;
  const int field =
      static_cast<int>(word >> 23 & 0xFF) - reach + static_cast<int>(random() % static_cast<unsigned>(2 * reach + 1));
  const auto kept = static_cast<std::uint32_t>(field < 0 ? 0 : field > 254 ? 254 : field);
  return (random() & 0x807FFFFFU) | kept << 23;
}

void put_c_about_the_sums(Fp4Problem& p, std::mt19937& random) {
  p.d = fp4_expected(p, false);
  for (std::uint32_t& word : p.d) word = near(word, 40, random);
}

void fill_codes(std::vector<std::uint8_t>& codes, std::uint32_t zeros, std::mt19937& random) {
  for (std::uint8_t& code : codes)
    code = static_cast<std::uint8_t>(random() % zeros == 0 ? random() & 8U : random() & 0xFU);
}
void fill_bytes(std::vector<std::uint8_t>& bytes, std::mt19937& random) {
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
}

TEST(MultiplyFp4, the_numbers_of_the_groups_are_the_formats) {
  for (std::uint32_t code = 0; code < 16; ++code) {
    const Factor f = factor(Format::e2m1, code);
    const auto twice = static_cast<int>(f.significand << f.exponent);  // one fraction bit
    EXPECT_EQ(detail::twice_of(code), f.negative ? -twice : twice) << code;
  }
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const Factor f = factor(Format::e4m3, byte & 0x7FU);
    const detail::GroupScale s = detail::group_scale(true, byte);
    EXPECT_EQ(s.nan, f.kind == Factor::Kind::nan) << byte;
    if (s.nan) continue;
    EXPECT_EQ(s.significand, static_cast<int>(f.significand)) << byte;
    EXPECT_EQ(s.exponent, f.exponent) << byte;
    EXPECT_EQ(detail::group_scale(false, byte).exponent, static_cast<int>(byte) - 127);
  }
  EXPECT_TRUE(detail::group_scale(false, 0xFF).nan);
  for (const MmaKind kind : kFp4Kinds) {
    const FusedSum step = fused_sum_of({.kind = kind});
    EXPECT_EQ(step.terms, 64);
    EXPECT_EQ(step.group, detail::kGroup);
    EXPECT_EQ(step.fraction_bits, detail::kGroupFractionBits);
    EXPECT_EQ(step.window_floor, detail::kGroupWindowFloor);
  }
}

// A's element 17 is 1.5 and B's -3: group 1, whose scales are 2 and 0.5; each other group has scales of its own.
TEST(MultiplyFp4, one_product_has_the_scales_of_its_group_alone) {
  Fp4Problem p(MmaKind::mxf4nvf4_block16, 1, 8);
  p.a[17] = 3, p.b[2 * kStep + 17] = 13;
  p.scales_a = {0x08, 0x40, 0x10, 0x18};
  for (std::size_t j = 0; j < 8; ++j) p.scales_b[4 * j + 1] = 0x30;
  p.d[2] = std::bit_cast<std::uint32_t>(1.0F);
  EXPECT_EQ(std::bit_cast<float>(fp4_computed(p)[2]), -3.5F);
  Fp4Problem two(MmaKind::mxf4, 1, 8);  // element 40 is in the second block of 32
  two.a[40] = 3, two.b[2 * kStep + 40] = 13;
  two.scales_a = {0, 128}, two.scales_b[4] = 0, two.scales_b[5] = 128;
  EXPECT_EQ(std::bit_cast<float>(fp4_computed(two)[2]), -18.0F);
}

// Rows are codes of A, columns codes of B; both at one place of each group, under scales at their bounds.
TEST(MultiplyFp4, every_pair_of_codes_under_scales_at_their_bounds) {
  std::mt19937 random(1);
  const std::vector<std::uint8_t> of_nvfp4{0x00, 0x01, 0x07, 0x08, 0x0F, 0x38, 0x78, 0x7E,
                                           0x7F, 0x80, 0x81, 0xB8, 0xC4, 0xFE, 0xFF};
  const std::vector<std::uint8_t> of_e8m0{0, 1, 2, 57, 58, 120, 127, 128, 200, 253, 254, 255};
  for (const MmaKind kind : kFp4Kinds) {
    const std::vector<std::uint8_t>& scales = kind == MmaKind::mxf4nvf4_block16 ? of_nvfp4 : of_e8m0;
    for (const std::uint8_t sa : scales) {
      for (const std::uint8_t sb : scales) {
        Fp4Problem p(kind, 16, 16);
        const std::size_t place = random() % kStep;
        for (std::uint8_t code = 0; code < 16; ++code) p.a[code * kStep + place] = p.b[code * kStep + place] = code;
        p.scales_a.assign(p.scales_a.size(), sa), p.scales_b.assign(p.scales_b.size(), sb);
        put_c_about_the_sums(p, random);
        expect_contract(p, "scales " + std::to_string(sa) + " and " + std::to_string(sb));
      }
    }
  }
}

// Rows have the 256 bytes as a scale of A, columns as one of B; the block goes round.
TEST(MultiplyFp4, every_pair_of_scale_bytes) {
  std::mt19937 random(2);
  for (const MmaKind kind : kFp4Kinds) {
    Fp4Problem p(kind, 256, 256);
    fill_codes(p.a, 4, random), fill_codes(p.b, 4, random);
    for (std::size_t i = 0; i < 256; ++i) {
      p.scales_a[i * p.per_row + i % p.per_row] = static_cast<std::uint8_t>(i);
      p.scales_b[i * p.per_row + i / 4 % p.per_row] = static_cast<std::uint8_t>(i);
    }
    put_c_about_the_sums(p, random);
    expect_contract(p, "all scale bytes");
    expect_contract(p, "all scale bytes, without c", false);
  }
}

TEST(MultiplyFp4, random_operands_with_c_about_the_sums) {
  std::mt19937 random(3);
  for (const MmaKind kind : kFp4Kinds) {
    for (const std::uint32_t zeros : {1U, 2U, 9U, 1000U}) {
      for (int spread = 0; spread < 3; ++spread) {
        Fp4Problem p(kind, 29, 64);
        fill_codes(p.a, zeros, random), fill_codes(p.b, zeros, random);
        if (spread == 2) fill_bytes(p.scales_a, random), fill_bytes(p.scales_b, random);
        if (spread == 1) {
          for (std::uint8_t& s : p.scales_a) s = static_cast<std::uint8_t>(p.one() - 4 + random() % 9);
          for (std::uint8_t& s : p.scales_b) s = static_cast<std::uint8_t>(p.one() - 4 + random() % 9);
        }
        p.instruction.negate_a = random() % 2 == 0, p.instruction.negate_b = random() % 2 == 0;
        put_c_about_the_sums(p, random);
        expect_contract(p, "zeros one in " + std::to_string(zeros) + ", spread " + std::to_string(spread));
      }
    }
  }
}

// A group that cancels counts in the window, and one of zeros does not.
TEST(MultiplyFp4, groups_that_cancel_and_groups_of_zeros) {
  std::mt19937 random(4);
  for (const MmaKind kind : kFp4Kinds) {
    for (const bool zeros : {false, true}) {
      Fp4Problem p(kind, 16, 64);
      fill_codes(p.a, 9, random), fill_codes(p.b, 9, random);
      for (std::size_t i = 0; i + 1 < p.a.size(); i += 2) {
        if (i / 16 % 2 == 0) p.a[i] = p.a[i + 1] = zeros ? 0 : p.a[i];
      }
      for (std::size_t i = 0; i + 1 < p.b.size(); i += 2) p.b[i + 1] = p.b[i] ^ 8;
      for (std::uint8_t& s : p.scales_a) s = static_cast<std::uint8_t>(random() % 2 == 0 ? p.one() : p.one() + 0x30);
      put_c_about_the_sums(p, random);
      expect_contract(p, zeros ? "zeros" : "cancelling");
    }
  }
}

TEST(MultiplyFp4, c_may_be_infinite_or_nan_and_the_largest_sums_do_not_overflow) {
  for (const MmaKind kind : kFp4Kinds) {
    for (const std::uint8_t code : {std::uint8_t{7}, std::uint8_t{15}}) {
      Fp4Problem p(kind, 1, 8);
      p.a.assign(p.a.size(), code), p.b.assign(p.b.size(), 7);
      p.scales_a.assign(p.scales_a.size(), kind == MmaKind::mxf4nvf4_block16 ? 0x7E : 254);
      p.scales_b.assign(p.scales_b.size(), kind == MmaKind::mxf4nvf4_block16 ? 0x77 : 120);
      p.d = {0x7F800000, 0xFF800000, 0x7FC00001, 0x7F7FFFFF, 0xFF7FFFFF, 0x00000001, 0x80000000, 0x4F7FFFFF};
      expect_contract(p, "the largest");
      p.scales_b[0] = 0xFF;
      expect_contract(p, "a NaN scale");
      p.a.assign(p.a.size(), 0);
      expect_contract(p, "a NaN scale of zeros");
    }
  }
}

// Whole rows: k of 192 and 160, which three steps have, the last of them half zeros under scales of 0.
TEST(MultiplyFp4, steps_after_one_another_are_the_contracts_accumulation) {
  std::mt19937 random(5);
  for (const MmaKind kind : kFp4Kinds) {
    const Contract& contract = contract_named(kind == MmaKind::mxf4nvf4_block16 ? "sm100_nvf4" : "sm100_mxf4");
    const auto block = static_cast<std::size_t>(contract.scale_terms);
    for (const std::size_t k : {std::size_t{192}, std::size_t{160}}) {
      constexpr std::size_t kN = 8;
      std::vector<Fp4Problem> steps(3, Fp4Problem(kind, 1, kN));
      std::vector<std::uint8_t> a(k), b(kN * k), scales_a(k / block), scales_b(kN * k / block);
      fill_codes(a, 6, random), fill_codes(b, 6, random);
      for (std::uint8_t& s : scales_a) s = static_cast<std::uint8_t>(steps[0].one() - 9 + random() % 19);
      for (std::uint8_t& s : scales_b) s = static_cast<std::uint8_t>(steps[0].one() - 9 + random() % 19);
      std::vector<std::uint32_t> d(kN, std::bit_cast<std::uint32_t>(0.75F));
      for (std::size_t s = 0; s < 3; ++s) {
        Fp4Problem& p = steps[s];
        p.scales_a.assign(p.per_row, 0), p.scales_b.assign(kN * p.per_row, 0), p.d = d;
        for (std::size_t i = s * kStep; i < std::min(k, (s + 1) * kStep); ++i) {
          const std::size_t at = i - s * kStep;
          p.a[at] = a[i], p.scales_a[at / block] = scales_a[i / block];
          for (std::size_t j = 0; j < kN; ++j) {
            p.b[j * kStep + at] = b[j * k + i];
            p.scales_b[j * p.per_row + at / block] = scales_b[(j * k + i) / block];
          }
        }
        d = fp4_computed(p);
      }
      for (std::size_t j = 0; j < kN; ++j) {
        const auto column = [&](const std::vector<std::uint8_t>& v, std::size_t length) {
          return std::vector<std::uint8_t>(v.begin() + static_cast<std::ptrdiff_t>(j * length),
                                           v.begin() + static_cast<std::ptrdiff_t>((j + 1) * length));
        };
        const std::vector<std::uint8_t> of_b = column(scales_b, k / block);
        const ContractScales scales{kind == MmaKind::mxf4nvf4_block16 ? Format::e4m3 : Format::e8m0, scales_a, of_b};
        EXPECT_EQ(d[j], accumulate(contract, fp4_factors(a, false), fp4_factors(column(b, k), false),
                                   std::bit_cast<std::uint32_t>(0.75F), &scales))
            << to_text(kind) << " k " << k << " column " << j;
      }
    }
  }
}

TEST(MultiplyFp4, wrong_requests_are_refused) {
  const auto call = [](const Fp4Problem& p, bool scales) {
    std::vector<std::uint32_t> d = p.d;
    multiply(p.instruction, p.a.data(), p.b.data(), scales ? p.scales_a.data() : nullptr, p.scales_b.data(), d.data(),
             p.n, static_cast<int>(p.rows), true);
  };
  for (const MmaKind kind : kFp4Kinds) {
    Fp4Problem p(kind, 4, 16);
    EXPECT_NO_THROW(call(p, true));
    EXPECT_THROW(call(p, false), Error);
    p.instruction.k = 32;
    EXPECT_THROW(call(p, true), Error);
    p.instruction.k = 64, p.instruction.b = Format::e4m3;
    EXPECT_THROW(call(p, true), Error);
    p.instruction.b = Format::e2m1, p.instruction.d_fp16 = true;
    EXPECT_THROW(call(p, true), Error);
  }
}

}  // namespace
}  // namespace mxcheck::emulation::sm100
