#include "benchmarks/sm90/moe/verify.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>

#include "benchmarks/sm90/common/fill.h"
#include "benchmarks/sm90/moe/device_layer.h"
#include "benchmarks/sm90/moe/measure.h"
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
  return call;
}

}  // namespace

GpuModel::GpuModel(const std::string& library) {
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
  if (gemm.alpha != nullptr) {
    check_cuda(cudaMemcpyAsync(&call.alpha, gemm.alpha, sizeof(float), cudaMemcpyDeviceToHost, stream), "alpha");
    check_cuda(cudaStreamSynchronize(stream), "alpha");
  }
  const ModelRun run = run_model(compare_, call, stream);
  ModelComparison found;
  found.m = gemm.m, found.n = gemm.n, found.outputs = gemm.outputs();
  found.report = run.report, found.seconds = run.seconds;
  return found;
}

// --- steps

namespace {

using mxcheck_kernels::sm90::MatmulOutput;
using mxcheck_kernels::sm90::MoeGemm;
using mxcheck_kernels::sm90::MoePlan;
using mxcheck_kernels::sm90::MoeStep;
using mxcheck_kernels::sm90::MoeStepKind;

struct Tally {
  int gemms = 0;
  std::uint64_t compared = 0;
  std::uint64_t differing = 0;
  bool equal = true;
};

std::uint64_t output_bytes(const MoeGemm& gemm) { return gemm.output == MatmulOutput::bf16 ? 2 : 4; }

// The lowest bit of the last output, changed; again, and it is as it was.
void change_last_bit(const MoeGemm& gemm) {
  if (gemm.outputs() == 0) return;
  auto* const at = static_cast<std::uint8_t*>(gemm.d) + (gemm.outputs() - 1) * output_bytes(gemm);
  std::uint8_t low = 0;
  check_cuda(cudaMemcpy(&low, at, 1, cudaMemcpyDeviceToHost), "an output to spoil");
  low ^= 1;
  check_cuda(cudaMemcpy(at, &low, 1, cudaMemcpyHostToDevice), "an output to spoil");
}

ModelComparison compare_step(GpuModel& model, const MoeStep& step, bool spoiled, cudaStream_t stream) {
  const MoeGemm& gemm = *step.gemm;
  check_cuda(cudaStreamSynchronize(stream), step.name.c_str());
  if (spoiled) change_last_bit(gemm);
  ModelComparison found = model.compare(gemm, stream);
  if (spoiled) change_last_bit(gemm);
  found.step = step.name, found.products = step.products;
  return found;
}

void compare_pass(GpuModel& model, RecipeOnDevice& recipe, Direction direction, const std::string& spoil, Tally& tally,
                  cudaStream_t stream) {
  PassOnDevice& pass = recipe.pass(direction);
  const MoePlan plan = pass.plan();
  for (const MoeStep& step : plan.steps) {
    if (step.gemm) {  // a GEMM that writes nothing would leave what an earlier recipe wrote there
      const std::uint64_t bytes = step.gemm->outputs() * output_bytes(*step.gemm);
      check_cuda(cudaMemsetAsync(step.gemm->d, 0xA5, bytes, stream), "poison");
    }
    check_cuda(step.enqueue(stream), step.name.c_str());
    if (step.gemm.has_value() != (step.kind == MoeStepKind::gemm)) {
      throw Error(ErrorKind::internal, step.name + ": a GEMM, and nothing else, says what it multiplies");
    }
    if (!step.gemm) continue;
    ModelComparison found = compare_step(model, step, step.name == spoil, stream);
    found.direction = direction;
    fmt::print("{}", comparison_line(found));
    std::fflush(stdout);
    ++tally.gemms, tally.compared += found.report.compared, tally.differing += found.report.differing;
    tally.equal = tally.equal && found.equal();
  }
  const std::string wrong = pass.report();
  if (!wrong.empty()) {
    throw Error(ErrorKind::internal, fmt::format("{} {}: {}", recipe.recipe().name, to_text(direction), wrong));
  }
}

bool verify_shape(GpuModel& model, const MoeShape& shape, const Measurement& wanted, const std::string& spoil,
                  cudaStream_t stream) {
  const LayerRoutes routes = draw_moe_routes(shape, wanted.load, kMoeSeed);
  LayerMemory memory(shape, routes);
  std::optional<LayerCheck> check;
  if (wanted.check > 0) check.emplace(shape, wanted.gate_up, routes, memory);
  bool equal = true;
  for (const LayerRecipe* const each : wanted.recipes) {
    RecipeOnDevice recipe(shape, *each, wanted.gate_up, WeightsOfCalls::read, memory);
    memory.reserve_workspace(recipe.workspace_bytes());
    for (const Direction d : {Direction::forward, Direction::backward}) model.reserve(recipe.pass(d).plan());
    fmt::print("\n{}, {}\n{}", each->name, shape.text(), comparison_head());
    const auto start = std::chrono::steady_clock::now();
    Tally tally;
    for (const Direction d : {Direction::forward, Direction::backward}) {
      compare_pass(model, recipe, d, spoil, tally, stream);
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    fmt::print("{}: {} outputs of {} GEMMs compared with the GPU model, {} differ; {:.1f} s\n",
               tally.equal ? "equal" : "NOT EQUAL", tally.compared, tally.gemms, tally.differing, seconds.count());
    equal = equal && tally.equal;
    if (!check) continue;
    const CheckResult found = check->compare(recipe, wanted.check);
    fmt::print("{}\n", found.text);
    equal = equal && found.equal;
  }
  return equal;
}

}  // namespace

bool verify(const std::vector<MoeShape>& shapes, const Measurement& wanted, const ModelRequest& request,
            cudaStream_t stream) {
  GpuModel model(request.library);
  bool equal = true;
  for (const MoeShape& shape : shapes) equal = verify_shape(model, shape, wanted, request.spoil, stream) && equal;
  return equal;
}

}  // namespace mxcheck::bench
