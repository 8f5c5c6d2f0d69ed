// Kernels of a few instructions with mma of FP4: where the codes and scales of a row lie, in every swizzle and for
// every kind; and what is found where scales are not there, not in order, or not read as the kind reads them.

#include <array>
#include <bit>
#include <cstdint>

#include "tests/emulation/sm100/micro.h"

namespace mxcheck::sm100::test {
namespace {

constexpr unsigned kN = 32;
constexpr unsigned kStepBytes = 32;
constexpr unsigned kMatrix = 128 * 128;  // bytes: 128 rows in the widest swizzle
constexpr unsigned kAt = 1024;           // A, then B, then a chunk of scales of each
constexpr unsigned kScalesAt = kAt + 2 * kMatrix;
constexpr LaunchShape kFp4Shape{.threads = 128, .shared_bytes = kScalesAt + 1024};

// Nibble k of row r: 0.5 to 6, of both signs.
constexpr unsigned code_at(unsigned row, unsigned k) { return (row * 5 + k * 3 + row * k) % 15 + 1; }
constexpr double value_of(unsigned code) {
  constexpr std::array<double, 8> kValues{0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return (code & 8U) != 0 ? -kValues[code & 7U] : kValues[code];
}
// Scale byte j of row r of A (0) or B (1), a power of two of either format, and its value.
constexpr unsigned exponent_at(unsigned matrix, unsigned row, unsigned j) { return (row * 3 + j * 5 + matrix) % 4; }
constexpr unsigned scale_byte(bool ue4m3, unsigned exponent) { return ue4m3 ? (7 + exponent) << 3 : 127 + exponent; }

// B's rows have other codes than A's, so that exchanged operands show.
constexpr unsigned b_row(unsigned n) { return n + 200; }

// Where byte `at` of a row lies, by the PTX ISA's figures: eight rows of a span, XOR of the address.
unsigned place(unsigned span, unsigned row, unsigned at) {
  if (span == 16) return row / 8 * 256 + row % 8 * 16 + at / 16 * 128 + at % 16;
  const unsigned offset = row * span + at;
  const unsigned bits = span == 128 ? 7 : span == 64 ? 3 : 1;
  return offset ^ ((offset >> 7 & bits) << 4);
}

// By warp 0: matrices and scales of one step.
void write_step(unsigned span, bool ue4m3) {
  const auto write = [](unsigned at, const auto& byte) {
    std::uint32_t word = 0;
    for (unsigned i = 0; i < 4; ++i) word |= byte(i) << (8 * i);
    store_shared(shared_base() + at, word);
  };
  for (unsigned i = 4 * lane_index(); i < (128 + kN) * kStepBytes; i += 4 * kWarpThreads) {
    const unsigned row = i / kStepBytes;
    const bool is_a = row < 128;
    const unsigned r = is_a ? row : b_row(row - 128);
    const unsigned k = 2 * (i % kStepBytes);
    write(kAt + (is_a ? 0 : kMatrix) + place(span, is_a ? row : row - 128, i % kStepBytes),
          [&](unsigned j) { return code_at(r, k + 2 * j) | code_at(r, k + 2 * j + 1) << 4; });
  }
  for (unsigned i = lane_index(); i < 2 * 128; i += kWarpThreads) {
    const unsigned row = i % 128;
    write(kScalesAt + i / 128 * 512 + row % 32 * 16 + row / 32 * 4,
          [&](unsigned j) { return scale_byte(ue4m3, exponent_at(i / 128, row, j)); });
  }
  fence_proxy_async();
}

// The element of D, with the scales from byte `id` on; exact in FP32.
double sum_of_row(MmaKind kind, unsigned m, unsigned n, unsigned id) {
  const unsigned groups = kind == MmaKind::mxf4nvf4_block16 ? 4 : 2;
  double sum = 0;
  for (unsigned k = 0; k < 64; ++k) {
    const unsigned j = id + k / (64 / groups);
    sum += static_cast<double>(1U << (exponent_at(0, m, j) + exponent_at(1, n, j))) * value_of(code_at(m, k)) *
           value_of(code_at(b_row(n), k));
  }
  return sum;
}

template <MmaKind kKind, SharedLayout kLayout>
Kernel multiply_a_step(unsigned span, unsigned id) {
  return [span, id] {
    constexpr bool kUe4m3 = kKind == MmaKind::mxf4nvf4_block16;
    constexpr InstructionDescriptor kMma = instruction_descriptor<Fp4Instruction{
        .m = 128, .n = kN, .scales = kUe4m3 ? ScaleFormat::ue4m3 : ScaleFormat::ue8m0}>();
    const TmemAddress tmem = open({1});
    if (warp_index() == 0) write_step(span, kUe4m3);
    sync_block();
    if (warp_index() == 1) {
      role("mma");
      by_elected([&] {
        cp<CpShape::rows32x128b_warpx4, 1>(tmem + kScaleColumn, chunk(kScalesAt));
        cp<CpShape::rows32x128b_warpx4, 1>(tmem + kScaleColumn + 4, chunk(kScalesAt + 512));
        mma_fp4<kKind, 1>(tmem, shared_descriptor<kLayout>(shared_base() + kAt),
                          shared_descriptor<kLayout>(shared_base() + kAt + kMatrix), with_scale_ids(kMma, id, id),
                          tmem + kScaleColumn, tmem + kScaleColumn + 4, false);
        commit<1>(barrier(0));
      });
    }
    wait_and_fence<Scope::cta>(barrier(0), 0);
    Fragment<kN> d;
    tmem_ld<TmemShape::lanes32x32b, kN>(d, slab(tmem));
    tmem_wait_ld(d);
    for (unsigned n = 0; n < kN; ++n) {
      const unsigned m = thread_index();
      EXPECT_EQ(std::bit_cast<float>(d.r[n]), static_cast<float>(sum_of_row(kKind, m, n, id))) << m << " " << n;
    }
    close(tmem);
  };
}

template <MmaKind kKind>
void expect_right_in_every_swizzle(unsigned id) {
  expect_right(kFp4Shape, multiply_a_step<kKind, k_major_unswizzled(128, 256)>(16, id));
  expect_right(kFp4Shape, multiply_a_step<kKind, k_major(Swizzle::b32)>(32, id));
  expect_right(kFp4Shape, multiply_a_step<kKind, k_major(Swizzle::b64)>(64, id));
  expect_right(kFp4Shape, multiply_a_step<kKind, k_major(Swizzle::b128)>(128, id));
}

TEST(Fp4, blocks_of_16_have_the_four_bytes_of_a_word_in_every_swizzle) {
  expect_right_in_every_swizzle<MmaKind::mxf4nvf4_block16>(0);
}
TEST(Fp4, blocks_of_32_have_two_bytes_of_a_word) {
  for (const unsigned id : {0U, 2U}) {
    expect_right(kFp4Shape, multiply_a_step<MmaKind::mxf4nvf4_block32, k_major(Swizzle::b32)>(32, id));
    expect_right(kFp4Shape, multiply_a_step<MmaKind::mxf4, k_major(Swizzle::b128)>(128, id));
  }
}

constexpr InstructionDescriptor kSmallNvfp4 = instruction_descriptor<Fp4Instruction{.m = 128, .n = 16}>();
void small_nvfp4_mma(TmemAddress tmem, InstructionDescriptor instruction = kSmallNvfp4) {
  mma_fp4<MmaKind::mxf4nvf4_block16, 1>(tmem, matrix(kA), matrix(kB), instruction, tmem + kScaleColumn,
                                        tmem + kScaleColumn + 4, false);
}

// By one lane of warp 0: the copies of scales, or not, and the mma.
Kernel with_mma(bool copies, InstructionDescriptor instruction) {
  return [copies, instruction] {
    const TmemAddress tmem = open({1});
    role("mma");
    if (warp_index() == 0) {
      by_elected([&] {
        if (copies) small_cp(tmem);
        small_nvfp4_mma(tmem, instruction);
        commit<1>(barrier(0));
      });
    }
    close_after<Scope::cta>(barrier(0), 0, tmem);
  };
}

TEST(Fp4, a_step_whose_scales_are_copied_is_right) { expect_right(kOneWarp, with_mma(true, kSmallNvfp4)); }

TEST(Fp4, scales_that_nothing_has_written_are_found) {
  expect_fault(kOneWarp, Hazard::uninitialized,
               {"(mma)", "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block16", "scales of A: column 32, lane 0"},
               with_mma(false, kSmallNvfp4));
}

TEST(Fp4, scale_ids_of_the_other_kinds_are_found) {
  expect_fault(kOneWarp, Hazard::descriptor, {"bits 30:29 = 1", "the 4 scales of a row of A begin: 0 is right"},
               with_mma(true, with_scale_ids(kSmallNvfp4, 1, 0)));
  expect_fault(kOneWarp, Hazard::descriptor, {"bits 5:4 = 2", "the 4 scales of a row of B begin: 0 is right"},
               with_mma(true, with_scale_ids(kSmallNvfp4, 0, 2)));
}

TEST(Fp4, the_descriptor_of_mxfp8_is_found) {
  expect_fault(kOneWarp, Hazard::descriptor, {"bits 9:7 = 0", "no format of A: E2M1 is 1"},
               with_mma(true, kSmallScaled));
}

// All four bytes of a word are read: a partition that differs in the last of them alone is found.
TEST(Fp4, a_partition_that_differs_in_one_byte_is_found) {
  expect_fault({.threads = 128, .shared_bytes = kSmallBytes}, Hazard::scale_copies,
               {"(mma)", "scales of B of row 0: partitions 0 and 3 of cta 0 differ"}, [] {
                 const TmemAddress tmem = open({1});
                 Fragment<8> words;
                 for (unsigned i = 0; i < 8; ++i) words.r[i] = i >= 4 && warp_index() == 3 ? 0x40383838 : 0x38383838;
                 tmem_st<TmemShape::lanes32x32b, 8>(slab(tmem, kScaleColumn), words);
                 tmem_wait_st();
                 fence_before_thread_sync();
                 sync_block();
                 fence_after_thread_sync();
                 role("mma");
                 if (warp_index() == 0) {
                   by_elected([&] {
                     small_nvfp4_mma(tmem);
                     commit<1>(barrier(0));
                   });
                 }
                 close_after<Scope::cta>(barrier(0), 0, tmem);
               });
}

// Warp 1 copies the scales and warp 0 multiplies: fences and a barrier between.
TEST(Fp4, scales_copied_by_another_thread_need_a_fence_on_either_side) {
  const auto kernel = [](bool before, bool after) {
    return [before, after] {
      const TmemAddress tmem = open({1, 1, 1});
      if (warp_index() == 1) {
        role("copy");
        by_elected([&] {
          small_cp(tmem);
          if (before) fence_before_thread_sync();
          barrier_arrive<Scope::cta>(barrier(0));
          commit<1>(barrier(2));
        });
      } else {
        role("mma");
        by_elected([&] {
          barrier_wait<Scope::cta>(barrier(0), 0);
          if (after) fence_after_thread_sync();
          small_nvfp4_mma(tmem);
          commit<1>(barrier(1));
        });
      }
      wait_and_fence<Scope::cta>(barrier(2), 0);
      close_after<Scope::cta>(barrier(1), 0, tmem);
    };
  };
  const LaunchResult right = launch(kTwoWarps, {}, kernel(true, true));
  EXPECT_TRUE(right.completed && right.findings.empty()) << text_of(right);
  for (const bool before : {true, false}) {
    expect_fault(kTwoWarps, Hazard::not_ordered,
                 {"(mma)", "scales of A: column 32, lane 0", "written by another thread",
                  "fence::before_thread_sync there, a barrier, and fence::after_thread_sync here"},
                 kernel(before, !before));
  }
}

}  // namespace
}  // namespace mxcheck::sm100::test
