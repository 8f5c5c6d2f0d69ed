#include "properties/operations/router/faults.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "numerics/accumulate/exact_sum.h"
#include "numerics/elementary/elementary.h"

namespace mxcheck {
namespace {

constexpr float kTiny = 1e-20F;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr RouterFault kFaults[] = {
    {"larger_index", "ties that go to the larger index", &RouterFaults::larger_index},
    {"zeros_differ", "-0 below +0", &RouterFaults::zeros_differ},
    {"nan_first", "NaN before every number", &RouterFaults::nan_first},
    {"last_group_ignored", "groups without the last of them", &RouterFaults::last_group_ignored},
    {"bias_in_weights", "the bias in weights too", &RouterFaults::bias_in_weights},
    {"largest_not_subtracted", "softmax without the largest subtracted", &RouterFaults::largest_not_subtracted},
    {"scale_forgotten", "no scale", &RouterFaults::scale_forgotten},
    {"half_up", "a half that goes up", &RouterFaults::half_up},
    {"weakest", "the weakest tokens kept and admitted", &RouterFaults::weakest},
    {"beyond_tokens", "counts that go up beyond the number of tokens", &RouterFaults::beyond_tokens},
    {"chosen_again", "tokens admitted that had chosen the expert already", &RouterFaults::chosen_again},
    {"sums_of_choice", "weights over the experts chosen before rounding", &RouterFaults::sums_of_choice},
    {"descending", "tokens of an expert in descending order", &RouterFaults::descending},
};

// The order of candidates for the top k.
class Order {
 public:
  Order(std::span<const float> keys, const RouterFaults& faults) : keys_(keys), faults_(faults) {}
  bool operator()(std::int32_t a, std::int32_t b) const {
    const float x = keys_[static_cast<std::size_t>(a)];
    const float y = keys_[static_cast<std::size_t>(b)];
    const bool nan_x = std::isnan(x);
    const bool nan_y = std::isnan(y);
    if (nan_x != nan_y) return faults_.nan_first ? nan_x : nan_y;
    if (!nan_x && x != y) return x > y;
    if (!nan_x && faults_.zeros_differ && std::signbit(x) != std::signbit(y)) return std::signbit(y);
    return faults_.larger_index ? a > b : a < b;
  }

 private:
  std::span<const float> keys_;
  const RouterFaults& faults_;
};

// Experts that may be chosen.
std::vector<std::int32_t> candidates(const Router& router, std::span<const float> keys, const RouterFaults& faults) {
  std::vector<std::int32_t> all(keys.size());
  std::iota(all.begin(), all.end(), 0);
  if (router.groups == 0) return all;
  const auto size = static_cast<std::int64_t>(keys.size()) / router.groups;
  const std::int64_t counted = std::min(size, std::max<std::int64_t>(1, router.top_k / router.groups_kept));
  std::vector<float> values;
  for (std::int64_t g = 0; g < router.groups; ++g) {
    std::vector<float> of_group(keys.begin() + g * size, keys.begin() + (g + 1) * size);
    for (float& key : of_group) key = std::isnan(key) ? -kInfinity : key;
    std::sort(of_group.begin(), of_group.end(), std::greater<>());
    float value = of_group[0];
    for (std::int64_t n = 1; n < counted; ++n) value += of_group[static_cast<std::size_t>(n)];
    values.push_back(value);
  }
  std::vector<std::int32_t> groups(static_cast<std::size_t>(router.groups));
  std::iota(groups.begin(), groups.end(), 0);
  if (faults.last_group_ignored && router.groups_kept < router.groups) groups.pop_back();
  const RouterFaults none;
  std::sort(groups.begin(), groups.end(), Order(values, none));
  groups.resize(static_cast<std::size_t>(router.groups_kept));
  std::erase_if(all, [&](std::int32_t e) {
    return std::find(groups.begin(), groups.end(), static_cast<std::int32_t>(e / size)) == groups.end();
  });
  return all;
}

// Weights of one token, its experts best first. values: their logits (softmax over those kept) or scores.
void weigh(const Router& router, std::span<float> values, const RouterFaults& faults) {
  const RouterWeights kind = router.variant->weights;
  if (kind == RouterWeights::softmax_of_kept) {
    float largest = -kInfinity;
    for (const float x : values) largest = std::isnan(x) ? largest : std::max(largest, x);
    for (float& x : values) {
      const float d = faults.largest_not_subtracted ? x : x == largest ? 0.0F : x - largest;
      x = std::isnan(x) ? 0.0F : exp_rn(d);
    }
  }
  const bool from_tiny = kind == RouterWeights::tiny_then_sum;
  float sum = from_tiny ? kTiny : 0.0F;
  for (const float s : values) sum += s;
  if (kind == RouterWeights::sum_plus_tiny) sum += kTiny;
  const bool raw = kind == RouterWeights::raw || (kind == RouterWeights::sum_plus_tiny && router.top_k == 1);
  for (float& s : values) {
    if (!raw) s = sum == 0 ? 0.0F : s / sum;
    if (!faults.scale_forgotten) s *= router.scale;
  }
}

bool is_about_choice(const RouterFaults& s) {
  return s.larger_index || s.zeros_differ || s.nan_first || s.last_group_ignored || s.bias_in_weights ||
         s.largest_not_subtracted || s.scale_forgotten;
}

// Tokens of one expert in the order in which it prefers them.
std::vector<std::int32_t> ranks(std::span<const float> scores, std::int64_t tokens, std::int64_t experts,
                                std::int64_t expert, const std::vector<bool>& chose) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(tokens));
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](std::int32_t t) { return scores[static_cast<std::size_t>(t * experts + expert)]; };
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    const bool chose_a = chose.empty() || chose[static_cast<std::size_t>(a)];
    const bool chose_b = chose.empty() || chose[static_cast<std::size_t>(b)];
    return chose_a != chose_b ? chose_a : score(a) > score(b);
  });
  return order;
}

// The tokens that an expert keeps, by rank, where f tokens chose it: the first `count`, or with faults others.
std::vector<std::int32_t> kept_tokens(const TokenRounding& token_rounding, std::vector<std::int32_t> order,
                                      std::int64_t f, std::int64_t count, const RouterFaults& faults) {
  if (token_rounding.rule == TokenRoundingRule::capacity_order || token_rounding.rule == TokenRoundingRule::none) {
    order.resize(static_cast<std::size_t>(f));
    std::sort(order.begin(), order.end());
  } else if (faults.weakest && token_rounding.rule != TokenRoundingRule::expert_choice) {
    std::reverse(order.begin(), order.begin() + f);
    std::reverse(order.begin() + f, order.end());
  }
  if (faults.chosen_again && count > f && f != 0) {
    for (std::int64_t i = f; i < count; ++i)
      order[static_cast<std::size_t>(i)] = order[static_cast<std::size_t>(i % f)];
  }
  order.resize(static_cast<std::size_t>(count));
  std::sort(order.begin(), order.end());
  if (faults.descending) std::reverse(order.begin(), order.end());
  return order;
}

// Counts after rounding; scores at the boundary are those at ranks down + 1 to up.
std::vector<std::int64_t> counts_of(const TokenRounding& token_rounding, std::span<const std::int32_t> chosen,
                                    std::int64_t tokens, const std::vector<std::vector<float>>& boundary,
                                    const RouterFaults& faults) {
  std::vector<std::int64_t> counts = rounded_counts(token_rounding, chosen, tokens, boundary);
  for (std::size_t e = 0; e < counts.size() && rounds_to_tiles(token_rounding.rule); ++e) {
    const std::int64_t over = chosen[e] % token_rounding.tile;
    const std::int64_t up = chosen[e] - over + token_rounding.tile;
    if (over == 0) continue;
    if (faults.half_up && up <= tokens && 2 * over == token_rounding.tile) counts[e] = up;
    if (faults.beyond_tokens && up > tokens && token_rounding.rule != TokenRoundingRule::down) counts[e] = tokens;
  }
  return counts;
}

void list_by_token(RoundedTokens& a) {
  a.token_offsets.assign(static_cast<std::size_t>(a.tokens) + 1, 0);
  a.token_rows.assign(a.row_token.size(), -1);
  const std::int64_t rows = a.offsets.back();
  for (std::int64_t row = 0; row < rows; ++row) {
    ++a.token_offsets[static_cast<std::size_t>(a.row_token[static_cast<std::size_t>(row)]) + 1];
  }
  std::partial_sum(a.token_offsets.begin(), a.token_offsets.end(), a.token_offsets.begin());
  std::vector<std::int64_t> next = a.token_offsets;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto token = static_cast<std::size_t>(a.row_token[static_cast<std::size_t>(row)]);
    a.token_rows[static_cast<std::size_t>(next[token]++)] = static_cast<std::int32_t>(row);
  }
}

// Packed order with the index itself where its complement belongs: the router of the experts in reverse.
Routes packed_from_the_end(Router router, const MatrixView& logits) {
  const std::vector<float> bias(router.bias.rbegin(), router.bias.rend());
  router.bias = bias;
  std::vector<float> reversed(static_cast<std::size_t>(logits.rows * logits.cols));
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    const auto row =
        std::span(reversed).subspan(static_cast<std::size_t>(t * logits.cols), static_cast<std::size_t>(logits.cols));
    logits.read_row(t, row);
    std::reverse(row.begin(), row.end());
  }
  const std::byte* data = std::as_bytes(std::span(reversed)).data();
  Routes routes = route(router, {Format::fp32, data, logits.rows, logits.cols, logits.cols});
  for (std::int32_t& e : routes.experts) e = static_cast<std::int32_t>(logits.cols) - 1 - e;
  return routes;
}

Routes model_packed(Router router, const MatrixView& logits, const RouterFaults& faults) {
  if (faults.scale_forgotten) router.scale = 1;
  return faults.larger_index ? packed_from_the_end(router, logits) : route(router, logits);
}

}  // namespace

std::span<const RouterFault> all_router_faults() { return kFaults; }

Routes model_routes(const Router& router, const MatrixView& logits, const RouterFaults& faults) {
  if (router.variant->packed) return model_packed(router, logits, faults);
  const bool by_logit = router.variant->score == RouterScore::logits;
  const std::vector<float> scores = by_logit ? std::vector<float>() : router_scores(router, logits);
  Routes routes;
  routes.tokens = logits.rows, routes.top_k = router.top_k;
  std::vector<float> row(static_cast<std::size_t>(logits.cols));
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    logits.read_row(t, row);
    std::vector<float> values = row;
    if (!by_logit) std::copy_n(scores.begin() + t * logits.cols, logits.cols, values.begin());
    std::vector<float> keys = values;
    for (std::size_t e = 0; e < keys.size(); ++e) {
      if (std::isnan(row[e])) keys[e] = row[e];
      if (!router.bias.empty()) keys[e] += router.bias[e];
    }
    if (faults.bias_in_weights && !router.bias.empty()) values = keys;
    std::vector<std::int32_t> order = candidates(router, keys, faults);
    std::sort(order.begin(), order.end(), Order(keys, faults));
    order.resize(static_cast<std::size_t>(router.top_k));
    std::vector<float> weights;
    for (const std::int32_t e : order) weights.push_back(values[static_cast<std::size_t>(e)]);
    weigh(router, weights, faults);
    routes.experts.insert(routes.experts.end(), order.begin(), order.end());
    routes.weights.insert(routes.weights.end(), weights.begin(), weights.end());
  }
  return routes;
}

RoundedTokens model_rows(const Router& router, const TokenRounding& token_rounding, const MatrixView& logits,
                         const RouterFaults& faults) {
  const std::int64_t tokens = logits.rows;
  const std::int64_t experts = logits.cols;
  const Routes routes = is_about_choice(faults) ? model_routes(router, logits, faults) : route(router, logits);
  const std::vector<float> scores = router_scores(router, logits);
  std::vector<std::vector<bool>> chose(static_cast<std::size_t>(experts),
                                       std::vector<bool>(static_cast<std::size_t>(tokens)));
  RoundedTokens a;
  a.tokens = tokens, a.experts = experts;
  a.chosen.assign(static_cast<std::size_t>(experts), 0);
  for (std::size_t i = 0; i < routes.experts.size(); ++i) {
    const auto e = static_cast<std::size_t>(routes.experts[i]);
    chose[e][i / static_cast<std::size_t>(router.top_k)] = true;
    ++a.chosen[e];
  }
  const bool by_score = token_rounding.rule == TokenRoundingRule::expert_choice;
  std::vector<std::vector<std::int32_t>> orders;
  std::vector<std::vector<float>> boundary(static_cast<std::size_t>(experts));
  for (std::size_t e = 0; e < chose.size(); ++e) {
    const auto expert = static_cast<std::int64_t>(e);
    orders.push_back(ranks(scores, tokens, experts, expert, by_score ? std::vector<bool>() : chose[e]));
    const std::int64_t down = a.chosen[e] - a.chosen[e] % token_rounding.tile;
    if (token_rounding.rule != TokenRoundingRule::nr_s || down == a.chosen[e] || down + token_rounding.tile > tokens)
      continue;
    for (std::int64_t r = down; r < down + token_rounding.tile; ++r) {
      boundary[e].push_back(
          scores[static_cast<std::size_t>(orders[e][static_cast<std::size_t>(r)] * experts + expert)]);
    }
  }
  const std::vector<std::int64_t> counts = counts_of(token_rounding, a.chosen, tokens, boundary, faults);
  a.row_token.assign(static_cast<std::size_t>(token_rounding_capacity(router, token_rounding, tokens, experts)), -1);
  a.row_weight.assign(a.row_token.size(), 0);
  a.offsets.push_back(0);
  std::vector<float> sums(static_cast<std::size_t>(tokens));
  std::vector<float> before(static_cast<std::size_t>(tokens));
  for (std::size_t e = 0; e < orders.size(); ++e) {
    const auto kept = kept_tokens(token_rounding, std::move(orders[e]), a.chosen[e], counts[e], faults);
    std::copy(kept.begin(), kept.end(), a.row_token.begin() + a.offsets.back());
    a.offsets.push_back(a.offsets.back() + static_cast<std::int64_t>(kept.size()));
    const auto score = [&](std::size_t t) { return scores[t * static_cast<std::size_t>(experts) + e]; };
    for (const std::int32_t t : kept) sums[static_cast<std::size_t>(t)] += score(static_cast<std::size_t>(t));
    for (std::size_t t = 0; t < before.size(); ++t) before[t] += chose[e][t] ? score(t) : 0.0F;
  }
  list_by_token(a);
  for (std::size_t e = 0; e < chose.size(); ++e) {
    for (std::int64_t row = a.offsets[e]; row < a.offsets[e + 1]; ++row) {
      const auto at = static_cast<std::size_t>(row);
      const auto t = static_cast<std::size_t>(a.row_token[at]);
      const float sum = faults.sums_of_choice ? before[t] : sums[t];
      float weight = scores[t * static_cast<std::size_t>(experts) + e];
      if (token_rounding.renormalize) weight = sum == 0 ? 0.0F : weight / sum;
      if (!faults.scale_forgotten) weight *= router.scale;
      if (token_rounding.rule == TokenRoundingRule::none) {
        const auto of_token = routes.experts.begin() + static_cast<std::ptrdiff_t>(t) * router.top_k;
        const auto slot = std::find(of_token, of_token + router.top_k, static_cast<std::int32_t>(e));
        weight = routes.weights[static_cast<std::size_t>(slot - routes.experts.begin())];
      }
      a.row_weight[at] = weight;
    }
  }
  return a;
}

RouteMetadata metadata_descending(std::span<const std::int32_t> slot_experts, std::int64_t width,
                                  std::span<const std::int64_t> token_offsets, std::int64_t experts,
                                  std::int64_t tile) {
  RouteMetadata m = route_metadata(slot_experts, width, token_offsets, experts, tile);
  for (std::size_t e = 0; e < m.counts.size(); ++e) {
    const std::ptrdiff_t begin = m.offsets[e];
    for (std::vector<std::int32_t>* rows : {&m.row_slot, &m.row_token}) {
      std::reverse(rows->begin() + begin, rows->begin() + begin + m.counts[e]);
    }
    for (std::ptrdiff_t row = begin; row < begin + m.counts[e]; ++row) {
      m.slot_row[static_cast<std::size_t>(m.row_slot[static_cast<std::size_t>(row)])] = static_cast<std::int32_t>(row);
    }
  }
  return m;
}

// The losses.

namespace {

using Of = LossFault::Of;

constexpr LossFault kLossFaults[] = {
    {Of::both, "largest_kept", "exponentials without the largest logit subtracted", &LossFaults::largest_kept},
    {Of::both, "row_one_by_one", "a row's exponentials added one after the other", &LossFaults::row_one_by_one},
    {Of::both, "tokens_one_by_one", "tokens added one after the other in FP32", &LossFaults::tokens_one_by_one},
    {Of::both, "sums_not_means", "sums over tokens, not means", &LossFaults::sums_not_means},
    {Of::both, "bf16_probabilities", "probabilities rounded to BF16", &LossFaults::bf16_probabilities},
    {Of::both, "no_coefficient", "no coefficient", &LossFaults::no_coefficient},
    {Of::balance, "no_experts", "not multiplied by the number of experts", &LossFaults::no_experts},
    {Of::balance, "loads_of_tokens", "counts over tokens, not over routes", &LossFaults::loads_of_tokens,
     "transformers, load_balancing_loss_func"},
    {Of::balance, "loads_of_32_bits", "counts added in 32 bits", &LossFaults::loads_of_32_bits},
    {Of::balance, "loads_have_gradient", "a gradient of the counts, as if they were probabilities",
     &LossFaults::loads_have_gradient},
    {Of::balance, "no_sum_in_gradient", "a gradient without the sum over experts", &LossFaults::no_sum_in_gradient},
    {Of::balance, "routed_alone", "softmax over the experts that have routes", &LossFaults::routed_alone},
    {Of::balance, "gradient_of_routed_alone", "no gradient for experts without routes",
     &LossFaults::gradient_of_routed_alone},
    {Of::z, "not_squared", "log-sum-exp, not squared", &LossFaults::not_squared},
    {Of::z, "base_2", "a logarithm to base 2", &LossFaults::base_2},
    {Of::z, "halved_gradient", "a gradient without the square's 2", &LossFaults::halved_gradient},
    {Of::z, "largest_alone", "the largest logit in place of log-sum-exp", &LossFaults::largest_alone},
};

float one_by_one(std::span<const float> values) {
  float sum = 0;
  for (const float value : values) sum += value;
  return sum;
}

// The products' sum, rounded once; where one is not finite, that of doubles.
float sum_of_products(std::span<const float> a, std::span<const float> b, bool exactly) {
  ExactSum exact;
  float in_order = 0;
  double wide = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double product = static_cast<double>(a[i]) * static_cast<double>(b[i]);
    in_order += static_cast<float>(product), wide += product;
    if (!std::isfinite(product)) continue;
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(product), &exponent);
    exact.add(product < 0, static_cast<std::uint64_t>(std::ldexp(fraction, 53)), exponent - 53);
  }
  if (!exactly) return in_order;
  return std::isfinite(wide) ? std::bit_cast<float>(exact.rounded(Format::fp32)) : static_cast<float>(wide);
}

float loss_as_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::isnan(value) ? value : std::bit_cast<float>((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000);
}

// Softmax and log-sum-exp of every token.
struct LossRows {
  LossRows(const RouterLossInputs& of, const LossFaults& faults);
  [[nodiscard]] std::span<float> row(std::size_t t) { return std::span(p).subspan(t * experts, experts); }

  std::size_t tokens, experts;
  std::vector<float> p, lse;

 private:
  void compute(std::span<float> x, float& log_sum_exp, std::span<const std::int32_t> counts, const LossFaults& faults);
};

LossRows::LossRows(const RouterLossInputs& of, const LossFaults& faults)
    : tokens(static_cast<std::size_t>(of.logits.rows)),
      experts(static_cast<std::size_t>(of.logits.cols)),
      p(tokens * experts),
      lse(tokens) {
  for (std::size_t t = 0; t < tokens; ++t) {
    of.logits.read_row(static_cast<std::int64_t>(t), row(t));
    compute(row(t), lse[t], of.counts, faults);
  }
}

void LossRows::compute(std::span<float> x, float& log_sum_exp, std::span<const std::int32_t> counts,
                       const LossFaults& faults) {
  const auto is_left_out = [&](std::size_t e) { return faults.routed_alone && counts[e] == 0; };
  float largest = -kInfinity;
  for (std::size_t e = 0; e < experts; ++e) largest = is_left_out(e) ? largest : std::max(largest, x[e]);
  const float shift = faults.largest_kept ? 0.0F : largest;
  for (std::size_t e = 0; e < experts; ++e) x[e] = is_left_out(e) ? 0.0F : exp_rn(x[e] - shift);
  const float sum = faults.row_one_by_one ? one_by_one(x) : pairwise_sum(x);
  log_sum_exp = shift + log_rn(sum) * (faults.base_2 ? 1.44269504F : 1.0F);
  if (faults.largest_alone) log_sum_exp = largest;
  for (float& v : x) v = faults.bf16_probabilities ? loss_as_bf16(v / sum) : v / sum;
}

// f_e.
std::vector<float> loads_of(const RouterLossInputs& of, const LossFaults& faults) {
  std::int64_t routes = std::accumulate(of.counts.begin(), of.counts.end(), std::int64_t{0});
  if (faults.loads_of_32_bits) routes = static_cast<std::int32_t>(static_cast<std::uint32_t>(routes));
  if (faults.loads_of_tokens) routes = of.logits.rows;
  std::vector<float> f;
  for (const std::int32_t count : of.counts) f.push_back(static_cast<float>(count) / static_cast<float>(routes));
  return f;
}

RouterLoss model_balance_loss(const RouterLossInputs& of, const LossFaults& faults) {
  LossRows rows(of, faults);
  const std::vector<float> f = loads_of(of, faults);
  const float divisor = faults.sums_not_means ? 1.0F : static_cast<float>(rows.tokens);
  const std::vector<float> ones(rows.tokens, 1.0F);
  std::vector<float> mean;
  for (std::size_t e = 0; e < rows.experts; ++e) {
    std::vector<float> of_expert;
    for (std::size_t t = 0; t < rows.tokens; ++t) of_expert.push_back(rows.row(t)[e]);
    mean.push_back(sum_of_products(of_expert, ones, !faults.tokens_one_by_one) / divisor);
  }
  const float coefficient = faults.no_coefficient ? 1.0F : of.coefficient;
  const float factor = faults.no_experts ? coefficient : coefficient * static_cast<float>(rows.experts);
  RouterLoss loss{sum_of_products(f, mean, true) * factor, {}};
  std::vector<float> c;
  for (std::size_t e = 0; e < f.size(); ++e)
    c.push_back(factor * (faults.loads_have_gradient ? f[e] + mean[e] : f[e]) / divisor);
  for (std::size_t t = 0; t < rows.tokens; ++t) {
    const std::span<const float> p = rows.row(t);
    float sum = 0;
    for (std::size_t e = 0; e < p.size() && !faults.no_sum_in_gradient; ++e) sum = std::fma(c[e], p[e], sum);
    for (std::size_t e = 0; e < p.size(); ++e) {
      const bool none = faults.gradient_of_routed_alone && of.counts[e] == 0;
      loss.gradient.push_back(none ? 0.0F : p[e] * (c[e] - sum));
    }
  }
  return loss;
}

RouterLoss model_z_loss(const RouterLossInputs& of, const LossFaults& faults) {
  LossRows rows(of, faults);
  const float divisor = faults.sums_not_means ? 1.0F : static_cast<float>(rows.tokens);
  const float coefficient = faults.no_coefficient ? 1.0F : of.coefficient;
  const std::vector<float> ones(rows.tokens, 1.0F);
  const float sum = sum_of_products(rows.lse, faults.not_squared ? ones : rows.lse, !faults.tokens_one_by_one);
  const float slope = (faults.halved_gradient || faults.not_squared ? coefficient : 2 * coefficient) / divisor;
  for (std::size_t t = 0; t < rows.tokens; ++t) {
    const float factor = faults.not_squared ? slope : slope * rows.lse[t];
    for (float& v : rows.row(t)) v *= factor;
  }
  return {(coefficient / divisor) * sum, std::move(rows.p)};
}

}  // namespace

std::span<const LossFault> all_loss_faults() { return kLossFaults; }

RouterLoss model_loss(const RouterLossInputs& of, const LossFaults& faults) {
  if (of.logits.rows == 0) return {};
  return of.counts.empty() ? model_z_loss(of, faults) : model_balance_loss(of, faults);
}

}  // namespace mxcheck
