// Steps of a layer that promise no bits: outputs in their intervals (any_order), errors no larger than the reference's
// (as_accurate_as:exact).
//
// Errors of aggregate are parts of sum |weight * y|, as those of products are; of A and dH of the magnitudes that
// reference/layer/any_order.h states. Of each case up to 16 outputs of those that differ from the reference's are
// compared, drawn so that their errors are independent: no two of O have a column, or a row of Y, in common, and no two
// of A or dH a row. A' and dS are held to intervals alone: both are made of A in BF16, whose rounding is most of their
// error.
//
// Codes and scales follow from values that are no single number, so that they are held to what some A, or dH, in its
// intervals gives: a block's amax is one of the BF16 numbers that it may be, its scale that number's, and each code
// between those of the ends of its value's interval under the scale that was observed.

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"
#include "properties/core/claims.h"
#include "properties/core/rng.h"
#include "properties/operations/layer/operation.h"
#include "properties/operations/layer/problem.h"
#include "properties/operations/layer/sum_errors.h"
#include "reference/layer/any_order.h"

namespace mxcheck {
namespace {

constexpr std::size_t kMostCompared = 16;  // outputs of a case

AggregatedRows added_rows(const AggregateProblem& p) { return {p.y, layer_case(p.c).y_rows, p.c.cols, p.weights}; }
TokenSlots added_slots(const AggregateProblem& p) { return {p.slots.token_offsets, p.slots.token_rows}; }

std::optional<Finding> adds_its_rows(CheckContext& context, const Case& c) {
  const auto ranges = [](const Problem& of, std::size_t, const std::vector<Bytes>&,
                         std::span<const std::uint8_t> wanted) {
    const auto& p = static_cast<const AggregateProblem&>(of);
    return aggregate_ranges(added_rows(p), added_slots(p), wanted);
  };
  return lies_within(context, c, ranges, "{} is outside of what any order of its sums can give");
}

// Places that are not 0, in an order that the case draws.
std::vector<std::size_t> drawn_places(const Case& c, const std::vector<std::uint8_t>& differs) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < differs.size(); ++i) {
    if (differs[i] != 0) places.push_back(i);
  }
  Draw draw(derived_seed(c.seed, "outputs whose errors are compared"));
  for (std::size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[draw.below(i)]);
  return places;
}

// Outputs among the places that share neither a column nor a row of Y.
std::vector<std::size_t> with_rows_apart(const AggregateProblem& p, const std::vector<std::size_t>& places) {
  std::set<std::int64_t> cols;
  std::set<std::int32_t> rows;
  std::vector<std::size_t> taken;
  for (const std::size_t at : places) {
    if (taken.size() == kMostCompared) break;
    const std::int64_t token = static_cast<std::int64_t>(at) / p.c.cols, col = static_cast<std::int64_t>(at) % p.c.cols;
    const auto first = p.slots.token_rows.begin();
    const auto begin = first + p.slots.token_offsets[static_cast<std::size_t>(token)];
    const auto end = first + p.slots.token_offsets[static_cast<std::size_t>(token) + 1];
    if (cols.contains(col) || std::any_of(begin, end, [&](std::int32_t row) { return rows.contains(row); })) continue;
    cols.insert(col), taken.push_back(at);
    std::copy_if(begin, end, std::inserter(rows, rows.end()), [](std::int32_t row) { return row >= 0; });
  }
  return taken;
}

// Adds the errors of outputs of a call to the tally: of output number n, those that `chosen` takes of the places that
// differ, against what `exact` says of a place.
template <class P, class Chosen, class Exact>
std::optional<Finding> compares_errors_of(CheckContext& context, const Case& c, std::size_t n, const Chosen& chosen,
                                          const Exact& exact) {
  const ProblemAndAnswer posed = problem_and_answer_of(context, c);
  const auto& p = static_cast<const P&>(*posed.problem);
  const CallOutputs got = run_problem(context, p, kPoisons[c.seed & 1]);
  if (!got.usable()) return propagate(context, got);
  auto* const tally = dynamic_cast<ErrorTally*>(context.tally.get());
  const Bytes& own = posed.answer[n].bytes;
  if (own.empty() || tally == nullptr) return std::nullopt;
  const std::vector<std::size_t> places = drawn_places(c, differing(got.outputs[n], own, Format::bf16));
  if (places.empty()) tally->add(c, {}, 0, 0, 0);
  for (const std::size_t at : chosen(p, places)) {
    const auto value = [&](const Bytes& of) { return decode(Format::bf16, word_at(of, Format::bf16, at)); };
    const std::int64_t cols = posed.answer[n].info.cols;
    const auto place = static_cast<std::int64_t>(at);
    tally->add(c, {}, exact(p, place / cols, place % cols), value(got.outputs[n]), value(own));
  }
  return std::nullopt;
}

std::optional<Finding> compares_errors_of_aggregate(CheckContext& context, const Case& c) {
  return compares_errors_of_sums(context, c, [](const Problem& p) { return static_cast<const AggregateProblem&>(p); });
}

}  // namespace

std::optional<Finding> compares_errors_of_sums(CheckContext& context, const Case& c, const AsSums& as_sums) {
  std::optional<AggregateProblem> sums;
  const auto chosen = [&](const Problem& p, const std::vector<std::size_t>& places) {
    sums.emplace(as_sums(p));
    return with_rows_apart(*sums, places);
  };
  return compares_errors_of<Problem>(context, c, 0, chosen, [&](const Problem&, std::int64_t token, std::int64_t col) {
    return exact_aggregate(added_rows(*sums), added_slots(*sums), token, col);
  });
}

namespace {

// SwiGLU and its gradient.

SigmoidKind sigmoid_of(const Variant& v) {
  return claim_of(v.operation) == kAnyOrderOrTanh ? SigmoidKind::of_exp_or_tanh : SigmoidKind::of_exp;
}

// Elements of a problem's tensors and their ranges.
class SwigluElements {
 public:
  explicit SwigluElements(const SwigluProblem& p) : p_(p), n_(p.c.cols), h_(p.values_of_h()) {}

  [[nodiscard]] float gate(std::int64_t row, std::int64_t j) const { return at(row, p_.gate_column(j)); }
  [[nodiscard]] float up(std::int64_t row, std::int64_t j) const { return at(row, p_.up_column(j)); }
  [[nodiscard]] float p(std::int64_t row, std::int64_t j) const { return p_.p[static_cast<std::size_t>(row * n_ + j)]; }
  [[nodiscard]] float weight(std::int64_t row) const { return p_.weights[static_cast<std::size_t>(row)]; }
  // The pair that a column of dH is of, and true if the column is its up value.
  [[nodiscard]] std::pair<std::int64_t, bool> pair_of(std::int64_t col) const {
    const std::int64_t j = layer_of(p_.c.variant).gate_up == MXCHECK_HALVES ? col % n_ : col / 2;
    return {j, col == p_.up_column(j)};
  }

  [[nodiscard]] OutputRange range(SwigluOutput::What what, std::int64_t row, std::int64_t col) const {
    const SigmoidKind kind = sigmoid_of(p_.c.variant);
    if (what == SwigluOutput::What::a) return swiglu_range(gate(row, col), up(row, col), kind);
    if (what == SwigluOutput::What::ds) return range_of_ds(row);
    const auto [j, is_up] = what == SwigluOutput::What::dh ? pair_of(col) : std::pair{col, false};
    const SwigluGradientRanges all = swiglu_gradient_ranges(gate(row, j), up(row, j), p(row, j), weight(row), kind);
    return what == SwigluOutput::What::scaled_a ? all.scaled_a : is_up ? all.du : all.dg;
  }

 private:
  [[nodiscard]] float at(std::int64_t row, std::int64_t col) const {
    return h_[static_cast<std::size_t>(row * 2 * n_ + col)];
  }
  [[nodiscard]] OutputRange range_of_ds(std::int64_t row) const {
    std::vector<float> g, u, of_row;
    for (std::int64_t j = 0; j < n_; ++j)
      g.push_back(gate(row, j)), u.push_back(up(row, j)), of_row.push_back(p(row, j));
    return swiglu_weight_gradient_range(g, u, of_row, sigmoid_of(p_.c.variant));
  }

  const SwigluProblem& p_;
  std::int64_t n_;
  std::vector<float> h_;
};

constexpr OutputRange kAnything{0, 0, false, true};

// The range that holds both; NaN and a number: anything.
OutputRange hull(const OutputRange& a, const OutputRange& b) {
  if (a.unbounded || b.unbounded || a.is_nan != b.is_nan) return kAnything;
  return {std::min(a.low, b.low), std::max(a.high, b.high), a.is_nan, false};
}
OutputRange point(double x) { return std::isnan(x) ? OutputRange{0, 0, true, false} : OutputRange{x, x}; }

// A block of codes: the ranges of its values, and what follows from each amax that they may have.
class BlockRanges {
 public:
  BlockRanges(const Recipe& recipe, Format format, std::vector<OutputRange> values)
      : recipe_(recipe), format_(format), values_(std::move(values)) {
    double least = 0, most = 0;
    for (const OutputRange& x : values_) {
      is_open_ |= x.unbounded, has_nan_ |= x.is_nan;
      if (x.unbounded || x.is_nan) continue;
      least = std::max(least, x.low <= 0 && x.high >= 0 ? 0 : std::min(std::fabs(x.low), std::fabs(x.high)));
      most = std::max({most, std::fabs(x.low), std::fabs(x.high)});
    }
    const auto word = [](double x) { return encode(Format::bf16, x, Rounding::nearest_even, Overflow::non_saturate); };
    constexpr std::uint32_t kMostAmaxes = 64;
    is_open_ |= word(most) - word(least) > kMostAmaxes;
    for (std::uint32_t amax = word(least); !is_open_ && amax <= word(most); ++amax)
      amaxes_.push_back(static_cast<float>(decode(Format::bf16, amax)));
  }

  [[nodiscard]] OutputRange of_scale() const {
    std::optional<OutputRange> all;
    for (const float amax : amaxes_) {
      const OutputRange one = point(stored(scale_of(amax)));
      all = all ? hull(*all, one) : one;
    }
    return all.value_or(kAnything);
  }
  // The range of the codes under this scale; anything where no amax has it: the scale's finding.
  [[nodiscard]] std::vector<OutputRange> of_codes(double scale) const {
    std::vector<std::optional<OutputRange>> all(values_.size());
    for (const float amax : amaxes_) {
      const BlockScale one = scale_of(amax);
      if (stored(one) != scale && !(std::isnan(stored(one)) && std::isnan(scale))) continue;
      for (std::size_t i = 0; i < all.size(); ++i) {
        const auto code = [&](double x) {
          return point(decode(format_, encode_element(recipe_, format_, one, static_cast<float>(x))));
        };
        const double most{amax};
        const OutputRange ends = values_[i].is_nan ? code(std::numeric_limits<double>::quiet_NaN())
                                                   : hull(code(std::clamp(values_[i].low, -most, most)),
                                                          code(std::clamp(values_[i].high, -most, most)));
        all[i] = all[i] ? hull(*all[i], ends) : ends;
      }
    }
    std::vector<OutputRange> ranges;
    for (const auto& one : all) ranges.push_back(one.value_or(kAnything));
    return ranges;
  }

 private:
  [[nodiscard]] BlockScale scale_of(float amax) const { return block_scale(recipe_, format_, {amax, has_nan_}); }
  [[nodiscard]] double stored(const BlockScale& scale) const {
    return recipe_.has_e8m0_scales() ? decode(Format::e8m0, scale.byte) : double{scale.scale};
  }

  const Recipe& recipe_;
  Format format_;
  std::vector<OutputRange> values_;
  std::vector<float> amaxes_;
  bool is_open_ = false, has_nan_ = false;
};

// Codes (at output number `codes`) or scales (the next) of blocks along rows, or of columns along tokens.
std::vector<OutputRange> coded_ranges(const SwigluProblem& p, std::size_t codes, bool of_scales,
                                      const std::vector<Bytes>& observed, std::span<const std::uint8_t> wanted) {
  const SwigluOutput o = swiglu_outputs(p.c.variant)[codes];
  const TensorInfo &info = p.outputs[codes], &scales = p.outputs[codes + 1];
  const Recipe recipe = recipe_named(layer_of(p.c.variant).recipe);
  const std::int64_t block = layer_of(p.c.variant).block;
  const SwigluElements elements(p);
  std::vector<std::int64_t> ends{0, info.cols};  // of what blocks start again at
  if (o.transposed && !p.c.experts.empty()) ends = p.c.experts;
  std::vector<OutputRange> ranges(wanted.size(), kAnything);
  for (std::int64_t line = 0; line < info.rows; ++line) {
    std::int64_t number = line * scales.cols;
    for (std::size_t e = 1; e < ends.size(); ++e) {
      for (std::int64_t begin = ends[e - 1]; begin < ends[e]; begin += block, ++number) {
        const auto size = static_cast<std::size_t>(std::min(ends[e], begin + block) - begin);
        const auto first = static_cast<std::size_t>(of_scales ? number : line * info.cols + begin);
        const auto asked = wanted.subspan(first, of_scales ? 1 : size);
        if (std::find(asked.begin(), asked.end(), 1) == asked.end()) continue;
        std::vector<OutputRange> values;
        for (std::int64_t at = begin; at < begin + static_cast<std::int64_t>(size); ++at)
          values.push_back(elements.range(o.what, o.transposed ? at : line, o.transposed ? line : at));
        const BlockRanges of(recipe, info.format, std::move(values));
        if (of_scales) {
          ranges[first] = of.of_scale();
        } else {
          const double scale =
              decode(scales.format, word_at(observed[codes + 1], scales.format, static_cast<std::size_t>(number)));
          std::ranges::copy(of.of_codes(scale), ranges.begin() + static_cast<std::ptrdiff_t>(first));
        }
      }
    }
  }
  return ranges;
}

std::vector<OutputRange> swiglu_ranges(const Problem& of, std::size_t output, const std::vector<Bytes>& observed,
                                       std::span<const std::uint8_t> wanted) {
  const auto& p = static_cast<const SwigluProblem&>(of);
  const SwigluOutput o = swiglu_outputs(p.c.variant)[output];
  if (o.part == SwigluOutput::Part::codes) return coded_ranges(p, output, false, observed, wanted);
  if (o.part == SwigluOutput::Part::scales) return coded_ranges(p, output - 1, true, observed, wanted);
  const SwigluElements elements(p);
  std::vector<OutputRange> ranges(wanted.size(), kAnything);
  const std::int64_t cols = o.what == SwigluOutput::What::ds ? 1 : p.outputs[output].cols;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (wanted[i] != 0) ranges[i] = elements.range(o.what, at / cols, at % cols);
  }
  return ranges;
}

std::optional<Finding> swiglu_lies_within(CheckContext& context, const Case& c) {
  return lies_within(context, c, swiglu_ranges,
                     "{} is outside of what any right sigmoid and order of operations gives");
}

// One of a row: the weight is that of a row.
std::vector<std::size_t> with_rows_of_their_own(const SwigluProblem& p, const std::vector<std::size_t>& places) {
  const auto cols = static_cast<std::size_t>(is_backward(p.c.variant) ? 2 * p.c.cols : p.c.cols);
  std::set<std::size_t> rows;
  std::vector<std::size_t> taken;
  for (const std::size_t at : places) {
    if (taken.size() < kMostCompared && rows.insert(at / cols).second) taken.push_back(at);
  }
  return taken;
}

std::optional<Finding> compares_errors_of_swiglu(CheckContext& context, const Case& c) {
  const auto exact = [](const SwigluProblem& p, std::int64_t row, std::int64_t col) {
    const SwigluElements of(p);
    if (!is_backward(p.c.variant)) return exact_swiglu(of.gate(row, col), of.up(row, col));
    const auto [j, is_up] = of.pair_of(col);
    const ExactSwigluGradient d = exact_swiglu_gradient(of.gate(row, j), of.up(row, j), of.p(row, j), of.weight(row));
    return is_up ? d.du : d.dg;
  };
  const std::size_t output = is_backward(c.variant) ? 2 : 0;  // dS, A', dH; A
  return compares_errors_of<SwigluProblem>(context, c, output, with_rows_of_their_own, exact);
}

// Many outputs: in BF16 one of some ten thousand shows that it was computed in another order. Tokens have many slots.
// Each variant has seeds of its own.
std::vector<Case> many_elements(std::span<const Variant> variants, Suite suite) {
  const std::size_t each = (suite == Suite::quick ? 1 : suite == Suite::full ? 4 : 16) * 32;
  std::vector<Case> cases;
  for (const Variant& v : variants) {
    for (std::size_t i = 0; i < each; ++i) {
      cases.push_back(step_corner(v, 128, 256, Data::normal, derived_seed(i, to_text(v)) >> 16));
      if (is_aggregate(v))
        layer_case(cases.back()).y_rows = 128 * 16, layer_case(cases.back()).most = i % 2 == 0 ? 8 : 64;
    }
  }
  return cases;
}

}  // namespace

std::vector<Statement> step_claim_statements(const std::vector<Statement>& equality) {
  const auto of = [&](std::string_view name) {
    return *std::find_if(equality.begin(), equality.end(), [&](const Statement& s) { return s.name == name; });
  };
  struct Claimed {
    bool (*is_it)(const Variant&);
    std::string_view equality, interval, interval_sentence, accuracy, accuracy_sentence, output, measure;
    std::optional<Finding> (*lies_within)(CheckContext&, const Case&);
    std::optional<Finding> (*compares_errors)(CheckContext&, const Case&);
  };
  const Claimed all[] = {
      {is_aggregate, "aggregate_equals_the_reference", "aggregate_is_a_sum_of_its_products",
       "where no order of sums is promised, every output lies in the interval that holds the result of every order of "
       "a token's rows",
       "aggregate_is_as_accurate_as_the_reference",
       "where the reference's accuracy is promised, errors against the exact sum are no larger than its", "o",
       "the sum of magnitudes", adds_its_rows, compares_errors_of_aggregate},
      {[](const Variant& v) { return is_swiglu(v) && !is_backward(v); }, "swiglu_equals_the_reference",
       "swiglu_is_within_its_interval",
       "where no bits are promised, A lies in the interval that holds every sigmoid as good as CUDA's intrinsics and "
       "every order of products; codes and scales are those of some such A",
       "swiglu_is_as_accurate_as_the_reference",
       "where the reference's accuracy is promised, errors of A are no larger than its", "a", "the exact value",
       swiglu_lies_within, compares_errors_of_swiglu},
      {is_backward, "swiglu_backward_equals_the_reference", "swiglu_backward_is_within_its_interval",
       "where no bits are promised, dS, A' and dH lie in the intervals that hold every sigmoid as good as CUDA's "
       "intrinsics and every order of operations; codes and scales are those of some such A' and dH",
       "swiglu_backward_is_as_accurate_as_the_reference",
       "where the reference's accuracy is promised, errors of dH are no larger than its", "dh",
       "the magnitudes of what is added", swiglu_lies_within, compares_errors_of_swiglu},
  };
  std::vector<Statement> s;
  for (const Claimed& one : all) {
    Statement interval = of(one.equality);
    interval.name = one.interval, interval.sentence = one.interval_sentence;
    interval.source = "reference/layer/any_order.h";
    interval.applies = [is_it = one.is_it](const Variant& v, std::span<const Variant>) {
      return is_it(v) && !promises_bits(v);
    };
    interval.check = one.lies_within;
    interval.repeats_bits = false, interval.recorded = false;
    s.push_back(interval);
    Statement accuracy = interval;
    accuracy.name = one.accuracy, accuracy.sentence = one.accuracy_sentence;
    accuracy.source = "properties/core/claims.h; numerics/measure/paired_errors.h";
    accuracy.applies = [is_it = one.is_it](const Variant& v, std::span<const Variant>) {
      return is_it(v) && claim_of(v.operation) == kAsAccurateAsExact && !writes_codes(v);
    };
    accuracy.check = one.compares_errors;
    // Elements that are alike wherever they stand: of structured ones (values of A midway between two of BF16) some
    // orders of operations are better than others.
    accuracy.data = {Data::normal, Data::sparse};
    accuracy.corners = {};  // their seeds are those of other variants too
    accuracy.shared_corners = many_elements;
    accuracy.covers_pairs = false;
    accuracy.tally = [output = one.output, measure = one.measure] {
      return std::make_shared<ErrorTally>(std::string(output), std::string(measure));
    };
    s.push_back(accuracy);
  }
  return s;
}

}  // namespace mxcheck
