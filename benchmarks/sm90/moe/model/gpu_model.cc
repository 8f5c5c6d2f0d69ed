#include "benchmarks/sm90/moe/model/gpu_model.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "benchmarks/sm90/moe/model/transpose.h"
#include "numerics/error.h"

namespace mxcheck::bench {
namespace {

using mxcheck_kernels::sm90::MatmulBlock;
using mxcheck_kernels::sm90::MatmulKind;
using mxcheck_kernels::sm90::MatmulOutput;
using mxcheck_kernels::sm90::MatmulScale;
using mxcheck_kernels::sm90::MoeGemm;
using mxcheck_kernels::sm90::MoeGemmOperand;
using mxcheck_kernels::sm90::MoePlan;

std::int64_t matrices_of_b(const MoeGemm& gemm) { return gemm.kind == MatmulKind::rows ? gemm.experts : 1; }

std::uint64_t scratch_bytes(const MoeGemmOperand& operand, std::int64_t matrices, std::int64_t rows, std::int64_t k) {
  return operand.by_k ? 2 * static_cast<std::uint64_t>(matrices * rows) * static_cast<std::uint64_t>(k) : 0;
}

// All but the operands themselves, and where the verdict goes.
MxcheckGpuModelCall contract_of(const MoeGemm& gemm) {
  MxcheckGpuModelCall call{};
  const bool fp8 = gemm.format == MoeGemm::Format::e4m3;
  call.a_format = call.b_format = fp8 ? MXCHECK_GPU_MODEL_E4M3 : MXCHECK_GPU_MODEL_BF16;
  call.m = gemm.m, call.n = gemm.n, call.k = gemm.k;
  if (fp8) {
    call.promotion = call.scale_a_block = call.scale_b_block = 128;
    call.scale_format = gemm.scale == MatmulScale::e8m0 ? MXCHECK_GPU_MODEL_SCALE_E8M0 : MXCHECK_GPU_MODEL_SCALE_FP32;
    call.scale_a = gemm.a.scales, call.scale_b = gemm.b.scales;
    call.scale_b_rows = gemm.b_block == MatmulBlock::square ? 128 : 1;
  }
  call.groups = gemm.kind == MatmulKind::rows ? MXCHECK_GPU_MODEL_ALONG_M : MXCHECK_GPU_MODEL_ALONG_K;
  call.experts = gemm.experts, call.offsets = gemm.offsets;
  call.alpha = 1;
  call.output = gemm.output == MatmulOutput::bf16 ? MXCHECK_GPU_MODEL_OUT_BF16 : MXCHECK_GPU_MODEL_OUT_FP32;
  call.d = gemm.d;
  call.mode = MXCHECK_GPU_MODEL_COMPARE;
  call.row_end = gemm.m;
  return call;
}

}  // namespace

GpuModel::GpuModel(const std::string& library) : report_(sizeof(MxcheckGpuModelReport)) {
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) throw Error(ErrorKind::environment, std::string("cannot load the GPU model: ") + dlerror());
  void* const symbol = dlsym(loaded, "mxcheck_gpu_model_compare");
  if (symbol == nullptr) throw Error(ErrorKind::environment, library + " has no mxcheck_gpu_model_compare");
  compare_ = reinterpret_cast<decltype(compare_)>(symbol);
}

void GpuModel::reserve(const MoePlan& plan) {
  for (const auto& step : plan.steps) {
    if (!step.gemm) continue;
    const MoeGemm& g = *step.gemm;
    a_.bytes = std::max(a_.bytes, scratch_bytes(g.a, 1, g.m, g.k));
    b_.bytes = std::max(b_.bytes, scratch_bytes(g.b, matrices_of_b(g), g.n, g.k));
  }
  for (Scratch* const s : {&a_, &b_}) {
    if (s->memory != nullptr && s->memory->bytes() >= s->bytes) continue;
    s->memory.reset();
    s->memory = std::make_unique<DeviceBuffer>(s->bytes);
  }
}

const void* GpuModel::k_last(const MoeGemmOperand& operand, std::int64_t matrices, std::int64_t rows, std::int64_t k,
                             Scratch& scratch, cudaStream_t stream) {
  if (!operand.by_k) return operand.data;
  if (operand.scales != nullptr) throw Error(ErrorKind::internal, "codes of FP8 are expected with k last");
  if (scratch_bytes(operand, matrices, rows, k) > scratch.bytes) {
    throw Error(ErrorKind::internal, "no memory was reserved for a transposed operand");
  }
  transpose_words(operand.data, scratch.memory->data(), matrices, k, rows, stream);
  return scratch.memory->data();
}

ModelComparison GpuModel::compare(const MoeGemm& gemm, cudaStream_t stream) {
  MxcheckGpuModelCall call = contract_of(gemm);
  call.a = k_last(gemm.a, 1, gemm.m, gemm.k, a_, stream);
  call.b = k_last(gemm.b, matrices_of_b(gemm), gemm.n, gemm.k, b_, stream);
  call.report = static_cast<MxcheckGpuModelReport*>(report_.data());
  call.stream = stream;
  check_cuda(cudaStreamSynchronize(stream), "what the GPU model reads");
  const auto start = std::chrono::steady_clock::now();
  std::array<char, 256> message{};
  if (compare_(&call, message.data(), message.size()) != 0) {
    throw Error(ErrorKind::internal, std::string("the GPU model: ") + message.data());
  }
  check_cuda(cudaStreamSynchronize(stream), "the GPU model");
  ModelComparison found;
  found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  found.m = gemm.m, found.n = gemm.n, found.outputs = gemm.outputs();
  check_cuda(cudaMemcpy(&found.report, report_.data(), sizeof found.report, cudaMemcpyDeviceToHost),
             "the model's report");
  return found;
}

}  // namespace mxcheck::bench
