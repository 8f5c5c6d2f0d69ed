#include "reference/accumulate/engine.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/accumulate/engine.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "reference/accumulate/engine_inl.h"

#if HWY_ONCE
namespace mxcheck::detail {

HWY_EXPORT(RunChains);

void run_chains(const ChainJob& job) { HWY_DYNAMIC_DISPATCH(RunChains)(job); }

}  // namespace mxcheck::detail
#endif
