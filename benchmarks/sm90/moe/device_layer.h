#pragma once
// Device memory that all recipes of a shape share: inputs, routes, outputs and the workspace.
//
// Errors: Error{environment} of CUDA.

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/sm90/common/device.h"
#include "benchmarks/sm90/moe/shape.h"
#include "kernels/candidate_kept_weights.h"
#include "kernels/candidate_moe.h"
#include "kernels/sm90/moe/moe_plan.h"

namespace mxcheck::bench {

class LayerMemory {
 public:
  // Inputs of a normal distribution, weights over the root of what they sum over; outputs and routes.
  LayerMemory(const MoeShape& shape, const LayerRoutes& routes);

  [[nodiscard]] void* find(const std::string& name) const;  // null for what a recipe has of its own
  // Grows, while nothing is enqueued.
  void reserve_workspace(std::uint64_t bytes);
  [[nodiscard]] const DeviceBuffer* workspace() const { return workspace_.get(); }

 private:
  std::map<std::string, DeviceBuffer> buffers_;
  std::unique_ptr<DeviceBuffer> workspace_;
};

// --- passes
//
// A layer on the device under a recipe: its two passes, over memory that all recipes of a shape share.
//
//   LayerMemory memory(shape, routes);
//   RecipeOnDevice recipe(shape, layer_recipe_named("mxfp8"), MXCHECK_HALVES, memory);
//   memory.reserve_workspace(recipe.workspace_bytes());
//   recipe.pass(Direction::forward).enqueue(stream);
//
// Passes of several recipes run one after the other in one stream: outputs and workspace are the same memory. What a
// forward pass keeps is the recipe's own.
//
// Errors: Error{environment} of CUDA; Error{internal} for a call that the library refuses.

const mxcheck_operation& moe_operation(Direction direction);  // of the library that is linked
// The way in which calls have weights.
enum class WeightsOfCalls : std::uint8_t { read, kept, checked };
bool moe_library_offers(const LayerRecipe& recipe, mxcheck_gate_up gate_up, WeightsOfCalls weights);
std::string moe_library_name();

using PlanOf = std::function<mxcheck_kernels::sm90::MoePlan(const mxcheck_call&)>;

class PassOnDevice {
 public:
  // Kept weights: in memory of the pass's own.
  PassOnDevice(Direction direction, const MoeTensors& tensors, const mxcheck_moe_policy& policy, WeightsOfCalls weights,
               const std::map<std::string, DeviceBuffer>& kept, const LayerMemory& memory);

  [[nodiscard]] std::uint64_t workspace_bytes();
  [[nodiscard]] std::uint64_t weights_bytes() const { return weights_ == nullptr ? 0 : weights_->bytes(); }
  // The first call keeps the weights, where they are kept, and is followed by one that uses them.
  void enqueue(cudaStream_t stream);
  // The same pass step by step; valid while this is.
  mxcheck_kernels::sm90::MoePlan plan();
  // By another path of the library; for_sizes: without the workspace, for its bytes alone.
  mxcheck_kernels::sm90::MoePlan plan_by(const PlanOf& plan_of, bool for_sizes);
  // The device's report of what was wrong with the calls so far; waits for it. Empty: nothing.
  std::string report();
  [[nodiscard]] void* data(const std::string& name) const;  // of an input or output; null: there is none

 private:
  mxcheck_call call(cudaStream_t stream);
  std::uint64_t asked_bytes();  // of the policy as it is
  void run(cudaStream_t stream);
  DLTensor bound(const MoeTensors& tensors, const std::string& name, const std::map<std::string, DeviceBuffer>& kept);

  const mxcheck_operation& operation_;
  mxcheck_moe_kept_policy policy_{};
  std::unique_ptr<DeviceBuffer> weights_;
  WeightsOfCalls of_calls_;
  bool has_kept_ = false;
  const LayerMemory& memory_;
  std::map<std::string, void*> data_;
  std::deque<std::vector<std::int64_t>> shapes_;  // whose elements stay where they are
  std::vector<DLTensor> inputs_;
  std::vector<DLTensor> outputs_;
  DeviceBuffer report_;
  std::array<char, 512> message_{};
  mxcheck_call planned_{};  // that plan() was made of
};

class RecipeOnDevice {
 public:
  RecipeOnDevice(const MoeShape& shape, const LayerRecipe& recipe, mxcheck_gate_up gate_up, WeightsOfCalls weights,
                 const LayerMemory& memory);
  RecipeOnDevice(const RecipeOnDevice&) = delete;
  RecipeOnDevice& operator=(const RecipeOnDevice&) = delete;

  [[nodiscard]] const LayerRecipe& recipe() const { return recipe_; }
  [[nodiscard]] const MoeTensors& tensors() const { return tensors_; }
  PassOnDevice& pass(Direction direction) { return passes_[static_cast<std::size_t>(direction)]; }
  std::uint64_t workspace_bytes();  // of the pass that needs more

 private:
  const LayerRecipe& recipe_;
  MoeTensors tensors_;
  mxcheck_moe_policy policy_{};
  std::map<std::string, DeviceBuffer> kept_;
  std::deque<PassOnDevice> passes_;
};

}  // namespace mxcheck::bench
