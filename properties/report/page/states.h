#pragma once
// The four states of a statement, and of a variant under it.

#include <string>

#include "properties/gate/gate.h"

namespace mxcheck {

struct StateLook {
  const char* css;   // class
  const char* word;  // "held"
};
StateLook look_of(Verdict verdict);

// "<span class="badge held">held</span>".
std::string badge(Verdict verdict);

// A variant under a statement: failed if the counterexample is of it; held where cases of it were checked, whatever
// others did; not offered where all were refused. Without a case it is as the statement: not drawn where that held,
// open where it ended early or is inconclusive.
enum class VariantState { held, failed, not_reached, not_offered, not_drawn };
VariantState state_of(const GateReport& report, const StatementResult& result, const VariantCount& variant);
StateLook look_of(VariantState state);

}  // namespace mxcheck
