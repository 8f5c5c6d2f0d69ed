#pragma once
// Counter-based random words: word i of a seed is a pure function of (seed, i), so that a case expands to the same
// tensor in any order, on any thread, on host and device. The mixer is the finalizer of SplitMix64 (Steele, Lea, Flood
// 2014), applied twice. Not for cryptography.

#include <cstdint>
#include <string_view>

namespace mxcheck {

constexpr std::uint64_t mix64(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

constexpr std::uint64_t random_word(std::uint64_t seed, std::uint64_t index) { return mix64(seed ^ mix64(index)); }

// The seed of a named part of a run: filtering parts out does not change the others.
constexpr std::uint64_t derived_seed(std::uint64_t root, std::string_view name) {
  std::uint64_t h = root;
  for (char c : name) h = mix64(h ^ static_cast<unsigned char>(c));
  return h;
}

// A stream of words for drawing a descriptor's fields one after the other.
class Draw {
 public:
  explicit constexpr Draw(std::uint64_t seed) : seed_(seed) {}
  constexpr std::uint64_t word() { return random_word(seed_, next_++); }
  constexpr std::uint64_t below(std::uint64_t n) {  // uniform up to a bias of n / 2^64
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(word()) * n) >> 64);
  }
  constexpr std::int64_t between(std::int64_t low, std::int64_t high) {  // inclusive
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low + 1)));
  }
  constexpr bool chance(std::uint64_t percent) { return below(100) < percent; }
  template <class Container>
  constexpr auto pick(const Container& from) {
    return from[below(std::size(from))];
  }

 private:
  std::uint64_t seed_;
  std::uint64_t next_ = 0;
};

}  // namespace mxcheck
