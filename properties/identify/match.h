#pragma once
// Which of many definitions explain the answers of a black box, every bit of them.
//
// A probe is one call of the box. A definition answers the same probes by itself; it explains the box where
// every word of every part of every probe is equal. What explains all of it is listed together: the probes do not tell
// those apart. Where nothing does, the closest are listed, each with the first word that it does not explain.
//
//   const Match match = match_answers(probes, answers, definitions, "sm90_fp8");  // which it claims to follow; or ""
//   match.explaining == std::vector<std::string>{"sm90_fp8"}
//   to_text(match)                                                // lines for people
//
// Errors: those of the definitions, but Error{usage}: a definition that cannot take the probe is left out.
//
// Does not promise: that the box is what explains it. It says what the probes that were compared show, and how many
// words these were.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "numerics/format/format.h"

namespace mxcheck {

// One tensor of an answer: words of `format`, or integers.
struct AnswerPart {
  std::string name;
  std::optional<Format> format;
  std::vector<std::uint32_t> words;
  std::int64_t cols = 1;
  bool any_nan = false;  // any two NaNs are equal
};
using BoxAnswer = std::vector<AnswerPart>;

struct Definition {
  std::string name;
  std::function<BoxAnswer(std::size_t probe)> answer;
};

struct ProbeDifference {
  std::string probe;
  std::string part;
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::optional<Format> format;
  std::uint32_t expected = 0;  // by the definition
  std::uint32_t observed = 0;
};

struct Explained {
  std::string name;
  std::int64_t equal = 0;
  ProbeDifference first;
  std::vector<std::string> probes = {};  // those of which it explains every bit
};

struct Match {
  std::string declared;                   // what the box claims to be; empty: nothing
  std::optional<Explained> not_declared;  // where it is not that: the first word; nothing where the claim was not tried
  std::vector<std::string> explaining;    // the declared one first, then in the order of the definitions
  std::vector<Explained> closest;         // at most three, best first; of those that do not explain everything
  std::int64_t compared = 0;              // words of the box
  std::size_t probes = 0;
  std::size_t tried = 0;           // definitions that could answer
  std::vector<std::string> notes;  // other words for what explains it

  [[nodiscard]] bool explained() const { return !explaining.empty(); }
  // Whether the box is what it claims to be.
  [[nodiscard]] bool holds() const { return explained() && (declared.empty() || explaining.front() == declared); }
};

// answers[i] is what the box gave for probes[i].
Match match_answers(std::span<const std::string> probes, std::span<const BoxAnswer> answers,
                    std::span<const Definition> definitions, const std::string& declared = "");

// Leaves the three closest, best first.
void keep_closest(Match& match);

// "declared" where something was; "explained by", or the closest with their first difference in four notations; a line
// each.
std::string to_text(const Match& match);

}  // namespace mxcheck
