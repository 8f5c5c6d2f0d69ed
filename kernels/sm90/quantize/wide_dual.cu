// The kernels of wide_dual.cuh.

#include "kernels/sm90/quantize/wide_dual.cuh"

namespace mxcheck_kernels::sm90 {

cudaError_t quantize_wide_dual(const QuantizeJob& job, int block, Element element, cudaStream_t stream) {
  if (element == Element::e4m3) return launch_wide_dual<Element::e4m3>(job, block, stream);
  return launch_wide_dual<Element::e5m2>(job, block, stream);
}

}  // namespace mxcheck_kernels::sm90
