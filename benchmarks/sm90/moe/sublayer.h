#pragma once
// A part of a layer that the reference computes by itself, bit for bit as in the whole: some of its routed rows, with
// the tokens and the experts of those. A layer of production size is checked so on the host.
//
//   all rows of an expert   H, dS, dW1 and dW2 of it
//   all rows of a token     O, dX and its dS; dX and dS unless blocks of gradients have several rows
//
// Nothing of either under a recipe that takes one scale of a whole tensor: then the whole layer alone is right.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/sm90/moe/shape.h"
#include "reference/layer/layer.h"

namespace mxcheck::bench {

struct HostLayer {
  MoeShape shape;
  GateUp gate_up = GateUp::halves;
  LayerRoutes routes;
  std::vector<std::uint16_t> x, w1, w2, d_o;
};

enum class Part : std::uint8_t { experts, tokens, whole };

struct Sublayer {
  Part part = Part::whole;
  LayerShape shape;
  std::vector<std::int64_t> rows, tokens, experts;  // of the layer, each ascending
  LayerRoutes routes;                               // among them
  std::vector<std::uint16_t> x, w1, w2, d_o;
};
// The part with all rows of these experts, or of these tokens; ids ascend. They are not looked at for the whole.
Sublayer sublayer_of(const HostLayer& layer, Part part, const std::vector<std::int64_t>& ids);

// Experts with rows, of `count`: the one with most, the one with least, then others evenly.
std::vector<std::int64_t> experts_to_check(const LayerRoutes& routes, std::int64_t count);

// Some rows of a tensor of a call (shape.h).
struct ExpectedRows {
  std::string tensor;
  std::vector<std::int64_t> rows;  // of the layer's tensor
  std::vector<std::byte> bytes;    // one after another
  [[nodiscard]] std::size_t row_bytes() const { return rows.empty() ? 0 : bytes.size() / rows.size(); }
};
// The rows that the reference gives for a part, forward and backward; none where it says nothing under this recipe.
std::vector<ExpectedRows> expected_rows(const Sublayer& part, GateUp gate_up, const LayerRecipe& recipe);

}  // namespace mxcheck::bench
