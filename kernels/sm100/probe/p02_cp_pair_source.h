#pragma once
// 2. Which CTA's shared memory does tcgen05.cp.cta_group::2 read?
//
// One thread of the leader copies into both CTAs of the pair. The PTX ISA does not say from where; all code that there
// is expects each CTA's own, at the same offset. Here both have words of their own there.

#include "kernels/sm100/probe/fixture.h"
#include "kernels/sm100/probe/judge.h"
#include "kernels/sm100/probe/operands.h"

namespace mxcheck::sm100::probe {
inline namespace MXCHECK_SM100_PROBE_BODY {

MXCHECK_SM100_KERNEL void cp_pair_source(const MXCHECK_SM100_GRID_CONSTANT Arguments a) {
  const SharedAddress image = shared_base() + kImageAt;
  const TmemAddress tmem = open<2>(a);
  issue_and_wait<2>(0, [&] { cp<CpShape::rows32x128b_warpx4, 2>(tmem, shared_descriptor<scale_chunk()>(image)); });
  read_cells(tmem, 4, a.out + std::size_t{cluster_rank()} * 4 * 128);
  close<2>(tmem);
}

// --- host
inline Report p02_cp_pair_source(Launcher& launcher) {
  Report report(2, "tcgen05.cp.cta_group::2: which CTA's shared memory is copied?");
  const auto word = [](int rank, int lane, int column) {
    return static_cast<std::uint32_t>(rank + 1) << 24 | static_cast<std::uint32_t>(lane % 32 * 4 + column);
  };
  std::vector<std::uint8_t> image;
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < 128; ++i) {
      const std::uint32_t w = word(rank, i / 4, i % 4);
      for (int byte = 0; byte < 4; ++byte) image.push_back(static_cast<std::uint8_t>(w >> (8 * byte)));
    }
  }
  const Outcome outcome = launcher.run({.kernel = &cp_pair_source,
                                        .blocks = 2,
                                        .cluster = 2,
                                        .shared_bytes = kImageAt + 512,
                                        .arguments = {},
                                        .image = image,
                                        .out_words = std::size_t{2} * 4 * 128});
  std::size_t wrong = 0;
  for (int rank = 0; rank < 2 && !outcome.out.empty(); ++rank) {
    std::size_t own = 0, others = 0;
    for (int column = 0; column < 4; ++column) {
      for (int lane = 0; lane < 128; ++lane) {
        const std::uint32_t found = outcome.out[cell_at(lane, column, 4, rank)];
        own += found == word(rank, lane, column) ? 1 : 0;
        others += found == word(1 - rank, lane, column) ? 1 : 0;
      }
    }
    wrong += 512 - own;
    report.add_evidence("CTA of rank " + std::to_string(rank),
                        counts(own, 512, "words of its own, ") + std::to_string(others) +
                            " of the other's, the first " + hex(outcome.out[cell_at(0, 0, 4, rank)]));
  }
  expect_model(report, "each CTA's own, at the same offset", outcome, wrong, 1024);
  return report;
}

}  // namespace MXCHECK_SM100_PROBE_BODY
}  // namespace mxcheck::sm100::probe
