// Laws of token choice that hold whatever the reference says: the candidate's outputs are held against its inputs and
// against each other.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "numerics/bytes.h"
#include "numerics/elementary/elementary.h"
#include "properties/operations/router/operation.h"
#include "properties/operations/router/problem.h"

namespace mxcheck {
namespace {

// So many lines, moved a third of the way round.
std::vector<std::byte> moved_round(std::int64_t rows, std::span<const std::byte> from, std::size_t line) {
  std::vector<std::byte> to(from.begin(), from.end());
  for (std::int64_t i = 0; i < rows && line != 0; ++i) {
    const auto source = static_cast<std::size_t>((i + 1 + rows / 3) % rows) * line;
    std::memcpy(to.data() + static_cast<std::size_t>(i) * line, from.data() + source, line);
  }
  return to;
}

void permutes(const Law& law, const Case& c) {
  const ChoiceProblem p(c);
  const Law::Outputs before = law.outputs(p);
  if (c.rows < 2) law.says_nothing();
  ChoiceProblem other = p;
  other.input.bytes = moved_round(c.rows, p.input.bytes, p.input.row_bytes());
  const Law::Outputs after = law.outputs(other);
  for (std::size_t i = 0; i < p.outputs.size(); ++i) {
    const auto want = moved_round(c.rows, before[i], static_cast<std::size_t>(route_case(c).top_k) * 4);
    law.equal(p.outputs[i], want, after[i], p.outputs[i].name + " of tokens that moved are others");
  }
}

void scale_multiplies(const Law& law, const Case& c) {
  ChoiceProblem p(c);
  route_case(p.c).scale = 1;
  const Law::Outputs plain = law.outputs(p);
  static constexpr float kScales[] = {2.5F, 0.5F, 1.0F / 3, 3};
  route_case(p.c).scale = kScales[c.seed % 4];
  const Law::Outputs scaled = law.outputs(p);
  std::vector<std::byte> want = plain[1];
  auto weights = values_in<float>(want);
  for (float& weight : weights) weight *= route_case(p.c).scale;
  if (!want.empty()) std::memcpy(want.data(), weights.data(), want.size());
  law.equal(p.outputs[0], plain[0], scaled[0], "experts are others with a scale");
  law.equal(p.outputs[1], want, scaled[1],
            fmt::format("weights with scale {} are not those without, multiplied", route_case(p.c).scale));
}

// By logits alone the order can be seen in the input.
void first_in_the_order(const Law& law, const Case& c) {
  const ChoiceProblem p(c);
  const Law::Outputs got = law.outputs(p);
  const auto experts = values_in<std::int32_t>(got[0]);
  std::vector<float> row(static_cast<std::size_t>(c.cols));
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float x = row[static_cast<std::size_t>(a)];
    const float y = row[static_cast<std::size_t>(b)];
    if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
    return x > y || (!(x < y) && a < b);
  };
  for (std::int64_t t = 0; t < c.rows; ++t) {
    p.input.view().read_row(t, row);
    std::vector<bool> chosen(row.size());
    for (std::int64_t n = 0; n < route_case(c).top_k; ++n) {
      const std::int32_t e = experts[static_cast<std::size_t>(t * route_case(c).top_k + n)];
      if (e < 0 || e >= c.cols) Law::broken(fmt::format("token {} goes to expert {}, and there are {}", t, e, c.cols));
      if (chosen[static_cast<std::size_t>(e)]) Law::broken(fmt::format("token {} goes to expert {} twice", t, e));
      chosen[static_cast<std::size_t>(e)] = true;
      const std::int32_t last = n == 0 ? e : experts[static_cast<std::size_t>(t * route_case(c).top_k + n - 1)];
      if (n > 0 && !before(last, e))
        Law::broken(fmt::format("token {}: expert {} ({}) stands before expert {} ({})", t, last,
                                row[static_cast<std::size_t>(last)], e, row[static_cast<std::size_t>(e)]));
    }
    const std::int32_t last = experts[static_cast<std::size_t>((t + 1) * route_case(c).top_k - 1)];
    for (std::int32_t e = 0; e < c.cols; ++e) {
      if (!chosen[static_cast<std::size_t>(e)] && before(e, last))
        Law::broken(fmt::format("token {}: expert {} ({}) is chosen, and expert {} ({}) is not", t, last,
                                row[static_cast<std::size_t>(last)], e, row[static_cast<std::size_t>(e)]));
    }
  }
}

bool is_choice(const Variant& v, std::span<const Variant>) { return v.operation == kRoute.name; }

}  // namespace

bool has_tiles(const Variant& v) {
  return v.operation == kRouteRound.name && rounds_to_tiles(token_rounding_rule_named(route_of(v).rule));
}

Statement route_law(std::string_view name, std::string_view sentence, LawCheck* check) {
  return law_statement(name, sentence, "docs/router.md", {},
                       {Data::slots, Data::normal, Data::codes, Data::boundaries, Data::specials, Data::slots}, 0, true,
                       check);
}

std::vector<Statement> route_law_statements() {
  std::vector<Statement> s{
      route_law("the_first_k_in_the_order_are_chosen",
                "larger logits first, where equal the smaller index, NaN last: no expert that is left out comes before "
                "one that is chosen",
                first_in_the_order),
      route_law("permuting_tokens_permutes_token_choice",
                "experts and weights of a token do not depend on where it stands", permutes),
      route_law("scale_multiplies_every_weight", "weights with a scale are those without, times the scale in FP32",
                scale_multiplies),
  };
  s[0].applies = [](const Variant& v, std::span<const Variant>) {
    return v.operation == kRoute.name && route_of(v).router == "topk-softmax" && !route_of(v).bias &&
           !route_of(v).limited;
  };
  s[1].applies = s[2].applies = is_choice;
  return s;
}

// Laws of rows that hold whatever the reference says: the candidate's outputs are held against each other and against
// the definition of rounding, none of whose code is used here.

namespace {

// The outputs of route_round.
struct Rows {
  explicit Rows(const Law::Outputs& got)
      : chosen(values_in<std::int32_t>(got[0])),
        offsets(values_in<std::int64_t>(got[1])),
        token(values_in<std::int32_t>(got[2])),
        weight(values_in<std::uint32_t>(got[3])),
        token_offsets(values_in<std::int64_t>(got[4])),
        token_rows(values_in<std::int32_t>(got[5])) {}
  [[nodiscard]] std::int64_t count(std::int64_t e) const {
    return offsets[static_cast<std::size_t>(e) + 1] - offsets[static_cast<std::size_t>(e)];
  }
  [[nodiscard]] std::vector<bool> tokens_of(std::int64_t e, std::int64_t tokens) const {
    std::vector<bool> has(static_cast<std::size_t>(tokens));
    for (std::int64_t row = offsets[static_cast<std::size_t>(e)]; row < offsets[static_cast<std::size_t>(e) + 1]; ++row)
      has[static_cast<std::size_t>(token[static_cast<std::size_t>(row)])] = true;
    return has;
  }
  std::vector<std::int32_t> chosen;
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> token;
  std::vector<std::uint32_t> weight;  // bits
  std::vector<std::int64_t> token_offsets;
  std::vector<std::int32_t> token_rows;
};

// 0, never descending, and at most `most` at the end.
std::string offsets_problem(const char* name, std::span<const std::int64_t> offsets, std::int64_t most) {
  if (offsets[0] != 0) return fmt::format("{} start at {}, not at 0", name, offsets[0]);
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1])
      return fmt::format("{} descend at {}: {}, then {}", name, i, offsets[i - 1], offsets[i]);
  }
  return offsets.back() <= most ? ""
                                : fmt::format("{} end at {}, and there is room for {}", name, offsets.back(), most);
}

// Rows by expert make sense: so that what follows may look anything up in them.
std::string rows_problem(const Rows& r, const Case& c) {
  const auto capacity = static_cast<std::int64_t>(r.token.size());
  if (std::string problem = offsets_problem("offsets", r.offsets, capacity); !problem.empty()) return problem;
  for (std::int64_t e = 0; e < c.cols; ++e) {
    for (std::int64_t row = r.offsets[static_cast<std::size_t>(e)]; row < r.offsets[static_cast<std::size_t>(e) + 1];
         ++row) {
      const std::int32_t t = r.token[static_cast<std::size_t>(row)];
      if (t < 0 || t >= c.rows)
        return fmt::format("row {} of expert {} is of token {}, and there are {}", row, e, t, c.rows);
      const bool first = row == r.offsets[static_cast<std::size_t>(e)];
      if (!first && t <= r.token[static_cast<std::size_t>(row) - 1]) {
        return fmt::format("tokens of expert {} do not ascend: row {} is of token {}, the one before of {}", e, row, t,
                           r.token[static_cast<std::size_t>(row) - 1]);
      }
    }
  }
  for (std::int64_t row = r.offsets.back(); row < capacity; ++row) {
    const auto at = static_cast<std::size_t>(row);
    if (r.token[at] != -1 || r.weight[at] != 0)
      return fmt::format("row {}, behind the last, has token {} and weight bits {:#010x}, not -1 and 0", row,
                         r.token[at], r.weight[at]);
  }
  return "";
}

// Scores and choice of all pairs.
struct Choice {
  Choice(const LogitsProblem& p, std::span<const std::int32_t> experts)
      : tokens(p.c.rows), all(p.c.cols), scores(router_scores(p.router(), p.input.view())), chose(scores.size()) {
    for (std::size_t i = 0; i < experts.size(); ++i) {
      const auto token = static_cast<std::int64_t>(i) / route_case(p.c).top_k;
      chose[static_cast<std::size_t>(token * all + experts[i])] = true;
    }
  }
  [[nodiscard]] std::size_t at(std::int64_t token, std::int64_t e) const {
    return static_cast<std::size_t>(token * all + e);
  }
  // The expert prefers a to b.
  [[nodiscard]] bool prefers(std::int64_t e, std::int64_t a, std::int64_t b) const {
    if (chose[at(a, e)] != chose[at(b, e)]) return chose[at(a, e)];
    if (scores[at(a, e)] != scores[at(b, e)]) return scores[at(a, e)] > scores[at(b, e)];
    return a < b;
  }
  [[nodiscard]] std::int64_t count(std::int64_t e) const {
    std::int64_t n = 0;
    for (std::int64_t t = 0; t < tokens; ++t) n += chose[at(t, e)] ? 1 : 0;
    return n;
  }
  std::int64_t tokens, all;
  std::vector<float> scores;
  std::vector<bool> chose;
};

// nr-s, from its definition.
bool up_by_scores(const Choice& choice, std::int64_t e, std::int64_t down, std::int64_t f, std::int64_t up) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(choice.tokens));
  for (std::size_t t = 0; t < order.size(); ++t) order[t] = static_cast<std::int64_t>(t);
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return choice.prefers(e, a, b); });
  float lost = 0;
  float gained = 0;
  for (std::int64_t rank = down; rank < up; ++rank) {
    (rank < f ? lost : gained) += choice.scores[choice.at(order[static_cast<std::size_t>(rank)], e)];
  }
  return gained < lost;
}

// True if the rule rounds f up, as docs/router.md has it; residual is balance-f's, before this expert.
bool goes_up(const Case& c, const Choice& choice, std::int64_t e, std::int64_t f, std::int64_t residual) {
  const std::int64_t lost = f % route_case(c).tile;
  const std::int64_t gained = route_case(c).tile - lost;
  switch (token_rounding_rule_named(route_of(c.variant).rule)) {
    case TokenRoundingRule::up: return true;
    case TokenRoundingRule::down: return false;
    case TokenRoundingRule::nr_f: return gained < lost;
    case TokenRoundingRule::nr_even: return gained < lost || (gained == lost && f / route_case(c).tile % 2 == 1);
    case TokenRoundingRule::balance_f: return std::abs(residual + gained) < std::abs(residual - lost);
    case TokenRoundingRule::sr_f: {
      const auto low = static_cast<std::uint32_t>(route_case(c).step);
      const auto high = static_cast<std::uint32_t>(route_case(c).step >> 32);
      const std::uint32_t word = philox_word(c.seed, static_cast<std::uint32_t>(e), route_case(c).layer, low, high);
      const auto share = static_cast<unsigned __int128>(lost) << 32;
      return static_cast<unsigned __int128>(word) * static_cast<std::uint64_t>(route_case(c).tile) < share;
    }
    default: return up_by_scores(choice, e, f - lost, f, f + gained);
  }
}

void keeps_whole_tiles(const Law& law, const Case& c) {
  const RoundingProblem p(c);
  const Law::Outputs got = law.outputs(p);
  const Rows r(got);
  Law::holds(rows_problem(r, c));
  const Choice choice(p, route(p.router(), p.input.view()).experts);
  std::int64_t residual = 0;
  bool forced = false;
  for (std::int64_t e = 0; e < c.cols; ++e) {
    const std::int64_t f = choice.count(e);
    const std::int64_t kept = r.count(e);
    const std::int64_t down = f - f % route_case(c).tile;
    const std::int64_t up = f == down ? f : down + route_case(c).tile;
    const std::string who = fmt::format("expert {}, which {} tokens chose, tile {}: ", e, f, route_case(c).tile);
    if (r.chosen[static_cast<std::size_t>(e)] != f)
      Law::broken(who + fmt::format("chosen says {}", r.chosen[static_cast<std::size_t>(e)]));
    if (kept % route_case(c).tile != 0) Law::broken(who + fmt::format("it keeps {}, no multiple of the tile", kept));
    if (kept != down && kept != up) Law::broken(who + fmt::format("it keeps {}, neither {} nor {}", kept, down, up));
    const bool up_is_right = f != down && up <= c.rows && goes_up(c, choice, e, f, residual);
    const std::int64_t right = up_is_right ? up : down;
    if (kept != right) {
      Law::broken(who + fmt::format("it keeps {}, and {} takes {}{}", kept, route_of(c.variant).rule, right,
                                    up > c.rows ? " (there are too few tokens to go up)" : ""));
    }
    // The first `kept` in the expert's order: whoever is kept comes before whoever is not.
    const std::vector<bool> has = r.tokens_of(e, c.rows);
    std::int64_t last = -1;   // kept, the least preferred
    std::int64_t first = -1;  // not kept, the most preferred
    for (std::int64_t t = 0; t < c.rows; ++t) {
      std::int64_t& end = has[static_cast<std::size_t>(t)] ? last : first;
      const bool beyond =
          end < 0 || (has[static_cast<std::size_t>(t)] ? choice.prefers(e, end, t) : choice.prefers(e, t, end));
      if (beyond) end = t;
    }
    if (last >= 0 && first >= 0 && choice.prefers(e, first, last)) {
      Law::broken(who + fmt::format("it keeps token {} and not token {}, which comes before ({}, score {} and {})",
                                    last, first,
                                    choice.chose[choice.at(first, e)] ? "it chose the expert" : "neither chose it",
                                    choice.scores[choice.at(last, e)], choice.scores[choice.at(first, e)]));
    }
    residual += kept - f;
    forced = forced || (f != down && up > c.rows);
    if (route_of(c.variant).rule == "balance-f" && !forced && 2 * std::abs(residual) > route_case(c).tile)
      Law::broken(who + fmt::format("{} rows were added so far, more than half a tile", residual));
  }
}

void rows_agree(const Law& law, const Case& c) {
  const RoundingProblem p(c);
  const Law::Outputs got = law.outputs(p);
  const Rows r(got);
  Law::holds(rows_problem(r, c));
  const std::int64_t rows = r.offsets.back();
  Law::holds(offsets_problem("token_offsets", r.token_offsets, rows));
  if (r.token_offsets.back() != rows)
    Law::broken(fmt::format("token_offsets end at {}, and there are {} rows", r.token_offsets.back(), rows));
  for (std::int64_t t = 0; t < c.rows; ++t) {
    const std::int64_t begin = r.token_offsets[static_cast<std::size_t>(t)];
    for (std::int64_t at = begin; at < r.token_offsets[static_cast<std::size_t>(t) + 1]; ++at) {
      const std::int32_t row = r.token_rows[static_cast<std::size_t>(at)];
      if (row < 0 || row >= rows || r.token[static_cast<std::size_t>(row)] != t)
        Law::broken(fmt::format("token_rows has row {} for token {}, which is no row of it", row, t));
      // Rows ascend with experts, so that ascending rows are ascending experts, each once.
      if (at > begin && row <= r.token_rows[static_cast<std::size_t>(at) - 1])
        Law::broken(fmt::format("rows of token {} do not ascend: {} after {}", t, row,
                                r.token_rows[static_cast<std::size_t>(at) - 1]));
    }
  }
  for (std::size_t at = static_cast<std::size_t>(rows); at < r.token_rows.size(); ++at) {
    if (r.token_rows[at] != -1)
      Law::broken(fmt::format("token_rows has {} behind the last row, not -1", r.token_rows[at]));
  }
}

Variant choice_of(const Variant& v) {
  Variant choice = v;
  choice.operation = kRoute.name, route_of(choice).rule.clear(), route_of(choice).renormalize = true;
  return choice;
}

void keeps_choice(const Law& law, const Case& c) {
  Case one = c;
  route_case(one).tile = 1, route_case(one).capacity = 0;
  const RoundingProblem p(one);
  const Law::Outputs got = law.outputs(p);
  const Rows r(got);
  Law::holds(rows_problem(r, one));
  const ChoiceProblem choice(p, choice_of(c.variant));
  const Law::Outputs chosen = law.outputs(choice);
  const auto experts = values_in<std::int32_t>(chosen[0]);
  const auto weights = values_in<std::uint32_t>(chosen[1]);
  std::vector<std::int32_t> slot(static_cast<std::size_t>(c.elements()), -1);
  for (std::size_t i = 0; i < experts.size(); ++i) {
    if (experts[i] < 0 || experts[i] >= c.cols) Law::broken(fmt::format("route gives expert {}", experts[i]));
    slot[i / static_cast<std::size_t>(route_case(c).top_k) * static_cast<std::size_t>(c.cols) +
         static_cast<std::size_t>(experts[i])] = static_cast<std::int32_t>(i);
  }
  if (r.offsets.back() != static_cast<std::int64_t>(experts.size()))
    Law::broken(fmt::format("{} rows, and token choice has {}", r.offsets.back(), experts.size()));
  for (std::int64_t e = 0; e < c.cols; ++e) {
    for (std::int64_t row = r.offsets[static_cast<std::size_t>(e)]; row < r.offsets[static_cast<std::size_t>(e) + 1];
         ++row) {
      const std::int32_t t = r.token[static_cast<std::size_t>(row)];
      const std::int32_t at = slot[static_cast<std::size_t>(t * c.cols + e)];
      if (at < 0) Law::broken(fmt::format("token {} goes to expert {}, which route did not choose", t, e));
      const std::uint32_t own = r.weight[static_cast<std::size_t>(row)];
      const std::uint32_t theirs = weights[static_cast<std::size_t>(at)];
      const bool nan = std::isnan(std::bit_cast<float>(own)) && std::isnan(std::bit_cast<float>(theirs));
      if (route_of(c.variant).rule == "none" && own != theirs && !nan)
        Law::broken(
            fmt::format("token {}, expert {}: weight bits {:#010x}, and route has {:#010x}", t, e, own, theirs));
    }
  }
}

// Row and slot are each other's inverse, rows of an expert ascend, padding is padding.
void is_permutation(const Law& law, const Case& c) {
  const MetadataProblem p(c);
  const Law::Outputs got = law.outputs(p);
  const auto counts = values_in<std::int32_t>(got[0]);
  const auto offsets = values_in<std::int64_t>(got[1]);
  const auto row_slot = values_in<std::int32_t>(got[2]);
  const auto row_token = values_in<std::int32_t>(got[3]);
  const auto row_expert = values_in<std::int32_t>(got[4]);
  const auto slot_row = values_in<std::int32_t>(got[5]);
  const auto capacity = static_cast<std::int64_t>(row_slot.size());
  Law::holds(offsets_problem("offsets", offsets, capacity));
  const auto token_of = [&](std::int32_t slot) -> std::int64_t {
    if (route_case(c).top_k != 0) return slot / route_case(c).top_k;
    return std::upper_bound(p.token_offsets.begin(), p.token_offsets.end(), slot) - p.token_offsets.begin() - 1;
  };
  for (std::int64_t e = 0; e < c.cols; ++e) {
    const auto expert = static_cast<std::size_t>(e);
    if (offsets[expert + 1] % route_case(c).tile != 0)
      Law::broken(fmt::format("expert {} ends at {}, no multiple of {}", e, offsets[expert + 1], route_case(c).tile));
    const std::int64_t room = offsets[expert + 1] - offsets[expert];
    if (counts[expert] < 0 || counts[expert] > room || room - counts[expert] >= route_case(c).tile)
      Law::broken(fmt::format("expert {} has {} routes in {} rows of tiles of {}", e, counts[expert], room,
                              route_case(c).tile));
    for (std::int64_t row = offsets[expert]; row < offsets[expert + 1]; ++row) {
      const auto at = static_cast<std::size_t>(row);
      const bool padding = row >= offsets[expert] + counts[expert];
      if (padding && row_slot[at] == -1 && row_token[at] == -1 && row_expert[at] == -1) continue;
      const std::int32_t slot = row_slot[at];
      if (padding || slot < 0 || slot >= static_cast<std::int64_t>(slot_row.size()))
        Law::broken(fmt::format("row {} of expert {} has slot {}, token {}, expert {}", row, e, slot, row_token[at],
                                row_expert[at]));
      if (p.routes[static_cast<std::size_t>(slot)] != e || row_expert[at] != e || row_token[at] != token_of(slot))
        Law::broken(fmt::format("row {} says expert {}, token {}; its slot {} has expert {}, token {}", row,
                                row_expert[at], row_token[at], slot, p.routes[static_cast<std::size_t>(slot)],
                                token_of(slot)));
      if (slot_row[static_cast<std::size_t>(slot)] != row)
        Law::broken(
            fmt::format("row {} is of slot {}, whose row is {}", row, slot, slot_row[static_cast<std::size_t>(slot)]));
      if (row > offsets[expert] && slot <= row_slot[at - 1])
        Law::broken(fmt::format("slots of expert {} do not ascend: {} after {}", e, slot, row_slot[at - 1]));
    }
  }
  for (std::size_t at = static_cast<std::size_t>(offsets.back()); at < row_slot.size(); ++at) {
    if (row_slot[at] != -1 || row_token[at] != -1 || row_expert[at] != -1)
      Law::broken(fmt::format("row {}, behind the last, is not -1", at));
  }
  for (std::size_t slot = 0; slot < slot_row.size(); ++slot) {
    const std::int32_t row = slot_row[slot];
    const bool dropped = p.routes[slot] < 0;
    if (dropped ? row != -1
                : row < 0 || row >= offsets.back() ||
                      row_slot[static_cast<std::size_t>(row)] != static_cast<std::int32_t>(slot))
      Law::broken(fmt::format("slot {} of expert {} has row {}", slot, p.routes[slot], row));
  }
}

}  // namespace

std::vector<Statement> route_row_law_statements() {
  using All = std::span<const Variant>;
  std::vector<Statement> s{
      route_law("token_rounding_keeps_whole_tiles",
                "every expert keeps the multiple of the tile that its rule takes, and of its tokens the first in its "
                "order: only the last tile differs from token choice",
                keeps_whole_tiles),
      route_law("rows_by_expert_and_by_token_agree",
                "each pair of token and expert has one row; rows of an expert ascend with the token, rows of a token "
                "with the expert, and behind the last is nothing",
                rows_agree),
      route_law("a_tile_of_one_keeps_token_choice",
                "with a tile of 1, or no capacity, every expert keeps the tokens that route gives it; without a rule "
                "their weights too",
                keeps_choice),
      route_law("metadata_is_a_permutation_and_its_inverse",
                "every route that is not dropped has one row and every row one route; slots of an expert ascend, "
                "experts start at multiples of the tile, padding is -1",
                is_permutation),
  };
  s[0].applies = [](const Variant& v, All) { return has_tiles(v); };
  s[0].corners = rounding_corners;
  s[1].applies = [](const Variant& v, All) { return v.operation == kRouteRound.name; };
  s[2].applies = [](const Variant& v, All all) {
    return v.operation == kRouteRound.name && route_of(v).rule != "expert-choice" && offers(all, choice_of(v));
  };
  s[3].applies = [](const Variant& v, All) { return v.operation == kRouteMetadata.name; };
  return s;
}

// Laws of the losses.

namespace {

// The loss, and the gradient of tokens moved a third of the way round.
void permutes_gradients(const Law& law, const Case& c) {
  if (c.rows < 2) law.says_nothing();
  const LossProblem p(c);
  const Law::Outputs before = law.outputs(p);
  LossProblem other = p;
  other.input.bytes = moved_round(c.rows, p.input.bytes, p.input.row_bytes());
  const Law::Outputs after = law.outputs(other);
  law.equal(p.outputs[0], before[0], after[0], "loss of tokens that moved is another");
  const std::size_t line = static_cast<std::size_t>(c.cols) * value_bytes(c.variant.dtype);
  law.equal(p.outputs[1], moved_round(c.rows, before[1], line), after[1], "gradient of tokens that moved is another");
}

// Whole numbers that BF16 holds, and others so far from them; differences of a row's logits stay.
void moves_with_a_constant(const Law& law, const Case& c) {
  Case drawn = c;
  drawn.plants.clear();
  const auto logits_with = [&](LossProblem& p, bool is_moved) {
    p.input = expand_input(drawn, [&](std::int64_t i, std::int64_t j) {
      const std::uint64_t word = random_word(c.seed, static_cast<std::uint64_t>(i * c.cols + j));
      const std::uint64_t of_row = random_word(c.seed ^ 0x5417, static_cast<std::uint64_t>(i));
      const double constant = is_moved ? static_cast<double>(of_row % 201) - 100 : 0;
      return nearest_bits(c.variant.dtype, static_cast<double>(word % 25) - 12 + constant);
    });
  };
  LossProblem p(c);
  logits_with(p, false);
  const Law::Outputs before = law.outputs(p);
  logits_with(p, true);
  law.all_equal(p, before, law.outputs(p), "of logits plus a number for each token is another");
}

// One expert, or equal loads and logits in powers of two: nothing is rounded.
void costs_the_coefficient(const Law& law, const Case& c) {
  constexpr std::uint64_t kMost = 1024;
  Case one = c;
  RouteCase& own = route_case(one);
  one.plants.clear();
  if (c.seed % 3 == 0) {
    one.cols = 1;
  } else {
    one.cols = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(c.cols)));
    one.data = Data::zeros, own.loads = Loads::equal;
  }
  one.rows = static_cast<std::int64_t>(
      std::bit_floor(std::clamp<std::uint64_t>(static_cast<std::uint64_t>(c.rows), 1, kMost)));
  one.stride = 0;
  static constexpr float kCoefficients[] = {1, 0.0078125F, -0.75F, 3};
  own.scale = kCoefficients[c.seed % 4];
  const LossProblem p(one);
  const Law::Outputs got = law.outputs(p);
  law.equal(p.outputs[0], to_bytes(std::vector<float>{own.scale}), got[0],
            "balanced loads do not cost the coefficient");
  std::vector<float> dx(static_cast<std::size_t>(one.elements()));
  MatrixView{one.variant.dtype, got[1].data(), 1, one.elements(), one.elements()}.read_row(0, dx);
  if (std::ranges::any_of(dx, [](float v) { return v != 0; })) Law::broken("balanced loads have a gradient");
}

}  // namespace

std::vector<Statement> route_loss_law_statements() {
  using All = std::span<const Variant>;
  const auto law = [](std::string_view name, std::string_view sentence, bool (*applies)(const Variant&, All),
                      LawCheck* check) {
    return law_statement(name, sentence, "docs/router.md", applies,
                         {Data::normal, Data::codes, Data::boundaries, Data::specials, Data::wide}, 0, true, check);
  };
  const auto of_balance = [](const Variant& v, All) { return v.operation == kBalanceLoss.name; };
  return {
      law(
          "permuting_tokens_permutes_a_loss_gradient_and_not_the_loss",
          "sums over tokens are exact: losses are the same in any order of tokens, and so is each token's gradient",
          [](const Variant& v, All) { return is_loss(v); }, permutes_gradients),
      law("a_constant_added_to_a_tokens_logits_leaves_the_balance_loss",
          "softmax knows differences of logits alone: whole numbers, plus a whole number for each token, have the same "
          "balance loss and gradient",
          of_balance, moves_with_a_constant),
      law("balanced_loads_cost_the_coefficient_and_have_no_gradient",
          "of one expert, and of equal loads and logits in powers of two, the balance loss is the coefficient and its "
          "gradient 0",
          of_balance, costs_the_coefficient),
  };
}

}  // namespace mxcheck
