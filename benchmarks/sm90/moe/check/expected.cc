// expected_rows: the reference of a part of a layer, cut into what the part says of the whole.

#include <algorithm>
#include <array>
#include <utility>

#include "benchmarks/sm90/moe/check/sublayer.h"
#include "numerics/bytes.h"
#include "numerics/format/packing.h"

namespace mxcheck::bench {
namespace {

// An operand that has one scale of all its numbers, which a part does not know.
bool needs_whole_tensors(const LayerRecipe& recipe) {
  return std::ranges::any_of(recipe.gemms, [](const GemmRule& g) {
    return (g.a.quantized() && g.a.of_whole_tensor()) || (g.b.quantized() && g.b.of_whole_tensor());
  });
}

// Blocks along d or n that several tokens of an expert share.
bool shares_rows(const OperandRule& rule) { return rule.quantized() && rule.block.rows != 1; }

// E5M6: each row by itself, eight codes in three words, the last group filled up with zeros.
std::vector<std::byte> packed_rows(const QuantizedTensor& q) {
  constexpr auto kGroup = static_cast<std::int64_t>(kE5m6CodesPerGroup);
  const std::int64_t padded = (q.cols() + kGroup - 1) / kGroup * kGroup;
  std::vector<std::uint16_t> codes(static_cast<std::size_t>(q.rows() * padded));
  for (std::int64_t row = 0; row < q.rows(); ++row) {
    std::copy_n(q.codes.as<std::uint16_t>().begin() + row * q.cols(), q.cols(), codes.begin() + row * padded);
  }
  return to_bytes(pack_e5m6(codes));
}

// The form in which a tensor is kept is added: BF16, or codes and scales.
void add_kept(const LayerOperand& kept, const std::array<const char*, 3>& names, const std::vector<std::int64_t>& rows,
              std::vector<ExpectedRows>& to) {
  if (!kept.is_quantized) {
    to.push_back({names[0], rows, to_bytes(kept.values)});
    return;
  }
  const QuantizedTensor& q = kept.quantized;
  to.push_back({names[1], rows, size_of(q.element()) == 1 ? q.codes.data : packed_rows(q)});
  to.push_back({names[2], rows, q.scales().data});
}

// Rows of weights: `each` of them an expert.
std::vector<std::int64_t> weight_rows(const std::vector<std::int64_t>& experts, std::int64_t each) {
  std::vector<std::int64_t> rows;
  for (const std::int64_t e : experts) {
    for (std::int64_t i = 0; i < each; ++i) rows.push_back(e * each + i);
  }
  return rows;
}

}  // namespace

std::vector<ExpectedRows> expected_rows(const Sublayer& s, GateUp gate_up, const LayerRecipe& recipe) {
  std::vector<ExpectedRows> out;
  if (s.rows.empty() || (s.part != Part::whole && needs_whole_tensors(recipe))) return out;
  const bool all_of_token = s.part != Part::experts;
  const bool all_of_expert = s.part != Part::tokens;
  const bool rows_alone =
      !shares_rows(recipe.gemm(LayerGemm::d_down).a) && !shares_rows(recipe.gemm(LayerGemm::d_up).a);
  const Layer layer{s.shape, &recipe, gate_up, s.w1, s.w2};

  LayerForward f = layer_forward(layer, s.x, s.routes);
  const LayerKept kept = std::move(f.kept);
  add_kept(kept.h, {"h", "h", "h scales"}, s.rows, out);
  if (recipe.keeps_quantized_x) add_kept(kept.x, {"x", "x codes", "x scales"}, s.tokens, out);
  if (all_of_token) out.push_back({"o", s.tokens, to_bytes(f.o)});
  f = {};  // the backward pass of a whole layer needs the memory
  if (!all_of_expert && !rows_alone) return out;

  const LayerBackward b = layer_backward(layer, kept, s.d_o, s.routes);
  out.push_back({"ds", s.rows, to_bytes(b.ds)});
  if (all_of_token) out.push_back({"dx", s.tokens, to_bytes(b.dx)});
  if (all_of_expert) {
    out.push_back({"dw1", weight_rows(s.experts, s.shape.width), to_bytes(b.dw1)});
    out.push_back({"dw2", weight_rows(s.experts, s.shape.inner), to_bytes(b.dw2)});
  }
  return out;
}

}  // namespace mxcheck::bench
