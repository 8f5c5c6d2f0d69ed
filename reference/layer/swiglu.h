#pragma once
// SwiGLU and its gradient, element by element, with every rounding stated. RN is to FP32, nearest, ties to even,
// subnormals kept; exp is correctly rounded (numerics/elementary/elementary.h); fma rounds once.
//
//   q  = RN(1 / RN(1 + exp(-g)))                        the sigmoid
//   a  = RN(RN(g * q) * u)                              A  = BF16(a)
//   du = RN(dA * RN(g * q))                             BF16(du), BF16(dg) are dH
//   dg = RN(dA * RN(u * RN(q * fma(g, RN(1 - q), 1))))
//
// where dA = RN(s * P), P the gradient that arrives through W2, s the weight of the route. A' = BF16(RN(s * A)), and
// dS, the gradient of s, is the pairwise sum of RN(P * A) over the row; both of A, which is rounded to BF16.
//
// dg multiplies dA last: u * q' is at most 1.1 |u|, so that for |u| < 2^127 no intermediate overflows and makes 0 *
// Inf. dA * u, as others have it, can be Inf where q' is 0.
//
// Special values are those of IEEE arithmetic, without a guard:
//   g <= -88.73, finite   exp(-g) is Inf, q is +0: a and both gradients are zeros. Exact would be |a| < 2^-121 |u|
//   g >= 16.64, finite    q is 1, RN(1 - q) is 0, the derivative 1: a = g * u, dg = dA * u
//   g = 0                 q is 1/2: a = 0, dg = dA * u / 2, du = 0
//   g = -Inf              g * q is -Inf * 0: a, du and dg are NaN (where the limits of silu and its derivative are 0)
//   g = +Inf              a and du are infinite or, times 0, NaN; dg is NaN (Inf * (1 - q))
//   g = NaN               all are NaN
// So an infinite g, which is a BF16 H that overflowed, shows as NaN and not as a plausible zero; and no finite g makes
// 0 * Inf where dA is finite and |u| < 2^127: q is at most 1 and g * q at most |g|.
//
// In BF16 every NaN is 0x7FFF, in FP32 0x7FFFFFFF, as in D of a matmul. No errors.

#include <cstdint>
#include <span>

namespace mxcheck {

// BF16 nearest to x, ties to even, Inf beyond its range. The two NaN words are in the header's text.
std::uint16_t layer_bf16(float x);
float layer_fp32(float x);  // x; any NaN as 0x7FFFFFFF

float swiglu_sigmoid(float g);   // q
float swiglu(float g, float u);  // a, in FP32
struct SwigluGradient {
  float dg = 0;
  float du = 0;
};
SwigluGradient swiglu_gradient(float g, float u, float da);  // in FP32

// Where a row of 2n columns has the gate and the up value of j: in halves j and n + j, interleaved 2j and 2j + 1.
enum class GateUp : std::uint8_t { halves, interleaved };

// A row of H (2n numbers) to n words of A.
void swiglu_row(std::span<const float> h, GateUp order, std::span<std::uint16_t> a);

// The outputs of the backward pass for a row of H (2n), the row of P (n) and the row's weight.
struct SwigluRowGradient {
  std::span<std::uint16_t> a;         // n: A again
  std::span<std::uint16_t> scaled_a;  // n: A'
  std::span<std::uint16_t> dh;        // 2n, in the order of H
};
float swiglu_row_gradient(std::span<const float> h, GateUp order, std::span<const float> p, float weight,
                          const SwigluRowGradient& out);  // returns dS

}  // namespace mxcheck
