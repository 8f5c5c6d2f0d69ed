#pragma once
// exp and log with about 100 bits, rounded once to FP32: the slow second step of elementary.cc, where doubles leave the
// rounding open.
//
// 100 bits are enough: for an x other than 0 (exp) or 1 (log) the result is transcendental, so never halfway between
// two FP32, and the nearest to halfway among 2^32 inputs differs from it some 60 bits after the leading one. Next to
// exp(x) = 1 and log1p(x) = x, where results are near to halfway for another reason, the distance is x^2 / 2 or more.
//
// No errors; arguments outside the ranges below are not checked.

namespace mxcheck {

float exact_exp(double x);  // -105 < x < 90

// log(2^n * (1 + f)), |f| < 0.5; not 0.
float exact_log(double f, int n);

}  // namespace mxcheck
