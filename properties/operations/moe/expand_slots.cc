// Routes of a case: which tokens each expert has, and in which slots.

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "properties/core/rng.h"
#include "properties/operations/moe/expand.h"

namespace mxcheck {
namespace {

constexpr std::uint64_t kDropped = std::uint64_t{1} << 40;  // added to a number that no expert has

std::uint64_t word_of(const Case& c, std::uint64_t salt, std::int64_t token, std::uint64_t what) {
  return random_word(c.seed ^ salt, static_cast<std::uint64_t>(token) << 44 ^ what);
}

// All tokens in an order that the salt decides.
std::vector<std::int64_t> shuffled(const Case& c, std::uint64_t salt) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(c.rows));
  std::iota(tokens.begin(), tokens.end(), std::int64_t{0});
  std::sort(tokens.begin(), tokens.end(), [&](std::int64_t a, std::int64_t b) {
    const std::uint64_t x = word_of(c, salt, a, 0);
    const std::uint64_t y = word_of(c, salt, b, 0);
    return x != y ? x < y : a < b;
  });
  return tokens;
}

// The experts of each token, ascending. With k the experts take turns in one order of the tokens, so that no token has
// more than k; without it each has an order of its own.
std::vector<std::vector<std::int32_t>> experts_of_tokens(const Case& c) {
  std::vector<std::vector<std::int32_t>> of(static_cast<std::size_t>(c.rows));
  const bool takes_turns = moe_case(c).k > 0;
  std::vector<std::int64_t> order = takes_turns ? shuffled(c, 0x70CE) : std::vector<std::int64_t>();
  std::size_t next = 0;
  for (std::int64_t e = 0; e < moe_experts(c); ++e) {
    const auto at = static_cast<std::size_t>(e);
    const auto size = static_cast<std::size_t>(c.experts[at + 1] - c.experts[at]);
    if (!takes_turns && size != 0) order = shuffled(c, mix64(static_cast<std::uint64_t>(e)) ^ 0x70CE);
    if (!takes_turns) next = 0;
    for (std::size_t i = 0; i < size; ++i, ++next)
      of[static_cast<std::size_t>(order[next % order.size()])].push_back(static_cast<std::int32_t>(e));
  }
  return of;
}

// Weights that are special: zeros, one that vanishes beside others, what no router gives.
constexpr std::array<float, 8> kWeights{0,
                                        -0.0F,
                                        -1,
                                        0x1p-149F,
                                        0x1p-100F,
                                        0x1p100F,
                                        std::numeric_limits<float>::infinity(),
                                        std::numeric_limits<float>::quiet_NaN()};

float weight_of(const Case& c, std::int64_t token, std::int32_t expert) {
  const std::uint64_t word = word_of(c, 0x3E16, token, static_cast<std::uint64_t>(expert));
  const float usual = (1 + static_cast<float>(word >> 41) * 0x1p-23F) * (word % 5 == 0 ? 0x1p-5F : 0x1p-1F);
  switch (c.data) {
    case Data::zeros: return 1;
    case Data::codes: return word % 2 == 0 ? 0.5F : 0.25F;
    case Data::specials: return (word >> 8) % 8 == 0 ? kWeights[(word >> 16) % kWeights.size()] : usual;
    case Data::wide: return usual * (word % 3 == 0 ? 0x1p-30F : 1.0F);
    case Data::boundaries: {
      static constexpr std::array<float, 6> kFew{1, 0.5F, 1 + 0x1p-23F, 0.75F, 1 - 0x1p-24F, 0x1.555556p-2F};
      return kFew[word_of(c, 0x3E16, token, kDropped) % kFew.size()];  // of all of a token's rows, which cancel
    }
    default: return usual;
  }
}

struct Slot {
  std::uint64_t key;
  std::int32_t expert;
};

// Best first is any order of experts, with dropped routes anywhere.
std::vector<Slot> slots_of_choice(const Case& c, std::int64_t token, const std::vector<std::int32_t>& experts) {
  std::vector<Slot> slots;
  for (const std::int32_t e : experts) slots.push_back({word_of(c, 0x5107, token, static_cast<std::uint64_t>(e)), e});
  for (std::uint64_t i = 0; std::ssize(slots) < moe_case(c).k; ++i)
    slots.push_back({word_of(c, 0x5107, token, kDropped + i), -1});
  std::sort(slots.begin(), slots.end(), [](const Slot& a, const Slot& b) { return a.key < b.key; });
  return slots;
}

std::vector<Slot> slots_of_rounding(const Case& c, std::int64_t token, const std::vector<std::int32_t>& experts) {
  std::vector<Slot> slots;
  for (const std::int32_t e : experts) slots.push_back({0, e});
  const std::uint64_t word = word_of(c, 0xD209, token, kDropped);
  if (word % 100 < static_cast<std::uint64_t>(moe_case(c).drops))
    slots.insert(slots.begin() + static_cast<std::ptrdiff_t>((word >> 32) % (slots.size() + 1)), {0, -1});
  return slots;
}

}  // namespace

MoeSlots expand_moe_slots(const Case& c) {
  MoeSlots all{{0}, {}, {}};
  const std::vector<std::vector<std::int32_t>> experts = experts_of_tokens(c);
  for (std::int64_t t = 0; t < c.rows; ++t) {
    const auto& of_token = experts[static_cast<std::size_t>(t)];
    for (const Slot& slot : moe_case(c).k > 0 ? slots_of_choice(c, t, of_token) : slots_of_rounding(c, t, of_token)) {
      all.experts.push_back(slot.expert);
      all.weights.push_back(weight_of(c, t, slot.expert));
    }
    all.token_offsets.push_back(std::ssize(all.experts));
  }
  return all;
}

}  // namespace mxcheck
