// The descriptors' bits against literal values, field by field (PTX ISA 9.0, "Instruction descriptor", "Shared memory
// descriptor"); a tensor map's description and what is refused of it; the map is the emulation's.
#include "kernels/sm100/tcgen05/descriptor.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

#include "kernels/sm100/tcgen05/tensor_map.h"

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
constexpr Fp4Instruction kFp4{.m = 128, .n = 128};

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
  // E2M1 is 1 at 7 and at 10, UE4M3 is 0 at 23: 1 << 7 | 1 << 10 | 16 << 17 | 1 << 27.
  EXPECT_EQ(instruction_descriptor<kFp4>().bits, 0x08200480u);
  EXPECT_EQ((instruction_descriptor<Fp4Instruction{.m = 128, .n = 256}>().bits), 0x08400480u);
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

TEST(InstructionDescriptor, the_scales_of_fp4_are_at_bit_23) {
  EXPECT_EQ((changed<kFp4, Fp4Instruction{.m = 128, .n = 128, .scales = ScaleFormat::ue8m0}>()), 1u << 23);
  EXPECT_EQ(with_scale_ids(instruction_descriptor<kFp4>(), 2, 0).bits ^ 0x08200480u, 2u << 29);
  EXPECT_TRUE(valid(Fp4Instruction{.m = 256, .n = 240, .cta_group = 2}));
  EXPECT_FALSE(valid(Fp4Instruction{.m = 64, .n = 128}));
  EXPECT_FALSE(valid(Fp4Instruction{.m = 256, .n = 24, .cta_group = 2}));
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
  struct Shape {
    int m, n, group;
    Major b = Major::k;
  };
  const auto scaled = [](const Shape& s) {
    return valid(ScaledInstruction{.m = s.m, .n = s.n, .cta_group = s.group, .b_major = s.b});
  };
  for (const Shape& s : {Shape{128, 8, 1}, {128, 256, 1}, {128, 16, 2}, {256, 240, 2}}) {
    EXPECT_TRUE(scaled(s)) << s.m << " " << s.n;
  }
  for (const Shape& s : {Shape{64, 128, 1},
                         {256, 128, 1},
                         {64, 128, 2},
                         {128, 0, 1},
                         {128, -16, 1},
                         {128, 264, 1},
                         {128, 12, 1},
                         {256, 24, 2},
                         {128, 128, 0},
                         {128, 128, 3},
                         {128, 24, 1, Major::mn},
                         {256, 48, 2, Major::mn}}) {
    EXPECT_FALSE(scaled(s)) << s.m << " " << s.n;
  }
  const auto bytes = [](const Shape& s) { return valid(ByteInstruction{.m = s.m, .n = s.n, .cta_group = s.group}); };
  for (const Shape& s : {Shape{64, 8, 1}, {128, 16, 1}, {256, 32, 2}}) EXPECT_TRUE(bytes(s)) << s.m << " " << s.n;
  for (const Shape& s : {Shape{128, 8, 1}, {256, 16, 2}, {64, 32, 2}, {32, 32, 1}}) {
    EXPECT_FALSE(bytes(s)) << s.m << " " << s.n;
  }
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
  for (unsigned step = 0; step < 4; ++step) EXPECT_EQ(advance(kFirst, 32 * step).bits, kFirst.bits + 2 * step);
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

alignas(16) unsigned char memory[32];

TensorMapDescription tile() {
  TensorMapDescription d;
  d.base = memory, d.extent[0] = 1024, d.extent[1] = 300, d.stride[0] = 1, d.stride[1] = 1024;
  d.box[0] = 128, d.box[1] = 128, d.swizzle = Swizzle::b128;
  return d;
}

template <class Change>
std::string refusal_after(Change change) {
  TensorMapDescription d = tile();
  change(d);
  TensorMap map;
  map.rank = 77;
  const std::string refusal = encode(d, map);
  EXPECT_EQ(map.rank == 77, !refusal.empty()) << "a refused map is as it was";
  return refusal;
}

TEST(TensorMap, holds_its_description) {
  TensorMap map;
  ASSERT_EQ(encode(tile(), map), "");
  EXPECT_EQ(map.base, memory);
  EXPECT_EQ(map.rank, 2);
  EXPECT_EQ(map.element_bytes, 1);
  EXPECT_EQ(map.extent[0], 1024u);
  EXPECT_EQ(map.extent[1], 300u);
  EXPECT_EQ(map.stride[1], 1024u);
  EXPECT_EQ(map.box[1], 128u);
  EXPECT_EQ(map.swizzle, emulation::sm100::Swizzle::b128);
  EXPECT_EQ(map.extent[2], 0u);
}

TEST(TensorMap, swizzles_keep_their_values) {
  for (const Swizzle swizzle : {Swizzle::none, Swizzle::b128_atom32, Swizzle::b128, Swizzle::b64, Swizzle::b32}) {
    TensorMapDescription d = tile();
    d.box[0] = 16, d.swizzle = swizzle;
    TensorMap map;
    ASSERT_EQ(encode(d, map), "");
    EXPECT_EQ(static_cast<int>(map.swizzle), static_cast<int>(swizzle));
  }
}

TEST(TensorMap, refusals_say_what_was_wrong_and_what_would_be_right) {
  using D = TensorMapDescription;
  const struct {
    void (*change)(D&);
    std::string says;
  } cases[] = {{[](D& d) { d.rank = 6; }, "rank is 6; 1 to 5 are possible"},
               {[](D& d) { d.element_bytes = 3; }, "element_bytes is 3; 1, 2 or 4 are possible"},
               {[](D& d) { d.base = memory + 8; }, "base is null or not at a multiple of 16 bytes"},
               {[](D& d) { d.base = nullptr; }, "base is null or not at a multiple of 16 bytes"},
               {[](D& d) { d.stride[0] = 2; }, "stride[0] is 2; it is element_bytes"},
               {[](D& d) { d.stride[1] = 1000; }, "stride[1] is 1000; multiples of 16 below 2^40 are possible"},
               {[](D& d) { d.extent[1] = 0; }, "extent[1] is 0; 1 to 2^32 are possible"},
               {[](D& d) { d.box[1] = 257; }, "box[1] is 257; 1 to 256 are possible"},
               {[](D& d) { d.box[0] = 24; }, "box[0] is 24; in bytes it is a multiple of 16"},
               {[](D& d) { d.box[0] = 144; }, "box[0] is 144; in bytes it is at most the swizzle's span"},
               {[](D& d) { d.swizzle = Swizzle::b64; }, "box[0] is 128; in bytes it is at most the swizzle's span"}};
  EXPECT_EQ(refusal_after([](D&) {}), "");
  for (const auto& c : cases) EXPECT_EQ(refusal_after(c.change), "tensor map: " + c.says);
}

}  // namespace
}  // namespace mxcheck::sm100
