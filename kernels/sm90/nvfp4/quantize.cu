// The kernels of quantize.cuh for one matrix.

#include "kernels/sm90/nvfp4/quantize.cuh"

namespace mxcheck_kernels::sm90 {

cudaError_t quantize_nvfp4(const Nvfp4Job& job, const Nvfp4OptionJob& options, int block_rows, Nvfp4Values values,
                           cudaStream_t stream) {
  if (job.cols == 0 || job.rows == 0) return cudaSuccess;
  Nvfp4Launch l{.job = job, .options = options, .square = block_rows != 1, .stream = stream};
  const std::int64_t rows = job.tiled ? divide_up(job.rows, kScaleTileRows) * kScaleTileRows : job.rows;
  return launch<RowsOf::matrix>(l, values, divide_up(rows, kTileRows));
}

}  // namespace mxcheck_kernels::sm90
