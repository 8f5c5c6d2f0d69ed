#pragma once
// For definitions.cc, step_slips.cc and swiglu_slips.cc alone: the slips of each step, and what they share.

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "properties/operations/layer/definitions.h"
#include "reference/layer/run.h"

namespace mxcheck {

std::vector<LayerRow> swiglu_slips();           // A, and A again
std::vector<LayerRow> swiglu_gradient_slips();  // A', dH
std::vector<LayerRow> weight_gradient_slips();  // dS
std::vector<LayerRow> slot_sum_slips();         // O, dX
std::vector<LayerRow> gather_slips();           // rows of X and dO
std::vector<LayerRow> weight_slips();           // W1, W2
std::vector<LayerRow> gemm_slips();             // values, rows and roundings of a GEMM
std::vector<LayerRow> block_slips();            // blocks along tokens

// The tensor with the layer changed first.
inline LayerRow changed_layer(std::vector<std::string> tensors, const char* text, void (*change)(LayerData&)) {
  return {std::move(tensors), text, [change](const LayerData& d, const std::string& t) {
            LayerData v = d;
            change(v);
            return made_again(v, t);
          }};
}

inline std::uint16_t truncated(float x) {
  return std::isnan(x) ? std::uint16_t{0x7FFF} : static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
}
inline float bf16(float x) { return fp32_of(layer_bf16(x)); }

// One element of SwiGLU: its gate and up value, and in the backward pass P and A, and the row's weight.
struct Element {
  float g = 0, u = 0, p = 0, a = 0, s = 0;
};

struct Columns {
  std::size_t gate, up;
};
inline Columns columns_of(GateUp order, std::size_t j, std::size_t n) {
  return order == GateUp::halves ? Columns{j, n + j} : Columns{2 * j, 2 * j + 1};
}

// body(row, j, element, columns) for every element of the layer's inner tensors.
template <class Body>
void each_element(const LayerData& d, const std::vector<float>& h, bool backward, Body body) {
  const auto n = static_cast<std::size_t>(d.shape.inner);
  for (std::size_t row = 0; row < d.routes.row_weight.size(); ++row) {
    for (std::size_t j = 0; j < n; ++j) {
      const Columns at = columns_of(d.gate_up, j, n);
      Element e{h[row * 2 * n + at.gate], h[row * 2 * n + at.up], 0, 0, d.routes.row_weight[row]};
      if (backward) e.p = d.backward.p[row * n + j], e.a = fp32_of(d.backward.a[row * n + j]);
      body(row, j, e, Columns{row * 2 * n + at.gate, row * 2 * n + at.up});
    }
  }
}

}  // namespace mxcheck
