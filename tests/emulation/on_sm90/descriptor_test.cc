// Decoding for threads of a GPU against decoding with texts: valid where there are no problems, and then the same.
#include "emulation/on_sm90/descriptor.h"

#include <gtest/gtest.h>

#include <random>

#include "emulation/sm100/tensor_core/instruction.h"
#include "emulation/sm100/tensor_core/shared_matrix.h"
#include "numerics/format/format.h"

namespace mxcheck::emulation {
namespace {

using sm100::MmaKind;

constexpr Format kFormats[] = {Format::e4m3, Format::e5m2, Format::fp16, Format::bf16};
constexpr MmaKind kKinds[] = {MmaKind::f16, MmaKind::f8f6f4, MmaKind::mxf8f6f4};

TEST(OnSm90Descriptor, ElementsAreTheFormats) {
  for (int i = 0; i < 4; ++i) {
    const on_sm90::ElementFacts f = on_sm90::facts(static_cast<on_sm90::Element>(i));
    const FormatSpec& s = spec(kFormats[i]);
    EXPECT_EQ(f.bits, s.bits);
    EXPECT_EQ(f.mantissa_bits, s.mantissa_bits);
    EXPECT_EQ(f.bias, s.bias);
    EXPECT_EQ(f.max_code, s.max_code);
    EXPECT_EQ(f.infinities, s.encoding == Encoding::ieee);
  }
}

// Whether it is valid.
bool compare_instruction(MmaKind kind, int cta_group, std::uint32_t bits) {
  const sm100::Decoded expected = sm100::decode_instruction(kind, cta_group, bits);
  const on_sm90::Instruction i = on_sm90::decode_instruction(kind, cta_group, bits);
  EXPECT_EQ(i.valid, expected.problems.empty())
      << std::hex << bits << " " << (expected.problems.empty() ? "" : expected.problems.front());
  if (!i.valid || !expected.problems.empty()) return false;
  const sm100::Instruction& e = expected.instruction;
  EXPECT_EQ(kFormats[static_cast<int>(i.a)], e.a);
  EXPECT_EQ(kFormats[static_cast<int>(i.b)], e.b);
  EXPECT_EQ(i.negate_a, e.negate_a);
  EXPECT_EQ(i.negate_b, e.negate_b);
  EXPECT_EQ(i.a_mn_major, e.a_mn_major);
  EXPECT_EQ(i.b_mn_major, e.b_mn_major);
  EXPECT_EQ(i.m, e.m);
  EXPECT_EQ(i.n, e.n);
  EXPECT_EQ(i.k, e.k);
  EXPECT_EQ(i.d_fp16, e.d_fp16);
  EXPECT_EQ(i.scaled, sm100::is_scaled(kind));
  EXPECT_EQ(i.element_bytes, sm100::element_bytes(kind));
  if (i.scaled) {
    EXPECT_EQ(i.scale_a_id, e.scale_a_id);
    EXPECT_EQ(i.scale_b_id, e.scale_b_id);
  }
  return true;
}

// Every shape, format, major and sign that the fields can say, with one other bit wrong or none.
TEST(OnSm90Descriptor, InstructionsAreValidWhereTheyHaveNoProblems) {
  std::mt19937_64 random(1);
  long valid = 0;
  for (const MmaKind kind : kKinds) {
    for (const int cta_group : {1, 2}) {
      for (std::uint32_t n = 0; n < 64; ++n) {
        for (std::uint32_t m = 0; m < 32; ++m) {
          for (std::uint32_t rest = 0; rest < 64; ++rest) {
            std::uint32_t bits = n << 17 | m << 24 | (rest & 1) << 7 | (rest >> 1 & 1) << 10 | (rest >> 2 & 1) << 15 |
                                 (rest >> 3 & 1) << 16 | (rest >> 4 & 1) << 4 |
                                 (kind == MmaKind::mxf8f6f4 ? 1U << 23 : 0);
            if ((rest >> 5 & 1) != 0) bits ^= 1U << (random() % 32);
            valid += compare_instruction(kind, cta_group, bits) ? 1 : 0;
          }
        }
      }
      for (int i = 0; i < 20000; ++i) compare_instruction(kind, cta_group, static_cast<std::uint32_t>(random()));
    }
  }
  EXPECT_GT(valid, 5000);
}

std::uint64_t draw_matrix(std::mt19937_64& random) {
  constexpr std::uint64_t kSwizzles[] = {0, 2, 4, 6};
  const std::uint64_t leading = random() % 2 == 0 ? random() % 64 : random() % 64 * 64;
  const std::uint64_t stride = random() % 2 == 0 ? random() % 256 : random() % 8 * 64;
  std::uint64_t start = random() % 16384;
  if (random() % 2 == 0) start = start / 64 * 64 + random() % 8;
  return start | leading << 16 | stride << 32 | std::uint64_t{1} << 46 | kSwizzles[random() % 4] << 61;
}

TEST(OnSm90Descriptor, MatricesAreValidWhereTheyHaveNoProblems) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100000; ++i) {
    std::uint64_t bits = draw_matrix(random);
    if (i % 2 == 0) bits ^= std::uint64_t{1} << (random() % 64);
    const sm100::DecodedMatrix expected = sm100::decode_shared_matrix(bits);
    const on_sm90::Matrix m = on_sm90::decode_matrix(bits);
    ASSERT_EQ(m.valid, expected.problems.empty()) << std::hex << bits;
    if (!m.valid) continue;
    ASSERT_EQ(m.start, expected.matrix.start);
    ASSERT_EQ(m.leading, expected.matrix.leading);
    ASSERT_EQ(m.stride, expected.matrix.stride);
    ASSERT_EQ(16U << m.swizzle_bits, sm100::swizzle_span(expected.matrix.swizzle));
  }
}

TEST(OnSm90Descriptor, OperandsAreReadAtTheSameAddresses) {
  std::mt19937_64 random(3);
  long fitting = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t bits = draw_matrix(random);
    const sm100::SharedMatrix expected = sm100::decode_shared_matrix(bits).matrix;
    const on_sm90::Matrix m = on_sm90::decode_matrix(bits);
    const int element = 1 + static_cast<int>(random() % 2);
    const bool mn_major = random() % 2 == 0;
    const int rows = 16 * (1 + static_cast<int>(random() % 16));
    const sm100::OperandLayout layout{mn_major, element, rows, 32 / element};
    const on_sm90::Layout l{mn_major, element, rows, 32 / element};
    constexpr std::uint32_t kEnd = 200'000;
    bool fits = on_sm90::layout_fits(m, l);
    for (int line = 0; line < on_sm90::lines_of(l); ++line) {
      fits = fits && on_sm90::line_fits(m, mn_major, line, on_sm90::units_of(l), kEnd);
    }
    ASSERT_EQ(fits, sm100::operand_problems(expected, layout, kEnd).empty()) << std::hex << bits;
    fitting += fits ? 1 : 0;
    for (int j = 0; j < 20; ++j) {
      const int row = static_cast<int>(random() % static_cast<std::uint64_t>(rows));
      const int k = static_cast<int>(random() % static_cast<std::uint64_t>(l.k));
      ASSERT_EQ(on_sm90::element_address(m, l, row, k), sm100::element_address(expected, layout, row, k));
    }
  }
  EXPECT_GT(fitting, 1000);
}

TEST(OnSm90Descriptor, CopiesGoToTheSameLanes) {
  std::mt19937_64 random(4);
  for (int s = 0; s < 6; ++s) {
    const auto shape = static_cast<sm100::CpShape>(s);
    const on_sm90::Copy copy = on_sm90::copy_of(shape);
    EXPECT_EQ(copy.rows, sm100::cp_source(shape).rows);
    EXPECT_EQ(copy.units, sm100::cp_source(shape).units);
    for (int row = 0; row < copy.rows; ++row) {
      const sm100::CpLanes lanes = sm100::cp_lanes(shape, row);
      ASSERT_EQ(copy.lanes, lanes.count);
      for (int l = 0; l < lanes.count; ++l) {
        EXPECT_EQ(on_sm90::copy_lane(shape, row, l), lanes.lanes.at(static_cast<std::size_t>(l)));
      }
    }
    for (int i = 0; i < 2000; ++i) {
      const std::uint64_t bits = draw_matrix(random);
      const sm100::SharedMatrix expected = sm100::decode_shared_matrix(bits).matrix;
      const on_sm90::Matrix m = on_sm90::decode_matrix(bits);
      constexpr std::uint32_t kEnd = 200'000;
      bool fits = on_sm90::copy_fits(m, shape);
      for (int row = 0; row < copy.rows; ++row) fits = fits && on_sm90::line_fits(m, false, row, copy.units, kEnd);
      ASSERT_EQ(fits, sm100::cp_problems(expected, shape, kEnd).empty()) << std::hex << bits;
      const int row = static_cast<int>(random() % static_cast<std::uint64_t>(copy.rows));
      EXPECT_EQ(on_sm90::unit_address(m, false, row, copy.units - 1), sm100::cp_address(expected, row, copy.units - 1));
    }
  }
}

}  // namespace
}  // namespace mxcheck::emulation
