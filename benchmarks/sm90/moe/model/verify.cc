#include "benchmarks/sm90/moe/model/verify.h"

#include <chrono>
#include <cstdio>
#include <optional>

#include <fmt/format.h>

#include "benchmarks/sm90/moe/check/check.h"
#include "benchmarks/sm90/moe/device_layer.h"
#include "benchmarks/sm90/moe/model/gpu_model.h"
#include "numerics/error.h"

namespace mxcheck::bench {
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
    RecipeOnDevice recipe(shape, *each, wanted.gate_up, memory);
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
