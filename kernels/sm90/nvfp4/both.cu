// The kernels of both.cuh, and which of them a call takes.

#include <algorithm>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/sm90/nvfp4/both.cuh"
#include "kernels/sm90/nvfp4/encode.cuh"
#include "kernels/sm90/nvfp4/nvfp4.h"
#include "kernels/sm90/nvfp4/transform.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

template <class T, class To, bool kExact>
cudaError_t launch_both(Nvfp4BothJob& job, bool stochastic, cudaStream_t stream) {
  if (!stochastic) return launch_both<T, To, kExact, Rounding::nearest>(job, stream);
  return job.row_words.bytes ? launch_both<T, To, kExact, Rounding::bytes>(job, stream)
                             : launch_both<T, To, kExact, Rounding::words>(job, stream);
}

template <class T>
cudaError_t launch_both(Nvfp4BothJob& job, const Nvfp4OptionJob& options, bool to_bf16, cudaStream_t stream) {
  job.transform = transform_of<T>(options);
  const bool exact = job.rows.recipe == Nvfp4Recipe::exact;
  const bool stochastic = options.stochastic;
  if (to_bf16) {
    return exact ? launch_both<T, __nv_bfloat16, true>(job, stochastic, stream)
                 : launch_both<T, __nv_bfloat16, false>(job, stochastic, stream);
  }
  return exact ? launch_both<T, float, true>(job, stochastic, stream)
               : launch_both<T, float, false>(job, stochastic, stream);
}

}  // namespace

cudaError_t quantize_nvfp4_both(const Nvfp4Job& rows, const Nvfp4Job& columns, const Nvfp4OptionJob& options,
                                int block_rows, Nvfp4Values values, cudaStream_t stream) {
  if (rows.cols == 0 || rows.rows == 0) return cudaSuccess;
  Nvfp4BothJob job{.rows = rows, .columns = columns, .row_words = options.words, .column_words = options.words};
  std::copy_n(options.column_counter, 2, job.column_words.counter);
  job.keys = keys_of(options.words.seed), job.square = block_rows != 1;
  const bool is_bf16 = values == Nvfp4Values::bf16;
  const bool to_bf16 = options.group != 0 ? options.to_bf16 : is_bf16;
  return is_bf16 ? launch_both<__nv_bfloat16>(job, options, to_bf16, stream)
                 : launch_both<float>(job, options, to_bf16, stream);
}

}  // namespace mxcheck_kernels::sm90
