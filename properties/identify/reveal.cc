#include "properties/identify/reveal.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/text.h"
#include "properties/core/notation.h"
#include "properties/core/rng.h"
#include "properties/identify/blocks.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

// Powers of two: M = 2^(a.big + b.big), u = 2^(a.small + b.small).
struct Powers {
  int big = 0;
  int small = 0;
};
struct Mask {
  Powers a;
  Powers b;
  [[nodiscard]] double unit() const { return std::ldexp(1.0, a.small + b.small); }
  [[nodiscard]] int ratio() const { return a.big + b.big - a.small - b.small; }
};

Powers range(Format format) {
  const FormatSpec& f = spec(format);
  const int big = std::ilogb(decode(format, f.max_code));
  return {std::min(big, 60), std::max(1 - f.bias - f.mantissa_bits, -60)};
}

// M of at most 2^big and u of at least 2^small, in A alone where it has the room.
Mask mask_of(Format a_format, Format b_format, int big, int small) {
  const Powers a = range(a_format);
  const Powers b = range(b_format);
  Mask mask;
  mask.a.big = std::min(a.big, big), mask.b.big = std::min(b.big, big - mask.a.big);
  mask.a.small = std::max(a.small, small), mask.b.small = std::max(b.small, std::min(0, small - mask.a.small));
  return mask;
}

struct Pair {
  int i;
  int j;
};

ProductCall empty_call(const ProductSpace& s, std::int64_t m, std::int64_t n) {
  ProductCall call{
      s.a, s.b, s.output, m, n, s.k, {}, {}, s.scale_k, s.scale_format, {}, {}, {}, s.a_scale_rows, s.b_scale_rows};
  if (s.scale_k != 0) {
    const std::int64_t blocks = ceil_div(s.k, s.scale_k);
    const std::uint32_t one = encode(s.scale_format, 1, Rounding::nearest_even, Overflow::saturate);
    call.a_scales.assign(static_cast<std::size_t>(ceil_div(m, s.a_scale_rows) * blocks), one);
    call.b_scales.assign(static_cast<std::size_t>(ceil_div(n, s.b_scale_rows) * blocks), one);
  }
  if (s.with_c) call.c.assign(static_cast<std::size_t>(m * n), 0);
  return call;
}

std::uint32_t power(Format format, int exponent) {
  return encode(format, std::ldexp(1.0, exponent), Rounding::nearest_even, Overflow::saturate);
}

std::vector<std::uint32_t> row_of(Format format, const Powers& p, std::int64_t k, const Pair& pair, bool signs) {
  std::vector<std::uint32_t> row(static_cast<std::size_t>(k), power(format, p.small));
  row[static_cast<std::size_t>(pair.i)] = power(format, p.big);
  row[static_cast<std::size_t>(pair.j)] = power(format, p.big);
  if (signs) row[static_cast<std::size_t>(pair.j)] |= std::uint32_t{1} << (spec(format).bits - 1);
  return row;
}

void append(std::vector<std::uint32_t>& to, const std::vector<std::uint32_t>& row) {
  to.insert(to.end(), row.begin(), row.end());
}

std::vector<std::uint32_t> answered(const ProductBox& box, const ProductCall& call) {
  std::vector<std::uint32_t> d = box(call);
  if (static_cast<std::int64_t>(d.size()) == call.m * call.n) return d;
  throw Error(ErrorKind::usage, "the box answered " + std::to_string(d.size()) + " words; D is " +
                                    std::to_string(call.m) + " x " + std::to_string(call.n));
}

// The sum that each pair's mask leaves: the diagonal of D, whose shape is that of all other calls, as libraries choose
// their order by it.
std::vector<double> masked(const ProductSpace& s, const ProductBox& box, const Mask& mask,
                           const std::vector<Pair>& pairs) {
  const auto most = static_cast<std::size_t>(std::min(s.m, s.n));
  std::vector<double> left;
  for (std::size_t first = 0; first < pairs.size(); first += most) {
    const std::size_t count = std::min(most, pairs.size() - first);
    ProductCall call = empty_call(s, s.m, s.n);
    for (std::int64_t row = 0; row < std::max(s.m, s.n); ++row) {
      const Pair& pair = pairs[first + std::min(static_cast<std::size_t>(row), count - 1)];
      if (row < s.m) append(call.a, row_of(s.a, mask.a, s.k, pair, true));
      if (row < s.n) append(call.b, row_of(s.b, mask.b, s.k, pair, false));
    }
    const std::vector<std::uint32_t> d = answered(box, call);
    for (std::size_t p = 0; p < count; ++p) left.push_back(decode(s.output, d[p * static_cast<std::size_t>(s.n) + p]));
  }
  return left;
}

std::string pair_text(const Pair& p) { return std::to_string(p.i) + " and " + std::to_string(p.j); }

int& size_at(std::vector<int>& sizes, int n, int i, int j) {
  return sizes[static_cast<std::size_t>(std::min(i, j) * n + std::max(i, j))];
}

// Terms below the node at which each pair meets, to sizes of n x n; why not, where an answer counts nothing.
std::string sizes_of(int n, const std::vector<Pair>& pairs, const std::vector<double>& left, double unit,
                     std::vector<int>& sizes) {
  bool all_left = n > 2 && static_cast<int>(pairs.size()) >= n - 1;  // more than pairs can be neighbours
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    const double count = left[p] / unit;
    if (!(count >= 0 && count <= n - 2 && count == std::floor(count))) {
      return "with masks at " + pair_text(pairs[p]) + " " + std::to_string(count) +
             " units are left, where a sum in some order leaves a whole number from 0 to " + std::to_string(n - 2);
    }
    all_left = all_left && count == n - 2;
    size_at(sizes, n, pairs[p].i, pairs[p].j) = n - static_cast<int>(count);
  }
  if (all_left) return "no mask loses a unit: the sum is exact, or wider than the masks reach";
  return {};
}

ProductCall random_call(const ProductSpace& s, Draw& draw, int spread) {
  ProductCall call = empty_call(s, s.m, s.n);
  const auto fill = [&](Format format, std::int64_t rows, std::vector<std::uint32_t>& words) {
    for (std::int64_t i = 0; i < rows * s.k; ++i) {
      const double x = std::ldexp(static_cast<double>(draw.between(1 - (1 << 24), (1 << 24) - 1)),
                                  -23 + static_cast<int>(draw.between(-spread, spread)));
      words.push_back(encode(format, x, Rounding::nearest_even, Overflow::saturate));
    }
  };
  fill(s.a, s.m, call.a);
  fill(s.b, s.n, call.b);
  return call;
}

std::vector<ProductTerm> terms_of(const ProductCall& call, std::int64_t row, std::int64_t col) {
  std::vector<ProductTerm> terms;
  for (std::int64_t k = 0; k < call.k; ++k) {
    const std::uint32_t a = call.a[static_cast<std::size_t>(row * call.k + k)];
    const std::uint32_t b = call.b[static_cast<std::size_t>(col * call.k + k)];
    terms.push_back(
        {factor(call.a_format, a), factor(call.b_format, b), decode(call.a_format, a), decode(call.b_format, b)});
  }
  return terms;
}

bool same(Format format, std::uint32_t a, std::uint32_t b) {
  return a == b || (std::isnan(decode(format, a)) && std::isnan(decode(format, b)));
}

constexpr std::size_t kLeastSums = 128;  // of random data, in one call or many

void try_arithmetic(const ProductSpace& s, const ProductBox& box, TreeReport& report) {
  Draw draw(derived_seed(0, "identify order"));
  std::vector<std::vector<ProductTerm>> sums;
  std::vector<std::uint32_t> words;
  for (int i = 0; i < 2 || sums.size() < kLeastSums; ++i) {
    const ProductCall call = random_call(s, draw, i % 2 == 0 ? 1 : 5);
    append(words, answered(box, call));
    for (std::int64_t d = 0; d < call.m * call.n; ++d) sums.push_back(terms_of(call, d / call.n, d % call.n));
  }
  report.compared = static_cast<std::int64_t>(words.size());
  for (const NodeArithmetic& a : node_arithmetics(*report.tree)) {
    std::int64_t equal = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) equal += same(s.output, a.sum(sums[i], s.output), words[i]) ? 1 : 0;
    if (equal == report.compared) report.arithmetic.push_back(a.name);
    if (equal > report.closest_equal || report.closest.empty()) report.closest = a.name, report.closest_equal = equal;
  }
}

// One large term, and small ones that FP32 loses one by one: a plain sum in this tree must not have more of them.
bool keeps_more(const ProductSpace& s, const ProductBox& box, const Mask& mask, const SumTree& tree) {
  ProductCall call = empty_call(s, s.m, s.n);
  const int small = std::max(mask.a.small + mask.b.small, mask.a.big + mask.b.big - 25);
  const Mask probe = mask_of(s.a, s.b, mask.a.big + mask.b.big, small);
  call.a.assign(static_cast<std::size_t>(s.m * s.k), power(s.a, probe.a.small));
  call.b.assign(static_cast<std::size_t>(s.n * s.k), power(s.b, probe.b.small));
  call.a[0] = power(s.a, probe.a.big), call.b[0] = power(s.b, probe.b.big);
  const double observed = decode(s.output, answered(box, call)[0]);
  const std::vector<NodeArithmetic> all = node_arithmetics(tree);
  if (all.empty()) return false;
  return observed > decode(s.output, all.front().sum(terms_of(call, 0, 0), s.output));
}

// Masks of one size, and what they have told.
struct Meetings {
  const ProductSpace& s;
  const ProductBox& box;
  const Mask& mask;
  TreeReport& report;
  int n;
  std::vector<int> sizes;  // of terms i < j at i * n + j
  bool overflows = false;

  // False: report.why_not says why there is no tree.
  bool ask(const std::vector<Pair>& pairs) {
    const std::vector<double> left = masked(s, box, mask, pairs);
    report.masks += static_cast<std::int64_t>(left.size());
    overflows = std::ranges::any_of(left, [](double x) { return !std::isfinite(x); });
    report.why_not = overflows ? "masks overflow" : sizes_of(n, pairs, left, mask.unit(), sizes);
    return report.why_not.empty();
  }

  bool ask_every(std::int64_t step) {
    std::vector<Pair> pairs;
    std::int64_t at = 0;
    for (int i = 0; i < n; ++i) {
      for (int j = i + 1; j < n; ++j) {
        if (at++ % step == 0) pairs.push_back({i, j});
      }
    }
    return ask(pairs);
  }

  // Two that meet the first of a group at different nodes meet each other at the higher of these; those that meet it at
  // the same node are groups of their own.
  bool ask_enough() {
    std::vector<std::vector<int>> groups(1);
    for (int i = 0; i < n; ++i) groups[0].push_back(i);
    while (!groups.empty()) {
      std::vector<Pair> pairs;
      for (const std::vector<int>& group : groups) {
        for (std::size_t i = 1; i < group.size(); ++i) pairs.push_back({group[0], group[i]});
      }
      if (!ask(pairs)) return false;
      std::vector<std::vector<int>> next;
      for (const std::vector<int>& group : groups) {
        if (!divide(group, next)) return false;
      }
      groups = std::move(next);
    }
    return true;
  }

  bool divide(const std::vector<int>& group, std::vector<std::vector<int>>& next) {
    std::map<int, std::vector<int>> classes;
    for (std::size_t i = 1; i < group.size(); ++i) classes[size_at(sizes, n, group[0], group[i])].push_back(group[i]);
    std::vector<int> met;
    for (const auto& [size, members] : classes) {
      for (int i : met) {
        for (int j : members) size_at(sizes, n, i, j) = size;
      }
      met.insert(met.end(), members.begin(), members.end());
      if (static_cast<int>(met.size()) >= size) {
        report.why_not = pair_text({group[0], members[0]}) + " meet above " + std::to_string(size) + " terms, but " +
                         std::to_string(met.size() + 1) + " meet " + std::to_string(group[0]) +
                         " there or before: no tree has that, but compensated or wider sums";
        return false;
      }
      if (members.size() > 1) next.push_back(members);
    }
    return true;
  }

  // The pairs between which nothing was asked, so many of them.
  bool check(std::int64_t checked) {
    const std::vector<int> expected = sizes;
    if (!ask_every(std::max<std::int64_t>(1, n * (n - 1) / 2 / std::max<std::int64_t>(1, checked)))) return false;
    const auto differs = std::ranges::mismatch(sizes, expected).in1;
    if (differs == sizes.end()) return true;
    const auto at = static_cast<int>(differs - sizes.begin());
    report.why_not = pair_text({at / n, at % n}) + " meet above " + std::to_string(*differs) +
                     " terms, and by the other pairs above " + std::to_string(expected[static_cast<std::size_t>(at)]);
    return false;
  }

  std::optional<SumTree> tree() {
    for (int i = 0; i < n; ++i) {
      for (int j = i + 1; j < n; ++j) sizes[static_cast<std::size_t>(j * n + i)] = size_at(sizes, n, i, j);
    }
    return tree_of_sizes(n, sizes);
  }
};

}  // namespace

TreeReport reveal_order(const ProductSpace& s, const ProductBox& box, std::optional<std::int64_t> checked) {
  TreeReport report;
  const std::int64_t most = s.output != Format::fp32 ? 256 : checked ? 4096 : 512;
  const auto refused = [&](std::string why) { return report.why_not = std::move(why), report; };
  if (s.k > most) return refused("K is " + std::to_string(s.k) + "; masks count up to " + std::to_string(most));
  if (spec(s.a).encoding == Encoding::fixed_point || spec(s.b).encoding == Encoding::fixed_point) {
    return refused("masks need formats with exponents");
  }
  const auto n = static_cast<int>(s.k);
  const int small = s.output == Format::fp16 ? -18 : -30;
  // The second mask is for sums in FP16, where the first overflows.
  for (const Mask& mask : {mask_of(s.a, s.b, 60, small), mask_of(s.a, s.b, 15, -18)}) {
    if (mask.ratio() < 25 + std::ilogb(n))
      return refused("these formats have no room for masks: M / u is 2^" + std::to_string(mask.ratio()));
    Meetings meetings{s, box, mask, report, n, std::vector<int>(static_cast<std::size_t>(n * n), 1)};
    const bool counted = checked ? meetings.ask_enough() && meetings.check(*checked) : meetings.ask_every(1);
    if (meetings.overflows) continue;
    if (!counted) return report;
    report.tree = meetings.tree();
    if (!report.tree) return refused("what pairs leave over is no tree's: the order depends on the values");
    report.shape = shape_of(*report.tree);
    try_arithmetic(s, box, report);
    report.keeps_more = report.arithmetic.empty() && keeps_more(s, box, mask, *report.tree);
    return report;
  }
  return report;
}

namespace {

Json word(const std::optional<Format>& format, std::uint32_t bits) {
  if (!format) return std::to_string(static_cast<std::int32_t>(bits));
  return fmt::format("0x{:0{}x}", bits, (spec(*format).bits + 3) / 4);
}

Json to_json(const Explained& e) {
  const ProbeDifference& d = e.first;
  Json first{{"probe", d.probe},
             {"part", d.part},
             {"row", d.row},
             {"column", d.col},
             {"expected", word(d.format, d.expected)},
             {"observed", word(d.format, d.observed)},
             {"expected_text", notation(d.format, d.expected)},
             {"observed_text", notation(d.format, d.observed)}};
  return {{"name", e.name}, {"equal", e.equal}, {"first", std::move(first)}, {"probes", e.probes}};
}

}  // namespace

Json to_json(const Match& match) {
  Json declared;
  if (!match.declared.empty()) {
    declared["name"] = match.declared;
    declared["holds"] = match.holds();
    declared["difference"] = match.not_declared ? to_json(*match.not_declared) : Json();
  }
  Json closest = Json::array();
  for (const Explained& e : match.closest) closest.push_back(to_json(e));
  return {{"explained", match.explained()},
          {"explaining", match.explaining},
          {"also", match.notes},
          {"slips", match.slips},
          {"remarks", match.remarks},
          {"declared", std::move(declared)},
          {"closest", std::move(closest)},
          {"compared", match.compared},
          {"probes", match.probes},
          {"tried", match.tried}};
}

Json to_json(const TreeReport& o) {
  return {{"tree", o.tree ? Json(o.tree->text()) : Json()},
          {"why_not", o.why_not},
          {"shape", o.shape ? Json(*o.shape) : Json()},
          {"arithmetic", o.arithmetic},
          {"closest", o.closest},
          {"closest_equal", o.closest_equal},
          {"compared", o.compared},
          {"keeps_more", o.keeps_more},
          {"masks", o.masks}};
}

Json to_json(const Match& match, const std::optional<TreeReport>& order) {
  Json json = to_json(match);
  json["order"] = order ? to_json(*order) : Json();
  return json;
}

}  // namespace mxcheck
