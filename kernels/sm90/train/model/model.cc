#include "kernels/sm90/train/model/model.h"

#include "kernels/sm90/train/elementwise/score_scale.h"

namespace mxcheck_kernels::sm90 {

PassShape pass_shape(const Model& model, std::int64_t sequences, const char* recipe, TokenRoundingRule rule) {
  const mxcheck_train_config& c = model.config;
  PassShape s;
  s.sequences = sequences;
  s.tokens = sequences * c.length;
  s.attention.sequences = sequences;
  s.attention.length = static_cast<int>(c.length);
  s.attention.heads = static_cast<int>(c.heads);
  s.attention.head_width = static_cast<int>(c.width / c.heads);
  s.attention.scale = score_scale(s.attention.head_width);
  s.recipe = recipe;
  s.rule = rule;
  s.most_routed = most_routed(c, rule != TokenRoundingRule::none, s.tokens);
  return s;
}

}  // namespace mxcheck_kernels::sm90
