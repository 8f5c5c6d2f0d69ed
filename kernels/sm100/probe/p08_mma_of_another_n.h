#pragma once
// 8. Are mma of another N in order on one accumulator, without a wait between them?
//
// The PTX ISA keeps mma of the same shape in order, and says nothing of others. Four in a row, of N = 128, 64, 128, 64:
// the first overwrites, the others add; each has operands of its own. Columns below 64 are the sum of four, those from
// 64 on of two.

#include "kernels/sm100/probe/fixture.h"
#include "kernels/sm100/probe/judge.h"
#include "kernels/sm100/probe/operands.h"

namespace mxcheck::sm100::probe {
inline namespace MXCHECK_SM100_PROBE_BODY {

inline constexpr std::uint32_t kWaits = 1;  // Arguments::variant: a commit and a wait between

MXCHECK_SM100_KERNEL void mma_of_another_n(const MXCHECK_SM100_GRID_CONSTANT Arguments a) {
  constexpr InstructionDescriptor kWide = instruction_descriptor<ByteInstruction{.m = 128, .n = 128}>();
  constexpr InstructionDescriptor kNarrow = instruction_descriptor<ByteInstruction{.m = 128, .n = 64}>();
  const SharedAddress image = shared_base() + kImageAt;
  const TmemAddress tmem = open<1>(a);
  const SharedDescriptor rows_a = shared_descriptor<k_major(Swizzle::b128)>(image + kAAt);
  const SharedDescriptor rows_b = shared_descriptor<k_major(Swizzle::b128)>(image + kBAt);
  const auto step = [&](unsigned i) {
    mma_f8f6f4<1>(tmem, advance(rows_a, 32 * i), advance(rows_b, 32 * i), i % 2 == 0 ? kWide : kNarrow, i > 0);
  };
  Mismatches mismatches;
  for (unsigned round = 0; round < a.count; ++round) {
    if (a.variant == kWaits) {
      for (unsigned i = 0; i < 4; ++i) {
        issue_and_wait<1>(4 * round + i, [&] { step(i); });
        // A warp that is late at its wait must not miss the phase: parity alone tells it from the next but one.
        sync_tensor<1>();
      }
    } else {
      issue_and_wait<1>(round, [&] {
        for (unsigned i = 0; i < 4; ++i) step(i);
      });
    }
    compare_cells(tmem, a.words, round, mismatches);
    sync_tensor<1>();
  }
  write_mismatches(mismatches, a.out);
  close<1>(tmem);
}

// --- host
inline Report p08_mma_of_another_n(Launcher& launcher) {
  Report report(8, "mma of different N on one accumulator, without a wait between them: in order?");
  Image image(kScalesAAt);
  std::vector<float> sums(std::size_t{128} * 128);
  for (unsigned i = 0; i < 4; ++i) {
    const Operands o = draw(128, 128, -8, 17, 80 + i);
    image.put_rows(kAAt, o.a, 32 * i);
    image.put_rows(kBAt, o.b, 32 * i);
    for (int m = 0; m < 128; ++m) {
      for (int n = 0; n < (i % 2 == 0 ? 128 : 64); ++n) sums[cell_at(m, n, 128)] += o.value(m, n);
    }
  }
  std::vector<std::uint32_t> expected;
  for (const float sum : sums) expected.push_back(word_of(sum));
  const std::uint32_t rounds = launcher.repetitions(2, 100'000);
  const std::size_t all = std::size_t{rounds} * 128 * 128;
  for (const std::uint32_t variant : {kWaits, std::uint32_t{0}}) {
    const Outcome outcome = launcher.run({.kernel = &mma_of_another_n,
                                          .shared_bytes = kImageAt + image.bytes().size(),
                                          .arguments = {.count = rounds, .variant = variant},
                                          .image = image.bytes(),
                                          .words = expected,
                                          .out_words = kMismatchWords,
                                          .patience = 4});
    const std::string what = variant == kWaits ? "with a wait between" : "without";
    const std::string found = counts(total(outcome), all, "words wrong");
    if (variant == kWaits) {
      expect_model(report, what, outcome, total(outcome), all);
    } else {
      ask(report, what, outcome, found);
    }
    report.add_evidence(what, words_or_reason(outcome, found));
    add_first_mismatch(report, outcome, expected);
  }
  return report;
}

}  // namespace MXCHECK_SM100_PROBE_BODY
}  // namespace mxcheck::sm100::probe
