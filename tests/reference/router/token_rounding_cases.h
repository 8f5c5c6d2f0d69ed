#pragma once
// Cases for tests of token rounding: a few tokens whose order is known, and drawn ones.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "reference/router/token_rounding.h"
#include "tests/reference/common/test_matrix.h"

namespace mxcheck::test {

using Offsets = std::vector<std::int64_t>;
using Ints = std::vector<std::int32_t>;
using Sets = std::vector<std::set<std::int32_t>>;
using Floats = std::vector<float>;

inline Router router_of(const char* variant, std::int64_t top_k) {
  Router router;
  router.variant = &router_variant_named(variant);
  router.top_k = top_k;
  return router;
}

inline std::vector<float> normal_logits(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {  // a sum of twelve: near enough, and the same everywhere
    std::int64_t sum = 0;
    for (int k = 0; k < 12; ++k) sum += static_cast<std::int64_t>(engine() >> 44);
    values.push_back(static_cast<float>(sum - 6 * (1 << 20)) * 0x1p-20F);
  }
  return values;
}

// Two experts, one of them chosen: expert 0 by tokens 0, 2, 1, 5 in the order of scores, expert 1 by 3, 4. To expert 1
// the best that did not choose it is 5, to expert 0 it is 4.
inline const TestMatrix kSix = fp32_matrix(6, 2, {3, 0, 1, 0, 2, 0, 0, 1, 0, 0.5F, 0.25F, 0});

// The tokens of each expert.
inline Sets tokens_by_expert(const RoundedTokens& a) {
  Sets sets;
  for (std::size_t e = 0; e < a.chosen.size(); ++e) {
    sets.emplace_back(a.row_token.begin() + a.offsets[e], a.row_token.begin() + a.offsets[e + 1]);
  }
  return sets;
}

// Logits and what to do with them: of few distinct values one time in two, so that there are ties; some experts far
// more popular than others one time in two; -0, -Inf and NaN where the router takes them.
struct TokenRoundingCase {
  std::int64_t tokens = 0;
  std::int64_t experts = 0;
  std::vector<float> logits;
  std::vector<float> bias;
  Router base;  // without the bias, whose memory is this case's
  TokenRounding token_rounding;
  Format dtype = Format::fp32;

  [[nodiscard]] Router router() const {
    Router r = base;
    r.bias = bias;
    return r;
  }
  [[nodiscard]] TestMatrix matrix() const { return {dtype, tokens, experts, logits, 3}; }
  [[nodiscard]] std::string text() const {
    return std::to_string(tokens) + " x " + std::to_string(experts) + ", top " + std::to_string(base.top_k) + ", " +
           std::string(base.variant->name) + ", tile " + std::to_string(token_rounding.tile) + ", capacity " +
           std::to_string(token_rounding.capacity);
  }
};

inline TokenRoundingCase draw_case(std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(n));
  };
  TokenRoundingCase c;
  c.tokens = below(8) == 0 ? below(3) : 1 + below(160);
  c.experts = 1 + below(12);
  const auto variants = all_router_variants();
  c.base.variant = &variants[static_cast<std::size_t>(below(static_cast<std::int64_t>(variants.size())))];
  c.base.top_k = below(4) == 0 ? c.experts : 1 + below(c.experts);
  if (c.experts % 2 == 0 && !c.base.variant->packed && below(3) == 0) {
    c.base.groups = 2;
    c.base.groups_kept = 1 + below(2);
    c.base.top_k = std::min(c.base.top_k, c.experts / 2 * c.base.groups_kept);
  }
  c.base.scale = below(3) == 0 ? 2.5F : 1.0F;
  if (!c.base.variant->packed && below(2) == 0) c.base.nan = NanLogits::last;
  constexpr std::array<std::int64_t, 9> kTiles{1, 2, 3, 5, 8, 16, 32, 128, std::int64_t{1} << 62};
  c.token_rounding.tile = kTiles[static_cast<std::size_t>(below(kTiles.size()))];
  c.token_rounding.capacity = below(40);
  c.token_rounding.renormalize = below(3) != 0;
  c.token_rounding.seed = engine();
  c.token_rounding.layer = static_cast<std::uint32_t>(engine());
  c.token_rounding.step = engine();
  c.dtype = below(2) == 0 ? Format::fp32 : Format::bf16;
  const bool few = below(2) == 0;
  const bool skewed = below(2) == 0;
  const bool special = c.base.nan == NanLogits::last && below(2) == 0;
  for (std::int64_t i = 0; i < c.tokens * c.experts; ++i) {
    float x = few ? static_cast<float>(below(5) - 2) : static_cast<float>(below(1 << 20) - (1 << 19)) * 0x1p-16F;
    if (skewed) x -= static_cast<float>(i % c.experts);
    if (few && x == 0 && below(2) == 0) x = -0.0F;
    if (special && below(16) == 0) x = below(2) == 0 ? std::numeric_limits<float>::quiet_NaN() : -INFINITY;
    c.logits.push_back(x);
  }
  if (!c.base.variant->packed && below(3) == 0) {
    for (std::int64_t e = 0; e < c.experts; ++e) c.bias.push_back(static_cast<float>(below(9) - 4) * 0.25F);
  }
  return c;
}

}  // namespace mxcheck::test
