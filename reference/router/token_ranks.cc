#include "reference/router/token_ranks.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"

namespace mxcheck {
namespace {

using Keys = std::vector<std::uint64_t>;

std::int64_t size_of(const Keys& keys) { return static_cast<std::int64_t>(keys.size()); }

// The smallest `count` keys to the front, in no order.
void select(Keys& keys, std::int64_t count) {
  if (count < size_of(keys)) std::nth_element(keys.begin(), keys.begin() + count, keys.end());
}

std::int32_t token_of(std::uint64_t key) { return static_cast<std::int32_t>(key & 0xFFFFFFFFU); }

std::vector<std::int32_t> ascending_tokens(const Keys& keys) {
  std::vector<std::int32_t> tokens;
  tokens.reserve(keys.size());
  for (const std::uint64_t key : keys) tokens.push_back(token_of(key));
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

// In squares that stay in the cache.
std::vector<float> transposed(std::span<const float> scores, std::int64_t tokens, std::int64_t experts, int threads) {
  constexpr std::int64_t kSquare = 32;
  std::vector<float> columns;
  resize_or_throw(columns, tokens * experts, "scores by expert");
  parallel_ranges(ceil_div(tokens, kSquare), tokens * experts, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t square = begin; square < end; ++square) {
      const std::int64_t last = std::min((square + 1) * kSquare, tokens);
      for (std::int64_t e0 = 0; e0 < experts; e0 += kSquare) {
        for (std::int64_t e = e0; e < std::min(e0 + kSquare, experts); ++e) {
          for (std::int64_t t = square * kSquare; t < last; ++t) {
            columns[static_cast<std::size_t>(e * tokens + t)] = scores[static_cast<std::size_t>(t * experts + e)];
          }
        }
      }
    }
  });
  return columns;
}

}  // namespace

TokenRanks::TokenRanks(const RouteMetadata& chosen, std::span<const float> scores, std::int64_t tokens, int threads)
    : metadata_(chosen),
      tokens_(tokens),
      scores_(transposed(scores, tokens, static_cast<std::int64_t>(chosen.counts.size()), threads)) {}

std::span<const std::int32_t> TokenRanks::chosen(std::int64_t expert) const {
  const auto e = static_cast<std::size_t>(expert);
  return std::span(metadata_.row_token)
      .subspan(static_cast<std::size_t>(metadata_.offsets[e]), static_cast<std::size_t>(metadata_.counts[e]));
}

// Keys ascend where preference descends: the bits of a score >= +0 are ordered as the scores are.
std::uint64_t TokenRanks::key(std::int64_t expert, std::int64_t token) const {
  const float score = scores_[static_cast<std::size_t>(expert * tokens_ + token)] + 0.0F;  // -0 becomes +0
  return static_cast<std::uint64_t>(0x7FFFFFFFU - std::bit_cast<std::uint32_t>(score)) << 32 |
         static_cast<std::uint32_t>(token);
}

Keys TokenRanks::keys_of_chosen(std::int64_t expert) const {
  Keys keys;
  for (const std::int32_t token : chosen(expert)) keys.push_back(key(expert, token));
  return keys;
}

Keys TokenRanks::keys_of_others(std::int64_t expert) const {
  const std::span<const std::int32_t> skipped = chosen(expert);
  Keys keys;
  keys.reserve(static_cast<std::size_t>(tokens_) - skipped.size());
  auto next = skipped.begin();
  for (std::int64_t token = 0; token < tokens_; ++token) {
    if (next != skipped.end() && *next == token) {
      ++next;
    } else {
      keys.push_back(key(expert, token));
    }
  }
  return keys;
}

std::vector<std::int32_t> TokenRanks::first(std::int64_t expert, std::int64_t count) const {
  Keys keys = keys_of_chosen(expert);
  const std::int64_t f = size_of(keys);
  if (count < f) {
    select(keys, count);
    keys.resize(static_cast<std::size_t>(count));
  } else if (count > f) {
    Keys others = keys_of_others(expert);
    select(others, count - f);
    keys.insert(keys.end(), others.begin(), others.begin() + (count - f));
  }
  return ascending_tokens(keys);
}

std::vector<std::int32_t> TokenRanks::first_by_score(std::int64_t expert, std::int64_t count) const {
  Keys keys;
  keys.reserve(static_cast<std::size_t>(tokens_));
  for (std::int64_t token = 0; token < tokens_; ++token) keys.push_back(key(expert, token));
  select(keys, count);
  keys.resize(static_cast<std::size_t>(count));
  return ascending_tokens(keys);
}

std::vector<float> TokenRanks::scores_around_chosen(std::int64_t expert, std::int64_t begin, std::int64_t end) const {
  Keys keys = keys_of_chosen(expert);
  const std::int64_t f = size_of(keys);
  select(keys, begin);
  keys.erase(keys.begin(), keys.begin() + begin);
  std::sort(keys.begin(), keys.end());
  Keys others = keys_of_others(expert);
  select(others, end - f);
  others.resize(static_cast<std::size_t>(end - f));
  std::sort(others.begin(), others.end());
  keys.insert(keys.end(), others.begin(), others.end());
  std::vector<float> scores;
  scores.reserve(keys.size());
  for (const std::uint64_t key : keys) {
    scores.push_back(scores_[static_cast<std::size_t>(expert * tokens_ + token_of(key))]);
  }
  return scores;
}

}  // namespace mxcheck
