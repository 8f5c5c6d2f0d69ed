// Faults planted in GEMMs and their operands are named: made by layers of other inputs, or other recipes.

#include <algorithm>
#include <array>
#include <random>

#include "numerics/bytes.h"
#include "properties/diagnosis/layer/verdict.h"
#include "properties/operations/layer/definitions.h"
#include "tests/reference/layer/test_layer.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

// A small layer, a dump of it with a fault in one tensor, and what judge_layer makes of it.

using Bytes = std::vector<std::byte>;

constexpr LayerShape kShape{40, 64, 48, 4};
constexpr std::int64_t kTopK = 3;

LayerData layer_of(const std::string& recipe, const LayerShape& shape = kShape) {
  const TestLayer t(shape, kTopK, 7);
  LayerData d;
  d.shape = shape, d.recipe = layer_recipe_named(recipe);
  d.x = t.x, d.w1 = t.w1, d.w2 = t.w2, d.d_o = t.d_o;
  // The best slot first, which is not the order of the experts.
  std::vector<std::int32_t> experts = t.experts;
  for (auto at = experts.begin(); at != experts.end(); at += kTopK) std::reverse(at, at + kTopK);
  d.routes = layer_routes(experts, t.weights, kTopK, {}, shape.experts);
  d.has_backward = true;
  compute(d);
  return d;
}

// A dump: all of `data` up to a tensor, which is the fault, and nothing after it.
LayerVerdict verdict_on(const LayerData& reference, LayerData data, const std::string& tensor, const Bytes& fault,
                        bool fault_alone = false) {
  std::map<std::string, Tensor> dump;
  for (const LayerTensor& t : tensors_of(data)) {
    const bool here = t.name == tensor;
    EXPECT_TRUE(!here || fault.size() == t.data.size()) << tensor;
    if (here || !fault_alone)
      dump[t.name] = {t.name, t.dtype, t.shape, here ? fault : Bytes(t.data.begin(), t.data.end())};
    if (here) break;
  }
  return judge_layer(reference, {[&](const std::string& name) -> std::optional<Tensor> {
                                   return dump.contains(name) ? std::optional(dump[name]) : std::nullopt;
                                 },
                                 {},
                                 {}});
}

void expect_named(const LayerData& reference, const std::string& cause, const std::string& tensor, const Bytes& fault,
                  bool fault_alone = false) {
  const LayerVerdict v = verdict_on(reference, reference, tensor, fault, fault_alone);
  ASSERT_NE(v.first(), nullptr) << cause;
  EXPECT_EQ(v.first()->name, tensor);
  EXPECT_EQ(v.first()->verdict, LayerTensorVerdict::differs);
  ASSERT_FALSE(v.first()->causes.empty()) << cause;
  EXPECT_TRUE(v.first()->causes[0].starts_with("every element is that of ")) << v.first()->causes[0];
  EXPECT_NE(v.first()->causes[0].find(cause), std::string::npos) << v.first()->causes[0] << "\nexpected: " << cause;
}

void expect_named(const std::string& cause, const std::string& tensor, const Bytes& fault,
                  const std::string& recipe = "mxfp8", bool fault_alone = false) {
  expect_named(layer_of(recipe), cause, tensor, fault, fault_alone);
}

// body(row, j, g, u) over H.
template <class Body>
void each(const LayerData& d, Body body) {
  const auto n = static_cast<std::size_t>(kShape.inner);
  for (std::size_t row = 0; row < static_cast<std::size_t>(d.rows()); ++row) {
    for (std::size_t j = 0; j < n; ++j)
      body(row, j, bf16_value(d.forward.h[row * 2 * n + j]), bf16_value(d.forward.h[row * 2 * n + n + j]));
  }
}
template <class Value>
Bytes words_of_a(Value value) {
  const LayerData d = layer_of("mxfp8");
  Words out;
  each(d, [&](std::size_t row, std::size_t, float g, float u) { out.push_back(value(d, row, g, u)); });
  return to_bytes(out);
}
float bf16(float x) { return bf16_value(layer_bf16(x)); }
std::uint16_t cut(float x) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16); }
float silu(float g) { return g * swiglu_sigmoid(g); }

// The tensor of a layer that was computed from other inputs, or under another recipe.
Bytes of_layer(const std::string& tensor, void (*change)(LayerData&), const std::string& recipe = "mxfp8") {
  LayerData d = layer_of(recipe);
  change(d);
  compute(d);
  for (const LayerTensor& t : tensors_of(d)) {
    if (t.name == tensor) return {t.data.begin(), t.data.end()};
  }
  return {};
}

TEST(LayerPlanted, rows_and_weights) {
  expect_named("W1 transposed", "H", of_layer("H", [](LayerData& d) {
                 const Words w = d.w1;
                 for (std::size_t e = 0; e < 4; ++e) {
                   for (std::size_t i = 0; i < 64; ++i) {
                     for (std::size_t j = 0; j < 96; ++j) d.w1[e * 6144 + i * 96 + j] = w[e * 6144 + j * 64 + i];
                   }
                 }
               }));
  expect_named("gate and up exchanged in W1", "H", of_layer("H", [](LayerData& d) {
                 const Words w = d.w1;
                 for (std::size_t i = 0; i < w.size(); ++i) d.w1[i / 96 * 96 + (i + 48) % 96] = w[i];
               }));
  expect_named("each expert's rows times the next expert's W2", "Y",
               of_layer("Y", [](LayerData& d) { std::rotate(d.w2.begin(), d.w2.begin() + 64 * 48, d.w2.end()); }));
  // Row r of X[gather] is that of row r - 1: every row a token of its own.
  LayerData d = layer_of("mxfp8");
  Words x;
  for (std::int64_t r = 0; r < d.rows(); ++r) {
    const std::int32_t token = d.routes.row_token[static_cast<std::size_t>(std::max<std::int64_t>(r - 1, 0))];
    x.insert(x.end(), d.x.begin() + token * 64, d.x.begin() + (token + 1) * 64);
  }
  d.x = x;
  d.shape.tokens = d.rows();
  std::vector<std::int32_t> experts;
  for (std::size_t e = 0; e < 4; ++e)
    experts.insert(experts.end(), static_cast<std::size_t>(d.routes.offsets[e + 1] - d.routes.offsets[e]),
                   static_cast<int>(e));
  d.routes = layer_routes(experts, d.routes.row_weight, 1, {}, 4);
  expect_named("each row gathered by the index of the row before it", "H",
               to_bytes(layer_forward(d.layer(), d.x, d.routes).h));
}

TEST(LayerPlanted, recipes_and_contracts) {
  expect_named("layer recipe mxfp8_floor", "H",
               of_layer("H", [](LayerData& d) { d.recipe = layer_recipe_named("mxfp8_floor"); }), "mxfp8", true);
  expect_named("scales of recipe floor of A", "down_a_codes",
               of_layer("down_a_codes", [](LayerData& d) { d.recipe.gemms[1].a.scales = "floor"; }));
  expect_named("the sum of contract exact+decode", "P",
               of_layer("P", [](LayerData& d) { d.recipe.gemms[2].contract = "exact+decode"; }));
  expect_named("blocks of 32x32 of W1", "up_b_codes", of_layer("up_b_codes", [](LayerData& d) {
                 d.recipe.gemms[0].b.block = {32, 32};
               }));
  expect_named("A in place of A'", "d_w2_a_codes", of_layer("d_w2_a_codes", [](LayerData& d) {
                 std::fill(d.routes.row_weight.begin(), d.routes.row_weight.end(), 1.0F);
               }));
  expect_named("quantized again from what the GEMM along rows made of it", "d_w1_b_codes",
               of_layer("d_w1_b_codes", [](LayerData& d) { d.recipe.gemms[5].b.source = OperandSource::requantized; }));
  expect_named("H in BF16 in place of H as it was kept", "dS",
               of_layer(
                   "dS", [](LayerData& d) { d.recipe.kept_h = OperandRule(); }, "dsv3_pow2"),
               "dsv3_pow2");
}

TEST(LayerPlanted, other_rotations_roundings_and_sources_of_quartet2) {
  const auto planted = [](const std::string& cause, const std::string& tensor, auto change) {
    expect_named(cause, tensor, of_layer(tensor, change, "quartet2"), "quartet2");
  };
  planted("dO and W2 rotated in groups of 16", "P",
          [](LayerData& d) { d.recipe.gemms[2].a.rotates = d.recipe.gemms[2].b.rotates = 16; });
  planted("dH and W1 not rotated", "dX_rows", [](LayerData& d) {
    for (OperandRule* rule : {&d.recipe.gemms[3].a, &d.recipe.gemms[3].b})
      rule->rotates = 0, rule->random_signs = false;
  });
  planted("A' rounded to nearest, not stochastically", "d_w2_a_scales",
          [](LayerData& d) { d.recipe.gemms[4].a.stochastic = false; });
  planted("W2 quantized from its values, not from what the forward pass made of it", "d_down_b_codes",
          [](LayerData& d) { d.recipe.gemms[2].b.source = OperandSource::values; });
  planted("quantized from the values, not from what the GEMM along rows made of it", "d_w1_a_codes",
          [](LayerData& d) { d.recipe.gemms[5].a.source = OperandSource::values; });
}

TEST(LayerPlanted, blocks_that_run_over_the_ends_of_experts) {
  const LayerData d = layer_of("mxfp8");
  const MatrixView dh{Format::bf16, std::as_bytes(std::span(d.backward.dh)).data(), d.rows(), 96, 96};
  const QuantizedTensor q = quantize(dh, Format::e4m3, {32, 1}, recipe_named("rceil"));
  expect_named("blocks along tokens that do not start again at each expert", "d_w1_b_codes", q.codes.data);
}

// Faults planted in SwiGLU, its gradient and the sums over slots, each computed here by itself, are named.

TEST(LayerPlanted, swiglu) {
  expect_named("SiLU rounded to BF16 before it multiplies u", "A",
               words_of_a([](auto&, std::size_t, float g, float u) { return layer_bf16(bf16(silu(g)) * u); }));
  expect_named("truncation to BF16", "A",
               words_of_a([](auto&, std::size_t, float g, float u) { return cut(silu(g) * u); }));
  expect_named("gate and up exchanged", "A",
               words_of_a([](auto&, std::size_t, float g, float u) { return layer_bf16(silu(u) * g); }));
  expect_named("the route's weight applied before the down projection", "A",
               words_of_a([](const LayerData& d, std::size_t row, float g, float u) {
                 return layer_bf16(d.routes.row_weight[row] * (silu(g) * u));
               }));
  LayerData d = layer_of("mxfp8");
  d.gate_up = GateUp::interleaved;
  Words a(d.forward.a.size());
  for (std::size_t row = 0; row < static_cast<std::size_t>(d.rows()); ++row) {
    for (std::size_t j = 0; j < 48; ++j)
      a[row * 48 + j] =
          layer_bf16(silu(bf16_value(d.forward.h[row * 96 + 2 * j])) * bf16_value(d.forward.h[row * 96 + 2 * j + 1]));
  }
  expect_named("columns of H in the other order", "A", to_bytes(a));
}

// O of a dump by `step`, the slots of a token in the order that `order` gives them.
template <class Step>
Bytes summed(
    const LayerData& d, Step step, void (*order)(std::vector<std::int32_t>&) = [](std::vector<std::int32_t>&) {}) {
  Words out;
  for (std::size_t t = 0; t < static_cast<std::size_t>(kShape.tokens); ++t) {
    std::vector<std::int32_t> rows;
    for (auto slot = d.routes.token_offsets[t]; slot < d.routes.token_offsets[t + 1]; ++slot)
      rows.push_back(d.routes.token_rows[static_cast<std::size_t>(slot)]);
    order(rows);
    for (std::int64_t j = 0; j < kShape.width; ++j) {
      float acc = 0;
      for (const std::int32_t row : rows) {
        if (row < 0) continue;
        const float y = bf16_value(d.forward.y[static_cast<std::size_t>(row * kShape.width + j)]);
        acc = step(acc, d.routes.row_weight[static_cast<std::size_t>(row)], y);
      }
      out.push_back(layer_bf16(acc));
    }
  }
  return to_bytes(out);
}

// A NaN is a NaN, whatever its payload: it hides no cause.
TEST(LayerPlanted, a_fault_among_nans) {
  LayerData d = layer_of("bf16");
  d.x[5] = 0x7FC1;
  compute(d);
  Words a;
  each(d, [&](std::size_t, std::size_t, float g, float u) {
    const float value = silu(g) * u;
    a.push_back(std::isnan(value) ? std::uint16_t{0xFFC0} : cut(value));
  });
  expect_named(d, "truncation to BF16", "A", to_bytes(a));
}

TEST(LayerPlanted, aggregation) {
  const LayerData d = layer_of("mxfp8");
  expect_named("the sum kept in BF16", "O",
               summed(d, [](float acc, float s, float y) { return bf16(std::fma(s, y, acc)); }));
  expect_named("the route's weights not applied", "O", summed(d, [](float acc, float, float y) { return acc + y; }));
  expect_named("the route's weights applied twice", "O",
               summed(d, [](float acc, float s, float y) { return std::fma(s * s, y, acc); }));
}

// All experts the same, and weights that cancel: only then is the order of a sum of three seen in BF16.
TEST(LayerPlanted, the_order_of_slots) {
  LayerData d = layer_of("mxfp8");
  for (std::size_t i = 0; i < d.w1.size(); ++i) d.w1[i] = d.w1[i % (64 * 96)];
  for (std::size_t i = 0; i < d.w2.size(); ++i) d.w2[i] = d.w2[i % (64 * 48)];
  for (std::size_t slot = 0; slot < d.routes.token_rows.size(); ++slot) {
    constexpr std::array<float, 3> kWeights{1, 0x1p24F, -0x1p24F};
    const std::int32_t row = d.routes.token_rows[slot];
    if (row >= 0) d.routes.row_weight[static_cast<std::size_t>(row)] = kWeights[slot % 3];
  }
  compute(d);
  const auto right = [](float acc, float s, float y) { return std::fma(s, y, acc); };
  expect_named(d, "slots added by ascending row (expert)", "O",
               summed(d, right, [](std::vector<std::int32_t>& rows) { std::sort(rows.begin(), rows.end()); }));
}

TEST(LayerPlanted, backward_of_swiglu) {
  const LayerData d = layer_of("mxfp8");
  std::vector<float> sums(static_cast<std::size_t>(d.rows()));
  Words unweighted;
  for (std::size_t row = 0; row < sums.size(); ++row) {
    std::vector<float> products;
    for (std::size_t j = 0; j < static_cast<std::size_t>(kShape.width); ++j) {
      const auto token = static_cast<std::size_t>(d.routes.row_token[row]);
      products.push_back(bf16_value(d.d_o[token * 64 + j]) * bf16_value(d.forward.y[row * 64 + j]));
    }
    while (products.size() > 1) {  // pairwise; 64 is a power of two
      for (std::size_t i = 0; i < products.size() / 2; ++i) products[i] = products[2 * i] + products[2 * i + 1];
      products.resize(products.size() / 2);
    }
    sums[row] = products[0];
  }
  expect_named("the product of dO and Y in place of P and A", "dS", to_bytes(sums));
  expect_named("A without the route's weight", "scaled_A", to_bytes(d.backward.a));
  Words dh(d.backward.dh.size());
  each(d, [&](std::size_t row, std::size_t j, float g, float u) {
    const SwigluGradient gradient = swiglu_gradient(g, u, d.backward.p[row * 48 + j]);
    dh[row * 96 + j] = layer_bf16(gradient.dg), dh[row * 96 + 48 + j] = layer_bf16(gradient.du);
  });
  expect_named("the route's weight left out of dA", "dH", to_bytes(dh));
}

// A fault of a tensor's own is told from what only follows; and the tables of causes are of use.

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
    expect_contains(v.first()->causes[0], "SiLU rounded to BF16 before it multiplies u (in A)");
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

// True if the row gives bytes for one of its tensors that are not the right ones.
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

// Rows that show in a few of all words, or for tokens of more slots than these layers have: the gate's cases meet them.
constexpr std::array kRare{"exp2", "16.5", "BF16's range", "eighth", "128th", "without the +0"};

// A row that gives nothing for any recipe, or never anything but the right bytes, names no fault. Some are seen in one
// element of 2^16 alone, which takes a layer of many.
TEST(LayerPlanted, every_row_of_the_tables_is_of_use) {
  std::vector<LayerData> layers;
  for (const char* recipe : {"mxfp8", "dsv3", "dsv3_pow2"}) layers.push_back(layer_of(recipe));
  layers.push_back(layer_of("bf16", {4000, 64, 32, 4}));
  std::mt19937 random(3);
  for (float& weight : layers.back().routes.row_weight) weight = std::uniform_real_distribution<float>(0, 1)(random);
  compute(layers.back());
  // H of every kind of word: special gates show nowhere else.
  LayerData special = layer_of("bf16", {4000, 64, 33, 4});
  compute(special);
  for (std::uint16_t& word : special.forward.h) word = static_cast<std::uint16_t>(random());
  special.forward.kept.h.values = special.forward.h;
  for (const char* name : {"A", "A_again", "scaled_A", "dH", "dS"})
    set_tensor(special, name, made_again(special, name));
  layers.push_back(std::move(special));
  for (const LayerRow& row : layer_slips()) {
    const auto is_named = [&](const char* part) { return row.name.find(part) != std::string::npos; };
    if (std::ranges::any_of(kRare, is_named)) continue;
    EXPECT_TRUE(std::any_of(layers.begin(), layers.end(), [&](LayerData& d) { return is_of_use(row, d); }))
        << row.name << " in " << row.tensors[0];
  }
}

// The tensors that a dump of one is compared with.
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
