// Laws of any layer, whatever its bits: experts have no names, and the backward pass is linear in dO. Also,
// what a recipe makes of codes is made of them.

#include <chrono>
#include <ctime>

#include "goldens/data/embedded.h"
#include "numerics/bytes.h"
#include "reference/layer/layer.h"
#include "reference/layer/layer_recipe.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/reference/layer/test_layer.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

// Matrix `place[e]` of the result is matrix e.
template <class T>
std::vector<T> moved(const std::vector<T>& v, const std::vector<std::int32_t>& place) {
  const std::size_t each = v.size() / place.size();
  std::vector<T> out(v.size());
  for (std::size_t e = 0; e < place.size(); ++e) {
    const auto from = v.begin() + static_cast<std::ptrdiff_t>(e * each);
    std::copy(from, from + static_cast<std::ptrdiff_t>(each),
              out.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(place[e]) * each));
  }
  return out;
}

TEST(LayerLaws, permuting_experts_with_their_weights_permutes_their_gradients_and_nothing_else) {
  const TestLayer t({40, 128, 128, 5}, 2, 71);
  const std::vector<std::int32_t> place{3, 0, 4, 1, 2};
  TestLayer other = t;
  other.w1 = moved(t.w1, place), other.w2 = moved(t.w2, place);
  for (std::int32_t& e : other.experts) e = e < 0 ? e : place[static_cast<std::size_t>(e)];
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    const LayerRun a = run(t, recipe);
    const LayerRun b = run(other, recipe);
    EXPECT_EQ(a.forward.o, b.forward.o) << recipe.name;
    if (is_stochastic(recipe)) continue;  // its words go by the number of the row
    EXPECT_EQ(a.backward.dx, b.backward.dx) << recipe.name;
    EXPECT_EQ(moved(a.backward.dw1, place), b.backward.dw1) << recipe.name;
    EXPECT_EQ(moved(a.backward.dw2, place), b.backward.dw2) << recipe.name;
  }
}

std::vector<float> scaled(std::vector<float> v, float by) {
  for (float& x : v) x *= by;
  return v;
}
Words scaled(Words v, float by) {
  for (std::uint16_t& x : v) x = layer_bf16(bf16_value(x) * by);
  return v;
}

// Powers of two move every scale and every accumulator's window with them. Not so in `broken`, whose amax is raised.
TEST(LayerLaws, scaling_do_by_a_power_of_two_scales_every_gradient) {
  const TestLayer t({40, 128, 128, 5}, 2, 72);
  for (const float by : {0x1p6F, 0x1p-5F}) {
    TestLayer other = t;
    other.d_o = scaled(t.d_o, by);
    for (const LayerRecipe& recipe : all_layer_recipes()) {
      const LayerBackward a = run(t, recipe).backward;
      const LayerBackward b = run(other, recipe).backward;
      const bool holds = recipe.name != "broken";
      EXPECT_EQ(scaled(a.dw1, by) == b.dw1, holds) << recipe.name;
      EXPECT_EQ(scaled(a.dx, by) == b.dx, holds) << recipe.name;
      if (!holds) continue;
      EXPECT_EQ(scaled(a.p, by), b.p) << recipe.name;
      EXPECT_EQ(scaled(a.ds, by), b.ds) << recipe.name;
      EXPECT_EQ(scaled(a.dh, by), b.dh) << recipe.name;
      EXPECT_EQ(scaled(a.dw2, by), b.dw2) << recipe.name;
      EXPECT_EQ(a.scaled_a, b.scaled_a) << recipe.name;
    }
  }
}

TEST(LayerLaws, what_is_requantized_is_made_of_the_codes_and_not_of_the_values) {
  const TestLayer t({40, 128, 128, 5}, 2, 73);
  const LayerRoutes routes = t.routes();
  for (const char* name : {"dsv3", "dsv3_pow2"}) {
    const LayerRun r = run(t, name);
    const OperandRule& rule = layer_recipe_named(name).gemm(LayerGemm::d_w1).a;
    ASSERT_EQ(rule.source, OperandSource::requantized) << name;
    const RoutedRows routed{routes.row_token, routes.offsets};
    const std::vector<float> decoded = values_of(r.forward.kept.x, routes.offsets, 1);
    const auto operand = [&](Format format, const std::byte* data) {
      return column_operand(rule, {{format, data, t.shape.tokens, t.shape.width, t.shape.width}, true}, routed, 1);
    };
    const LayerOperand of_codes = operand(Format::fp32, std::as_bytes(std::span(decoded)).data());
    const LayerOperand of_values = operand(Format::bf16, std::as_bytes(std::span(t.x)).data());
    EXPECT_EQ(values_in<std::uint8_t>(r.backward.d_w1_a.quantized.codes.data),
              values_in<std::uint8_t>(of_codes.quantized.codes.data))
        << name;
    EXPECT_NE(values_in<std::uint8_t>(of_codes.quantized.codes.data),
              values_in<std::uint8_t>(of_values.quantized.codes.data))
        << name;
  }
}

// Recipes as data: those that are built in can be, and those that cannot are refused with the reason.

TEST(LayerRecipe, built_in_ones_can_be_and_have_names_of_their_own) {
  std::set<std::string> names;
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    EXPECT_NO_THROW(check(recipe)) << recipe.name;
    EXPECT_TRUE(names.insert(recipe.name).second) << recipe.name;
    EXPECT_EQ(layer_recipe_named(recipe.name), recipe);
    EXPECT_FALSE(recipe.meaning.empty());
  }
  EXPECT_EQ(names, (std::set<std::string>{"bf16", "mxfp8", "mxfp8_floor", "mxfp8_e5m2_grad", "dsv3", "dsv3_pow2",
                                          "dsv3_128x128_grad", "fp8_tensor", "nvfp4", "nvfp4_forward", "nvfp4_backward",
                                          "nvfp4_46", "quartet2", "broken"}));
}

TEST(LayerRecipe, says_what_its_name_says) {
  const LayerRecipe& mx = layer_recipe_named("mxfp8");
  for (const GemmRule& gemm : mx.gemms) {
    EXPECT_EQ(gemm.contract, "sm90_bf16+decode");
    EXPECT_EQ(gemm.a, (OperandRule{Format::e4m3, {1, 32}, "rceil"}));
    EXPECT_EQ(gemm.b, gemm.a);
  }
  const LayerRecipe& e5m2 = layer_recipe_named("mxfp8_e5m2_grad");
  for (const LayerGemmSpec& gemm : kLayerGemms) {
    const bool gradient_a = gemm.a == "dO" || gemm.a == "dH";
    const bool gradient_b = gemm.b == "dO" || gemm.b == "dH";
    EXPECT_EQ(e5m2.gemm(gemm.value).a.format, gradient_a ? Format::e5m2 : Format::e4m3) << gemm.name;
    EXPECT_EQ(e5m2.gemm(gemm.value).b.format, gradient_b ? Format::e5m2 : Format::e4m3) << gemm.name;
  }
  const LayerRecipe& pow2 = layer_recipe_named("dsv3_pow2");
  EXPECT_EQ(pow2.gemm(LayerGemm::down).b.block, (BlockShape{128, 128}));
  EXPECT_EQ(pow2.gemm(LayerGemm::d_w1).a.source, OperandSource::requantized);
  EXPECT_EQ(pow2.kept_h, (OperandRule{Format::e5m6, {1, 128}, "rceil"}));
  EXPECT_TRUE(pow2.keeps_quantized_x);
  EXPECT_EQ(layer_recipe_named("dsv3_128x128_grad").gemm(LayerGemm::d_up).a.block, (BlockShape{128, 128}));
  EXPECT_FALSE(layer_recipe_named("bf16").gemm(LayerGemm::up).a.quantized());
  const LayerRecipe& nvfp4 = layer_recipe_named("nvfp4");
  OperandRule gradient{Format::e2m1, {1, 16}, "nvfp4_te"};
  gradient.stochastic = true;
  EXPECT_EQ(nvfp4.gemm(LayerGemm::up).a, (OperandRule{Format::e2m1, {1, 16}, "nvfp4_te"}));
  EXPECT_EQ(nvfp4.gemm(LayerGemm::down).b, (OperandRule{Format::e2m1, {16, 16}, "nvfp4_te"}));
  EXPECT_EQ(nvfp4.gemm(LayerGemm::d_up).a, gradient);
  gradient.rotates = 16;
  EXPECT_EQ(nvfp4.gemm(LayerGemm::d_w1).b, gradient);
  gradient.stochastic = false;
  EXPECT_EQ(nvfp4.gemm(LayerGemm::d_w1).a, gradient);
  const LayerRecipe& forward = layer_recipe_named("nvfp4_forward");
  const LayerRecipe& backward = layer_recipe_named("nvfp4_backward");
  for (const LayerGemmSpec& gemm : kLayerGemms) {
    const bool is_forward = gemm.value == LayerGemm::up || gemm.value == LayerGemm::down;
    const GemmRule& bf16 = layer_recipe_named("bf16").gemm(gemm.value);
    EXPECT_EQ(forward.gemm(gemm.value), is_forward ? nvfp4.gemm(gemm.value) : bf16) << gemm.name;
    EXPECT_EQ(backward.gemm(gemm.value), is_forward ? bf16 : nvfp4.gemm(gemm.value)) << gemm.name;
  }
  EXPECT_EQ(layer_recipe_named("nvfp4_46").gemm(LayerGemm::d_up).b.scales, "nvfp4_46");
  const LayerRecipe& quartet2 = layer_recipe_named("quartet2");
  OperandRule eden{Format::e2m1, {1, 16}, "ms_eden"};
  eden.rotates = 128, eden.random_signs = eden.stochastic = true;
  for (const LayerGemmSpec& gemm : kLayerGemms) {
    const bool is_forward = gemm.value == LayerGemm::up || gemm.value == LayerGemm::down;
    const auto right = [&](std::string_view tensor) {
      OperandRule rule = is_forward ? OperandRule{Format::e2m1, {1, 16}, "nvfp4_46"} : eden;
      if (!is_forward && (tensor == "W1" || tensor == "W2" || tensor == "X")) rule.source = OperandSource::requantized;
      return rule;
    };
    EXPECT_EQ(quartet2.gemm(gemm.value), (GemmRule{right(gemm.a), right(gemm.b), "sm90_bf16+decode"})) << gemm.name;
  }
}

GemmRule& gemm_of(LayerRecipe& r, LayerGemm g) { return r.gemms[static_cast<std::size_t>(g)]; }

struct Impossible {
  std::string_view from;
  std::function<void(LayerRecipe&)> change;
  std::string_view reason;
};

TEST(LayerRecipe, that_cannot_be_is_refused_with_the_reason) {
  const std::vector<Impossible> cases{
      {"mxfp8", [](auto& r) { gemm_of(r, LayerGemm::up).contract = "sm90_bf17"; },
       "layer recipe 'mxfp8', GEMM up: unknown contract"},
      {"mxfp8", [](auto& r) { gemm_of(r, LayerGemm::up).contract = "sm90_fp8"; },
       "GEMM up: contract sm90_fp8 takes no"},
      {"mxfp8", [](auto& r) { gemm_of(r, LayerGemm::d_w2).contract = "sm90_fp8+promote128"; },
       "GEMM d_w2: contract sm90_fp8+promote128 adds up every 128 of k, but scales of operand a change every 32"},
      {"mxfp8",
       [](auto& r) {
         gemm_of(r, LayerGemm::up).a.block = {32, 1}, gemm_of(r, LayerGemm::up).contract = "sm90_fp8+promote32";
       },
       "scales of operand a change every 1"},
      {"bf16", [](auto& r) { gemm_of(r, LayerGemm::down).contract = "sm90_fp8"; }, "GEMM down: contract sm90_fp8"},
      {"bf16", [](auto& r) { gemm_of(r, LayerGemm::down).contract = "sm90_bf16+decode"; }, "at most 8 bits"},
      {"dsv3", [](auto& r) { gemm_of(r, LayerGemm::up).a.format = Format::e5m6; }, "GEMM up: contract sm90_fp8"},
      {"dsv3", [](auto& r) { gemm_of(r, LayerGemm::up).a.format = Format::e8m0; }, "operand X: element format e8m0"},
      {"dsv3", [](auto& r) { gemm_of(r, LayerGemm::up).b.scales = "dsv4"; }, "operand W1: "},
      {"dsv3",
       [](auto& r) {
         gemm_of(r, LayerGemm::up).b.block = {1, 0};
       },
       "operand W1: a block of row"},
      {"dsv3", [](auto& r) { gemm_of(r, LayerGemm::d_w1).a.source = OperandSource::values; },
       "operand X: is made from values, but of X only the quantized one is kept"},
      {"dsv3",
       [](auto& r) {
         gemm_of(r, LayerGemm::up).a = {}, gemm_of(r, LayerGemm::up).b = {},
                    gemm_of(r, LayerGemm::up).contract = "sm90_bf16";
       },
       "operand X: is requantized, but up does not quantize it"},
      {"dsv3", [](auto& r) { gemm_of(r, LayerGemm::d_w2).a.source = OperandSource::requantized; },
       "operand A': is requantized: only X, dO and dH"},
      {"bf16", [](auto& r) { gemm_of(r, LayerGemm::d_w1).b.source = OperandSource::requantized; },
       "operand dH: bf16 is not quantized"},
      {"bf16", [](auto& r) { r.keeps_quantized_x = true; }, "only the quantized one is kept"},
      {"dsv3_pow2",
       [](auto& r) {
         r.kept_h.block = {128, 128};
       },
       "H kept: a block of 128x128"},
      {"dsv3_pow2", [](auto& r) { r.kept_h.format = Format::fp16; }, "H kept: element format fp16"},
      {"mxfp8", [](auto& r) { gemm_of(r, LayerGemm::d_up).contract = "sm90_bf16+decode+from_c"; }, "there is none"},
      {"nvfp4", [](auto& r) { gemm_of(r, LayerGemm::up).a.rotates = 16; },
       "GEMM up: one operand is rotated and the other is not"},
      {"nvfp4", [](auto& r) { gemm_of(r, LayerGemm::d_w2).b.rotates = 0; },
       "GEMM d_w2: one operand is rotated and the other is not"},
      {"nvfp4",
       [](auto& r) {
         for (OperandRule* rule : {&gemm_of(r, LayerGemm::d_w2).a, &gemm_of(r, LayerGemm::d_w2).b})
           rule->block = {0, 0};
       },
       "a rotated operand is quantized, in blocks"},
      {"quartet2", [](auto& r) { gemm_of(r, LayerGemm::d_w2).b.rotates = 64; },
       "GEMM d_w2: the operands are rotated in different groups or signs"},
      {"quartet2", [](auto& r) { gemm_of(r, LayerGemm::d_w2).b.random_signs = false; },
       "GEMM d_w2: the operands are rotated in different groups or signs"},
      {"quartet2", [](auto& r) { gemm_of(r, LayerGemm::d_w2).a.rotates = gemm_of(r, LayerGemm::d_w2).b.rotates = 48; },
       "GEMM d_w2: is rotated in groups of 48: 16, 32, 64 and 128 there are"},
      {"nvfp4", [](auto& r) { gemm_of(r, LayerGemm::d_w2).a.rotates = gemm_of(r, LayerGemm::d_w2).b.rotates = 32; },
       "GEMM d_w2: is rotated in groups of 32 without random signs"},
      {"nvfp4", [](auto& r) { gemm_of(r, LayerGemm::up).a.random_signs = true; },
       "GEMM up: signs are of a rotation, and the operand is not rotated"},
      {"quartet2",
       [](auto& r) {
         gemm_of(r, LayerGemm::d_up).a.block = {16, 16};
       },
       "operand dH: scales ms_eden of e2m1 in blocks of 16x16: they are of e2m1 in blocks of 1x16"},
      {"quartet2", [](auto& r) { gemm_of(r, LayerGemm::d_up).a.format = Format::e4m3; },
       "operand dH: scales ms_eden of e4m3 in blocks of 1x16"},
      {"quartet2", [](auto& r) { gemm_of(r, LayerGemm::up).b.source = OperandSource::requantized; },
       "operand W1: is requantized: only X, dO and dH of d_w2 and d_w1 are quantized for another GEMM before, and the "
       "weights of d_down and d_up"},
      {"quartet2", [](auto& r) { gemm_of(r, LayerGemm::down) = layer_recipe_named("bf16").gemm(LayerGemm::down); },
       "operand W2: is requantized, but down does not quantize it"},
      {"quartet2", [](auto& r) { gemm_of(r, LayerGemm::d_w2).b.source = OperandSource::requantized; },
       "operand dO: is requantized, but d_down rotates it"},
      {"nvfp4_46", [](auto& r) { gemm_of(r, LayerGemm::up).a.stochastic = true; },
       "operand X: recipe nvfp4_46 chooses between two scales by their errors"},
      {"nvfp4",
       [](auto& r) {
         r.keeps_quantized_x = true, gemm_of(r, LayerGemm::d_w1) = layer_recipe_named("dsv3").gemm(LayerGemm::d_w1);
       },
       "X kept: two levels of scales"},
      {"bf16", [](auto& r) { r.kept_h = layer_recipe_named("nvfp4").gemm(LayerGemm::up).a; },
       "H kept: two levels of scales"},
      {"dsv3", [](auto& r) { gemm_of(r, LayerGemm::up).a.scales = "nvfp4_te"; },
       "scales of operand a are e4m3: contract sm90_fp8+promote128 takes e8m0 or fp32"},
  };
  for (const Impossible& c : cases) {
    LayerRecipe recipe = layer_recipe_named(c.from);
    c.change(recipe);
    expect_error(ErrorKind::usage, std::string(c.reason), [&] { check(recipe); });
  }
  expect_contains(thrown_by([] { layer_recipe_named("mxfp9"); }).text, "known are bf16, mxfp8");
}

// Every recipe on tensors of a model in training, and what their gradients lose; and the layer's speed.

// 192 tokens of width 512; the rows of the committed slices of one expert's weights, in three rotations, make three
// experts of 128. The router's logits are those of the same tokens, of its first three experts.
TestLayer real_layer(const std::string& layer) {
  const LayerShape shape{192, 512, 128, 4};
  TestLayer t(shape, 2, 1);
  t.x = values_in<std::uint16_t>(real_tensor(layer + "x").data);
  t.d_o = values_in<std::uint16_t>(real_tensor(layer + "dO").data);
  const Words w1 = values_in<std::uint16_t>(real_tensor(layer + "w1").data);
  const Words w2 = values_in<std::uint16_t>(real_tensor(layer + "w2").data);
  const auto fill = [](Words& to, const Words& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[(i + i / from.size() * 512) % from.size()];
  };
  fill(t.w1, w1);
  fill(t.w2, w2);
  const Words logits = values_in<std::uint16_t>(real_tensor(layer + "router_logits").data);
  const MatrixView view{Format::bf16, std::as_bytes(std::span(logits)).data(), shape.tokens, 3, 32};
  Router router;
  router.variant = &router_variant_named("topk-softmax");
  router.top_k = 2;
  const Routes routes = route(router, view);
  t.experts = routes.experts, t.weights = routes.weights;
  return t;
}

template <class T>
double rms_of_difference(const std::vector<T>& a, const std::vector<T>& b) {
  const auto value = [](T x) {
    if constexpr (std::is_same_v<T, float>) {
      return static_cast<double>(x);
    } else {
      return static_cast<double>(bf16_value(x));
    }
  };
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(value(a[i]) - value(b[i]), 2);
    size += std::pow(value(b[i]), 2);
  }
  return std::sqrt(difference / size);
}

// Relative RMS differences to BF16, printed. An E4M3 code has a relative error of at most 2^-4, and some of what is
// near the smallest code is lost, so outputs of a sound recipe lie within 0.2 of BF16's; the broken one's gradients of
// the up-projection are all but gone. An E2M1 code is off by at most 2^-2, and by 2^-1 where it is rounded
// stochastically: 0.5 is allowed.
TEST(LayerOnRealTensors, runs_every_recipe_and_only_the_broken_one_loses_its_gradients) {
  for (const std::string layer : {"layer0.", "layer3."}) {
    const TestLayer t = real_layer(layer);
    const LayerRun bf16 = run(t, "bf16");
    for (const LayerRecipe& recipe : all_layer_recipes()) {
      const LayerRun r = run(t, recipe);
      const double o = rms_of_difference(r.forward.o, bf16.forward.o);
      const double dx = rms_of_difference(r.backward.dx, bf16.backward.dx);
      const double dw1 = rms_of_difference(r.backward.dw1, bf16.backward.dw1);
      const double dw2 = rms_of_difference(r.backward.dw2, bf16.backward.dw2);
      const double ds = rms_of_difference(r.backward.ds, bf16.backward.ds);
      std::cout << layer << " " << recipe.name << ": O " << o << ", dX " << dx << ", dW1 " << dw1 << ", dW2 " << dw2
                << ", dS " << ds << "\n";
      const double most = recipe.name.starts_with("nvfp4") || recipe.name == "quartet2" ? 0.5 : 0.2;
      EXPECT_LE(o, most) << recipe.name;
      if (recipe.name == "broken") {
        EXPECT_GE(dx, 0.2);
      } else {
        EXPECT_LE(std::max({dx, dw1, dw2, ds}), most) << recipe.name;
      }
    }
  }
}

// Seconds for 1024 tokens of width 1536, 32 experts of 256, 4 a token, forward and backward.
TEST(LayerSpeed, forward_and_backward_of_1024_tokens_take_less_than_ten_seconds) {
#if !defined(NDEBUG) || !defined(__OPTIMIZE__)
  GTEST_SKIP() << "not an optimised build";
#endif
  if (kSanitized) GTEST_SKIP() << "not an optimised build";
  const TestLayer t({1024, 1536, 256, 32}, 4, 1);
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t cpu = std::clock();  // of all threads of the process: other work does not count
    run(t, recipe);
    const double cpu_seconds = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cout << recipe.name << ": " << seconds.count() << " s, of processors " << cpu_seconds << " s\n";
    // Four Over Six quantizes twice, and adds up the errors of both; MS-EDEN has two exact sums a group.
    const double most = recipe.name == "quartet2" ? 30 : recipe.name == "nvfp4_46" ? 20 : 10;
    EXPECT_LE(std::min(seconds.count(), cpu_seconds), most) << recipe.name;
  }
}

}  // namespace
}  // namespace mxcheck
