#include "benchmarks/sm90/moe/report/json.h"

namespace mxcheck::bench {
namespace {

Json json_of(const StepTime& s, double copy) {
  Json json{{"name", s.name}, {"kind", name_in(kStepKinds, s.kind)}, {"us", s.us}, {"bytes", s.bytes}};
  json["bytes_per_second"] = s.bytes_per_second();
  if (s.kind == StepKind::gemm) {
    json["products"] = s.products;
    json["tflops"] = s.tflops();
    json["peak_tflops"] = s.peak_tflops;
  }
  json["share_of_limit"] = s.share_of_limit(copy);
  return json;
}

Json json_of(const PassResult& p, const ShapeResult& r, double copy) {
  Json json{{"us", p.call.median}, {"us_least", p.call.least}, {"us_most", p.call.most}};
  json["tflops"] = r.shape.tflops(p.direction, p.call.median);
  json["us_with_router"] = r.with_router(p);
  if (const auto of = r.of_bf16(p)) json["of_bf16"] = *of;
  if (const auto of = r.of_sonic_moe(p)) json["of_sonic_moe"] = *of;
  json["steps_us"] = p.steps_us();
  Json shares = Json::object();
  for (const auto& kind : kStepKinds) shares[kind.name] = p.share(kind.value);
  json["shares"] = shares;
  json["tensor_bytes"] = p.tensor_bytes;
  json["workspace_bytes"] = p.workspace_bytes;
  json["peak_bytes"] = p.peak_bytes();
  Json steps = Json::array();
  for (const StepTime& s : p.steps) steps.push_back(json_of(s, copy));
  json["steps"] = steps;
  return json;
}

Json json_of(const ShapeResult& r, double copy) {
  const MoeShape& s = r.shape;
  Json json{{"tokens", s.tokens}, {"d", s.width},     {"n", s.inner},        {"experts", s.experts},
            {"top_k", s.top_k},   {"routes", r.load}, {"busiest", r.busiest}};
  if (r.router) json["router"] = Json{{"route_us", r.router->route}, {"metadata_us", r.router->metadata}};
  if (const SonicMoeRate* const rate = find_sonic_moe_rate(s); rate != nullptr) {
    json["sonic_moe_tflops"] = Json{{"forward", rate->forward}, {"backward", rate->backward}};
  }
  json["sonic_moe_kept_bytes"] = sonic_moe_kept_bytes(s);
  Json recipes = Json::array();
  for (const RecipeResult& recipe : r.recipes) {
    Json one{{"recipe", recipe.recipe}, {"kept_bytes", recipe.kept_bytes}};
    if (!recipe.check.empty()) one["check"] = Json{{"equal", recipe.equal}, {"text", recipe.check}};
    for (const PassResult& p : recipe.passes) one[to_text(p.direction)] = json_of(p, r, copy);
    recipes.push_back(one);
  }
  json["recipes"] = recipes;
  return json;
}

}  // namespace

Json json_of(const MoeResults& r) {
  Json json{{"device", r.device}, {"library", r.library}, {"samples", r.samples}};
  json["copy_bytes_per_second"] = r.copy_bytes_per_second;
  Json shapes = Json::array();
  for (const ShapeResult& s : r.shapes) shapes.push_back(json_of(s, r.copy_bytes_per_second));
  json["shapes"] = shapes;
  return json;
}

}  // namespace mxcheck::bench
