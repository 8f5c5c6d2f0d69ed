// The kernels of lines.cuh.

#include "kernels/sm90/quantize/lines.cuh"

namespace mxcheck_kernels::sm90 {

cudaError_t quantize_lines(const QuantizeJob& job, int block, Dtype dtype, Element element, bool shifted,
                           cudaStream_t stream) {
  if (dtype == Dtype::bf16) {
    if (element == Element::e4m3) return launch_lines<__nv_bfloat16, Element::e4m3>(job, block, shifted, stream);
    return launch_lines<__nv_bfloat16, Element::e5m2>(job, block, shifted, stream);
  }
  if (element == Element::e4m3) return launch_lines<float, Element::e4m3>(job, block, shifted, stream);
  return launch_lines<float, Element::e5m2>(job, block, shifted, stream);
}

}  // namespace mxcheck_kernels::sm90
