#include "kernels/sm90/train/train_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "kernels/common/refusal.h"
#include "kernels/common/route/policy.h"
#include "kernels/sm90/moe/moe_call.h"
#include "kernels/sm90/route/route_call.h"
#include "kernels/sm90/train/train_kernels.h"
#include "kernels/sm90/train/train_math.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr std::int64_t kMostSize = 1 << 24;
constexpr std::int64_t kMostElements = 1 << 30;

void require_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  invalid(std::string("config.") + name + " is " + std::to_string(value) + ": must be " + std::to_string(least) +
          " to " + std::to_string(most));
}

void require_offered(const char* name, std::int64_t value, std::int64_t multiple, std::int64_t most) {
  if (value % multiple == 0 && value <= most) return;
  unsupported(std::string("config.") + name + " of " + std::to_string(value) + " is not offered: multiples of " +
              std::to_string(multiple) + " up to " + std::to_string(most) + " are");
}

void require_finite(const char* name, float value) {
  if (!std::isfinite(value)) invalid(std::string("config.") + name + " is not finite");
}

void check_sizes(const mxcheck_train_config& c) {
  require_range("layers", c.layers, 1, 4096);
  require_range("width", c.width, 1, kMostSize);
  require_range("heads", c.heads, 1, c.width);
  require_range("experts", c.experts, 1, kMostSize);
  require_range("inner", c.inner, 1, kMostSize);
  require_range("top_k", c.top_k, 1, c.experts);
  require_range("length", c.length, 1, kMostSize);
  require_range("batch", c.batch, 1, kMostSize / c.length);
  require_range("evaluation_sequences", c.evaluation_sequences, 0, kMostSize / c.length);
  require_range("bf16_last", c.bf16_last, 0, c.layers - 1);
  if (c.width % c.heads != 0) invalid("config.width must be a multiple of config.heads");
}

bool is_power_of_two(std::int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

void check_parts(const mxcheck_train_config& c) {
  require_range("microbatches", c.microbatches, 1, kMostMicrobatches);
  if (!is_power_of_two(c.microbatches) || c.batch % c.microbatches != 0) {
    invalid("config.microbatches is " + std::to_string(c.microbatches) + " of a batch of " + std::to_string(c.batch) +
            ": must be a power of two that divides it");
  }
  require_range("ranks", c.ranks, 1, kMostRanks);
  if (!is_power_of_two(c.ranks) || c.microbatches % c.ranks != 0) {
    invalid("config.ranks is " + std::to_string(c.ranks) + " for " + std::to_string(c.microbatches) +
            " microbatches: must be a power of two that divides them");
  }
  require_range("rank", c.rank, 0, c.ranks - 1);
  const mxcheck_train_exchange* const e = c.exchange;
  const bool exchanges = e != nullptr && e->size >= sizeof(*e) && e->all_to_all != nullptr && e->all_gather != nullptr;
  if (c.ranks > 1 && !exchanges) invalid("config.exchange and its functions must be given to more than one rank");
}

void check_offered(const mxcheck_train_config& c) {
  require_offered("width", c.width, 8, kMostWidth);
  require_offered("width / heads", c.width / c.heads, 8, kMostWidth);
  require_offered("length", c.length, 8, kMostLength);
  require_offered("experts", c.experts, 8, kMostExperts);
  require_offered("inner", c.inner, moe_recipe_named(c.recipe).fp8() ? 128 : 8, kMostSize);
  if (moe_recipe_named(c.recipe).fp8()) require_offered("width", c.width, 128, kMostWidth);
  require_offered("top_k", c.top_k, 1, kMostKept);
  const std::int64_t sequences = std::max(c.batch / c.microbatches, c.evaluation_sequences);
  require_offered("rows of all heads", sequences * c.length * c.heads, 1, std::numeric_limits<std::int32_t>::max());
  require_offered("elements of w1", 2 * c.experts * c.width * c.inner, 1, kMostElements);
}

}  // namespace

mxcheck_train_config whole_config(const mxcheck_train_config& given) {
  constexpr std::size_t kFirstSize = offsetof(mxcheck_train_config, bf16_last);
  if (given.size < kFirstSize) invalid("config.size is less than that of mxcheck_train_config");
  mxcheck_train_config c{};
  std::memcpy(&c, &given, std::min<std::size_t>(given.size, sizeof(c)));
  if (c.microbatches == 0) c.microbatches = 1;
  if (c.ranks == 0) c.ranks = 1;
  return c;
}

void check_config(const mxcheck_train_config& c) {
  check_sizes(c);
  check_parts(c);
  check_offered(c);
  const TokenRoundingRule rule = token_rounding_rule_named(c.rounding);
  if (rule != TokenRoundingRule::none && !rounds_to_tiles(rule)) {
    invalid("config.rounding is " + std::string(c.rounding) + ": must be none or a rule that rounds to tiles");
  }
  if (rule != TokenRoundingRule::none) {
    require_range("tile", c.tile, 1, kMostSize);
    require_offered("experts under token rounding", c.experts, 8, kMostKept);
  }
  require_finite("balance", c.balance), require_finite("beta1", c.beta1), require_finite("beta2", c.beta2);
  require_finite("epsilon", c.epsilon), require_finite("decay", c.decay), require_finite("clip", c.clip);
  require_range("bf16_moments", c.bf16_moments, 0, 1);
  if (c.cosine == nullptr || c.sine == nullptr) invalid("config.cosine and config.sine must be given");
}

Parameters parameters_of(const mxcheck_train_config& c) {
  constexpr std::int64_t kMultiple = 64;
  Parameters all;
  const auto add = [&](std::int64_t size, bool decays) {
    all.list.push_back({all.elements, size, decays});
    all.elements += (size + kMultiple - 1) / kMultiple * kMultiple;
  };
  const auto add_gain = [&] { add(c.width, false); };
  const auto add_matrix = [&](std::int64_t size) { add(size, true); };
  add(kVocabulary * c.width, false);
  for (std::int64_t l = 0; l < c.layers; ++l) {
    add_gain();
    add_matrix(3 * c.width * c.width);
    add_matrix(c.width * c.width);
    add_gain();
    add_matrix(c.experts * c.width);
    add_matrix(c.experts * c.width * 2 * c.inner);
    add_matrix(c.experts * c.inner * c.width);
  }
  add_gain();
  add_matrix(kVocabulary * c.width);
  return all;
}

std::int64_t most_routed(const mxcheck_train_config& c, bool rounds, std::int64_t tokens) {
  const std::int64_t chosen = tokens * c.top_k;
  if (!rounds) return chosen;
  return std::min(tokens * c.experts, chosen + c.experts * std::min(c.tile - 1, tokens));
}

const char* recipe_of_layer(const Model& model, const PassShape& pass, std::int64_t layer) {
  return layer < model.config.layers - model.config.bf16_last ? pass.recipe : "bf16";
}

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
