#include "kernels/sm100/scales/emulated.h"

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
