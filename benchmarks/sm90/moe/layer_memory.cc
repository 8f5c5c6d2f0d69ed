#include "benchmarks/sm90/moe/layer_memory.h"

#include <cmath>
#include <vector>

#include "benchmarks/sm90/moe/fill.h"

namespace mxcheck::bench {
namespace {

template <class T>
DeviceBuffer uploaded(const std::vector<T>& values) {
  DeviceBuffer buffer(values.size() * sizeof(T));
  check_cuda(cudaMemcpy(buffer.data(), values.data(), buffer.bytes(), cudaMemcpyHostToDevice), "upload");
  return buffer;
}

}  // namespace

LayerMemory::LayerMemory(const MoeShape& shape, const LayerRoutes& routes) {
  // The tensors of bf16 stand for every recipe's: what is shared does not depend on the recipe.
  const MoeTensors tensors = moe_tensors(shape, layer_recipe_named("bf16"));
  std::uint32_t seed = 1;
  for (const MoeTensor& t : tensors.given) {
    DeviceBuffer& buffer = buffers_.try_emplace(t.name, t.bytes()).first->second;
    const double sums = t.name == "w1" ? static_cast<double>(shape.width) : static_cast<double>(shape.inner);
    const bool weights = t.name == "w1" || t.name == "w2";
    fill_normal(buffer.data(), t.elements(), weights ? static_cast<float>(1 / std::sqrt(sums)) : 1, seed++, nullptr);
  }
  for (const auto* list : {&tensors.forward, &tensors.backward}) {
    for (const MoeTensor& t : *list) {
      const DeviceBuffer& buffer = buffers_.try_emplace(t.name, t.bytes()).first->second;
      check_cuda(cudaMemset(buffer.data(), 0xA5, t.bytes()), "poison");
    }
  }
  buffers_.try_emplace("row_token", uploaded(routes.row_token));
  buffers_.try_emplace("row_weight", uploaded(routes.row_weight));
  buffers_.try_emplace("token_offsets", uploaded(routes.token_offsets));
  buffers_.try_emplace("token_rows", uploaded(routes.token_rows));
  buffers_.try_emplace("offsets", uploaded(routes.offsets));
  check_cuda(cudaDeviceSynchronize(), "filling");  // streams that do not wait for the default one come after it
}

void* LayerMemory::find(const std::string& name) const {
  const auto found = buffers_.find(name);
  return found == buffers_.end() ? nullptr : found->second.data();
}

void LayerMemory::reserve_workspace(std::uint64_t bytes) {
  if (workspace_ != nullptr && workspace_->bytes() >= bytes) return;
  workspace_.reset();
  workspace_ = std::make_unique<DeviceBuffer>(bytes);
  check_cuda(cudaMemset(workspace_->data(), 0xA5, bytes), "workspace");
  check_cuda(cudaDeviceSynchronize(), "workspace");
}

}  // namespace mxcheck::bench
