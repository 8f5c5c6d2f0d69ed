#pragma once
// 10. Do the reference words of one MMA come out of the whole path: shared memory, scales by tcgen05.cp, D in tensor
// memory? Word i is the element (i, i) of D: its A is row i, its B row i, and C is there before.

#include "kernels/sm100/probe/golden_words.h"
#include "kernels/sm100/probe/one_mma.h"

namespace mxcheck::sm100::probe {
inline namespace MXCHECK_SM100_PROBE_BODY {

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

}  // namespace MXCHECK_SM100_PROBE_BODY
}  // namespace mxcheck::sm100::probe
