#include "kernels/cpu/quantize/quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quantize/quantize.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/quantize/quantize_inl.h"

#if HWY_ONCE
namespace mxcheck_kernels::cpu {

HWY_EXPORT(QuantizeBands);

void quantize_bands(const QuantizeJob& job, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(QuantizeBands)(job, begin, end);
}

}  // namespace mxcheck_kernels::cpu
#endif
