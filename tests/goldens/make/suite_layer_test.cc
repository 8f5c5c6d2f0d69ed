// The keys of the kinds swiglu and layer, as suite_layer.cc reads them.

#include <gtest/gtest.h>

#include <array>

#include "goldens/make/suite.h"
#include "tests/goldens/make/layer_specs.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;
using test::layer_of;
using test::suite_with;
using test::swiglu_of;

GoldenSpec parsed(const std::string& golden) { return parse_suite(suite_with(golden), "t").goldens.at(0); }

TEST(LayerSuites, keep_every_field_of_swiglu) {
  const GoldenSpec g = parsed(swiglu_of(R"(, "gate_up": "interleaved", "h_codes": {"format": "e5m2", "recipe": "floor"},
    "codes": [{"of": "dH", "format": "e4m3", "block": "1x128", "recipe": "fp32", "along": "tokens"},
              {"of": "A", "format": "e4m3", "block": "1x32", "recipe": "rceil"}])"));
  EXPECT_EQ(g.kind, GoldenKind::swiglu);
  EXPECT_EQ(g.gate_up, GateUp::interleaved);
  EXPECT_EQ(g.offsets, (std::vector<std::int64_t>{0, 33, 33, 70}));
  EXPECT_EQ(g.swiglu.gate.normal, 1U);
  EXPECT_EQ(g.swiglu.up.normal, 2U);
  EXPECT_EQ(g.swiglu.p.dtype, Format::fp32);
  EXPECT_EQ(g.swiglu.weights.cols, 1);
  EXPECT_FALSE(g.swiglu.has_h);
  EXPECT_EQ(g.swiglu.h_codes->format, Format::e5m2);
  EXPECT_EQ(g.swiglu.h_codes->recipe, "floor");
  ASSERT_EQ(g.swiglu.codes.size(), 2U);
  EXPECT_EQ(name_of(g.swiglu.codes[0]), "dH_T_e4m3_1x128_fp32");
  EXPECT_EQ(name_of(g.swiglu.codes[1]), "A_e4m3_1x32_rceil");
}

TEST(LayerSuites, keep_every_field_of_a_layer) {
  const GoldenSpec g = parsed(layer_of("dsv3", R"(, "rules": ["nr-f"], "tile": 8)"));
  EXPECT_EQ(g.kind, GoldenKind::layer);
  EXPECT_EQ(g.layer.recipe->name, "dsv3");
  EXPECT_EQ(g.layer.closed, std::vector<std::int64_t>{1});
  EXPECT_EQ(g.layer.x.normal, 1U);
  EXPECT_EQ(g.layer.d_o.normal, 2U);
  EXPECT_EQ(g.input.normal, 3U);
  EXPECT_EQ(g.layer.gate.at(2).normal, 12U);
  EXPECT_EQ(g.layer.up.at(1).normal, 21U);
  EXPECT_EQ(g.layer.down.at(0).normal, 30U);
  EXPECT_EQ(g.route.router.top_k, 2);
  ASSERT_EQ(g.route.variants.size(), 1U);
  EXPECT_EQ(g.route.variants[0]->name, "softmax-topk");
  EXPECT_EQ(g.route.rules, std::vector{TokenRoundingRule::nr_f});
  EXPECT_EQ(g.route.token_rounding.tile, 8);
}

TEST(LayerSuites, refuse_what_cannot_be_meant_and_say_where) {
  const auto codes = [](const std::string& one) { return swiglu_of(R"(, "codes": [)" + one + "]"); };
  const std::string closed = layer_of(), ending = R"("closed": [1])";
  const auto with_closed = [&](const std::string& list) {
    return std::string(closed).replace(closed.find(ending), ending.size(), "\"closed\": " + list);
  };
  const std::vector<std::array<std::string, 2>> table{
      {swiglu_of(R"(, "h": {"real": "layer0.h"})"), "h: or gate and up are needed"},
      {test::golden_of("swiglu", ""), "h: or gate and up are needed"},
      {test::golden_of("swiglu", R"("gate": {"real": "layer0.h"})"), "lacks \"up\""},
      {test::golden_of("swiglu", R"("h": {"real": "layer0.h"})"), "lacks \"p\""},
      {swiglu_of(R"(, "gate_up": "mixed")"), "gate_up: must be halves or interleaved"},
      {swiglu_of(R"(, "h_codes": {"format": "e4m3"})"), "h_codes: lacks \"recipe\""},
      {swiglu_of(R"(, "h_codes": {"format": "e4m3", "recipe": "rceil", "block": "1x32"})"), "has \"block\""},
      {swiglu_of(R"(, "tile": 1)"), "has \"tile\", which means nothing"},
      {codes(R"({"of": "P", "format": "e4m3", "block": "1x32", "recipe": "rceil"})"), "codes[0].of: must be A"},
      {codes(R"({"of": "A", "format": "bf16", "block": "1x32", "recipe": "rceil"})"), "codes[0].format: 'bf16'"},
      {codes(R"({"of": "A", "format": "e4m3", "block": "32x1", "recipe": "rceil"})"), "codes[0].block: must be of one"},
      {codes(R"({"of": "A", "format": "e4m3", "block": "1x32", "recipe": "up"})"), "codes[0].recipe: "},
      {codes(R"({"of": "A", "format": "e4m3", "block": "1x32", "recipe": "rceil", "along": "rows"})"),
       "along: must be"},
      {codes(R"({"of": "A", "format": "e4m3", "block": "1x32", "recipe": "rceil"},
                {"of": "A", "format": "e4m3", "block": "1x32", "recipe": "rceil"})"),
       "codes[1]: A_e4m3_1x32_rceil is there twice"},
      {layer_of("mxfp9"), "recipe: "},
      {layer_of("mxfp8", R"(, "rules": ["up", "down"], "tile": 8)"), "rules: of a layer are one"},
      {layer_of("mxfp8", R"(, "tile": 8)"), "has \"tile\", which means nothing"},
      {with_closed("[3]"), "closed: are integers from 0 to 2"},
      {with_closed("[1, 1]"), "closed: names expert 1 twice"},
      {with_closed("[0, 1, 2]"), "closed: leaves no expert"},
      {test::golden_of("layer", R"("recipe": "bf16")"), "lacks \"x\""},
      {swiglu_of().replace(swiglu_of().find("normal"), 6, "cycle"), "cycle"},
      {swiglu_of(R"(, "h_codes": 1)"), "h_codes: must be an object"},
  };
  for (const auto& [golden, message] : table) {
    SCOPED_TRACE(golden);
    expect_error(ErrorKind::usage, message, [&, text = suite_with(golden)] { (void)parse_suite(text, "t"); });
  }
}

}  // namespace
}  // namespace mxcheck
