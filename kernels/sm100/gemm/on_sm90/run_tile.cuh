#pragma once
// One tile's kernels on a Hopper card: a file includes it for each tile. The problem's tensors are the host's, as they
// are for the emulation on the CPU: copies go to the card and back.

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

template <class T>
Emulated run_tile(const Problem& problem, unsigned units, const emulation::sm100::LaunchOptions& options) {
  Emulated out;
  out.error = emulation::on_sm90::card_refusal();
  if (!out.error.empty()) return out;
  on_sm90::Tensors tensors(problem, T::kElementBytes);
  Params params;
  out.error = make_params<T>(tensors.on_card(), params);
  if (!out.error.empty()) return out;
  emulation::on_sm90::KernelShape shape{.blocks = units * T::kCtaGroup,
                                        .threads = kThreads,
                                        .cluster = T::kCtaGroup,
                                        .shared_bytes = (T::kSharedBytes + 15) / 16 * 16};
  switch (problem.grouping) {
    case Grouping::dense: shape.function = reinterpret_cast<const void*>(&entry_on_sm90<T, Grouping::dense>); break;
    case Grouping::rows: shape.function = reinterpret_cast<const void*>(&entry_on_sm90<T, Grouping::rows>); break;
    case Grouping::depth: shape.function = reinterpret_cast<const void*>(&entry_on_sm90<T, Grouping::depth>); break;
  }
  out.result = emulation::on_sm90::launch(shape, &params, options);
  if (out.result.completed) tensors.take(out.result);
  return out;
}

}  // namespace mxcheck::sm100::gemm
