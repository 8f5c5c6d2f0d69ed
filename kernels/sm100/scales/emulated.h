#pragma once
// The packing of scales on the CPU.

#include "emulation/sm100/launch.h"
#include "kernels/sm100/scales/pack.h"

namespace mxcheck::sm100::scales {

emulation::sm100::LaunchResult pack_emulated(const PackJob& job, const emulation::sm100::LaunchOptions& options);

}  // namespace mxcheck::sm100::scales
