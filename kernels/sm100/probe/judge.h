#pragma once
// From outcomes to verdicts.

#include <cstddef>
#include <string>

#include "kernels/sm100/probe/launcher.h"

namespace mxcheck::sm100::probe {

// Judges a form that the model has: `wrong` of `all` words differ from the model's.
inline Verdict expect_model(Report& report, const std::string& what, const Outcome& outcome, std::size_t wrong,
                            std::size_t all) {
  Verdict verdict = Verdict::agrees;
  std::string text;
  switch (outcome.state) {
    case Outcome::State::ran:
      verdict = wrong == 0 ? Verdict::agrees : Verdict::disagrees;
      text = wrong == 0 ? "as the model has it" : counts(wrong, all, "are not the model's");
      break;
    // The model and the emulation's rules contradict each other.
    case Outcome::State::refused:
      verdict = Verdict::disagrees;
      text = "refused by the emulation: " + outcome.text;
      break;
    case Outcome::State::faulted:
    case Outcome::State::hung:
      verdict = Verdict::disagrees;
      text = outcome.text;
      break;
    case Outcome::State::failed:
      verdict = Verdict::undecided;
      text = outcome.text;
      break;
  }
  report.add(verdict, what + ": " + text);
  return verdict;
}

// The text `words`, which is what the words say, or the reason why there are none.
inline std::string words_or_reason(const Outcome& outcome, const std::string& words) {
  return outcome.out.empty() ? outcome.text : words;
}

// Reports on a form that the emulation refuses: `answer` is what the words say, where there are any.
inline void ask(Report& report, const std::string& what, const Outcome& outcome, const std::string& answer) {
  switch (outcome.state) {
    case Outcome::State::ran: return report.add(Verdict::answered, what + ": " + answer);
    case Outcome::State::refused:
      return report.add(Verdict::refused, what + ": refused by the emulation: " + outcome.text);
    case Outcome::State::faulted:
    case Outcome::State::hung: return report.add(Verdict::answered, what + ": " + outcome.text);
    case Outcome::State::failed: return report.add(Verdict::undecided, what + ": " + outcome.text);
  }
}

}  // namespace mxcheck::sm100::probe
