#pragma once
// Micro-kernels that begin with initialized mbarriers.

#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

#include "tests/emulation/sm100/micro.h"
#include "tests/emulation/sm100/small_mma.h"

namespace mxcheck::sm100::test {

// The first thread of each CTA initializes; then every thread runs `rest`.
inline Kernel with_barriers(std::initializer_list<unsigned> counts, std::function<void()> rest, bool fences = true) {
  return [counts = std::vector<unsigned>(counts), rest = std::move(rest), fences] {
    if (thread_index() == 0) {
      unsigned i = 0;
      for (const unsigned count : counts) barrier_init(barrier(i++), count);
      if (fences) fence_barrier_init();
    }
    cluster_sync();
    rest();
    cluster_sync();
  };
}

}  // namespace mxcheck::sm100::test
