#include "properties/diagnosis/layer/verdict.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/text.h"

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

void make_nans_equal(const LayerTensor& t, Bytes& bytes) {
  if (t.dtype == Format::bf16 || t.dtype == Format::fp32)
    make_nans_equal(bytes, t.dtype == Format::bf16 ? Format::bf16 : Format::fp32);
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

CausesFound LayerCauseSearch::causes(const LayerTensor& t, const Bytes& again, const Bytes& found) {
  const AnswerTensor tensor{info_of(t), again, found};
  Table table;
  double work = 0;
  std::size_t left_out = 0;
  const auto take = [&](const std::string& of, double cost) {
    for (const LayerRow& row : layer_rows(own_.recipe, of)) {
      work += cost;
      work > kMostWork ? void(++left_out) : table.push_back(definition(row, of, t.name));
    }
  };
  const auto likeliest = [&] { return likeliest_causes(tensor, std::exchange(table, {}), 0, "element", 3); };
  const auto is_exact = [](const std::vector<std::string>& texts) {
    return !texts.empty() && texts[0].starts_with("every ");
  };
  double cost = cost_of(own_, t.name);
  take(t.name, cost);
  add_whole_layers(t.name, table);
  CausesFound result{likeliest(), ""};
  const std::vector<std::string> before = upstream(t.name);
  if (!is_exact(result.texts) && !before.empty()) {  // which costs more, as all between is made again too
    for (const std::string& each : before) cost += cost_of(own_, each);
    for (const std::string& each : before) take(each, cost);
    std::vector<std::string> further = likeliest();
    if (is_exact(further) || result.texts.empty()) result.texts = std::move(further);
  }
  if (result.texts.empty()) result.texts = constant_tail(tensor, "element");
  if (left_out != 0 && !is_exact(result.texts))
    result.note = std::to_string(left_out) +
                  " causes were not tried: the layer is too large; a dump of fewer tokens or experts is quicker";
  return result;
}

// The whole layer of the dump's own inputs computed otherwise: what a dump of few tensors is held against.
void LayerCauseSearch::add_whole_layers(const std::string& name, Table& table) {
  if (!others_) compute_others();
  for (auto& [text, layer] : *others_) {
    table.push_back(definition_of_output(0, text, [&data = layer, name] {
      for (const LayerTensor& t : tensors_of(data)) {
        if (t.name == name) return Bytes(t.data.begin(), t.data.end());
      }
      return Bytes();  // another recipe may have no such tensor
    }));
  }
}

void LayerCauseSearch::compute_others() {
  others_.emplace();
  double work = 0;
  for (const char* output : {"H", "Y", "P", "dX_rows", "dW2", "dW1"}) work += cost_of(own_, output);
  for (const OtherLayer& other : other_layers(own_.recipe)) {
    if (work * static_cast<double>(others_->size() + 1) > kMostWork) return;
    LayerData v = own_;
    other.change(v.recipe, v.gate_up, v.routes);
    compute(v);
    others_->emplace_back(other.name + ", throughout the layer", std::move(v));
  }
}

// Tensors that this one is made of, directly or over others, and that the dump lacks: their faults show here first.
// GEMM operands are left out: all their faults are among the GEMM's own causes.
std::vector<std::string> LayerCauseSearch::upstream(const std::string& name) const {
  std::vector<std::string> found;
  for (const std::string& parent : made_of(name)) {
    if (std::find(lacking_.begin(), lacking_.end(), parent) == lacking_.end()) continue;
    for (const std::string& further : upstream(parent)) found.push_back(further);
    found.push_back(parent);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// The row's bytes in `tensor`, and what then comes of them in `shown`.
Definition LayerCauseSearch::definition(const LayerRow& row, const std::string& tensor,
                                        const std::string& shown) const {
  const std::string name = tensor == shown ? row.name : row.name + " (in " + tensor + ")";
  const auto bytes = [this, row, tensor, shown]() -> Bytes {
    try {
      Bytes of_row = row.bytes(own_, tensor);
      return tensor == shown ? of_row : carried(tensor, of_row, shown);
    } catch (const Error&) {
      return {};  // a recipe that cannot be
    }
  };
  return definition_of_output(0, name, bytes, row.source);
}

Bytes LayerCauseSearch::carried(const std::string& tensor, const Bytes& bytes, const std::string& shown) const {
  LayerData v = own_;
  set_tensor(v, tensor, bytes);
  const std::vector<std::string> between = upstream(shown);
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

}  // namespace mxcheck
