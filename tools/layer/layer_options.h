#pragma once
// The options that the command line of `mxcheck layer` gives.

#include <string>
#include <vector>

#include "tools/layer/input.h"
#include "tools/route/router_options.h"

namespace mxcheck {

struct LayerOptions {
  std::string recipe, svg;
  bool list = false, show = false, json = false;
  LayerFiles files;
  std::string logits, routes;
  RouterOptions router;
  bool backward = false;
  std::string output;
  std::vector<std::string> only;
  std::string against;
  std::vector<std::string> map;
  int threads = 0;
};

// Computes the layer; writes, prints, or compares with a dump. The exit code.
int run_layer(const LayerOptions& o);

}  // namespace mxcheck
