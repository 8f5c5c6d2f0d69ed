#include "kernels/cpu/quantize/quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quantize/dequantize.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/quantize/dequantize_inl.h"

#if HWY_ONCE
namespace mxcheck_kernels::cpu {

HWY_EXPORT(DequantizeBands);

void dequantize_bands(const DequantizeJob& job, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(DequantizeBands)(job, begin, end);
}

}  // namespace mxcheck_kernels::cpu
#endif
