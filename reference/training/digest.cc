#include "reference/training/digest.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "reference/common/parallel.h"

namespace mxcheck {
namespace {

// The finalizer of SplitMix64.
constexpr std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9;
  x ^= x >> 27;
  x *= 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

constexpr std::uint64_t term(std::int64_t i, std::uint64_t word) {
  return mix(mix(static_cast<std::uint64_t>(i) + 1) ^ word);
}

// The sum of all terms: modulo 2^64 its order does not matter.
template <class Word>
std::uint64_t digest(std::int64_t count, int threads, Word word) {
  constexpr std::int64_t kPart = 1 << 16;
  std::vector<std::uint64_t> parts(static_cast<std::size_t>((count + kPart - 1) / kPart));
  parallel_ranges(std::ssize(parts), count, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      std::uint64_t sum = 0;
      const std::int64_t last = std::min(count, (part + 1) * kPart);
      for (std::int64_t i = part * kPart; i < last; ++i) sum += term(i, word(static_cast<std::size_t>(i)));
      parts[static_cast<std::size_t>(part)] = sum;
    }
  });
  std::uint64_t sum = 0;
  for (const std::uint64_t part : parts) sum += part;
  return sum;
}

}  // namespace

std::uint64_t tensor_digest(std::span<const float> values, int threads) {
  return digest(std::ssize(values), threads, [&](std::size_t i) -> std::uint64_t {
    return std::isnan(values[i]) ? 0x7FFFFFFFU : std::bit_cast<std::uint32_t>(values[i]);
  });
}

std::uint64_t tensor_digest(std::span<const std::uint16_t> bf16, int threads) {
  return digest(std::ssize(bf16), threads,
                [&](std::size_t i) -> std::uint64_t { return (bf16[i] & 0x7FFFU) > 0x7F80U ? 0x7FFFU : bf16[i]; });
}

std::uint64_t digest_of_digests(std::span<const std::uint64_t> digests) {
  return digest(std::ssize(digests), 1, [&](std::size_t i) { return digests[i]; });
}

}  // namespace mxcheck
