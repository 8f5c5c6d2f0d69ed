#pragma once
// The mixture-of-experts layers of production's models, as data: layers.json beside this, which travels inside the
// library. The gate draws each of them (properties/core/domain/layer_uses.h): a kernel is wrong at one width and one
// number of experts together, and those together are these.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mxcheck {

// The router of a layer, as far as it is known; docs/router.md has the variants.
struct LayerRouter {
  std::string variant;  // of reference/router/router.h: by score and renormalization
  bool bias = false;    // added to the scores for choosing
  std::int64_t groups = 1;
  std::int64_t groups_kept = 1;
  float scale = 1;  // of every weight
};

struct ProductionLayer {
  std::string model;
  std::int64_t d = 0;        // hidden width
  std::int64_t n = 0;        // an expert's inner width; gate and up projection together are 2n wide
  std::int64_t experts = 0;  // that are routed to
  std::int64_t active = 0;   // of each token
  std::int64_t shared = 0;   // of every token, beside those
  std::optional<LayerRouter> router;
  std::string source;   // the model's own configuration
  std::string checked;  // the page or file with which these values were compared
};

// Strict; Error{usage} names the layer and the field.
std::vector<ProductionLayer> parse_layers(std::string_view json, const std::string& where);

// The layers of layers.json, and the text of that file.
std::span<const ProductionLayer> production_layers();
std::string_view production_layers_text();

}  // namespace mxcheck
