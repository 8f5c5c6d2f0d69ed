#pragma once
// 1. Is a tcgen05.cp ever executed before an earlier mma that reads the cells it writes?
//
// Production kernels issue mma, then cp onto the same scale columns, without a wait between them; the PTX ISA does not
// list the pair among those that stay in order (9.7.16.6.2). Eight of each in a row add up in one accumulator, with
// scales that grow: 2^0 for the first, 2^7 for the last, in A and in B. An mma that met a later cp's scales would have
// too large a product, and nothing could make up for it, as every product is positive.

#include "kernels/sm100/probe/fixture.h"
#include "kernels/sm100/probe/judge.h"
#include "kernels/sm100/probe/operands.h"

namespace mxcheck::sm100::probe {
inline namespace MXCHECK_SM100_PROBE_BODY {

inline constexpr unsigned kAlternations = 8;  // of a round

MXCHECK_SM100_KERNEL void cp_after_mma(const MXCHECK_SM100_GRID_CONSTANT Arguments a) {
  constexpr SharedLayout kRows128 = k_major(Swizzle::b128);
  const SharedAddress image = shared_base() + kImageAt;
  const TmemAddress tmem = open<1>(a);
  Mismatches mismatches;
  for (unsigned round = 0; round < a.count; ++round) {
    issue_and_wait<1>(round, [&] {
      const SharedDescriptor rows_a = shared_descriptor<kRows128>(image + kAAt);
      const SharedDescriptor rows_b = shared_descriptor<kRows128>(image + kBAt);
      for (unsigned i = 0; i < kAlternations; ++i) {
        const SharedAddress chunk = image + kScalesAAt + 1024 * i;
        cp<CpShape::rows32x128b_warpx4, 1>(tmem + 256, shared_descriptor<scale_chunk()>(chunk));
        cp<CpShape::rows32x128b_warpx4, 1>(tmem + 260, shared_descriptor<scale_chunk()>(chunk + 512));
        mma_block_scaled<1>(tmem, rows_a, rows_b, {a.instruction}, tmem + 256, tmem + 260, i > 0);
      }
    });
    compare_cells(tmem, a.words, round, mismatches);
    sync_tensor<1>();
  }
  write_mismatches(mismatches, a.out);
  close<1>(tmem);
}

// --- host
inline Report p01_cp_after_mma(Launcher& launcher) {
  Report report(1, "mma, then cp onto the scale columns that it reads: ever executed in another order?");
  // Sums of up to 32 * 4 * 4 * (4^8 - 1) / 3, below 2^24: exact.
  const Operands operands = draw(128, 128, 1, 4, 1);
  Image image(kScalesAAt + kAlternations * 1024);
  image.put_rows(kAAt, operands.a);
  image.put_rows(kBAt, operands.b);
  for (unsigned i = 0; i < kAlternations; ++i) {
    const std::vector<int> exponents(128, static_cast<int>(i));
    image.put_scales(kScalesAAt + 1024 * i, exponents);
    image.put_scales(kScalesAAt + 1024 * i + 512, exponents);
  }
  std::vector<std::uint32_t> expected(std::size_t{128} * 128);
  for (int m = 0; m < 128; ++m) {
    for (int n = 0; n < 128; ++n) expected[cell_at(m, n, 128)] = word_of(operands.value(m, n) * 21845.0F);
  }
  const std::uint32_t rounds = launcher.repetitions(2, 125'000);
  const Outcome outcome =
      launcher.run({.kernel = &cp_after_mma,
                    .shared_bytes = kImageAt + image.bytes().size(),
                    .arguments = {.instruction = instruction_descriptor<ScaledInstruction{.m = 128, .n = 128}>().bits,
                                  .count = rounds},
                    .image = image.bytes(),
                    .words = expected,
                    .out_words = kMismatchWords,
                    .patience = 4});
  const std::size_t all = std::size_t{rounds} * 128 * 128;
  expect_model(report, std::to_string(std::size_t{rounds} * kAlternations) + " alternations, each in order of issue",
               outcome, total(outcome), all);
  report.add_evidence("wrong words", words_or_reason(outcome, counts(total(outcome), all, "words")));
  add_first_mismatch(report, outcome, expected);
  return report;
}

}  // namespace MXCHECK_SM100_PROBE_BODY
}  // namespace mxcheck::sm100::probe
