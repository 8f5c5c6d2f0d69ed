#include "reference/quantize/hadamard.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "numerics/accumulate/contract.h"
#include "numerics/accumulate/exact_sum.h"
#include "numerics/accumulate/fused_sum.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/text.h"
#include "reference/common/parallel.h"

namespace mxcheck {
namespace {

// 1 / sqrt(n) rounded to FP32. The double is right to 53 bits and not within 2^-50 of the middle of two floats.
float factor_of_size(int size) { return static_cast<float>(1 / std::sqrt(static_cast<double>(size))); }

bool is_negative(const Hadamard& t, std::size_t i) { return (t.signs[i / 32] >> i % 32 & 1) != 0; }

bool changes_sign(std::size_t i, std::size_t j) { return std::popcount(i & j) % 2 != 0; }

std::uint32_t to_result(const Hadamard& t, double value) {
  // Each type compiled apart: every element comes here.
  if (t.result == Format::bf16) return encode<Bf16>(value, Rounding::nearest_even, Overflow::non_saturate).bits;
  if (t.result == Format::fp32 && !std::isnan(value)) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return encode(t.result, value, Rounding::nearest_even, Overflow::non_saturate);
}

// A group that holds a NaN, or an infinity, has a sum of its own: the exact one of those alone.
bool special_sum(std::span<const float> x, std::size_t j, double& sum) {
  sum = 0;
  bool special = false;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isfinite(x[i])) continue;
    special = true;
    sum += changes_sign(i, j) ? -x[i] : x[i];
  }
  return special;
}

void transform_exactly(const Hadamard& t, std::span<const float> x, std::span<std::uint32_t> y) {
  const Factor c = factor(Format::fp32, std::bit_cast<std::uint32_t>(factor_of_size(t.size)));
  for (std::size_t j = 0; j < y.size(); ++j) {
    double special = 0;
    if (special_sum(x, j, special)) {
      y[j] = to_result(t, special);
      continue;
    }
    ExactSum sum;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Factor f = factor(Format::fp32, std::bit_cast<std::uint32_t>(x[i]));
      if (f.significand == 0) continue;
      sum.add(f.negative != changes_sign(i, j), std::uint64_t{f.significand} * c.significand,
              f.exponent - f.fraction_bits + c.exponent - c.fraction_bits);
    }
    y[j] = sum.rounded(t.result);
  }
}

// In the place of x.
void transform_in_stages(const Hadamard& t, std::span<float> v, std::span<std::uint32_t> y) {
  for (std::size_t h = 1; h < v.size(); h *= 2) {
    for (std::size_t first = 0; first < v.size(); first += 2 * h) {
      for (std::size_t i = first; i < first + h; ++i) {
        const float low = v[i];
        const float high = v[i + h];
        v[i] = low + high;
        v[i + h] = low - high;
      }
    }
  }
  const float c = factor_of_size(t.size);
  for (std::size_t j = 0; j < y.size(); ++j) {
    const float scaled = v[j] * c;
    y[j] = to_result(t, scaled);
  }
}

// The matrix's column j for every j, one after the other, and the group: what a GEMM multiplies.
void transform_by_matrix(const Hadamard& t, const Contract& contract, std::span<const Factor> matrix,
                         std::span<const float> x, std::span<std::uint32_t> y) {
  std::vector<Factor> row;
  for (const float value : x) {
    row.push_back(
        operand(contract, Format::bf16, encode(Format::bf16, value, Rounding::nearest_even, Overflow::non_saturate)));
  }
  for (std::size_t j = 0; j < y.size(); ++j) {
    const std::uint32_t word = accumulate(contract, row, matrix.subspan(j * row.size(), row.size()), 0);
    y[j] = to_result(t, decode(Format::fp32, word));
  }
}

std::vector<Factor> matrix_of(const Hadamard& t, const Contract& contract) {
  const std::uint32_t c = encode(Format::bf16, factor_of_size(t.size), Rounding::nearest_even, Overflow::non_saturate);
  const auto n = static_cast<std::size_t>(t.size);
  std::vector<Factor> matrix;
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t i = 0; i < n; ++i) {
      matrix.push_back(operand(contract, Format::bf16, changes_sign(i, j) ? c | 0x8000 : c));
    }
  }
  return matrix;
}

const Contract& contract_of(const Hadamard& t) {
  const Contract& contract = contract_named(t.contract);
  check_operands(contract, Format::bf16, Format::bf16);
  const bool is_fp32 = contract.arithmetic != Arithmetic::fused || contract.step.output.c == Format::fp32;
  if (!is_fp32) {
    throw Error(ErrorKind::usage, "Hadamard transform under " + t.contract + ": its accumulators must be FP32");
  }
  return contract;
}

void check_request(const MatrixView& input, const Hadamard& t, Along along, std::span<const std::int64_t> offsets,
                   int threads) {
  check_matrix(input);
  check_offsets(offsets, input.rows);
  const auto refuse = [](const std::string& what) { throw Error(ErrorKind::usage, "Hadamard transform " + what); };
  if (std::find(kHadamardSizes.begin(), kHadamardSizes.end(), t.size) == kHadamardSizes.end()) {
    refuse("of " + std::to_string(t.size) + ": the size must be one of " +
           join(kHadamardSizes, ", ", [](int n) { return std::to_string(n); }));
  }
  if (!spec(t.result).is_value)
    refuse("to " + std::string(spec(t.result).name) + ": the result must be fp32, bf16 or fp16");
  if (threads < 0) refuse("in " + std::to_string(threads) + " threads: must be 1 or more, or 0 for the machine's");
  if (along == Along::rows && input.cols % t.size != 0) {
    refuse("of " + std::to_string(t.size) + " along rows of " + std::to_string(input.cols) +
           " elements: these must be a multiple of the size");
  }
  if (along == Along::rows) return;
  const std::array<std::int64_t, 2> all{0, input.rows};
  for (const std::int64_t row : offsets.empty() ? std::span<const std::int64_t>(all) : offsets) {
    if (row % t.size == 0) continue;
    refuse("of " + std::to_string(t.size) + " down columns: the " +
           (offsets.empty() ? std::to_string(row) + " rows" : "expert offset " + std::to_string(row)) +
           " must be a multiple of the size");
  }
}

}  // namespace

Tensor hadamard(const MatrixView& input, const Hadamard& t, Along along, std::span<const std::int64_t> offsets,
                int threads) {
  check_request(input, t, along, offsets, threads);
  Tensor out = make_tensor(t.result, {input.rows, input.cols}, "transformed matrix");
  const Contract* contract = t.sum == HadamardSum::matrix ? &contract_of(t) : nullptr;
  const std::vector<Factor> matrix = contract != nullptr ? matrix_of(t, *contract) : std::vector<Factor>{};
  const bool down = along == Along::columns;
  const std::int64_t groups = (down ? input.rows : input.cols) / t.size;
  const auto transform_group = [&](std::int64_t line, std::int64_t group, std::span<float> x,
                                   std::span<std::uint32_t> y) {
    const auto place = [&](std::size_t i) {
      const std::int64_t at = group * t.size + static_cast<std::int64_t>(i);
      return down ? std::pair(at, line) : std::pair(line, at);
    };
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto [row, col] = place(i);
      const float value = input.at(row, col);
      x[i] = is_negative(t, i) ? -value : value;
    }
    switch (t.sum) {
      case HadamardSum::exact: transform_exactly(t, x, y); break;
      case HadamardSum::butterfly: transform_in_stages(t, x, y); break;
      case HadamardSum::matrix: transform_by_matrix(t, *contract, matrix, x, y); break;
    }
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto [row, col] = place(i);
      out.set_code(static_cast<std::size_t>(row * input.cols + col), y[i]);
    }
  };
  const std::int64_t lines = down ? input.cols : input.rows;
  parallel_ranges(lines, input.rows * input.cols * t.size, threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> x(static_cast<std::size_t>(t.size));
    std::vector<std::uint32_t> y(x.size());
    for (std::int64_t line = begin; line < end; ++line) {
      for (std::int64_t group = 0; group < groups; ++group) transform_group(line, group, x, y);
    }
  });
  return out;
}

}  // namespace mxcheck
