#include "kernels/cpu/route/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/route/rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/route/backward_inl.h"
#include "kernels/cpu/route/refused_inl.h"
#include "kernels/cpu/route/rows_inl.h"

#if HWY_ONCE
namespace mxcheck_kernels::cpu {

HWY_EXPORT(FirstRefused);
HWY_EXPORT(RouteRows);
HWY_EXPORT(BackwardRows);

std::int64_t first_refused(const LogitRows& rows, std::int64_t begin, std::int64_t end) {
  return HWY_DYNAMIC_DISPATCH(FirstRefused)(rows, begin, end);
}
void route_rows(const RouteJob& job, RowSpace& space, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(RouteRows)(job, space, begin, end);
}
void backward_rows(const BackwardJob& job, RowSpace& space, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(BackwardRows)(job, space, begin, end);
}

}  // namespace mxcheck_kernels::cpu
#endif
