#include "properties/operations/moe/statements.h"

namespace mxcheck {

Statement moe_law(std::string_view name, std::string_view sentence, bool (*applies)(const Variant&), MoeCheck* check) {
  Statement s;
  s.name = name, s.sentence = sentence, s.source = "docs/layer.md, What holds for any layer";
  s.applies = [applies](const Variant& v, std::span<const Variant>) { return is_moe(v) && applies(v); };
  s.data = {Data::normal, Data::normal, Data::slots, Data::boundaries, Data::sparse};
  s.strides = false;
  s.check = check;
  return s;
}

MoePair run_both(CheckContext& context, const Problem& one, const Problem& other) {
  MoePair pair;
  pair.before = run_problem(context, one);
  if (!pair.before.usable()) return pair.finding = pass_on(context, pair.before), pair;
  pair.after = run_problem(context, other);
  if (!pair.after.usable()) return pair.finding = pass_on(context, pair.after), pair;
  pair.usable = true;
  return pair;
}

}  // namespace mxcheck
