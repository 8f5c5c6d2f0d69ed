#pragma once
// One tile's kernels on a Hopper card: CMakeLists.txt writes a file for each tile. The problem's tensors are the
// host's, as they are for the emulation on the CPU: copies go to the card and back.

#include "emulation/on_sm90/launch.h"
#include "emulation/on_sm90/run.cuh"
#include "kernels/sm100/gemm/emulated.h"
#include "kernels/sm100/gemm/kernel.h"
#include "kernels/sm100/gemm/on_sm90/tensors.h"

namespace mxcheck::sm100::gemm {

template <class T, Grouping kGrouping>
__global__ void __launch_bounds__(kThreads + emulation::on_sm90::kEngineThreads, 1)
    entry_on_sm90(const __grid_constant__ Params p, const __grid_constant__ emulation::on_sm90::Launch launch) {
  emulation::on_sm90::run(launch, kThreads, [&p] { gemm<T, kGrouping>(p); });
}

// `problem.grouping` is kGrouping: whoever needs one alone compiles one kernel.
template <class T, Grouping kGrouping>
Emulated run_grouping(const Problem& problem, unsigned units, const emulation::sm100::LaunchOptions& options) {
  Emulated out;
  out.error = emulation::on_sm90::card_refusal();
  if (!out.error.empty()) return out;
  on_sm90::Tensors tensors(problem);
  Params params;
  out.error = make_params<T>(tensors.on_card(), params);
  if (!out.error.empty()) return out;
  const emulation::on_sm90::KernelShape shape{.function = reinterpret_cast<const void*>(&entry_on_sm90<T, kGrouping>),
                                              .blocks = units * T::kCtaGroup,
                                              .threads = kThreads,
                                              .cluster = T::kCtaGroup,
                                              .shared_bytes = (T::kSharedBytes + 15) / 16 * 16};
  out.result = emulation::on_sm90::launch(shape, &params, options);
  if (out.result.completed) tensors.take(out.result);
  return out;
}

template <class T>
Emulated run_tile(const Problem& problem, unsigned units, const emulation::sm100::LaunchOptions& options) {
  switch (problem.grouping) {
    case Grouping::dense: return run_grouping<T, Grouping::dense>(problem, units, options);
    case Grouping::rows: return run_grouping<T, Grouping::rows>(problem, units, options);
    case Grouping::depth: break;
  }
  return run_grouping<T, Grouping::depth>(problem, units, options);
}

}  // namespace mxcheck::sm100::gemm
