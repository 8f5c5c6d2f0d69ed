#include "kernels/cpu/nvfp4/quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/nvfp4/dequantize.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/nvfp4/dequantize_inl.h"

#if HWY_ONCE
namespace mxcheck_kernels::cpu {

HWY_EXPORT(DequantizeNvfp4Bands);

void dequantize_nvfp4_bands(const Nvfp4ValuesJob& job, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(DequantizeNvfp4Bands)(job, begin, end);
}

}  // namespace mxcheck_kernels::cpu
#endif
