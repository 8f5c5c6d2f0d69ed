#pragma once
// Accumulation contracts: named definitions of what a sum of products over K is, to the bit.
//
//   exact            one rounding of the exact sum: what no order and no hardware can change
//   ieee_fp32        acc = fma(a_k, b_k, acc) in FP32, k ascending
//   sm90_*, sm100_*  steps of a tensor core (numerics/accumulate/fused_sum.h), k ascending, each starting from the
//                    accumulator that the one before left
//
// A matmul names a contract, and states promotion, scales and output on top of it (reference/matmul/matmul.h).
//
//   const Contract& c = contract_named("sm90_fp8");
//   const std::vector<Factor> a = {operand(c, Format::e4m3, 0x38), ...}, b = ...;    // K of each
//   const std::uint32_t d = accumulate(c, a, b, 0);                                  // an FP32 word
//
// Sources: those of fused_sum.h; docs/contracts.md. Errors: Error{usage}, where a function says so.
//
// Does not promise: that hardware does this. `evidence` says how that was checked, for each.

#include <cstdint>
#include <span>
#include <string_view>

#include "numerics/accumulate/fused_sum.h"

namespace mxcheck {

enum class Arithmetic : std::uint8_t { exact, ieee_fp32, fused };

enum class Evidence : std::uint8_t {
  definition,  // of our own: there is no hardware to agree with
  measured,    // on the hardware by this project: goldens/records, docs/contracts.md
  published,   // results of the hardware that others published; the tests reproduce them
  models,      // independent published models agree; no hardware results were available
};

struct Contract {
  std::string_view name;
  Arithmetic arithmetic;
  FusedSum step;                     // of fused contracts
  std::span<const Format> operands;  // formats that either operand may have
  bool mixes;                        // the two operands' formats may differ
  std::uint32_t operand_mask;        // bits of an operand's word that count: TF32 ignores the low 13 of an FP32 word
  std::span<const Format> scales;    // formats of hardware scales: E8M0; empty for unscaled contracts
  int scale_terms;                   // products that share a scale; 0 for unscaled contracts
  Evidence evidence;
  std::string_view note;  // a one-line description
};

std::span<const Contract> all_contracts();

// Error{usage} lists the names when there is none of that name.
const Contract& contract_named(std::string_view name);

std::string_view to_text(Evidence evidence);

// Error{usage} when the contract does not take these formats.
void check_operands(const Contract& contract, Format a, Format b);

// The operand's code as the contract reads it.
Factor operand(const Contract& contract, Format format, std::uint32_t code);

// Scales of either operand, one for every contract.scale_terms products of k; in E8M0, or E4M3 read as UE4M3.
struct ContractScales {
  Format format = Format::e8m0;
  std::span<const std::uint8_t> a;
  std::span<const std::uint8_t> b;
};

// The sum over all k of a_k * b_k, plus c: the bits of c and of the result are FP32 (FP16 for contracts that say so). A
// K that is no multiple of the step is filled with zeros. This is the plain model, one output at a time.
// Error{usage} for unequal lengths, or scales that the contract does not have.
std::uint32_t accumulate(const Contract& contract, std::span<const Factor> a, std::span<const Factor> b,
                         std::uint32_t c, const ContractScales* scales = nullptr);

}  // namespace mxcheck
