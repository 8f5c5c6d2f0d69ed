#include "reference/accumulate/operand.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "numerics/error.h"
#include "reference/common/parallel.h"

namespace mxcheck {
namespace {

constexpr int kMaxTerms = 32;  // of a step that the engine computes

template <class Code>
void copy_codes(const OperandSource& source, std::vector<Code>& out) {
  const auto* codes = static_cast<const Code*>(source.codes);
  out.resize(static_cast<std::size_t>(source.rows * source.k));
  auto at = out.begin();
  for (std::int64_t row = 0; row < source.rows; ++row) {
    for (std::int64_t k = 0; k < source.k; ++k) *at++ = codes[row * source.row_stride + k * source.k_stride];
  }
}

// significand * 2^exponent, exactly: both are far from the ends of FP32's range.
float value(const Factor& x, int exponent) {
  const auto magnitude = static_cast<float>(x.significand) *
                         std::bit_cast<float>(static_cast<std::uint32_t>(127 + exponent - x.fraction_bits) << 23);
  return x.negative ? -magnitude : magnitude;
}

}  // namespace

bool runs_on_engine(const Contract& contract) {
  const FusedSum& f = contract.step;
  const bool scaled_by_step =
      contract.scale_terms == f.terms && contract.scales.size() == 1 && contract.scales.front() == Format::e8m0;
  // Terms are below 4 * 2^fraction_bits, and 16 of them must fit in 31 bits.
  return contract.arithmetic == Arithmetic::fused && f.group == 1 && f.terms <= kMaxTerms && f.fraction_bits <= 25 &&
         f.output.c == Format::fp32 && !f.output.rounds_to_even && f.alignment == Alignment::toward_zero &&
         !f.normalizes_products && !f.zero_products_count && !f.adds_c_last && !f.saturates &&
         (contract.scale_terms == 0 || scaled_by_step);
}

PackedOperand::PackedOperand(const Contract& contract, Format format, const OperandSource& source, int threads)
    : contract_(contract), format_(format), scale_format_(source.scale_format), rows_(source.rows), k_(source.k) {
  check_operands(contract, format, format);
  const int bits = spec(format).bits;
  if (bits <= 8) copy_codes(source, codes8_);
  if (bits > 8 && bits <= 16) copy_codes(source, codes16_);
  if (bits > 16) copy_codes(source, codes32_);
  copy_scales(source);
  if (bits <= 8) {  // of codes that have bits beyond their format the table has what the format's have
    for (std::uint32_t code = 0; code < 256; ++code) factors8_[code] = operand(contract, format, code);
  }
  if (contract.arithmetic == Arithmetic::exact) pack_exact(threads);
  if (!runs_on_engine(contract)) return;

  const std::int64_t terms = contract.step.terms;
  const std::int64_t panels = (rows_ + kPanel - 1) / kPanel;
  steps_ = (k_ + terms - 1) / terms;
  // Lanes beyond the rows, and terms beyond k, stay as here: zeros.
  Exponents no_exponents;
  std::fill(std::begin(no_exponents.lane), std::end(no_exponents.lane), kZeroExponent);
  References no_references{{}, false};
  std::fill(std::begin(no_references.lane), std::end(no_references.lane), kZeroReference);
  values_.resize(static_cast<std::size_t>(panels * steps_ * terms));
  exponents_.resize(values_.size(), no_exponents);
  references_.resize(static_cast<std::size_t>(panels * steps_), no_references);
  parallel_ranges(panels, rows_ * k_, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      for (std::int64_t step = 0; step < steps_; ++step) {
        const std::int64_t lanes = std::min(kPanel, rows_ - panel * kPanel);
        for (std::int64_t lane = 0; lane < lanes; ++lane) pack_row(panel, step, lane);
      }
    }
  });
}

void PackedOperand::copy_scales(const OperandSource& source) {
  const std::int64_t terms = contract_.scale_terms;
  if ((source.scales != nullptr) != (terms != 0)) {
    throw Error(ErrorKind::usage,
                "contract " + std::string(contract_.name) + (terms != 0 ? " needs scales" : " takes no scales"));
  }
  if (terms == 0) return;
  if (std::find(contract_.scales.begin(), contract_.scales.end(), scale_format_) == contract_.scales.end()) {
    throw Error(ErrorKind::usage, "contract " + std::string(contract_.name) + " takes no scales in " +
                                      std::string(spec(scale_format_).name));
  }
  scales_a_row_ = (k_ + terms - 1) / terms;
  scales_.reserve(static_cast<std::size_t>(rows_ * scales_a_row_));
  for (std::int64_t row = 0; row < rows_; ++row) {
    for (std::int64_t i = 0; i < scales_a_row_; ++i) {
      scales_.push_back(source.scales[row * source.scale_row_stride + i * source.scale_k_stride]);
    }
  }
}

void PackedOperand::pack_exact(int threads) {
  exact_.emplace(rows_, k_);
  parallel_ranges(rows_, rows_ * k_, threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> values(static_cast<std::size_t>(k_));
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t k = 0; k < k_; ++k) values[static_cast<std::size_t>(k)] = value_of(factor(row, k));
      exact_->set_row(row, values);
    }
  });
}

// One row's codes of one step: the reference first, then what is relative to it.
void PackedOperand::pack_row(std::int64_t panel, std::int64_t step, std::int64_t lane) {
  const std::int64_t row = panel * kPanel + lane;
  const std::int64_t terms = contract_.step.terms;
  const std::int64_t count = std::min(terms, k_ - step * terms);
  std::array<Factor, kMaxTerms> x;
  int largest = kZeroReference;
  bool special = false;
  for (std::int64_t t = 0; t < count; ++t) {
    Factor& f = x[static_cast<std::size_t>(t)];
    f = factor(row, step * terms + t);
    if (f.kind != Factor::Kind::finite) special = true;
    if (f.significand != 0) largest = std::max(largest, f.exponent);
  }

  References& references = references_[static_cast<std::size_t>(panel * steps_ + step)];
  const std::int64_t first = (panel * steps_ + step) * terms;
  for (std::int64_t t = 0; t < count; ++t) {
    const Factor& f = x[static_cast<std::size_t>(t)];
    const int below = f.exponent - largest;
    const bool reads_as_zero = f.significand == 0 || below < -kDepth;
    if (f.significand != 0 && below < -kDeep) references.deep = true;
    const auto line = static_cast<std::size_t>(first + t);
    values_[line].lane[lane] = reads_as_zero ? 0.0F : value(f, below);
    exponents_[line].lane[lane] = reads_as_zero ? kZeroExponent : static_cast<std::int8_t>(below);
  }

  if (scales_a_row_ != 0) {
    const std::uint8_t scale = scales(row)[step];
    special = special || scale == spec(Format::e8m0).nan_code;
    largest += scale - spec(Format::e8m0).bias;
  }
  references.lane[lane] = special ? kSpecialReference : largest;
}

}  // namespace mxcheck
