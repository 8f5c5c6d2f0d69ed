#include "reference/layer/swiglu.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "numerics/elementary/elementary.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/layer/aggregate.h"
#include "reference/layer/routes.h"
#include "reference/layer/run.h"
#include "reference/router/metadata.h"

namespace mxcheck {
namespace {

struct Columns {
  std::size_t gate;
  std::size_t up;
};
Columns columns_of(GateUp order, std::size_t j, std::size_t n) {
  return order == GateUp::halves ? Columns{j, n + j} : Columns{2 * j, 2 * j + 1};
}

}  // namespace

std::uint16_t layer_bf16(float x) {
  if (std::isnan(x)) return 0x7FFF;
  return encode<Bf16>(x, Rounding::nearest_even, Overflow::non_saturate).bits;
}

float layer_fp32(float x) { return std::isnan(x) ? std::bit_cast<float>(0x7FFFFFFFU) : x; }

float swiglu_sigmoid(float g) { return 1.0F / (1.0F + exp_rn(-g)); }

float swiglu(float g, float u) { return (g * swiglu_sigmoid(g)) * u; }

SwigluGradient swiglu_gradient(float g, float u, float da) {
  const float q = swiglu_sigmoid(g);
  const float derivative = q * std::fma(g, 1.0F - q, 1.0F);
  return {da * (u * derivative), da * (g * q)};
}

void swiglu_row(std::span<const float> h, GateUp order, std::span<std::uint16_t> a) {
  for (std::size_t j = 0; j < a.size(); ++j) {
    const Columns at = columns_of(order, j, a.size());
    a[j] = layer_bf16(swiglu(h[at.gate], h[at.up]));
  }
}

float swiglu_row_gradient(std::span<const float> h, GateUp order, std::span<const float> p, float weight,
                          const SwigluRowGradient& out) {
  const std::size_t n = p.size();
  swiglu_row(h, order, out.a);
  std::vector<float> products(n);
  for (std::size_t j = 0; j < n; ++j) {
    const Columns at = columns_of(order, j, n);
    const float a = fp32_of(out.a[j]);
    const SwigluGradient d = swiglu_gradient(h[at.gate], h[at.up], weight * p[j]);
    out.dh[at.gate] = layer_bf16(d.dg);
    out.dh[at.up] = layer_bf16(d.du);
    out.scaled_a[j] = layer_bf16(weight * a);
    products[j] = p[j] * a;
  }
  return layer_fp32(pairwise_sum(products));
}

namespace {

void check_rows(const AggregatedRows& from) {
  const std::int64_t elements = checked_product(from.rows, from.cols, "Y");
  if (std::ssize(from.y) != elements || (!from.weights.empty() && std::ssize(from.weights) != from.rows)) {
    throw Error(ErrorKind::usage, "aggregation of " + std::to_string(from.y.size()) + " elements and " +
                                      std::to_string(from.weights.size()) + " weights; " + std::to_string(from.rows) +
                                      " rows of " + std::to_string(from.cols) + " columns, and a weight of each, are " +
                                      "needed");
  }
}

void check_slots(const TokenSlots& slots, std::int64_t rows) {
  const auto& offsets = slots.token_offsets;
  if (offsets.empty()) throw Error(ErrorKind::usage, "aggregation without token_offsets, which has one at least");
  for (std::size_t t = 0; t < offsets.size(); ++t) {
    if (offsets[t] < (t == 0 ? 0 : offsets[t - 1]) || (t == 0 && offsets[t] != 0))
      throw Error(ErrorKind::input, "token_offsets[" + std::to_string(t) + "] is " + std::to_string(offsets[t]) +
                                        "; offsets start at 0 and do not descend");
  }
  if (offsets.back() != std::ssize(slots.token_rows))
    throw Error(ErrorKind::input, "token_offsets end at " + std::to_string(offsets.back()) + ", and there are " +
                                      std::to_string(slots.token_rows.size()) + " slots");
  for (std::size_t i = 0; i < slots.token_rows.size(); ++i) {
    const std::int32_t row = slots.token_rows[i];
    if (row < -1 || row >= rows)
      throw Error(ErrorKind::input, "slot " + std::to_string(i) + " is of row " + std::to_string(row) + "; there are " +
                                        std::to_string(rows) + " rows, and -1 for a dropped route");
  }
}

}  // namespace

void check_aggregation(const AggregatedRows& from, const TokenSlots& slots) {
  check_rows(from);
  check_slots(slots, from.rows);
}

std::vector<std::uint16_t> aggregate(const AggregatedRows& from, const TokenSlots& slots, int threads) {
  check_aggregation(from, slots);
  const auto tokens = std::ssize(slots.token_offsets) - 1;
  const auto cols = static_cast<std::size_t>(from.cols);
  std::vector<std::uint16_t> out;
  resize_or_throw(out, checked_product(tokens, from.cols, "output"), "output");
  parallel_ranges(tokens, tokens * from.cols, threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> acc(cols);
    for (auto t = static_cast<std::size_t>(begin); t < static_cast<std::size_t>(end); ++t) {
      std::fill(acc.begin(), acc.end(), 0.0F);
      for (std::int64_t slot = slots.token_offsets[t]; slot < slots.token_offsets[t + 1]; ++slot) {
        const std::int32_t row = slots.token_rows[static_cast<std::size_t>(slot)];
        if (row < 0) continue;
        const std::uint16_t* y = from.y.data() + static_cast<std::size_t>(row) * cols;
        const bool weighted = !from.weights.empty();
        const float weight = weighted ? from.weights[static_cast<std::size_t>(row)] : 1;
        for (std::size_t j = 0; j < cols; ++j)
          acc[j] = weighted ? std::fma(weight, fp32_of(y[j]), acc[j]) : acc[j] + fp32_of(y[j]);
      }
      for (std::size_t j = 0; j < cols; ++j) out[t * cols + j] = layer_bf16(acc[j]);
    }
  });
  return out;
}

namespace {

[[noreturn]] void swiglu_refuse(ErrorKind kind, const std::string& text) { throw Error(kind, "routes: " + text); }

void check_count(const char* what, std::int64_t found, std::int64_t right) {
  if (found == right) return;
  swiglu_refuse(ErrorKind::usage, std::to_string(found) + " " + what + ", " + std::to_string(right) + " are needed");
}

void check_ascending(const char* what, std::span<const std::int64_t> offsets, std::int64_t end) {
  const std::string name = std::string(what) + " offsets";
  if (offsets.front() != 0 || offsets.back() != end)
    swiglu_refuse(ErrorKind::input, name + " must begin with 0 and end with " + std::to_string(end));
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1])
      swiglu_refuse(ErrorKind::input, name + " descend at " + std::to_string(i) + " to " + std::to_string(offsets[i]));
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
      swiglu_refuse(ErrorKind::input, "row " + std::to_string(r) + " is of token " +
                                          std::to_string(routes.row_token[r]) + "; there are " +
                                          std::to_string(tokens));
  }
  std::vector<bool> seen(routes.row_token.size());
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto token = static_cast<std::size_t>(t);
    for (std::int64_t slot = routes.token_offsets[token]; slot < routes.token_offsets[token + 1]; ++slot) {
      const std::int32_t row = routes.token_rows[static_cast<std::size_t>(slot)];
      if (row == -1) continue;
      const auto at = static_cast<std::size_t>(row);
      if (row < 0 || at >= seen.size() || routes.row_token[at] != t || seen[at])
        swiglu_refuse(ErrorKind::input, "slot " + std::to_string(slot) + " of token " + std::to_string(t) +
                                            " has row " + std::to_string(row) +
                                            ", which is not a row of that token's own");
      seen[at] = true;
    }
  }
  for (std::size_t r = 0; r < seen.size(); ++r) {
    if (!seen[r]) swiglu_refuse(ErrorKind::input, "row " + std::to_string(r) + " is in no token's slots");
  }
}

}  // namespace mxcheck
