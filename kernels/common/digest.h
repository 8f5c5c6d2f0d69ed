#pragma once
// The digest of a tensor: the sum modulo 2^64 over its words i, from 0, of mix(mix(i + 1) xor word). Any order of work
// gives it. docs/training.md has the formula; a word is an element there, and 8 bytes of weights that are kept.
//
// A difference in one word always changes the digest, for mix is a bijection. Two tensors that differ in several words,
// as by an exchange, have the same digest with probability 2^-64 where nobody chose them for it. It is no signature.

#include <cstdint>

#ifdef __CUDACC__
  #define MXCHECK_DIGEST __host__ __device__ constexpr
#else
  #define MXCHECK_DIGEST constexpr
#endif

namespace mxcheck_kernels {

// The finalizer of SplitMix64.
MXCHECK_DIGEST std::uint64_t digest_mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9;
  x ^= x >> 27;
  x *= 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

MXCHECK_DIGEST std::uint64_t digest_term(std::uint64_t index, std::uint64_t word) {
  return digest_mix(digest_mix(index + 1) ^ word);
}

}  // namespace mxcheck_kernels
