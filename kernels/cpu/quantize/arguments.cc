#include "kernels/cpu/quantize/arguments.h"

#include <string>

namespace mxcheck_kernels::cpu {
void require_scales(const char* name, const Checked& t, const ScaleMap& map, mxcheck_layout layout) {
  if (layout == MXCHECK_COMPACT) return require_shape(name, t, map.bands(), map.scale_cols());
  if (t.cols == map.bytes()) return;
  invalid(std::string(name) + " has " + std::to_string(t.cols) + " bytes: must be " + std::to_string(map.bytes()) +
          ", the tiles of these blocks and experts");
}

void check_options(const mxcheck_call& call) {
  for (int i = 1; i < call.num_inputs; ++i) {
    const DLDataType type = call.inputs[i].dtype;
    if (type.code == kDLInt && type.bits == 32 && type.lanes == 1)
      unsupported("a row index is not offered: gather the rows first");
  }
  if (call.num_inputs > 2) invalid("3 inputs: must be x and, optionally, offsets");
}

Offsets check_offsets(const mxcheck_call& call, int inputs, std::int64_t rows) {
  if (call.num_inputs == inputs) return {};
  const Checked t = check_tensor("offsets", call.inputs[inputs], kInt64Type, 1, Strides::contiguous);
  if (t.cols == 0) invalid("offsets is empty: must hold one value more than there are experts");
  const std::span<const std::int64_t> offsets(static_cast<const std::int64_t*>(t.data),
                                              static_cast<std::size_t>(t.cols));
  if (offsets.front() != 0) invalid("offsets[0] is " + std::to_string(offsets.front()) + ": must be 0");
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1]) {
      invalid("offsets[" + std::to_string(i) + "] is " + std::to_string(offsets[i]) +
              ": must be at least the one before it, " + std::to_string(offsets[i - 1]));
    }
  }
  if (offsets.back() != rows) {
    invalid("the last of the offsets is " + std::to_string(offsets.back()) + ": must be the number of rows, " +
            std::to_string(rows));
  }
  return {t, offsets};
}

}  // namespace mxcheck_kernels::cpu
