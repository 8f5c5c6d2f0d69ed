#include "cost/load.h"

#include <algorithm>
#include <cmath>

#include "numerics/error.h"
#include "numerics/text.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

// Expectations over rows ~ binomial(tokens, share).
struct Binomial {
  double mean = 0;
  double deviation = 0;
  double tiles = 0;    // of kTileRows
  double steps = 0;    // of kTokenStep
  double nothing = 0;  // the probability of no row
};

double whole(std::int64_t rows, std::int64_t unit) {
  return static_cast<double>(ceil_div(rows, unit)) * static_cast<double>(unit);
}

// Probabilities relative to the mode's, by the ratio of neighbours, within 12 standard deviations: no factorials.
Binomial binomial(std::int64_t tokens, double share) {
  Binomial of;
  const auto n = static_cast<double>(tokens);
  of.mean = n * share;
  of.deviation = std::sqrt(of.mean * (1 - share));
  if (share >= 1) {  // every token has the expert
    of.tiles = whole(tokens, kTileRows), of.steps = whole(tokens, kTokenStep);
    return of;
  }
  if (of.deviation > 4096) {  // the last tile is then as often of any height
    of.tiles = of.mean + 0.5 * (kTileRows - 1);
    of.steps = of.mean + 0.5 * (kTokenStep - 1);
    return of;
  }
  const double reach = 12 * of.deviation + 40;
  const auto mode = std::min(tokens, static_cast<std::int64_t>(std::floor((n + 1) * share)));
  const auto least = static_cast<std::int64_t>(std::max(0.0, std::floor(static_cast<double>(mode) - reach)));
  const auto most = static_cast<std::int64_t>(std::min(n, std::ceil(static_cast<double>(mode) + reach)));
  const double odds = share / (1 - share);
  double total = 0;
  const auto add = [&](std::int64_t rows, double weight) {
    total += weight;
    of.tiles += weight * whole(rows, kTileRows), of.steps += weight * whole(rows, kTokenStep);
    if (rows == 0) of.nothing = weight;
  };
  double weight = 1;
  for (std::int64_t k = mode; k <= most; ++k) {
    add(k, weight);
    weight *= (n - static_cast<double>(k)) / (static_cast<double>(k) + 1) * odds;
  }
  weight = 1;
  for (std::int64_t k = mode; k > least; --k) {
    weight *= static_cast<double>(k) / (n - static_cast<double>(k) + 1) / odds;
    add(k - 1, weight);
  }
  of.tiles /= total, of.steps /= total, of.nothing /= total;
  return of;
}

// The largest of `count` normal numbers is about this many deviations above their mean.
double above_mean(std::int64_t count) { return std::sqrt(2 * std::log(static_cast<double>(count))); }

Load random_load(std::int64_t tokens, std::int64_t experts, std::int64_t top_k, std::int64_t groups) {
  const auto e = static_cast<double>(experts);
  const Binomial of = binomial(tokens, static_cast<double>(top_k) / e);
  Load load;
  load.rows = of.mean * e;
  load.tile_rows = of.tiles * e, load.step_rows = of.steps * e;
  load.used = e * (1 - of.nothing);
  load.busiest = std::min(static_cast<double>(tokens), of.mean + of.deviation * above_mean(experts));
  if (groups > 1) {
    const double of_each = e / static_cast<double>(groups);
    const double share = 1 / static_cast<double>(groups);
    load.imbalance = 1 + above_mean(groups) * of.deviation * std::sqrt(of_each * (1 - share)) / (of.mean * of_each);
  }
  return load;
}

Load load_of_counts(const std::vector<std::int64_t>& counts, std::int64_t groups) {
  Load load;
  double busiest_group = 0;
  const std::size_t of_each = counts.size() / static_cast<std::size_t>(groups);
  for (std::size_t i = 0; i < counts.size(); i += of_each) {
    double rows = 0;
    for (std::size_t j = i; j < i + of_each; ++j) {
      rows += static_cast<double>(counts[j]);
      load.tile_rows += whole(counts[j], kTileRows), load.step_rows += whole(counts[j], kTokenStep);
      load.busiest = std::max(load.busiest, static_cast<double>(counts[j]));
      load.used += counts[j] > 0 ? 1 : 0;
    }
    load.rows += rows;
    busiest_group = std::max(busiest_group, rows);
  }
  load.imbalance = busiest_group / (load.rows / static_cast<double>(groups));
  return load;
}

std::vector<std::int64_t> even_counts(std::int64_t rows, std::int64_t experts) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(experts), rows / experts);
  for (std::int64_t i = 0; i < rows % experts; ++i) ++counts[static_cast<std::size_t>(i)];
  return counts;
}

// An expert takes its weight's share, by i^-exponent, of the rows that the experts before it left, at most one of each
// token. Weights fall, so that the experts after it have room for the rest.
std::vector<std::int64_t> zipf_counts(std::int64_t tokens, std::int64_t experts, std::int64_t rows, double exponent) {
  std::vector<double> weights(static_cast<std::size_t>(experts));
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = std::pow(static_cast<double>(i + 1), -exponent);
  std::vector<double> rest(weights.size() + 1);  // the sum of the weights from i on
  for (std::size_t i = weights.size(); i-- > 0;) rest[i] = rest[i + 1] + weights[i];
  std::vector<std::int64_t> counts(weights.size());
  std::int64_t left = rows;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double share = weights[i] / rest[i] * static_cast<double>(left);
    counts[i] = std::min({left, tokens, static_cast<std::int64_t>(std::llround(share))});
    left -= counts[i];
  }
  return counts;
}

void check_counts(const std::vector<std::int64_t>& counts, std::int64_t tokens, std::int64_t experts) {
  if (static_cast<std::int64_t>(counts.size()) != experts)
    refuse_usage("load: " + std::to_string(counts.size()) + " counts, and " + std::to_string(experts) +
                 " experts: one count an expert is needed");
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0 || counts[i] > tokens)
      refuse_usage("load: expert " + std::to_string(i) + " has " + std::to_string(counts[i]) + " rows: 0 to " +
                   std::to_string(tokens) + ", one of each token, are possible");
    rows = checked_sum(rows, counts[i], "load: rows");
  }
  if (rows == 0) refuse_usage("load: no expert has a row; give one expert a row or more");
}

}  // namespace

Load load_of(const LoadSpec& spec, std::int64_t tokens, std::int64_t experts, std::int64_t top_k, std::int64_t groups) {
  const std::int64_t rows = checked_product(tokens, top_k, "tokens x top_k");
  switch (spec.kind) {
    case LoadKind::random: return random_load(tokens, experts, top_k, groups);
    case LoadKind::balanced: return load_of_counts(even_counts(rows, experts), groups);
    case LoadKind::zipf:
      if (!(spec.exponent >= 0) || spec.exponent > 10)
        refuse_usage("load zipf: an exponent from 0, which is balanced, to 10 is needed");
      return load_of_counts(zipf_counts(tokens, experts, rows, spec.exponent), groups);
    case LoadKind::counts: check_counts(spec.counts, tokens, experts); break;
  }
  return load_of_counts(spec.counts, groups);
}

std::string to_text(const LoadSpec& spec) {
  switch (spec.kind) {
    case LoadKind::random: return "random";
    case LoadKind::balanced: return "balanced";
    case LoadKind::zipf: {
      std::string text = std::to_string(spec.exponent);
      while (text.ends_with('0')) text.pop_back();
      return "zipf:" + (text.ends_with('.') ? text + "0" : text);
    }
    case LoadKind::counts: break;
  }
  return "counts";
}

std::vector<std::int64_t> parse_counts(std::string_view text, const std::string& where) {
  constexpr std::string_view kBetween = " \t\r\n,";
  std::vector<std::int64_t> counts;
  for (std::size_t at = text.find_first_not_of(kBetween); at != std::string_view::npos;
       at = text.find_first_not_of(kBetween, at)) {
    const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const auto count = parse_number<std::int64_t>(word);
    if (!count || *count < 0)
      throw Error(ErrorKind::input, where + ": '" + one_line(word.substr(0, 40)) +
                                        "' is no number of rows: whole numbers from 0 to 2^63 - 1, one an expert");
    if (static_cast<std::int64_t>(counts.size()) == kMostExperts)
      throw Error(ErrorKind::input, where + ": more than " + std::to_string(kMostExperts) + " counts");
    counts.push_back(*count);
    at = end;
  }
  return counts;
}

}  // namespace mxcheck
