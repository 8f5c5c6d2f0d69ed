#include "properties/operations/dispatch/operation.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/core/case_text.h"
#include "properties/core/claims.h"
#include "properties/core/invalid_call.h"
#include "properties/core/limits.h"
#include "properties/core/simpler.h"
#include "properties/operations/dispatch/problem.h"

namespace mxcheck {
namespace {

constexpr std::array<std::string_view, 4> kHomes{"blocks", "turns", "scattered", "one"};
constexpr std::array<std::string_view, 2> kWeighted{"0", "1"};
constexpr std::int64_t kRanksLimit = 1024;
constexpr std::int64_t kExpertsLimit = 4096;
constexpr std::int64_t kSlotsLimit = 64;  // of a token: problem.h's places of slots
constexpr std::int64_t kMostRows = std::int64_t{1} << 30;

std::string ranks_text(const Case& c) {
  std::string text;
  for (const std::int64_t end : dispatch_case(c).ranks) text += (text.empty() ? "" : ",") + std::to_string(end);
  return text;
}

std::vector<std::int64_t> ranks_field(std::string_view field, std::string_view value) {
  std::vector<std::int64_t> ranks;
  for (const std::string_view part : split(value, ',')) ranks.push_back(number_field<std::int64_t>(field, part));
  return ranks;
}

class RoutedOperation : public Operation {
 public:
  explicit RoutedOperation(std::string_view name) : name_(name) {}

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::vector<std::string_view> claims() const override {
    if (name_ != "combine") return {};
    return {kAnyOrder, kAsAccurateAsExact};
  }
  [[nodiscard]] std::vector<Variant> askable(const std::string& operation) const override;
  [[nodiscard]] Policy policy(const Case& c) const override;
  [[nodiscard]] std::string variant_text(const Variant& v) const override {
    std::string text = fmt::format("op={} x={}", v.operation, spec(v.dtype).name);
    if (is_combine(v)) text += fmt::format(" weighted={:d}", dispatch_of(v).weighted);
    return text;
  }
  [[nodiscard]] std::string shape_text(const Case& c) const override;
  bool set_field(Case& c, std::string_view field, std::string_view value) const override;
  void check(const Case& c) const override { check_routed(c); }

  [[nodiscard]] std::optional<std::size_t> fixed_weight() const override { return 20; }
  [[nodiscard]] std::unique_ptr<Domain> domain(const DomainRequest& request) const override {
    return routed_domain(request);
  }
  [[nodiscard]] std::vector<Case> simpler(const Case& c, const Finding& finding) const override {
    return simpler_routed(c, finding);
  }
  void fit(Case& c) const override { fit_routed(c); }
  void halve_rows(Case& c) const override {
    c.rows /= 2;
    fit_routed(c);
  }
  [[nodiscard]] std::int64_t work(const Case& c) const override { return routed_work(c); }

  // dispatch moves bytes: a NaN keeps its payload.
  [[nodiscard]] bool any_nan_is_equal(std::string_view operation) const override {
    return is_operation(operation, "combine");
  }
  [[nodiscard]] bool is_option(const Case& c) const override { return dispatch_case(c).capacity != 0; }
  [[nodiscard]] Case without_options(Case c) const override {
    dispatch_case(c).capacity = 0;
    return c;
  }
  [[nodiscard]] std::vector<InvalidCall> invalid_calls() const override { return invalid_routed(); }
  [[nodiscard]] bool has_invalid_calls(const Case& c) const override {
    return Operation::has_invalid_calls(c) && ranks_of(c) >= 2 && dispatch_case(c).experts >= 2 &&
           expand_routes(c).slot_experts.size() >= 2;
  }
  [[nodiscard]] bool has_offsets_of_experts() const override { return false; }  // they are of ranks and tokens
  [[nodiscard]] std::vector<Case> large_cases(const Variant& v, Suite suite) const override;

 private:
  std::string_view name_;
};

std::vector<Variant> RoutedOperation::askable(const std::string& operation) const {
  std::vector<Variant> all;
  Variant v{operation};
  if (is_combine(v)) {
    for (const bool weighted : {false, true}) {
      dispatch_of(v).weighted = weighted;
      all.push_back(v);
    }
    return all;
  }
  for (const Format format : {Format::bf16, Format::e4m3, Format::e5m2}) {
    v.dtype = format;
    all.push_back(v);
  }
  return all;
}

Policy RoutedOperation::policy(const Case& c) const {
  mxcheck_dispatch_policy p{};
  p.policy.format = p.policy.recipe = "";
  if (has_coded_rows(c.variant)) {
    p.policy.format = spec(c.variant.dtype).name.data();
    p.policy.block_rows = 1, p.policy.block_cols = 128;
  }
  p.policy.rows = c.rows, p.policy.cols = c.cols, p.policy.threads = c.threads;
  p.policy.layout = MXCHECK_COMPACT;
  const DispatchCase& own = dispatch_case(c);
  p.ranks = ranks_of(c), p.experts = own.experts, p.capacity = own.capacity;
  p.routed = own.routed ? *own.routed : plan_dispatch(expand_routes(c).view()).rows();
  p.weighted = is_combine(c.variant) && dispatch_of(c.variant).weighted ? 1 : 0;
  return pack(p);
}

std::string RoutedOperation::shape_text(const Case& c) const {
  const DispatchCase& own = dispatch_case(c);
  std::string text;
  if (!own.ranks.empty()) text += " ranks=" + ranks_text(c);
  text += fmt::format(" homes={} num={} k={}", kHomes[static_cast<std::size_t>(own.homes)], own.experts, own.k);
  if (own.drops != 0) text += fmt::format(" drops={}", own.drops);
  if (own.hot != 0) text += fmt::format(" hot={}", own.hot);
  if (own.capacity != 0) text += fmt::format(" capacity={}", own.capacity);
  return text;
}

bool RoutedOperation::set_field(Case& c, std::string_view field, std::string_view value) const {
  const FieldText f{field, value};
  if (field == "weighted" && is_combine(c.variant))
    return f.word("weighted", dispatch_of(c.variant).weighted, kWeighted);
  DispatchCase& own = dispatch_case(c);
  return f.read("ranks", [&] { own.ranks = ranks_field(field, value); }) || f.word("homes", own.homes, kHomes) ||
         f.number("num", own.experts) || f.number("k", own.k) || f.number("drops", own.drops) ||
         f.number("hot", own.hot) || f.number("capacity", own.capacity);
}

std::vector<Case> RoutedOperation::large_cases(const Variant& v, Suite) const {
  DispatchCase own;
  own.experts = 24, own.k = 4, own.drops = 5, own.homes = Homes::scattered;
  return {routed_corner(v, {257, 0, 129, 133}, 301, own, Data::normal, 5)};
}

void require(bool holds, const char* what) {
  if (!holds) throw Error(ErrorKind::usage, std::string("a case of dispatch or combine: ") + what);
}

}  // namespace

Case routed_corner(const Variant& v, const std::vector<std::int64_t>& ranks, std::int64_t cols, DispatchCase own,
                   Data data, std::uint64_t seed) {
  Case c;
  c.variant = v;
  own.ranks.assign(ranks.size() + 1, 0);
  std::partial_sum(ranks.begin(), ranks.end(), own.ranks.begin() + 1);
  c.rows = own.ranks.back(), c.cols = cols, c.data = data, c.seed = seed;
  dispatch_case(c) = std::move(own);
  return c;
}

void check_routed(const Case& c) {
  const DispatchCase& own = dispatch_case(c);
  require(c.variant.dtype == Format::bf16 ||
              (is_dispatch(c.variant) && (c.variant.dtype == Format::e4m3 || c.variant.dtype == Format::e5m2)),
          "x is bf16, that of dispatch e4m3 or e5m2 too");
  require(c.stride == 0 && c.gather == 0 && c.plants.empty() && c.experts.empty(),
          "there are neither strides nor gathered rows nor plants, and num says how many experts there are");
  require(own.experts >= 1 && own.experts <= kExpertsLimit, "num is 1 to 4096");
  require(ranks_of(c) >= 1 && ranks_of(c) <= kRanksLimit, "ranks are the offsets of the tokens of 1 to 1024 ranks");
  require(own.ranks.size() != 1, "ranks are the offsets of the tokens of 1 to 1024 ranks");
  require(own.ranks.empty() || (own.ranks.front() == 0 && own.ranks.back() == c.rows &&
                                std::is_sorted(own.ranks.begin(), own.ranks.end())),
          "ranks are ascending offsets from 0 to rows");
  require(own.k >= 0 && own.k <= std::min(own.experts, kSlotsLimit), "k is 0 to num, and at most 64");
  require(c.rows >= 0 && c.rows * std::max<std::int64_t>(1, own.k) <= kMostRows, "slots are at most 2^30");
  require(own.drops >= 0 && own.drops <= 100 && own.hot >= 0 && own.hot <= 100, "drops and hot are percentages");
  require(own.capacity >= 0 && own.capacity <= kMostRows / own.experts, "capacity times num is at most 2^30");
}

void fit_routed(Case& c) {
  DispatchCase& own = dispatch_case(c);
  for (std::int64_t& end : own.ranks) end = std::min(end, c.rows);
  if (!own.ranks.empty()) own.ranks.back() = c.rows;
  own.k = std::min(own.k, own.experts);
}

std::int64_t routed_work(const Case& c) {
  const DispatchCase& own = dispatch_case(c);
  const std::int64_t rows = own.capacity > 0 ? own.capacity * own.experts : c.rows * own.k;
  return (c.rows + rows) * std::max<std::int64_t>(1, c.cols) + ranks_of(c) * own.experts;
}

std::vector<Case> simpler_routed(const Case& c, const Finding&) {
  SimplerCases simpler(c, fit_routed);
  const DispatchCase& own = dispatch_case(c);
  const auto with = [&](auto change) { simpler.with([&](Case& n) { change(dispatch_case(n)); }); };
  with([](DispatchCase& n) { n.ranks.clear(); });
  if (own.ranks.size() > 3) {
    with([](DispatchCase& n) { n.ranks.erase(n.ranks.begin() + 1, n.ranks.end() - 2); });
    with([](DispatchCase& n) { n.ranks.erase(n.ranks.begin() + 1); });
  }
  with([](DispatchCase& n) { n.capacity = 0; });
  with([](DispatchCase& n) { n.drops = 0; });
  with([](DispatchCase& n) { n.hot = 0; });
  simpler.plainer_call();
  simpler.fewer_rows();
  simpler.fewer_cols();
  for (const std::int64_t experts : smaller_extents(own.experts)) with([&](DispatchCase& n) { n.experts = experts; });
  for (const std::int64_t k : smaller_extents(own.k)) with([&](DispatchCase& n) { n.k = k; });
  for (const std::int64_t capacity : smaller_extents(own.capacity))
    with([&](DispatchCase& n) { n.capacity = capacity; });
  with([](DispatchCase& n) { n.homes = Homes::blocks; });
  simpler.plainer_data();
  simpler.first_seed();
  return simpler.take();
}

OperationModule dispatch_module() {
  static const OperationOf<DispatchProblem, RoutedOperation> kDispatch("dispatch");
  static const OperationOf<CombineProblem, RoutedOperation> kCombine("combine");
  OperationModule module{{&kDispatch, &kCombine}, routed_equality_statements()};
  for (Statement& s : routed_law_statements()) module.statements.push_back(std::move(s));
  return module;
}

// Calls that must be refused, beside those of every operation.

namespace {

using Own = mxcheck_dispatch_policy;

// Routes are the last four inputs.
CallTensor& routes_of(Call& call, std::size_t number) { return call.inputs[call.inputs.size() - 4 + number]; }

InvalidCall one_route(const char* how, std::size_t number, std::int64_t (*value)(const Own&)) {
  return {how, [=](Call& c) {
            return change_one(c, routes_of(c, number), static_cast<std::int32_t>(value(read<Own>(c.policy))));
          }};
}

// Offsets of the tokens of ranks, or of the slots of tokens.
std::vector<InvalidCall> invalid_ends() {
  const auto end_of = [](std::size_t number, Call& c) {
    return number == 0 ? read<Own>(c.policy).policy.rows : routes_of(c, 3).shape[0];
  };
  const auto set = [=](std::size_t number, bool last, std::int64_t by) {
    return [=](Call& c) {
      CallTensor& t = routes_of(c, number);
      const std::size_t at = last ? static_cast<std::size_t>(t.shape[0]) - 1 : 0;
      return change_value<std::int64_t>(c, t, at, (last ? end_of(number, c) : 0) + by);
    };
  };
  const auto descend = [=](std::size_t number) {
    return [=](Call& c) {
      CallTensor& t = routes_of(c, number);
      return t.shape[0] > 2 && change_value<std::int64_t>(c, t, 1, end_of(number, c) + 1);
    };
  };
  return {
      {"the tokens of ranks descend", descend(0)},
      {"the tokens of ranks do not start at 0", set(0, false, 1)},
      {"the first token of ranks is negative", set(0, false, -1)},
      {"the tokens of ranks end after the last token", set(0, true, 1)},
      {"the tokens of ranks end before the last token", set(0, true, -1)},
      {"token_offsets descend", descend(2)},
      {"token_offsets do not start at 0", set(2, false, 1)},
      {"token_offsets are negative", set(2, false, -1)},
      {"token_offsets end after the last slot", set(2, true, 1)},
      {"token_offsets end before the last slot", set(2, true, -1)},
  };
}

std::vector<InvalidCall> invalid_routed_policies() {
  return {
      invalid_policy<Own>("weighted is 2", [](Own& p) { return p.weighted = 2, true; }),
      invalid_policy<Own>("weighted is negative", [](Own& p) { return p.weighted = -1, true; }),
      {"weights are promised and missing",
       [](Call& c) {
         const bool missing = is_operation(c.operation, "combine") && read<Own>(c.policy).weighted == 0;
         if (missing) edit<Own>(c.policy, [](Own& p) { p.weighted = 1; });
         return missing;
       }},
      invalid_policy<Own>("weights are there that were not promised",
                          [](Own& p) { return p.weighted == 1 && (p.weighted = 0, true); }),
      {"dispatch is weighted",
       [](Call& c) {
         if (c.operation == "dispatch") edit<Own>(c.policy, [](Own& p) { p.weighted = 1; });
         return c.operation == "dispatch";
       }},
      invalid_policy<Own>("rows in BF16 have a format",
                          [](Own& p) { return *p.policy.format == '\0' && (p.policy.format = "e4m3", true); }),
      invalid_policy<Own>("codes of rows have no format",
                          [](Own& p) { return *p.policy.format != '\0' && (p.policy.format = "", true); }),
      invalid_policy<Own>("rows that are moved have a recipe", [](Own& p) { return p.policy.recipe = "rceil", true; }),
      invalid_policy<Own>("rows that are moved have blocks of 32 columns",
                          [](Own& p) { return p.policy.block_rows = 1, p.policy.block_cols = 32, true; }),
      invalid_policy<Own>("rows that are moved have scales in tiles",
                          [](Own& p) { return p.policy.layout = MXCHECK_TCGEN05, true; }),
      invalid_policy<Own>("there are no ranks", [](Own& p) { return p.ranks = 0, true; }),
      invalid_policy<Own>("there is a rank more than tokens say", [](Own& p) { return p.ranks += 1, true; }),
      invalid_policy<Own>("the number of ranks is 2^63 - 1", [](Own& p) { return p.ranks = INT64_MAX, true; }),
      wrapping_policy<Own>("the number of ranks is 2^32 more",
                           [](Own& p) { return p.ranks += std::int64_t{1} << 32, true; }),
      invalid_policy<Own>("there is an expert more than have a rank", [](Own& p) { return p.experts += 1, true; }),
      invalid_policy<Own>("the number of experts is negative", [](Own& p) { return p.experts = -1, true; }),
      invalid_policy<Own>("the number of experts is 2^63 - 1", [](Own& p) { return p.experts = INT64_MAX, true; }),
      invalid_policy<Own>("routed is one more than there are rows", [](Own& p) { return p.routed += 1, true; }),
      invalid_policy<Own>("routed is negative", [](Own& p) { return p.routed = -1, true; }),
      invalid_policy<Own>("routed is 2^63 - 1", [](Own& p) { return p.routed = INT64_MAX, true; }),
      wrapping_policy<Own>("routed is 2^32 more", [](Own& p) { return p.routed += std::int64_t{1} << 32, true; }),
      invalid_policy<Own>("the capacity is negative", [](Own& p) { return p.capacity = -1, true; }),
      invalid_policy<Own>("the capacity is one more than rows say",
                          [](Own& p) { return p.capacity > 0 && (p.capacity += 1, true); }),
      wrapping_policy<Own>("the capacity times the experts wraps",
                           [](Own& p) { return p.capacity > 0 && (p.capacity += std::int64_t{1} << 62, true); }),
  };
}

}  // namespace

std::vector<InvalidCall> invalid_routed() {
  std::vector<InvalidCall> all = disagreeing_extents({unknown_layout(), negative_layout()});
  add_invalid(all,
              {invalid_routed_policies(),
               invalid_ends(),
               {one_route("an expert is on rank -1", 1, [](const Own&) { return std::int64_t{-1}; }),
                one_route("an expert is on a rank that there is not", 1, [](const Own& p) { return p.ranks; }),
                one_route("a route's expert is -2", 3, [](const Own&) { return std::int64_t{-2}; }),
                one_route("a route's expert is the number of experts", 3, [](const Own& p) { return p.experts; })}});
  return all;
}

}  // namespace mxcheck
