#include "properties/operations/layer/steps.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "reference/layer/run.h"

namespace mxcheck {
namespace {

const char* output_of(LayerGemm gemm) {
  constexpr std::array<const char*, kLayerGemmCount> kOutputs{"H", "Y", "P", "dX_rows", "dW2", "dW1"};
  return kOutputs.at(static_cast<std::size_t>(gemm));
}

bool along_tokens(LayerGemm gemm) { return gemm == LayerGemm::d_w2 || gemm == LayerGemm::d_w1; }

const LayerOperand& held(const LayerData& d, LayerGemm gemm, Side side) {
  const LayerForward& f = d.forward;
  const LayerBackward& b = d.backward;
  const bool a = side == Side::a;
  switch (gemm) {
    case LayerGemm::up: return a ? f.up_a : f.up_b;
    case LayerGemm::down: return a ? f.down_a : f.down_b;
    case LayerGemm::d_down: return a ? b.d_down_a : b.d_down_b;
    case LayerGemm::d_up: return a ? b.d_up_a : b.d_up_b;
    case LayerGemm::d_w2: return a ? b.d_w2_a : b.d_w2_b;
    case LayerGemm::d_w1: break;
  }
  return a ? b.d_w1_a : b.d_w1_b;
}

// A run over the data, whose layer it refers to.
struct Runner {
  explicit Runner(const LayerData& d) : layer(d.layer()), run(layer, d.routes, "X", d.x.size()) {}
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  Layer layer;
  Run run;
};

LayerOperand weights(const Run& run, const LayerData& d, LayerGemm gemm) {
  const bool first = gemm == LayerGemm::up || gemm == LayerGemm::d_up;
  const Words& w = first ? d.w1 : d.w2;
  const std::int64_t rows = first ? run.d : run.n;
  const std::int64_t cols = first ? 2 * run.n : run.d;
  if (gemm == LayerGemm::up || gemm == LayerGemm::down) return run.forward_weight(gemm);
  LayerOperand forward;
  if (run.requantizes_weight(gemm)) forward = operand_as_held(d, first ? LayerGemm::up : LayerGemm::down, Side::b);
  return run.backward_weight(gemm, view(w, run.experts * rows, cols), &forward);
}

TokenRows rows_of(const LayerData& d, LayerGemm gemm, Side side) {
  const std::int64_t rows = d.rows(), width = d.shape.width, n = d.shape.inner;
  switch (gemm) {
    case LayerGemm::up: return {view(d.x, d.shape.tokens, width), true};
    case LayerGemm::down: return {view(d.forward.a, rows, n), false};
    case LayerGemm::d_down: return {view(d.d_o, d.shape.tokens, width), true};
    case LayerGemm::d_up: return {view(d.backward.dh, rows, 2 * n), false};
    case LayerGemm::d_w2:
      return side == Side::a ? TokenRows{view(d.backward.scaled_a, rows, n), false}
                             : TokenRows{view(d.d_o, d.shape.tokens, width), true};
    case LayerGemm::d_w1: break;
  }
  return side == Side::a ? TokenRows{view(d.x, d.shape.tokens, width), true}
                         : TokenRows{view(d.backward.dh, rows, 2 * n), false};
}

LayerOperand columns(const Run& run, const LayerData& d, LayerGemm gemm, Side side) {
  const OperandRule& rule = rule_of(d.recipe, gemm, side);
  const TokenRows values = rows_of(d, gemm, side);
  const bool b = side == Side::b;
  if (rule.source == OperandSource::values) return run.column(gemm, b, values);
  const LayerGemm from = gemm == LayerGemm::d_w2 ? LayerGemm::d_down
                         : side == Side::a       ? LayerGemm::up
                                                 : LayerGemm::d_up;
  const LayerOperand quantized = operand_as_held(d, from, Side::a);
  const std::vector<float> again = values_of(quantized, d.routes.offsets, d.threads);
  return run.column(gemm, b, {view(again, quantized.rows, quantized.cols), quantized.by_token});
}

Bytes swiglu_tensor(const LayerData& d, const std::string& name) {
  const Runner r(d);
  const bool backward = name != "A";
  std::vector<float> h = values_of_h(d, backward);
  const std::int64_t n = d.shape.inner;
  Words a = sized<std::uint16_t>(d.rows(), n, "A"), scaled = a, dh = sized<std::uint16_t>(d.rows(), 2 * n, "dH");
  std::vector<float> ds(static_cast<std::size_t>(d.rows()));
  std::vector<float> p = d.backward.p;
  if (!backward) p.resize(a.size());
  r.run.each_row(d.rows(), n * 8, [&](std::int64_t row) {
    const auto i = static_cast<std::size_t>(row);
    if (!backward) return swiglu_row(row_of(h, row, 2 * n), d.gate_up, row_of(a, row, n));
    ds[i] = swiglu_row_gradient(row_of(h, row, 2 * n), d.gate_up, row_of(p, row, n), d.routes.row_weight[i],
                                {row_of(a, row, n), row_of(scaled, row, n), row_of(dh, row, 2 * n)});
  });
  return name == "dH" ? to_bytes(dh) : name == "dS" ? to_bytes(ds) : to_bytes(name == "scaled_A" ? scaled : a);
}

Bytes sum_of_slots(const LayerData& d, bool backward) {
  const Words& rows = backward ? d.backward.dx_rows : d.forward.y;
  const std::span<const float> weights = backward ? std::span<const float>() : d.routes.row_weight;
  return to_bytes(
      aggregate({rows, d.rows(), d.shape.width, weights}, {d.routes.token_offsets, d.routes.token_rows}, d.threads));
}

LayerOperand kept_h(const LayerData& d) {
  const Runner r(d);
  return row_operand(d.recipe.kept_h, {view(d.forward.h, d.rows(), 2 * d.shape.inner), false}, r.run.routed(),
                     d.threads);
}

}  // namespace

void set_tensor(LayerData& d, const std::string& name, const Bytes& bytes) {
  for (const LayerTensor& t : tensors_of(d)) {
    if (t.name != name || t.data.size() != bytes.size()) continue;
    if (!bytes.empty()) std::memcpy(t.data.data(), bytes.data(), bytes.size());
    return;
  }
  throw Error(ErrorKind::internal, "no tensor " + name + " of " + std::to_string(bytes.size()) + " bytes");
}

Bytes bytes_of_tensor(LayerData& d, const std::string& name) {
  for (const LayerTensor& t : tensors_of(d)) {
    if (t.name == name) return {t.data.begin(), t.data.end()};
  }
  throw Error(ErrorKind::internal, "no tensor " + name);
}

Bytes part_of(const LayerOperand& x, OperandPart part) {
  const QuantizedTensor& q = x.quantized;
  switch (part) {
    case OperandPart::codes: return q.codes.data;
    case OperandPart::scales: return q.scales().data;
    case OperandPart::outer: return q.levels.size() > 1 ? q.levels[1].scales.data : Bytes();
    case OperandPart::rotated: break;
  }
  return to_bytes(x.rotated);
}

std::optional<GemmTensor> gemm_tensor(const std::string& name) {
  for (const LayerGemmSpec& g : kLayerGemms) {
    if (name == output_of(g.value)) return GemmTensor{g.value, true};
    for (const Side side : {Side::a, Side::b}) {
      const std::string operand = std::string(g.name) + (side == Side::a ? "_a" : "_b");
      if (!name.starts_with(operand + "_")) continue;
      const auto part = value_in(kOperandParts, std::string_view(name).substr(operand.size() + 1));
      if (part) return GemmTensor{g.value, false, side, *part};
    }
  }
  return std::nullopt;
}

const OperandRule& rule_of(const LayerRecipe& recipe, LayerGemm gemm, Side side) {
  return side == Side::a ? recipe.gemm(gemm).a : recipe.gemm(gemm).b;
}
OperandRule& rule_of(LayerRecipe& recipe, LayerGemm gemm, Side side) {
  GemmRule& rule = recipe.gemms[static_cast<std::size_t>(gemm)];
  return side == Side::a ? rule.a : rule.b;
}

LayerOperand operand_from_values(const LayerData& d, LayerGemm gemm, Side side) {
  const Runner r(d);
  if (along_tokens(gemm)) return columns(r.run, d, gemm, side);
  if (side == Side::b) return weights(r.run, d, gemm);
  return r.run.row(gemm, rows_of(d, gemm, side));
}

LayerOperand operand_as_held(const LayerData& d, LayerGemm gemm, Side side) {
  // An operand that is not quantized has no tensor of its own: it is the values.
  const OperandRule& rule = rule_of(d.recipe, gemm, side);
  const LayerOperand& x = held(d, gemm, side);
  const BlockShape block = along_tokens(gemm) ? rule.block.transposed() : rule.block;
  const bool by_rule = x.is_quantized && x.quantized.element() == rule.format && x.quantized.block() == block;
  return rule.quantized() && by_rule ? x : operand_from_values(d, gemm, side);
}

Bytes product(const LayerData& d, LayerGemm gemm, const LayerOperand& a, const LayerOperand& b, bool in_fp32) {
  const GemmRule& rule = d.recipe.gemm(gemm);
  const Depth depth = along_tokens(gemm) ? Depth::rows : Depth::columns;
  Matmul m;
  m.contract = parse_matmul_contract(rule.contract);
  m.output = in_fp32 ? Format::fp32 : spec(gemm).output;
  m.offsets = d.routes.offsets, m.threads = d.threads;
  m.grouping = along_tokens(gemm) ? Grouping::depth : Grouping::rows;
  m.a = operand_of(rule.a, m.contract, a, depth);
  m.b = operand_of(rule.b, m.contract, b, depth, along_tokens(gemm) ? 1 : d.shape.experts);
  m.alpha = alpha_of(a, b);
  m.gathers = a.by_token && !along_tokens(gemm);
  if (m.gathers) m.row_index = d.routes.row_token;
  const std::int64_t rows = along_tokens(gemm) ? d.shape.experts * m.m() : m.m();
  const std::size_t width = m.output == Format::fp32 ? 4 : 2;
  Bytes out(static_cast<std::size_t>(rows * m.b.rows) * width);
  matmul(m, out.data());
  return out;
}

std::vector<float> values_of_h(const LayerData& d, bool kept) {
  if (kept && d.recipe.kept_h.quantized()) return values_of(d.forward.kept.h, d.routes.offsets, d.threads);
  std::vector<float> h;
  h.reserve(d.forward.h.size());
  for (const std::uint16_t word : d.forward.h) h.push_back(fp32_of(word));
  return h;
}

Bytes made_again(const LayerData& d, const std::string& name) {
  if (const std::optional<GemmTensor> g = gemm_tensor(name)) {
    if (!g->is_output) return part_of(operand_from_values(d, g->gemm, g->side), g->part);
    return product(d, g->gemm, operand_as_held(d, g->gemm, Side::a), operand_as_held(d, g->gemm, Side::b));
  }
  if (name == "A" || name == "A_again" || name == "scaled_A" || name == "dH" || name == "dS")
    return swiglu_tensor(d, name);
  if (name == "O" || name == "dX") return sum_of_slots(d, name == "dX");
  if (name == "kept_h_codes" || name == "kept_h_scales")
    return part_of(kept_h(d), name == "kept_h_codes" ? OperandPart::codes : OperandPart::scales);
  throw Error(ErrorKind::internal, name + " is not made of other tensors of the layer");
}

Bytes made_from_values(const LayerData& d, const std::string& name) {
  const std::optional<GemmTensor> g = gemm_tensor(name);
  if (!g || !g->is_output) return made_again(d, name);
  return product(d, g->gemm, operand_from_values(d, g->gemm, Side::a), operand_from_values(d, g->gemm, Side::b));
}

double cost_of(const LayerData& d, const std::string& name) {
  const auto rows = static_cast<double>(std::max<std::int64_t>(d.rows(), 1));
  const std::optional<GemmTensor> g = gemm_tensor(name);
  const double matrix = static_cast<double>(d.shape.width) * static_cast<double>(d.shape.inner);
  if (!g || !g->is_output) return rows * static_cast<double>(d.shape.width + d.shape.inner) * 16;
  const bool wide = g->gemm == LayerGemm::up || g->gemm == LayerGemm::d_up || g->gemm == LayerGemm::d_w1;
  return rows * matrix * (wide ? 2 : 1);
}

}  // namespace mxcheck
