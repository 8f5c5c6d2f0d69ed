#include "properties/report/page/states.h"

#include <fmt/format.h>

namespace mxcheck {

StateLook look_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::held: return {"held", "held"};
    case Verdict::failed: return {"failed", "FAILED"};
    case Verdict::inconclusive: return {"open", "inconclusive"};
    case Verdict::not_offered: break;
  }
  return {"none", "not offered"};
}

std::string badge(Verdict verdict) {
  const StateLook look = look_of(verdict);
  return fmt::format("<span class=\"badge {}\">{}</span>", look.css, look.word);
}

VariantState state_of(const GateReport& report, const StatementResult& r, const VariantCount& v) {
  if (r.counterexample && report.variants.at(v.variant) == r.counterexample->original.variant)
    return VariantState::failed;
  if (v.checked > 0) return VariantState::held;
  if (v.refused > 0) return VariantState::not_offered;
  return r.verdict == Verdict::held ? VariantState::not_drawn : VariantState::not_reached;
}

StateLook look_of(VariantState state) {
  switch (state) {
    case VariantState::held: return look_of(Verdict::held);
    case VariantState::failed: return look_of(Verdict::failed);
    case VariantState::not_offered: return look_of(Verdict::not_offered);
    case VariantState::not_reached: return {"open", "not reached"};
    case VariantState::not_drawn: break;
  }
  return {"undrawn", "not drawn"};
}

}  // namespace mxcheck
