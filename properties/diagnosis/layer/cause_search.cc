#include "properties/diagnosis/layer/cause_search.h"

#include <algorithm>
#include <utility>

#include "numerics/error.h"
#include "properties/core/compare.h"
#include "properties/diagnosis/layer/inputs.h"

namespace mxcheck {

void make_nans_equal(const LayerTensor& t, Bytes& bytes) {
  if (t.dtype == Dtype::bf16 || t.dtype == Dtype::f32)
    make_nans_equal(bytes, t.dtype == Dtype::bf16 ? Format::bf16 : Format::fp32);
}

CausesFound LayerCauseSearch::causes(const LayerTensor& t, const Bytes& again, const Bytes& found) {
  const Observed data{again, found, size_of(t.dtype)};
  std::vector<Hypothesis> hypotheses;
  double work = 0;
  std::size_t left_out = 0;
  const auto take = [&](const std::string& tensor, double cost) {
    for (LayerCause& cause : layer_causes(own_.recipe, tensor)) {
      work += cost;
      work > kMostWork ? void(++left_out) : hypotheses.push_back(hypothesis(std::move(cause), tensor, t.name));
    }
  };
  const auto likeliest = [&] {
    for (Hypothesis& each : hypotheses) {
      each.bytes = [bytes = std::move(each.bytes), &t] {
        Bytes all = bytes();
        make_nans_equal(t, all);
        return all;
      };
    }
    return likeliest_causes(data, std::exchange(hypotheses, {}), "element", 3);
  };
  const auto is_exact = [](const std::vector<std::string>& texts) {
    return !texts.empty() && texts[0].starts_with("every ");
  };
  double cost = cost_of(own_, t.name);
  take(t.name, cost);
  for (Hypothesis& whole : whole_layers(t.name)) hypotheses.push_back(std::move(whole));
  CausesFound result{likeliest(), ""};
  const std::vector<std::string> before = upstream(t.name);
  if (!is_exact(result.texts) && !before.empty()) {  // which costs more, as all between is made again too
    for (const std::string& tensor : before) cost += cost_of(own_, tensor);
    for (const std::string& tensor : before) take(tensor, cost);
    std::vector<std::string> further = likeliest();
    if (is_exact(further) || result.texts.empty()) result.texts = std::move(further);
  }
  if (result.texts.empty()) result.texts = constant_tail(data, "element");
  if (left_out != 0 && !is_exact(result.texts))
    result.note = std::to_string(left_out) +
                  " causes were not tried: the layer is too large; a dump of fewer tokens or experts is quicker";
  return result;
}

// The whole layer of the dump's own inputs computed otherwise: what a dump of few tensors is held against.
std::vector<Hypothesis> LayerCauseSearch::whole_layers(const std::string& name) {
  if (!others_) compute_others();
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

void LayerCauseSearch::compute_others() {
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

// What the tensor is made of, directly or over others, that the dump lacks: what is wrong in these shows here first.
// Of operands the GEMM's own causes have all.
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

// The cause's bytes in `tensor`, and what then comes of them in `shown`.
Hypothesis LayerCauseSearch::hypothesis(LayerCause cause, const std::string& tensor, const std::string& shown) const {
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
