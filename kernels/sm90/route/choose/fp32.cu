// FP32 logits: the kernels of few.cuh for them.

#include "kernels/sm90/route/choose/few.cuh"

namespace mxcheck_kernels::sm90 {

cudaError_t choose_fp32(const ChooseJob& job, cudaStream_t stream) { return launch_choice<Logits::fp32>(job, stream); }

}  // namespace mxcheck_kernels::sm90
