#include "reference/accumulate/engine.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/accumulate/exact_engine.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "reference/accumulate/exact_engine_inl.h"

#if HWY_ONCE
namespace mxcheck::detail {

HWY_EXPORT(RunDotProducts);
HWY_EXPORT(RunSplitSums);

void run_dot_products(const DotProducts& job) { HWY_DYNAMIC_DISPATCH(RunDotProducts)(job); }
bool run_split_sums(const SplitSums& job) { return HWY_DYNAMIC_DISPATCH(RunSplitSums)(job); }

}  // namespace mxcheck::detail
#endif
