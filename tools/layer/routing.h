#pragma once
// A layer's routes: computed from logits, or read from what `mxcheck route -o` wrote.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reference/layer/routes.h"
#include "tools/layer/input.h"
#include "tools/route/router_options.h"

namespace mxcheck {

struct LayerRouting {
  std::string where;  // for messages
  LayerRoutes routes;
  std::int64_t tokens = 0, experts = 0;
  std::map<std::string, std::string> about;  // metadata: what made the routes
  // The gradient of the logits from that of each row's weight, for routes from logits under rule none; else nothing.
  std::optional<std::vector<float>> logits_gradient(std::span<const float> ds, int threads) const;

  // The inputs that logits_gradient() needs.
  Router router;
  std::vector<float> bias;
  std::vector<std::byte> logits;
  Format logits_dtype = Format::fp32;
  std::vector<std::int32_t> slot_experts;
};

LayerRouting routing_from_logits(const LayerFiles& files, const std::string& logits, const RouterOptions& options,
                                 int threads);
// FILE.safetensors or FILE.h5 with offsets, row_token, row_weight, token_offsets, token_rows; where experts and weights
// are there too, slots are theirs, best first. A layer's own file will do as well.
LayerRouting routing_from_file(const std::string& file);

}  // namespace mxcheck
