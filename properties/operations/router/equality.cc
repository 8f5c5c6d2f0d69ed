// Routers: the candidate's bytes are the reference's bytes.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "numerics/elementary/elementary.h"
#include "properties/core/layers/layers.h"
#include "properties/core/notation.h"
#include "properties/operations/router/operation.h"
#include "properties/operations/router/problem.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostOfGrid = 16;  // top_k, and experts that every number of is tried

bool is_plain(const Variant& v) { return !route_of(v).bias && !route_of(v).limited; }

// Corner cases of every variant on every run: none and one of everything, ties in all places, every kind of value.
std::vector<Case> choice_corners(const Variant& v, Suite suite) {
  std::vector<Case> cases{
      route_corner(v, 0, 4, 2, Data::zeros, 1),        route_corner(v, 1, 1, 1, Data::codes, 2),
      route_corner(v, 5, 8, 3, Data::zeros, 3),        route_corner(v, 24, 16, 4, Data::codes, 4),
      route_corner(v, 12, 33, 5, Data::boundaries, 5), route_corner(v, 28, 8, 8, Data::specials, 6),
      route_corner(v, 16, 20, 1, Data::bits, 7),       route_corner(v, 3, 128, 8, Data::normal, 8),
  };
  cases[3].stride = cases[3].cols + 3;
  route_case(cases[7]).scale = 2.5F;
  if (suite == Suite::quick) return cases;
  cases.push_back(route_corner(v, 300, 64, 6, Data::specials, 9));
  cases.push_back(route_corner(v, 100, 256, 8, Data::wide, 10));
  cases.push_back(route_corner(v, 40, 512, 10, Data::boundaries, 11));
  if (route_of(v).router == "softmax-topk-renorm" && is_plain(v))
    cases.push_back(route_corner(v, 4099, 128, 8, Data::normal, 12));
  return cases;
}

Case rounding_corner(const Variant& v, std::int64_t tokens, std::int64_t experts, std::int64_t top_k, std::int64_t tile,
                     Data data, std::uint64_t seed) {
  Case c = route_corner(v, tokens, experts, top_k, data, seed);
  const TokenRoundingRule rule = token_rounding_rule_named(route_of(v).rule);
  if (rounds_to_tiles(rule)) route_case(c).tile = tile;
  if (takes_capacity(rule)) route_case(c).capacity = tile;
  return c;
}

// Numbers of experts that every top_k up to 16 is tried with: all to 16, multiples of 8 and 32 beyond, production's.
std::vector<std::int64_t> expert_numbers() {
  std::set<std::int64_t> all{24, 32, 40, 48, 64, 72, 96, 128, 160, 192, 256, 320, 384, 512};
  for (std::int64_t e = 1; e <= kMostOfGrid; ++e) all.insert(e);
  for (const ProductionLayer& layer : production_layers()) all.insert(layer.experts);
  return {all.begin(), all.end()};
}

// Variants of one router, bias and type of logits; of what else they differ in (NaN, the rule) one after the other is
// taken. Without groups, where there are such: few numbers of experts have groups for a pair.
std::vector<std::vector<const Variant*>> families_of(std::span<const Variant> variants) {
  using Key = std::tuple<std::string, bool, Format>;
  std::map<Key, std::array<std::vector<const Variant*>, 2>> families;
  for (const Variant& v : variants)
    families[{route_of(v).router, route_of(v).bias, v.dtype}][route_of(v).limited ? 1 : 0].push_back(&v);
  std::vector<std::vector<const Variant*>> all;
  for (auto& [of, members] : families) all.push_back(std::move(members[members[0].empty() ? 1 : 0]));
  return all;
}

// Beside multiples of a warp's 32 lanes, which expert_numbers() has.
constexpr std::array<std::int64_t, 18> kBesideWarps{31,  33,  63,  65,  95,  97,  127, 129, 191,
                                                    193, 255, 257, 319, 321, 383, 385, 447, 511};

// Every pair of experts and top_k of every router, bias and type: kernels are compiled for a pair, or chosen by it.
std::vector<Case> every_pair(std::span<const Variant> variants, Suite) {
  constexpr std::array kData{Data::normal, Data::codes, Data::boundaries};
  constexpr std::int64_t kTokens = 3, kTile = 2;
  std::vector<Case> cases;
  for (const std::vector<const Variant*>& family : families_of(variants)) {
    const auto add = [&](std::int64_t experts, std::int64_t top_k) {
      const std::size_t n = cases.size();
      const Variant& v = *family[n % family.size()];
      const Data data = kData[n / family.size() % kData.size()];
      cases.push_back(kind_of(v).rounds ? rounding_corner(v, kTokens, experts, top_k, kTile, data, n)
                                        : route_corner(v, kTokens, experts, top_k, data, n));
      RouteCase& own = route_case(cases.back());
      if (route_of(v).limited) own.groups = own.groups_kept = 1;
      own.top_k = top_k;
    };
    for (const std::int64_t experts : expert_numbers()) {
      for (std::int64_t top_k = 1; top_k <= std::min(kMostOfGrid, experts); ++top_k) add(experts, top_k);
    }
    for (const std::int64_t experts : kBesideWarps) add(experts, 2 + static_cast<std::int64_t>(cases.size()) % 7);
  }
  return cases;
}

// Scores that a bias leaves below -1, or above 1, at every k: kernels begin with a smallest score, or mask by one.
std::vector<Case> far_biases(const Variant& v, Suite suite) {
  constexpr std::int64_t kExperts = 24, kTokens = 3;
  const RouteVariant& own = route_of(v);
  const bool first = !kind_of(v).rounds || (own.rule == "nr-f" && own.renormalize);
  if (suite == Suite::quick && !first) return {};
  std::vector<Case> cases;
  for (std::int64_t top_k = 1; top_k <= kMostOfGrid; ++top_k) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      Case c = kind_of(v).rounds ? rounding_corner(v, kTokens, kExperts, top_k, 2, Data::every_bf16, seed)
                                 : route_corner(v, kTokens, kExperts, top_k, Data::every_bf16, seed);
      if (own.limited) route_case(c).groups = 4, route_case(c).groups_kept = (top_k + 5) / 6;
      route_case(c).top_k = top_k;
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

// Counts from 0 to twice the tile and one more, one an expert, and tokens enough (or, short, not) to go up. Experts of
// a token are as many as all these counts need, but hardly ever more than anyone has.
Case every_count(const Variant& v, std::int64_t tile, bool is_short) {
  constexpr std::int64_t kMostTopK = 16;
  const std::int64_t slots = (tile + 1) * (2 * tile + 1);  // 0 + 1 + ... + (2 tile + 1)
  const std::int64_t tokens = is_short ? 2 * tile + 1 : std::max(3 * tile + 1, (slots + kMostTopK - 1) / kMostTopK);
  const std::int64_t top_k = (slots + tokens - 1) / tokens;
  return rounding_corner(v, tokens, 2 * tile + 2 + top_k, top_k, tile, Data::slots, 0);
}

}  // namespace

std::vector<Case> rounding_corners(const Variant& v, Suite suite) {
  const bool usual =
      route_of(v).router == "topk-softmax" || route_of(v).router == "softmax-topk" || route_of(v).router == "sigmoid";
  const bool first = usual && is_plain(v) && !route_of(v).nan_last && v.dtype == Format::bf16;
  if (suite == Suite::quick && !(first && route_of(v).renormalize)) return {};
  std::vector<Case> cases{
      rounding_corner(v, 0, 4, 2, 8, Data::zeros, 1),      rounding_corner(v, 1, 3, 1, 2, Data::codes, 2),
      rounding_corner(v, 37, 8, 1, 8, Data::zeros, 3),     rounding_corner(v, 19, 6, 6, 4, Data::zeros, 4),
      rounding_corner(v, 70, 12, 3, 16, Data::codes, 5),   rounding_corner(v, 50, 8, 2, 5, Data::specials, 6),
      rounding_corner(v, 130, 16, 4, 32, Data::normal, 7), rounding_corner(v, 33, 24, 3, 1, Data::boundaries, 8),
  };
  route_case(cases[6]).scale = 2.5F;
  for (const std::int64_t tile : {1, 2, 3, 4, 7, 8}) {
    for (const bool is_short : {false, true}) cases.push_back(every_count(v, tile, is_short));
  }
  const bool paper = route_of(v).router == "softmax-topk" && first &&
                     (route_of(v).rule == "nr-f" || route_of(v).rule == "balance-f" || route_of(v).rule == "nr-s");
  if (paper || suite == Suite::exhaustive) cases.push_back(every_count(v, 128, false));
  if (suite != Suite::quick && first) cases.push_back(rounding_corner(v, 4100, 64, 8, 128, Data::normal, 9));
  return cases;
}

namespace {

std::vector<Case> metadata_corners(const Variant& v, Suite suite) {
  std::vector<Case> cases;
  const auto add = [&](std::int64_t tokens, std::int64_t experts, std::int64_t width, std::int64_t tile, Data data,
                       int drops) {
    Case c = route_corner(v, tokens, experts, width, data, cases.size());
    route_case(c).tile = tile, route_case(c).drops = drops;
    cases.push_back(c);
  };
  for (const std::int64_t tile : {1, 8, 128}) {
    for (const std::int64_t width : {0, 1, 4}) {
      add(0, 5, width, tile, Data::zeros, 0);
      add(1, 1, width, tile, Data::zeros, 0);
      add(300, 8, width, tile, Data::zeros, 0);
      add(257, 33, width, tile, Data::bits, 30);
      add(100, 6, width, tile, Data::codes, 100);
      add(500, 64, width, tile, Data::slots, 5);
    }
  }
  add(2048, 128, 8, 128, Data::normal, 0);
  for (const std::int64_t tile : {1, 16}) {  // after rounding a token may be that of any number of experts
    add(70, 64, 0, tile, Data::normal, 5);
    route_case(cases.back()).ragged = 70;
  }
  if (suite != Suite::quick) add(65'537, 256, 8, 128, Data::normal, 1);
  return cases;
}

std::vector<Case> backward_corners(const Variant& v, Suite suite) {
  std::vector<Case> cases = choice_corners(v, suite);
  for (std::size_t i = 0; i < cases.size(); i += 2) route_case(cases[i]).drops = 30;
  route_case(cases[4]).drops = 100;
  return cases;
}

// Losses: no token, one expert, equal logits, every load, logits near the largest, each coefficient's kind.
std::vector<Case> loss_corners(const Variant& v, Suite suite) {
  std::vector<Case> cases;
  const bool has_loads = v.operation == kBalanceLoss.name;
  const auto add = [&](std::int64_t tokens, std::int64_t experts, Data data, Loads loads, float coefficient) {
    if (!has_loads && loads == Loads::one) return;
    cases.push_back(route_corner(v, tokens, experts, 0, data, cases.size()));
    route_case(cases.back()).scale = coefficient;
    if (has_loads) route_case(cases.back()).loads = loads;
  };
  for (const Loads loads : {Loads::equal, Loads::one, Loads::drawn, Loads::large}) {
    if (!has_loads && loads != Loads::equal) break;
    add(0, 4, Data::zeros, loads, -2.5F);
    add(1, 1, Data::codes, loads, 0.01F);
    add(5, 1, Data::specials, loads, 1);
    add(16, 8, Data::zeros, loads, 0.125F);
    add(29, 8, Data::specials, loads, 0.001F);
    add(24, 16, Data::codes, loads, -3);
    add(12, 33, Data::boundaries, loads, 0.01F);
    add(16, 20, Data::bits, loads, 1e-30F);
  }
  for (const std::int64_t experts : expert_numbers()) add(3, experts, Data::normal, Loads::drawn, 0.01F);
  cases.back().stride = cases.back().cols + 3;
  if (suite == Suite::quick) return cases;
  add(300, 64, Data::specials, Loads::drawn, 0.01F);
  add(4099, 128, Data::normal, Loads::drawn, 0.001F);
  add(70'001, 16, Data::sparse, Loads::drawn, 0.001F);
  return cases;
}

Statement equality(std::string_view name, const RouteKind& kind, std::string_view sentence) {
  Statement s;
  s.name = name, s.sentence = sentence, s.source = "docs/router.md";
  s.applies = [&kind](const Variant& v, std::span<const Variant>) { return v.operation == kind.name; };
  s.data = {Data::codes, Data::normal, Data::boundaries, Data::slots, Data::specials,
            Data::bits,  Data::wide,   Data::sparse,     Data::real,  Data::zeros};
  s.experts = 0;
  s.check = equals_the_reference;
  return s;
}

// All rows of so many experts over an alphabet of few values, and every k.
std::vector<Case> every_row(const Variant& v, Suite suite) {
  const bool usual = v.dtype == Format::bf16 && !route_of(v).bias;
  if (suite != Suite::exhaustive && !usual) return {};
  const std::int64_t experts = suite == Suite::quick ? 4 : 6;
  std::int64_t rows = 1;
  for (std::int64_t e = 0; e < experts; ++e) rows *= static_cast<std::int64_t>(small_alphabet(v).size());
  std::vector<Case> cases;
  for (std::int64_t k = 1; k <= experts; ++k) {
    Case c = route_corner(v, rows, experts, k, Data::every_row, 0);
    if (route_of(v).limited) route_case(c).groups = 2, route_case(c).groups_kept = k <= experts / 2 ? 1 : 2;
    route_case(c).top_k = k;
    cases.push_back(c);
  }
  return cases;
}

// Scores of one logit, or of one beside a zero.
std::vector<Case> every_logit(const Variant& v, Suite suite) {
  const bool softmax = route_of(v).router == "softmax-topk" || route_of(v).router == "topk-softmax";
  const std::int64_t experts = softmax ? 2 : 1;
  const Data data = softmax ? Data::every_amax : Data::every_word;
  if (v.dtype == Format::bf16) return {route_corner(v, 65'536, experts, experts, data, 0)};
  std::vector<Case> cases;
  const std::int64_t rows = suite == Suite::quick ? 2048 : 65'536;
  // 0, where results leave 1, are subnormal, overflow, and infinity: 2^-26, 2^-12, 1/4, 1, 16, 88, 104.
  for (const std::uint32_t magnitude : {0x00000000U, 0x32800000U, 0x39800000U, 0x3E800000U, 0x3F800000U, 0x41800000U,
                                        0x42B00000U, 0x42D00000U, 0x7F800000U}) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      cases.push_back(route_corner(v, rows, experts, experts, data,
                                   ((sign | magnitude) - static_cast<std::uint32_t>(rows / 2)) & 0xFFFFFFFFU));
    }
  }
  if (suite != Suite::exhaustive) return cases;
  // Every logit from 2^-28 to 128; beyond, scores are 1, 0 or the logit.
  constexpr std::uint64_t kChunk = std::uint64_t{1} << 22;
  for (std::uint64_t from = 0x31800000; from < 0x43000000; from += kChunk) {
    for (const std::uint64_t sign : {std::uint64_t{0}, std::uint64_t{0x80000000}})
      cases.push_back(route_corner(v, static_cast<std::int64_t>(kChunk), experts, experts, data, from | sign));
  }
  return cases;
}

// Tokens of a training step.
std::vector<Case> production(const Variant& v, Suite suite) {
  const bool quick = suite == Suite::quick;
  Case c = quick ? route_corner(v, 16'384, 128, 8, Data::normal, 1) : route_corner(v, 65'536, 256, 8, Data::normal, 1);
  const RouteKind& kind = kind_of(v);
  if (!kind.reads_logits || has_tiles(v)) route_case(c).tile = 128;
  if (kind.has_gradient) route_case(c).drops = 10;
  route_case(c).capacity = kind.rounds && !has_tiles(v) ? c.rows / 10 : 0;
  std::vector<Case> cases{c};
  if (suite != Suite::exhaustive) return cases;
  c.rows = 1'048'577;  // and a tile that is cut
  cases.push_back(c);
  return cases;
}

Statement cpu_library() {
  Statement s;
  s.name = "large_routes_equal_the_cpu_library";
  s.sentence =
      "the tokens of a training step (in the exhaustive suite over a million) have the experts, weights, rows and "
      "gradients of the in-tree CPU library";
  s.source = "kernels/cpu";
  s.device = Statement::Device::cuda;
  s.applies = [](const Variant& v, std::span<const Variant>) {
    const RouteKind* kind = find_route_kind(v.operation);
    if (kind == nullptr || kind->is_loss || !promises_bits(v)) return false;  // the CPU library has no losses
    const bool usual = route_of(v).router == "topk-softmax" || route_of(v).router == "softmax-topk-renorm" ||
                       route_of(v).router == "sigmoid";
    return !kind->reads_logits ||
           (usual && is_plain(v) && !route_of(v).nan_last && v.dtype == Format::bf16 && route_of(v).renormalize);
  };
  s.check = equals_cpu_library;
  s.corners = production;
  return s;
}

}  // namespace

std::vector<Statement> route_equality_statements() {
  std::vector<Statement> s{
      equality("route_equals_the_reference", kRoute,
               "the experts of every token, in their order, and the bits of their weights are the reference's"),
      equality("route_round_equals_the_reference", kRouteRound,
               "counts, rows of every expert and of every token, and the bits of weights are the reference's"),
      equality("route_metadata_equals_the_reference", kRouteMetadata,
               "the rows that slots go to, and the way back, are the reference's"),
      equality("route_backward_equals_the_reference", kRouteBackward,
               "the gradient of the logits has the reference's bits"),
      equality("route_balance_loss_equals_the_reference", kBalanceLoss,
               "the load-balancing loss and its gradient have the reference's bits, whatever the loads"),
      equality("route_z_loss_equals_the_reference", kZLoss,
               "the z-loss and its gradient have the reference's bits, at logits near the largest too"),
  };
  s[0].corners = choice_corners;
  s[1].corners = rounding_corners;
  s[2].corners = metadata_corners;
  s[3].corners = backward_corners;
  s[4].corners = s[5].corners = loss_corners;
  for (const std::size_t of_losses : {4U, 5U}) std::erase(s[of_losses].data, Data::slots);
  for (Statement& one : s) one.cases_per_variant = 10, one.covers_pairs = true;
  for (const std::size_t of_logits : {0U, 1U, 3U}) s[of_logits].shared_corners = every_pair;

  const std::vector<Statement> claims = route_claim_statements(s[0]);
  s.insert(s.end(), claims.begin(), claims.end());
  Statement rows = equality("every_row_of_a_small_alphabet_is_routed_as_the_reference", kRoute,
                            "every row of 4 experts (6 in the full suite) over -Inf, -1, -0, +0, 1, +Inf and NaN, for "
                            "every k, has the reference's experts and weights");
  rows.data.clear();
  rows.corners = every_row;
  s.push_back(std::move(rows));

  Statement logits =
      equality("every_logit_is_scored_as_the_reference", kRoute,
               "each of the 65,536 BF16 words (in the exhaustive suite each FP32 word from 2^-28 to 128, "
               "of either sign) has the reference's score, alone or beside a zero");
  logits.data.clear();
  logits.applies = [](const Variant& v, std::span<const Variant>) {
    if (v.operation != kRoute.name) return false;
    const bool alone = route_of(v).router == "sigmoid-raw" || route_of(v).router == "sqrtsoftplus-raw";
    const bool softmax = route_of(v).router == "softmax-topk" || route_of(v).router == "topk-softmax";
    return (alone || softmax) && route_of(v).nan_last && is_plain(v);
  };
  logits.corners = every_logit;
  s.push_back(std::move(logits));

  Statement biases = equality("scores_far_below_or_above_by_their_bias_are_routed_as_the_reference", kRoute,
                              "a bias that leaves every score below -1, or above 1, changes nothing else: at every k "
                              "from 1 to 16 the reference's experts and weights are chosen");
  biases.data.clear();
  biases.applies = [](const Variant& v, std::span<const Variant>) {
    const RouteKind* kind = find_route_kind(v.operation);
    return kind != nullptr && promises_bits(v) && kind->chooses && route_of(v).bias;
  };
  biases.corners = far_biases;
  s.push_back(std::move(biases));
  s.push_back(cpu_library());
  return s;
}

// The part of a router's counterexample that a person reads first: the order around what differs, and the decision.

namespace {

constexpr std::int64_t kAround = 3;       // ranks shown on either side of the boundary
constexpr std::size_t kMostRelevant = 8;  // plants of a case

std::string fp32(float value) { return notations(Format::fp32, std::bit_cast<std::uint32_t>(value)); }

// The ranks around the last that is chosen, best first: logits, what the order is by, and the weight.
void explain_token(const LogitsProblem& p, std::int64_t token, Finding& finding) {
  MatrixView one = p.input.view();
  one.data += static_cast<std::size_t>(token) * p.input.row_bytes(), one.rows = 1;
  const Router router = p.router();
  Router longer = router;  // as far down as there are candidates
  longer.top_k = router.groups == 0 ? p.c.cols : router.groups_kept * (p.c.cols / router.groups);
  longer.top_k = std::min(longer.top_k, router.top_k + kAround);
  // The value of a group follows from top_k: with groups only those chosen are known.
  if (router.groups != 0) longer.top_k = router.top_k;
  const Routes order = route(longer, one);
  const Routes chosen = route(router, one);
  const std::vector<float> scores = router_scores(router, one);
  const bool by_logit = router.variant->score == RouterScore::logits;
  finding.element.push_back(
      fmt::format("token     {}: {} of {} experts, {}; larger first, where equal the smaller index", token,
                  route_case(p.c).top_k, p.c.cols, route_of(p.c.variant).router));
  const std::int64_t first = std::max<std::int64_t>(0, route_case(p.c).top_k - kAround);
  if (first > 0) finding.element.push_back(fmt::format("          ... {} ranks before", first));
  for (std::int64_t rank = first; rank < longer.top_k; ++rank) {
    const std::int32_t e = order.experts[static_cast<std::size_t>(rank)];
    std::string line =
        fmt::format("rank {:<4} expert {}: logit {}", rank, e, notations(p.c.variant.dtype, p.input.bits(token, e)));
    if (!by_logit) line += fmt::format("; score {}", fp32(scores[static_cast<std::size_t>(e)]));
    if (!router.bias.empty()) line += fmt::format("; bias {}", fp32(router.bias[static_cast<std::size_t>(e)]));
    if (rank < route_case(p.c).top_k)
      line += fmt::format("; weight {}", fp32(chosen.weights[static_cast<std::size_t>(rank)]));
    finding.element.push_back(line + (rank < route_case(p.c).top_k ? "; chosen" : "; not chosen"));
  }
  for (std::int64_t e = 0; e < p.c.cols && p.c.cols <= static_cast<std::int64_t>(kMostRelevant); ++e) {
    finding.relevant.push_back({token, e, p.input.bits(token, e)});
  }
}

// f, the multiples around it, and what decided; then the ranks beside the boundary.
void explain_expert(const RoundingProblem& p, std::int64_t expert, Finding& finding) {
  const Case& c = p.c;
  const TokenRounding token_rounding = p.token_rounding();
  const Router router = p.router();
  const RoundedTokens rows = p.rows();
  const auto e = static_cast<std::size_t>(expert);
  const std::int64_t f = rows.chosen[e];
  const std::int64_t kept = rows.offsets[e + 1] - rows.offsets[e];
  std::string line = fmt::format("expert    {}: {} tokens chose it, rule {}", expert, f, route_of(c.variant).rule);
  if (rounds_to_tiles(token_rounding.rule)) {
    const std::int64_t down = f - f % route_case(c).tile;
    const std::int64_t up = f == down ? f : down + route_case(c).tile;
    line += fmt::format(" to multiples of {}: down {} ({} lost) or up {} ({} gained){}", route_case(c).tile, down,
                        f - down, up, up - f, up > c.rows ? ", which is more than there are tokens" : "");
    if (token_rounding.rule == TokenRoundingRule::balance_f) {
      std::int64_t residual = 0;
      for (std::size_t n = 0; n < e; ++n) residual += rows.offsets[n + 1] - rows.offsets[n] - rows.chosen[n];
      line += fmt::format("; added so far {}", residual);
    }
    if (token_rounding.rule == TokenRoundingRule::sr_f) {
      const std::uint32_t word = philox_word(c.seed, static_cast<std::uint32_t>(expert), route_case(c).layer,
                                             static_cast<std::uint32_t>(route_case(c).step),
                                             static_cast<std::uint32_t>(route_case(c).step >> 32));
      line += fmt::format("; word {:#010x}", word);
    }
  } else if (route_case(c).capacity != 0) {
    line += fmt::format(", capacity {}", route_case(c).capacity);
  }
  finding.element.push_back(line + fmt::format("; it keeps {}", kept));
  const std::vector<float> scores = router_scores(router, p.input.view());
  const Routes routes = route(router, p.input.view());
  std::vector<bool> chose(static_cast<std::size_t>(c.rows));
  for (std::size_t i = 0; i < routes.experts.size(); ++i) {
    if (routes.experts[i] == expert) chose[i / static_cast<std::size_t>(route_case(c).top_k)] = true;
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

// The expert of a row, for outputs by row.
std::int64_t expert_of_row(const RoundingProblem& p, std::int64_t row) {
  const RoundedTokens rows = p.rows();
  for (std::int64_t e = 0; e < p.c.cols; ++e) {
    if (row < rows.offsets[static_cast<std::size_t>(e) + 1]) return e;
  }
  return p.c.cols - 1;
}

}  // namespace

void ChoiceProblem::tell(std::size_t, Finding& finding) const {
  explain_token(*this, finding.difference->first.row, finding);
}

void RoundingProblem::tell(std::size_t output, Finding& finding) const {
  const std::int64_t col = finding.difference->first.col;
  if (output == 0) {  // chosen: some token whose choice the candidate does not show
    finding.element.push_back(fmt::format("expert    {}: of the tokens that chose it, before rounding", col));
  } else if (output == 1) {  // the end of the expert before
    explain_expert(*this, std::max<std::int64_t>(0, col - 1), finding);
  } else if (output <= 3) {
    explain_expert(*this, expert_of_row(*this, col), finding);
    const std::int32_t token = rows().row_token[static_cast<std::size_t>(col)];
    if (output == 3 && token >= 0) explain_token(*this, token, finding);
  } else if (output == 4) {
    finding.element.push_back(fmt::format("token     {}: its rows end here", col - 1));
  }
}

void MetadataProblem::tell(std::size_t output, Finding& finding) const {
  const RouteMetadata m = metadata();
  const std::int64_t col = finding.difference->first.col;
  if (output <= 1) {
    const auto e = static_cast<std::size_t>(std::min(c.cols - 1, col));
    finding.element.push_back(fmt::format("expert    {}: {} routes, rows {} to {} of tiles of {}", e, m.counts[e],
                                          m.offsets[e], m.offsets[e + 1] - 1, route_case(c).tile));
  } else if (output <= 4) {
    const std::int32_t slot = m.row_slot[static_cast<std::size_t>(col)];
    finding.element.push_back(slot < 0 ? fmt::format("row       {}: padding", col)
                                       : fmt::format("row       {}: slot {} of token {}, expert {}", col, slot,
                                                     m.row_token[static_cast<std::size_t>(col)],
                                                     m.row_expert[static_cast<std::size_t>(col)]));
  } else {
    finding.element.push_back(fmt::format("slot      {}: expert {}", col, routes[static_cast<std::size_t>(col)]));
  }
}

void GradientProblem::tell(std::size_t, Finding& finding) const {
  const std::int64_t token = finding.difference->first.row;
  const std::int64_t expert = finding.difference->first.col;
  finding.element.push_back(fmt::format("input     logit({}, {}) = {}", token, expert,
                                        notations(c.variant.dtype, input.bits(token, expert))));
  for (std::int64_t n = 0; n < std::min<std::int64_t>(route_case(c).top_k, 2 * kAround); ++n) {
    const auto at = static_cast<std::size_t>(token * route_case(c).top_k + n);
    const std::int32_t e = routes[at];
    finding.element.push_back(e < 0
                                  ? fmt::format("route     {}: none", n)
                                  : fmt::format("route     {}: expert {}, logit {}, gradient {}", n, e,
                                                notations(c.variant.dtype, input.bits(token, e)), fp32(gradient[at])));
  }
}

void LossProblem::tell(std::size_t output, Finding& finding) const {
  if (output == 0) {
    finding.element.push_back(fmt::format("loss      of {} tokens and {} experts, coefficient {}", c.rows, c.cols,
                                          fp32(route_case(c).scale)));
    return;
  }
  const std::int64_t token = finding.difference->first.row;
  const std::int64_t expert = finding.difference->first.col;
  finding.element.push_back(fmt::format("input     logit({}, {}) = {}", token, expert,
                                        notations(c.variant.dtype, input.bits(token, expert))));
  if (is_balance()) {
    finding.element.push_back(fmt::format("count     {} of {} routes", counts[static_cast<std::size_t>(expert)],
                                          std::accumulate(counts.begin(), counts.end(), std::int64_t{0})));
  }
  for (std::int64_t e = 0; e < c.cols && c.cols <= static_cast<std::int64_t>(kMostRelevant); ++e)
    finding.relevant.push_back(input.plant(token, e));
}

}  // namespace mxcheck
