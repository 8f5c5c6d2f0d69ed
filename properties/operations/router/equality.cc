// Routers: the candidate's bytes are the reference's bytes.

#include <algorithm>

#include "properties/operations/router/problem.h"
#include "properties/operations/router/statements.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostToMatch = 100'000;  // logits: a reference answer for each fault costs time

std::optional<Finding> equals_reference(CheckContext& context, const Case& c) {
  const Posed posed = posed_of(context, c);
  EqualityOptions options;
  if (c.elements() <= kMostToMatch) options.matches = routes_that_match;
  return equals_answer(context, *posed.problem, posed.answer, options);
}

bool is_plain(const Variant& v) { return !route_of(v).bias && !route_of(v).limited; }

// What every variant meets on every run: none and one of everything, ties in all places, every kind of value.
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
  if (rounds_to_tiles(token_rounding_rule_named(route_of(v).rule))) route_case(c).tile = tile;
  if (!rounds_to_tiles(token_rounding_rule_named(route_of(v).rule)) &&
      token_rounding_rule_named(route_of(v).rule) != TokenRoundingRule::none)
    route_case(c).capacity = tile;
  return c;
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
  if (suite != Suite::quick) add(65'537, 256, 8, 128, Data::normal, 1);
  return cases;
}

std::vector<Case> backward_corners(const Variant& v, Suite suite) {
  std::vector<Case> cases = choice_corners(v, suite);
  for (std::size_t i = 0; i < cases.size(); i += 2) route_case(cases[i]).drops = 30;
  route_case(cases[4]).drops = 100;
  return cases;
}

Statement equality(std::string_view name, std::string_view operation, std::string_view sentence) {
  Statement s;
  s.name = name, s.sentence = sentence, s.source = "docs/router.md";
  s.applies = [operation](const Variant& v, std::span<const Variant>) { return v.operation == operation; };
  s.data = {Data::codes, Data::normal, Data::boundaries, Data::slots, Data::specials,
            Data::bits,  Data::wide,   Data::sparse,     Data::real,  Data::zeros};
  s.experts = 0;
  s.check = equals_reference;
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
  if (v.operation == "route_metadata" || has_tiles(v)) route_case(c).tile = 128;
  if (v.operation == "route_backward") route_case(c).drops = 10;
  route_case(c).capacity = v.operation == "route_round" && !has_tiles(v) ? c.rows / 10 : 0;
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
    if (!is_route(v)) return false;
    const bool usual = route_of(v).router == "topk-softmax" || route_of(v).router == "softmax-topk-renorm" ||
                       route_of(v).router == "sigmoid";
    return v.operation == "route_metadata" ||
           (usual && is_plain(v) && !route_of(v).nan_last && v.dtype == Format::bf16 && route_of(v).renormalize);
  };
  s.check = equals_cpu_library;
  s.corners = production;
  return s;
}

}  // namespace

std::vector<Statement> route_equality_statements() {
  std::vector<Statement> s{
      equality("route_equals_the_reference", "route",
               "the experts of every token, in their order, and the bits of their weights are the reference's"),
      equality("route_round_equals_the_reference", "route_round",
               "counts, rows of every expert and of every token, and the bits of weights are the reference's"),
      equality("route_metadata_equals_the_reference", "route_metadata",
               "the rows that slots go to, and the way back, are the reference's"),
      equality("route_backward_equals_the_reference", "route_backward",
               "the gradient of the logits has the reference's bits"),
  };
  s[0].corners = choice_corners;
  s[1].corners = rounding_corners;
  s[2].corners = metadata_corners;
  s[3].corners = backward_corners;
  for (Statement& one : s) one.cases_per_variant = 10, one.covers_pairs = true;

  Statement rows = equality("every_row_of_a_small_alphabet_is_routed_as_the_reference", "route",
                            "every row of 4 experts (6 in the full suite) over -Inf, -1, -0, +0, 1, +Inf and NaN, for "
                            "every k, has the reference's experts and weights");
  rows.data.clear();
  rows.corners = every_row;
  s.push_back(std::move(rows));

  Statement logits =
      equality("every_logit_is_scored_as_the_reference", "route",
               "each of the 65,536 BF16 words (in the exhaustive suite each FP32 word from 2^-28 to 128, "
               "of either sign) has the reference's score, alone or beside a zero");
  logits.data.clear();
  logits.applies = [](const Variant& v, std::span<const Variant>) {
    if (v.operation != "route") return false;
    const bool alone = route_of(v).router == "sigmoid-raw" || route_of(v).router == "sqrtsoftplus-raw";
    const bool softmax = route_of(v).router == "softmax-topk" || route_of(v).router == "topk-softmax";
    return (alone || softmax) && route_of(v).nan_last && is_plain(v);
  };
  logits.corners = every_logit;
  s.push_back(std::move(logits));
  s.push_back(cpu_library());
  return s;
}

}  // namespace mxcheck
