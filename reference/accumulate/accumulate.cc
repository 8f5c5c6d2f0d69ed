#include "reference/accumulate/accumulate.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <vector>

#include "numerics/error.h"
#include "reference/accumulate/engine.h"
#include "reference/accumulate/exact_tile.h"
#include "reference/accumulate/group_tile.h"
#include "reference/accumulate/operand.h"
#include "reference/common/parallel.h"

namespace mxcheck {
namespace {

std::string to_text(Extent e) { return std::to_string(e.begin) + " to " + std::to_string(e.end); }

void check_extent(const char* what, Extent e, std::int64_t size) {
  if (e.begin >= 0 && e.begin <= e.end && e.end <= size) return;
  refuse_usage(std::string(what) + " " + to_text(e) + " are not within the operand's 0 to " + std::to_string(size));
}

void check(const PackedOperand& a, Extent rows, const PackedOperand& b, Extent cols, Extent k) {
  const Contract& contract = a.contract();
  if (b.contract().name != contract.name) {
    refuse_usage("operands were packed for " + std::string(contract.name) + " and " + std::string(b.contract().name));
  }
  check_operands(contract, a.format(), b.format());
  if (a.k() != b.k()) refuse_usage("K is " + std::to_string(a.k()) + " and " + std::to_string(b.k()));
  check_extent("rows", rows, a.rows());
  check_extent("columns", cols, b.rows());
  check_extent("k", k, a.k());
  const int unit = std::max({1, contract.step.terms, contract.scale_terms});
  if (k.begin % unit != 0 || (k.end % unit != 0 && k.end != a.k())) {
    refuse_usage("k " + to_text(k) + " are not whole steps of " + std::to_string(unit));
  }
}

void read_factors(const PackedOperand& x, std::int64_t row, Extent k, std::vector<Factor>& out) {
  out.clear();
  for (std::int64_t i = k.begin; i < k.end; ++i) out.push_back(x.factor(row, i));
}

// accumulate() with what the operands hold of row, col and k.
std::uint32_t plain_chain(const PackedOperand& a, std::int64_t row, std::span<const Factor> fa, const PackedOperand& b,
                          std::int64_t col, std::span<const Factor> fb, std::int64_t k_begin, std::uint32_t c) {
  const std::int64_t terms = a.contract().scale_terms;
  if (terms == 0) return accumulate(a.contract(), fa, fb, c);
  const std::int64_t first = k_begin / terms;
  const auto count = (fa.size() + static_cast<std::size_t>(terms) - 1) / static_cast<std::size_t>(terms);
  const ContractScales scales{a.scale_format(), {a.scales(row) + first, count}, {b.scales(col) + first, count}};
  return accumulate(a.contract(), fa, fb, c, &scales);
}

void plain_tile(const PackedOperand& a, Extent rows, const PackedOperand& b, Extent cols, Extent k, std::uint32_t* acc,
                std::int64_t ld) {
  constexpr std::int64_t kRows = 16;  // decoded at a time
  std::vector<std::vector<Factor>> fa(kRows);
  std::vector<Factor> fb;
  for (std::int64_t i0 = rows.begin; i0 < rows.end; i0 += kRows) {
    const std::int64_t i1 = std::min(rows.end, i0 + kRows);
    for (std::int64_t i = i0; i < i1; ++i) read_factors(a, i, k, fa[static_cast<std::size_t>(i - i0)]);
    for (std::int64_t j = cols.begin; j < cols.end; ++j) {
      read_factors(b, j, k, fb);
      for (std::int64_t i = i0; i < i1; ++i) {
        std::uint32_t& word = acc[(i - rows.begin) * ld + j - cols.begin];
        word = plain_chain(a, i, fa[static_cast<std::size_t>(i - i0)], b, j, fb, k.begin, word);
      }
    }
  }
}

}  // namespace

void detail::plain_step(const ChainJob& job, std::int64_t row, Extent cols, std::int64_t step,
                        const std::int32_t* wanted, std::uint32_t* acc) {
  const FusedSum& f = job.a.contract().step;
  const std::int64_t first = step * f.terms;
  const Extent k{first, std::min(first + f.terms, job.a.k())};
  thread_local std::vector<Factor> fa;
  thread_local std::vector<Factor> fb;
  read_factors(job.a, row, k, fa);
  for (std::int64_t col = cols.begin; col < cols.end; ++col) {
    if (wanted[col - cols.begin] == 0) continue;
    std::uint32_t& word = acc[col - cols.begin];
    if ((word & 0x7FFFFFFF) > 0x7F800000) {  // a chain that became NaN stays so
      word = f.output.nan;
      continue;
    }
    read_factors(job.b, col, k, fb);
    word = plain_chain(job.a, row, fa, job.b, col, fb, k.begin, word);
  }
}

void accumulate_tile(const PackedOperand& a, Extent rows, const PackedOperand& b, Extent cols, Extent k,
                     std::uint32_t* acc, std::int64_t ld) {
  check(a, rows, b, cols, k);
  if (k.begin == k.end || rows.begin == rows.end || cols.begin == cols.end) return;
  if (a.exact() != nullptr) return exact_tile(*a.exact(), rows, *b.exact(), cols, k, acc, ld);
  if (runs_on_groups(a.contract(), a.format(), b.format())) return group_tile(a, rows, b, cols, k, acc, ld);
  if (!runs_on_engine(a.contract())) return plain_tile(a, rows, b, cols, k, acc, ld);
  const std::int64_t terms = a.contract().step.terms;
  detail::run_chains({a, b, rows, cols, {k.begin / terms, (k.end + terms - 1) / terms}, acc, ld});
}

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
