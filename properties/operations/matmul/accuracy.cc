// GEMMs that promise the accuracy of a contract and no bits of it (as_accurate_as:CONTRACT): over all cases together
// their errors are no larger than the contract's own.
//
// Errors are those against the exact value, as parts of the sum of magnitudes |alpha| sum |a b| + |C| that an output is
// made of: what accumulators lose is in proportion to that, whatever cancels. Of each case up to 16 outputs of those
// that differ from the contract's are compared, drawn so that no element of an operand is of two of them: operands are
// drawn independently, by element and by case, so that these outputs' errors are independent (scales of blocks of rows
// aside, which multiply both errors of an output and leave their order).
//
// The chance of a set of outputs is that of PairedErrors (numerics/measure/paired_errors.h), which derives it and says
// for which candidates it holds. Sets are all outputs, and those of cases with one property in common: a type of a
// tensor, a kind of groups, deep products. What is worse in one of them alone is not lost among the others. With s sets
// (known from the cases, not from what came out) each is tested at 10^-9 / s, so that a candidate as accurate as the
// contract fails in at most one run of 10^9; one that has the contract's bits, or never a larger error, fails in none.
//
// An error beyond what any order of sums in the contract's accumulators gives is found by any_order.cc, in one case.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "numerics/format/codec.h"
#include "numerics/measure/paired_errors.h"
#include "numerics/text.h"
#include "properties/core/check.h"
#include "properties/core/rng.h"
#include "properties/operations/matmul/fields.h"
#include "properties/operations/matmul/operation.h"
#include "properties/operations/matmul/problem.h"
#include "reference/matmul/any_order.h"

namespace mxcheck {
namespace {

constexpr double kLevel = 1e-9;
constexpr std::int64_t kDeep = 1024;
constexpr std::string_view kAll = "all";

// The sets that a case's output belongs to, but that of all: "groups=rows", "data=normal", "C added".
std::vector<std::string> sets_of(const Case& c) {
  std::vector<std::string> sets;
  const std::string text = to_text(c.variant) + " data=" + std::string(to_text(c.data));
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    sets.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  sets.emplace_back(matmul_case(c).depth < kDeep ? "depth below 1024" : "depth of 1024 and more");
  if (matmul_case(c).adds) sets.emplace_back("C added");
  if (matmul_case(c).alpha != 1) sets.emplace_back("another alpha than 1");
  return sets;
}

class Accuracy final : public RunTally {
 public:
  // One output's errors; their difference may be `off` from that of the exact ones.
  void add(const Case& c, double candidate, double contract, double off) {
    add(std::string(kAll), candidate, contract, off);
    for (const std::string& set : sets_of(c)) add(set, candidate, contract, off);
    if (!(candidate - contract > most_)) return;
    most_ = candidate - contract, example_ = c;
  }

  [[nodiscard]] Conclusion conclusion() const override {
    const double log_level = std::log(kLevel / static_cast<double>(std::max<std::size_t>(1, sets_.size())));
    const auto all = sets_.find(std::string(kAll));
    const std::int64_t pairs = all == sets_.end() ? 0 : all->second.pairs();
    if (const std::int64_t needed = PairedErrors::fewest(log_level); pairs < needed) {
      return {{}, {}, fmt::format("{} outputs were compared; a level of {:.0e} needs {}", pairs, kLevel, needed)};
    }
    const auto least = std::ranges::min_element(sets_, {}, [](const auto& set) { return set.second.log_chance(); });
    if (!(least->second.log_chance() < log_level)) return {{}, {}, "", counts_text(all->second)};
    return {finding(*least, all->second, log_level), example_, "", ""};
  }

 private:
  void add(const std::string& set, double candidate, double contract, double off) {
    sets_[set].add(candidate, contract, off);
  }

  static std::string chance_text(double log_chance) {
    const double tens = std::min(0.0, log_chance / std::log(10.0));
    return tens == 0 ? "1" : fmt::format("{:.1f}e{:.0f}", std::pow(10, tens - std::floor(tens)), std::floor(tens));
  }
  static std::string counts_text(const PairedErrors& p) {
    const std::string means = p.differing() == 0
                                  ? ""
                                  : fmt::format("; mean error {:.3g} of the sum of magnitudes, the contract's {:.3g}",
                                                p.mean_candidate(), p.mean_other());
    return fmt::format("{} outputs compared, the error differs in {} and is larger in {}{}", p.pairs(), p.differing(),
                       p.worse(), means);
  }

  [[nodiscard]] Finding finding(const std::pair<const std::string, PairedErrors>& least, const PairedErrors& all,
                                double log_level) const {
    Finding f;
    const auto& [set, p] = least;
    const bool is_all = set == kAll;
    f.summary = fmt::format("D is less accurate than its contract{}: {} of the {} errors that differ are larger",
                            is_all ? "" : " where " + set, p.worse(), p.differing());
    f.element.push_back("outputs   " + (is_all ? "" : set + ": ") + counts_text(p));
    f.element.push_back(fmt::format(
        "chance    below {} (signs) and {} (means) for a kernel that is worse in at most {:.0f} of 100; level "
        "{:.0e} over {} sets, {} each",
        chance_text(p.log_chance_of_signs()), chance_text(p.log_chance_of_means()), 100 * PairedErrors::kMostWorse,
        kLevel, sets_.size(), chance_text(log_level)));
    if (!is_all) f.element.push_back("all       " + counts_text(all));
    std::vector<std::string> others;  // worse than all are
    for (const auto& [other, errors] : sets_) {
      const bool is_worse = errors.worse() * all.differing() > all.worse() * errors.differing();
      if (other != set && is_worse && errors.log_chance() < log_level)
        others.push_back(fmt::format("{} ({} of {})", other, errors.worse(), errors.differing()));
    }
    if (!others.empty()) f.element.push_back("also      " + join(others));
    return f;
  }

  std::map<std::string, PairedErrors> sets_;
  double most_ = 0;
  Case example_;
};

std::uint32_t nth_word(const Bytes& bytes, std::size_t i, Format format) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + i * size_of(format), size_of(format));
  return word;
}

// Outputs whose words differ; one NaN is as good as another.
std::vector<std::size_t> differing_outputs(const Bytes& x, const Bytes& y, Format format) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < x.size() / size_of(format); ++i) {
    const std::uint32_t a = nth_word(x, i, format), b = nth_word(y, i, format);
    if (a != b && !(std::isnan(decode(format, a)) && std::isnan(decode(format, b)))) all.push_back(i);
  }
  return all;
}

// Outputs among them, drawn, that share no row and no column of D: no element of an operand is of two of them, but of a
// gathered row, where one output is enough.
std::vector<std::size_t> apart(const Case& c, std::vector<std::size_t> outputs) {
  const std::size_t most = c.gather != 0 ? 1 : 16;
  const auto cols = static_cast<std::size_t>(c.cols);
  std::vector<std::size_t> taken;
  Draw draw(derived_seed(c.seed, "outputs whose errors are compared"));
  while (!outputs.empty() && taken.size() < most) {
    const std::size_t at = outputs[draw.below(outputs.size())];
    taken.push_back(at);
    std::erase_if(outputs, [&](std::size_t o) { return o / cols == at / cols || o % cols == at % cols; });
  }
  return taken;
}

double error_of(const ExactOutput& exact, double value) {
  const double error = std::fabs(value - exact.value);
  return exact.magnitude == 0 ? (error == 0 ? 0 : 1) : error / exact.magnitude;
}

std::optional<Finding> compares_errors(CheckContext& context, const Case& c) {
  const ProblemAndAnswer posed = problem_and_answer_of(context, c);
  const auto& p = static_cast<const MatmulProblem&>(*posed.problem);
  const CallOutputs got = run_problem(context, p, kPoisons[c.seed & 1]);
  if (!got.usable()) return propagate(context, got);
  const Bytes& own = posed.answer.front().bytes;
  const Format format = posed.answer.front().info.format;
  auto* const tally = dynamic_cast<Accuracy*>(context.tally.get());
  if (own.empty() || tally == nullptr) return std::nullopt;
  const std::vector<std::size_t> differing = differing_outputs(got.outputs[0], own, format);
  if (differing.empty()) {
    tally->add(c, 0, 0, 0);
    return std::nullopt;
  }
  const Matmul m = p.matmul(p.contract());
  for (const std::size_t at : apart(c, differing)) {
    const ExactOutput exact = exact_output(m, static_cast<std::int64_t>(at));
    if (!std::isfinite(exact.value)) continue;  // the other statement's
    const double off = exact.magnitude == 0 ? 0 : 2 * exact.off / exact.magnitude;
    tally->add(c, error_of(exact, decode(format, nth_word(got.outputs[0], at, format))),
               error_of(exact, decode(format, nth_word(own, at, format))), off);
  }
  return std::nullopt;
}

// Deep products, in which accumulators lose most, of every variant: at least 5 each and 128 together, with a seed that
// no other variant has.
std::vector<Case> deep_products(std::span<const Variant> variants, Suite suite) {
  constexpr std::array<std::int64_t, 5> kDepths{512, 1024, 2048, 256, 4096};
  constexpr std::array kKinds{Data::normal, Data::normal, Data::boundaries, Data::normal, Data::sparse, Data::normal};
  constexpr std::size_t kFewest = 128;
  const std::size_t factor = suite == Suite::quick ? 1 : suite == Suite::full ? 4 : 16;
  const std::size_t each = factor * std::max(kDepths.size(), kFewest / std::max<std::size_t>(1, variants.size()) + 1);
  std::vector<Case> cases;
  for (const Variant& v : variants) {
    for (std::size_t i = 0; i < each; ++i) {
      cases.push_back(matmul_corner(v, 16, 16, kDepths[i % kDepths.size()], kKinds[i % kKinds.size()],
                                    derived_seed(i, to_text(v)) >> 16));
    }
  }
  return cases;
}

}  // namespace

Statement accuracy_statement(const Statement& equality) {
  Statement s = equality;
  s.name = "matmul_is_as_accurate_as_its_contract";
  s.sentence =
      "where a contract's accuracy is promised, errors against the exact value are no larger than the contract's own";
  s.source = "properties/operations/matmul/accuracy.cc; numerics/measure/paired_errors.h";
  s.applies = [](const Variant& v, std::span<const Variant>) {
    return is_matmul(v.operation) && parse_matmul_contract(contract_text(v.operation)).as_accurate;
  };
  s.check = compares_errors;
  // Products that are alike wherever they stand in a sum: of structured ones some orders are better than others.
  s.data = {Data::normal, Data::normal, Data::boundaries, Data::sparse};
  s.corners = {};  // their seeds are those of other variants too
  s.shared_corners = deep_products;
  s.covers_pairs = false;
  s.repeats_bits = false;
  s.recorded = false;
  s.tally = [] { return std::make_shared<Accuracy>(); };
  return s;
}

}  // namespace mxcheck
