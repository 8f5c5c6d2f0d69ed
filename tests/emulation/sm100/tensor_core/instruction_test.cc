// Instruction descriptors, put together here bit by bit from the tables of the PTX ISA, and every rule broken once.

#include "emulation/sm100/tensor_core/instruction.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "numerics/error.h"

namespace mxcheck::emulation::sm100 {
namespace {

constexpr std::uint32_t at(std::uint32_t value, int low) { return value << low; }

// N = 128 and M = 128, E4M3 by E4M3 (FP16 by FP16), D in FP32; scales in UE8M0.
constexpr std::uint32_t kUnscaled = at(1, 4) | at(128 / 8, 17) | at(128 / 16, 24);
constexpr std::uint32_t kScaled = at(128 / 8, 17) | at(1, 23) | at(128 / 128, 27);
// E2M1 by E2M1: UE4M3 scales, which blocks of 16 have, and UE8M0 at bit 23.
constexpr std::uint32_t kNvfp4 = at(1, 7) | at(1, 10) | at(128 / 8, 17) | at(128 / 128, 27);
constexpr std::uint32_t kMxfp4 = kNvfp4 | at(1, 23);

std::uint32_t with_n(std::uint32_t bits, int n) {
  return (bits & ~at(63, 17)) | at(static_cast<std::uint32_t>(n) / 8, 17);
}
std::uint32_t with_m(std::uint32_t bits, int m) {
  return (bits & ~at(31, 24)) | at(static_cast<std::uint32_t>(m) / 16, 24);
}

// The problems' texts, one a line.
std::string problems(MmaKind kind, int cta_group, std::uint32_t bits) {
  std::string all;
  for (const std::string& p : decode_instruction(kind, cta_group, bits).problems) all += p + "\n";
  return all;
}

struct Broken {
  MmaKind kind;
  int cta_group;
  std::uint32_t bits;
  const char* where;
  const char* what;
};

void expect_one_problem(const Broken& b) {
  const std::vector<std::string> found = decode_instruction(b.kind, b.cta_group, b.bits).problems;
  ASSERT_EQ(found.size(), 1U) << to_text(b.kind) << " cta_group::" << b.cta_group << std::hex << " 0x" << b.bits << ": "
                              << problems(b.kind, b.cta_group, b.bits);
  EXPECT_EQ(found[0].rfind("instruction descriptor of " + std::string(to_text(b.kind)) + ": " + b.where + " = ", 0), 0U)
      << found[0];
  EXPECT_NE(found[0].find(b.what), std::string::npos) << found[0] << "\nhas not: " << b.what;
}

TEST(Instruction, the_example_of_the_header_is_right) {
  const Decoded d = decode_instruction(MmaKind::mxf8f6f4, 1, 0x08A80000);
  EXPECT_EQ(problems(MmaKind::mxf8f6f4, 1, 0x08A80000), "");
  EXPECT_EQ(d.instruction, (Instruction{.m = 128, .n = 160, .k = 32}));
}

TEST(Instruction, every_field_of_the_unscaled_kinds_is_read) {
  const auto f8 = [](std::uint32_t more) {
    return decode_instruction(MmaKind::f8f6f4, 1, kUnscaled | more).instruction;
  };
  Instruction right{.kind = MmaKind::f8f6f4, .m = 128, .n = 128, .k = 32};
  EXPECT_EQ(f8(0), right);
  EXPECT_EQ(f8(at(1, 7)).a, Format::e5m2);
  EXPECT_EQ(f8(at(1, 7)).b, Format::e4m3);
  EXPECT_EQ(f8(at(1, 10)).b, Format::e5m2);
  EXPECT_TRUE(f8(at(1, 13)).negate_a && !f8(at(1, 13)).negate_b);
  EXPECT_TRUE(f8(at(1, 14)).negate_b && !f8(at(1, 14)).negate_a);
  EXPECT_TRUE(f8(at(1, 15)).a_mn_major && !f8(at(1, 15)).b_mn_major);
  EXPECT_TRUE(f8(at(1, 16)).b_mn_major && !f8(at(1, 16)).a_mn_major);
  right.d_fp16 = true;
  EXPECT_EQ(decode_instruction(MmaKind::f8f6f4, 1, kUnscaled & ~at(3, 4)).instruction, right);
  const std::uint32_t bf16 = with_m(with_n(kUnscaled, 256), 256) | at(1, 7) | at(1, 10);
  EXPECT_EQ(decode_instruction(MmaKind::f16, 2, bf16).instruction,
            (Instruction{MmaKind::f16, 2, Format::bf16, Format::bf16, false, false, false, false, 256, 256, 16}));
  EXPECT_EQ(decode_instruction(MmaKind::f16, 1, kUnscaled).instruction.a, Format::fp16);
}

TEST(Instruction, every_field_of_the_scaled_kind_is_read) {
  const std::uint32_t bits = with_n(kScaled, 256) | at(2, 4) | at(1, 7) | at(1, 14) | at(1, 15) | at(3, 29);
  EXPECT_EQ(problems(MmaKind::mxf8f6f4, 1, bits), "");
  EXPECT_EQ(decode_instruction(MmaKind::mxf8f6f4, 1, bits).instruction,
            (Instruction{MmaKind::mxf8f6f4, 1, Format::e5m2, Format::e4m3, false, true, true, false, 128, 256, 32,
                         false, 3, 2}));
  const std::uint32_t pair = at(240 / 8, 17) | at(1, 23) | at(2, 27);
  EXPECT_EQ(problems(MmaKind::mxf8f6f4, 2, pair), "");
  EXPECT_EQ(decode_instruction(MmaKind::mxf8f6f4, 2, pair).instruction.m, 256);
  EXPECT_EQ(decode_instruction(MmaKind::mxf8f6f4, 2, pair).instruction.n, 240);
}

TEST(Instruction, every_field_of_the_fp4_kinds_is_read) {
  Instruction right{.kind = MmaKind::mxf4nvf4_block16, .a = Format::e2m1, .b = Format::e2m1, .m = 128, .n = 128};
  right.k = 64;
  EXPECT_EQ(problems(MmaKind::mxf4nvf4_block16, 1, kNvfp4), "");
  EXPECT_EQ(decode_instruction(MmaKind::mxf4nvf4_block16, 1, kNvfp4).instruction, right);
  // A word that a compiler has for 128 x 256 (Triton's test of NVFP4).
  EXPECT_EQ(problems(MmaKind::mxf4nvf4_block16, 1, 138413184), "");
  EXPECT_EQ(decode_instruction(MmaKind::mxf4nvf4_block16, 1, 138413184).instruction.n, 256);
  for (const MmaKind kind : {MmaKind::mxf4, MmaKind::mxf4nvf4_block32}) {
    right.kind = kind, right.scale_a_id = 2, right.scale_b_id = 0, right.negate_b = true;
    EXPECT_EQ(decode_instruction(kind, 1, kMxfp4 | at(2, 29) | at(1, 14)).instruction, right);
    right.scale_a_id = 0, right.scale_b_id = 2, right.negate_b = false, right.negate_a = true;
    EXPECT_EQ(decode_instruction(kind, 1, kMxfp4 | at(2, 4) | at(1, 13)).instruction, right);
    EXPECT_EQ(problems(kind, 1, kMxfp4 | at(2, 29) | at(2, 4)), "");
    right.negate_a = false;
  }
  const std::uint32_t pair = with_n(kNvfp4 & ~at(3, 27), 240) | at(2, 27);
  EXPECT_EQ(problems(MmaKind::mxf4nvf4_block16, 2, pair), "");
  EXPECT_EQ(decode_instruction(MmaKind::mxf4nvf4_block16, 2, pair).instruction.m, 256);
}

TEST(Instruction, problems_of_the_fp4_kinds_say_where_they_are) {
  const MmaKind nv = MmaKind::mxf4nvf4_block16;
  const MmaKind mx = MmaKind::mxf4;
  const MmaKind two = MmaKind::mxf4nvf4_block32;
  for (const Broken& b : std::vector<Broken>{
           {nv, 1, kNvfp4 | at(1, 1), "bits 1:0", "reserved"},
           {nv, 1, kNvfp4 | at(1, 2), "bit 2", "sparse"},
           {nv, 1, kNvfp4 | at(1, 3), "bit 3", "reserved"},
           {nv, 1, kNvfp4 | at(1, 6), "bit 6", "reserved"},
           {nv, 1, kNvfp4 ^ at(4, 7), "bits 9:7", "no format of A: E2M1 is 1"},
           {nv, 1, kNvfp4 ^ at(1, 7), "bits 9:7", "no format of A: E2M1 is 1"},
           {nv, 1, kNvfp4 ^ at(1, 10), "bits 11:10", "no format of B: E2M1 is 1"},
           {nv, 1, kNvfp4 | at(1, 12), "bit 12", "reserved"},
           {nv, 1, kNvfp4 | at(1, 15), "bit 15", "makes A M-major: 0 is right"},
           {nv, 1, kNvfp4 | at(1, 16), "bit 16", "makes B N-major: 0 is right"},
           {nv, 1, kNvfp4 | at(1, 23), "bit 23", "makes the scales UE8M0"},
           {mx, 1, kNvfp4, "bit 23", "makes the scales UE4M3: 1, for UE8M0, is right"},
           {two, 1, kNvfp4, "bit 23", "makes the scales UE4M3: 1, for UE8M0, is right"},
           {nv, 1, kNvfp4 | at(1, 24), "bits 26:24", "reserved"},
           {nv, 1, kNvfp4 | at(1, 31), "bit 31", "makes K 96, which sm_103a has: 0, for 64, is right"},
           {nv, 1, kNvfp4 | at(1, 29), "bits 30:29", "the 4 scales of a row of A begin: 0 is right"},
           {nv, 1, kNvfp4 | at(2, 4), "bits 5:4", "the 4 scales of a row of B begin: 0 is right"},
           {mx, 1, kMxfp4 | at(1, 29), "bits 30:29", "the 2 scales of a row of A begin: 0 or 2 is right"},
           {two, 1, kMxfp4 | at(3, 4), "bits 5:4", "the 2 scales of a row of B begin: 0 or 2 is right"},
           {nv, 1, (kNvfp4 & ~at(3, 27)) | at(2, 27), "bits 28:27", "makes M 256: with cta_group::1 it is 128"},
           {nv, 2, with_n(kNvfp4, 24), "bits 22:17", "it is a multiple of 16 up to 256"},
       }) {
    expect_one_problem(b);
  }
}

// All M and N that the fields can say.
TEST(Instruction, exactly_the_shapes_of_the_table_are_taken) {
  for (int group = 1; group <= 2; ++group) {
    for (std::uint32_t n = 0; n < 64; ++n) {
      for (std::uint32_t m = 0; m < 32; ++m) {
        const bool b_n_major = (m + n) % 3 == 0;
        const std::uint32_t bits = at(1, 4) | at(n, 17) | at(m, 24) | (b_n_major ? at(1, 16) : 0);
        const std::uint32_t rows = m * 16;
        const bool m_right = group == 1 ? rows == 64 || rows == 128 : rows == 128 || rows == 256;
        std::uint32_t step = group == 2 ? 32 : rows == 64 ? 8 : 16;
        const auto n_right = [&] { return n * 8 >= step && n * 8 <= 256 && n * 8 % step == 0; };
        EXPECT_EQ(problems(MmaKind::f16, group, bits).empty(), m_right && n_right()) << group << " " << n << " " << m;
        if (b_n_major && step == 8) step = 16;
        EXPECT_EQ(problems(MmaKind::f8f6f4, group, bits).empty(), m_right && n_right())
            << group << " " << n << " " << m;
      }
      for (std::uint32_t m = 0; m < 4; ++m) {
        for (const bool b_n_major : {false, true}) {
          const std::uint32_t bits = at(1, 23) | at(n, 17) | at(m, 27) | (b_n_major ? at(1, 16) : 0);
          const bool m_right = m == 1 || (m == 2 && group == 2);
          const std::uint32_t step = static_cast<std::uint32_t>(8 * group * (b_n_major ? 2 : 1));
          const bool n_right = n * 8 >= step && n * 8 <= 256 && n * 8 % step == 0;
          EXPECT_EQ(problems(MmaKind::mxf8f6f4, group, bits).empty(), m_right && n_right)
              << group << " " << n << " " << m;
        }
      }
    }
  }
}

TEST(Instruction, problems_of_the_unscaled_kinds_say_where_they_are) {
  const MmaKind f8 = MmaKind::f8f6f4;
  for (const Broken& b : std::vector<Broken>{
           {f8, 1, kUnscaled | at(2, 0), "bits 1:0", "sparsity selector"},
           {f8, 1, kUnscaled | at(1, 2), "bit 2", "sparse"},
           {f8, 1, kUnscaled | at(1, 3), "bit 3", "saturation is of kind::i8"},
           {f8, 1, kUnscaled | at(1, 5), "bits 5:4", "no format of D: FP16 is 0, FP32 1"},
           {f8, 1, (kUnscaled & ~at(3, 4)) | at(2, 4), "bits 5:4", "no format of D"},
           {f8, 1, kUnscaled | at(1, 6), "bit 6", "reserved"},
           {f8, 1, kUnscaled | at(2, 7), "bits 9:7", "no format of A: E4M3 is 0, E5M2 1"},
           {f8, 1, kUnscaled | at(3, 7), "bits 9:7", "makes A e2m3"},
           {f8, 1, kUnscaled | at(4, 10), "bits 12:10", "makes B e3m2"},
           {f8, 1, kUnscaled | at(5, 10), "bits 12:10",
            "makes B e2m1, unpacked in shared memory, which is not modelled"},
           {f8, 1, kUnscaled | at(7, 10), "bits 12:10", "no format of B"},
           {f8, 1, kUnscaled | at(1, 23), "bit 23", "reserved"},
           {f8, 1, kUnscaled | at(1, 29), "bit 29", "reserved"},
           {f8, 1, kUnscaled | at(2, 30), "bits 31:30", ".ws"},
           {f8, 1, with_m(kUnscaled, 256), "bits 28:24", "makes M 256: with cta_group::1 it is 64 or 128"},
           {f8, 2, with_m(kUnscaled, 64), "bits 28:24", "makes M 64: with cta_group::2 it is 128 or 256"},
           {f8, 1, with_n(kUnscaled, 24), "bits 22:17", "makes N 24: with M 128, cta_group::1 it is a multiple of 16"},
           {f8, 2, with_n(kUnscaled, 48), "bits 22:17", "it is a multiple of 32 up to 256"},
           {f8, 1, with_n(kUnscaled, 0), "bits 22:17", "makes N 0"},
           {f8, 1, with_n(kUnscaled, 272), "bits 22:17", "makes N 272"},
           {f8, 1, with_n(with_m(kUnscaled, 64), 24) | at(1, 16), "bits 22:17",
            "and B of 8 bits N-major it is a multiple of 16"},
           {MmaKind::f16, 1, kUnscaled | at(2, 7) | at(1, 10), "bits 9:7", "no format of A: FP16 is 0, BF16 1"},
           {MmaKind::f16, 1, kUnscaled | at(1, 7), "bits 12:10", "both are FP16, or both BF16"},
           {MmaKind::f16, 1, (kUnscaled & ~at(1, 4)) | at(1, 7) | at(1, 10), "bits 5:4", "FP16 of BF16 operands"},
       }) {
    expect_one_problem(b);
  }
}

TEST(Instruction, problems_of_the_scaled_kind_say_where_they_are) {
  const MmaKind mx = MmaKind::mxf8f6f4;
  for (const Broken& b : std::vector<Broken>{
           {mx, 1, kScaled | at(1, 0), "bits 1:0", "reserved"},
           {mx, 1, kScaled | at(1, 2), "bit 2", "sparse"},
           {mx, 1, kScaled | at(1, 3), "bit 3", "reserved"},
           {mx, 1, kScaled | at(1, 6), "bit 6", "reserved"},
           {mx, 1, kScaled | at(5, 7), "bits 9:7", "makes A e2m1"},
           {mx, 1, kScaled | at(6, 7), "bits 9:7", "no format of A"},
           {mx, 1, kScaled & ~at(1, 23), "bit 23", "UE4M3: 1, for UE8M0, is right"},
           {mx, 1, kScaled | at(4, 24), "bits 26:24", "reserved"},
           {mx, 1, kScaled | at(1, 31), "bit 31", "reserved"},
           {mx, 1, (kScaled & ~at(3, 27)) | at(2, 27), "bits 28:27", "makes M 256: with cta_group::1 it is 128"},
           {mx, 2, kScaled & ~at(3, 27), "bits 28:27", "makes M 0: with cta_group::2 it is 128 or 256"},
           {mx, 2, with_n(kScaled, 24), "bits 22:17", "it is a multiple of 16 up to 256"},
           {mx, 1, with_n(kScaled, 24) | at(1, 16), "bits 22:17", "B of 8 bits N-major it is a multiple of 16"},
       }) {
    expect_one_problem(b);
  }
}

TEST(Instruction, several_problems_are_all_said) {
  EXPECT_EQ(decode_instruction(MmaKind::mxf8f6f4, 1, 0).problems.size(), 3U);  // no UE8M0, M 0, N 0
  EXPECT_EQ(decode_instruction(MmaKind::f8f6f4, 1, 0xFFFFFFFF).problems.size(), 12U);
}

TEST(Instruction, its_sum_is_the_contracts) {
  EXPECT_EQ(fused_sum_of({.kind = MmaKind::mxf8f6f4}).terms, 32);
  EXPECT_EQ(fused_sum_of({.kind = MmaKind::f16}).terms, 16);
  EXPECT_EQ(fused_sum_of({.kind = MmaKind::mxf4}).terms, 64);
  EXPECT_EQ(fused_sum_of({.kind = MmaKind::mxf4nvf4_block16}).group, 16);
  EXPECT_EQ(fused_sum_of({.kind = MmaKind::f8f6f4}).output.c, Format::fp32);
  EXPECT_EQ(fused_sum_of({.kind = MmaKind::f8f6f4, .d_fp16 = true}).output.c, Format::fp16);
  EXPECT_EQ(fused_sum_of({.kind = MmaKind::f8f6f4, .d_fp16 = true}).fraction_bits, 25);
}

TEST(Instruction, a_cta_group_that_there_is_not_is_refused) {
  EXPECT_THROW(decode_instruction(MmaKind::f16, 0, kUnscaled), Error);
  EXPECT_THROW(decode_instruction(MmaKind::f16, 3, kUnscaled), Error);
}

}  // namespace
}  // namespace mxcheck::emulation::sm100
