#include "properties/diagnosis/layer/verdict.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/diagnosis/layer/cause_search.h"
#include "properties/diagnosis/layer/inputs.h"
#include "properties/diagnosis/layer/steps.h"
#include "reference/layer/run.h"

namespace mxcheck {
namespace {

bool is_given(const std::string& step, const std::string& name) {
  return step == "input" || step == "routes" || name == "dO";
}

// The shape without dimensions of 1, and with an expert's rows after another's where there are three.
std::vector<std::int64_t> plain(const std::vector<std::int64_t>& shape, bool merged) {
  std::vector<std::int64_t> out;
  for (const std::int64_t extent : shape) {
    if (extent != 1) out.push_back(extent);
  }
  if (merged && out.size() == 3) out = {out[0] * out[1], out[2]};
  return out;
}

// HDF5's bits, and BF16 as 16-bit words, count as what they are the bits of.
bool same_type(const LayerTensor& right, Format found) {
  if (right.dtype == found) return true;
  return (right.dtype == Format::bf16 && found == Format::uint16) ||
         (right.dtype == Format::fp32 && found == Format::uint32);
}

std::string form_note(const LayerTensor& right, const Tensor& found) {
  if (!same_type(right, found.format))
    return std::string("is ") + safetensors_name(found.format) + "; " + safetensors_name(right.dtype) + " is right";
  const bool same = plain(right.shape, false) == plain(found.shape, false) ||
                    (right.shape.size() == 3 && plain(right.shape, true) == plain(found.shape, false));
  if (same && right.data.size() == found.data.size()) return "";
  return "is " + shape_to_text(found.shape) + "; " + shape_to_text(right.shape) + " is right";
}

TensorInfo info_of(const LayerTensor& t) {
  TensorInfo info;
  info.name = t.name;
  info.integer_bits = t.dtype == Format::int32 ? 32 : t.dtype == Format::int64 ? 64 : 0;
  info.format = find_format(t.format).value_or(Format::fp32);
  info.cols = t.shape.empty() ? 1 : t.shape.back();
  info.rows = info.cols == 0 ? 0 : static_cast<std::int64_t>(t.data.size() / size_of(t.dtype)) / info.cols;
  info.any_nan_is_equal = t.dtype == Format::bf16 || t.dtype == Format::fp32;
  return info;
}

class Judging {
 public:
  Judging(const LayerData& reference, const LayerJudge& judge) : right_(reference), own_(reference), judge_(judge) {}

  LayerVerdict all() {
    LayerVerdict verdict;
    for (const LayerTensor& t : tensors_of(right_)) {
      verdict.results.push_back(one(t));
      if (t.name == "token_rows") settle_routes(verdict);
    }
    return verdict;
  }

 private:
  LayerTensorResult one(const LayerTensor& t) {
    LayerTensorResult result{t.name, t.step, t.format, t.shape, LayerTensorVerdict::missing, "", "", {}, 0, {}};
    const bool asked =
        judge_.only.empty() || std::find(judge_.only.begin(), judge_.only.end(), t.name) != judge_.only.end();
    std::optional<Tensor> found = asked ? judge_.dump(t.name) : std::nullopt;
    if (found) {
      result.note = form_note(t, *found);
      if (!result.note.empty()) {
        result.verdict = LayerTensorVerdict::wrong_form;
        found.reset();
      }
    }
    const std::optional<Bytes> again = from_own(t);
    if (found) {
      make_nans_equal(t, found->data);
      result.made_of = inputs_text(t.name);
      compare_bits(t, again, found->data, result);
      set_tensor(own_, t.name, found->data);
      if (is_given(t.step, t.name)) search_.inputs_changed();
    } else if (again) {
      set_tensor(own_, t.name, *again);
      lacking_.push_back(t.name);
    }
    return result;
  }

  // "H of the dump and P made again"
  [[nodiscard]] std::string inputs_text(const std::string& name) const {
    const auto text = [&](const std::string& input) {
      const bool lacks = std::find(lacking_.begin(), lacking_.end(), input) != lacking_.end();
      const bool given = input == "X" || input == "W1" || input == "W2" || input == "dO";
      return input + (lacks ? " made again" : given ? "" : " of the dump");
    };
    return join(inputs_of(name), " and ", text);
  }

  // The tensor as the dump's own earlier tensors give it; nothing for a tensor that is given.
  std::optional<Bytes> from_own(const LayerTensor& t) const {
    if (is_given(t.step, t.name)) return std::nullopt;
    Bytes bytes;
    if (t.name == "d_logits") {
      const auto gradient =
          judge_.logits_gradient ? judge_.logits_gradient(own_.backward.ds) : std::optional<std::vector<float>>();
      if (!gradient) return std::nullopt;
      bytes = to_bytes(*gradient);
    } else {
      bytes = made_again(own_, t.name);
    }
    if (bytes.size() != t.data.size()) return std::nullopt;
    make_nans_equal(t, bytes);
    return bytes;
  }

  void compare_bits(const LayerTensor& t, const std::optional<Bytes>& again, const Bytes& found,
                    LayerTensorResult& result) {
    const TensorInfo info = info_of(t);
    Bytes right(t.data.begin(), t.data.end());
    make_nans_equal(t, right);
    result.difference = compare(info, right, found, 0);
    result.verdict = LayerTensorVerdict::equal;
    if (!result.difference) return;
    result.verdict = LayerTensorVerdict::differs;
    if (!again) {
      result.note = t.step == "routes" ? "the dump was made with other routes" : "the dump was made with another one";
      if (t.name == "d_logits") result.note = "";
      return;
    }
    const std::optional<Difference> own = compare(info, *again, found, 0);
    if (!own) {
      result.verdict = LayerTensorVerdict::follows;
      return;
    }
    result.own_wrong = own->count;
    CausesFound causes = search_.causes(t, *again, found);
    result.causes = std::move(causes.texts);
    if (!causes.note.empty()) result.note = std::move(causes.note);
  }

  // Routes of the dump that are none cannot be computed with.
  void settle_routes(LayerVerdict& verdict) {
    try {
      check(own_.routes, own_.shape.tokens, own_.shape.experts);
    } catch (const Error& e) {
      own_.routes = right_.routes;
      for (LayerTensorResult& r : verdict.results) {
        if (r.step == "routes" && r.verdict == LayerTensorVerdict::differs)
          r.note = std::string(e.what()) + "; what follows is computed with the reference's";
      }
    }
  }

  LayerData right_;
  LayerData own_;
  const LayerJudge& judge_;
  std::vector<std::string> lacking_;  // so far, in order
  LayerCauseSearch search_{own_, lacking_};
};

}  // namespace

std::string_view verdict_word(LayerTensorVerdict verdict) {
  constexpr std::array<std::string_view, 5> kWords{"equal", "follows", "DIFFERS", "FORM", "-"};
  return kWords.at(static_cast<std::size_t>(verdict));
}

bool LayerVerdict::equal() const { return first() == nullptr && count(LayerTensorVerdict::equal) > 0; }

const LayerTensorResult* LayerVerdict::first() const {
  for (const LayerTensorResult& r : results) {
    if (r.verdict != LayerTensorVerdict::equal && r.verdict != LayerTensorVerdict::missing) return &r;
  }
  return nullptr;
}

std::size_t LayerVerdict::count(LayerTensorVerdict verdict) const {
  return static_cast<std::size_t>(
      std::count_if(results.begin(), results.end(), [&](const LayerTensorResult& r) { return r.verdict == verdict; }));
}

LayerVerdict judge_layer(const LayerData& reference, const LayerJudge& judge) {
  return Judging(reference, judge).all();
}

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

LayerOperand weights(const Run& run, const LayerData& d, LayerGemm gemm, const OperandRule& rule) {
  const bool first = gemm == LayerGemm::up || gemm == LayerGemm::d_up;
  const Words& w = first ? d.w1 : d.w2;
  const std::int64_t rows = first ? run.d : run.n;
  const std::int64_t cols = first ? 2 * run.n : run.d;
  if (gemm == LayerGemm::d_up || gemm == LayerGemm::d_down)
    return weight_operand(rule, view(w, run.experts * rows, cols), run.experts, d.threads);
  const Words turned = run.transposed(w, rows, cols);
  return weight_operand(rule, view(turned, run.experts * cols, rows), run.experts, d.threads);
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
  if (rule.source == OperandSource::values) return column_operand(rule, values, run.routed(), d.threads);
  const LayerGemm from = gemm == LayerGemm::d_w2 ? LayerGemm::d_down
                         : side == Side::a       ? LayerGemm::up
                                                 : LayerGemm::d_up;
  const LayerOperand quantized = operand_as_held(d, from, Side::a);
  const std::vector<float> again = values_of(quantized, d.routes.offsets, d.threads);
  return column_operand(rule, {view(again, quantized.rows, quantized.cols), quantized.by_token}, run.routed(),
                        d.threads);
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

Bytes part_of(const LayerOperand& x, bool codes) {
  const QuantizedTensor& q = x.quantized;
  return codes ? q.codes.data : q.scales().data;
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

std::optional<GemmTensor> gemm_tensor(const std::string& name) {
  for (const LayerGemmSpec& g : kLayerGemms) {
    if (name == output_of(g.value)) return GemmTensor{g.value, true};
    for (const Side side : {Side::a, Side::b}) {
      const std::string operand = std::string(g.name) + (side == Side::a ? "_a" : "_b");
      if (name == operand + "_codes") return GemmTensor{g.value, false, side, true};
      if (name == operand + "_scales") return GemmTensor{g.value, false, side, false};
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
  const OperandRule& rule = rule_of(d.recipe, gemm, side);
  if (side == Side::b) return weights(r.run, d, gemm, rule);
  return row_operand(rule, rows_of(d, gemm, side), r.run.routed(), d.threads);
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
    if (!g->is_output) return part_of(operand_from_values(d, g->gemm, g->side), g->is_codes);
    return product(d, g->gemm, operand_as_held(d, g->gemm, Side::a), operand_as_held(d, g->gemm, Side::b));
  }
  if (name == "A" || name == "A_again" || name == "scaled_A" || name == "dH" || name == "dS")
    return swiglu_tensor(d, name);
  if (name == "O" || name == "dX") return sum_of_slots(d, name == "dX");
  if (name == "kept_h_codes" || name == "kept_h_scales") return part_of(kept_h(d), name == "kept_h_codes");
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

std::vector<std::string> made_of(const std::string& name) {
  static const std::map<std::string, std::vector<std::string>> kParents{{"A", {"H"}},
                                                                        {"Y", {"A"}},
                                                                        {"O", {"Y"}},
                                                                        {"A_again", {"H"}},
                                                                        {"scaled_A", {"H", "A_again"}},
                                                                        {"dH", {"H", "P"}},
                                                                        {"dS", {"H", "P", "A_again"}},
                                                                        {"dW2", {"scaled_A"}},
                                                                        {"dX_rows", {"dH"}},
                                                                        {"dX", {"dX_rows"}},
                                                                        {"dW1", {"dH"}},
                                                                        {"kept_h_codes", {"H"}},
                                                                        {"kept_h_scales", {"H"}}};
  const std::optional<GemmTensor> g = gemm_tensor(name);
  if (g && !g->is_output) {
    if (g->gemm == LayerGemm::down && g->side == Side::a) return {"A"};
    if (g->gemm == LayerGemm::d_up && g->side == Side::a) return {"dH"};
    if (g->gemm == LayerGemm::d_w2 && g->side == Side::a) return {"scaled_A"};
    if (g->gemm == LayerGemm::d_w1 && g->side == Side::b) return {"dH"};
    return {};
  }
  const auto found = kParents.find(name);
  return found == kParents.end() ? std::vector<std::string>() : found->second;
}

std::vector<std::string> inputs_of(const std::string& name) {
  const std::optional<GemmTensor> g = gemm_tensor(name);
  if (name == "d_logits") return {"dS"};
  if (!g) return made_of(name);
  const auto named = [](std::string_view tensor) { return std::string(tensor == "A'" ? "scaled_A" : tensor); };
  const LayerGemmSpec& gemm = spec(g->gemm);
  if (!g->is_output) return {named(g->side == Side::a ? gemm.a : gemm.b)};
  return {named(gemm.a), named(gemm.b)};
}

std::optional<LayerGemm> gemm_of(const std::string& name) {
  const std::optional<GemmTensor> g = gemm_tensor(name);
  return g ? std::optional(g->gemm) : std::nullopt;
}

}  // namespace mxcheck
