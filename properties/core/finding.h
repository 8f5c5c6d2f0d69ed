#pragma once
// What a check found wrong, with everything a report needs to say about it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "properties/core/case.h"
#include "properties/core/compare.h"

namespace mxcheck {

enum class FindingKind {
  mismatch,  // bytes differ from what must be
  trespass,  // wrote outside its outputs, or into its inputs
  refused,   // refused what it claims to support, or accepted what it must refuse
  fault,     // the process died or did not answer
};

struct Finding {
  FindingKind kind = FindingKind::mismatch;
  std::string summary;                   // one line: what must hold and does not
  std::optional<Difference> difference;  // mismatch
  std::vector<std::string> element;      // lines about the first differing element: inputs, expected, observed
  std::vector<std::string> matches;      // other recipes or layouts whose bytes are exactly the observed ones
  // What explains the first differing element: kept so that shrinking can isolate it.
  std::vector<Plant> culprits;
};

}  // namespace mxcheck
