// Blocks of one column: the kernels of quantize.cuh for them.

#include "kernels/sm90/quantize/quantize.cuh"

namespace mxcheck_kernels::sm90 {

cudaError_t quantize_column(const QuantizeJob& job, int block, Dtype dtype, Element element, bool vector,
                            cudaStream_t stream) {
  if (block == 32) return launch_tiles<0, 32, 0>(job, dtype, element, vector, stream);
  return launch_tiles<0, 128, 0>(job, dtype, element, vector, stream);
}

}  // namespace mxcheck_kernels::sm90
