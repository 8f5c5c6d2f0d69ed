// Single128 of kernels/sm100/gemm/instances.h on a Hopper card.
#include "kernels/sm100/gemm/instances.h"
#include "kernels/sm100/gemm/on_sm90/run_tile.cuh"

namespace mxcheck::sm100::gemm {

template Emulated run_tile<Single128>(const Problem&, unsigned, const emulation::sm100::LaunchOptions&);

}  // namespace mxcheck::sm100::gemm
