#pragma once
// Probes 3 and 8 to 11: the forms of tcgen05.mma, and their words.

#include <cstdint>
#include <iterator>
#include <vector>

#include "tests/kernels/sm100/probe/fixture.h"
#include "tests/kernels/sm100/probe/golden_words.h"
#include "tests/kernels/sm100/probe/launcher.h"

namespace mxcheck::sm100::probe {

// --- probe 3
// 3. Which N has kind::mxf8f6f4, for one CTA and for a pair? And how are B's scales split where a pair's M is 128?
//
// The table of shapes in the PTX ISA reads as multiples of 8 and 16; others assert 16 and 32. ptxas checks none of it.
// Every multiple of 8 is run on its own, as a wrong one may be an illegal instruction. With M = 128 a pair has 64 rows
// in each CTA, and columns from N / 2 on in lanes 64 to 127 (layout B).

inline namespace MXCHECK_SM100_PROBE_BODY {

// The images of both CTAs of a pair, or of one: A's rows in halves, B's rows in halves, all of B's scales in both.
inline std::vector<std::uint8_t> images_of_pair(const Operands& o, int group) {
  std::vector<std::uint8_t> all;
  for (int rank = 0; rank < group; ++rank) {
    const auto part = [&](const std::vector<int>& all_of_it) {
      const std::size_t count = all_of_it.size() / static_cast<std::size_t>(group);
      return std::span<const int>(all_of_it).subspan(count * static_cast<std::size_t>(rank), count);
    };
    Image image(kOperandBytes);
    image.put_rows(kAAt, part(o.a));
    image.put_rows(kBAt, part(o.b));
    image.put_scales(kScalesAAt, part(o.exponents_a));
    image.put_scales(kScalesBAt, o.exponents_b);
    all.insert(all.end(), image.bytes().begin(), image.bytes().end());
  }
  return all;
}

inline std::uint32_t scaled_instruction(int group, int m, int n) {
  if (group == 1) return with_n(instruction_descriptor<ScaledInstruction{.m = 128, .n = 256}>(), n);
  return with_n(m == 256 ? instruction_descriptor<ScaledInstruction{.m = 256, .n = 256, .cta_group = 2}>()
                         : instruction_descriptor<ScaledInstruction{.m = 128, .n = 256, .cta_group = 2}>(),
                n);
}

// Words that are wrong. `scale_of(n)` is the row of B whose scale column n has.
template <class ScaleOf>
std::size_t wrong_words(const Operands& o, const Outcome& outcome, int group, const ScaleOf& scale_of) {
  std::size_t wrong = 0;
  const bool half = group == 2 && o.rows == 128;
  const int columns = half ? o.columns / 2 : o.columns;
  const int rows = o.rows / group;
  for (int m = 0; m < o.rows && !outcome.out.empty(); ++m) {
    for (int n = 0; n < o.columns; ++n) {
      const int lane = m % rows + (half && n >= columns ? 64 : 0);
      const float right = std::ldexp(o.value(m, n), o.exponents_a[static_cast<std::size_t>(m)] +
                                                        o.exponents_b[static_cast<std::size_t>(scale_of(n))]);
      wrong += outcome.out[cell_at(lane, n % columns, columns, m / rows)] == word_of(right) ? 0 : 1;
    }
  }
  return wrong;
}

inline Report p03_n_steps(Launcher& launcher) {
  Report report(3, "kind::mxf8f6f4: which N, of one CTA and of a pair; B's scales where a pair's M is 128");
  for (const int group : {1, 2}) {
    const int step = 8 * group;  // of the model
    const std::string who = group == 1 ? "one CTA" : "a pair";
    std::size_t model_wrong = 0, model_words = 0;
    Outcome model{.state = Outcome::State::ran, .text = "", .out = {}};
    Outcome others{.state = Outcome::State::ran, .text = "", .out = {}};
    std::string right, other;
    for (int n = 8; n <= 256; n += 8) {
      const Operands o = draw(128 * group, n, -8, 17, static_cast<std::uint32_t>(n));
      const Outcome outcome =
          run_one_mma(launcher, group, images_of_pair(o, group), scaled_instruction(group, 128 * group, n), 0, n);
      const std::size_t wrong = wrong_words(o, outcome, group, [](int column) { return column; });
      const bool ran = outcome.state == Outcome::State::ran;
      const std::string result =
          ran ? counts(wrong, static_cast<std::size_t>(128 * group * n), "words wrong") : outcome.text;
      if (n % step == 0) {
        model_wrong += wrong;
        model_words += static_cast<std::size_t>(128 * group * n);
        if (!ran && model.state == Outcome::State::ran) {
          model = {outcome.state, std::string("N = ").append(std::to_string(n)).append(": ").append(result), {}};
        }
        if (!ran || wrong != 0) report.add_evidence(who + ", N = " + std::to_string(n), result);
        continue;
      }
      if (ran && wrong == 0) right += (right.empty() ? "" : ", ") + std::to_string(n);
      if (outcome.state == Outcome::State::refused) {
        others = {outcome.state, outcome.text, {}};
      } else {
        other.append(other.empty() ? "" : ", ").append(std::to_string(n)).append(": ").append(result);
        if (outcome.state == Outcome::State::failed) others = {outcome.state, outcome.text, {}};
      }
    }
    expect_model(report, who + ", N of every multiple of " + std::to_string(step), model, model_wrong, model_words);
    report.add_evidence(who + ", the model's N", counts(model_wrong, model_words, "words wrong"));
    if (group == 1) continue;
    const std::string what = who + ", the other multiples of 8";
    ask(report, what, others, right.empty() ? "none has the right words" : "right: " + right);
    if (!other.empty()) report.add_evidence(what, other);
  }
  for (const int n : {64, 128, 256}) {
    const Operands o = draw(128, n, -8, 17, static_cast<std::uint32_t>(1000 + n));
    const Outcome outcome = run_one_mma(launcher, 2, images_of_pair(o, 2), scaled_instruction(2, 128, n), 0, n / 2);
    // Every partition has all rows' scales here. If the later half of N is read from partitions 2 and 3 as if they had
    // that half alone, the scales found there are those of the first half.
    const std::size_t whole = wrong_words(o, outcome, 2, [](int column) { return column; });
    const std::size_t split = wrong_words(o, outcome, 2, [n](int column) { return column % (n / 2); });
    const std::string what = "a pair with M = 128, N = " + std::to_string(n);
    ask(report, what, outcome,
        whole == 0   ? "row n's scale at column n / 32, as with M = 256"
        : split == 0 ? "split: partitions 2 and 3 have the later half's scales from column 0 on"
                     : "neither whole nor split scales have these words");
    report.add_evidence(what, words_or_reason(outcome, std::to_string(whole) + " words wrong if whole, " +
                                                           std::to_string(split) + " if split"));
  }
  return report;
}

// --- probe 8
// 8. Are mma of another N in order on one accumulator, without a wait between them?
//
// The PTX ISA keeps mma of the same shape in order, and says nothing of others. Four in a row, of N = 128, 64, 128, 64:
// the first overwrites, the others add; each has operands of its own. Columns below 64 are the sum of four, those from
// 64 on of two.

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

// --- probe 9
// 9. Is D = A B, whatever D held, where the mma does not accumulate?
//
// A tile's first mma relies on it: nothing clears tensor memory. D is filled with NaN of several payloads, infinities
// and a large number before.

inline Report p09_no_accumulate_over_nan(Launcher& launcher) {
  Report report(9, "an mma that does not accumulate, onto NaN and infinities in D: is D = A B?");
  constexpr std::uint32_t kBefore[] = {0x7FFFFFFF, 0xFFC12345, 0x7F800000, 0xFF800000, 0x7F7FFFFF};
  std::vector<std::uint32_t> before(std::size_t{64} * 128);
  for (std::size_t i = 0; i < before.size(); ++i) before[i] = kBefore[(i / 128 + i) % 5];
  struct Kind {
    const char* name;
    std::uint32_t kind, instruction;
  };
  const Kind kinds[] = {
      {"kind::mxf8f6f4", kScaledKind, instruction_descriptor<ScaledInstruction{.m = 128, .n = 64}>().bits},
      {"kind::f8f6f4", kByteKind, instruction_descriptor<ByteInstruction{.m = 128, .n = 64}>().bits},
      {"kind::f16", kHalfKind, instruction_descriptor<HalfInstruction{.m = 128, .n = 64}>().bits}};
  for (const Kind& kind : kinds) {
    const Operands o = draw(128, 64, -8, 17, 9 + kind.kind);
    const bool halves = kind.kind == kHalfKind;
    // BF16 rows hold the first 16 values.
    const Outcome outcome =
        run_one_mma(launcher, 1, image_of(o, halves).bytes(), kind.instruction, kind.kind | kStoresD, 64, before);
    std::size_t wrong = 0, nan = 0;
    for (int m = 0; m < 128 && !outcome.out.empty(); ++m) {
      for (int n = 0; n < 64; ++n) {
        const float right = kind.kind == kScaledKind ? o.scaled(m, n) : o.value(m, n, halves ? 16 : 32);
        const std::uint32_t found = outcome.out[cell_at(m, n, 64)];
        wrong += found == word_of(right) ? 0 : 1;
        nan += (found & 0x7FFFFFFFU) > 0x7F800000U ? 1 : 0;
      }
    }
    expect_model(report, kind.name, outcome, wrong, std::size_t{128} * 64);
    const std::string found = counts(wrong, std::size_t{128} * 64, "words wrong, ") + std::to_string(nan) + " NaN";
    report.add_evidence(kind.name, words_or_reason(outcome, found));
  }
  return report;
}

// --- probe 10
// 10. Do the reference words of one MMA come out of the whole path: shared memory, scales by tcgen05.cp, D in tensor
// memory? Word i is the element (i, i) of D: its A is row i, its B row i, and C is there before.

inline Report p10_golden_words(Launcher& launcher) {
  Report report(10, "reference words of single outputs, through shared and tensor memory");
  struct Type {
    GoldenType type;
    const char* name;
    std::uint32_t kind, instruction;
  };
  constexpr ByteFormat kE5m2 = ByteFormat::e5m2;
  constexpr HalfFormat kFp16 = HalfFormat::f16;
  const Type types[] = {{GoldenType::e4m3, "kind::f8f6f4, E4M3", kByteKind,
                         instruction_descriptor<ByteInstruction{.m = 128, .n = 64}>().bits},
                        {GoldenType::e5m2, "kind::f8f6f4, E5M2", kByteKind,
                         instruction_descriptor<ByteInstruction{.m = 128, .n = 64, .a = kE5m2, .b = kE5m2}>().bits},
                        {GoldenType::scaled_e4m3, "kind::mxf8f6f4, E4M3", kScaledKind,
                         instruction_descriptor<ScaledInstruction{.m = 128, .n = 64}>().bits},
                        {GoldenType::bf16, "kind::f16, BF16", kHalfKind,
                         instruction_descriptor<HalfInstruction{.m = 128, .n = 64}>().bits},
                        {GoldenType::fp16, "kind::f16, FP16", kHalfKind,
                         instruction_descriptor<HalfInstruction{.m = 128, .n = 64, .a = kFp16, .b = kFp16}>().bits}};
  for (const Type& type : types) {
    Image image(kOperandBytes);
    std::vector<std::uint32_t> before(std::size_t{64} * 128);
    std::vector<Golden> goldens;
    for (const Golden& g : kGoldens) {
      if (g.type != type.type) continue;
      const int i = static_cast<int>(goldens.size());
      const GoldenCodes codes = codes_of(g);
      for (const bool of_a : {true, false}) {
        std::vector<std::uint8_t> bytes;
        for (const std::uint16_t code : of_a ? codes.a : codes.b) {
          bytes.push_back(static_cast<std::uint8_t>(code));
          if (type.kind == kHalfKind) bytes.push_back(static_cast<std::uint8_t>(code >> 8));
        }
        image.put(of_a ? kAAt : kBAt, i, bytes);
      }
      image.put_scale(kScalesAAt, i, g.scale_a);
      image.put_scale(kScalesBAt, i, g.scale_b);
      before[cell_at(i, i, 64)] = g.c;
      goldens.push_back(g);
    }
    const Outcome outcome =
        run_one_mma(launcher, 1, image.bytes(), type.instruction, type.kind | kStoresD | kAccumulates, 64, before);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < goldens.size() && !outcome.out.empty(); ++i) {
      const std::uint32_t found = outcome.out[cell_at(static_cast<int>(i), static_cast<int>(i), 64)];
      const Golden& g = goldens[i];
      wrong += found == g.d ? 0 : 1;
      report.add_evidence(std::string(type.name) + ", " + g.name,
                          hex(found) + (found == g.d ? "" : ", right " + hex(g.d)));
    }
    expect_model(report, std::string(type.name) + ", " + std::to_string(goldens.size()) + " words", outcome, wrong,
                 goldens.size());
  }
  return report;
}

// --- probe 11
// 11. How many products of kind::mxf4nvf4 under UE4M3 scales are summed exactly before they are cut?
//
// Published models agree on sums of 16 under E8M0 scales, and not on those under UE4M3: 16 or 4. C is -2^35, so that a
// term is cut to whole numbers (35 bits below C); scales are 1. In each element two or four products add up to 1, and
// each alone is less. Where they are summed first, 1 is left, and D is C cut to the next number toward zero; else
// nothing is, and D is C.

inline Report p11_fp4_groups(Launcher& launcher) {
  Report report(11, "kind::mxf4nvf4, blocks of 16: how many products are summed exactly before they are cut?");
  struct Products {
    const char* name;
    std::vector<int> k;
    bool kept;  // by the model
  };
  const Products all[] = {{"2 of 0.5 at k 0 and 1", {0, 1}, true},
                          {"2 of 0.5 at k 0 and 2", {0, 2}, true},
                          {"2 of 0.5 at k 0 and 4", {0, 4}, true},
                          {"2 of 0.5 at k 0 and 8", {0, 8}, true},
                          {"4 of 0.25 at k 0, 4, 8 and 12", {0, 4, 8, 12}, true},
                          {"2 of 0.5 at k 0 and 16", {0, 16}, false},
                          {"2 of 0.5 at k 0 and 32", {0, 32}, false}};
  constexpr std::uint32_t kC = 0xD1000000;
  constexpr std::uint32_t kNext = 0xD0FFFFFF;
  Image image(kOperandBytes);
  std::vector<std::uint32_t> before(std::size_t{64} * 128);
  for (int row = 0; row < 128; ++row) {
    image.put_scale(kScalesAAt, row, 0x38);
    image.put_scale(kScalesBAt, row, 0x38);
  }
  int i = 0;
  for (const Products& products : all) {
    std::vector<std::uint8_t> codes_a(32), codes_b(32);  // two a byte: 1 is 0.5, 2 is 1
    for (const int k : products.k) {
      const auto at = static_cast<std::size_t>(k / 2);
      codes_a[at] = static_cast<std::uint8_t>(codes_a[at] | 1 << (4 * (k % 2)));
      codes_b[at] = static_cast<std::uint8_t>(codes_b[at] | (products.k.size() == 2 ? 2 : 1) << (4 * (k % 2)));
    }
    image.put(kAAt, i, codes_a);
    image.put(kBAt, i, codes_b);
    before[cell_at(i, i, 64)] = kC;
    ++i;
  }
  const Outcome outcome =
      run_one_mma(launcher, 1, image.bytes(), instruction_descriptor<Fp4Instruction{.m = 128, .n = 64}>().bits,
                  kFp4Kind | kStoresD | kAccumulates, 64, before);
  std::size_t wrong = 0;
  i = 0;
  for (const Products& products : all) {
    if (outcome.out.empty()) break;
    const std::uint32_t found = outcome.out[cell_at(i, i, 64)];
    wrong += found == (products.kept ? kNext : kC) ? 0 : 1;
    report.add_evidence(products.name, hex(found) + (found == kNext ? ", kept" : found == kC ? ", cut" : ""));
    ++i;
  }
  expect_model(report, "groups of 16", outcome, wrong, std::size(all));
  return report;
}

}  // namespace MXCHECK_SM100_PROBE_BODY
}  // namespace mxcheck::sm100::probe
