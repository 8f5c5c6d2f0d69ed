#pragma once
// A card with round numbers, so that a test computes its expectations by hand: 1000 TFLOPS of every engine, of which
// GEMMs reach all; copies of 1000 GB/s, which every kernel reaches; launches that take no time.

#include <string>

#include "cost/estimate.h"
#include "tests/testing.h"

namespace mxcheck::test {

inline const EstimateOptions kBalanced{.load = {.kind = LoadKind::balanced}};

inline Card round_card(Architecture architecture) {
  Card card = card_named(architecture == Architecture::hopper ? "H200" : "B200");
  card.copy.value = card.bandwidth.value = 1000;
  card.launch.value = 0;
  card.fp32.value = 10;
  card.nvlink = {200, "", false}, card.nvlink_share = {0.5, "", false};
  card.network = {20, "", false}, card.network_share = {0.5, "", false};
  for (EngineRate& rate : card.engines) {
    if (rate.peak.value > 0) rate = {rate.engine, {1000, ""}, {1, ""}, {1, ""}};
  }
  for (MoverShare& share : card.movers) share.of_copy = {1, ""};
  return card;
}

inline const Step& step_of(const Pass& pass, const std::string& name) {
  for (const Step& step : pass.steps) {
    if (step.name == name) return step;
  }
  throw Error(ErrorKind::internal, "no step " + name);
}

inline bool has_step(const Pass& pass, const std::string& name) {
  for (const Step& step : pass.steps) {
    if (step.name == name) return true;
  }
  return false;
}

}  // namespace mxcheck::test
