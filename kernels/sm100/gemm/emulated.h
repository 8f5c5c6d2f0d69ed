#pragma once
// The GEMM kernel, and the packing of its scales, on the CPU under a schedule: the bits, and what they did that
// Blackwell forbids.

#include <string>

#include "emulation/sm100/launch.h"
#include "kernels/sm100/gemm/pack.h"
#include "kernels/sm100/gemm/params.h"

namespace mxcheck::sm100::gemm {

// A tile (tile.h), and how many CTAs or pairs share the work.
struct Variant {
  int cta_group = 1;
  int n = 128;
  unsigned units = 1;
};

struct Emulated {
  std::string error;  // of the problem: nothing ran
  emulation::sm100::LaunchResult result;
};

Emulated run_emulated(const Problem& problem, const Variant& variant, const emulation::sm100::LaunchOptions& options);

}  // namespace mxcheck::sm100::gemm

namespace mxcheck::sm100::scales {

emulation::sm100::LaunchResult pack_emulated(const PackJob& job, const emulation::sm100::LaunchOptions& options);

}  // namespace mxcheck::sm100::scales
