#pragma once
// exp, log1p and log of FP32 numbers, correctly rounded: the FP32 number nearest to the exact value, ties to even
// (there are none but at exact results), subnormal results included. Defined by the exact value, not by an algorithm,
// so that any implementation can be compared with it; the sum of a row in a fixed order; and the random words of
// stochastic rules.
//
// No errors. No libm decides a bit of any result (elementary.cc says how).

#include <array>
#include <cstdint>
#include <span>

namespace mxcheck {

// NaN gives NaN; exp(-Inf) = +0, exp(+Inf) = +Inf, above FP32's range +Inf.
float exp_rn(float x);

// log(1 + x) for x >= 0; +Inf gives +Inf, -0 gives -0, NaN and x < 0 give NaN.
float log1p_rn(float x);

// log(x) for x > 0; 0 gives -Inf, +Inf gives +Inf, NaN and x < 0 give NaN.
float log_rn(float x);

// Pairwise, in FP32: neighbours 2i and 2i + 1 are added, then neighbours of those sums, until one is left; a row whose
// length is no power of two counts as followed by +0. Of an empty row: +0.
float pairwise_sum(std::span<const float> values);

// The outputs of Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011) under the key (low, high half of seed) and the
// counter (c0, c1, c2, c3); philox_word is the first of them.
std::array<std::uint32_t, 4> philox_words(std::uint64_t seed, std::uint32_t c0, std::uint32_t c1, std::uint32_t c2,
                                          std::uint32_t c3);
std::uint32_t philox_word(std::uint64_t seed, std::uint32_t c0, std::uint32_t c1, std::uint32_t c2, std::uint32_t c3);

}  // namespace mxcheck
