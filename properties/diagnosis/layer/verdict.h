#pragma once
// A dump of a layer's tensors against the reference, in the order of the steps: where it first differs, whether a
// tensor is what the dump's own earlier tensors give (so that one error is told once), and the likeliest cause of each
// that is not.
//
//   const LayerVerdict v = judge_layer(reference, [&](const std::string& name) { return tensor_of_dump(name); });
//
// A dump may lack tensors: what follows is then held against what its earlier ones give, and a cause in a tensor that
// is not there is looked for in the next one that is. Any NaN in BF16 and FP32 equals any other.
//
// Errors: those of the function that hands over the dump's tensors. Costs some layers: one to make each tensor again,
// and one step a candidate cause; what is left out for its work (kMostWork) is told.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "goldens/layer/layer_file.h"
#include "properties/core/compare.h"
#include "properties/operations/layer/definitions.h"
#include "reference/layer/layer_recipe.h"

namespace mxcheck {

enum class LayerTensorVerdict : std::uint8_t {
  equal,       // to the reference
  follows,     // differs, and is what the dump's own earlier tensors give
  differs,     // differs from that too
  wrong_form,  // another type or size: not compared
  missing,
};
std::string_view verdict_word(LayerTensorVerdict verdict);

struct LayerTensorResult {
  std::string name, step, format;
  std::vector<std::int64_t> shape;
  LayerTensorVerdict verdict = LayerTensorVerdict::equal;
  std::string note;                      // about the form, and what would be right; or what the verdict rests on
  std::string made_of;                   // "H of the dump and P made again": what own_wrong is held against
  std::optional<Difference> difference;  // from the reference
  std::int64_t own_wrong = 0;            // elements that are not what the dump's own tensors give
  std::vector<std::string> causes;       // of differs: likeliest first
};

struct LayerVerdict {
  std::vector<LayerTensorResult> results;  // in the order of the steps
  [[nodiscard]] bool equal() const;        // all that there is; something must be there
  [[nodiscard]] const LayerTensorResult* first() const;
  [[nodiscard]] std::size_t count(LayerTensorVerdict verdict) const;
};

struct LayerJudge {
  // The dump's tensor of a name; nothing where it has none.
  std::function<std::optional<Tensor>(const std::string& name)> dump;
  // d_logits from dS; nothing where the routes are not of logits.
  std::function<std::optional<std::vector<float>>(std::span<const float> ds)> logits_gradient;
  // Names to compare; all where it is empty. Others count as missing.
  std::vector<std::string> only;
};

LayerVerdict judge_layer(const LayerData& reference, const LayerJudge& judge);

// The tensors of a layer that one is made of. No errors: a name that the layer has not gives none.

// Computed ones, without the operands between them: "A" of "Y".
std::vector<std::string> made_of(const std::string& name);

// The same with what a GEMM and its operands are made of: "scaled_A" and "dO" of "dW2".
std::vector<std::string> inputs_of(const std::string& name);

// Whose D or operand it is.
std::optional<LayerGemm> gemm_of(const std::string& name);

// The causes that give a dump's tensor, out of all that may show in it or in what it is made of and the dump lacks.

// Products of two numbers that are spent on one tensor's causes.
inline constexpr double kMostWork = 3e10;

struct CausesFound {
  std::vector<std::string> texts;  // likeliest first
  std::string note;                // what was not tried
};

class LayerCauseSearch {
 public:
  // own: the dump's tensors, and what they give where it has none; lacking: the names of the latter so far, in order.
  // Both are looked at with every call.
  LayerCauseSearch(const LayerData& own, const std::vector<std::string>& lacking) : own_(own), lacking_(lacking) {}

  // The causes by which the tensor is `found` in the dump, where the dump's own tensors before it give `again`.
  CausesFound causes(const LayerTensor& t, const Bytes& again, const Bytes& found);

  // Layers computed from the dump's inputs are dropped: those inputs are no longer the same.
  void inputs_changed() { others_.reset(); }

 private:
  void add_whole_layers(const std::string& name, Table& table);
  void compute_others();
  [[nodiscard]] std::vector<std::string> upstream(const std::string& name) const;
  [[nodiscard]] Definition definition(const LayerRow& row, const std::string& tensor, const std::string& shown) const;
  [[nodiscard]] Bytes carried(const std::string& tensor, const Bytes& bytes, const std::string& shown) const;

  const LayerData& own_;
  const std::vector<std::string>& lacking_;
  std::optional<std::vector<std::pair<std::string, LayerData>>> others_;
};

TensorInfo info_of(const LayerTensor& t);
// Every NaN the same one, where the tensor holds BF16 or FP32.
void make_nans_equal(const LayerTensor& t, Bytes& bytes);

}  // namespace mxcheck
