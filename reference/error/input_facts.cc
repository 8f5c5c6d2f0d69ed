#include "reference/error/input_facts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <Eigen/Core>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/measure/measures.h"
#include "reference/common/checked_size.h"
#include "reference/error/matmul_error.h"

namespace mxcheck {

void check_has_elements(std::int64_t rows, std::int64_t cols) {
  if (rows != 0 && cols != 0) return;
  throw Error(ErrorKind::usage,
              "a matrix of " + std::to_string(rows) + " x " + std::to_string(cols) + " has no elements to measure");
}

void check_has_elements(const MatrixView& input) {
  check_matrix(input);
  check_has_elements(input.rows, input.cols);
}

void InputFacts::add(const InputFacts& other) {
  count += other.count;
  zeros += other.zeros;
  nan += other.nan;
  infinite += other.infinite;
  largest = std::max(largest, other.largest);
  if (other.smallest > 0) smallest = smallest == 0 ? other.smallest : std::min(smallest, other.smallest);
}

InputFacts input_facts(const MatrixView& input) {
  check_has_elements(input);
  InputFacts facts;
  std::vector<float> row(static_cast<std::size_t>(input.cols));
  for (std::int64_t r = 0; r < input.rows; ++r) {
    input.read_row(r, row);
    for (const float x : row) {
      ++facts.count;
      const float magnitude = std::fabs(x);
      if (std::isnan(x)) {
        ++facts.nan;
      } else if (std::isinf(x)) {
        ++facts.infinite;
      } else if (x == 0) {
        ++facts.zeros;
      } else {
        facts.largest = std::max(facts.largest, magnitude);
        facts.smallest = facts.smallest == 0 ? magnitude : std::min(facts.smallest, magnitude);
      }
    }
  }
  return facts;
}

ErrorMeter::Part measure_bf16(const ErrorMeter& meter, const MatrixView& input) {
  check_has_elements(input);
  ErrorMeter::Part part = meter.part(static_cast<std::uint64_t>(input.first_row * input.cols));
  constexpr std::uint32_t kLargestCode = 0x7F7F;
  const double largest = decode(Format::bf16, kLargestCode);
  std::vector<float> row(static_cast<std::size_t>(input.cols)), back(row.size());
  for (std::int64_t r = 0; r < input.rows; ++r) {
    input.read_row(r, row);
    if (input.dtype == Format::bf16) {
      part.add(row, row);
      continue;
    }
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::uint32_t code = encode<Bf16>(row[c], Rounding::nearest_even, Overflow::non_saturate).bits;
      back[c] = std::bit_cast<float>(code << 16);
      const float magnitude = std::fabs(row[c]);
      part.flushed += back[c] == 0 && magnitude > 0 ? 1 : 0;
      part.saturated += (code & 0x7FFF) == kLargestCode && magnitude > largest ? 1 : 0;
    }
    part.add(row, back);
  }
  return part;
}

ErrorMeasures study_bf16(const MatrixView& input) {
  ErrorMeter meter;
  do {
    meter.add(measure_bf16(meter, input));
  } while (!meter.finish_pass());
  return meter.measures();
}

namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using View = Eigen::Map<const RowMajor>;

template <class Round>
std::vector<double> values_of(const MatrixView& m, Round round) {
  std::vector<double> out;
  resize_or_throw(out, m.rows * m.cols, "operand of the matmul");
  std::vector<float> row(static_cast<std::size_t>(m.cols));
  auto to = out.begin();
  for (std::int64_t r = 0; r < m.rows; ++r) {
    m.read_row(r, row);
    to = std::transform(row.begin(), row.end(), to, round);
  }
  return out;
}

// code * scale, which a double holds exactly (reference/quantize/scale_layout.cc), without dequantize's rounding to
// FP32. Below an amax or an inverse as the tensor's scale it is a quotient, rounded to double.
std::vector<double> quantized_values(const MatrixView& m, Format element, BlockShape block, const Recipe& recipe) {
  const QuantizedTensor q = quantize(m, element, block, recipe, {}, 1);
  const std::vector<std::int64_t> starts = block_row_starts(q.rows(), block.rows, {});
  const std::int64_t block_cols = block.width(q.cols());
  std::vector<double> out;
  resize_or_throw(out, q.rows() * q.cols(), "operand of the matmul");
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    for (std::int64_t r = starts[i]; r < starts[i + 1]; ++r) {
      for (std::int64_t c = 0; c < q.cols(); ++c) {
        const auto at = static_cast<std::size_t>(r * q.cols() + c);
        const std::size_t s = i * static_cast<std::size_t>(q.scale_cols()) + static_cast<std::size_t>(c / block_cols);
        const auto [times, over] = q.outer_scale(r, c);
        out[at] = decode(element, q.codes.code(at)) * q.scale(s) * times / over;
      }
    }
  }
  return out;
}

double round_to_bf16(float x) {
  return decode(Format::bf16, encode(Format::bf16, x, Rounding::nearest_even, Overflow::non_saturate));
}

}  // namespace

MatmulErrorMeter::MatmulErrorMeter(const MatrixView& activations, const MatrixView& weights, WeightsLayout layout)
    : x_(activations), w_(weights), layout_(layout) {
  check_matrix(x_);
  check_matrix(w_);
  const bool nk = layout == WeightsLayout::nk;
  const std::int64_t weights_k = nk ? w_.cols : w_.rows;
  if (x_.cols != weights_k) {
    throw Error(ErrorKind::usage, "K is " + std::to_string(x_.cols) + ", the activations' columns, and " +
                                      std::to_string(weights_k) + ", the weights' " + (nk ? "columns" : "rows") +
                                      "; weights of " + (nk ? "K x N are layout kn" : "N x K are layout nk"));
  }
  if (x_.rows == 0 || x_.cols == 0 || n() == 0) {
    throw Error(ErrorKind::usage, "a matmul of " + std::to_string(m()) + " x " + std::to_string(k()) + " by " +
                                      std::to_string(k()) + " x " + std::to_string(n()) + " has no elements");
  }
  const auto as_it_is = [](float x) { return double{x}; };
  exact_ = multiply(values_of(x_, as_it_is), values_of(w_, as_it_is));
}

std::vector<double> MatmulErrorMeter::multiply(const std::vector<double>& x, const std::vector<double>& w) const {
  std::vector<double> out;
  resize_or_throw(out, checked_product(m(), n(), "matmul"), "matmul");
  const View left(x.data(), m(), k());
  const View right(w.data(), w_.rows, w_.cols);
  Eigen::Map<RowMajor> y(out.data(), m(), n());
  if (layout_ == WeightsLayout::nk) {
    y.noalias() = left * right.transpose();
  } else {
    y.noalias() = left * right;
  }
  return out;
}

MatmulError MatmulErrorMeter::compare(const std::vector<double>& z) const {
  PairwiseSum signal, noise;
  double largest = 0;
  bool finite = true;
  for (std::size_t i = 0; i < z.size(); ++i) {
    const double difference = z[i] - exact_[i];
    finite = finite && std::isfinite(difference);
    largest = std::max(largest, std::fabs(difference));
    signal.add(exact_[i] * exact_[i]);
    noise.add(difference * difference);
  }
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (!finite) return {kNan, kNan, kNan};
  const double n = noise.total(), s = signal.total();
  if (n == 0) return {kInf, 0, 0};
  if (s == 0) return {-kInf, kInf, kInf};
  return {10 * std::log10(s / n), std::sqrt(n / s), largest / std::sqrt(s / static_cast<double>(z.size()))};
}

MatmulError MatmulErrorMeter::error(Format element, BlockShape block, const Recipe& recipe) const {
  if (block.cols == 1 && block.rows != 1) {
    throw Error(ErrorKind::usage, "block " + to_text(block) + " lies across K; a matmul takes blocks along K");
  }
  const BlockShape w_block = layout_ == WeightsLayout::nk ? block : block.transposed();
  return compare(
      multiply(quantized_values(x_, element, block, recipe), quantized_values(w_, element, w_block, recipe)));
}

MatmulError MatmulErrorMeter::error_of_bf16() const {
  return compare(multiply(values_of(x_, round_to_bf16), values_of(w_, round_to_bf16)));
}

double MatmulErrorMeter::gamma() const {
  const double ku = static_cast<double>(k()) * std::numeric_limits<double>::epsilon() / 2;
  return ku / (1 - ku);
}

}  // namespace mxcheck
