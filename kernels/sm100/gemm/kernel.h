#pragma once
// The MXFP8 GEMM: 1x32 by 1x32 scales, one CTA or a pair for a tile, persistent, warps with roles.

#include "kernels/sm100/gemm/epilogue.h"
#include "kernels/sm100/gemm/load.h"
#include "kernels/sm100/gemm/multiply.h"
#include "kernels/sm100/tcgen05/warp.h"

namespace mxcheck::sm100::gemm {

template <class T>
MXCHECK_SM100_DEVICE void initialize(SharedAddress base) {
  for (unsigned s = 0; s < T::kStages; ++s) {
    barrier_init(base + T::kFull + 8 * s, 1);   // the leader's expectation; the rest are bytes
    barrier_init(base + T::kEmpty + 8 * s, 1);  // a commit
  }
  for (unsigned s = 0; s < T::kAccumulators; ++s) {
    barrier_init(base + T::kAccumulated + 8 * s, 1);               // a commit
    barrier_init(base + T::kDrained + 8 * s, 128 * T::kCtaGroup);  // every thread of the epilogues
  }
  fence_barrier_init();
}

template <class T>
MXCHECK_SM100_DEVICE void sync_all() {
  if constexpr (T::kCtaGroup == 2) {
    cluster_sync();
  } else {
    sync_block();
  }
}

// The kernel's body, which every thread runs. For tiles of a CTA pair the cluster is 2 CTAs.
template <class T, Grouping kGrouping>
MXCHECK_SM100_DEVICE void gemm(const Params& p) {
  const SharedAddress base = shared_base();
  const unsigned warp = warp_index();
  const std::int64_t unit = block_index() / T::kCtaGroup;
  const std::int64_t units = grid_blocks() / T::kCtaGroup;
  if (warp == 0) {
    role("load");
    if (elect()) {
      prefetch_map(&p.a);
      prefetch_map(&p.b);
      initialize<T>(base);
    }
    sync_warp();
  }
  // A pair's allocation needs both CTAs to be there.
  sync_all<T>();
  if (warp == 1) {
    role("multiply");
    tmem_alloc<T::kCtaGroup, T::kColumns>(base + T::kSlot);
    tmem_relinquish<T::kCtaGroup>();
  }
  fence_before_thread_sync();
  sync_all<T>();
  fence_after_thread_sync();
  const TmemAddress tmem = load_shared<std::uint32_t>(base + T::kSlot);
  if (warp == 0) {
    if (elect()) load<T, kGrouping>(p, base, unit, units);
    sync_warp();
  } else if (warp == 1) {
    if ((T::kCtaGroup == 1 || cluster_rank() == 0) && elect()) multiply<T, kGrouping>(p, base, tmem, unit, units);
    sync_warp();
  } else {
    role("epilogue");
    epilogue<T, kGrouping>(p, base, tmem, unit, units);
  }
  // Everything is over in both CTAs: commits that arrive at the peer's barriers, loads of tensor memory.
  fence_before_thread_sync();
  sync_all<T>();
  fence_after_thread_sync();
  if (warp == 1) tmem_dealloc<T::kCtaGroup, T::kColumns>(tmem);
}

}  // namespace mxcheck::sm100::gemm
