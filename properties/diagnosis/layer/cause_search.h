#pragma once
// Which causes give a dump's tensor, out of all that may show in it or in what it is made of and the dump lacks.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "properties/operations/layer/definitions.h"

namespace mxcheck {

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
