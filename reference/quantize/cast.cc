#include "reference/quantize/cast.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "numerics/error.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/quantize/encode_blocks.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kValuesAtOnce = 4096;  // 16 KiB of floats: the first-level cache holds what belongs to them

BlockScale scale_of_one() {
  BlockScale one;
  one.byte = 127, one.scale = 1, one.factor = 1;
  return one;
}

void encode_values(const Recipe& recipe, Format element, std::span<const float> values, std::uint8_t* codes) {
  constexpr std::array<double, 1> kFactor{1};
  if (detail::encodes_blocks_as(recipe, element))
    return detail::encode_blocks({element, values, values.size(), kFactor, codes});
  const BlockScale one = scale_of_one();
  for (const float x : values) *codes++ = static_cast<std::uint8_t>(encode_element(recipe, element, one, x));
}

void require_bytes(Format element) {
  if (!spec(element).is_element)
    throw Error(ErrorKind::usage, "cast to " + std::string(spec(element).name) + ": not a format of 8 bits or less");
}

}  // namespace

std::vector<std::uint8_t> cast(std::span<const double> values, Format element, Rounding rounding, Overflow overflow,
                               int threads) {
  require_bytes(element);
  std::vector<std::uint8_t> codes;
  const std::int64_t count = std::ssize(values);
  resize_or_throw(codes, count, "codes");
  parallel_ranges(count, count, threads, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      codes[i] = static_cast<std::uint8_t>(encode(element, values[i], rounding, overflow));
  });
  return codes;
}

std::vector<std::uint8_t> cast(const MatrixView& input, Format element, const Recipe& recipe, int threads) {
  check_matrix(input);
  require_bytes(element);
  std::vector<std::uint8_t> codes;
  resize_or_throw(codes, input.rows * input.cols, "codes");
  if (codes.empty()) return codes;
  const auto cols = static_cast<std::size_t>(input.cols);
  const std::int64_t rows_at_once =  // without gaps between them, short rows are encoded together
      input.row_stride == input.cols ? std::max<std::int64_t>(1, kValuesAtOnce / input.cols) : 1;
  parallel_ranges(input.rows, input.rows * input.cols, threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> values(static_cast<std::size_t>(std::min(rows_at_once, end - begin)) * cols);
    for (std::int64_t row = begin; row < end; row += rows_at_once) {
      const auto these = std::span(values).first(static_cast<std::size_t>(std::min(rows_at_once, end - row)) * cols);
      input.read_row(row, these);
      encode_values(recipe, element, these, codes.data() + static_cast<std::size_t>(row) * cols);
    }
  });
  return codes;
}

}  // namespace mxcheck
