#pragma once
// 9. Is D = A B, whatever D held, where the mma does not accumulate?
//
// A tile's first mma relies on it: nothing clears tensor memory. D is filled with NaN of several payloads, infinities
// and a large number before.

#include "kernels/sm100/probe/one_mma.h"

namespace mxcheck::sm100::probe {
inline namespace MXCHECK_SM100_PROBE_BODY {

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

}  // namespace MXCHECK_SM100_PROBE_BODY
}  // namespace mxcheck::sm100::probe
