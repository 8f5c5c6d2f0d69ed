// PromotedSingle128 of kernels/sm100/gemm/instances.h on the CPU.
#include "kernels/sm100/gemm/emulated_inl.h"
#include "kernels/sm100/gemm/instances.h"

namespace mxcheck::sm100::gemm {

template Emulated run_tile<PromotedSingle128>(const Problem&, unsigned, const emulation::sm100::LaunchOptions&);

}  // namespace mxcheck::sm100::gemm
