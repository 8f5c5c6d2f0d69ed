#include "reference/layer/swiglu.h"

#include <bit>
#include <cmath>
#include <vector>

#include "numerics/elementary/elementary.h"
#include "numerics/format/codec.h"

namespace mxcheck {
namespace {

struct Columns {
  std::size_t gate;
  std::size_t up;
};
Columns columns_of(GateUp order, std::size_t j, std::size_t n) {
  return order == GateUp::halves ? Columns{j, n + j} : Columns{2 * j, 2 * j + 1};
}

float fp32_of(std::uint16_t bf16) { return std::bit_cast<float>(std::uint32_t{bf16} << 16); }

}  // namespace

std::uint16_t layer_bf16(float x) {
  if (std::isnan(x)) return 0x7FFF;
  return encode<Bf16>(x, Rounding::nearest_even, Overflow::non_saturate).bits;
}

float layer_fp32(float x) { return std::isnan(x) ? std::bit_cast<float>(0x7FFFFFFFU) : x; }

float swiglu_sigmoid(float g) { return 1.0F / (1.0F + exp_rn(-g)); }

float swiglu(float g, float u) { return (g * swiglu_sigmoid(g)) * u; }

SwigluGradient swiglu_gradient(float g, float u, float da) {
  const float q = swiglu_sigmoid(g);
  const float derivative = q * std::fma(g, 1.0F - q, 1.0F);
  return {da * (u * derivative), da * (g * q)};
}

void swiglu_row(std::span<const float> h, GateUp order, std::span<std::uint16_t> a) {
  for (std::size_t j = 0; j < a.size(); ++j) {
    const Columns at = columns_of(order, j, a.size());
    a[j] = layer_bf16(swiglu(h[at.gate], h[at.up]));
  }
}

float swiglu_row_gradient(std::span<const float> h, GateUp order, std::span<const float> p, float weight,
                          const SwigluRowGradient& out) {
  const std::size_t n = p.size();
  swiglu_row(h, order, out.a);
  std::vector<float> products(n);
  for (std::size_t j = 0; j < n; ++j) {
    const Columns at = columns_of(order, j, n);
    const float a = fp32_of(out.a[j]);
    const SwigluGradient d = swiglu_gradient(h[at.gate], h[at.up], weight * p[j]);
    out.dh[at.gate] = layer_bf16(d.dg);
    out.dh[at.up] = layer_bf16(d.du);
    out.scaled_a[j] = layer_bf16(weight * a);
    products[j] = p[j] * a;
  }
  return layer_fp32(pairwise_sum(products));
}

}  // namespace mxcheck
