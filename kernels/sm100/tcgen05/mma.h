#pragma once
// The tensor cores (PTX ISA, "tcgen05.mma", "tcgen05.cp", "tcgen05.commit"). Each by one thread of the CTA, of the
// pair's leader with kCtaGroup 2: two threads issue two instructions into one accumulator, which no tool sees.
//
// All are asynchronous. One thread's mma, cp and commit are in order, that is mma after cp, mma after mma of the same
// shape and kind; a cp after an mma that reads the cells is not. Completion is known through a commit's mbarrier alone.
//
// With kCtaGroup 2 a shared-memory descriptor names the same offset in both CTAs: A's half of M, B's half of N, and the
// source of a cp is each CTA's own.

#include <cstdint>

#include "emulation/sm100/operations.h"
#include "kernels/sm100/tcgen05/descriptor.h"
#include "kernels/sm100/tcgen05/tmem.h"

namespace mxcheck::sm100 {

#if MXCHECK_SM100_SOFTWARE
namespace mma_detail {
MXCHECK_SM100_DEVICE void mma(emulation::sm100::MmaKind kind, int cta_group, TmemAddress d, SharedDescriptor a,
                              SharedDescriptor b, InstructionDescriptor instruction, TmemAddress scales_a,
                              TmemAddress scales_b, bool accumulate) {
  emulation::sm100::mma({.kind = kind,
                         .cta_group = cta_group,
                         .d = d,
                         .a = a.bits,
                         .b = b.bits,
                         .instruction = instruction.bits,
                         .scales_a = scales_a,
                         .scales_b = scales_b,
                         .accumulate = accumulate});
}
}  // namespace mma_detail
#endif

// D = (accumulate ? D : 0) + A * B, one step of k, 32 bytes of a row: 32 elements, 16 of kind::f16, 64 of FP4. A word
// of scales holds four steps of kind::mxf8f6f4, one or two of FP4; the instruction descriptor's ids choose
// (with_scale_ids).
template <int kCtaGroup>
MXCHECK_SM100_DEVICE void mma_block_scaled(TmemAddress d, SharedDescriptor a, SharedDescriptor b,
                                           InstructionDescriptor instruction, TmemAddress scales_a,
                                           TmemAddress scales_b, bool accumulate) {
  static_assert(tmem_detail::kIsGroup<kCtaGroup>, "cta_group is 1 or 2");
#if MXCHECK_SM100_SOFTWARE
  mma_detail::mma(emulation::sm100::MmaKind::mxf8f6f4, kCtaGroup, d, a, b, instruction, scales_a, scales_b, accumulate);
#else
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %6, 0;\n"
      "tcgen05.mma.cta_group::%7.kind::mxf8f6f4.block_scale.block32 [%0], %1, %2, %3, [%4], [%5], p;\n"
      "}" ::"r"(d),
      "l"(a.bits), "l"(b.bits), "r"(instruction.bits), "r"(scales_a), "r"(scales_b),
      "r"(static_cast<std::uint32_t>(accumulate)), "n"(kCtaGroup)
      : "memory");
#endif
}

// The kind of an instruction, of FP4 with the size of the scales' blocks.
using emulation::sm100::MmaKind;

namespace mma_detail {
template <MmaKind kKind>
struct Fp4Text;
template <>
struct Fp4Text<MmaKind::mxf4> {
  static constexpr char text[] = "mxf4.block_scale.block32";
};
template <>
struct Fp4Text<MmaKind::mxf4nvf4_block32> {
  static constexpr char text[] = "mxf4nvf4.block_scale.block32";
};
template <>
struct Fp4Text<MmaKind::mxf4nvf4_block16> {
  static constexpr char text[] = "mxf4nvf4.block_scale.block16";
};
}  // namespace mma_detail

template <MmaKind kKind, int kCtaGroup>
MXCHECK_SM100_DEVICE void mma_fp4(TmemAddress d, SharedDescriptor a, SharedDescriptor b,
                                  InstructionDescriptor instruction, TmemAddress scales_a, TmemAddress scales_b,
                                  bool accumulate) {
  static_assert(tmem_detail::kIsGroup<kCtaGroup>, "cta_group is 1 or 2");
  static_assert(sizeof(mma_detail::Fp4Text<kKind>::text) > 1, "a kind of FP4");
#if MXCHECK_SM100_SOFTWARE
  mma_detail::mma(kKind, kCtaGroup, d, a, b, instruction, scales_a, scales_b, accumulate);
#else
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %6, 0;\n"
      "tcgen05.mma.cta_group::%7.kind::%8 [%0], %1, %2, %3, [%4], [%5], p;\n"
      "}" ::"r"(d),
      "l"(a.bits), "l"(b.bits), "r"(instruction.bits), "r"(scales_a), "r"(scales_b),
      "r"(static_cast<std::uint32_t>(accumulate)), "n"(kCtaGroup), "C"(mma_detail::Fp4Text<kKind>::text)
      : "memory");
#endif
}
template <int kCtaGroup>
MXCHECK_SM100_DEVICE void mma_f8f6f4(TmemAddress d, SharedDescriptor a, SharedDescriptor b,
                                     InstructionDescriptor instruction, bool accumulate) {
  static_assert(tmem_detail::kIsGroup<kCtaGroup>, "cta_group is 1 or 2");
#if MXCHECK_SM100_SOFTWARE
  mma_detail::mma(emulation::sm100::MmaKind::f8f6f4, kCtaGroup, d, a, b, instruction, 0, 0, accumulate);
#else
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %4, 0;\n"
      "tcgen05.mma.cta_group::%5.kind::f8f6f4 [%0], %1, %2, %3, p;\n"
      "}" ::"r"(d),
      "l"(a.bits), "l"(b.bits), "r"(instruction.bits), "r"(static_cast<std::uint32_t>(accumulate)), "n"(kCtaGroup)
      : "memory");
#endif
}
template <int kCtaGroup>
MXCHECK_SM100_DEVICE void mma_f16(TmemAddress d, SharedDescriptor a, SharedDescriptor b,
                                  InstructionDescriptor instruction, bool accumulate) {
  static_assert(tmem_detail::kIsGroup<kCtaGroup>, "cta_group is 1 or 2");
#if MXCHECK_SM100_SOFTWARE
  mma_detail::mma(emulation::sm100::MmaKind::f16, kCtaGroup, d, a, b, instruction, 0, 0, accumulate);
#else
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %4, 0;\n"
      "tcgen05.mma.cta_group::%5.kind::f16 [%0], %1, %2, %3, p;\n"
      "}" ::"r"(d),
      "l"(a.bits), "l"(b.bits), "r"(instruction.bits), "r"(static_cast<std::uint32_t>(accumulate)), "n"(kCtaGroup)
      : "memory");
#endif
}

// --- shared memory to tensor memory
// --------------------------------------------------------------------------------------------

// Rows x bits. 32x128b always goes to the lanes of all four warps: scales.
using emulation::sm100::CpShape;

namespace mma_detail {
template <CpShape kShape>
struct CpText;
template <>
struct CpText<CpShape::rows32x128b_warpx4> {
  static constexpr char text[] = "32x128b.warpx4";
};
template <>
struct CpText<CpShape::rows128x128b> {
  static constexpr char text[] = "128x128b";
};
template <>
struct CpText<CpShape::rows128x256b> {
  static constexpr char text[] = "128x256b";
};
template <>
struct CpText<CpShape::rows4x256b> {
  static constexpr char text[] = "4x256b";
};
template <>
struct CpText<CpShape::rows64x128b_02_13> {
  static constexpr char text[] = "64x128b.warpx2::02_13";
};
template <>
struct CpText<CpShape::rows64x128b_01_23> {
  static constexpr char text[] = "64x128b.warpx2::01_23";
};
}  // namespace mma_detail

template <CpShape kShape, int kCtaGroup>
MXCHECK_SM100_DEVICE void cp(TmemAddress to, SharedDescriptor from) {
  static_assert(tmem_detail::kIsGroup<kCtaGroup>, "cta_group is 1 or 2");
#if MXCHECK_SM100_SOFTWARE
  emulation::sm100::cp(kShape, kCtaGroup, to, from.bits);
#else
  asm volatile("tcgen05.cp.cta_group::%2.%3 [%0], %1;" ::"r"(to), "l"(from.bits), "n"(kCtaGroup),
               "C"(mma_detail::CpText<kShape>::text)
               : "memory");
#endif
}

// --- completion
// ----------------------------------------------------------------------------------------------------------------

// One arrival at the own CTA's barrier when all earlier mma and cp of this thread are done. Contains
// fence_before_thread_sync.
template <int kCtaGroup>
MXCHECK_SM100_DEVICE void commit(SharedAddress barrier) {
  static_assert(tmem_detail::kIsGroup<kCtaGroup>, "cta_group is 1 or 2");
#if MXCHECK_SM100_SOFTWARE
  emulation::sm100::commit(kCtaGroup, barrier, 0);
#else
  asm volatile("tcgen05.commit.cta_group::%1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier),
               "n"(kCtaGroup)
               : "memory");
#endif
}
// One arrival at that place of each CTA of the mask (pair_mask, cluster.h). Its waits are at Scope::cluster.
template <int kCtaGroup>
MXCHECK_SM100_DEVICE void commit_multicast(SharedAddress barrier, std::uint16_t mask) {
  static_assert(tmem_detail::kIsGroup<kCtaGroup>, "cta_group is 1 or 2");
#if MXCHECK_SM100_SOFTWARE
  emulation::sm100::commit(kCtaGroup, barrier, mask);
#else
  asm volatile(
      "tcgen05.commit.cta_group::%2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(
          barrier),
      "h"(mask), "n"(kCtaGroup)
      : "memory");
#endif
}

}  // namespace mxcheck::sm100
