#pragma once
// The memory of a run on the device beside a pass's activations, and the sizes of a pass.

#include <cstdint>
#include <string>

#include <cuda_runtime_api.h>

#include "kernels/candidate.h"
#include "kernels/common/route/policy.h"
#include "kernels/sm90/train/elementwise/attention.h"
#include "kernels/sm90/train/elementwise/ends.h"
#include "kernels/sm90/train/elementwise/update.h"
#include "kernels/sm90/train/model/buffers.h"
#include "kernels/sm90/train/model/sizes.h"

namespace mxcheck_kernels::sm90 {

// The tensors of all parameters, at the offsets of `parameters`.
struct Model {
  mxcheck_train_config config{};  // its texts are `recipe` and `rounding`
  std::string recipe;
  std::string rounding;
  TokenRoundingRule rule = TokenRoundingRule::none;
  Parameters parameters;
  float* weights = nullptr;
  std::uint16_t* bf16 = nullptr;
  float* gradients = nullptr;
  Rotation rotation;
  mxcheck_device_report* report = nullptr;

  [[nodiscard]] const float* gain(std::size_t p) const { return weights + parameters.list[p].offset; }
  [[nodiscard]] const std::uint16_t* weight(std::size_t p) const { return bf16 + parameters.list[p].offset; }
  [[nodiscard]] float* gradient(std::size_t p) const { return gradients + parameters.list[p].offset; }
};

// The sizes of a pass over so many sequences.
struct PassShape {
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
  AttentionShape attention;
  const char* recipe = "";
  TokenRoundingRule rule = TokenRoundingRule::none;
  std::int64_t most_routed = 0;
};
PassShape pass_shape(const Model& model, std::int64_t sequences, const char* recipe, TokenRoundingRule rule);

}  // namespace mxcheck_kernels::sm90
