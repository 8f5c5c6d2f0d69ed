// The launches of the GEMMs of few tokens: for each way that weights are read, each largest item, and each rule of
// scales, a kernel.

#include "kernels/sm90/moe/few/gemm.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

// True if there are so few tiles of 64 columns, three for each resident block of threads at most, that half as many
// would leave processors idle. Where the device does not say how many it has, the launch will fail and say why.
template <FewWeights kWeights>
bool has_few_tiles(const FewGemmJob& job) {
  using Shape = FewShape<kWeights, 8, 1>;
  int processors = 0;
  if (count_processors(processors) != cudaSuccess) return false;
  return job.most_items * ((job.columns + 63) / 64) <= std::int64_t{3} * processors * Shape::kPerProcessor;
}

template <FewWeights kWeights, class Coder>
cudaError_t start_rows(const FewGemmJob& job, const Coder& coder, cudaStream_t stream) {
  constexpr int kOfLarge = kWeights == FewWeights::codes ? 1 : 2;  // two would have too few registers
  const Rounding rule = rounding_of(kRoundE5m6, true, false);
  switch (job.table.item_rows) {
    case 8:
      if constexpr (kWeights != FewWeights::blocks) {
        if (has_few_tiles<kWeights>(job)) return start_few<FewShape<kWeights, 8, 1>>(job, coder, rule, stream);
      }
      return start_few<FewShape<kWeights, 8, 2>>(job, coder, rule, stream);
    case 32: return start_few<FewShape<kWeights, 32, 2>>(job, coder, rule, stream);
    case 128: return start_few<FewShape<kWeights, 128, kOfLarge>>(job, coder, rule, stream);
    default: return cudaErrorInvalidValue;
  }
}

template <FewWeights kWeights>
cudaError_t start_coded(const FewGemmJob& job, cudaStream_t stream) {
  const DeviceCoding& c = job.coding;
  if (c.element != Element::e4m3) return cudaErrorInvalidValue;
  return c.fp32 ? start_rows<kWeights>(job, Coder128<Element::e4m3, true>{c.addend, 7}, stream)
                : start_rows<kWeights>(job, Coder128<Element::e4m3, false>{c.addend, 7}, stream);
}

}  // namespace

cudaError_t launch_few_gemm(const FewGemmJob& job, cudaStream_t stream) {
  switch (job.weights) {
    case FewWeights::bf16: return start_rows<FewWeights::bf16>(job, NoCoder(), stream);
    case FewWeights::blocks: return start_coded<FewWeights::blocks>(job, stream);
    case FewWeights::codes: return start_coded<FewWeights::codes>(job, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace mxcheck_kernels::sm90
