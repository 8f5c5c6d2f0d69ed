#include "kernels/sm100/gemm/emulated.h"

#include "kernels/sm100/gemm/tile.h"

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

namespace mxcheck::sm100::scales {

emulation::sm100::LaunchResult pack_emulated(const PackJob& job, const emulation::sm100::LaunchOptions& options) {
  // Emulated CTAs run one after the other: the second shows that none does another's part, more would show no more.
  const emulation::sm100::LaunchShape shape{.blocks = 2, .threads = kChunkRows};
  return emulation::sm100::launch(shape, options, [&job] {
    role("pack scales");
    pack(job);
  });
}

}  // namespace mxcheck::sm100::scales
