#include "kernels/cpu/nvfp4/quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/nvfp4/quantize.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/nvfp4/quantize_inl.h"

#if HWY_ONCE
namespace mxcheck_kernels::cpu {

HWY_EXPORT(QuantizeNvfp4Bands);

void quantize_nvfp4_bands(const Nvfp4Job& job, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(QuantizeNvfp4Bands)(job, begin, end);
}

}  // namespace mxcheck_kernels::cpu
#endif
