#include "kernels/cpu/layer/codes.h"

#include <algorithm>
#include <string>

namespace mxcheck_kernels::cpu {
namespace {

void add_bands(std::vector<Band>& bands, std::int64_t begin, std::int64_t end, std::int64_t height) {
  for (std::int64_t first = begin; first < end; first += height)
    bands.push_back({first, std::min(height, end - first)});
}

}  // namespace

std::vector<Band> bands_of(const Checked& offsets, std::int64_t rows, std::int64_t height) {
  std::vector<Band> bands;
  if (offsets.cols == 0) {
    add_bands(bands, 0, rows, height);
    return bands;
  }
  const auto* const at = static_cast<const std::int64_t*>(offsets.data);
  if (at[0] != 0) invalid("offsets[0] is " + std::to_string(at[0]) + ": must be 0");
  for (std::int64_t e = 1; e < offsets.cols; ++e) {
    if (at[e] < at[e - 1] || at[e] > rows) {
      invalid("offsets[" + std::to_string(e) + "] is " + std::to_string(at[e]) + ": must be " +
              std::to_string(at[e - 1]) + " to " + std::to_string(rows));
    }
    add_bands(bands, at[e - 1], at[e], height);
  }
  if (at[offsets.cols - 1] != rows) {
    invalid("the last of the offsets is " + std::to_string(at[offsets.cols - 1]) + ": must be the number of rows, " +
            std::to_string(rows));
  }
  return bands;
}

void require_bands(const char* name, const CodeTensors& tensors, const std::vector<Band>& bands) {
  const auto count = static_cast<std::int64_t>(bands.size());
  if (tensors.scales.cols == count) return;
  invalid(std::string(name) + " have " + std::to_string(tensors.scales.cols) + " columns: must have " +
          std::to_string(count) + ", the blocks of all experts");
}

}  // namespace mxcheck_kernels::cpu
