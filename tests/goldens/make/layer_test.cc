// Goldens of SwiGLU and of whole layers: what the files hold, against the reference called for each part.

#include "goldens/make/layer.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "goldens/format/reader.h"
#include "goldens/make/input.h"
#include "goldens/make/make.h"
#include "numerics/bytes.h"
#include "reference/layer/layer.h"
#include "reference/quantize/quantize.h"
#include "tests/goldens/make/layer_specs.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;
using test::layer_of;
using test::suite_with;
using test::swiglu_of;

class LayerGoldens : public testing::Test {
 protected:
  void make(const std::string& golden) { make_suite(parse_suite(suite_with(golden), "t"), dir.path(), {}); }
  [[nodiscard]] GoldenInfo info() const { return GoldenReader(dir / "g.h5").info(); }
  template <class T>
  [[nodiscard]] std::vector<T> read(const std::string& dataset) const {
    return values_in<T>(GoldenReader(dir / "g.h5").read(dataset).data);
  }
  test::TemporaryDirectory dir;
};

float value(std::uint16_t bf16) { return std::bit_cast<float>(std::uint32_t{bf16} << 16); }

TEST_F(LayerGoldens, swiglu_is_the_definition_element_by_element_in_both_orders) {
  for (const std::string order : {"halves", "interleaved"}) {
    make(swiglu_of(R"(, "gate_up": ")" + order + "\""));
    const auto h = read<std::uint16_t>("H"), a = read<std::uint16_t>("A"), dh = read<std::uint16_t>("dH");
    const auto scaled = read<std::uint16_t>("scaled_A");
    const auto p = read<float>("P"), s = read<float>("row_weight"), ds = read<float>("dS");
    ASSERT_EQ(h.size(), 70U * 80);
    for (std::size_t row = 0; row < 70; ++row) {
      for (std::size_t j = 0; j < 40; ++j) {
        const std::size_t gate = row * 80 + (order == "halves" ? j : 2 * j);
        const std::size_t up = row * 80 + (order == "halves" ? 40 + j : 2 * j + 1), at = row * 40 + j;
        EXPECT_EQ(a[at], layer_bf16(swiglu(value(h[gate]), value(h[up]))));
        EXPECT_EQ(scaled[at], layer_bf16(s[row] * value(a[at])));
        const SwigluGradient d = swiglu_gradient(value(h[gate]), value(h[up]), s[row] * p[at]);
        EXPECT_EQ(dh[gate], layer_bf16(d.dg));
        EXPECT_EQ(dh[up], layer_bf16(d.du));
      }
    }
    EXPECT_GT(std::set<float>(ds.begin(), ds.end()).size(), 60U);
  }
}

TEST_F(LayerGoldens, codes_along_tokens_are_those_of_the_transpose_and_start_again_at_each_expert) {
  make(swiglu_of(R"(, "codes": [
    {"of": "scaled_A", "format": "e4m3", "block": "1x32", "recipe": "rceil", "along": "tokens"},
    {"of": "dH", "format": "e4m3", "block": "1x128", "recipe": "fp32"}])"));
  const auto x = read<std::uint16_t>("scaled_A"), dh = read<std::uint16_t>("dH");
  const GoldenInfo i = info();
  EXPECT_EQ(i.find("scaled_A_T_e4m3_1x32_rceil_codes")->shape, (std::vector<std::int64_t>{40, 70}));
  EXPECT_EQ(i.find("scaled_A_T_e4m3_1x32_rceil_scales")->shape, (std::vector<std::int64_t>{40, 4}));
  EXPECT_EQ(i.find("dH_e4m3_1x128_fp32_scales")->format, "float32");
  const auto codes = read<std::uint8_t>("scaled_A_T_e4m3_1x32_rceil_codes");
  const auto scales = read<std::uint8_t>("scaled_A_T_e4m3_1x32_rceil_scales");
  const std::vector<std::pair<std::size_t, std::size_t>> blocks{{0, 32}, {32, 33}, {33, 65}, {65, 70}};
  for (std::size_t col = 0; col < 40; ++col) {
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      std::vector<std::uint16_t> column;  // as a row of its own
      for (std::size_t row = blocks[b].first; row < blocks[b].second; ++row) column.push_back(x[row * 40 + col]);
      const auto n = std::ssize(column);
      const Quantized q = quantize({Format::bf16, std::as_bytes(std::span(column)).data(), 1, n, n}, Format::e4m3,
                                   {1, 32}, recipe_named("rceil"));
      EXPECT_EQ(scales[col * 4 + b], q.scales.at(0));
      for (std::size_t k = 0; k < column.size(); ++k) EXPECT_EQ(codes[col * 70 + blocks[b].first + k], q.codes[k]);
    }
  }
  const Quantized rows = quantize({Format::bf16, std::as_bytes(std::span(dh)).data(), 70, 80, 80}, Format::e4m3,
                                  {1, 128}, recipe_named("fp32"));
  EXPECT_EQ(read<std::uint8_t>("dH_e4m3_1x128_fp32_codes"), rows.codes);
}

TEST_F(LayerGoldens, h_as_codes_stands_for_what_they_decode_to) {
  make(swiglu_of(R"(, "h_codes": {"format": "e4m3", "recipe": "rceil"})"));
  Quantized q;
  q.block = {1, 32}, q.rows = 70, q.cols = 80, q.scale_rows = 70, q.scale_cols = 3;
  q.codes = read<std::uint8_t>("H_codes"), q.scales = read<std::uint8_t>("H_scales");
  const std::vector<float> h = dequantize(q);
  const auto a = read<std::uint16_t>("A");
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(a[i], layer_bf16(swiglu(h[i / 40 * 80 + i % 40], h[i / 40 * 80 + 40 + i % 40])));
  EXPECT_EQ(info().find("H"), nullptr);
}

TEST_F(LayerGoldens, a_layer_is_the_references_and_its_closed_expert_has_no_rows) {
  make(layer_of("dsv3", R"(, "gate_up": "interleaved")"));
  const GoldenInfo i = info();
  const auto x = read<std::uint16_t>("X"), w1 = read<std::uint16_t>("W1"), w2 = read<std::uint16_t>("W2");
  const auto logits = read<std::uint16_t>("logits");
  Router router;
  router.variant = &router_variant_named("softmax-topk"), router.top_k = 2;
  const Routes chosen = route(router, {Format::bf16, std::as_bytes(std::span(logits)).data(), 40, 3, 3});
  const LayerRoutes routes = layer_routes(chosen, 3);
  EXPECT_EQ(routes.offsets[1], routes.offsets[2]);
  EXPECT_EQ(read<std::int64_t>("offsets"), routes.offsets);
  const Layer layer{{40, 64, 32, 3}, &layer_recipe_named("dsv3"), GateUp::interleaved, w1, w2};
  const LayerForward f = layer_forward(layer, x, routes);
  const LayerBackward b = layer_backward(layer, f.kept, read<std::uint16_t>("dO"), routes);
  EXPECT_EQ(read<std::uint16_t>("O"), f.o);
  EXPECT_EQ(read<std::uint16_t>("dX"), b.dx);
  EXPECT_EQ(read<float>("dW1"), b.dw1);
  EXPECT_EQ(read<float>("dW2"), b.dw2);
  const std::vector<float> slots = slot_gradient(routes, b.ds);
  EXPECT_EQ(read<float>("d_logits"),
            route_backward(router, {Format::bf16, std::as_bytes(std::span(logits)).data(), 40, 3, 3}, chosen.experts,
                           slots, 2));
  EXPECT_EQ(attribute(i.attributes, "recipe_name"), "dsv3");
  EXPECT_EQ(attribute(i.attributes, "up.b.block"), "128x128");
  EXPECT_EQ(attribute(i.find("A")->attributes, "step"), "swiglu");
  // Gate and up where the order says: the first expert's first row.
  const GoldenSpec spec = parse_suite(suite_with(layer_of()), "t").goldens.at(0);
  const InputWords gate = read_bf16(spec.layer.gate[0], ".", "gate"), up = read_bf16(spec.layer.up[0], ".", "up");
  for (std::size_t j = 0; j < 32; ++j) {
    EXPECT_EQ(w1[2 * j], gate.words[j]);
    EXPECT_EQ(w1[2 * j + 1], up.words[j]);
  }
}

TEST_F(LayerGoldens, what_does_not_fit_is_refused_and_leaves_nothing) {
  const auto refused = [&](const std::string& message, const std::string& golden) {
    expect_error(ErrorKind::usage, message, [&] { make(golden); });
    EXPECT_FALSE(std::filesystem::exists(dir / "g.h5")) << golden;
  };
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  refused("up: is 70 x 41; 70 x 40 is needed",
          replaced(swiglu_of(), test::normal_numbers_of(2, 70, 40), test::normal_numbers_of(2, 70, 41)));
  refused("gate: is fp32",
          replaced(swiglu_of(), test::normal_numbers_of(1, 70, 40), test::normal_numbers_of(1, 70, 40, "fp32")));
  refused("weights: is 69 x 1; 70 x 1 is needed",
          replaced(swiglu_of(), test::normal_numbers_of(4, 70, 1), test::normal_numbers_of(4, 69, 1)));
  refused("last offset (offset 3) is 71: must be the number of rows, 70", replaced(swiglu_of(), "33, 70]", "33, 71]"));
  refused("gate[0]: has 63 rows; x has 64 columns", layer_of("mxfp8", "", "63"));
  refused("logits: are 40 x 4",
          replaced(layer_of(), test::normal_numbers_of(3, 40, 3), test::normal_numbers_of(3, 40, 4)));
  refused("closed: expert 1 has 40 rows all the same", replaced(layer_of(), "\"top_k\": 2", "\"top_k\": 3"));
}

}  // namespace
}  // namespace mxcheck
