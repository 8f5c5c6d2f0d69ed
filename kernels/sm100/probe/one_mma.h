#pragma once
// One MMA of one step of k, from the operands' places in the image (operands.h) into D: what probes 3, 5, 6, 9 and 10
// vary.

#include "kernels/sm100/probe/fixture.h"
#include "kernels/sm100/probe/judge.h"
#include "kernels/sm100/probe/operands.h"

namespace mxcheck::sm100::probe {
inline namespace MXCHECK_SM100_PROBE_BODY {

// Arguments::variant: a kind, and any of the others.
inline constexpr std::uint32_t kScaledKind = 0, kByteKind = 1, kHalfKind = 2, kKindMask = 3;
inline constexpr std::uint32_t kAccumulates = 4;
inline constexpr std::uint32_t kStoresD = 8;        // `words` into D before: [columns][128 lanes]
inline constexpr std::uint32_t kStoresScales = 16;  // `words` by tcgen05.st, not the image's by tcgen05.cp: [12][128]

// Columns: D, A's scales, B's scales.
inline constexpr unsigned kScaleColumnA = 256, kScaleColumnB = 260;

template <int kGroup>
MXCHECK_SM100_KERNEL void one_mma(const MXCHECK_SM100_GRID_CONSTANT Arguments a) {
  constexpr SharedLayout kRows128 = k_major(Swizzle::b128);
  const SharedAddress image = shared_base() + kImageAt;
  const TmemAddress tmem = open<kGroup>(a);
  const std::uint32_t kind = a.variant & kKindMask;
  if ((a.variant & (kStoresD | kStoresScales)) != 0) {
    if ((a.variant & kStoresD) != 0) {
      write_cells(tmem, a.columns, a.words);
    } else {
      write_cells(tmem + kScaleColumnA, 12, a.words);
    }
    sync_tensor<kGroup>();
  }
  issue_and_wait<kGroup>(0, [&] {
    if (kind == kScaledKind && (a.variant & kStoresScales) == 0) {
      const unsigned chunks[] = {kScalesAAt, kScalesBAt, kScalesBAt + 512};
      for (unsigned i = 0; i < 3; ++i) {
        cp<CpShape::rows32x128b_warpx4, kGroup>(tmem + kScaleColumnA + 4 * i,
                                                shared_descriptor<scale_chunk()>(image + chunks[i]));
      }
    }
    SharedDescriptor rows_a = shared_descriptor<kRows128>(image + kAAt);
    rows_a.bits += a.a_extra;
    const SharedDescriptor rows_b = shared_descriptor<kRows128>(image + kBAt);
    const InstructionDescriptor instruction{a.instruction};
    const bool accumulates = (a.variant & kAccumulates) != 0;
    if (kind == kScaledKind) {
      mma_block_scaled<kGroup>(tmem, rows_a, rows_b, instruction, tmem + kScaleColumnA, tmem + kScaleColumnB,
                               accumulates);
    } else if (kind == kByteKind) {
      mma_f8f6f4<kGroup>(tmem, rows_a, rows_b, instruction, accumulates);
    } else {
      mma_f16<kGroup>(tmem, rows_a, rows_b, instruction, accumulates);
    }
  });
  read_cells(tmem, a.columns, a.out + static_cast<std::size_t>(rank_in_pair<kGroup>()) * a.columns * 128);
  close<kGroup>(tmem);
}

// --- host

// N of a descriptor: what the thin layer takes at compile time alone, as it has no wrong ones.
inline std::uint32_t with_n(InstructionDescriptor i, int n) {
  return (i.bits & ~(0x3FU << 17)) | static_cast<std::uint32_t>(n / 8) << 17;
}

// `columns` is a multiple of 4: N, or N / 2 where a pair's M is 128.
inline Outcome run_one_mma(Launcher& launcher, int group, std::vector<std::uint8_t> image, std::uint32_t instruction,
                           std::uint32_t variant, int columns, std::vector<std::uint32_t> words = {},
                           std::uint64_t a_extra = 0) {
  Launch launch{.kernel = group == 2 ? Kernel{&one_mma<2>} : Kernel{&one_mma<1>},
                .blocks = static_cast<unsigned>(group),
                .cluster = static_cast<unsigned>(group),
                .shared_bytes = kImageAt + kOperandBytes,
                .arguments = {.a_extra = a_extra,
                              .instruction = instruction,
                              .variant = variant,
                              .columns = static_cast<std::uint32_t>(columns)},
                .image = std::move(image),
                .words = std::move(words),
                .out_words = static_cast<std::size_t>(group) * static_cast<std::size_t>(columns) * 128};
  return launcher.run(launch);
}

}  // namespace MXCHECK_SM100_PROBE_BODY
}  // namespace mxcheck::sm100::probe
