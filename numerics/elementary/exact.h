#pragma once
// exp and log with about 100 bits, rounded once to FP32: the second step of numerics/elementary.cc. Slow.
//
// 100 bits are enough: for an x other than 0 (exp) or 1 (log) the result is transcendental, so never halfway between
// two FP32, and how near it comes to halfway is decided among 2^32 inputs, some 60 bits after the leading one. Where
// the reason is another (exp(x) next to 1, log1p(x) next to x) the distance is x^2 / 2 or more.

namespace mxcheck {

float exact_exp(double x);  // -105 < x < 90

// log(2^n * (1 + f)), |f| < 0.5; not 0.
float exact_log(double f, int n);

}  // namespace mxcheck
