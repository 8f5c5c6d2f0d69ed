#include "kernels/sm100/gemm/emulated.h"

#include "kernels/sm100/gemm/instances.h"

namespace mxcheck::sm100::gemm {

template <class T>
Emulated run_tile(const Problem& problem, unsigned units, const emulation::sm100::LaunchOptions& options);

Emulated run_emulated(const Problem& problem, const Variant& variant, const emulation::sm100::LaunchOptions& options) {
  Emulated out;
  const bool found = with_tile(problem.operands, variant.cta_group, variant.n,
                               [&]<class T>() { out = run_tile<T>(problem, variant.units, options); });
  if (!found) {
    out.error =
        "no tile of " + std::to_string(variant.n) + " columns by " + std::to_string(variant.cta_group) + " CTAs";
  }
  return out;
}

}  // namespace mxcheck::sm100::gemm
