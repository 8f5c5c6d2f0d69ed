// One step of a tensor core against vectors, and every wrong model that was believed of one against the same vectors:
// each must be rejected by the vector that was made for it.

#include <array>
#include <boost/multiprecision/cpp_int.hpp>
#include <string_view>

#include "numerics/accumulate/contract.h"
#include "numerics/accumulate/exact_sum.h"
#include "numerics/accumulate/fused_sum.h"
#include "numerics/format/codec.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

// One step of a tensor core: inputs, and the word that it returns. "k0:38*38" is lane 0 with a = 0x38, b = 0x38; all
// others are 0x00. "0-31:" is lanes 0 to 31. Words are hexadecimal.
//
// V and S (Hopper's column), B and Z were run on an H200 by this project. The Blackwell column follows from published
// probes of a B200; kWords are words that a B200 returned (sf-tensor/tcgen05).

struct StepVector {
  std::string_view name;
  std::string_view format;
  std::string_view lanes;
  std::string_view c;
  std::string_view sm90;  // empty: not of this contract
  std::string_view sm100;
};

constexpr std::array kStepVectors{
    StepVector{"V01", "e5m2", "0:f0*64 1:b8*3c 2:b4*3c 3:b0*3c", "4b000000", "00000000", "bf400000"},
    StepVector{"V02", "e4m3", "", "3f800400", "3f800400", "3f800400"},
    StepVector{"V03", "e4m3", "", "3f8003ff", "3f800000", "3f8003ff"},
    StepVector{"V04", "e4m3", "", "bf8007ff", "bf800400", "bf8007ff"},
    StepVector{"V05", "e4m3", "0:38*38 1:08*04", "0", "3f800400", "3f800400"},
    StepVector{"V06", "e4m3", "0:38*38 1:08*02", "0", "3f800000", "3f800200"},
    StepVector{"V07", "e4m3", "0:38*38 1:08*02 2:08*02", "0", "3f800000", "3f800400"},
    StepVector{"V08", "e4m3", "0:38*38 1:88*02", "0", "3f800000", "3f7ffc00"},
    StepVector{"V09", "e4m3", "0:38*38 1:8c*04", "0", "3f7ff800", "3f7ff400"},
    StepVector{"V10", "e4m3", "0:3f*3f 1:bf*3f 2:08*04", "0", "39000000", "39000000"},
    StepVector{"V11", "e4m3", "0:01*7e 1:81*7e 2:08*08", "0", "00000000", "39800000"},
    StepVector{"V12", "e4m3", "0:78*78 1:f8*78 20:38*38", "0", "00000000", "3f800000"},
    StepVector{"V13", "e4m3", "0:78*78 1:38*38 2:f8*78", "0", "00000000", "3f800000"},
    StepVector{"V14", "e4m3", "0:78*78 1:f8*78", "3f800000", "00000000", "3f800000"},
    StepVector{"V14b", "e4m3", "0:78*78 1:f8*78", "3a800000", "00000000", "00000000"},
    StepVector{"V15", "e4m3", "0:01*02 1:01*01", "43000000", "43000000", "43000000"},
    StepVector{"V15n", "e4m3", "0:81*02 1:81*01", "c3000000", "c3000000", "c3000000"},
    StepVector{"V16", "e4m3", "0:01*01", "c3000000", "c3000000", "c2ffffff"},
    StepVector{"V17", "e4m3", "0:01*01", "c3800000", "c3800000", "c3800000"},
    StepVector{"V18", "e4m3", "0:38*38", "46800000", "46800000", "46800200"},
    StepVector{"V18b", "e4m3", "0:38*38", "467ffc00", "46800000", "46800000"},
    StepVector{"V19", "e4m3", "0:38*38 1:38*38 2:08*04", "0", "40000000", "40000200"},
    StepVector{"V20", "e4m3", "0-31:00*7e", "30800000", "30800000", "30800000"},
    StepVector{"V21", "e4m3", "0-31:7e*7e", "0", "4ac40000", "4ac40000"},
    StepVector{"V22", "e4m3", "0:7e*7e", "7f7fffff", "7f7ffc00", "7f7fffff"},
    StepVector{"V23", "e4m3", "0:01*01", "0", "36800000", "36800000"},
    StepVector{"V24", "e4m3", "0:3c*38 1:bc*38", "80000000", "00000000", "00000000"},
    StepVector{"P1", "e4m3", "0-31:80*00", "80000000", "00000000", "00000000"},
    StepVector{"P2", "e4m3", "", "80000001", "00000000", "80000001"},
    StepVector{"P9", "e4m3", "0-31:7e*7e", "7f7fffff", "7f7ffc00", "7f7fffff"},
    StepVector{"S1", "e4m3", "5:7f*00", "0", "7fffffff", "7fffffff"},
    StepVector{"S2", "e4m3", "", "ffc12345", "7fffffff", "7fffffff"},
    StepVector{"S3", "e4m3", "0:38*38", "ff800000", "ff800000", "ff800000"},
    StepVector{"S4", "e5m2", "0:7c*00", "0", "7fffffff", "7fffffff"},
    StepVector{"S5", "e5m2", "0:7c*3c 1:fc*3c", "0", "7fffffff", "7fffffff"},
    StepVector{"S6", "e5m2", "0:7c*3c", "ff800000", "7fffffff", "7fffffff"},
    StepVector{"S7", "e5m2", "0:fc*3c", "3f800000", "ff800000", "ff800000"},
    StepVector{"B1", "bf16", "0:3f80*3f80 1:3980*3900 2:bf80*3f80", "0", "33000000", "33000000"},
    StepVector{"B2", "bf16", "0:3f80*3f80 1:3900*3900 2:bf80*3f80", "0", "00000000", "00000000"},
    StepVector{"B3", "bf16", "0:7f00*7f00 1:ff00*7f00", "3f800000", "00000000", "00000000"},
    StepVector{"B4", "bf16", "0:4700*4700 1:c700*4700 12:3f80*3f80", "0", "00000000", "00000000"},
    StepVector{"B5", "bf16", "0:7380*3f80", "7f7fffff", "7f800000", "7f800000"},
    StepVector{"Z1", "bf16", "0:1a7f*1a00 1:1800*1800 2:1800*1800", "0", "00000001", "00000001"},
    StepVector{"Z2", "bf16", "0:1a7f*1a00 1-4:1780*1800", "0", "00000000", "00000000"},
    StepVector{"zero_times_huge", "bf16", "0-15:0000*7f00", "30800000", "30800000", "30800000"},
    StepVector{"minus_zeros", "bf16", "0-15:8000*0000", "80000000", "00000000", "00000000"},
    StepVector{"edge_e4m3", "e4m3", "0:01*38", "0", "3b000000", "3b000000"},
    StepVector{"edge_e4m3_nan", "e4m3", "0:7f*38", "0", "7fffffff", "7fffffff"},
    StepVector{"edge_e5m2", "e5m2", "0:01*3c", "0", "37800000", "37800000"},
    StepVector{"edge_e5m2_inf", "e5m2", "0:7c*3c", "0", "7f800000", "7f800000"},
    StepVector{"edge_bf16", "bf16", "0:0001*3f80", "0", "00010000", "00010000"},
    StepVector{"edge_fp16", "fp16", "0:0001*3c00", "0", "33800000", "33800000"},
    StepVector{"edge_zero", "fp16", "", "80000000", "00000000", "00000000"},
};

// tcgen05 kind::mxf8f6f4 with E4M3 data: one scale of either side for the 32 lanes.
struct ScaledVector {
  std::string_view name;
  std::string_view lanes;
  std::string_view c;
  unsigned scale_a;
  unsigned scale_b;
  std::string_view d;
};

constexpr std::array kScaledVectors{
    ScaledVector{"M1", "0:38*38", "0", 0x7f, 0x7f, "3f800000"},
    ScaledVector{"M2", "0:38*38", "0", 0x82, 0x7d, "40000000"},
    ScaledVector{"M3", "0:7e*7e", "0", 0xfe, 0x7f, "7f800000"},
    ScaledVector{"M4", "0:7e*7e 1:fe*7e", "0", 0xfe, 0xfe, "00000000"},
    ScaledVector{"M4b", "0:7e*7e 1:fe*7e", "3f800000", 0xfe, 0xfe, "00000000"},
    ScaledVector{"M5", "0:38*38", "0", 0x00, 0x7f, "00400000"},
    ScaledVector{"M6", "0:38*38", "0", 0x00, 0x69, "00000001"},
    ScaledVector{"M7", "0:38*38", "0", 0x00, 0x68, "00000000"},
    ScaledVector{"M8", "0-31:7e*7e", "0", 0x00, 0x00, "00000000"},
    ScaledVector{"M9", "", "0", 0xff, 0x7f, "7fffffff"},
    ScaledVector{"M10", "0:38*38", "c4800000", 0x77, 0x77, "c4800000"},
    ScaledVector{"M11", "0:38*38", "bf800000", 0x66, 0x7f, "bf7fffff"},
    ScaledVector{"M12", "0:38*38", "bf800000", 0x65, 0x7f, "bf800000"},
    ScaledVector{"M13", "0:38*38", "7f7fffff", 0xe7, 0x7f, "7f800000"},
    ScaledVector{"M14", "0:38*38", "7f7fffff", 0xe6, 0x7f, "7f7fffff"},
    ScaledVector{"M15", "0:38*38 1:38*38", "7f7fffff", 0xe6, 0x7f, "7f800000"},
    ScaledVector{"Z3", "0:3f*20 1:1f*20 2:10*08 3:10*08", "0", 0x00, 0x6b, "00000001"},
    ScaledVector{"Z4", "0:3f*20 1:1f*20 2-5:08*08", "0", 0x00, 0x6b, "00000000"},
};

// Words of a B200. a and b hold 32 codes.
struct Word {
  std::string_view contract;
  std::string_view format;
  std::string_view a;
  std::string_view b;
  std::string_view c;
  unsigned scale_a;  // of mxf8f6f4
  unsigned scale_b;
  std::string_view d;
};

constexpr std::array kWords{
    Word{"sm100_f8f6f4", "e4m3",
         "7a 02 6f 19 5d 62 1d 32 2a 00 5b 10 67 68 02 74 15 0d 72 12 0f 09 53 60 2a 2f 52 07 6e 19 4a 20",
         "32 7e 29 79 4f 15 50 26 34 05 3b 39 44 1f 21 7b 17 6e 48 05 0c 04 4c 64 66 0f 69 14 20 47 35 2b", "ec63d12a",
         0, 0, "ec63d12a"},
    Word{"sm100_f8f6f4", "e5m2",
         "4c 2d 2c 7b 00 3e 2c 43 69 72 36 49 4a 15 14 0f 36 2a 2f 49 11 50 1f 6e 0c 72 6f 4c 40 63 41 75",
         "62 06 58 08 25 25 71 51 47 09 7a 41 23 49 2c 02 08 67 66 0b 4f 1a 67 68 30 26 75 63 60 66 68 6f", "08d846e9",
         0, 0, "4d92b09a"},
    Word{"sm100_mxf8f6f4", "e2m1", "e 2 8 9 3 e 4 5 6 6 1 a 3 e a 2 9 2 c 8 d 7 0 a c 7 b 4 9 0 9 a",
         "a 1 2 b 2 9 5 7 0 7 a 2 7 b e 1 8 6 b 2 2 2 c a c 7 f 9 d 3 e 0", "00000000", 0x77, 0x7f, "3f094000"},
    Word{"sm100_mxf8f6f4", "e2m1", "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
         "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "00000000", 0xff, 0x7f, "7fffffff"},
};

std::uint32_t hex(std::string_view text) {
  return static_cast<std::uint32_t>(std::stoul(std::string(text), nullptr, 16));
}

struct Operands {
  std::vector<Factor> a;
  std::vector<Factor> b;
};

// "0:38*38 4-7:00*7e" as `terms` lanes.
Operands lanes(const Contract& contract, Format format, std::string_view text) {
  const auto terms = static_cast<std::size_t>(contract.step.terms);
  Operands o{std::vector(terms, operand(contract, format, 0)), std::vector(terms, operand(contract, format, 0))};
  std::istringstream in{std::string(text)};
  for (std::string word; in >> word;) {
    const std::size_t colon = word.find(':');
    const std::size_t dash = word.find('-');
    const std::size_t star = word.find('*');
    const std::size_t first = std::stoul(word);
    const std::size_t last = dash < colon ? std::stoul(word.substr(dash + 1)) : first;
    for (std::size_t k = first; k <= last; ++k) {
      o.a.at(k) = operand(contract, format, hex(word.substr(colon + 1, star - colon - 1)));
      o.b.at(k) = operand(contract, format, hex(word.substr(star + 1)));
    }
  }
  return o;
}

std::uint32_t run(const Contract& contract, const FusedSum& step, const StepVector& v) {
  const Operands o = lanes(contract, *find_format(v.format), v.lanes);
  return fused_sum(step, o.a, o.b, hex(v.c));
}

const Contract& hopper(const StepVector& v) {
  return contract_named(v.format == "bf16" ? "sm90_bf16" : v.format == "fp16" ? "sm90_fp16" : "sm90_fp8");
}

const Contract& blackwell(const StepVector& v) {
  return contract_named(v.format == "bf16" || v.format == "fp16" ? "sm100_f16" : "sm100_f8f6f4");
}

std::uint32_t run(const FusedSum& step, const ScaledVector& v) {
  const Contract& contract = contract_named("sm100_mxf8f6f4");
  const Operands o = lanes(contract, Format::e4m3, v.lanes);
  const std::uint8_t sa[] = {static_cast<std::uint8_t>(v.scale_a)};
  const std::uint8_t sb[] = {static_cast<std::uint8_t>(v.scale_b)};
  const StepScales scales{Format::e8m0, sa, sb};
  return fused_sum(step, o.a, o.b, hex(v.c), &scales);
}

TEST(FusedSum, hopper_vectors) {
  for (const StepVector& v : kStepVectors) EXPECT_EQ(run(hopper(v), hopper(v).step, v), hex(v.sm90)) << v.name;
}

TEST(FusedSum, blackwell_vectors) {
  for (const StepVector& v : kStepVectors) EXPECT_EQ(run(blackwell(v), blackwell(v).step, v), hex(v.sm100)) << v.name;
}

TEST(FusedSum, scaled_blackwell_vectors) {
  for (const ScaledVector& v : kScaledVectors)
    EXPECT_EQ(run(contract_named("sm100_mxf8f6f4").step, v), hex(v.d)) << v.name;
}

TEST(FusedSum, words_of_a_b200) {
  for (const Word& w : kWords) {
    const Contract& contract = contract_named(w.contract);
    const Format format = *find_format(w.format);
    std::vector<Factor> a;
    std::vector<Factor> b;
    std::istringstream in_a{std::string(w.a)};
    std::istringstream in_b{std::string(w.b)};
    for (std::string code; in_a >> code;) a.push_back(operand(contract, format, hex(code)));
    for (std::string code; in_b >> code;) b.push_back(operand(contract, format, hex(code)));
    ASSERT_EQ(a.size(), 32U);
    const std::uint8_t sa[] = {static_cast<std::uint8_t>(w.scale_a)};
    const std::uint8_t sb[] = {static_cast<std::uint8_t>(w.scale_b)};
    const ContractScales scales{Format::e8m0, sa, sb};
    EXPECT_EQ(accumulate(contract, a, b, hex(w.c), contract.scale_terms == 0 ? nullptr : &scales), hex(w.d))
        << w.contract << " " << w.format;
  }
}

// A wrong model of Hopper's steps, the vector that rejects it, and the word that it would have given.
struct Wrong {
  std::string_view model;
  std::string_view vector;
  bool sm90;
  void (*change)(FusedSum&);
  std::string_view gives;  // empty: whatever it is, not the right word
};

void finer(FusedSum& f) { ++f.fraction_bits; }
void coarser(FusedSum& f) { --f.fraction_bits; }
void keeps_fp32(FusedSum& f) { f.output = kFp32Output; }
void rounds_output(FusedSum& f) { f.output.rounds_to_even = true; }
void aligns_down(FusedSum& f) { f.alignment = Alignment::downward; }
void aligns_to_nearest(FusedSum& f) { f.alignment = Alignment::nearest_even; }
void normalizes(FusedSum& f) { f.normalizes_products = true; }
void counts_zeros(FusedSum& f) { f.zero_products_count = true; }
void adds_c_last(FusedSum& f) { f.adds_c_last = true; }
void saturates(FusedSum& f) { f.saturates = true; }
void higher_floor(FusedSum& f) { f.window_floor = -126; }
void no_floor(FusedSum& f) { f.window_floor = -1000; }

constexpr Wrong kWrong[] = {
    {"F = 26", "V01", false, finer, "bf600000"},
    {"F = 24", "V01", false, coarser, "bf000000"},
    {"align floor", "V01", false, aligns_down, "bf800000"},
    {"F = 12", "V02", true, coarser, "3f800000"},
    {"FP32 accumulator", "V03", true, [](FusedSum& f) { keeps_fp32(f), f.fraction_bits = 25; }, "3f8003ff"},
    {"align to nearest, output to nearest", "V03", true, [](FusedSum& f) { aligns_to_nearest(f), rounds_output(f); },
     "3f800400"},
    {"align floor", "V04", true, aligns_down, "bf800800"},
    {"F = 12", "V05", true, coarser, "3f800000"},
    {"F = 25", "V06", true, [](FusedSum& f) { keeps_fp32(f), f.fraction_bits = 25; }, "3f800200"},
    {"F = 14", "V07", true, finer, "3f800400"},
    {"F = 14", "V08", true, finer, "3f7ffc00"},
    {"sign-fill shift", "V08", true, aligns_down, "3f7ff800"},
    {"align floor", "V09", true, aligns_down, "3f7ff000"},
    {"F = 12", "V09", true, coarser, "3f800000"},
    {"normalized product", "V10", true, normalizes, "00000000"},
    {"normalized subnormal", "V11", true, normalizes, "39800000"},
    {"c added last", "V14", true, adds_c_last, "3f800000"},
    {"c added last", "V14b", false, adds_c_last, "3a800000"},
    {"F = 26", "V14b", false, finer, "3a800000"},
    {"output to nearest", "V15", false, rounds_output, "43000001"},
    {"output to nearest", "V15n", false, rounds_output, "c3000001"},
    {"align floor", "V15n", true, aligns_down, "c3000800"},
    {"F = 24", "V16", false, coarser, "c3000000"},
    {"output to nearest", "V16", false, rounds_output, "c3000000"},
    {"F = 26", "V17", false, finer, "c37fffff"},
    {"FP32 accumulator", "V18", true, [](FusedSum& f) { keeps_fp32(f), f.fraction_bits = 25; }, "46800200"},
    {"F = 12", "V18b", true, coarser, "467ff800"},
    {"23-bit output", "V19", true, keeps_fp32, "40000200"},
    {"zero products in the window", "V20", true, counts_zeros, "00000000"},
    {"F = 24", "B1", true, coarser, "00000000"},
    {"F = 26", "B2", true, finer, "32800000"},
    {"saturation", "B5", true, saturates, "7f7fffff"},
    {"floor of -126", "Z1", true, higher_floor, "00000000"},
    {"no floor", "Z2", true, no_floor, "00000001"},
};

TEST(FusedSum, wrong_models_are_rejected) {
  for (const Wrong& w : kWrong) {
    const auto* v =
        std::find_if(kStepVectors.begin(), kStepVectors.end(), [&](const StepVector& s) { return s.name == w.vector; });
    ASSERT_NE(v, kStepVectors.end()) << w.vector;
    const Contract& contract = w.sm90 ? hopper(*v) : blackwell(*v);
    FusedSum wrong = contract.step;
    w.change(wrong);
    const std::uint32_t got = run(contract, wrong, *v);
    EXPECT_NE(got, hex(w.sm90 ? v->sm90 : v->sm100)) << w.vector << ": " << w.model << " passes";
    EXPECT_EQ(got, hex(w.gives)) << w.vector << ": " << w.model;
  }
}

struct WrongScaled {
  std::string_view model;
  std::string_view vector;
  void (*change)(FusedSum&);
  std::string_view gives;
};

constexpr WrongScaled kWrongScaled[] = {
    {"saturation", "M3", saturates, "7f7fffff"},
    {"c added last", "M4b", adds_c_last, "3f800000"},
    {"F = 26", "M10", finer, "c47fffff"},
    {"F = 24", "M11", coarser, "bf800000"},
    {"output to nearest", "M11", rounds_output, "bf800000"},
    {"F = 26", "M12", finer, "bf7fffff"},
    {"saturation", "M13", saturates, "7f7fffff"},
    {"floor of -126", "Z3", higher_floor, "00000000"},
    {"no floor", "Z4", no_floor, "00000001"},
};

TEST(FusedSum, wrong_models_of_scaled_steps_are_rejected) {
  for (const WrongScaled& w : kWrongScaled) {
    const auto* v = std::find_if(kScaledVectors.begin(), kScaledVectors.end(),
                                 [&](const ScaledVector& s) { return s.name == w.vector; });
    ASSERT_NE(v, kScaledVectors.end()) << w.vector;
    FusedSum wrong = contract_named("sm100_mxf8f6f4").step;
    w.change(wrong);
    EXPECT_NE(run(wrong, *v), hex(v->d)) << w.vector << ": " << w.model << " passes";
    EXPECT_EQ(run(wrong, *v), hex(w.gives)) << w.vector << ": " << w.model;
  }
}

// Groups other than "all 32 and c at once" would show in the vectors made against them.
TEST(FusedSum, steps_are_not_split) {
  const auto split = [](std::string_view name, bool halves) {
    const auto* v =
        std::find_if(kStepVectors.begin(), kStepVectors.end(), [&](const StepVector& s) { return s.name == name; });
    const Contract& contract = hopper(*v);
    const Operands o = lanes(contract, *find_format(v->format), v->lanes);
    const std::size_t half = o.a.size() / 2;
    Operands first;
    Operands second;
    for (std::size_t k = 0; k < o.a.size(); ++k) {
      Operands& to = (halves ? k < half : k % 2 == 0) ? first : second;
      to.a.push_back(o.a[k]);
      to.b.push_back(o.b[k]);
    }
    const std::uint32_t c = fused_sum(contract.step, first.a, first.b, hex(v->c));
    return fused_sum(contract.step, second.a, second.b, c);
  };
  EXPECT_EQ(split("V12", true), 0x3f800000U);
  EXPECT_EQ(split("V13", false), 0x3f800000U);
  EXPECT_EQ(split("B4", true), 0x3f800000U);
}

TEST(FusedSum, order_does_not_matter) {
  const Contract& contract = contract_named("sm90_fp8");
  std::vector<Factor> a;
  std::vector<Factor> b;
  std::uint32_t state = 1;
  const auto next = [&] { return state = state * 1664525 + 1013904223, (state >> 24) & 0xFF; };
  for (int k = 0; k < 32; ++k) {
    a.push_back(factor(Format::e4m3, next() % 0x7F));
    b.push_back(factor(Format::e5m2, next() % 0x7B));
  }
  const std::uint32_t d = fused_sum(contract.step, a, b, 0x41234567);
  std::reverse(a.begin(), a.end());
  std::reverse(b.begin(), b.end());
  EXPECT_EQ(fused_sum(contract.step, a, b, 0x41234567), d);
}

TEST(FusedSum, a_trace_says_what_was_kept_and_cut) {
  const StepVector* v = &kStepVectors[8];  // V09: 1 - 1.5 * 2^-13
  const Operands o = lanes(hopper(*v), Format::e4m3, v->lanes);
  FusedTrace trace;
  EXPECT_EQ(fused_sum(hopper(*v).step, o.a, o.b, 0, nullptr, &trace), trace.word);
  EXPECT_FALSE(trace.special);
  EXPECT_EQ(trace.window, 0);
  ASSERT_EQ(trace.terms.size(), 2U);
  EXPECT_EQ(trace.terms[0].units, 8192);
  EXPECT_FALSE(trace.terms[0].cut);
  EXPECT_EQ(trace.terms[1].units, -1);
  EXPECT_TRUE(trace.terms[1].cut);
  EXPECT_EQ(trace.sum, 8191);
}

TEST(FusedSum, wrong_requests_are_refused) {
  const Contract& contract = contract_named("sm90_fp8");
  const std::vector<Factor> a(33, factor(Format::e4m3, 0));
  const std::span<const Factor> all = a;
  EXPECT_THROW((void)fused_sum(contract.step, all, all, 0), Error);
  EXPECT_THROW((void)fused_sum(contract.step, all.first(3), all.first(4), 0), Error);
  const std::uint8_t scales[] = {127, 127, 127};
  const StepScales odd{Format::e8m0, scales, scales};
  EXPECT_THROW((void)fused_sum(contract.step, all.first(32), all.first(32), 0, &odd), Error);
  EXPECT_THROW((void)factor(Format::e8m0, 0), Error);
  EXPECT_THROW((void)factor(Format::mxint8, 0), Error);
}

// The fixed-point accumulator against integers of unlimited width.

// Integers of a fixed width, wide enough: GCC 12 takes the growing kind's storage for uninitialized.
using cpp_int = boost::multiprecision::number<boost::multiprecision::cpp_int_backend<
    2048, 2048, boost::multiprecision::signed_magnitude, boost::multiprecision::unchecked, void>>;

struct Term {
  bool negative;
  std::uint64_t magnitude;
  int exponent;
};

constexpr int kUnit = -700;

// The sum rounded by comparing integers: the code below, its neighbour, and the point half way between them.
std::uint32_t rounded(const std::vector<Term>& terms, Format format) {
  cpp_int sum = 0;
  for (const Term& t : terms) {
    const cpp_int magnitude = cpp_int(t.magnitude) << (t.exponent - kUnit);
    sum += t.negative ? cpp_int(-magnitude) : magnitude;
  }
  if (sum == 0) return 0;
  const bool negative = sum < 0;
  if (negative) sum = -sum;
  const FormatSpec& f = spec(format);
  const auto value = [&](std::uint32_t code) {
    const std::uint32_t field = code >> f.mantissa_bits;
    const std::uint32_t mantissa = code & ((1U << f.mantissa_bits) - 1);
    const cpp_int m = field == 0 ? mantissa : mantissa + (1U << f.mantissa_bits);
    return cpp_int(m << (static_cast<int>(field == 0 ? 1 : field) - f.bias - f.mantissa_bits - kUnit));
  };
  std::uint32_t low = 0;
  std::uint32_t high = f.max_code + 1;  // Inf stands for the value that would follow
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (value(middle) <= sum ? low : high) = middle;
  }
  const cpp_int twice = 2 * sum;
  const cpp_int half = value(low) + value(low + 1);
  const bool up = sum != value(low) && (twice > half || (twice == half && low % 2 == 1));
  const std::uint32_t sign = negative ? 1U << (f.bits - 1) : 0;
  return sign | (low + (up ? 1 : 0));
}

std::uint32_t summed(const std::vector<Term>& terms, Format format) {
  ExactSum sum;
  for (const Term& t : terms) sum.add(t.negative, t.magnitude, t.exponent);
  return sum.rounded(format);
}

TEST(ExactSum, equals_integers_of_any_width) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 4000; ++round) {
    std::vector<Term> terms(1 + random() % 40);
    const int spread = 1 << random() % 9;
    for (Term& t : terms) {
      const auto width = static_cast<int>(random() % 48);
      t = {random() % 2 == 0, random() >> (63 - width),
           static_cast<int>(random() % static_cast<unsigned>(spread)) - spread / 2 - 60};
    }
    if (round % 3 == 0) {  // near cancellation
      const std::size_t n = terms.size();
      for (std::size_t i = 0; i < n; ++i) terms.push_back({!terms[i].negative, terms[i].magnitude, terms[i].exponent});
      terms.push_back({random() % 2 == 0, random() % 16, -200});
    }
    for (Format format : {Format::fp32, Format::bf16, Format::fp16, Format::e5m2})
      ASSERT_EQ(summed(terms, format), rounded(terms, format)) << spec(format).name << ", round " << round;
  }
}

TEST(ExactSum, ties_subnormals_and_overflow) {
  const std::vector<std::vector<Term>> cases{
      {{false, 0x1000001, 0}, {false, 1, -600}},  // a tie and the smallest bit above it
      {{false, 0x1000001, 0}, {true, 1, -600}},
      {{false, 0x1000001, 0}},
      {{false, 0x1000003, 0}},
      {{false, 1, -150}},  // half of the smallest subnormal
      {{false, 1, -150}, {false, 1, -600}},
      {{true, 3, -150}},
      {{false, 0xFFFFFF, 104}},
      {{false, 0x1FFFFFF, 103}},  // the tie at which FP32 overflows
      {{false, 0x1FFFFFF, 103}, {true, 1, -640}},
      {{false, 1, 511}, {true, 1, 511}, {true, 5, -30}},
  };
  for (const auto& terms : cases) {
    EXPECT_EQ(summed(terms, Format::fp32), rounded(terms, Format::fp32));
    EXPECT_EQ(summed(terms, Format::bf16), rounded(terms, Format::bf16));
  }
  EXPECT_EQ(summed({{false, 0x1FFFFFF, 103}}, Format::fp32), 0x7F800000U);
  EXPECT_EQ(summed({{false, 0x1FFFFFF, 103}, {true, 1, -640}}, Format::fp32), 0x7F7FFFFFU);
}

TEST(ExactSum, wrong_requests_are_refused) {
  ExactSum sum;
  EXPECT_THROW(sum.add(false, 1, -641), Error);
  EXPECT_THROW(sum.add(false, 1, 512), Error);
  EXPECT_THROW(sum.add(false, 3, 511), Error);
  EXPECT_NO_THROW(sum.add(false, 2, -641));
  EXPECT_NO_THROW(sum.add(false, 0, -100000));
  EXPECT_THROW((void)sum.rounded(Format::e4m3), Error);
}

}  // namespace
}  // namespace mxcheck
