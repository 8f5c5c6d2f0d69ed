#pragma once
// A finding: a failure that a check met, with everything a report needs to say about it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "properties/core/case.h"
#include "properties/core/causes.h"
#include "properties/core/compare.h"

namespace mxcheck {

enum class FindingKind {
  mismatch,       // bytes differ from what must be
  out_of_bounds,  // wrote outside its outputs, or into its inputs
  refused,        // refused what it claims to support, or accepted what it must refuse
  fault,          // the process died or did not answer
};
constexpr std::string_view to_text(FindingKind kind) {
  constexpr std::string_view kTexts[] = {"mismatch", "trespass", "refused", "device-fault"};
  return kTexts[static_cast<std::size_t>(kind)];
}

struct Finding {
  FindingKind kind = FindingKind::mismatch;
  std::string summary;                    // one line: what must hold and does not
  std::optional<Difference> difference;   // mismatch
  std::vector<std::string> element;       // lines about the first differing element: inputs, expected, observed
  std::vector<Explanation> explained_by;  // thorough: the rows that explain this case
  std::vector<std::string> matches;       // names of the causes that give every bit of all failing cases compared
  std::vector<NamedCause> explaining;     // `matches`, and rows that give as much but are not the best
  std::vector<std::string> likely;        // where no row does: lines about those that give most of what is wrong
  // Elements of all outputs that `matches` give; 0: nothing was compared. Those of the case as found, or of the
  // smallest one where that is too large to be compared with every row.
  std::int64_t matched = 0;
  bool matches_case_as_found = false;
  int matched_others = 0;  // further failing cases of the variant whose outputs `matches` give, counted in `matched`
  // The input elements that the first differing element follows from: shrinking tries them alone.
  std::vector<Plant> relevant;
  bool again_in_fresh_process = false;  // a fault: the call was repeated, and ended so again
};

}  // namespace mxcheck
