#pragma once
// Tensor memory: its allocation, and loads and stores between it and registers (PTX ISA, "tcgen05.alloc", "tcgen05.ld",
// "tcgen05.st"). Everything here is by a whole converged warp. A warp reaches the lanes 32 * (warp % 4) .. + 31 and
// every column.
//
// Rules of allocation that the caller keeps: the same warp id in both CTAs of a pair, no growing counts, relinquish
// when no more is wanted, everything freed before the CTA ends, with its own width. A kernel uses one kCtaGroup
// throughout: ptxas refuses two in one function.
//
// A load is done at tmem_wait_ld alone. It takes the fragments, so that no use of a register can be moved before it:
// the compiler sees them change there, and the emulation delivers there. Fences order what two threads do, they wait
// for nothing:
//   mma -> ld    commit; barrier_wait; fence_after_thread_sync; tmem_ld; tmem_wait_ld
//   ld -> mma    tmem_wait_ld; fence_before_thread_sync; barrier_arrive; elsewhere: barrier_wait;
//   fence_after_thread_sync; mma

#include <cstdint>

#include "kernels/sm100/tcgen05/shared.h"

#if !MXCHECK_SM100_SOFTWARE
  #include "kernels/sm100/tcgen05/registers.h"
#endif

namespace mxcheck::sm100 {

using TmemAddress = std::uint32_t;  // lane in 31:16, column in 15:0; a column is 32 bits wide

MXCHECK_SM100_ANYWHERE constexpr TmemAddress tmem_at(TmemAddress base, unsigned lane, unsigned column) {
  return base + (lane << 16) + column;
}

// --- allocation
// ----------------------------------------------------------------------------------------------------------------

namespace tmem_detail {
template <int kCtaGroup>
inline constexpr bool kIsGroup = kCtaGroup == 1 || kCtaGroup == 2;
template <unsigned kColumns>
inline constexpr bool kIsWidth = kColumns >= 32 && kColumns <= 512 && (kColumns & (kColumns - 1)) == 0;
}  // namespace tmem_detail

// Waits until the columns are free. Their address is in the 4 bytes at `slot` for those who synchronized with this warp
// after it.
template <int kCtaGroup, unsigned kColumns>
MXCHECK_SM100_DEVICE void tmem_alloc(SharedAddress slot) {
  static_assert(tmem_detail::kIsGroup<kCtaGroup>, "cta_group is 1 or 2");
  static_assert(tmem_detail::kIsWidth<kColumns>, "columns are a power of two in 32 .. 512");
#if MXCHECK_SM100_SOFTWARE
  emulation::sm100::tmem_alloc(kCtaGroup, slot, kColumns);
#else
  asm volatile("tcgen05.alloc.cta_group::%2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(slot), "n"(kColumns),
               "n"(kCtaGroup)
               : "memory");
#endif
}
template <int kCtaGroup, unsigned kColumns>
MXCHECK_SM100_DEVICE void tmem_dealloc(TmemAddress address) {
  static_assert(tmem_detail::kIsGroup<kCtaGroup>, "cta_group is 1 or 2");
  static_assert(tmem_detail::kIsWidth<kColumns>, "columns are a power of two in 32 .. 512");
#if MXCHECK_SM100_SOFTWARE
  emulation::sm100::tmem_dealloc(kCtaGroup, address, kColumns);
#else
  asm volatile("tcgen05.dealloc.cta_group::%2.sync.aligned.b32 %0, %1;" ::"r"(address), "n"(kColumns), "n"(kCtaGroup)
               : "memory");
#endif
}
// The CTA allocates no more: others of this SM may.
template <int kCtaGroup>
MXCHECK_SM100_DEVICE void tmem_relinquish() {
  static_assert(tmem_detail::kIsGroup<kCtaGroup>, "cta_group is 1 or 2");
#if MXCHECK_SM100_SOFTWARE
  emulation::sm100::tmem_relinquish(kCtaGroup);
#else
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::%0.sync.aligned;" ::"n"(kCtaGroup) : "memory");
#endif
}

// --- loads and stores
// ----------------------------------------------------------------------------------------------------------

// Lanes x bits of one access. lanes16x32bx2 has functions of its own: its instruction has one operand more.
enum class TmemShape : std::uint8_t { lanes32x32b, lanes16x64b, lanes16x128b, lanes16x256b };

// Registers of a thread, for .x1.
MXCHECK_SM100_ANYWHERE constexpr int tmem_registers(TmemShape shape) {
  return shape == TmemShape::lanes16x128b ? 2 : shape == TmemShape::lanes16x256b ? 4 : 1;
}
template <int kCount>
struct Fragment {
  static_assert(kCount >= 1 && kCount <= 128 && (kCount & (kCount - 1)) == 0, "an instruction has 1 to 128 registers");
  std::uint32_t r[kCount];
};
template <TmemShape kShape, int kNum>
using TmemFragment = Fragment<kNum * tmem_registers(kShape)>;

#if MXCHECK_SM100_SOFTWARE
static_assert(static_cast<int>(TmemShape::lanes32x32b) == static_cast<int>(emulation::sm100::TmemShape::lanes32x32b) &&
              static_cast<int>(TmemShape::lanes16x64b) == static_cast<int>(emulation::sm100::TmemShape::lanes16x64b) &&
              static_cast<int>(TmemShape::lanes16x128b) ==
                  static_cast<int>(emulation::sm100::TmemShape::lanes16x128b) &&
              static_cast<int>(TmemShape::lanes16x256b) == static_cast<int>(emulation::sm100::TmemShape::lanes16x256b));
#endif

namespace tmem_detail {

template <TmemShape kShape>
struct ShapeText;
template <>
struct ShapeText<TmemShape::lanes32x32b> {
  static constexpr char text[] = "32x32b";
};
template <>
struct ShapeText<TmemShape::lanes16x64b> {
  static constexpr char text[] = "16x64b";
};
template <>
struct ShapeText<TmemShape::lanes16x128b> {
  static constexpr char text[] = "16x128b";
};
template <>
struct ShapeText<TmemShape::lanes16x256b> {
  static constexpr char text[] = "16x256b";
};
template <bool kPacks>
struct PackText {
  static constexpr char load[] = "";
  static constexpr char store[] = "";
};
template <>
struct PackText<true> {
  static constexpr char load[] = ".pack::16b";
  static constexpr char store[] = ".unpack::16b";
};

}  // namespace tmem_detail

#if !MXCHECK_SM100_SOFTWARE
   // One asm statement for N registers: %N is the address, %(N + 1) the shape, %(N + 2) the .xN, %(N + 3) the packing
   // or
  // half split.
  #define MXCHECK_SM100_LD(N)                                                                                  \
    asm volatile("tcgen05.ld.sync.aligned." MXCHECK_SM100_OTHER_##N##_1                                        \
                 ".x" MXCHECK_SM100_OTHER_##N##_2 MXCHECK_SM100_OTHER_##N##_3 ".b32 {" MXCHECK_SM100_NAMES_##N \
                 "}, [" MXCHECK_SM100_OTHER_##N##_0 "];"                                                       \
                 : MXCHECK_SM100_REGISTERS_##N("=r", to, 0)                                                    \
                 : "r"(address), "C"(tmem_detail::ShapeText<kShape>::text), "n"(kNum),                         \
                   "C"(tmem_detail::PackText<kPack16>::load)                                                   \
                 : "memory")
  #define MXCHECK_SM100_ST(N)                                                                                      \
    asm volatile("tcgen05.st.sync.aligned." MXCHECK_SM100_OTHER_##N##_1                                            \
                 ".x" MXCHECK_SM100_OTHER_##N##_2 MXCHECK_SM100_OTHER_##N##_3 ".b32 [" MXCHECK_SM100_OTHER_##N##_0 \
                 "], {" MXCHECK_SM100_NAMES_##N "};" ::MXCHECK_SM100_REGISTERS_##N("r", from, 0),                  \
                 "r"(address), "C"(tmem_detail::ShapeText<kShape>::text), "n"(kNum),                               \
                 "C"(tmem_detail::PackText<kUnpack16>::store)                                                      \
                 : "memory")
  #define MXCHECK_SM100_LD_HALVES(N)                                                                               \
    asm volatile("tcgen05.ld.sync.aligned.16x32bx2.x" MXCHECK_SM100_OTHER_##N##_1 ".b32 {" MXCHECK_SM100_NAMES_##N \
                 "}, [" MXCHECK_SM100_OTHER_##N##_0 "], " MXCHECK_SM100_OTHER_##N##_2 ";"                          \
                 : MXCHECK_SM100_REGISTERS_##N("=r", to, 0)                                                        \
                 : "r"(address), "n"(N), "n"(kHalfSplit)                                                           \
                 : "memory")
  #define MXCHECK_SM100_ST_HALVES(N)                                                                                   \
    asm volatile("tcgen05.st.sync.aligned.16x32bx2.x" MXCHECK_SM100_OTHER_##N##_1 ".b32 [" MXCHECK_SM100_OTHER_##N##_0 \
                 "], " MXCHECK_SM100_OTHER_##N##_2 ", {" MXCHECK_SM100_NAMES_##N                                       \
                 "};" ::MXCHECK_SM100_REGISTERS_##N("r", from, 0),                                                     \
                 "r"(address), "n"(N), "n"(kHalfSplit)                                                                 \
                 : "memory")
  #define MXCHECK_SM100_BY_COUNT(STATEMENT, COUNT) \
    if constexpr ((COUNT) == 1)                    \
      STATEMENT(1);                                \
    else if constexpr ((COUNT) == 2)               \
      STATEMENT(2);                                \
    else if constexpr ((COUNT) == 4)               \
      STATEMENT(4);                                \
    else if constexpr ((COUNT) == 8)               \
      STATEMENT(8);                                \
    else if constexpr ((COUNT) == 16)              \
      STATEMENT(16);                               \
    else if constexpr ((COUNT) == 32)              \
      STATEMENT(32);                               \
    else if constexpr ((COUNT) == 64)              \
      STATEMENT(64);                               \
    else                                           \
      STATEMENT(128)
#endif

// `to` holds the cells after tmem_wait_ld(to) and is not touched before. kPack16: a register has the low halves of two
// columns.
template <TmemShape kShape, int kNum, bool kPack16 = false>
MXCHECK_SM100_DEVICE void tmem_ld(TmemFragment<kShape, kNum>& to, TmemAddress address) {
#if MXCHECK_SM100_SOFTWARE
  emulation::sm100::tmem_ld(static_cast<emulation::sm100::TmemShape>(kShape), kNum, kPack16, address, to.r);
#else
  constexpr int kCount = kNum * tmem_registers(kShape);
  MXCHECK_SM100_BY_COUNT(MXCHECK_SM100_LD, kCount);
#endif
}
template <TmemShape kShape, int kNum, bool kUnpack16 = false>
MXCHECK_SM100_DEVICE void tmem_st(TmemAddress address, const TmemFragment<kShape, kNum>& from) {
#if MXCHECK_SM100_SOFTWARE
  emulation::sm100::tmem_st(static_cast<emulation::sm100::TmemShape>(kShape), kNum, kUnpack16, address, from.r);
#else
  constexpr int kCount = kNum * tmem_registers(kShape);
  MXCHECK_SM100_BY_COUNT(MXCHECK_SM100_ST, kCount);
#endif
}
// Shape 16x32bx2: threads 16 to 31 have the columns from kHalfSplit on.
template <int kNum, unsigned kHalfSplit>
MXCHECK_SM100_DEVICE void tmem_ld_halves(Fragment<kNum>& to, TmemAddress address) {
#if MXCHECK_SM100_SOFTWARE
  emulation::sm100::tmem_ld(emulation::sm100::TmemShape::lanes16x32bx2, kNum, false, address, to.r, kHalfSplit);
#else
  MXCHECK_SM100_BY_COUNT(MXCHECK_SM100_LD_HALVES, kNum);
#endif
}
template <int kNum, unsigned kHalfSplit>
MXCHECK_SM100_DEVICE void tmem_st_halves(TmemAddress address, const Fragment<kNum>& from) {
#if MXCHECK_SM100_SOFTWARE
  emulation::sm100::tmem_st(emulation::sm100::TmemShape::lanes16x32bx2, kNum, false, address, from.r, kHalfSplit);
#else
  MXCHECK_SM100_BY_COUNT(MXCHECK_SM100_ST_HALVES, kNum);
#endif
}

#if !MXCHECK_SM100_SOFTWARE
  #undef MXCHECK_SM100_LD
  #undef MXCHECK_SM100_ST
  #undef MXCHECK_SM100_LD_HALVES
  #undef MXCHECK_SM100_ST_HALVES
  #undef MXCHECK_SM100_BY_COUNT
#endif

namespace tmem_detail {
// Pins the registers behind what was volatile before: the compiler takes them for changed here. One statement a
// register, after the wait: as operands of the wait itself the compiler could copy them before it.
template <int kCount>
MXCHECK_SM100_DEVICE void pin([[maybe_unused]] Fragment<kCount>& fragment) {
#if !MXCHECK_SM100_SOFTWARE
  #pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(fragment.r[i])::"memory");
#endif
}
}  // namespace tmem_detail

// Until all of this thread's loads are done. Takes every fragment that is loaded and not yet waited for.
template <int... kCounts>
MXCHECK_SM100_DEVICE void tmem_wait_ld(Fragment<kCounts>&... fragments) {
  static_assert(sizeof...(kCounts) > 0, "name the fragments that were loaded: their use is pinned after the wait");
#if MXCHECK_SM100_SOFTWARE
  emulation::sm100::tmem_wait_ld();
#else
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
#endif
  (tmem_detail::pin(fragments), ...);
}
MXCHECK_SM100_DEVICE void tmem_wait_st() {
#if MXCHECK_SM100_SOFTWARE
  emulation::sm100::tmem_wait_st();
#else
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
#endif
}

// --- order between threads
// -----------------------------------------------------------------------------------------------------

// Before the arrival that tells another thread. A commit contains it.
MXCHECK_SM100_DEVICE void fence_before_thread_sync() {
#if MXCHECK_SM100_SOFTWARE
  emulation::sm100::fence_before_thread_sync();
#else
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
#endif
}
// After the wait, before this thread's own tcgen05 instructions.
MXCHECK_SM100_DEVICE void fence_after_thread_sync() {
#if MXCHECK_SM100_SOFTWARE
  emulation::sm100::fence_after_thread_sync();
#else
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
#endif
}

}  // namespace mxcheck::sm100
