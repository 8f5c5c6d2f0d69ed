// The candidate's bytes are the reference's bytes; and laws that hold whatever the reference says.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "numerics/bytes.h"
#include "numerics/format/codec.h"
#include "properties/core/check.h"
#include "properties/core/claims.h"
#include "properties/core/law.h"
#include "properties/core/rng.h"
#include "properties/operations/dispatch/operation.h"
#include "properties/operations/dispatch/problem.h"
#include "properties/operations/layer/sum_errors.h"
#include "reference/layer/any_order.h"
#include "reference/layer/swiglu.h"

namespace mxcheck {
namespace {

using Sizes = std::vector<std::int64_t>;

DispatchCase shaped(Homes homes, std::int64_t experts, std::int64_t k, int drops = 0, int hot = 0,
                    std::int64_t capacity = 0) {
  DispatchCase own;
  own.homes = homes, own.experts = experts, own.k = k, own.drops = drops, own.hot = hot, own.capacity = capacity;
  return own;
}

// So many tokens, the first slot of each that has one being of the same expert, that it has this number of rows.
Case with_rows_of_one(const Variant& v, std::int64_t number, std::uint64_t seed) {
  const std::int64_t most = 2 * number + 64;  // one token in eight has no slot
  Case c = routed_corner(v, {most / 3, 0, most - most / 3}, 3, shaped(Homes::turns, 5, 2, 0, 100), Data::slots, seed);
  const DrawnRoutes routes = expand_routes(c);
  std::int64_t rows = 0;
  for (c.rows = 0; rows < number && c.rows < most; ++c.rows) {
    const auto at = static_cast<std::size_t>(c.rows);
    const std::int64_t end = routes.token_offsets[at + 1];
    rows += end > routes.token_offsets[at] ? 1 : 0;
  }
  dispatch_case(c).ranks = {0, c.rows / 3, c.rows / 3, c.rows};
  return c;
}

// Corner cases. More than 2^16 tokens and slots, rows of an expert, those of one rank's tokens, and 2^20 elements:
// indices and counts of 16 or 20 bits go wrong. Experts of as many rows as a tile, and of one more.
std::vector<Case> routed_corners(const Variant& v, Suite suite) {
  std::vector<Case> cases;
  const auto add = [&](const Sizes& ranks, std::int64_t cols, DispatchCase own, Data data) {
    cases.push_back(routed_corner(v, ranks, cols, std::move(own), data, cases.size() + 1));
  };
  add({0}, 5, shaped(Homes::blocks, 3, 2), Data::normal);
  add({0, 0}, 5, shaped(Homes::blocks, 3, 2, 0, 0, 2), Data::normal);  // rows that no slot fills, and none else
  add({3, 4}, 0, shaped(Homes::turns, 3, 2), Data::normal);
  add({3, 4}, 7, shaped(Homes::turns, 3, 2, 100), Data::normal);  // every slot was dropped
  add({1}, 1, shaped(Homes::blocks, 1, 1), Data::boundaries);
  for (const Data data : {Data::slots, Data::normal, Data::boundaries, Data::specials, Data::bits, Data::wide}) {
    add({9, 0, 17, 7}, 130, shaped(Homes::scattered, 12, 4, 10), data);
    add({20, 13}, 33, shaped(Homes::turns, 7, 3, 5, 60, 6), data);
    add({0, 33, 0}, 128, shaped(Homes::one, 5, 2, 0, 100), data);
  }
  add({40, 0, 0, 60}, 65, shaped(Homes::blocks, 512, 8), Data::slots);
  add({76'000, 4'001}, 2, shaped(Homes::turns, 9, 2, 0, 100), Data::slots);
  for (const std::int64_t rows : {1, 64, 65, 128, 129, 256, 257})
    cases.push_back(with_rows_of_one(v, rows, cases.size() + 1));
  if (suite == Suite::quick) return cases;
  add({500, 530}, 1024, shaped(Homes::scattered, 64, 8, 3, 20), Data::normal);
  add({33'000, 33'001}, 17, shaped(Homes::scattered, 300, 2, 1, 10, 300), Data::normal);
  return cases;
}

// Where a row of x or y begins among 16 bytes, with every number of elements that are left at its end: by one variant
// after the other.
std::vector<Case> row_starts(std::span<const Variant> variants, Suite) {
  constexpr std::int64_t kVector = 16, kWhole = 32;
  std::vector<Case> cases;
  for (const std::int64_t width : {1, 2}) {
    std::vector<const Variant*> members;
    for (const Variant& v : variants) {
      if ((has_coded_rows(v) ? 1 : 2) == width) members.push_back(&v);
    }
    if (members.empty()) continue;
    for (std::int64_t start = 0; start < kVector; start += width) {
      for (std::int64_t tail = 0; tail < kVector / width; ++tail) {
        const std::size_t n = cases.size();
        cases.push_back(routed_corner(*members[n % members.size()], {3, 4}, kWhole + tail, shaped(Homes::turns, 5, 2),
                                      Data::slots, n));
        Misalignment& places = cases.back().misaligned;
        places.inputs[0] = static_cast<std::uint8_t>(start);
        places.outputs[0] = static_cast<std::uint8_t>((5 * start + 3 * tail) % kVector / width * width);
      }
    }
  }
  return cases;
}

Statement equality_of(std::string_view name, std::string_view operation, std::string_view sentence) {
  Statement s;
  s.name = name, s.sentence = sentence, s.source = "kernels/candidate_dispatch.h";
  s.applies = [operation](const Variant& v, std::span<const Variant>) { return v.operation == operation; };
  s.data = {Data::normal, Data::slots, Data::boundaries, Data::specials, Data::bits, Data::wide, Data::sparse};
  s.experts = 0;
  s.strides = false;
  s.check = equals_the_reference;
  s.corners = routed_corners;
  s.shared_corners = row_starts;
  s.covers_pairs = true;
  return s;
}

// Where no order of sums is promised: o lies in the interval of every order, which is aggregate's.
std::optional<Finding> adds_up_in_any_order(CheckContext& context, const Case& c) {
  const auto ranges = [](const Problem& of, std::size_t, const std::vector<Bytes>&,
                         std::span<const std::uint8_t> wanted) {
    const auto& p = static_cast<const CombineProblem&>(of);
    const std::vector<float> weights = weights_of_rows(p.plan, p.weights);
    return aggregate_ranges({p.y, p.plan.rows(), p.c.cols, weights}, {p.routes.token_offsets, p.plan.slot_rows},
                            wanted);
  };
  return lies_within(context, c, ranges, "{} is outside of what any order of its sums can give");
}

std::optional<Finding> compares_errors_of_combine(CheckContext& context, const Case& c) {
  return compares_errors_of_sums(
      context, c, [](const Problem& p) { return static_cast<const CombineProblem&>(p).as_aggregation(); });
}

// Many outputs, as of aggregate: in BF16 one of some thousands shows the order of its sum. Each variant has seeds of
// its own.
std::vector<Case> many_combined(std::span<const Variant> variants, Suite suite) {
  const std::size_t each = (suite == Suite::quick ? 1 : suite == Suite::full ? 4 : 16) * 32;
  std::vector<Case> cases;
  for (const Variant& v : variants) {
    for (std::size_t i = 0; i < each; ++i) {
      const DispatchCase own = shaped(i % 2 == 0 ? Homes::scattered : Homes::turns, 64, i % 2 == 0 ? 8 : 16);
      cases.push_back(routed_corner(v, {48, 0, 80}, 256, own, Data::normal, derived_seed(i, to_text(v)) >> 16));
    }
  }
  return cases;
}

// --- laws of dispatch: nothing but the call's own tensors is looked at

std::string at(const char* name, std::int64_t i, std::int64_t value) {
  return fmt::format("{}[{}] is {}", name, i, value);
}

// Each slot that has a row is that row's alone, and the row names its token.
std::string broken_pairs(const DispatchProblem& p, std::span<const std::int32_t> slot_rows,
                         std::span<const std::int32_t> row_token) {
  std::vector<std::int64_t> slot_of(row_token.size(), -1);
  for (std::int64_t t = 0; t < p.c.rows; ++t) {
    const std::int64_t end = p.routes.token_offsets[static_cast<std::size_t>(t) + 1];
    for (std::int64_t slot = p.routes.token_offsets[static_cast<std::size_t>(t)]; slot < end; ++slot) {
      const std::int64_t row = slot_rows[static_cast<std::size_t>(slot)];
      const bool was_dropped = p.routes.slot_experts[static_cast<std::size_t>(slot)] < 0;
      if (row < 0 && (was_dropped || p.routes.capacity > 0)) continue;
      if (row < 0 || was_dropped || row >= std::ssize(row_token))
        return at("slot_rows", slot, row) + (was_dropped ? ": the slot was dropped" : ": no row that there is");
      std::int64_t& owner = slot_of[static_cast<std::size_t>(row)];
      if (owner >= 0) return fmt::format("row {} is that of slot {} and of slot {}", row, owner, slot);
      owner = slot;
      if (row_token[static_cast<std::size_t>(row)] != t)
        return at("row_token", row, row_token[static_cast<std::size_t>(row)]) +
               fmt::format(": slot {} of token {} has it", slot, t);
    }
  }
  for (std::size_t row = 0; row < slot_of.size(); ++row) {
    if (slot_of[row] < 0 && (row_token[row] != -1 || p.routes.capacity == 0))
      return at("row_token", static_cast<std::int64_t>(row), row_token[row]) + ": no slot has the row";
  }
  return "";
}

// Every row of an output is that of its token in the input.
std::string broken_rows(const std::string& name, std::span<const std::byte> from, std::span<const std::byte> to,
                        std::span<const std::int32_t> row_token, std::int64_t tokens) {
  const std::size_t line = tokens == 0 ? 0 : from.size() / static_cast<std::size_t>(tokens);
  for (std::size_t row = 0; row < row_token.size() && line != 0; ++row) {
    const std::int32_t token = row_token[row];
    if (token < 0) continue;
    if (std::memcmp(to.data() + row * line, from.data() + static_cast<std::size_t>(token) * line, line) != 0)
      return fmt::format("{}, row {} is not that of token {}, which row_token names", name, row, token);
  }
  return "";
}

void is_a_permutation(const Law& law, const Case& c) {
  const DispatchProblem p(c);
  const Law::Outputs got = law.outputs(p);
  const std::size_t tensors = p.coded() ? 2 : 1;
  const auto row_token = values_in<std::int32_t>(got[tensors]);
  Law::holds(broken_pairs(p, values_in<std::int32_t>(got[tensors + 1]), row_token));
}

void rows_are_of_their_tokens(const Law& law, const Case& c) {
  const DispatchProblem p(c);
  const Law::Outputs got = law.outputs(p);
  const std::size_t tensors = p.coded() ? 2 : 1;
  const auto row_token = values_in<std::int32_t>(got[tensors]);
  for (const std::int32_t token : row_token) {
    if (token < -1 || token >= c.rows) Law::broken(fmt::format("row_token has {}, which is no token", token));
  }
  const std::vector<ProblemInput> in = p.inputs();
  for (std::size_t i = 0; i < tensors; ++i) {
    const CallTensor& from = in[i].tensor;
    Law::holds(broken_rows(p.outputs[i].name, {from.data, from.data + from.bytes}, got[i], row_token, c.rows));
  }
}

// --- laws of both

// Routes over other ranks: the same tokens and experts, which live and come from elsewhere.
DrawnRoutes elsewhere(const DrawnRoutes& routes, std::uint64_t seed) {
  DrawnRoutes other = routes;
  const std::int64_t tokens = routes.rank_tokens.back();
  const std::int64_t ranks = 1 + static_cast<std::int64_t>(mix64(seed) % 7);
  other.rank_tokens = {0};
  for (std::int64_t rank = 1; rank < ranks; ++rank) {
    const auto end = static_cast<std::int64_t>(random_word(seed, static_cast<std::uint64_t>(rank)) %
                                               static_cast<std::uint64_t>(tokens + 1));
    other.rank_tokens.push_back(end);
  }
  std::sort(other.rank_tokens.begin(), other.rank_tokens.end());
  other.rank_tokens.push_back(tokens);
  for (std::size_t e = 0; e < other.expert_rank.size(); ++e)
    other.expert_rank[e] = static_cast<std::int32_t>(random_word(~seed, e) % static_cast<std::uint64_t>(ranks));
  return other;
}

// Rows that arrived, in BF16: codes times their scales.
std::vector<std::uint16_t> arrived_rows(const DispatchProblem& p, const Law::Outputs& sent) {
  if (!p.coded()) return values_in<std::uint16_t>(sent[0]);
  const auto scales = values_in<std::uint8_t>(sent[1]);
  const auto codes = values_in<std::uint8_t>(sent[0]);
  const std::size_t cols = static_cast<std::size_t>(p.c.cols), blocks = (cols + 127) / 128;
  std::vector<std::uint16_t> values;
  values.reserve(codes.size());
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const int scale = scales[i / cols * blocks + i % cols / 128];
    const float value = std::ldexp(static_cast<float>(decode(p.c.variant.dtype, codes[i])), scale - 127);
    values.push_back(layer_bf16(scale == 255 ? std::numeric_limits<float>::quiet_NaN() : value));
  }
  return values;
}

// An expert's rows as it gives them back: each expert changes other bits, so that its rows are told from another's.
std::vector<std::uint16_t> as_experts(const DispatchProblem& p, const Law::Outputs& sent) {
  std::vector<std::uint16_t> rows = arrived_rows(p, sent);
  const auto slot_rows = values_in<std::int32_t>(sent[p.coded() ? 3 : 2]);
  for (std::size_t slot = 0; slot < slot_rows.size(); ++slot) {
    const std::int64_t row = slot_rows[slot];
    if (row < 0 || row >= p.plan.rows()) continue;
    const std::int32_t expert = p.routes.slot_experts[slot];
    const auto bits = static_cast<std::uint16_t>((expert % 2 != 0 ? 0x8000 : 0) + expert / 2 % 128);
    for (std::int64_t j = 0; j < p.c.cols; ++j) rows[static_cast<std::size_t>(row * p.c.cols + j)] ^= bits;
  }
  return rows;
}

// In BF16 or codes: one of the types in which the candidate sends rows.
Variant sent_as(const Law& law, const Case& c) {
  std::vector<Variant> offered;
  for (const Variant& v : law.context().variants) {
    if (is_dispatch(v)) offered.push_back(v);
  }
  return offered.empty() ? Variant{"dispatch", c.variant.dtype, {}} : offered[c.seed % offered.size()];
}

// o of x sent through experts by the candidate's own dispatch and combine.
Bytes there_and_back(const Law& law, const Case& c, const DrawnRoutes& routes) {
  Case there = c;
  there.variant = sent_as(law, c);
  DispatchProblem dispatch(there);
  dispatch.routes = routes;
  dispatch.place_again(), dispatch.describe_outputs();
  CombineProblem combine(c);
  combine.routes = routes;
  combine.place_again();
  combine.y = as_experts(dispatch, law.outputs(dispatch));
  return law.outputs(combine)[0];
}

void no_bit_depends_on_ranks(const Law& law, const Case& c) {
  const CombineProblem p(c);
  const Bytes one = there_and_back(law, c, p.routes);
  const Bytes other = there_and_back(law, c, elsewhere(p.routes, c.seed));
  law.equal(p.outputs[0], one, other, "o is another where tokens and experts are on other ranks");
}

bool has_rows_to_send(const Variant& v, std::span<const Variant> all) {
  return is_combine(v) && promises_bits(v) && std::any_of(all.begin(), all.end(), is_dispatch);
}

// Weights of slots that have no row, and rows that no slot fills, hold anything.
void what_is_dropped_is_not_read(const Law& law, const Case& c) {
  const CombineProblem p(c);
  CombineProblem other = p;
  for (std::size_t slot = 0; slot < other.weights.size(); ++slot) {
    if (p.plan.slot_rows[slot] < 0) other.weights[slot] = std::numeric_limits<float>::quiet_NaN();
  }
  for (std::size_t row = 0; row < p.plan.row_token.size(); ++row) {
    if (p.plan.row_token[row] >= 0) continue;
    const auto first = other.y.begin() + static_cast<std::ptrdiff_t>(row) * c.cols;
    std::fill(first, first + c.cols, std::uint16_t{0x3F80});
  }
  const Law::Outputs one = law.outputs(p);
  law.equal(p.outputs[0], one[0], law.outputs(other)[0], "o depends on slots that were dropped, or on rows of none");
}

// A slot that was dropped may as well be left out.
void dropped_slots_left_out(const Law& law, const Case& c) {
  const CombineProblem p(c);
  CombineProblem less = p;
  less.routes.token_offsets = {0}, less.routes.slot_experts.clear(), less.weights.clear();
  for (std::size_t t = 0; t + 1 < p.routes.token_offsets.size(); ++t) {
    for (std::int64_t slot = p.routes.token_offsets[t]; slot < p.routes.token_offsets[t + 1]; ++slot) {
      const auto number = static_cast<std::size_t>(slot);
      if (p.plan.slot_rows[number] < 0) continue;
      less.routes.slot_experts.push_back(p.routes.slot_experts[number]);
      if (!p.weights.empty()) less.weights.push_back(p.weights[number]);
    }
    less.routes.token_offsets.push_back(std::ssize(less.routes.slot_experts));
  }
  if (less.routes.slot_experts.size() == p.routes.slot_experts.size()) law.says_nothing();
  less.place_again();
  const Law::Outputs one = law.outputs(p);
  law.equal(p.outputs[0], one[0], law.outputs(less)[0], "o is another where slots that were dropped are left out");
}

Statement routed_law(std::string_view name, std::string_view sentence,
                     std::function<bool(const Variant&, std::span<const Variant>)> applies, LawCheck* check) {
  return law_statement(name, sentence, "kernels/candidate_dispatch.h", std::move(applies),
                       {Data::slots, Data::normal, Data::boundaries, Data::bits, Data::wide}, 0, false, check);
}

}  // namespace

std::vector<Statement> routed_equality_statements() {
  std::vector<Statement> s{
      equality_of("dispatch_equals_the_reference", "dispatch",
                  "each row and its scales stand where the routes say, and so do tokens, slots and counts"),
      equality_of("combine_equals_the_reference", "combine",
                  "each token has its rows added up in the order of its slots, to the reference's bits"),
      equality_of("combine_is_a_sum_of_its_products", "combine",
                  "where no order of sums is promised, o lies in the interval that holds the result of every order of "
                  "a token's rows"),
  };
  s[2].source = "reference/layer/any_order.h";
  s[2].applies = [](const Variant& v, std::span<const Variant>) { return is_combine(v) && !promises_bits(v); };
  s[2].check = adds_up_in_any_order;
  s[2].repeats_bits = false, s[2].recorded = false;
  Statement accuracy = s[2];
  accuracy.name = "combine_is_as_accurate_as_the_reference";
  accuracy.sentence = "where the reference's accuracy is promised, errors against the exact sum are no larger than its";
  accuracy.source = "properties/core/claims.h; numerics/measure/paired_errors.h";
  accuracy.applies = [](const Variant& v, std::span<const Variant>) {
    return is_combine(v) && claim_of(v.operation) == kAsAccurateAsExact;
  };
  accuracy.check = compares_errors_of_combine;
  accuracy.data = {Data::normal, Data::sparse};  // alike wherever they stand
  accuracy.corners = {};                         // their seeds are those of other variants too
  accuracy.shared_corners = many_combined;
  accuracy.covers_pairs = false;
  accuracy.tally = [] { return std::make_shared<ErrorTally>("o", "the sum of magnitudes"); };
  s.push_back(accuracy);
  return s;
}

std::vector<Statement> routed_law_statements() {
  const auto of = [](bool (*is)(const Variant&)) {
    return [is](const Variant& v, std::span<const Variant>) { return promises_bits(v) && is(v); };
  };
  return {
      routed_law("dispatch_gives_every_kept_slot_a_row_of_its_own",
                 "rows and kept slots are in pairs, none left out and none twice, and a row's token is its slot's",
                 of(is_dispatch), is_a_permutation),
      routed_law("rows_and_their_scales_are_those_of_their_token",
                 "every byte of a row, and of its scales, is that of the token that row_token names", of(is_dispatch),
                 rows_are_of_their_tokens),
      routed_law("placement_and_ranks_change_no_bit_of_what_comes_back",
                 "o of rows that the library itself sent to experts is the same over other ranks", has_rows_to_send,
                 no_bit_depends_on_ranks),
      routed_law("combine_reads_nothing_of_what_was_dropped",
                 "weights of dropped slots and rows that no slot fills may hold anything", of(is_combine),
                 what_is_dropped_is_not_read),
      routed_law("a_dropped_slot_of_combine_may_be_left_out", "o is the same without the slots that were dropped",
                 of(is_combine), dropped_slots_left_out),
  };
}

}  // namespace mxcheck
