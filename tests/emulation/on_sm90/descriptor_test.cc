// The questions that threads of a GPU ask of a descriptor, without texts, against the CPU's words: no rule is broken
// where there are no problems, and then the same is read.
#include "emulation/sm100/descriptor.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "emulation/sm100/tensor_core/elements.h"
#include "emulation/sm100/tensor_core/instruction.h"
#include "emulation/sm100/tensor_core/shared_matrix.h"
#include "numerics/format/format.h"

namespace mxcheck::emulation {
namespace {

using sm100::MmaKind;

constexpr Format kFormats[] = {Format::e4m3, Format::e5m2, Format::fp16, Format::bf16};
constexpr MmaKind kKinds[] = {MmaKind::f16,  MmaKind::f8f6f4,           MmaKind::mxf8f6f4,
                              MmaKind::mxf4, MmaKind::mxf4nvf4_block32, MmaKind::mxf4nvf4_block16};

TEST(OnSm90Descriptor, ElementsAreTheFormats) {
  for (const Format format : kFormats) {
    const sm100::detail::ElementFacts f = sm100::detail::facts(format);
    const FormatSpec& s = spec(format);
    EXPECT_EQ(f.bits, s.bits);
    EXPECT_EQ(f.mantissa_bits, s.mantissa_bits);
    EXPECT_EQ(f.bias, s.bias);
    EXPECT_EQ(f.max_code, s.max_code);
    EXPECT_EQ(f.infinities, s.encoding == Encoding::ieee);
  }
}

// True if it is valid.
bool compare_instruction(MmaKind kind, int cta_group, std::uint32_t bits) {
  const sm100::Decoded expected = sm100::decode_instruction(kind, cta_group, bits);
  const sm100::ReadInstruction i = sm100::read_instruction(kind, cta_group, bits);
  EXPECT_EQ(i.broken.none(), expected.problems.empty())
      << std::hex << bits << " " << (expected.problems.empty() ? "" : expected.problems.front());
  if (!i.broken.none() || !expected.problems.empty()) return false;
  EXPECT_EQ(sm100::Instruction(i), expected.instruction);
  const sm100::OperandLayout layout = sm100::operand_layout(kind, i.a_mn_major, 128);
  EXPECT_EQ(layout.k * layout.element_bytes, 32);
  EXPECT_EQ(i.k, sm100::is_fp4(kind) ? 2 * layout.k : layout.k);
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
            std::uint32_t bits =
                n << 17 | m << 24 | (rest & 1) << 7 | (rest >> 1 & 1) << 10 | (rest >> 2 & 1) << 15 |
                (rest >> 3 & 1) << 16 | (rest >> 4 & 1) << 4 |
                (kind == MmaKind::mxf8f6f4 || kind == MmaKind::mxf4 || kind == MmaKind::mxf4nvf4_block32 ? 1U << 23
                                                                                                         : 0);
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
    const sm100::ReadMatrix m = sm100::read_matrix(bits);
    ASSERT_EQ(m.broken.none(), expected.problems.empty()) << std::hex << bits;
    if (!m.broken.none()) continue;
    ASSERT_EQ(sm100::SharedMatrix(m), expected.matrix);
    ASSERT_EQ(16U << sm100::swizzle_bits(m.swizzle), sm100::swizzle_span(expected.matrix.swizzle));
  }
}

TEST(OnSm90Descriptor, OperandsAreReadAtTheSameAddresses) {
  std::mt19937_64 random(3);
  long fitting = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t bits = draw_matrix(random);
    const sm100::SharedMatrix expected = sm100::decode_shared_matrix(bits).matrix;
    const sm100::ReadMatrix m = sm100::read_matrix(bits);
    const int element = 1 + static_cast<int>(random() % 2);
    const bool mn_major = random() % 2 == 0;
    const int rows = 16 * (1 + static_cast<int>(random() % 16));
    const sm100::OperandLayout layout{mn_major, element, rows, 32 / element};
    constexpr std::uint32_t kEnd = 200'000;
    const int units = sm100::units_of(layout);
    bool fits = sm100::broken_rules(m, layout).none();
    for (int line = 0; line < sm100::lines_of(layout); ++line) {
      fits = fits && sm100::first_outside(m, mn_major, line, units, kEnd) == units;
    }
    ASSERT_EQ(fits, sm100::operand_problems(expected, layout, kEnd).empty()) << std::hex << bits;
    fitting += fits ? 1 : 0;
    const std::vector<std::uint32_t> all = sm100::operand_units(expected, layout);
    for (int j = 0; j < 20; ++j) {
      const int row = static_cast<int>(random() % static_cast<std::uint64_t>(rows));
      const int k = static_cast<int>(random() % static_cast<std::uint64_t>(layout.k));
      const int byte = (mn_major ? row : k) * element;
      const int unit = (mn_major ? k : row) * units + byte / 16;
      ASSERT_EQ(sm100::element_address(m, layout, row, k),
                all.at(static_cast<std::size_t>(unit)) + static_cast<std::uint32_t>(byte % 16));
    }
  }
  EXPECT_GT(fitting, 1000);
}

TEST(OnSm90Descriptor, CopiesGoToTheSameLanes) {
  std::mt19937_64 random(4);
  for (int s = 0; s < 6; ++s) {
    const auto shape = static_cast<sm100::CpShape>(s);
    const sm100::CpSource copy = sm100::cp_source(shape);
    for (int i = 0; i < 2000; ++i) {
      const std::uint64_t bits = draw_matrix(random);
      const sm100::SharedMatrix expected = sm100::decode_shared_matrix(bits).matrix;
      const sm100::ReadMatrix m = sm100::read_matrix(bits);
      constexpr std::uint32_t kEnd = 200'000;
      bool fits = sm100::broken_rules(m, shape).none();
      for (int row = 0; row < copy.rows; ++row) {
        fits = fits && sm100::first_outside(m, false, row, copy.units, kEnd) == copy.units;
      }
      ASSERT_EQ(fits, sm100::cp_problems(expected, shape, kEnd).empty()) << std::hex << bits;
    }
    // Rows times lanes are all 128, but of 4x256b, whose rows are one lane of each partition.
    std::set<int> lanes;
    for (int row = 0; row < copy.rows; ++row) {
      for (int l = 0; l < copy.lanes; ++l) lanes.insert(sm100::cp_lane(shape, row, l));
    }
    EXPECT_EQ(lanes.size(), shape == sm100::CpShape::rows4x256b ? 4U : 128U);
    EXPECT_EQ(*lanes.rbegin(), shape == sm100::CpShape::rows4x256b ? 96 : 127);
  }
}

}  // namespace
}  // namespace mxcheck::emulation
