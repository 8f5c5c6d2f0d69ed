#pragma once
// One tile's kernels on the CPU: CMakeLists.txt writes a file for each tile, as the compiler takes seconds for one.

#include "kernels/sm100/gemm/emulated.h"
#include "kernels/sm100/gemm/kernel.h"

namespace mxcheck::sm100::gemm {

template <class T>
Emulated run_tile(const Problem& problem, unsigned units, const emulation::sm100::LaunchOptions& options) {
  Params params;
  Emulated out;
  out.error = make_params<T>(problem, params);
  if (!out.error.empty()) return out;
  const emulation::sm100::LaunchShape shape{
      .blocks = units * T::kCtaGroup, .threads = kThreads, .cluster = T::kCtaGroup, .shared_bytes = T::kSharedBytes};
  out.result = emulation::sm100::launch(shape, options, [&params, grouping = problem.grouping] {
    switch (grouping) {
      case Grouping::dense: return gemm<T, Grouping::dense>(params);
      case Grouping::rows: return gemm<T, Grouping::rows>(params);
      case Grouping::depth: return gemm<T, Grouping::depth>(params);
    }
  });
  return out;
}

}  // namespace mxcheck::sm100::gemm
