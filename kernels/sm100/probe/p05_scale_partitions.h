#pragma once
// 5. Which of the four copies of a scale is read for which part of D?
//
// Scales are in all four partitions of 32 lanes. Here each partition has a factor of its own, 2^0 to 2^3, on the scales
// of one operand: the quotient of a word of D and its right value names the partition.

#include "kernels/sm100/probe/one_mma.h"

namespace mxcheck::sm100::probe {
inline namespace MXCHECK_SM100_PROBE_BODY {

// Cells of scales as tcgen05.st writes them: [12 columns][128 lanes].
inline std::vector<std::uint32_t> scale_cells(bool differ_a, bool differ_b) {
  std::vector<std::uint32_t> words(std::size_t{12} * 128);
  for (int column = 0; column < 12; ++column) {
    for (int lane = 0; lane < 128; ++lane) {
      const bool differs = column < 4 ? differ_a : differ_b;
      const auto code = static_cast<std::uint32_t>(127 + (differs ? lane / 32 : 0));
      words[cell_at(lane, column, 12)] = code * 0x01010101U;
    }
  }
  return words;
}

inline Report p05_scale_partitions(Launcher& launcher) {
  Report report(5, "copies of a scale that differ: which partition is read for which part of D?");
  const Operands o = draw(128, 128, 1, 8, 5);
  const std::uint32_t instruction = instruction_descriptor<ScaledInstruction{.m = 128, .n = 128}>().bits;
  const auto run = [&](bool a, bool b) {
    return run_one_mma(launcher, 1, image_of(o).bytes(), instruction, kScaledKind | kStoresScales, 128,
                       scale_cells(a, b));
  };
  // 0 to 3 for 32 x 32 words whose factor is one partition's, ? for others: by rows of 32 lanes, four of 32 columns.
  const auto partitions = [&](const Outcome& outcome) {
    std::string text;
    for (int block = 0; block < 16 && !outcome.out.empty(); ++block) {
      int found = -1;
      for (int i = 0; i < 32 * 32; ++i) {
        const int m = block / 4 * 32 + i / 32;
        const int n = block % 4 * 32 + i % 32;
        int partition = 0;
        while (partition < 4 && outcome.out[cell_at(m, n, 128)] != word_of(std::ldexp(o.value(m, n), partition))) {
          ++partition;
        }
        found = found == -1 || found == partition ? partition : 4;
      }
      text += std::string(block == 0 ? "" : block % 4 == 0 ? " / " : " ") + "0123?"[found];
    }
    return text;
  };
  const Outcome equal = run(false, false);
  std::size_t wrong = 0;
  for (int m = 0; m < 128 && !equal.out.empty(); ++m) {
    for (int n = 0; n < 128; ++n) wrong += equal.out[cell_at(m, n, 128)] == word_of(o.value(m, n)) ? 0 : 1;
  }
  expect_model(report, "equal copies", equal, wrong, std::size_t{128} * 128);
  for (const bool of_a : {true, false}) {
    const std::string what = of_a ? "copies of A's scales that differ" : "copies of B's scales that differ";
    const Outcome outcome = run(of_a, !of_a);
    const std::string found = partitions(outcome);
    ask(report, what, outcome, "partitions read, by blocks of 32 x 32 of D: " + found);
    report.add_evidence(what, words_or_reason(outcome, found));
  }
  return report;
}

}  // namespace MXCHECK_SM100_PROBE_BODY
}  // namespace mxcheck::sm100::probe
