#pragma once
// Layers step by step, every output of every GEMM compared with the GPU model before the next step runs. Prints as it
// goes; nothing is timed but the model.
//
// Errors: those of measure.h and of GpuModel.

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/sm90/common/device.h"
#include "benchmarks/sm90/moe/measure.h"
#include "benchmarks/sm90/moe/report.h"
#include "kernels/sm90/moe/moe_plan.h"

namespace mxcheck::bench {

struct ModelRequest {
  std::string library;
  std::string spoil;  // the name of a GEMM whose last output gets one wrong bit before it is compared; "": none
};

// True if all is equal, in all shapes under all recipes; with wanted.check what the reference says counts too.
bool verify(const std::vector<MoeShape>& shapes, const Measurement& wanted, const ModelRequest& request,
            cudaStream_t stream);

// --- the GPU model
//
// libmxcheck_gpu_model.so on the GEMMs of a layer's steps.
//
//   GpuModel model("lib/libmxcheck_gpu_model.so");
//   model.reserve(plan);                                   // before anything is compared: memory is taken once
//   const ModelComparison found = model.compare(*step.gemm, stream);   // after the step, before the next
//
// The model knows the contract and the operands in memory, nothing of the kernel. What wrote the operands is not looked
// at: a GEMM of wrong operands equals the model.
//
// Errors: Error{environment} for a library that cannot be loaded, and of CUDA; Error{internal} for a call that the
// library refuses.

class GpuModel {
 public:
  explicit GpuModel(const std::string& library);

  void reserve(const mxcheck_kernels::sm90::MoePlan& plan);
  // Every output of d. Step, direction and products are left to the caller.
  ModelComparison compare(const mxcheck_kernels::sm90::MoeGemm& gemm, cudaStream_t stream);

 private:
  struct Scratch {
    std::uint64_t bytes = 0;  // of the largest operand
    std::unique_ptr<DeviceBuffer> memory;
  };
  const void* k_last(const mxcheck_kernels::sm90::MoeGemmOperand& operand, std::int64_t matrices, std::int64_t rows,
                     std::int64_t k, Scratch& scratch, cudaStream_t stream);

  decltype(&mxcheck_gpu_model_compare) compare_ = nullptr;
  Scratch a_, b_;
};

}  // namespace mxcheck::bench
