#include "properties/diagnosis/layer/verdict.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/diagnosis/layer/cause_search.h"
#include "properties/diagnosis/layer/inputs.h"
#include "properties/diagnosis/layer/steps.h"

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

}  // namespace mxcheck
