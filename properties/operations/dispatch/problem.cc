#include "properties/operations/dispatch/problem.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "properties/core/notation.h"
#include "properties/core/rng.h"
#include "properties/operations/dispatch/operation.h"
#include "properties/operations/layer/expand.h"
#include "properties/operations/layer/tensors.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

using P = mxcheck_dispatch_policy;

constexpr std::int64_t kScaleBlock = 128;
constexpr std::int64_t kMostOfTable = 2'000'000;  // elements: each row of the table moves all rows
constexpr std::uint16_t kUnfilled = 0x7FC0;       // y of a row that no slot fills: NaN

// --- routes

// Where an expert lives.
std::int32_t home_of(const Case& c, std::int64_t expert) {
  const DispatchCase& own = dispatch_case(c);
  const std::int64_t ranks = ranks_of(c);
  switch (own.homes) {
    case Homes::blocks: return static_cast<std::int32_t>(expert * ranks / own.experts);
    case Homes::turns: return static_cast<std::int32_t>(expert % ranks);
    case Homes::scattered:
      return static_cast<std::int32_t>(random_word(c.seed ^ 0x403E, static_cast<std::uint64_t>(expert)) %
                                       static_cast<std::uint64_t>(ranks));
    default: return static_cast<std::int32_t>(c.seed % static_cast<std::uint64_t>(ranks));
  }
}

// The experts of a token's slots: all different, -1 for those that were dropped.
void add_slots(const Case& c, std::int64_t token, std::vector<std::int32_t>& to) {
  const DispatchCase& own = dispatch_case(c);
  const std::uint64_t word = random_word(c.seed ^ 0x70CE, static_cast<std::uint64_t>(token));
  // Three tokens in four have as many slots as there may be; others any number, none among them.
  const auto any = static_cast<std::int64_t>((word >> 8) % static_cast<std::uint64_t>(own.k + 1));
  const std::int64_t count = word % 4 != 0 ? own.k : any;
  const auto hot = static_cast<std::int64_t>(mix64(c.seed) % static_cast<std::uint64_t>(own.experts));
  std::vector<std::int64_t> taken;
  for (std::int64_t slot = 0; slot < count; ++slot) {
    const std::uint64_t one = random_word(c.seed ^ 0x5107, static_cast<std::uint64_t>(token << 20 | slot));
    auto expert = static_cast<std::int64_t>((one >> 16) % static_cast<std::uint64_t>(own.experts));
    if (slot == 0 && (word >> 40) % 100 < static_cast<std::uint64_t>(own.hot)) expert = hot;
    while (std::find(taken.begin(), taken.end(), expert) != taken.end()) expert = (expert + 1) % own.experts;
    taken.push_back(expert);
    const bool dropped = one % 100 < static_cast<std::uint64_t>(own.drops);
    to.push_back(dropped ? -1 : static_cast<std::int32_t>(expert));
  }
}

Case case_of_call(const Call& call) {
  const auto policy = read<P>(call.policy);
  Case c;
  c.variant.operation = call.operation;
  if (*policy.policy.format != '\0') {
    const std::optional<Format> format = find_format(policy.policy.format);
    if (!format) throw Error(ErrorKind::usage, "a format of rows that there is not");
    c.variant.dtype = *format;
  }
  if (is_combine(c.variant)) dispatch_of(c.variant).weighted = policy.weighted != 0;
  c.rows = policy.policy.rows, c.cols = policy.policy.cols, c.threads = policy.policy.threads;
  return c;
}

template <class T>
std::vector<T> values_of(const Call& call, std::size_t number) {
  const CallTensor& t = input_number(call, number);
  return values_in<T>({t.data, t.bytes});
}

TensorInfo integers_info(std::string name, int bits, std::int64_t rows, std::int64_t cols) {
  TensorInfo info{std::move(name), Format::fp32, rows, cols, 0, 0, false};
  info.integer_bits = bits, info.is_vector = rows == 1 && bits == 32;
  return info;
}

TensorInfo bytes_info(std::string name, Format format, std::int64_t rows, std::int64_t cols) {
  return {std::move(name), format, rows, cols, 0, 0, false};
}

}  // namespace

DrawnRoutes expand_routes(const Case& c) {
  const DispatchCase& own = dispatch_case(c);
  DrawnRoutes routes;
  routes.rank_tokens = own.ranks.empty() ? std::vector<std::int64_t>{0, c.rows} : own.ranks;
  for (std::int64_t e = 0; e < own.experts; ++e) routes.expert_rank.push_back(home_of(c, e));
  routes.token_offsets = {0};
  for (std::int64_t t = 0; t < c.rows; ++t) {
    add_slots(c, t, routes.slot_experts);
    routes.token_offsets.push_back(std::ssize(routes.slot_experts));
  }
  routes.capacity = own.capacity;
  return routes;
}

RoutedProblem::RoutedProblem(const Case& from)
    : Problem(from), routes(expand_routes(from)), plan(plan_dispatch(routes.view())) {}

RoutedProblem::RoutedProblem(const Call& call) : Problem(case_of_call(call)) {
  if (call.inputs.size() < 5) throw Error(ErrorKind::usage, "routes are missing");
  const std::size_t first = call.inputs.size() - 4;
  routes = {values_of<std::int64_t>(call, first), values_of<std::int32_t>(call, first + 1),
            values_of<std::int64_t>(call, first + 2), values_of<std::int32_t>(call, first + 3),
            read<P>(call.policy).capacity};
  if (std::ssize(routes.token_offsets) != c.rows + 1)
    throw Error(ErrorKind::usage, "token_offsets are one more than there are tokens");
  place_again();
  DispatchCase& own = dispatch_case(c);
  own.ranks = routes.rank_tokens, own.experts = routes.view().experts(), own.capacity = routes.capacity;
  own.routed = plan.rows();
}

Call RoutedProblem::call() const {
  Call call = Problem::call();
  edit<P>(call.policy, [&](P& p) {
    p.ranks = routes.view().ranks(), p.experts = routes.view().experts();
    p.routed = plan.rows(), p.capacity = routes.capacity;
  });
  return call;
}

void RoutedProblem::add_routes(std::vector<ProblemInput>& to) const {
  to.push_back(vector_input("rank_tokens", routes.rank_tokens));
  to.push_back(vector_input("expert_rank", routes.expert_rank));
  to.push_back(vector_input("token_offsets", routes.token_offsets));
  to.push_back(vector_input("slot_experts", routes.slot_experts));
}

std::string RoutedProblem::row_text(std::int64_t row) const {
  const auto found = std::find(plan.slot_rows.begin(), plan.slot_rows.end(), static_cast<std::int32_t>(row));
  if (found == plan.slot_rows.end()) return fmt::format("row       {}: no slot fills it, it holds zero bytes", row);
  return fmt::format("row       {}: of ", row) + slot_text(found - plan.slot_rows.begin());
}

std::string RoutedProblem::slot_text(std::int64_t slot) const {
  const auto ends = std::upper_bound(routes.token_offsets.begin(), routes.token_offsets.end(), slot);
  const std::int64_t token = ends - routes.token_offsets.begin() - 1;
  const auto tokens = std::upper_bound(routes.rank_tokens.begin(), routes.rank_tokens.end(), token);
  const std::int32_t expert = routes.slot_experts[static_cast<std::size_t>(slot)];
  std::string text =
      fmt::format("slot {} of token {}, which is rank {}'s; ", slot, token, tokens - routes.rank_tokens.begin() - 1);
  if (expert < 0) return text + "the router dropped it";
  text += fmt::format("expert {} on rank {}", expert, routes.expert_rank[static_cast<std::size_t>(expert)]);
  const std::int32_t row = plan.slot_rows[static_cast<std::size_t>(slot)];
  return text + (row < 0 ? std::string(", which is full: dropped") : fmt::format(", row {}", row));
}

// --- dispatch

DispatchProblem::DispatchProblem(const Case& from) : RoutedProblem(from) {
  const std::int64_t blocks = ceil_div(c.cols, kScaleBlock);
  const auto byte_at = [&](std::uint64_t salt, std::int64_t i, std::int64_t j) -> std::uint8_t {
    if (c.data == Data::zeros) return 0;
    if (c.data == Data::slots) return static_cast<std::uint8_t>(i * 37 + j * 5 + 1);
    const std::uint64_t word = random_word(c.seed ^ salt, static_cast<std::uint64_t>(i << 31 | j));
    return c.data == Data::sparse && word >> 60 != 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(word);
  };
  const StepElements elements(as_aggregation_case(from));
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.cols; ++j) {
      if (coded()) codes.push_back(byte_at(0xC0DE, i, j));
      if (!coded()) x.push_back(elements.y(i, j));
    }
    for (std::int64_t j = 0; coded() && j < blocks; ++j) scales.push_back(byte_at(0x5CA1, i, j));
  }
  describe_outputs();
}

DispatchProblem::DispatchProblem(const Call& call) : RoutedProblem(call) {
  if (coded()) {
    codes = values_of<std::uint8_t>(call, 0), scales = values_of<std::uint8_t>(call, 1);
  } else {
    x = values_of<std::uint16_t>(call, 0);
  }
  describe_outputs();
}

void DispatchProblem::describe_outputs() {
  if (coded()) {
    outputs = {bytes_info("codes of the rows", c.variant.dtype, plan.rows(), c.cols),
               bytes_info("scales of the rows", Format::e8m0, plan.rows(), ceil_div(c.cols, kScaleBlock))};
  } else {
    outputs = {bytes_info("x of the rows", Format::bf16, plan.rows(), c.cols)};
  }
  outputs.push_back(integers_info("row_token", 32, 1, plan.rows()));
  outputs.push_back(integers_info("slot_rows", 32, 1, std::ssize(plan.slot_rows)));
  outputs.push_back(integers_info("counts", 64, routes.view().ranks(), routes.view().experts()));
}

std::vector<ProblemInput> DispatchProblem::inputs() const {
  std::vector<ProblemInput> all;
  if (coded()) {
    all.push_back(matrix_input(bytes_info("codes", c.variant.dtype, c.rows, c.cols), codes));
    all.push_back(matrix_input(bytes_info("scales", Format::e8m0, c.rows, ceil_div(c.cols, kScaleBlock)), scales));
  } else {
    all.push_back(matrix_input(values_info("x", Format::bf16, c.rows, c.cols), x));
  }
  add_routes(all);
  return all;
}

std::vector<Bytes> DispatchProblem::answer_of(const DispatchPlan& placed) const {
  std::vector<Bytes> all;
  if (coded()) {
    all.push_back(dispatched(placed, to_bytes(codes), c.cols));
    all.push_back(dispatched(placed, to_bytes(scales), ceil_div(c.cols, kScaleBlock)));
  } else {
    all.push_back(dispatched(placed, to_bytes(x), 2 * c.cols));
  }
  all.push_back(to_bytes(placed.row_token));
  all.push_back(to_bytes(placed.slot_rows));
  all.push_back(to_bytes(placed.counts));
  return all;
}

std::vector<ExpectedTensor> DispatchProblem::answer() const {
  std::vector<ExpectedTensor> answer;
  for (Bytes& bytes : answer_of(plan)) answer.push_back({outputs[answer.size()], std::move(bytes)});
  return answer;
}

// Rows that stand elsewhere: experts that live elsewhere, slots in another order, capacities that are counted
// otherwise.
Table DispatchProblem::definitions(std::span<const Bytes>) const {
  if (plan.rows() * c.cols > kMostOfTable) return {};
  const auto memo = std::make_shared<AnswerMemo>();
  const auto with = [&](std::string name, auto change) {
    return definition_of_all(
        std::move(name),
        [this, change] {
          DrawnRoutes other = routes;
          change(other);
          return answer_of(plan_dispatch(other.view()));
        },
        memo);
  };
  const std::int64_t ranks = routes.view().ranks();
  const std::int64_t experts = routes.view().experts();
  return {
      with("rows of all experts in ascending order, wherever they live",
           [](DrawnRoutes& r) { std::fill(r.expert_rank.begin(), r.expert_rank.end(), 0); }),
      with("experts in turns, whatever expert_rank says",
           [=](DrawnRoutes& r) {
             for (std::int64_t e = 0; e < experts; ++e)
               r.expert_rank[static_cast<std::size_t>(e)] = static_cast<std::int32_t>(e % ranks);
           }),
  };
}

void DispatchProblem::explain(std::size_t output, Finding& finding) const {
  const Difference::Element& e = finding.difference->first;
  const std::string& name = outputs[output].name;
  if (name == "slot_rows") {
    finding.element.push_back("slot      " + slot_text(e.col));
  } else if (name == "counts") {
    finding.element.push_back(fmt::format("count     of rank {}'s tokens for expert {} on rank {}", e.row, e.col,
                                          routes.expert_rank[static_cast<std::size_t>(e.col)]));
  } else {
    finding.element.push_back(row_text(name == "row_token" ? e.col : e.row));
  }
  finding.element.push_back("expected  " + expected_text(*finding.difference));
  finding.element.push_back("observed  " + observed_text(*finding.difference));
}

// --- combine

CombineProblem::CombineProblem(const Case& from) : RoutedProblem(from) {
  const StepElements elements(as_aggregation_case(from));
  y.assign(static_cast<std::size_t>(plan.rows() * c.cols), kUnfilled);
  for (std::int64_t token = 0; token < c.rows; ++token) {
    const std::int64_t first = routes.token_offsets[static_cast<std::size_t>(token)];
    for (std::int64_t slot = first; slot < routes.token_offsets[static_cast<std::size_t>(token) + 1]; ++slot) {
      const std::int64_t place = token * 64 + (slot - first);  // a slot's, however many the tokens before have
      if (dispatch_of(std::as_const(c.variant)).weighted) weights.push_back(elements.weight(place));
      const std::int64_t row = plan.slot_rows[static_cast<std::size_t>(slot)];
      for (std::int64_t j = 0; row >= 0 && j < c.cols; ++j)
        y[static_cast<std::size_t>(row * c.cols + j)] = elements.y(place, j);
    }
  }
  describe_outputs();
}

CombineProblem::CombineProblem(const Call& call) : RoutedProblem(call), y(values_of<std::uint16_t>(call, 0)) {
  if (dispatch_of(std::as_const(c.variant)).weighted) weights = values_of<float>(call, 1);
  if (std::ssize(y) != plan.rows() * c.cols) throw Error(ErrorKind::usage, "y has other rows than the routes give");
  describe_outputs();
}

void CombineProblem::describe_outputs() { outputs = {values_info("o", Format::bf16, c.rows, c.cols)}; }

std::vector<ProblemInput> CombineProblem::inputs() const {
  std::vector<ProblemInput> all{matrix_input(values_info("y", Format::bf16, plan.rows(), c.cols), y)};
  if (dispatch_of(c.variant).weighted) all.push_back(vector_input("weights", weights));
  add_routes(all);
  return all;
}

std::vector<ExpectedTensor> CombineProblem::answer() const {
  return {{outputs[0], to_bytes(combine(plan, routes.view(), {y, c.cols, weights}))}};
}

AggregateProblem CombineProblem::as_aggregation() const {
  Case empty = as_aggregation_case(c);
  layer_of(empty.variant).weighted = dispatch_of(c.variant).weighted;
  AggregateProblem sums(empty);
  sums.c.rows = c.rows, sums.c.cols = c.cols;
  layer_case(sums.c).y_rows = plan.rows();
  sums.y = y;
  sums.weights = weights_of_rows(plan, weights);
  sums.slots = {routes.token_offsets, plan.slot_rows};
  sums.outputs = outputs;
  return sums;
}

Table CombineProblem::definitions(std::span<const Bytes> observed) const {
  return as_aggregation().definitions(observed);
}

void CombineProblem::explain(std::size_t output, Finding& finding) const {
  const std::int64_t token = finding.difference->first.row;
  for (std::int64_t slot = routes.token_offsets[static_cast<std::size_t>(token)];
       slot < routes.token_offsets[static_cast<std::size_t>(token) + 1] && finding.element.size() < 12; ++slot)
    finding.element.push_back("route     " + slot_text(slot));
  as_aggregation().explain(output, finding);
}

// Without tokens, rows and columns: a case of the same data and seed.
Case as_aggregation_case(const Case& c) {
  Case like;
  like.variant.operation = "aggregate";
  like.data = c.data, like.seed = c.seed;
  return like;
}

}  // namespace mxcheck
