#pragma once
// The ten, of this translation unit's bodies.

#include "kernels/sm100/probe/p01_cp_after_mma.h"
#include "kernels/sm100/probe/p02_cp_pair_source.h"
#include "kernels/sm100/probe/p03_n_steps.h"
#include "kernels/sm100/probe/p04_ld_lanes.h"
#include "kernels/sm100/probe/p05_scale_partitions.h"
#include "kernels/sm100/probe/p06_descriptor_start.h"
#include "kernels/sm100/probe/p07_remote_arrive_scope.h"
#include "kernels/sm100/probe/p08_mma_of_another_n.h"
#include "kernels/sm100/probe/p09_no_accumulate_over_nan.h"
#include "kernels/sm100/probe/p10_golden_words.h"

namespace mxcheck::sm100::probe {
inline namespace MXCHECK_SM100_PROBE_BODY {

inline std::vector<Probe> probes() {
  return {{1, &p01_cp_after_mma},
          {2, &p02_cp_pair_source},
          {3, &p03_n_steps},
          {4, &p04_ld_lanes},
          {5, &p05_scale_partitions},
          {6, &p06_descriptor_start},
          {7, &p07_remote_arrive_scope},
          {8, &p08_mma_of_another_n},
          {9, &p09_no_accumulate_over_nan},
          {kProbes, &p10_golden_words}};
}

}  // namespace MXCHECK_SM100_PROBE_BODY
}  // namespace mxcheck::sm100::probe
