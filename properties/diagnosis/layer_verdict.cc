#include "properties/diagnosis/layer_verdict.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/diagnosis/cause.h"
#include "properties/diagnosis/layer_causes.h"

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
bool same_type(const LayerTensor& right, Dtype found) {
  if (right.dtype == found) return true;
  return (right.dtype == Dtype::bf16 && found == Dtype::u16) || (right.dtype == Dtype::f32 && found == Dtype::u32);
}

std::string form_note(const LayerTensor& right, const Tensor& found) {
  if (!same_type(right, found.dtype))
    return std::string("is ") + safetensors_name(found.dtype) + "; " + safetensors_name(right.dtype) + " is right";
  const bool same = plain(right.shape, false) == plain(found.shape, false) ||
                    (right.shape.size() == 3 && plain(right.shape, true) == plain(found.shape, false));
  if (same && right.data.size() == found.data.size()) return "";
  return "is " + shape_to_text(found.shape) + "; " + shape_to_text(right.shape) + " is right";
}

TensorInfo info_of(const LayerTensor& t) {
  TensorInfo info;
  info.name = t.name;
  info.integer_bits = t.dtype == Dtype::i32 ? 32 : t.dtype == Dtype::i64 ? 64 : 0;
  info.format = find_format(t.format).value_or(Format::fp32);
  info.cols = t.shape.empty() ? 1 : t.shape.back();
  info.rows = info.cols == 0 ? 0 : static_cast<std::int64_t>(t.data.size() / size_of(t.dtype)) / info.cols;
  info.any_nan_is_equal = t.dtype == Dtype::bf16 || t.dtype == Dtype::f32;
  return info;
}

// The tensors that one is made of, operands left out.
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

// The same with what a GEMM and its operands are made of.
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

  static void make_nans_equal(const LayerTensor& t, Bytes& bytes) {
    if (t.dtype == Dtype::bf16 || t.dtype == Dtype::f32)
      mxcheck::make_nans_equal(bytes, t.dtype == Dtype::bf16 ? Format::bf16 : Format::fp32);
  }

  // What the dump's own tensors give; nothing for what is given.
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
    find_causes(t, *again, found, result);
  }

  // The whole layer of the dump's own inputs computed otherwise: what a dump of few tensors is held against.
  std::vector<Hypothesis> whole_layers(const std::string& name) {
    if (!others_) {
      others_.emplace();
      double work = 0;
      for (const char* output : {"H", "Y", "P", "dX_rows", "dW2", "dW1"}) work += cost_of(own_, output);
      const auto add = [&](const std::string& text, const LayerRecipe& recipe, GateUp order) {
        if (work * static_cast<double>(others_->size() + 1) > kMostWork) return;
        LayerData v = own_;
        v.recipe = recipe, v.gate_up = order;
        compute(v);
        others_->emplace_back(text, std::move(v));
      };
      for (const LayerRecipe& r : all_layer_recipes()) {
        if (r.name != own_.recipe.name) add("a layer under recipe " + r.name + " throughout", r, own_.gate_up);
      }
      const bool halves = own_.gate_up == GateUp::halves;
      add(std::string("a layer with the columns of W1 ") + (halves ? "interleaved" : "in halves") + " throughout",
          own_.recipe, halves ? GateUp::interleaved : GateUp::halves);
    }
    std::vector<Hypothesis> all;
    for (auto& other : *others_) {
      LayerData& data = other.second;
      all.push_back({other.first, [&data, name] {
                       for (const LayerTensor& t : tensors_of(data)) {
                         if (t.name == name) return Bytes(t.data.begin(), t.data.end());
                       }
                       return Bytes();
                     }});
    }
    return all;
  }

  void find_causes(const LayerTensor& t, const Bytes& again, const Bytes& found, LayerTensorResult& result) {
    std::vector<Hypothesis> hypotheses;
    double work = 0;
    std::size_t left_out = 0;
    const auto take = [&](const std::string& tensor, double cost) {
      for (LayerCause& cause : layer_causes(own_.recipe, tensor)) {
        work += cost;
        if (work > kMostWork) {
          ++left_out;
          continue;
        }
        hypotheses.push_back(hypothesis(std::move(cause), tensor, t.name));
      }
    };
    take(t.name, cost_of(own_, t.name));
    for (const std::string& tensor : causes_upstream(t.name))
      take(tensor, cost_of(own_, tensor) + cost_of(own_, t.name));
    for (Hypothesis& whole : whole_layers(t.name)) hypotheses.push_back(std::move(whole));
    for (Hypothesis& each : hypotheses) {
      each.bytes = [bytes = std::move(each.bytes), &t] {
        Bytes all = bytes();
        make_nans_equal(t, all);
        return all;
      };
    }
    const Observed data{again, found, size_of(t.dtype)};
    result.causes = likeliest_causes(data, hypotheses, "element", 3);
    if (result.causes.empty()) result.causes = constant_tail(data, "element");
    if (left_out != 0)
      result.note = std::to_string(left_out) +
                    " causes were not tried: the layer is too large; a dump of fewer "
                    "tokens or experts is quicker";
  }

  // What the tensor is made of, directly or over others, that the dump lacks: what is wrong in these shows here first.
  // Of operands the GEMM's own causes have all.
  [[nodiscard]] std::vector<std::string> causes_upstream(const std::string& name) const {
    std::vector<std::string> found;
    for (const std::string& parent : made_of(name)) {
      if (std::find(lacking_.begin(), lacking_.end(), parent) == lacking_.end()) continue;
      for (const std::string& further : causes_upstream(parent)) found.push_back(further);
      found.push_back(parent);
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  // The cause's bytes in `tensor`, and what then comes of them in `shown`.
  Hypothesis hypothesis(LayerCause cause, const std::string& tensor, const std::string& shown) const {
    const std::string text = tensor == shown ? cause.text : cause.text + " (in " + tensor + ")";
    return {text, [this, cause = std::move(cause), tensor, shown]() -> Bytes {
              try {
                Bytes bytes = cause.bytes(own_, tensor);
                return tensor == shown ? bytes : carried(tensor, bytes, shown);
              } catch (const Error&) {
                return {};  // a recipe that cannot be
              }
            }};
  }

  Bytes carried(const std::string& tensor, const Bytes& bytes, const std::string& shown) const {
    LayerData v = own_;
    set_tensor(v, tensor, bytes);
    const std::vector<std::string> between = causes_upstream(shown);
    const auto needed = [&](const std::string& name) {
      if (name.starts_with("kept_h") || std::find(between.begin(), between.end(), name) != between.end()) return true;
      const std::optional<GemmTensor> operand = gemm_tensor(name);
      return operand && !operand->is_output &&
             (operand->gemm == gemm_of(shown) || std::any_of(between.begin(), between.end(), [&](const auto& each) {
                return operand->gemm == gemm_of(each);
              }));
    };
    const auto begin = std::find(lacking_.begin(), lacking_.end(), tensor);
    for (auto at = begin; at < lacking_.end(); ++at) {
      if (*at != tensor && *at != shown && needed(*at)) set_tensor(v, *at, made_again(v, *at));
    }
    return made_again(v, shown);
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
  std::optional<std::vector<std::pair<std::string, LayerData>>> others_;
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

}  // namespace mxcheck
