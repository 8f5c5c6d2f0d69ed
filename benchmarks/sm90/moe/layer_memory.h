#pragma once
// Device memory that all recipes of a shape share: inputs, routes, outputs and the workspace.
//
// Errors: Error{environment} of CUDA.

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "benchmarks/sm90/common/device_memory.h"
#include "benchmarks/sm90/moe/routes.h"
#include "benchmarks/sm90/moe/tensors.h"

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

}  // namespace mxcheck::bench
