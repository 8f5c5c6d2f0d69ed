#pragma once
// The result of comparing a GEMM's outputs with the GPU model, and its line in a table.

#include <cstdint>
#include <string>

#include "benchmarks/sm90/moe/shape.h"
#include "properties/gpu_model/gpu_model.h"

namespace mxcheck::bench {

struct ModelComparison {
  Direction direction = Direction::forward;
  std::string step;
  std::int64_t m = 0;  // of each expert's matrix where groups lie along k
  std::int64_t n = 0;
  std::uint64_t outputs = 0;   // that the GEMM has
  std::uint64_t products = 0;  // that it sums
  MxcheckGpuModelReport report{};
  double seconds = 0;  // of the model

  // Every output was compared, and none differs.
  [[nodiscard]] bool equal() const;
};

std::string comparison_head();
std::string comparison_line(const ModelComparison& comparison);

}  // namespace mxcheck::bench
