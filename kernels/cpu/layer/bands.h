#pragma once
// Rows of experts in bands, the blocks along tokens: no band crosses an expert's end.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/common/layer/tensors.h"

namespace mxcheck_kernels::cpu {

struct Band {
  std::int64_t first = 0;  // row
  std::int64_t rows = 0;   // 1 to `height`
};

// Throws Refusal{INVALID} for offsets that descend or do not go from 0 to `rows`; without them (no columns) there is
// one expert.
std::vector<Band> bands_of(const Checked& offsets, std::int64_t rows, std::int64_t height);

// The scales of transposed codes have a column for each band.
void require_bands(const char* name, const CodeTensors& tensors, const std::vector<Band>& bands);

}  // namespace mxcheck_kernels::cpu
