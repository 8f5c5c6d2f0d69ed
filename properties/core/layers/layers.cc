#include "properties/core/layers/layers.h"

#include <array>
#include <utility>

#include "goldens/json/json.h"
#include "numerics/error.h"

namespace mxcheck {
namespace {

constexpr std::size_t kMostLayers = 1000;
constexpr std::int64_t kMostWidth = std::int64_t{1} << 20;
constexpr std::int64_t kMostExperts = 4096;

struct VariantOf {
  std::string_view score;
  bool renormalize;
  std::string_view variant;
};
constexpr std::array<VariantOf, 7> kVariants{{{"logits", true, "topk-softmax"},
                                              {"softmax", true, "softmax-topk-renorm"},
                                              {"softmax", false, "softmax-topk"},
                                              {"sigmoid", true, "sigmoid"},
                                              {"sigmoid", false, "sigmoid-raw"},
                                              {"sqrtsoftplus", true, "sqrtsoftplus"},
                                              {"sqrtsoftplus", false, "sqrtsoftplus-raw"}}};

bool required_flag(JsonObject& object, const char* key) {
  if (!object.has(key)) (void)object.required(key);  // throws: it is missing
  return object.flag(key);
}

LayerRouter parse_router(JsonObject router, std::int64_t experts, std::int64_t active) {
  LayerRouter r;
  const std::string score = router.text("score");
  const bool renormalize = required_flag(router, "renormalize");
  for (const VariantOf& v : kVariants) {
    if (v.score == score && v.renormalize == renormalize) r.variant = v.variant;
  }
  if (r.variant.empty()) router.refuse("score", "is none of logits (renormalized), softmax, sigmoid, sqrtsoftplus");
  r.bias = required_flag(router, "bias");
  r.groups = router.integer("groups", 1, experts);
  if (experts % r.groups != 0) router.refuse("groups", "must divide the experts");
  r.groups_kept = router.integer("groups_kept", 1, r.groups);
  if (r.groups_kept * (experts / r.groups) < active) router.refuse("groups_kept", "hold too few experts");
  const auto* scale = router.required("scale").get_if<double>();
  if (scale == nullptr || !(*scale > 0 && *scale <= 1000)) router.refuse("scale", "must be a number as 2.5, to 1000");
  r.scale = static_cast<float>(*scale);
  router.finish();
  return r;
}

std::string parse_address(JsonObject& layer, const char* key) {
  std::string text = layer.text(key);
  if (!text.starts_with("https://")) layer.refuse(key, "must be an address that begins with https://");
  return text;
}

ProductionLayer parse_layer(JsonObject from) {
  ProductionLayer layer;
  layer.model = from.text("model");
  if (layer.model.empty()) from.refuse("model", "must have a name");
  layer.d = from.integer("d", 1, kMostWidth);
  layer.n = from.integer("n", 1, kMostWidth);
  layer.experts = from.integer("experts", 1, kMostExperts);
  layer.active = from.integer("active", 1, layer.experts);
  layer.shared = from.integer("shared", 0, kMostExperts);
  if (from.has("router"))
    layer.router = parse_router({from.required("router"), from.place() + ".router"}, layer.experts, layer.active);
  layer.source = parse_address(from, "source");
  layer.checked = parse_address(from, "checked");
  from.finish();
  return layer;
}

}  // namespace

std::vector<ProductionLayer> parse_layers(std::string_view json, const std::string& where) {
  const Json document = parse_json(json, where, 5, ErrorKind::usage);
  JsonObject all(document, where);
  std::vector<ProductionLayer> layers;
  for (const Json& one : all.list("layers", kMostLayers)) {
    const std::string place = where + ": layers[" + std::to_string(layers.size()) + "]";
    ProductionLayer layer = parse_layer({one, place});
    for (const ProductionLayer& other : layers) {
      if (other.model == layer.model) throw Error(ErrorKind::usage, place + ".model: there is a layer of this name");
    }
    layers.push_back(std::move(layer));
  }
  all.finish();
  return layers;
}

std::span<const ProductionLayer> production_layers() {
  static const std::vector<ProductionLayer> all = parse_layers(production_layers_text(), "layers.json");
  return all;
}

}  // namespace mxcheck
