// Both directions from one read: the kernels of quantize.cuh for them.

#include "kernels/sm90/quantize/quantize.cuh"

namespace mxcheck_kernels::sm90 {

cudaError_t quantize_dual(const QuantizeJob& job, int block, Dtype dtype, Element element, cudaStream_t stream) {
  if (block == 32) return launch_tiles<32, 32, 0>(job, dtype, element, true, stream);
  return launch_tiles<128, 128, 0>(job, dtype, element, true, stream);
}

}  // namespace mxcheck_kernels::sm90
