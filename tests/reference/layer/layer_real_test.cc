// Every recipe on tensors of a model in training, and what their gradients lose; and the layer's speed.

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <iostream>

#include "goldens/data/embedded.h"
#include "numerics/bytes.h"
#include "reference/layer/layer.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/reference/layer/test_layer.h"

namespace mxcheck {
namespace {

using test::bf16_value;
using test::LayerRun;
using test::run;
using test::TestLayer;
using test::Words;

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
// the up-projection are all but gone.
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
      EXPECT_LE(o, 0.2) << recipe.name;
      if (recipe.name == "broken") {
        EXPECT_GE(dx, 0.2);
      } else {
        EXPECT_LE(std::max({dx, dw1, dw2, ds}), 0.2) << recipe.name;
      }
    }
  }
}

// Seconds for 1024 tokens of width 1536, 32 experts of 256, 4 a token, forward and backward.
TEST(LayerSpeed, forward_and_backward_of_1024_tokens_take_less_than_ten_seconds) {
#if !defined(NDEBUG) || !defined(__OPTIMIZE__)
  GTEST_SKIP() << "not an optimised build";
#endif
  if (test::kSanitized) GTEST_SKIP() << "not an optimised build";
  const TestLayer t({1024, 1536, 256, 32}, 4, 1);
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t cpu = std::clock();  // of all threads of the process: other work does not count
    run(t, recipe);
    const double cpu_seconds = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cout << recipe.name << ": " << seconds.count() << " s, of processors " << cpu_seconds << " s\n";
    EXPECT_LE(std::min(seconds.count(), cpu_seconds), 10) << recipe.name;
  }
}

}  // namespace
}  // namespace mxcheck
