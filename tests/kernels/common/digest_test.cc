// The digest of a tensor: its terms by hand, and the changes that it always shows.

#include "kernels/common/digest.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace mxcheck_kernels {
namespace {

std::uint64_t digest_of(const std::vector<std::uint64_t>& words) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < words.size(); ++i) sum += digest_term(i, words[i]);
  return sum;
}

std::vector<std::uint64_t> some_words() {
  std::vector<std::uint64_t> words;
  for (std::uint64_t i = 0; i < 64; ++i) words.push_back(i < 8 ? 0 : digest_mix(i));  // zeros, as of weights that died
  return words;
}

TEST(Digest, its_terms_are_splitmix64s) {
  EXPECT_EQ(digest_term(0, 0), digest_mix(digest_mix(1)));
  EXPECT_EQ(digest_term(0, 1), digest_mix(digest_mix(1) ^ 1));
  EXPECT_EQ(digest_of({5, 7}), digest_term(0, 5) + digest_term(1, 7));
}

TEST(Digest, one_bit_always_changes_it) {
  const std::vector<std::uint64_t> words = some_words();
  const std::uint64_t before = digest_of(words);
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (int bit = 0; bit < 64; ++bit) {
      std::vector<std::uint64_t> changed = words;
      changed[i] ^= std::uint64_t{1} << bit;
      ASSERT_NE(digest_of(changed), before) << "word " << i << ", bit " << bit;
    }
  }
}

// Words that differ in one bit are where a sum of products of place and word would repeat.
TEST(Digest, exchanged_words_change_it) {
  const std::vector<std::uint64_t> words = some_words();
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (int bit = 0; bit < 64; ++bit) {
      std::vector<std::uint64_t> one = words;
      one[(i + 1) % one.size()] = one[i] ^ std::uint64_t{1} << bit;
      std::vector<std::uint64_t> other = one;
      std::swap(other[i], other[(i + 1) % other.size()]);
      ASSERT_NE(digest_of(one), digest_of(other)) << "words from " << i << ", bit " << bit;
    }
  }
}

}  // namespace
}  // namespace mxcheck_kernels
