#include "properties/diagnosis/layer/cause_search.h"

#include <algorithm>
#include <utility>

#include "numerics/error.h"
#include "properties/diagnosis/layer/verdict.h"

namespace mxcheck {

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
