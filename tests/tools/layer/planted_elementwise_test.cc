// Faults planted in SwiGLU, its gradient and the sums over slots, each computed here by itself, are named.

#include <array>

#include "tests/tools/layer/planted.h"

namespace mxcheck {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): all of it is for these tests

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

}  // namespace
}  // namespace mxcheck
