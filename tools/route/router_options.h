#pragma once
// The options that choose a router and a rule of token rounding: of `mxcheck route` and `mxcheck layer`.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reference/router/token_rounding.h"
#include "tools/common/command_line.h"

namespace mxcheck {

struct RouterOptions {
  std::string variant = "topk-softmax";
  std::optional<std::int64_t> top_k;
  std::string bias;  // where it is
  std::int64_t groups = 0, groups_kept = 0;
  std::string nan = "refuse";
  float scale = 1;
  std::string round = "none";
  std::int64_t tile = 128;
  std::optional<std::int64_t> capacity;
  std::string capacity_factor;  // as it is written: a decimal number
  std::string weights;
  std::optional<std::uint64_t> seed, step;
  std::optional<std::uint32_t> layer;
};

void add_router_options(Command& sub, RouterOptions& o);

// Without the bias. Error{usage} without top_k, and for names that there are not.
Router router_of(const RouterOptions& o);

// All of the rule but the capacity, which may depend on the number of tokens.
TokenRounding token_rounding_of(const RouterOptions& o);
void set_capacity(const RouterOptions& o, TokenRounding& a, const MatrixView& logits);

// Checks that the bias fits the logits: the reference's messages would name the logits' file.
std::vector<float> bias_at(const std::string& location, const Router& router, std::int64_t experts);

}  // namespace mxcheck
