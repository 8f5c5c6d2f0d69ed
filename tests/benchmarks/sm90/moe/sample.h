#pragma once
// Results that nobody measured, for the tests of what is made of them.

#include "benchmarks/sm90/moe/report.h"

namespace mxcheck::bench {

// One shape of SonicMoE's under bf16 and mxfp8; the layer takes 20 ms forward under bf16, 16 ms under mxfp8.
inline MoeResults sample_results() {
  const MoeShape shape = default_moe_shapes()[1];
  const auto steps = [](double gemm, double quantize) {
    return std::vector<StepTime>{{"check routes", StepKind::check, 10, 1000000, 0, kPeakBf16},
                                 {"quantize X", StepKind::quantize, quantize, 400000000, 0, kPeakBf16},
                                 {"up", StepKind::gemm, gemm, 6000000000, 2199023255552, kPeakBf16},
                                 {"<aggregate>", StepKind::elementwise, 600, 2400000000, 0, kPeakBf16}};
  };
  RecipeResult bf16{"bf16", 1342177280, {}, "", true};
  bf16.passes[0] = {Direction::forward, {20000, 19900, 20100}, steps(6000, 0.5), 1000, 500};
  bf16.passes[1] = {Direction::backward, {40000, 39000, 41000}, steps(12000, 0.5), 3000, 500};
  RecipeResult mxfp8{"mxfp8", 1342177280, {}, "", true};
  mxfp8.passes[0] = {Direction::forward, {16000, 15900, 16100}, steps(6000, 390), 1000, 700};
  mxfp8.passes[1] = {Direction::backward, {32000, 31000, 33000}, steps(12000, 390), 3000, 700};
  ShapeResult result{shape, "uniform", 1.1, RouterTime{20, 30}, {bf16, mxfp8}};
  return {"a device", "a library", 15, 4e12, {result}};
}

}  // namespace mxcheck::bench
