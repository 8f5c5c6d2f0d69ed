#include "properties/core/claims.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "numerics/format/codec.h"
#include "numerics/text.h"

namespace mxcheck {

std::vector<std::uint8_t> differing(const Bytes& x, const Bytes& y, Format format) {
  std::vector<std::uint8_t> differs(x.size() / size_of(format));
  for (std::size_t i = 0; i < differs.size(); ++i) {
    const std::uint32_t a = word_at(x, format, i), b = word_at(y, format, i);
    differs[i] = a != b && !(std::isnan(decode(format, a)) && std::isnan(decode(format, b))) ? 1 : 0;
  }
  return differs;
}

std::optional<Finding> lies_within(CheckContext& context, const Case& c, const RangesOf& ranges,
                                   std::string_view outside) {
  const ProblemAndAnswer posed = problem_and_answer_of(context, c);
  const Problem& p = *posed.problem;
  const bool large = c.elements() > 100'000;
  std::vector<Bytes> before;
  for (const std::uint8_t poison : kPoisons) {
    if (large && poison != kPoisons[c.seed & 1]) continue;
    const CallOutputs got = run_problem(context, p, poison);
    if (!got.usable()) return propagate(context, got);
    if (before == got.outputs) continue;  // as most kernels give it again
    before = got.outputs;
    for (const std::size_t n : p.order()) {
      const ExpectedTensor& answer = posed.answer[n];
      const Format format = answer.info.format;
      const std::vector<std::uint8_t> differs = differing(answer.bytes, got.outputs[n], format);
      if (std::find(differs.begin(), differs.end(), 1) == differs.end()) continue;
      const std::vector<OutputRange> of = ranges(p, n, got.outputs, differs);
      Bytes right = got.outputs[n];
      for (std::size_t i = 0; i < differs.size(); ++i) {
        if (differs[i] == 0 || of[i].holds(format, word_at(got.outputs[n], format, i))) continue;
        std::memcpy(right.data() + i * size_of(format), answer.bytes.data() + i * size_of(format), size_of(format));
      }
      auto finding = differ(answer.info, right, got.outputs[n], fmt::format(fmt::runtime(outside), answer.info.name));
      if (!finding) continue;
      p.explain(n, *finding);
      const auto& first = finding->difference->first;
      if (!operation_named(c.variant.operation).has_contracts())
        finding->element.push_back("right     " +
                                   to_text(of[static_cast<std::size_t>(first.row * answer.info.cols + first.col)]));
      if (context.thorough) tell_matches(p, posed.answer, got.outputs, *finding, {poison, context.causes});
      return finding;
    }
  }
  return std::nullopt;
}

double relative_error(const ExactOutput& exact, double value) {
  const double error = std::fabs(value - exact.value);
  return exact.magnitude == 0 ? (error == 0 ? 0 : 1) : error / exact.magnitude;
}

namespace {

constexpr double kLevel = 1e-9;
constexpr std::string_view kAll = "all";

std::string chance_text(double log_chance) {
  const double tens = std::min(0.0, log_chance / std::log(10.0));
  return tens == 0 ? "1" : fmt::format("{:.1f}e{:.0f}", std::pow(10, tens - std::floor(tens)), std::floor(tens));
}

}  // namespace

void ErrorTally::add(const Case& c, const std::vector<std::string>& sets, double candidate, double reference,
                     double off) {
  sets_[std::string(kAll)].add(candidate, reference, off);
  const std::string text = to_text(c.variant) + " data=" + std::string(to_text(c.data));
  for (const std::string_view set : split(text, ' ')) sets_[std::string(set)].add(candidate, reference, off);
  for (const std::string& set : sets) sets_[set].add(candidate, reference, off);
  if (!(candidate - reference > most_)) return;
  most_ = candidate - reference, example_ = c;
}

void ErrorTally::add(const Case& c, const std::vector<std::string>& sets, const ExactOutput& exact, double candidate,
                     double reference) {
  if (!std::isfinite(exact.value)) return;  // the statement about intervals says it
  const double off = exact.magnitude == 0 ? 0 : 2 * exact.off / exact.magnitude;
  add(c, sets, relative_error(exact, candidate), relative_error(exact, reference), off);
}

RunTally::Conclusion ErrorTally::conclusion() const {
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

std::string ErrorTally::counts_text(const PairedErrors& p) const {
  const std::string means = p.differing() == 0 ? ""
                                               : fmt::format("; mean error {:.3g} of {}, the contract's {:.3g}",
                                                             p.mean_candidate(), measure_, p.mean_other());
  return fmt::format("{} outputs compared, the error differs in {} and is larger in {}{}", p.pairs(), p.differing(),
                     p.worse(), means);
}

Finding ErrorTally::finding(const std::pair<const std::string, PairedErrors>& least, const PairedErrors& all,
                            double log_level) const {
  Finding f;
  const auto& [set, p] = least;
  const bool is_all = set == kAll;
  f.summary = fmt::format("{} is less accurate than its contract{}: {} of the {} errors that differ are larger",
                          output_, is_all ? "" : " where " + set, p.worse(), p.differing());
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

}  // namespace mxcheck
