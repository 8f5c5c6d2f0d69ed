// The descriptors' bits against literal values, field by field (PTX ISA 9.0, "Instruction descriptor", "Shared memory
// descriptor").
#include "kernels/sm100/tcgen05/descriptor.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace mxcheck::sm100 {
namespace {

// The bits that a field changes in the descriptor of a base instruction.
template <auto kBase, auto kOther>
std::uint32_t changed() {
  return instruction_descriptor<kBase>().bits ^ instruction_descriptor<kOther>().bits;
}

constexpr ScaledInstruction kScaled{.m = 128, .n = 128};
constexpr ByteInstruction kBytes{.m = 128, .n = 128};
constexpr HalfInstruction kHalf{.m = 128, .n = 128};

TEST(InstructionDescriptor, whole_words_of_instructions_in_use) {
  // N / 8 at 17, UE8M0 at 23, M / 128 at 27: 16 << 17 | 1 << 23 | 1 << 27.
  EXPECT_EQ(instruction_descriptor<kScaled>().bits, 0x08A00000u);
  // A pair's M: 32 << 17 | 1 << 23 | 2 << 27.
  EXPECT_EQ((instruction_descriptor<ScaledInstruction{.m = 256, .n = 256, .cta_group = 2}>().bits), 0x10C00000u);
  // FP32 at 4, N / 8 at 17, M / 16 at 24: 1 << 4 | 32 << 17 | 8 << 24.
  EXPECT_EQ((instruction_descriptor<ByteInstruction{.m = 128, .n = 256}>().bits), 0x08400010u);
  // BF16 at 7 and 10 as well.
  EXPECT_EQ((instruction_descriptor<HalfInstruction{.m = 128, .n = 256}>().bits), 0x08400490u);
  EXPECT_EQ((instruction_descriptor<HalfInstruction{.m = 64, .n = 8}>().bits), 0x04020490u);
}

TEST(InstructionDescriptor, formats_are_at_bits_7_and_10) {
  EXPECT_EQ((changed<kBytes, ByteInstruction{.m = 128, .n = 128, .a = ByteFormat::e5m2}>()), 1u << 7);
  EXPECT_EQ((changed<kBytes, ByteInstruction{.m = 128, .n = 128, .a = ByteFormat::e2m3}>()), 3u << 7);
  EXPECT_EQ((changed<kBytes, ByteInstruction{.m = 128, .n = 128, .a = ByteFormat::e3m2}>()), 4u << 7);
  EXPECT_EQ((changed<kBytes, ByteInstruction{.m = 128, .n = 128, .a = ByteFormat::e2m1}>()), 5u << 7);
  EXPECT_EQ((changed<kBytes, ByteInstruction{.m = 128, .n = 128, .b = ByteFormat::e5m2}>()), 1u << 10);
  EXPECT_EQ((changed<kBytes, ByteInstruction{.m = 128, .n = 128, .b = ByteFormat::e2m3}>()), 3u << 10);
  EXPECT_EQ((changed<kBytes, ByteInstruction{.m = 128, .n = 128, .b = ByteFormat::e3m2}>()), 4u << 10);
  EXPECT_EQ((changed<kBytes, ByteInstruction{.m = 128, .n = 128, .b = ByteFormat::e2m1}>()), 5u << 10);
  EXPECT_EQ((changed<kScaled, ScaledInstruction{.m = 128, .n = 128, .a = ByteFormat::e5m2}>()), 1u << 7);
  EXPECT_EQ((changed<kScaled, ScaledInstruction{.m = 128, .n = 128, .b = ByteFormat::e2m1}>()), 5u << 10);
  EXPECT_EQ((changed<kHalf, HalfInstruction{.m = 128, .n = 128, .a = HalfFormat::f16, .b = HalfFormat::f16}>()),
            1u << 7 | 1u << 10);
}

TEST(InstructionDescriptor, the_accumulator_is_at_bit_4_and_not_in_the_scaled_kind) {
  EXPECT_EQ((changed<kBytes, ByteInstruction{.m = 128, .n = 128, .d = Accumulator::f16}>()), 1u << 4);
  EXPECT_EQ(instruction_descriptor<kScaled>().bits & 0x30u, 0u);
}

TEST(InstructionDescriptor, majors_are_at_bits_15_and_16) {
  EXPECT_EQ((changed<kScaled, ScaledInstruction{.m = 128, .n = 128, .a_major = Major::mn}>()), 1u << 15);
  EXPECT_EQ((changed<kScaled, ScaledInstruction{.m = 128, .n = 128, .b_major = Major::mn}>()), 1u << 16);
  EXPECT_EQ((changed<kBytes, ByteInstruction{.m = 128, .n = 128, .a_major = Major::mn}>()), 1u << 15);
  EXPECT_EQ((changed<kHalf, HalfInstruction{.m = 128, .n = 128, .b_major = Major::mn}>()), 1u << 16);
}

TEST(InstructionDescriptor, scale_ids_are_at_bits_29_and_4_and_replace_each_other) {
  constexpr InstructionDescriptor kFirst = instruction_descriptor<kScaled>();
  EXPECT_EQ(with_scale_ids(kFirst, 1, 0).bits ^ kFirst.bits, 1u << 29);
  EXPECT_EQ(with_scale_ids(kFirst, 3, 0).bits ^ kFirst.bits, 3u << 29);
  EXPECT_EQ(with_scale_ids(kFirst, 0, 1).bits ^ kFirst.bits, 1u << 4);
  EXPECT_EQ(with_scale_ids(kFirst, 0, 3).bits ^ kFirst.bits, 3u << 4);
  EXPECT_EQ(with_scale_ids(with_scale_ids(kFirst, 3, 3), 1, 2).bits, with_scale_ids(kFirst, 1, 2).bits);
  EXPECT_EQ(with_scale_ids(with_scale_ids(kFirst, 3, 3), 0, 0).bits, kFirst.bits);
}

TEST(InstructionDescriptor, shapes_are_those_of_the_instruction_set) {
  const auto scaled = [](int m, int n, int group, Major b = Major::k) {
    return valid(ScaledInstruction{.m = m, .n = n, .cta_group = group, .b_major = b});
  };
  EXPECT_TRUE(scaled(128, 8, 1));
  EXPECT_TRUE(scaled(128, 256, 1));
  EXPECT_TRUE(scaled(128, 16, 2));
  EXPECT_TRUE(scaled(256, 240, 2));
  EXPECT_FALSE(scaled(64, 128, 1));
  EXPECT_FALSE(scaled(256, 128, 1));
  EXPECT_FALSE(scaled(64, 128, 2));
  EXPECT_FALSE(scaled(128, 0, 1));
  EXPECT_FALSE(scaled(128, -16, 1));
  EXPECT_FALSE(scaled(128, 264, 1));
  EXPECT_FALSE(scaled(128, 12, 1));
  EXPECT_FALSE(scaled(256, 24, 2));
  EXPECT_FALSE(scaled(128, 128, 0));
  EXPECT_FALSE(scaled(128, 128, 3));
  EXPECT_FALSE(scaled(128, 24, 1, Major::mn));
  EXPECT_FALSE(scaled(256, 48, 2, Major::mn));

  const auto bytes = [](int m, int n, int group) { return valid(ByteInstruction{.m = m, .n = n, .cta_group = group}); };
  EXPECT_TRUE(bytes(64, 8, 1));
  EXPECT_TRUE(bytes(128, 16, 1));
  EXPECT_TRUE(bytes(256, 32, 2));
  EXPECT_FALSE(bytes(128, 8, 1));
  EXPECT_FALSE(bytes(256, 16, 2));
  EXPECT_FALSE(bytes(64, 32, 2));
  EXPECT_FALSE(bytes(32, 32, 1));
  EXPECT_FALSE(valid(HalfInstruction{.m = 128, .n = 128, .d = Accumulator::f16}));  // BF16 adds into FP32 alone
  EXPECT_FALSE(valid(HalfInstruction{.m = 128, .n = 128, .a = HalfFormat::f16, .b = HalfFormat::bf16}));
  EXPECT_TRUE(
      valid(HalfInstruction{.m = 128, .n = 128, .a = HalfFormat::f16, .b = HalfFormat::f16, .d = Accumulator::f16}));
}

TEST(SharedDescriptor, whole_words_of_layouts_in_use) {
  // Start at 0, LBO 1 at 16, SBO 64 at 32, 0b001 at 46, swizzle 2 at 61.
  EXPECT_EQ(shared_descriptor<k_major(Swizzle::b128)>(0x400).bits, 0x4000404000010040u);
  EXPECT_EQ(shared_descriptor<k_major(Swizzle::b64)>(0x400).bits, 0x8000402000010040u);
  EXPECT_EQ(shared_descriptor<k_major(Swizzle::b32)>(0x400).bits, 0xC000401000010040u);
  EXPECT_EQ((shared_descriptor<mn_major(Swizzle::b128, 0x4000, 1024)>(0).bits), 0x4000404004000000u);
  EXPECT_EQ((shared_descriptor<mn_major(Swizzle::b128_atom32, 0x4000, 1024)>(0).bits), 0x2000404004000000u);
  // 32 rows of 16 bytes, 128 for 8 of them.
  EXPECT_EQ(shared_descriptor<scale_chunk()>(0x8000).bits, 0x0000400800000800u);
}

TEST(SharedDescriptor, unswizzled_majors_trade_leading_and_stride) {
  EXPECT_EQ((shared_descriptor<k_major_unswizzled(0x100, 0x200)>(0).bits), 0x0000402000100000u);
  EXPECT_EQ((shared_descriptor<mn_major_unswizzled(0x100, 0x200)>(0).bits), 0x0000402000100000u);
  EXPECT_EQ(k_major_unswizzled(0x100, 0x200).leading_bytes, 0x100u);  // along k
  EXPECT_EQ(mn_major_unswizzled(0x100, 0x200).leading_bytes,
            0x100u);  // along k, too: the names differ in what they step over
  EXPECT_EQ(mn_major(Swizzle::b128, 0x100, 0x400).leading_bytes, 0x100u);  // along MN
}

TEST(SharedDescriptor, an_address_has_14_bits_of_16_bytes) {
  constexpr std::uint64_t kZero = shared_descriptor<k_major(Swizzle::b128)>(0).bits;
  EXPECT_EQ(shared_descriptor<k_major(Swizzle::b128)>(0x3FC00).bits ^ kZero, 0x3FC0u);
  // Higher addresses are windows of other CTAs: the descriptor has the offset within the own one.
  EXPECT_EQ(shared_descriptor<k_major(Swizzle::b128)>(0x01000400).bits ^ kZero, 0x40u);
}

TEST(SharedDescriptor, a_step_of_k_adds_its_bytes_to_the_start_alone) {
  constexpr SharedDescriptor kFirst = shared_descriptor<k_major(Swizzle::b128)>(0x400);
  for (unsigned step = 0; step < 4; ++step) {
    EXPECT_EQ(advance(kFirst, 32 * step).bits, kFirst.bits + 2 * step);
  }
  EXPECT_EQ(advance(shared_descriptor<scale_chunk()>(0), 0x3FFF0).bits, 0x0000400800003FFFu);
}

TEST(SharedDescriptor, swizzles_have_their_span_and_pattern) {
  EXPECT_EQ(swizzle_span(Swizzle::b128), 128u);
  EXPECT_EQ(swizzle_pattern(Swizzle::b128), 1024u);
  EXPECT_EQ(swizzle_pattern(Swizzle::b128_atom32), 1024u);
  EXPECT_EQ(swizzle_pattern(Swizzle::b64), 512u);
  EXPECT_EQ(swizzle_pattern(Swizzle::b32), 256u);
  EXPECT_EQ(swizzle_span(Swizzle::none), 16u);
}

TEST(SharedDescriptor, layouts_that_its_fields_cannot_hold_are_invalid) {
  EXPECT_TRUE(valid(k_major(Swizzle::b128)));
  EXPECT_TRUE(valid(SharedLayout{Swizzle::none, 0x3FFF0, 0x3FFF0}));
  EXPECT_FALSE(valid(SharedLayout{Swizzle::none, 8, 128}));
  EXPECT_FALSE(valid(SharedLayout{Swizzle::none, 16, 136}));
  EXPECT_FALSE(valid(SharedLayout{Swizzle::none, 0x40000, 128}));
  EXPECT_FALSE(valid(SharedLayout{Swizzle::none, 16, 0x40000}));
  EXPECT_FALSE(valid(SharedLayout{Swizzle::b128, 16, 512}));
}

}  // namespace
}  // namespace mxcheck::sm100
