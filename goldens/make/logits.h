#pragma once
// Private to goldens/: router logits computed from a formula (synthetic), for goldens about ties and about counts next
// to a tile.

#include <cstdint>
#include <vector>

#include "goldens/io/tensor_file.h"
#include "goldens/make/suite.h"

namespace mxcheck {

// [rows, cols] of 16 values: both zeros and both smallest subnormals, numbers one unit in the last place apart, and a
// few ordinary ones, so that hardly any row is without a tie or a near tie.
Tensor tied_logits(const InputSpec& input);

// [sum of loads, loads]: the largest logit of a row belongs to its expert, and expert e has loads[e] rows, assigned
// round-robin. Rows repeat, so that tokens tie for an expert.
Tensor loaded_logits(const InputSpec& input);

// The gradient of a golden's weights: numbers of 24 bits in [-1, 1).
std::vector<float> synthetic_gradient(std::int64_t count);

}  // namespace mxcheck
