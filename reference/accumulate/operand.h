#pragma once
// A GEMM operand as the accumulation engines read it: codes decoded once, into panels of 64 rows.
//
// A row's codes of one step are kept relative to the step's reference, the largest exponent among them: values as
// floats, exponents as bytes. Both then stay small whatever the format's range, and an E8M0 scale of the step is a
// change of the reference alone. NaN and Inf are flagged in the reference (kSpecialReference).
//
// Errors: Error{usage} of the constructor.
//
// Does not promise: low memory use. 5 bytes an element plus its code, 8 for `exact`; pack large operands in parts.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "numerics/accumulate/contract.h"
#include "reference/accumulate/exact_rows.h"

namespace mxcheck {

// Where an operand's codes are: std::uint8_t for formats of up to 8 bits, std::uint16_t up to 16, else std::uint32_t.
// Strides count codes: the code of (row, k) is at row * row_stride + k * k_stride, of either operand.
struct OperandSource {
  const void* codes;
  std::int64_t rows;
  std::int64_t k;
  std::int64_t row_stride;
  std::int64_t k_stride = 1;

  // Block scales, of scaled contracts alone: one for every contract.scale_terms products of a row.
  const std::uint8_t* scales = nullptr;
  std::int64_t scale_row_stride = 0;
  std::int64_t scale_k_stride = 1;
  Format scale_format = Format::e8m0;
};

class PackedOperand {
 public:
  static constexpr std::int64_t kPanel = 64;                // rows that lie side by side
  static constexpr int kDeep = 31;                          // twice this is still above kZeroExponent
  static constexpr int kDepth = 50;                         // codes further than this below the reference read as zeros
  static constexpr std::int8_t kZeroExponent = -64;         // of codes that read as zeros
  static constexpr std::int32_t kZeroReference = -2000;     // of steps that hold zeros only
  static constexpr std::int32_t kSpecialReference = 10000;  // of steps with a NaN or an infinity in codes or scale

  struct alignas(64) Values {
    float lane[kPanel];  // code * 2^-reference
  };
  struct alignas(64) Exponents {
    std::int8_t lane[kPanel];  // encoded exponent - reference
  };
  struct alignas(64) References {
    std::int32_t lane[kPanel];
    bool deep;  // some code is further than kDeep below its reference
  };

  // Error{usage} for a format that the contract does not take, and for scales that are missing or too many.
  PackedOperand(const Contract& contract, Format format, const OperandSource& source, int threads = 1);

  [[nodiscard]] const Contract& contract() const { return contract_; }
  [[nodiscard]] Format format() const { return format_; }
  [[nodiscard]] Format scale_format() const { return scale_format_; }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t k() const { return k_; }

  // One element as a factor, which the plain model reads.
  [[nodiscard]] Factor factor(std::int64_t row, std::int64_t k) const {
    const auto at = static_cast<std::size_t>(row * k_ + k);
    if (!codes8_.empty()) return factors8_[codes8_[at]];
    const std::uint32_t code = !codes16_.empty() ? codes16_[at] : codes32_[at];
    return factor_of(spec(format_), code & contract_.operand_mask);
  }
  [[nodiscard]] const std::uint8_t* scales(std::int64_t row) const { return scales_.data() + row * scales_a_row_; }

  // The rows that exact_tile() reads: of the contract `exact`, else null.
  [[nodiscard]] const ExactRows* exact() const { return exact_.has_value() ? &*exact_ : nullptr; }

  // The engine's data, if runs_on_engine(contract) alone. A panel's k ascend, filled with zeros to whole steps.
  [[nodiscard]] const Values* values(std::int64_t panel, std::int64_t step) const {
    return values_.data() + (panel * steps_ + step) * contract_.step.terms;
  }
  [[nodiscard]] const Exponents* exponents(std::int64_t panel, std::int64_t step) const {
    return exponents_.data() + (panel * steps_ + step) * contract_.step.terms;
  }
  [[nodiscard]] const References& references(std::int64_t panel, std::int64_t step) const {
    return references_[static_cast<std::size_t>(panel * steps_ + step)];
  }

 private:
  void copy_scales(const OperandSource& source);
  void pack_exact(int threads);
  void pack_row(std::int64_t panel, std::int64_t step, std::int64_t lane);

  Contract contract_;
  Format format_;
  Format scale_format_;
  std::int64_t rows_;
  std::int64_t k_;
  std::int64_t steps_ = 0;
  std::array<Factor, 256> factors8_{};  // of formats of at most 8 bits: every code, decoded once
  std::int64_t scales_a_row_ = 0;
  std::vector<std::uint8_t> codes8_;  // the codes, in the vector of their format's width
  std::vector<std::uint16_t> codes16_;
  std::vector<std::uint32_t> codes32_;
  std::vector<std::uint8_t> scales_;
  std::optional<ExactRows> exact_;
  std::vector<Values> values_;
  std::vector<Exponents> exponents_;
  std::vector<References> references_;
};

// True if the SIMD engine computes this contract: what it assumes of a FusedSum is listed here.
bool runs_on_engine(const Contract& contract);

// Indices from begin to one before end, of rows, columns or k.

struct Extent {
  std::int64_t begin;
  std::int64_t end;
};

}  // namespace mxcheck
