#pragma once
// A mixture-of-experts layer, forward and backward, to the bit: SonicMoE's eight steps under a recipe. docs/layer.md
// has the definition.
//
// Shapes, row-major. T tokens, d their width, n an expert's, E experts, R routed rows (sorted by expert, stable).
//   X, O, dO, dX   T x d      BF16
//   W1             E x d x 2n BF16, gate and up columns in halves or interleaved; W2 E x n x d BF16
//   H, dH          R x 2n     BF16; A, A' R x n BF16; P R x n FP32; Y, dX~ R x d BF16; dS R FP32
//   dW1, dW2       as W1, W2  FP32, exact zeros for an expert without rows
//
//   H = X[gather] W1;  A = swiglu(H);  Y = A W2;  O_t = BF16(sum over the token's rows r of s_r Y_r)
//   P = dO[gather] W2^T;  A, A', dH, dS from H and P (reference/layer/swiglu.h)
//   dW2 = A'^T dO[gather];  dX~ = dH W1^T;  dW1 = X[gather]^T dH;  dX_t = BF16(sum of the token's dX~_r)
//
// Every product is a matmul (reference/matmul/matmul.h) of operands made by the recipe, under its contract. The sums of
// O and dX are FP32 from +0, in the order of the token's slots: acc = fma(s, Y, acc), acc = RN(acc + dX~), rounded to
// BF16 at the end; a token without rows has +0. Every NaN in BF16 is 0x7FFF, in FP32 0x7FFFFFFF.
//
//   const Layer layer{{tokens, d, n, experts}, &layer_recipe_named("mxfp8"), GateUp::halves, w1, w2};
//   const LayerRoutes routes = layer_routes(route(router, logits), experts);
//   const LayerForward f = layer_forward(layer, x, routes);
//   const LayerBackward b = layer_backward(layer, f.kept, d_o, routes);
//
// Errors: Error{usage} for a recipe that cannot be (check) and sizes that do not agree, naming both; Error{input} for
// routes that are none. Threads (0: the machine's) change nothing but the time.
//
// A product's D is round(RN(alpha * acc)) under a recipe with scales of two levels (reference/layer/operands.h).
//
// Does not promise: biases, padding of rows, or anything over several devices.

#include <cstdint>
#include <span>
#include <vector>

#include "reference/layer/layer_recipe.h"
#include "reference/layer/operands.h"
#include "reference/layer/routes.h"
#include "reference/layer/swiglu.h"

namespace mxcheck {

struct LayerShape {
  std::int64_t tokens = 0;
  std::int64_t width = 0;  // d
  std::int64_t inner = 0;  // n
  std::int64_t experts = 0;
};

// Outputs of two GEMMs, computed elsewhere. A layer that has them computes no product: other GEMMs' outputs are +0.
struct KnownProducts {
  std::span<const std::uint16_t> h;  // up's, R x 2n
  std::span<const float> p;          // d_down's, R x n
};

struct Layer {
  LayerShape shape;
  const LayerRecipe* recipe = nullptr;
  GateUp gate_up = GateUp::halves;
  std::span<const std::uint16_t> w1;
  std::span<const std::uint16_t> w2;
  int threads = 0;
  const KnownProducts* known = nullptr;  // for a look at the operands alone
  LayerRandom random;                    // of a recipe that rounds stochastically
};

// Tensors that are kept for the backward pass, beside weights and routes.
struct LayerKept {
  LayerOperand x;  // BF16, or up's operand
  LayerOperand h;  // BF16, or quantized in blocks of its rows
};
// Bytes of that in memory: codes packed (E5M6: 12 bits), scales of 1 byte or 4.
std::int64_t kept_bytes(const LayerKept& kept);

// Every intermediate; operands as their GEMMs read them.
struct LayerForward {
  LayerOperand up_a, up_b;  // X; W1^T, experts x 2n x d
  std::vector<std::uint16_t> h;
  std::vector<std::uint16_t> a;
  LayerOperand down_a, down_b;  // A; W2^T, experts x d x n
  std::vector<std::uint16_t> y;
  std::vector<std::uint16_t> o;
  LayerKept kept;
};
LayerForward layer_forward(const Layer& layer, std::span<const std::uint16_t> x, const LayerRoutes& routes);

struct LayerBackward {
  LayerOperand d_down_a, d_down_b;  // dO; W2
  std::vector<float> p;
  std::vector<std::uint16_t> a;  // from the H that was kept
  std::vector<std::uint16_t> scaled_a;
  std::vector<std::uint16_t> dh;
  std::vector<float> ds;
  LayerOperand d_w2_a, d_w2_b;  // A', dO, both along tokens
  std::vector<float> dw2;
  LayerOperand d_up_a, d_up_b;  // dH; W1
  std::vector<std::uint16_t> dx_rows;
  LayerOperand d_w1_a, d_w1_b;  // X, dH, both along tokens
  std::vector<float> dw1;
  std::vector<std::uint16_t> dx;
};
LayerBackward layer_backward(const Layer& layer, const LayerKept& kept, std::span<const std::uint16_t> d_o,
                             const LayerRoutes& routes);

}  // namespace mxcheck
