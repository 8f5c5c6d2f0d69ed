#include "reference/layer/routes.h"

#include <string>

#include "numerics/error.h"
#include "reference/router/metadata.h"

namespace mxcheck {
namespace {

[[noreturn]] void refuse(ErrorKind kind, const std::string& text) { throw Error(kind, "routes: " + text); }

void check_count(const char* what, std::int64_t found, std::int64_t right) {
  if (found == right) return;
  refuse(ErrorKind::usage, std::to_string(found) + " " + what + ", " + std::to_string(right) + " are needed");
}

void check_ascending(const char* what, std::span<const std::int64_t> offsets, std::int64_t end) {
  const std::string name = std::string(what) + " offsets";
  if (offsets.front() != 0 || offsets.back() != end)
    refuse(ErrorKind::input, name + " must begin with 0 and end with " + std::to_string(end));
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1])
      refuse(ErrorKind::input, name + " descend at " + std::to_string(i) + " to " + std::to_string(offsets[i]));
  }
}

}  // namespace

LayerRoutes layer_routes(std::span<const std::int32_t> slot_experts, std::span<const float> slot_weights,
                         std::int64_t width, std::span<const std::int64_t> token_offsets, std::int64_t experts) {
  check_count("weights of slots", std::ssize(slot_weights), std::ssize(slot_experts));
  const RouteMetadata m = route_metadata(slot_experts, width, token_offsets, experts, 1);
  LayerRoutes routes;
  routes.offsets = m.offsets;
  const auto rows = static_cast<std::size_t>(m.offsets.back());
  routes.row_token.assign(m.row_token.begin(), m.row_token.begin() + static_cast<std::ptrdiff_t>(rows));
  for (std::size_t r = 0; r < rows; ++r)
    routes.row_weight.push_back(slot_weights[static_cast<std::size_t>(m.row_slot[r])]);
  routes.token_offsets.assign(token_offsets.begin(), token_offsets.end());
  if (token_offsets.empty()) {
    for (std::int64_t at = 0; at <= std::ssize(slot_experts); at += width) routes.token_offsets.push_back(at);
  }
  routes.token_rows = m.slot_row;
  return routes;
}

LayerRoutes layer_routes(const Routes& routes, std::int64_t experts) {
  return layer_routes(routes.experts, routes.weights, routes.top_k, {}, experts);
}

LayerRoutes layer_routes(const RoundedTokens& rounded) {
  const auto rows = static_cast<std::ptrdiff_t>(rounded.offsets.back());
  return {rounded.offsets,
          {rounded.row_token.begin(), rounded.row_token.begin() + rows},
          {rounded.row_weight.begin(), rounded.row_weight.begin() + rows},
          rounded.token_offsets,
          {rounded.token_rows.begin(), rounded.token_rows.begin() + rows}};
}

std::vector<float> slot_gradient(const LayerRoutes& routes, std::span<const float> row_gradient) {
  check_count("gradients of rows", std::ssize(row_gradient), std::ssize(routes.row_token));
  std::vector<float> gradient;
  gradient.reserve(routes.token_rows.size());
  for (const std::int32_t row : routes.token_rows)
    gradient.push_back(row < 0 ? 0.0F : row_gradient[static_cast<std::size_t>(row)]);
  return gradient;
}

void check(const LayerRoutes& routes, std::int64_t tokens, std::int64_t experts) {
  check_count("offsets of experts", std::ssize(routes.offsets), experts + 1);
  check_count("offsets of tokens", std::ssize(routes.token_offsets), tokens + 1);
  check_count("weights of rows", std::ssize(routes.row_weight), std::ssize(routes.row_token));
  check_ascending("expert", routes.offsets, std::ssize(routes.row_token));
  check_ascending("token", routes.token_offsets, std::ssize(routes.token_rows));
  for (std::size_t r = 0; r < routes.row_token.size(); ++r) {
    if (routes.row_token[r] < 0 || routes.row_token[r] >= tokens)
      refuse(ErrorKind::input, "row " + std::to_string(r) + " is of token " + std::to_string(routes.row_token[r]) +
                                   "; there are " + std::to_string(tokens));
  }
  std::vector<bool> seen(routes.row_token.size());
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto token = static_cast<std::size_t>(t);
    for (std::int64_t slot = routes.token_offsets[token]; slot < routes.token_offsets[token + 1]; ++slot) {
      const std::int32_t row = routes.token_rows[static_cast<std::size_t>(slot)];
      if (row == -1) continue;
      const auto at = static_cast<std::size_t>(row);
      if (row < 0 || at >= seen.size() || routes.row_token[at] != t || seen[at])
        refuse(ErrorKind::input, "slot " + std::to_string(slot) + " of token " + std::to_string(t) + " has row " +
                                     std::to_string(row) + ", which is not a row of that token's own");
      seen[at] = true;
    }
  }
  for (std::size_t r = 0; r < seen.size(); ++r) {
    if (!seen[r]) refuse(ErrorKind::input, "row " + std::to_string(r) + " is in no token's slots");
  }
}

}  // namespace mxcheck
