// The part of a router's counterexample that a person reads first: the order around what differs, and the decision.

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "numerics/elementary/elementary.h"
#include "properties/core/notation.h"
#include "properties/operations/router/problem.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kAround = 3;       // ranks shown on either side of the boundary
constexpr std::size_t kMostCulprits = 8;  // plants of a case

std::uint32_t logit_bits(const Problem& p, std::int64_t token, std::int64_t expert) {
  const std::size_t width = p.c.variant.wide == Format::fp32 ? 4 : 2;
  std::uint32_t bits = 0;
  std::memcpy(&bits, p.input.bytes.data() + static_cast<std::size_t>(token * p.input.view.row_stride + expert) * width,
              width);
  return bits;
}

std::string fp32(float value) { return notations(Format::fp32, std::bit_cast<std::uint32_t>(value)); }

// One token alone, as a problem of its own.
Problem token_alone(const Problem& p, std::int64_t token) {
  Problem one = p;
  one.c.variant.operation = "route", one.c.variant.rule.clear(), one.c.rows = 1;
  one.input.view = {p.c.variant.wide, p.input.view.data, p.c.rows, p.c.cols, p.input.view.row_stride};
  const std::size_t width = p.c.variant.wide == Format::fp32 ? 4 : 2;
  one.input.view.data += static_cast<std::size_t>(token * p.input.view.row_stride) * width;
  one.input.view.rows = 1;
  return one;
}

// The ranks around the last that is chosen, best first: logits, what the order is by, and the weight.
void explain_token(const Problem& p, std::int64_t token, Finding& finding) {
  const Problem one = token_alone(p, token);
  const Router router = router_of(one);
  Router longer = router;  // as far down as there are candidates
  longer.top_k = router.groups == 0 ? p.c.cols : router.groups_kept * (p.c.cols / router.groups);
  longer.top_k = std::min(longer.top_k, router.top_k + kAround);
  // The value of a group follows from top_k: with groups only those chosen are known.
  if (router.groups != 0) longer.top_k = router.top_k;
  const Routes order = route(longer, one.input.view);
  const Routes chosen = route(router, one.input.view);
  const std::vector<float> scores = router_scores(router, one.input.view);
  const bool by_logit = router.variant->score == RouterScore::logits;
  finding.element.push_back(
      fmt::format("token     {}: {} of {} experts, {}; larger first, where equal the smaller index", token, p.c.top_k,
                  p.c.cols, p.c.variant.recipe));
  const std::int64_t first = std::max<std::int64_t>(0, p.c.top_k - kAround);
  if (first > 0) finding.element.push_back(fmt::format("          ... {} ranks before", first));
  for (std::int64_t rank = first; rank < longer.top_k; ++rank) {
    const std::int32_t e = order.experts[static_cast<std::size_t>(rank)];
    std::string line =
        fmt::format("rank {:<4} expert {}: logit {}", rank, e, notations(p.c.variant.wide, logit_bits(p, token, e)));
    if (!by_logit) line += fmt::format("; score {}", fp32(scores[static_cast<std::size_t>(e)]));
    if (!router.bias.empty()) line += fmt::format("; bias {}", fp32(router.bias[static_cast<std::size_t>(e)]));
    if (rank < p.c.top_k) line += fmt::format("; weight {}", fp32(chosen.weights[static_cast<std::size_t>(rank)]));
    finding.element.push_back(line + (rank < p.c.top_k ? "; chosen" : "; not chosen"));
  }
  for (std::int64_t e = 0; e < p.c.cols && p.c.cols <= static_cast<std::int64_t>(kMostCulprits); ++e) {
    finding.culprits.push_back({token, e, logit_bits(p, token, e)});
  }
}

// f, the multiples around it, and what decided; then the ranks beside the boundary.
void explain_expert(const Problem& p, std::int64_t expert, Finding& finding) {
  const Case& c = p.c;
  const TokenRounding token_rounding = token_rounding_of(c);
  const Router router = router_of(p);
  const RoundedTokens rows = round_tokens(router, token_rounding, p.input.view);
  const auto e = static_cast<std::size_t>(expert);
  const std::int64_t f = rows.chosen[e];
  const std::int64_t kept = rows.offsets[e + 1] - rows.offsets[e];
  std::string line = fmt::format("expert    {}: {} tokens chose it, rule {}", expert, f, c.variant.rule);
  if (rounds_to_tiles(token_rounding.rule)) {
    const std::int64_t down = f - f % c.tile;
    const std::int64_t up = f == down ? f : down + c.tile;
    line += fmt::format(" to multiples of {}: down {} ({} lost) or up {} ({} gained){}", c.tile, down, f - down, up,
                        up - f, up > c.rows ? ", which is more than there are tokens" : "");
    if (token_rounding.rule == TokenRoundingRule::balance_f) {
      std::int64_t residual = 0;
      for (std::size_t n = 0; n < e; ++n) residual += rows.offsets[n + 1] - rows.offsets[n] - rows.chosen[n];
      line += fmt::format("; added so far {}", residual);
    }
    if (token_rounding.rule == TokenRoundingRule::sr_f) {
      const std::uint32_t word =
          philox_word(c.seed, static_cast<std::uint32_t>(expert), c.layer, static_cast<std::uint32_t>(c.step),
                      static_cast<std::uint32_t>(c.step >> 32));
      line += fmt::format("; word {:#010x}", word);
    }
  } else if (c.capacity != 0) {
    line += fmt::format(", capacity {}", c.capacity);
  }
  finding.element.push_back(line + fmt::format("; it keeps {}", kept));
  const std::vector<float> scores = router_scores(router, p.input.view);
  const Routes routes = route(router, p.input.view);
  std::vector<bool> chose(static_cast<std::size_t>(c.rows));
  for (std::size_t i = 0; i < routes.experts.size(); ++i) {
    if (routes.experts[i] == expert) chose[i / static_cast<std::size_t>(c.top_k)] = true;
  }
  const auto score = [&](std::int32_t t) { return scores[static_cast<std::size_t>(t) * rows.chosen.size() + e]; };
  std::vector<std::int32_t> order(chose.size());
  std::iota(order.begin(), order.end(), 0);
  const bool by_score = token_rounding.rule == TokenRoundingRule::expert_choice;
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    const bool chose_a = chose[static_cast<std::size_t>(a)];
    const bool chose_b = chose[static_cast<std::size_t>(b)];
    return chose_a != chose_b && !by_score ? chose_a : score(a) > score(b);
  });
  const std::int64_t end = std::min<std::int64_t>(c.rows, kept + kAround);
  for (std::int64_t rank = std::max<std::int64_t>(0, kept - kAround); rank < end; ++rank) {
    const std::int32_t t = order[static_cast<std::size_t>(rank)];
    finding.element.push_back(fmt::format("rank {:<4} token {}: score {}; {}{}", rank, t, fp32(score(t)),
                                          chose[static_cast<std::size_t>(t)] ? "chose it" : "did not choose it",
                                          rank < kept ? "" : "; not kept"));
  }
}

// Of outputs by row: the expert of the row.
std::int64_t expert_of_row(const Problem& p, std::int64_t row) {
  const RoundedTokens rows = round_tokens(router_of(p), token_rounding_of(p.c), p.input.view);
  for (std::int64_t e = 0; e < p.c.cols; ++e) {
    if (row < rows.offsets[static_cast<std::size_t>(e) + 1]) return e;
  }
  return p.c.cols - 1;
}

void explain_rounding(const Problem& p, std::size_t output, Finding& finding) {
  const std::int64_t col = finding.difference->first.col;
  if (output == 0) {  // chosen: some token whose choice the candidate does not show
    finding.element.push_back(fmt::format("expert    {}: of the tokens that chose it, before rounding", col));
  } else if (output == 1) {  // the end of the expert before
    explain_expert(p, std::max<std::int64_t>(0, col - 1), finding);
  } else if (output <= 3) {
    explain_expert(p, expert_of_row(p, col), finding);
    const auto answer = round_tokens(router_of(p), token_rounding_of(p.c), p.input.view);
    const std::int32_t token = answer.row_token[static_cast<std::size_t>(col)];
    if (output == 3 && token >= 0) explain_token(p, token, finding);
  } else if (output == 4) {
    finding.element.push_back(fmt::format("token     {}: its rows end here", col - 1));
  }
}

void explain_slots(const Problem& p, std::size_t output, Finding& finding) {
  const RouteMetadata m = route_metadata(p.routes, p.c.top_k, p.token_offsets, p.c.cols, p.c.tile);
  const std::int64_t col = finding.difference->first.col;
  if (output <= 1) {
    const auto e = static_cast<std::size_t>(std::min(p.c.cols - 1, col));
    finding.element.push_back(fmt::format("expert    {}: {} routes, rows {} to {} of tiles of {}", e, m.counts[e],
                                          m.offsets[e], m.offsets[e + 1] - 1, p.c.tile));
  } else if (output <= 4) {
    const std::int32_t slot = m.row_slot[static_cast<std::size_t>(col)];
    finding.element.push_back(slot < 0 ? fmt::format("row       {}: padding", col)
                                       : fmt::format("row       {}: slot {} of token {}, expert {}", col, slot,
                                                     m.row_token[static_cast<std::size_t>(col)],
                                                     m.row_expert[static_cast<std::size_t>(col)]));
  } else {
    finding.element.push_back(fmt::format("slot      {}: expert {}", col, p.routes[static_cast<std::size_t>(col)]));
  }
}

void explain_gradient(const Problem& p, Finding& finding) {
  const std::int64_t token = finding.difference->first.row;
  const std::int64_t expert = finding.difference->first.col;
  finding.element.push_back(fmt::format("input     logit({}, {}) = {}", token, expert,
                                        notations(p.c.variant.wide, logit_bits(p, token, expert))));
  for (std::int64_t n = 0; n < std::min<std::int64_t>(p.c.top_k, 2 * kAround); ++n) {
    const auto at = static_cast<std::size_t>(token * p.c.top_k + n);
    const std::int32_t e = p.routes[at];
    finding.element.push_back(e < 0 ? fmt::format("route     {}: none", n)
                                    : fmt::format("route     {}: expert {}, logit {}, gradient {}", n, e,
                                                  notations(p.c.variant.wide, logit_bits(p, token, e)),
                                                  fp32(p.gradient[at])));
  }
}

}  // namespace

void explain_route(const Problem& p, std::size_t output, Finding& finding) {
  const std::string& operation = p.c.variant.operation;
  if (operation == "route") explain_token(p, finding.difference->first.row, finding);
  if (operation == "route_round") explain_rounding(p, output, finding);
  if (operation == "route_metadata") explain_slots(p, output, finding);
  if (operation == "route_backward") explain_gradient(p, finding);
  finding.element.push_back("expected  " + expected_text(*finding.difference));
  finding.element.push_back("observed  " + observed_text(*finding.difference));
}

}  // namespace mxcheck
