// What holds of token choice whatever the reference says: the candidate's outputs are held against its inputs and
// against each other.

#include "properties/operations/router/statements.h"

#include <cmath>

#include <fmt/format.h>

namespace mxcheck {
namespace {

// Tokens moved a third of the way round.
std::optional<Finding> permutes(CheckContext& context, const Case& c) {
  const Problem p = make_problem(c);
  const Got before = run_problem(context, p);
  if (!before.usable()) return pass_on(context, before);
  if (c.rows < 2) return nothing_claimed(context);
  const std::int64_t by = 1 + c.rows / 3;
  const auto moved = [&](std::span<const std::byte> from, std::size_t line) {
    std::vector<std::byte> to(from.begin(), from.end());
    for (std::int64_t i = 0; i < c.rows; ++i) {
      const auto source = static_cast<std::size_t>((i + by) % c.rows) * line;
      if (line != 0) std::memcpy(to.data() + static_cast<std::size_t>(i) * line, from.data() + source, line);
    }
    return to;
  };
  Problem other = p;
  const std::size_t width = c.variant.wide == Format::fp32 ? 4 : 2;
  other.input.bytes = moved(p.input.bytes, static_cast<std::size_t>(p.input.view.row_stride) * width);
  other.input.view.data = other.input.bytes.data();
  const Got after = run_problem(context, other);
  if (!after.usable()) return pass_on(context, after);
  for (std::size_t i = 0; i < p.outputs.size(); ++i) {
    const std::vector<std::byte> want = moved(before.outputs[i], static_cast<std::size_t>(c.top_k) * 4);
    if (auto f = differ(p.outputs[i], want, after.outputs[i], p.outputs[i].name + " of tokens that moved are others"))
      return f;
  }
  return std::nullopt;
}

std::optional<Finding> scale_multiplies(CheckContext& context, const Case& c) {
  Problem p = make_problem(c);
  p.c.scale = 1;
  const Got plain = run_problem(context, p);
  if (!plain.usable()) return pass_on(context, plain);
  static constexpr float kScales[] = {2.5F, 0.5F, 1.0F / 3, 3};
  p.c.scale = kScales[c.seed % 4];
  const Got scaled = run_problem(context, p);
  if (!scaled.usable()) return pass_on(context, scaled);
  std::vector<std::byte> want = plain.outputs[1];
  auto weights = values_in<float>(want);
  for (float& weight : weights) weight *= p.c.scale;
  if (!want.empty()) std::memcpy(want.data(), weights.data(), want.size());
  if (auto f = differ(p.outputs[0], plain.outputs[0], scaled.outputs[0], "experts are others with a scale")) return f;
  return differ(p.outputs[1], want, scaled.outputs[1],
                fmt::format("weights with scale {} are not those without, multiplied", p.c.scale));
}

// By logits alone the order can be seen in the input.
std::optional<Finding> first_in_the_order(CheckContext& context, const Case& c) {
  const Problem p = make_problem(c);
  const Got got = run_problem(context, p);
  if (!got.usable()) return pass_on(context, got);
  const auto experts = values_in<std::int32_t>(got.outputs[0]);
  std::vector<float> row(static_cast<std::size_t>(c.cols));
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float x = row[static_cast<std::size_t>(a)];
    const float y = row[static_cast<std::size_t>(b)];
    if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
    return x > y || (!(x < y) && a < b);
  };
  for (std::int64_t t = 0; t < c.rows; ++t) {
    p.input.view.read_row(t, row);
    std::vector<bool> chosen(row.size());
    for (std::int64_t n = 0; n < c.top_k; ++n) {
      const std::int32_t e = experts[static_cast<std::size_t>(t * c.top_k + n)];
      if (e < 0 || e >= c.cols)
        return broken(fmt::format("token {} goes to expert {}, and there are {}", t, e, c.cols));
      if (chosen[static_cast<std::size_t>(e)]) return broken(fmt::format("token {} goes to expert {} twice", t, e));
      chosen[static_cast<std::size_t>(e)] = true;
      const std::int32_t last = n == 0 ? e : experts[static_cast<std::size_t>(t * c.top_k + n - 1)];
      if (n > 0 && !before(last, e))
        return broken(fmt::format("token {}: expert {} ({}) stands before expert {} ({})", t, last,
                                  row[static_cast<std::size_t>(last)], e, row[static_cast<std::size_t>(e)]));
    }
    const std::int32_t last = experts[static_cast<std::size_t>((t + 1) * c.top_k - 1)];
    for (std::int32_t e = 0; e < c.cols; ++e) {
      if (!chosen[static_cast<std::size_t>(e)] && before(e, last))
        return broken(fmt::format("token {}: expert {} ({}) is chosen, and expert {} ({}) is not", t, last,
                                  row[static_cast<std::size_t>(last)], e, row[static_cast<std::size_t>(e)]));
    }
  }
  return std::nullopt;
}

bool is_choice(const Variant& v, std::span<const Variant>) { return v.operation == "route"; }

}  // namespace

Finding broken(std::string summary) {
  Finding finding;
  finding.kind = FindingKind::mismatch;
  finding.summary = std::move(summary);
  return finding;
}

bool has_tiles(const Variant& v) {
  return v.operation == "route_round" && rounds_to_tiles(token_rounding_rule_named(v.rule));
}

Statement route_law(std::string_view name, std::string_view sentence,
                    std::optional<Finding> (*check)(CheckContext&, const Case&)) {
  Statement s;
  s.name = name, s.sentence = sentence, s.source = "docs/router.md";
  s.data = {Data::slots, Data::normal, Data::codes, Data::boundaries, Data::specials, Data::slots};
  s.experts = 0;
  s.check = check;
  return s;
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
    return v.operation == "route" && v.recipe == "topk-softmax" && !v.bias && !v.limited;
  };
  s[1].applies = s[2].applies = is_choice;
  return s;
}

}  // namespace mxcheck
