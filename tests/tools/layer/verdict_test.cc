// A fault of a tensor's own is told from what only follows; and the tables of causes are of use.

#include <random>

#include "tests/tools/layer/planted.h"

namespace mxcheck {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): all of it is for these tests

// With A left out of the dump its fault shows in Y, and is named there.
TEST(LayerPlanted, a_fault_in_a_tensor_that_is_not_there) {
  const LayerData reference = layer_of("mxfp8");
  LayerData d = reference;
  d.forward.a = values_in<std::uint16_t>(
      words_of_a([](auto&, std::size_t, float g, float u) { return layer_bf16(bf16(silu(g)) * u); }));
  const OperandRule& rule = d.recipe.gemm(LayerGemm::down).a;
  d.forward.down_a.quantized = quantize({Format::bf16, std::as_bytes(std::span(d.forward.a)).data(), d.rows(), 48, 48},
                                        rule.format, rule.block, recipe_named(rule.scales));
  const Bytes y = made_again(d, "Y");
  for (const char* tensor : {"Y", "O"}) {
    if (std::string(tensor) == "O") d.forward.y = values_in<std::uint16_t>(y);
    const LayerVerdict v = verdict_on(reference, d, tensor, tensor == std::string("Y") ? y : made_again(d, "O"), true);
    ASSERT_NE(v.first(), nullptr);
    ASSERT_FALSE(v.first()->causes.empty());
    EXPECT_NE(v.first()->causes[0].find("SiLU rounded to BF16 before it multiplies u (in A)"), std::string::npos)
        << v.first()->causes[0];
  }
}

// A difference that comes of a fault is told as that, and every later fault by itself.
TEST(LayerPlanted, errors_do_not_cascade) {
  const LayerData reference = layer_of("mxfp8");
  LayerData d = reference;
  d.forward.a = values_in<std::uint16_t>(
      words_of_a([](auto&, std::size_t, float g, float u) { return layer_bf16(bf16(silu(g)) * u); }));
  for (const char* name : {"down_a_codes", "down_a_scales", "Y", "O"}) {
    for (const LayerTensor& t : tensors_of(d)) {
      if (t.name != name) continue;
      const Bytes bytes = made_again(d, name);
      std::copy(bytes.begin(), bytes.end(), t.data.begin());
    }
  }
  d.backward.ds[3] = -d.backward.ds[3];
  const LayerVerdict v =
      judge_layer(reference, {[&](const std::string& name) -> std::optional<Tensor> {
                                for (const LayerTensor& t : tensors_of(d)) {
                                  if (t.name == name)
                                    return Tensor{name, t.dtype, t.shape, Bytes(t.data.begin(), t.data.end())};
                                }
                                return std::nullopt;
                              },
                              {},
                              {}});
  EXPECT_EQ(v.first()->name, "A");
  EXPECT_EQ(v.count(LayerTensorVerdict::differs), 2U);
  const auto result = [&](const std::string& name) {
    return *std::find_if(v.results.begin(), v.results.end(), [&](const auto& r) { return r.name == name; });
  };
  EXPECT_EQ(result("Y").verdict, LayerTensorVerdict::follows);
  EXPECT_EQ(result("O").verdict, LayerTensorVerdict::follows);
  EXPECT_EQ(result("dH").verdict, LayerTensorVerdict::equal);
  EXPECT_EQ(result("dS").verdict, LayerTensorVerdict::differs);
  EXPECT_EQ(result("dS").own_wrong, 1);
}

// Whether the row gives bytes for one of its tensors that are not the right ones.
bool is_of_use(const LayerRow& row, LayerData& d) {
  return std::any_of(row.tensors.begin(), row.tensors.end(), [&](const std::string& tensor) {
    try {
      const Bytes bytes = row.bytes(d, tensor), right = bytes_of_tensor(d, tensor);
      return bytes.size() == right.size() && bytes != right;
    } catch (const Error&) {
      return false;
    }
  });
}

// A row that gives nothing for any recipe, or never anything but the right bytes, names no fault. Some are seen in one
// element of 2^16 alone, which takes a layer of many.
TEST(LayerPlanted, every_row_of_the_tables_is_of_use) {
  std::vector<LayerData> layers;
  for (const char* recipe : {"mxfp8", "dsv3", "dsv3_pow2"}) layers.push_back(layer_of(recipe));
  layers.push_back(layer_of("bf16", {4000, 64, 32, 4}));
  std::mt19937 random(3);
  for (float& weight : layers.back().routes.row_weight) weight = std::uniform_real_distribution<float>(0, 1)(random);
  compute(layers.back());
  for (const LayerRow& row : layer_slips()) {
    EXPECT_TRUE(std::any_of(layers.begin(), layers.end(), [&](LayerData& d) { return is_of_use(row, d); }))
        << row.name << " in " << row.tensors[0];
  }
}

// What a dump of one tensor is held against.
TEST(LayerPlanted, a_layer_that_is_another_one_throughout_is_named) {
  const LayerData reference = layer_of("mxfp8");
  for (const OtherLayer& other : other_layers(reference.recipe)) {
    if (other.name.starts_with("recipe ") && other.name != "recipe mxfp8_floor") continue;
    LayerData d = reference;
    other.change(d.recipe, d.gate_up, d.routes);
    compute(d);
    if (d.forward.o == reference.forward.o) continue;
    expect_named(reference, other.name + ", throughout the layer", "O", to_bytes(d.forward.o), true);
  }
}

TEST(LayerPlanted, every_recipe_is_equal_to_itself) {
  for (const LayerRecipe& r : all_layer_recipes()) {
    const LayerData d = layer_of(r.name);
    LayerData data = d;
    const Bytes dx = to_bytes(d.backward.dx);
    const LayerVerdict v = verdict_on(d, d, "dX", dx);
    EXPECT_TRUE(v.equal()) << r.name << " " << (v.first() != nullptr ? v.first()->name : "");
    for (const LayerTensor& t : tensors_of(data)) {
      if (t.step == "input" || t.step == "routes" || t.name == "dO") continue;
      EXPECT_EQ(made_again(d, t.name), Bytes(t.data.begin(), t.data.end())) << r.name << " " << t.name;
    }
  }
}

}  // namespace
}  // namespace mxcheck
