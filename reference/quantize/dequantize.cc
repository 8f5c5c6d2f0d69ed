#include <cmath>
#include <limits>
#include <utility>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

void check_size(std::size_t size, std::int64_t expected, const std::string& what) {
  if (std::cmp_equal(size, expected)) return;
  throw Error(ErrorKind::usage, std::to_string(size) + " " + what + ": the shape asks for " + std::to_string(expected));
}

// Every field agrees with the others, so that the loops below need no checks.
void check_quantized(const Quantized& q, std::span<const std::int64_t> offsets, int threads) {
  if (q.rows < 0 || q.cols < 0 || q.block.rows < 0 || q.block.cols < 0 || threads < 0) {
    throw Error(ErrorKind::usage, "quantized matrix of " + std::to_string(q.rows) + " x " + std::to_string(q.cols) +
                                      " in blocks of " + to_text(q.block) + " on " + std::to_string(threads) +
                                      " threads: every number must be 0 or more");
  }
  check_quantized_format(q.element);
  const std::int64_t scale_rows = count_scale_rows(q.rows, q.block.rows, offsets);
  const std::int64_t scale_cols = ceil_div(q.cols, q.block.width(q.cols));
  if (q.scale_rows != scale_rows || q.scale_cols != scale_cols) {
    throw Error(ErrorKind::usage, "scales of " + std::to_string(q.scale_rows) + " x " + std::to_string(q.scale_cols) +
                                      ": blocks of " + to_text(q.block) + " under these offsets make " +
                                      std::to_string(scale_rows) + " x " + std::to_string(scale_cols));
  }
  const std::int64_t elements = checked_product(q.rows, q.cols, "matrix elements");
  const bool two_bytes = q.element == Format::e5m6;
  check_size(q.codes.size(), two_bytes ? 0 : elements, "one-byte codes");
  check_size(q.codes16.size(), two_bytes ? elements : 0, "two-byte codes");
  const std::int64_t scales = scale_rows * scale_cols;  // at most elements
  if (!q.scales.empty() && !q.scales_fp32.empty()) {
    throw Error(ErrorKind::usage, "both E8M0 and FP32 scales: a quantized matrix has one kind");
  }
  check_size(q.scales.size() + q.scales_fp32.size(), scales, "scales");
}

[[noreturn]] void refuse_code(const Quantized& q, std::int64_t row, std::int64_t col, std::size_t code,
                              std::size_t codes) {
  throw Error(ErrorKind::input, "code " + std::to_string(code) + " at row " + std::to_string(row) + ", column " +
                                    std::to_string(col) + ": " + std::string(spec(q.element).name) +
                                    " codes are 0 to " + std::to_string(codes - 1));
}

// One value for every code, by the definition.
std::vector<double> decode_table(Format element) {
  std::vector<double> values(std::size_t{1} << spec(element).bits);
  for (std::size_t code = 0; code < values.size(); ++code) {
    values[code] = decode(element, static_cast<std::uint32_t>(code));
  }
  return values;
}

// The exact product of every code and its block's scale, through round. Exact in a double: a code value has at most 8
// significant bits and an exponent from -20 to 15, a scale at most 24 and from -149 to 127.
template <class Out, class Round>
std::vector<Out> dequantize_to(const Quantized& q, std::span<const std::int64_t> offsets, int threads, Round round) {
  check_quantized(q, offsets, threads);
  std::vector<Out> out;
  if (q.rows == 0 || q.cols == 0) return out;
  resize_or_throw(out, q.rows * q.cols, "dequantized values");
  const std::vector<double> values = decode_table(q.element);
  const std::vector<std::int64_t> row_starts = block_row_starts(q.rows, q.block.rows, offsets);
  const std::int64_t block_cols = q.block.width(q.cols);
  const auto scale_at = [&](std::size_t i) {
    return q.scales_fp32.empty() ? decode(Format::e8m0, q.scales[i]) : double{q.scales_fp32[i]};
  };
  const auto one_row = [&](std::int64_t block_row, std::int64_t row) {
    for (std::int64_t block = 0, col = 0; block < q.scale_cols; ++block) {
      const double scale = scale_at(static_cast<std::size_t>(block_row * q.scale_cols + block));
      const std::int64_t end = q.cols - col > block_cols ? col + block_cols : q.cols;
      for (; col < end; ++col) {
        const auto at = static_cast<std::size_t>(row * q.cols + col);
        const std::size_t code = q.codes16.empty() ? q.codes[at] : q.codes16[at];
        if (code >= values.size()) refuse_code(q, row, col, code, values.size());
        out[at] = round(values[code] * scale);
      }
    }
  };
  parallel_ranges(q.scale_rows, q.rows * q.cols, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block_row = begin; block_row < end; ++block_row) {
      const auto i = static_cast<std::size_t>(block_row);
      for (std::int64_t row = row_starts[i]; row < row_starts[i + 1]; ++row) one_row(block_row, row);
    }
  });
  return out;
}

}  // namespace

std::vector<float> dequantize(const Quantized& q, std::span<const std::int64_t> offsets, int threads) {
  return dequantize_to<float>(q, offsets, threads, [](double exact) {
    // The conversion rounds to nearest even; only its NaN differs from ours.
    return std::isnan(exact) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(exact);
  });
}

std::vector<std::uint16_t> dequantize_bf16(const Quantized& q, std::span<const std::int64_t> offsets, int threads) {
  return dequantize_to<std::uint16_t>(q, offsets, threads, [](double exact) {
    const std::uint32_t code = encode(Format::bf16, exact, Rounding::nearest_even, Overflow::non_saturate);
    return static_cast<std::uint16_t>(code);
  });
}

}  // namespace mxcheck
