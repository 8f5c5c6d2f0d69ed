#include "benchmarks/sm90/moe/sublayer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "benchmarks/sm90/moe/shape.h"
#include "numerics/format/codec.h"

namespace mxcheck::bench {
namespace {

using Ids = std::vector<std::int64_t>;

constexpr MoeShape kShape{300, 256, 128, 4, 2};

std::vector<std::uint16_t> drawn(std::int64_t count, double scale, std::uint32_t seed) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  for (std::uint16_t& v : values) {
    seed = seed * 1664525 + 1013904223;
    const double uniform = static_cast<double>(seed >> 8) / (1 << 23) - 1;
    v = static_cast<std::uint16_t>(encode(Format::bf16, scale * uniform, Rounding::nearest_even, Overflow::saturate));
  }
  return values;
}

const HostLayer& layer() {
  static const HostLayer made{kShape,
                              GateUp::halves,
                              draw_moe_routes(kShape, RouteLoad::skewed, 5),
                              drawn(300 * 256, 1, 1),
                              drawn(4 * 256 * 256, 0.1, 2),
                              drawn(4 * 128 * 256, 0.1, 3),
                              drawn(300 * 256, 1, 4)};
  return made;
}

// The names of the tensors that a part says something of; each of its rows must be that of the whole layer.
std::vector<std::string> compared(Part part, const Ids& ids, const LayerRecipe& recipe) {
  std::map<std::string, ExpectedRows> whole;
  for (ExpectedRows& e : expected_rows(sublayer_of(layer(), Part::whole, {}), GateUp::halves, recipe)) {
    whole[e.tensor] = std::move(e);
  }
  std::vector<std::string> names;
  for (const ExpectedRows& e : expected_rows(sublayer_of(layer(), part, ids), GateUp::halves, recipe)) {
    names.push_back(e.tensor);
    const ExpectedRows& all = whole.at(e.tensor);
    EXPECT_EQ(e.row_bytes(), all.row_bytes());
    for (std::size_t i = 0; i < e.rows.size(); ++i) {
      const auto row = e.bytes.begin() + static_cast<std::ptrdiff_t>(i * e.row_bytes());
      const auto right = all.bytes.begin() + e.rows[i] * static_cast<std::ptrdiff_t>(e.row_bytes());
      const auto size = static_cast<std::ptrdiff_t>(e.row_bytes());
      EXPECT_TRUE(std::equal(row, row + size, right)) << recipe.name << ' ' << e.tensor << " row " << e.rows[i];
    }
  }
  return names;
}

bool has(const std::vector<std::string>& names, const char* name) {
  return std::ranges::find(names, name) != names.end();
}

TEST(Sublayer, of_experts_has_their_rows_of_the_whole_layer) {
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    const std::vector<std::string> names = compared(Part::experts, {1, 3}, recipe);
    const bool says = recipe.name != "fp8_tensor";
    for (const char* name : {"h", "ds", "dw1", "dw2"}) EXPECT_EQ(has(names, name), says) << recipe.name << ' ' << name;
    for (const char* name : {"o", "dx"}) EXPECT_FALSE(has(names, name)) << recipe.name << ' ' << name;
  }
}

TEST(Sublayer, of_tokens_has_their_rows_of_the_whole_layer) {
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    const std::vector<std::string> names = compared(Part::tokens, {0, 1, 77, 299}, recipe);
    const bool says = recipe.name != "fp8_tensor";
    EXPECT_EQ(has(names, "o"), says) << recipe.name;
    EXPECT_EQ(has(names, "dx"), says && recipe.name != "dsv3_128x128_grad") << recipe.name;
    EXPECT_FALSE(has(names, "dw1")) << recipe.name;
  }
}

TEST(Sublayer, of_the_whole_has_every_row_of_every_output) {
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    const MoeTensors tensors = moe_tensors(kShape, recipe);
    std::map<std::string, std::size_t> sizes;
    for (const auto* list : {&tensors.kept, &tensors.forward, &tensors.backward}) {
      for (const MoeTensor& t : *list) sizes[t.name] = t.bytes();
    }
    for (const ExpectedRows& e : expected_rows(sublayer_of(layer(), Part::whole, {}), GateUp::halves, recipe)) {
      EXPECT_EQ(e.bytes.size(), sizes[e.tensor]) << recipe.name << ' ' << e.tensor;
      sizes.erase(e.tensor);
    }
    EXPECT_TRUE(sizes.empty()) << recipe.name;
  }
}

TEST(Sublayer, of_an_expert_without_rows_says_nothing) {
  HostLayer empty = layer();
  empty.routes.offsets = {0, 0, 300, 600, 600};
  const Sublayer s = sublayer_of(empty, Part::experts, {0});
  EXPECT_TRUE(expected_rows(s, GateUp::halves, layer_recipe_named("bf16")).empty());
}

TEST(ExpertsToCheck, has_the_busiest_and_the_idlest_with_rows) {
  LayerRoutes routes;
  routes.offsets = {0, 5, 5, 25, 26, 40, 41, 50};
  EXPECT_EQ(experts_to_check(routes, 1), (Ids{2}));
  EXPECT_EQ(experts_to_check(routes, 2), (Ids{2, 5}));
  EXPECT_EQ(experts_to_check(routes, 3), (Ids{2, 5, 6}));
  EXPECT_EQ(experts_to_check(routes, 7), (Ids{0, 2, 3, 4, 5, 6}));  // one has none
}

}  // namespace
}  // namespace mxcheck::bench
