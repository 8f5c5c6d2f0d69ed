// Columns of an expert's rows to transposed codes, rows gathered by an index on the way.

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "kernels/common/layer/tensors.h"
#include "kernels/cpu/arguments.h"
#include "kernels/cpu/layer/codes.h"
#include "kernels/cpu/partition.h"

namespace mxcheck_kernels::cpu {
namespace {

void check_index(const TransposeTensors& x) {
  if (!x.has_index) return;
  const auto* const index = static_cast<const std::int32_t*>(x.index.data);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    if (index[i] >= 0 && index[i] < x.x.rows) continue;
    invalid("row index[" + std::to_string(i) + "] is " + std::to_string(index[i]) + ": must be 0 to " +
            std::to_string(x.x.rows - 1));
  }
}

void read_band(const TransposeTensors& x, Dtype dtype, const Band& band, std::vector<float>& values) {
  values.resize(static_cast<std::size_t>(band.rows * x.cols));
  for (std::int64_t r = 0; r < band.rows; ++r) {
    const std::int64_t row =
        x.has_index ? static_cast<const std::int32_t*>(x.index.data)[band.first + r] : band.first + r;
    float* const to = values.data() + r * x.cols;
    if (dtype == Dtype::fp32) {
      std::copy_n(static_cast<const float*>(x.x.data) + row * x.x.stride, x.cols, to);
      continue;
    }
    const auto* const from = static_cast<const std::uint16_t*>(x.x.data) + row * x.x.stride;
    for (std::int64_t j = 0; j < x.cols; ++j) to[j] = fp32_of(from[j]);
  }
}

}  // namespace

void run_quantize_transposed(const mxcheck_call& call) {
  if (call.inputs == nullptr || call.num_inputs < 1) invalid("there is no input: x is missing");
  const TransposePlan plan = read_transpose_policy(call.policy, call.inputs[0].dtype);
  const TransposeTensors x = read_transpose(call, plan, check_tensor);
  const std::vector<Band> bands = bands_of(x.offsets, x.rows, plan.coding.block);
  require_bands("scales", x.out, bands);
  check_index(x);
  if (x.cols == 0) return;
  const auto count = static_cast<std::int64_t>(bands.size());
  const std::int64_t parts = part_count(count, static_cast<std::int64_t>(x.out.codes.bytes), call.policy->threads);
  std::vector<std::vector<float>> spaces(static_cast<std::size_t>(parts));
  const std::int64_t most = std::min<std::int64_t>(plan.coding.block, x.rows) * x.cols;
  for (std::vector<float>& values : spaces) values.reserve(static_cast<std::size_t>(most));
  std::atomic<std::size_t> next{0};
  const std::int64_t scale = plan.coding.scale == CodeScale::fp32 ? 4 : 1;
  for_each_part(count, parts, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float>& values = spaces[next++];
    for (std::int64_t i = begin; i < end; ++i) {
      const Band& band = bands[static_cast<std::size_t>(i)];
      read_band(x, plan.dtype, band, values);
      encode_columns(plan.coding, {values.data(), band.rows, x.cols},
                     static_cast<std::uint8_t*>(x.out.codes.data) + band.first, x.rows,
                     static_cast<std::uint8_t*>(x.out.scales.data) + i * scale, x.out.scales.cols);
    }
  });
}

}  // namespace mxcheck_kernels::cpu
