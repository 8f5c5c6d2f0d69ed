#include "reference/quantize/encode_blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/quantize/encode_blocks.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "reference/quantize/encode_blocks_inl.h"

#if HWY_ONCE
namespace mxcheck::detail {

HWY_EXPORT(EncodeBlocks);

void encode_blocks(const EncodeJob& job) { HWY_DYNAMIC_DISPATCH(EncodeBlocks)(job); }

}  // namespace mxcheck::detail
#endif
