#pragma once
// The effect of a router on the experts' loads, and of a rule on the tokens, in numbers.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "reference/router/token_rounding.h"
#include "tools/common/output.h"

namespace mxcheck {

struct RouteReport {
  std::int64_t tokens = 0, experts = 0, top_k = 0, tile = 0;
  std::vector<std::int64_t> chosen, kept;  // tokens of each expert, before and after the rule
  std::int64_t added = 0, dropped = 0;     // pairs of token and expert
  std::int64_t without_expert = 0;         // tokens
  std::int64_t most_experts = 0;           // of one token
  std::optional<float> balance_loss, z_loss;
  float coefficient = 1;  // of both
};

RouteReport report_of(const Routes& before, const RoundedTokens& after, std::int64_t tile);

// Rows that experts would lie in if each started at a multiple of the tile, and how many of them would be padding.
struct Padding {
  std::int64_t rows = 0;
  std::int64_t padding = 0;
};
Padding padding_of(std::span<const std::int64_t> loads, std::int64_t tile);

// Lines for people; loads: one line an expert in place of a histogram.
std::string to_text(const RouteReport& report, bool loads);
Json to_json(const RouteReport& report);

}  // namespace mxcheck
