#include "properties/identify/match.h"

#include <algorithm>
#include <cmath>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/text.h"
#include "properties/core/notation.h"

namespace mxcheck {
namespace {

bool equal(const AnswerPart& part, std::uint32_t a, std::uint32_t b) {
  if (a == b) return true;
  return part.any_nan && part.format && std::isnan(decode(*part.format, a)) && std::isnan(decode(*part.format, b));
}

struct Tally {
  std::int64_t equal = 0;
  std::int64_t compared = 0;
  std::optional<ProbeDifference> first;
  std::vector<std::string> probes;  // explained
};

void compare(const std::string& probe, const AnswerPart& expected, const AnswerPart& observed, Tally& tally) {
  const std::size_t n = observed.words.size();
  tally.compared += static_cast<std::int64_t>(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (i < expected.words.size() && equal(expected, expected.words[i], observed.words[i])) {
      ++tally.equal;
    } else if (!tally.first && i < expected.words.size()) {
      const auto at = static_cast<std::int64_t>(i);
      const std::int64_t cols = std::max<std::int64_t>(1, observed.cols);
      tally.first = {probe, observed.name, at / cols, at % cols, expected.format, expected.words[i], observed.words[i]};
    }
  }
}

std::string notation(const std::optional<Format>& format, std::uint32_t word) {
  return format ? notations(*format, word) : std::to_string(static_cast<std::int32_t>(word));
}

std::optional<Tally> tally_of(const Definition& h, std::span<const std::string> probes,
                              std::span<const BoxAnswer> answers) {
  Tally tally;
  try {
    for (std::size_t p = 0; p < probes.size(); ++p) {
      const BoxAnswer expected = h.answer(p);
      if (expected.size() != answers[p].size()) return std::nullopt;
      const std::int64_t differing = tally.compared - tally.equal;
      for (std::size_t i = 0; i < expected.size(); ++i) compare(probes[p], expected[i], answers[p][i], tally);
      if (tally.compared - tally.equal == differing) tally.probes.push_back(probes[p]);
    }
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::usage) throw;
    return std::nullopt;  // it is not defined for these operands
  }
  return tally;
}

}  // namespace

Match match_answers(std::span<const std::string> probes, std::span<const BoxAnswer> answers,
                    std::span<const Definition> definitions, const std::string& declared) {
  Match match;
  match.declared = declared;
  match.probes = probes.size();
  for (const BoxAnswer& answer : answers) {
    for (const AnswerPart& part : answer) match.compared += static_cast<std::int64_t>(part.words.size());
  }
  for (const Definition& h : definitions) {
    const std::optional<Tally> tally = tally_of(h, probes, answers);
    if (!tally) continue;
    ++match.tried;
    if (tally->equal == match.compared) {
      match.explaining.push_back(h.name);
    } else if (tally->first) {
      match.closest.push_back({h.name, tally->equal, *tally->first, tally->probes});
      if (h.name == declared) match.not_declared = match.closest.back();
    }
  }
  std::stable_partition(match.explaining.begin(), match.explaining.end(),
                        [&](const std::string& name) { return name == declared; });
  keep_closest(match);
  return match;
}

void keep_closest(Match& match) {
  std::ranges::stable_sort(match.closest, [](const Explained& a, const Explained& b) { return a.equal > b.equal; });
  if (match.closest.size() > 3) match.closest.resize(3);
}

namespace {

std::string first_words(const Explained& e) {
  const ProbeDifference& d = e.first;
  const std::string whole = e.probes.empty() ? "" : "  explains    every bit of " + join(e.probes) + "\n";
  return whole + "  first       " + d.part + "(" + std::to_string(d.row) + ", " + std::to_string(d.col) +
         ") of probe '" + d.probe + "'\n" + "  expected    " + notation(d.format, d.expected) + "\n" +
         "  observed    " + notation(d.format, d.observed) + "\n";
}

std::string declared_text(const Match& match) {
  if (match.declared.empty()) return "";
  const std::string name = "declared      " + match.declared;
  if (match.holds()) return name + ", which holds\n";
  if (!match.not_declared) return name + ", which is WRONG: it is not defined for these operands\n";
  return name + ", which is WRONG: " + std::to_string(match.not_declared->equal) + " of " +
         std::to_string(match.compared) + " words equal\n" + first_words(*match.not_declared);
}

}  // namespace

std::string to_text(const Match& match) {
  const std::string scope = std::to_string(match.compared) + " words of " + std::to_string(match.probes) +
                            " probes compared with " + std::to_string(match.tried) + " definitions\n";
  if (match.compared == 0) return "nothing was compared\n";
  if (!match.explaining.empty()) {
    std::string text = declared_text(match) + "explained by  " + match.explaining.front() + ", every bit\n";
    if (match.explaining.size() > 1) {
      text += "the same here " + join(std::span(match.explaining).subspan(1)) + "\n";
    }
    for (const std::string& note : match.notes) text += "that is also  " + note + "\n";
    return text + "compared      " + scope;
  }
  std::string text = declared_text(match) + "explained by  none of the definitions\ncompared      " + scope;
  for (const Explained& e : match.closest) {
    if (e.name == match.declared) continue;
    text += "closest       " + e.name + ": " + std::to_string(e.equal) + " of " + std::to_string(match.compared) +
            " words equal\n" + first_words(e);
  }
  return text;
}

}  // namespace mxcheck
