#include "benchmarks/sm90/moe/decode.h"

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "benchmarks/sm90/moe/device_layer.h"
#include "benchmarks/sm90/moe/measure.h"
#include "kernels/sm90/moe/few/plan.h"
#include "kernels/sm90/moe/square_codes.h"
#include "numerics/error.h"

namespace mxcheck::bench {
namespace {

using mxcheck_kernels::sm90::MoeCodedWeights;
using mxcheck_kernels::sm90::MoePlan;

constexpr std::array<MoeShape, 4> kShapes{
    {{1, 4096, 2048, 256, 6}, {8, 4096, 2048, 256, 6}, {64, 4096, 2048, 256, 6}, {256, 4096, 2048, 256, 6}}};
constexpr std::array kRecipes{"bf16", "dsv3", "dsv3_pow2"};

std::uint64_t touched_experts(const LayerRoutes& routes) {
  std::uint64_t touched = 0;
  for (std::size_t e = 0; e + 1 < routes.offsets.size(); ++e) touched += routes.offsets[e] != routes.offsets[e + 1];
  return touched;
}

// Weights of a layer as codes.
class CodedWeights {
 public:
  CodedWeights(const MoeShape& s, const LayerMemory& memory, bool e8m0)
      : w1_(codes_bytes(s) * 2), w2_(codes_bytes(s)), s1_(w1_.bytes() / 4096), s2_(w2_.bytes() / 4096) {
    const auto scale = e8m0 ? mxcheck_kernels::CodeScale::rceil : mxcheck_kernels::CodeScale::fp32;
    encode(memory.find("w1"), s.experts, s.width, 2 * s.inner, scale, w1_, s1_);
    encode(memory.find("w2"), s.experts, s.inner, s.width, scale, w2_, s2_);
    weights.w1 = static_cast<const std::uint8_t*>(w1_.data()), weights.w1_scales = s1_.data();
    weights.w2 = static_cast<const std::uint8_t*>(w2_.data()), weights.w2_scales = s2_.data();
  }

  MoeCodedWeights weights;

 private:
  static std::uint64_t codes_bytes(const MoeShape& s) {
    return static_cast<std::uint64_t>(s.experts) * static_cast<std::uint64_t>(s.width) *
           static_cast<std::uint64_t>(s.inner);
  }
  static void encode(const void* w, std::int64_t experts, std::int64_t rows, std::int64_t cols,
                     mxcheck_kernels::CodeScale scale, const DeviceBuffer& codes, const DeviceBuffer& scales) {
    mxcheck_kernels::sm90::SquareJob job;
    job.x = static_cast<const std::uint16_t*>(w), job.cols = cols, job.expert_rows = rows;
    job.rows.rows = experts * rows;
    job.coding = mxcheck_kernels::sm90::device_coding({mxcheck_kernels::Element::e4m3, scale, 128});
    job.kind = mxcheck_kernels::sm90::SquareScales::shared;
    job.transposed = static_cast<std::uint8_t*>(codes.data()), job.transposed_scales = scales.data();
    check_cuda(launch_square(job, nullptr), "codes of weights");
    check_cuda(cudaDeviceSynchronize(), "codes of weights");
  }

  DeviceBuffer w1_, w2_, s1_, s2_;
};

Enqueue running(const MoePlan& plan) {
  return [plan](cudaStream_t to) {
    for (const auto& step : plan.steps) check_cuda(step.enqueue(to), step.name.c_str());
  };
}

// O and H as they are after a run.
std::vector<std::uint8_t> outputs_after(const Enqueue& work, RecipeOnDevice& recipe, cudaStream_t stream) {
  std::vector<std::uint8_t> all;
  work(stream);
  check_cuda(cudaStreamSynchronize(stream), "a pass");
  const MoeTensors& tensors = recipe.tensors();
  for (const auto* list : {&tensors.forward, &tensors.kept}) {
    for (const MoeTensor& t : *list) {
      void* const from = recipe.pass(Direction::forward).data(t.name);
      if (from == nullptr) continue;
      all.resize(all.size() + t.bytes());
      check_cuda(cudaMemcpy(all.data() + all.size() - t.bytes(), from, t.bytes(), cudaMemcpyDeviceToHost), "outputs");
      check_cuda(cudaMemset(from, 0xA5, t.bytes()), "poison");
    }
  }
  return all;
}

}  // namespace

std::span<const MoeShape> decode_moe_shapes() { return kShapes; }

std::string decode_text(const MoeShape& shape, double copy_bytes_per_second, int samples, cudaStream_t stream) {
  const LayerRoutes routes = draw_moe_routes(shape, RouteLoad::uniform, kMoeSeed);
  const std::uint64_t elements =
      touched_experts(routes) * 3 * static_cast<std::uint64_t>(shape.width) * static_cast<std::uint64_t>(shape.inner);
  std::string text =
      fmt::format("{}: {} experts have rows\n{:<12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}\n", shape.text(),
                  touched_experts(routes), "us", "steps", "few", "of copy", "launches", "codes", "of copy");
  LayerMemory memory(shape, routes);
  for (const char* name : kRecipes) {
    RecipeOnDevice recipe(shape, layer_recipe_named(name), MXCHECK_HALVES, WeightsOfCalls::read, memory);
    PassOnDevice& pass = recipe.pass(Direction::forward);
    const bool fp8 = name != std::string_view("bf16");
    std::optional<CodedWeights> coded;
    if (fp8) coded.emplace(shape, memory, name == std::string_view("dsv3_pow2"));
    const auto by_codes = [&](const mxcheck_call& call) {
      return mxcheck_kernels::sm90::moe_few_plan(call, coded->weights);
    };
    std::uint64_t bytes = pass.workspace_bytes();
    for (int i = 0; i < 2; ++i) {  // the second time with all memory
      memory.reserve_workspace(bytes);
      bytes = std::max(bytes, pass.plan_by(mxcheck_kernels::sm90::moe_forward_steps_plan, i == 0).workspace_bytes);
      if (fp8) bytes = std::max(bytes, pass.plan_by(by_codes, i == 0).workspace_bytes);
    }
    std::vector<Enqueue> works{running(pass.plan_by(mxcheck_kernels::sm90::moe_forward_steps_plan, false)),
                               running(pass.plan())};
    if (fp8) works.push_back(running(pass.plan_by(by_codes, false)));
    const std::vector<std::uint8_t> expected = outputs_after(works.front(), recipe, stream);
    for (std::size_t i = 1; i < works.size(); ++i) {
      if (outputs_after(works[i], recipe, stream) == expected) continue;
      throw Error(ErrorKind::internal, fmt::format("{} {}: outputs differ from those of the steps", name,
                                                   i == 1 ? "few tokens" : "kept weights"));
    }
    const std::vector<CallTime> times = time_in_turn(works, samples, stream);
    const auto of_copy = [&](double us, double width) {
      return static_cast<double>(elements) * width / (us * 1e-6) / copy_bytes_per_second;
    };
    text += fmt::format("{:<12}{:>10.1f}{:>10.1f}{:>10.2f}{:>10}", name, times[0].median, times[1].median,
                        of_copy(times[1].median, 2), pass.plan().steps.size());
    if (fp8) text += fmt::format("{:>10.1f}{:>10.2f}", times[2].median, of_copy(times[2].median, 1));
    text += '\n';
    for (const StepTime& s : time_steps(pass.plan(), recipe.recipe(), samples, stream)) {
      text += fmt::format("  {:<24}{:>10.1f}\n", s.name, s.us);
    }
  }
  return text;
}

}  // namespace mxcheck::bench
