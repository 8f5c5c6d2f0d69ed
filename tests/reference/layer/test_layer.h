#pragma once
// A small layer to test with: random BF16 tensors and routes, owned.

#include "reference/layer/layer.h"
#include "tests/testing.h"

namespace mxcheck::test {

using Words = std::vector<std::uint16_t>;

inline float bf16_value(std::uint16_t word) { return std::bit_cast<float>(std::uint32_t{word} << 16); }

inline Words random_words(std::int64_t count, float scale, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Words words;
  for (std::int64_t i = 0; i < count; ++i) words.push_back(layer_bf16(scale * normal(random)));
  return words;
}

struct TestLayer {
  LayerShape shape;
  std::int64_t top_k = 0;
  Words x, w1, w2, d_o;
  std::vector<std::int32_t> experts;  // of slots, -1 for dropped ones
  std::vector<float> weights;
  GateUp gate_up = GateUp::halves;

  // The last expert gets no token; one slot in eleven is dropped, and all of token 3.
  TestLayer(LayerShape s, std::int64_t k, unsigned seed) : shape(s), top_k(k) {
    const std::int64_t matrix = s.width * s.inner;
    x = random_words(s.tokens * s.width, 1, seed), d_o = random_words(s.tokens * s.width, 1e-5F, seed + 1);
    w1 = random_words(s.experts * matrix * 2, 0.1F, seed + 2), w2 = random_words(s.experts * matrix, 0.1F, seed + 3);
    std::mt19937 random(seed + 4);
    for (std::int64_t t = 0; t < s.tokens; ++t) {
      const auto first = static_cast<std::int64_t>(random() % static_cast<unsigned>(s.experts - 1));
      for (std::int64_t slot = 0; slot < k; ++slot) {
        const bool dropped = random() % 11 == 0 || t == 3;
        experts.push_back(dropped ? -1 : static_cast<std::int32_t>((first + slot) % (s.experts - 1)));
        weights.push_back(static_cast<float>(1 + random() % 255) / 256);
      }
    }
  }

  [[nodiscard]] LayerRoutes routes() const { return layer_routes(experts, weights, top_k, {}, shape.experts); }
  [[nodiscard]] Layer layer(const LayerRecipe& recipe) const { return {shape, &recipe, gate_up, w1, w2}; }
  [[nodiscard]] Layer layer(std::string_view name) const { return layer(layer_recipe_named(name)); }
};

struct LayerRun {
  LayerForward forward;
  LayerBackward backward;
};
inline LayerRun run(const TestLayer& t, const LayerRecipe& recipe, int threads = 0) {
  Layer layer = t.layer(recipe);
  layer.threads = threads;
  const LayerRoutes routes = t.routes();
  LayerRun r{layer_forward(layer, t.x, routes), {}};
  r.backward = layer_backward(layer, r.forward.kept, t.d_o, routes);
  return r;
}
inline LayerRun run(const TestLayer& t, std::string_view name, int threads = 0) {
  return run(t, layer_recipe_named(name), threads);
}

// Row r of a tensor of `cols` columns.
template <class T>
std::vector<T> row(const std::vector<T>& v, std::int64_t r, std::int64_t cols) {
  return {v.begin() + r * cols, v.begin() + (r + 1) * cols};
}

}  // namespace mxcheck::test
