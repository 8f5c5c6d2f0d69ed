#pragma once
// Probes 1, 2 and 5: tcgen05.cp, and the scales that it copies.

#include "tests/kernels/sm100/probe/fixture.h"
#include "tests/kernels/sm100/probe/launcher.h"

namespace mxcheck::sm100::probe {

// --- probe 1
// 1. Is a tcgen05.cp ever executed before an earlier mma that reads the cells it writes?
//
// Production kernels issue mma, then cp onto the same scale columns, without a wait between them; the PTX ISA does not
// list the pair among those that stay in order (9.7.16.6.2). Eight of each in a row add up in one accumulator, with
// scales that grow: 2^0 for the first, 2^7 for the last, in A and in B. An mma that met a later cp's scales would have
// too large a product, and nothing could make up for it, as every product is positive.

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

// --- probe 2
// 2. Which CTA's shared memory does tcgen05.cp.cta_group::2 read?
//
// One thread of the leader copies into both CTAs of the pair. The PTX ISA does not say from where; all code that there
// is expects each CTA's own, at the same offset. Here both have words of their own there.

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

// --- probe 5
// 5. Which of the four copies of a scale is read for which part of D?
//
// Scales are in all four partitions of 32 lanes. Here each partition has a factor of its own, 2^0 to 2^3, on the scales
// of one operand: the quotient of a word of D and its right value names the partition.

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
