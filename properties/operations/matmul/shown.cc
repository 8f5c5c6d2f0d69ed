#include "properties/operations/matmul/shown.h"

#include <algorithm>
#include <limits>

#include "numerics/format/format.h"
#include "properties/operations/matmul/fields.h"

namespace mxcheck {
namespace {

// Sums have on average x terms that make them NaN or infinite: then e^-x of the outputs are numbers, 13 % at 2.
constexpr double kMostSpoiled = 2;
// Bounds of small cases: so many outputs, or rows or columns of any length, and such a k.
constexpr std::int64_t kFewOutputs = 4096;
constexpr std::int64_t kFewLines = 2;
constexpr std::int64_t kShortSum = 512;

// The share of a format's uniform codes that is NaN or infinite.
double share_not_finite(Format format) {
  const FormatSpec& f = spec(format);
  const double magnitudes = static_cast<double>(std::uint64_t{1} << (f.bits - 1));
  return (magnitudes - 1 - f.max_code) / magnitudes;
}

// Exponents of BF16, FP32 and E8M0 that are drawn uniformly from 0 to 254 add up to 382 or more, 2^128 without biases,
// in 126 * 126 / 2 of 255 * 255 pairs.
constexpr double kProductOverflows = 126.0 * 126 / 2 / (255.0 * 255);

// The share of products of codes of A and B that are NaN or infinite.
double spoiled_by_codes(const MatmulVariant& v, Data data) {
  if (data != Data::bits && data != Data::wide) return 0;  // specials are so in few rows
  const double codes = data == Data::bits ? share_not_finite(v.format) + share_not_finite(v.format_b) : 0;
  const bool overflows = std::min(spec(v.format).exponent_bits, spec(v.format_b).exponent_bits) == 8;
  return codes + (overflows ? kProductOverflows : 0);
}

// The share of blocks of k that are so by their scales (problem.cc has how scales are drawn).
double spoiled_by_scales(const MatmulVariant& v, Data data) {
  if (v.scales == MXCHECK_NO_SCALES) return 0;
  if (v.scales == MXCHECK_E4M3) {
    if (data == Data::bits) return 2 * 2.0 / 256;
    return data == Data::specials ? 2 * 2.0 / 97 : 0;
  }
  if (data == Data::bits || data == Data::wide) return kProductOverflows;
  // 255 in one of 97; 254, which overflows beside half of the others, in three or four.
  return data == Data::specials ? 2 * (1 + 3.5 / 2) / 97 : 0;
}

// Terms of the longest sum.
std::int64_t longest_sum(const Case& c) {
  if (matmul_of(c.variant).groups != MXCHECK_DEPTH) return matmul_case(c).depth;
  std::int64_t longest = 0;
  for (std::size_t e = 1; e < c.experts.size(); ++e) longest = std::max(longest, c.experts[e] - c.experts[e - 1]);
  return longest;
}

}  // namespace

std::int64_t deepest_shown(const Variant& variant, Data data) {
  const MatmulVariant& v = matmul_of(variant);
  const auto block = static_cast<double>(std::max<std::int64_t>(1, std::min(v.block.cols, v.block_b.cols)));
  const double spoiled = spoiled_by_codes(v, data) + spoiled_by_scales(v, data) / block;
  if (spoiled <= 0) return std::numeric_limits<std::int64_t>::max();
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(kMostSpoiled / spoiled));
}

bool shows_sums(const Case& c) {
  const std::int64_t depth = longest_sum(c);
  if (depth > deepest_shown(c.variant, c.data)) return false;
  const bool is_zero = depth == 0 || matmul_case(c).alpha == 0;
  const bool has_few = c.elements() <= kFewOutputs || std::min(c.rows, c.cols) <= kFewLines;
  return !is_zero || (has_few && depth <= kShortSum);
}

}  // namespace mxcheck
