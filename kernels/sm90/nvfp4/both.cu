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

template <class T, class To, Arithmetic kArithmetic>
cudaError_t launch_both(const Nvfp4BothJob& job, bool stochastic, cudaStream_t stream) {
  if constexpr (kArithmetic != Arithmetic::choice) {
    if (stochastic && job.row_words.bytes) return launch_both<T, To, kArithmetic, Rounding::bytes>(job, stream);
    if (stochastic) return launch_both<T, To, kArithmetic, Rounding::words>(job, stream);
  }
  return launch_both<T, To, kArithmetic, Rounding::nearest>(job, stream);
}

template <class T, class To>
cudaError_t launch_both(const Nvfp4BothJob& job, bool stochastic, cudaStream_t stream) {
  switch (arithmetic_of(job.rows.recipe)) {
    case Arithmetic::exact: return launch_both<T, To, Arithmetic::exact>(job, stochastic, stream);
    case Arithmetic::floats: return launch_both<T, To, Arithmetic::floats>(job, stochastic, stream);
    case Arithmetic::choice: break;
  }
  return launch_both<T, To, Arithmetic::choice>(job, stochastic, stream);
}

template <class T>
cudaError_t launch_both(Nvfp4BothJob& job, const Nvfp4OptionJob& options, bool to_bf16, cudaStream_t stream) {
  job.transform = transform_of<T>(options);
  return to_bf16 ? launch_both<T, __nv_bfloat16>(job, options.stochastic, stream)
                 : launch_both<T, float>(job, options.stochastic, stream);
}

}  // namespace

cudaError_t quantize_nvfp4_both(const Nvfp4Job& rows, const Nvfp4Job& columns, const Nvfp4OptionJob& options,
                                int block_rows, Nvfp4Values values, cudaStream_t stream) {
  if (rows.cols == 0 || rows.rows == 0) return cudaSuccess;
  Nvfp4BothJob job{.rows = rows, .columns = columns, .row_words = options.words, .column_words = options.words};
  std::copy_n(options.column_counter, 2, job.column_words.counter);
  job.keys = philox_keys(options.words.seed), job.square = block_rows != 1;
  const bool is_bf16 = values == Nvfp4Values::bf16;
  const bool to_bf16 = options.group != 0 ? options.to_bf16 : is_bf16;
  return is_bf16 ? launch_both<__nv_bfloat16>(job, options, to_bf16, stream)
                 : launch_both<float>(job, options, to_bf16, stream);
}

}  // namespace mxcheck_kernels::sm90
