#pragma once
// The question of `mxcheck cost`, and its answer as text, JSON and a picture.

#include <cstdint>
#include <string>
#include <vector>

#include "cost/cluster.h"
#include "cost/estimate.h"
#include "goldens/json/json.h"

namespace mxcheck {

// A layer on a card; the recipes are one, which is shown step by step, or several, which are compared.
struct CostQuestion {
  LayerShape shape;
  const Card* card = nullptr;
  EstimateOptions options;
  std::vector<LayerRecipe> recipes;
  std::vector<ClusterSpec> clusters;  // of one recipe
};

// The steps of one recipe's layer, what is kept, from where on it pays, and how it scales; of several a line each.
std::string cost_text(const CostQuestion& q);
Json cost_json(const CostQuestion& q);

// The numbers of every card, with their sources.
std::string cards_text();
Json cards_json();

// Every measured layer beside its estimate.
std::string measured_text();
Json measured_json();

// Speed over BF16 by rows of an expert, on an H200 and a B200: an SVG file.
std::string cost_svg(const CostQuestion& q);

}  // namespace mxcheck
