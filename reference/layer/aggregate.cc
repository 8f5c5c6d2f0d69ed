#include "reference/layer/aggregate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "numerics/error.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/layer/swiglu.h"

namespace mxcheck {
namespace {

float fp32_of(std::uint16_t bf16) { return std::bit_cast<float>(std::uint32_t{bf16} << 16); }

void check_rows(const AggregatedRows& from) {
  const std::int64_t elements = checked_product(from.rows, from.cols, "Y");
  if (std::ssize(from.y) != elements || (!from.weights.empty() && std::ssize(from.weights) != from.rows)) {
    throw Error(ErrorKind::usage, "aggregation of " + std::to_string(from.y.size()) + " elements and " +
                                      std::to_string(from.weights.size()) + " weights; " + std::to_string(from.rows) +
                                      " rows of " + std::to_string(from.cols) + " columns, and a weight of each, are " +
                                      "needed");
  }
}

void check_slots(const TokenSlots& slots, std::int64_t rows) {
  const auto& offsets = slots.token_offsets;
  if (offsets.empty()) throw Error(ErrorKind::usage, "aggregation without token_offsets, which has one at least");
  for (std::size_t t = 0; t < offsets.size(); ++t) {
    if (offsets[t] < (t == 0 ? 0 : offsets[t - 1]) || (t == 0 && offsets[t] != 0))
      throw Error(ErrorKind::input, "token_offsets[" + std::to_string(t) + "] is " + std::to_string(offsets[t]) +
                                        "; offsets start at 0 and do not descend");
  }
  if (offsets.back() != std::ssize(slots.token_rows))
    throw Error(ErrorKind::input, "token_offsets end at " + std::to_string(offsets.back()) + ", and there are " +
                                      std::to_string(slots.token_rows.size()) + " slots");
  for (std::size_t i = 0; i < slots.token_rows.size(); ++i) {
    const std::int32_t row = slots.token_rows[i];
    if (row < -1 || row >= rows)
      throw Error(ErrorKind::input, "slot " + std::to_string(i) + " is of row " + std::to_string(row) + "; there are " +
                                        std::to_string(rows) + " rows, and -1 for a dropped route");
  }
}

}  // namespace

std::vector<std::uint16_t> aggregate(const AggregatedRows& from, const TokenSlots& slots, int threads) {
  check_rows(from);
  check_slots(slots, from.rows);
  const auto tokens = std::ssize(slots.token_offsets) - 1;
  const auto cols = static_cast<std::size_t>(from.cols);
  std::vector<std::uint16_t> out;
  resize_or_throw(out, checked_product(tokens, from.cols, "output"), "output");
  parallel_ranges(tokens, tokens * from.cols, threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> acc(cols);
    for (auto t = static_cast<std::size_t>(begin); t < static_cast<std::size_t>(end); ++t) {
      std::fill(acc.begin(), acc.end(), 0.0F);
      for (std::int64_t slot = slots.token_offsets[t]; slot < slots.token_offsets[t + 1]; ++slot) {
        const std::int32_t row = slots.token_rows[static_cast<std::size_t>(slot)];
        if (row < 0) continue;
        const std::uint16_t* y = from.y.data() + static_cast<std::size_t>(row) * cols;
        const bool weighted = !from.weights.empty();
        const float weight = weighted ? from.weights[static_cast<std::size_t>(row)] : 1;
        for (std::size_t j = 0; j < cols; ++j)
          acc[j] = weighted ? std::fma(weight, fp32_of(y[j]), acc[j]) : acc[j] + fp32_of(y[j]);
      }
      for (std::size_t j = 0; j < cols; ++j) out[t * cols + j] = layer_bf16(acc[j]);
    }
  });
  return out;
}

}  // namespace mxcheck
