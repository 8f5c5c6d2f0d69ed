#pragma once
// The contents of a tensor in a line: its extremes, its NaNs and a prefix of its SHA-256.

#include "goldens/json/json.h"
#include "goldens/layer/layer_data.h"

namespace mxcheck {

struct TensorSummary {
  double min_abs = 0, max_abs = 0;  // of what is no NaN; 0 where there is nothing
  std::int64_t nans = 0;
  std::string sha256;
};
TensorSummary summary_of(const LayerTensor& tensor);

std::string summary_text(const std::vector<LayerTensor>& tensors);
Json summary_json(const std::vector<LayerTensor>& tensors);

}  // namespace mxcheck
