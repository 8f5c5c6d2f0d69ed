#include "properties/core/layers/layers.h"

#include <gtest/gtest.h>

#include <string>

#include "numerics/error.h"
#include "reference/router/router.h"

namespace mxcheck {
namespace {

constexpr const char* kLayer =
    R"("model": "A", "d": 64, "n": 32, "experts": 8, "active": 2, "shared": 0, "source": "https://a", "checked": "https://b")";
constexpr const char* kRouter =
    R"("score": "sigmoid", "renormalize": true, "bias": false, "groups": 4, "groups_kept": 1, "scale": 2.5)";

std::string layers_of(const std::string& fields) { return "{\"layers\": [{" + fields + "}]}"; }
std::string with(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

// The message of the typed error; empty where there is none.
std::string refusal(const std::string& text) {
  try {
    parse_layers(text, "x.json");
  } catch (const Error& e) {
    return e.kind() == ErrorKind::usage ? e.what() : "of another kind";
  }
  return "";
}

TEST(Layers, are_those_of_many_models_with_sane_values_and_sources) {
  EXPECT_GE(production_layers().size(), 25U);
  for (const ProductionLayer& layer : production_layers()) {
    EXPECT_TRUE(layer.d % 128 == 0 || layer.d == 2880) << layer.model;  // gpt-oss: 90 blocks of 32
    EXPECT_EQ(layer.d % 32, 0) << layer.model;
    EXPECT_EQ(layer.n % 32, 0) << layer.model;
    EXPECT_GE(layer.d, 1024) << layer.model;
    EXPECT_LE(layer.d, 8192) << layer.model;
    EXPECT_LE(layer.n, 20'480) << layer.model;
    EXPECT_LE(layer.active, 16) << layer.model;  // above that top_k is an option of the interface
    EXPECT_LE(layer.experts, 512) << layer.model;
    EXPECT_TRUE(layer.source.starts_with("https://huggingface.co/")) << layer.model;
    if (layer.router) {
      EXPECT_NO_THROW((void)router_variant_named(layer.router->variant)) << layer.model;
    }
  }
}

TEST(Layers, what_is_read_is_what_is_written) {
  const auto layers = parse_layers(layers_of(std::string(kLayer) + ", \"router\": {" + kRouter + "}"), "x.json");
  ASSERT_EQ(layers.size(), 1U);
  EXPECT_EQ(layers[0].model, "A");
  EXPECT_EQ(layers[0].d, 64);
  EXPECT_EQ(layers[0].n, 32);
  EXPECT_EQ(layers[0].experts, 8);
  EXPECT_EQ(layers[0].active, 2);
  ASSERT_TRUE(layers[0].router);
  EXPECT_EQ(layers[0].router->variant, "sigmoid");
  EXPECT_EQ(layers[0].router->groups, 4);
  EXPECT_EQ(layers[0].router->scale, 2.5F);
  EXPECT_FALSE(parse_layers(layers_of(kLayer), "x.json")[0].router);
}

TEST(Layers, what_cannot_be_is_a_typed_error_that_names_the_field) {
  const std::string layer = kLayer;
  const std::string router = kRouter;
  EXPECT_EQ(refusal(layers_of(layer)), "");
  EXPECT_EQ(refusal("[]"), "x.json: must be an object {...}");
  EXPECT_NE(refusal("{\"layers\": [").find("x.json"), std::string::npos);
  const auto says = [&](const std::string& fields, const char* what) {
    EXPECT_NE(refusal(layers_of(fields)).find(what), std::string::npos) << refusal(layers_of(fields));
  };
  says(with(layer, "\"active\": 2", "\"active\": 9"), "layers[0].active: must be an integer from 1 to 8");
  says(with(layer, "\"d\": 64", "\"d\": 0"), "layers[0].d");
  says(with(layer, "\"d\": 64", "\"d\": 64.5"), "layers[0].d");
  says(with(layer, "https://a", "a page"), "layers[0].source: must be an address");
  says(with(layer, ", \"checked\": \"https://b\"", ""), "lacks \"checked\"");
  says(layer + ", \"depth\": 3", "has \"depth\"");
  const auto router_says = [&](const char* from, const char* to, const char* what) {
    says(layer + ", \"router\": {" + with(router, from, to) + "}", what);
  };
  router_says("\"groups\": 4", "\"groups\": 3", "router.groups: must divide the experts");
  router_says("\"groups\": 4", "\"groups\": 8", "router.groups_kept: hold too few experts");
  router_says("sigmoid", "tanh", "router.score");
  router_says("\"bias\": false, ", "", "lacks \"bias\"");
  router_says("2.5", "-1.0", "router.scale");
  EXPECT_NE(refusal("{\"layers\": [{" + layer + "}, {" + layer + "}]}").find("layers[1].model: there is a layer"),
            std::string::npos);
}

}  // namespace
}  // namespace mxcheck
