// The part of a counterexample that a person reads first: the tensor, whose row it is, and which recipe or mistake
// gives exactly these outputs.

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "properties/core/notation.h"
#include "properties/operations/moe/problem.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostShown = 12;               // slots of a report
constexpr std::int64_t kMostOfMatches = 100'000'000;  // multiplications of a case that is compared with other recipes

std::string weight_text(const LayerRoutes& routes, std::int64_t row) {
  return notations(Format::fp32, std::bit_cast<std::uint32_t>(routes.row_weight[static_cast<std::size_t>(row)]));
}

std::int64_t expert_of(const LayerRoutes& routes, std::int64_t row) {
  return std::upper_bound(routes.offsets.begin(), routes.offsets.end(), row) - routes.offsets.begin() - 1;
}

// Of a routed row.
std::string row_text(const LayerRoutes& routes, std::int64_t row) {
  const std::int64_t expert = expert_of(routes, row);
  const auto at = static_cast<std::size_t>(expert);
  return fmt::format("row {}: row {} of {} of expert {}, token {}, weight {}", row, row - routes.offsets[at],
                     routes.offsets[at + 1] - routes.offsets[at], expert,
                     routes.row_token[static_cast<std::size_t>(row)], weight_text(routes, row));
}

void explain_token(const LayerRoutes& routes, std::int64_t token, std::int64_t col, Finding& finding) {
  const auto at = static_cast<std::size_t>(token);
  const std::int64_t begin = routes.token_offsets[at];
  const std::int64_t end = routes.token_offsets[at + 1];
  finding.element.push_back(fmt::format("token     {}, column {}: {} slots", token, col, end - begin));
  for (std::int64_t slot = begin; slot < end && slot - begin < kMostShown; ++slot) {
    const std::int32_t row = routes.token_rows[static_cast<std::size_t>(slot)];
    finding.element.push_back(
        fmt::format("slot      {}: {}", slot, row < 0 ? std::string("dropped") : row_text(routes, row)));
  }
}

void explain_matrix(const LayerRoutes& routes, const char* rows_are, std::int64_t rows_of_expert, std::int64_t row,
                    std::int64_t col, Finding& finding) {
  const std::int64_t expert = row / rows_of_expert;
  const auto at = static_cast<std::size_t>(expert);
  finding.element.push_back(fmt::format(
      "expert    {}, {} {}, column {}: a sum over its {} rows, {} to {}", expert, rows_are, row % rows_of_expert, col,
      routes.offsets[at + 1] - routes.offsets[at], routes.offsets[at], routes.offsets[at + 1] - 1));
}

// A way to be wrong: another layer, other routes.
struct Mistake {
  const char* name;
  std::function<void(Layer&, LayerRoutes&)> make;
};

std::vector<Mistake> mistakes() {
  return {
      {"gate and up values taken in the other order",
       [](Layer& l, LayerRoutes&) { l.gate_up = l.gate_up == GateUp::halves ? GateUp::interleaved : GateUp::halves; }},
      {"all weights of routes taken for 1",
       [](Layer&, LayerRoutes& r) { std::fill(r.row_weight.begin(), r.row_weight.end(), 1.0F); }},
      {"the weight of each route applied twice",
       [](Layer&, LayerRoutes& r) {
         for (float& w : r.row_weight) w *= w;
       }},
      {"the rows of each token in their order, not in that of its slots",
       [](Layer&, LayerRoutes& r) {
         for (std::size_t t = 0; t + 1 < r.token_offsets.size(); ++t)
           std::sort(r.token_rows.begin() + r.token_offsets[t], r.token_rows.begin() + r.token_offsets[t + 1]);
       }},
      {"the slots of each token from the last to the first",
       [](Layer&, LayerRoutes& r) {
         for (std::size_t t = 0; t + 1 < r.token_offsets.size(); ++t)
           std::reverse(r.token_rows.begin() + r.token_offsets[t], r.token_rows.begin() + r.token_offsets[t + 1]);
       }},
  };
}

// The same outputs, whatever their NaNs. Answers that are those of the reference itself say nothing.
bool gives(const std::vector<ExpectedTensor>& answer, const std::vector<std::vector<std::byte>>& outputs) {
  if (answer.size() != outputs.size()) return false;
  for (std::size_t i = 0; i < answer.size(); ++i) {
    if (compare(answer[i].info, answer[i].bytes, outputs[i], 0)) return false;
  }
  return true;
}

}  // namespace

void MoeProblem::explain(std::size_t output, Finding& finding) const {
  const Difference::Element& e = finding.difference->first;
  const std::string& name = outputs[output].name;
  const auto add = [&](std::string line) { finding.element.push_back(std::move(line)); };
  add(fmt::format("layer     recipe {}, {} tokens, d {}, inner {}, {} experts, {} rows", moe_of(c.variant).recipe,
                  c.rows, c.cols, moe_case(c).inner, moe_experts(c), moe_routed(c)));
  if (name == "o" || name == "dx") {
    explain_token(routes, e.row, e.col, finding);
  } else if (name == "dw1") {
    explain_matrix(routes, "row of W1", c.cols, e.row, e.col, finding);
  } else if (name == "dw2") {
    explain_matrix(routes, "row of W2", moe_case(c).inner, e.row, e.col, finding);
  } else if (name == "ds") {
    add("weight    of " + row_text(routes, e.col));
  } else if (name.front() == 'h') {
    add(fmt::format("kept      column {} of {}", e.col, row_text(routes, e.row)));
  } else {
    add(fmt::format("kept      column {} of token {}", e.col, e.row));
  }
  finding.relevant.push_back({e.row, e.col, 0});
  add("expected  " + expected_text(*finding.difference));
  add("observed  " + observed_text(*finding.difference));
}

std::vector<std::string> moe_matches(const Problem& problem, const std::vector<std::vector<std::byte>>& outputs) {
  const auto& p = dynamic_cast<const MoeProblem&>(problem);
  std::vector<std::string> found;
  if (operation_named(p.c.variant.operation).work(p.c) > kMostOfMatches) return found;
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    Layer other = p.layer();
    if (recipe.name == other.recipe->name) continue;
    other.recipe = &recipe;
    if (gives(p.answer_with(other, p.routes), outputs)) found.push_back("recipe " + recipe.name);
  }
  for (const Mistake& mistake : mistakes()) {
    Layer other = p.layer();
    LayerRoutes routes = p.routes;
    mistake.make(other, routes);
    if (gives(p.answer_with(other, routes), outputs)) found.emplace_back(mistake.name);
  }
  return found;
}

}  // namespace mxcheck
