#pragma once
// A small layer, a dump of it with a fault in one tensor, and what judge_layer makes of it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "numerics/bytes.h"
#include "properties/diagnosis/layer/verdict.h"
#include "properties/operations/layer/definitions.h"
#include "tests/reference/layer/test_layer.h"

namespace mxcheck::test {

using Bytes = std::vector<std::byte>;

inline constexpr LayerShape kShape{40, 64, 48, 4};
inline constexpr std::int64_t kTopK = 3;

inline LayerData layer_of(const std::string& recipe, const LayerShape& shape = kShape) {
  const test::TestLayer t(shape, kTopK, 7);
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
inline LayerVerdict verdict_on(const LayerData& reference, LayerData data, const std::string& tensor,
                               const Bytes& fault, bool fault_alone = false) {
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

inline void expect_named(const LayerData& reference, const std::string& cause, const std::string& tensor,
                         const Bytes& fault, bool fault_alone = false) {
  const LayerVerdict v = verdict_on(reference, reference, tensor, fault, fault_alone);
  ASSERT_NE(v.first(), nullptr) << cause;
  EXPECT_EQ(v.first()->name, tensor);
  EXPECT_EQ(v.first()->verdict, LayerTensorVerdict::differs);
  ASSERT_FALSE(v.first()->causes.empty()) << cause;
  EXPECT_TRUE(v.first()->causes[0].starts_with("every element is that of ")) << v.first()->causes[0];
  EXPECT_NE(v.first()->causes[0].find(cause), std::string::npos) << v.first()->causes[0] << "\nexpected: " << cause;
}

inline void expect_named(const std::string& cause, const std::string& tensor, const Bytes& fault,
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
inline float bf16(float x) { return bf16_value(layer_bf16(x)); }
inline std::uint16_t cut(float x) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16); }
inline float silu(float g) { return g * swiglu_sigmoid(g); }

}  // namespace mxcheck::test
