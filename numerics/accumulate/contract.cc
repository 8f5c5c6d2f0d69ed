#include "numerics/accumulate/contract.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>

#include "numerics/accumulate/exact_sum.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/names.h"

namespace mxcheck {
namespace {

using Kind = Factor::Kind;

constexpr std::array kAny{Format::e4m3, Format::e5m2, Format::e2m1, Format::e2m3,
                          Format::e3m2, Format::bf16, Format::fp16, Format::fp32};
constexpr std::array kFp8{Format::e4m3, Format::e5m2};
// kind::f8f6f4 takes these: the elements but MXINT8, which has no exponent.
constexpr std::array kNarrow{Format::e4m3, Format::e5m2, Format::e2m1, Format::e2m3, Format::e3m2};
constexpr std::array kBf16{Format::bf16};
constexpr std::array kFp16{Format::fp16};
constexpr std::array kHalves{Format::bf16, Format::fp16};
constexpr std::array kFp32{Format::fp32};
constexpr std::array kFp4{Format::e2m1};
constexpr std::array kE8m0{Format::e8m0};
constexpr std::array kUe4m3{Format::e4m3};
constexpr std::span<const Format> kNone{};

constexpr std::uint32_t kWhole = 0xFFFFFFFF;
constexpr std::uint32_t kTf32 = 0xFFFFE000;

constexpr FusedSum kNoStep{0, 0, kFp32Output, 0};

constexpr FusedSum step_of(int terms, int fraction_bits, const SumOutput& output, int window_floor, int group = 1) {
  return {terms, fraction_bits, output, window_floor, group};
}

constexpr std::array kContracts{
    Contract{"exact", Arithmetic::exact, kNoStep, kAny, true, kWhole, kNone, 0, Evidence::definition,
             "one rounding of the exact sum"},
    Contract{"ieee_fp32", Arithmetic::ieee_fp32, kNoStep, kAny, true, kWhole, kNone, 0, Evidence::definition,
             "FP32 fused multiply-adds, k ascending"},
    Contract{"sm90_fp8", Arithmetic::fused, step_of(32, 13, kE8m13Output, -133), kFp8, true, kWhole, kNone, 0,
             Evidence::measured, "wgmma .f32.e4m3/e5m2: 32 products and c, 13 fraction bits, cut to E8M13"},
    Contract{"sm90_bf16", Arithmetic::fused, step_of(16, 25, kFp32Output, -133), kBf16, false, kWhole, kNone, 0,
             Evidence::measured, "wgmma .f32.bf16: 16 products and c, 25 fraction bits, cut to FP32"},
    Contract{"sm90_fp16", Arithmetic::fused, step_of(16, 25, kFp32Output, -133), kFp16, false, kWhole, kNone, 0,
             Evidence::measured, "wgmma .f32.f16: as sm90_bf16"},
    Contract{"sm90_tf32", Arithmetic::fused, step_of(8, 25, kFp32Output, -133), kFp32, false, kTf32, kNone, 0,
             Evidence::measured, "wgmma .f32.tf32: 8 products and c, 25 fraction bits, cut to FP32"},
    Contract{"sm90_fp8_fp16", Arithmetic::fused, step_of(32, 13, kFp16Output, -133), kFp8, true, kWhole, kNone, 0,
             Evidence::models, "wgmma .f16.e4m3/e5m2: as sm90_fp8, rounded to FP16"},
    Contract{"sm90_fp16_fp16", Arithmetic::fused, step_of(16, 25, kFp16Output, -133), kFp16, false, kWhole, kNone, 0,
             Evidence::models, "wgmma .f16.f16: as sm90_fp16, rounded to FP16"},
    Contract{"sm100_f8f6f4", Arithmetic::fused, step_of(32, 25, kFp32Output, -133), kNarrow, true, kWhole, kNone, 0,
             Evidence::published, "tcgen05 kind::f8f6f4: 32 products and c, 25 fraction bits, cut to FP32"},
    Contract{"sm100_f16", Arithmetic::fused, step_of(16, 25, kFp32Output, -133), kHalves, false, kWhole, kNone, 0,
             Evidence::published, "tcgen05 kind::f16: 16 products and c, 25 fraction bits, cut to FP32"},
    Contract{"sm100_tf32", Arithmetic::fused, step_of(8, 25, kFp32Output, -133), kFp32, false, kTf32, kNone, 0,
             Evidence::models, "tcgen05 kind::tf32: 8 products and c, 25 fraction bits, cut to FP32"},
    Contract{"sm100_mxf8f6f4", Arithmetic::fused, step_of(32, 25, kFp32Output, -133), kNarrow, true, kWhole, kE8m0, 32,
             Evidence::published, "tcgen05 kind::mxf8f6f4: as sm100_f8f6f4, E8M0 scales move the products' window"},
    Contract{"sm100_mxf4", Arithmetic::fused, step_of(64, 35, kFp32Output, -139, 16), kFp4, false, kWhole, kE8m0, 32,
             Evidence::models, "tcgen05 kind::mxf4: 4 exact sums of 16 and c, 35 fraction bits, cut to FP32"},
    Contract{"sm100_nvf4", Arithmetic::fused, step_of(64, 35, kFp32Output, -139, 16), kFp4, false, kWhole, kUe4m3, 16,
             Evidence::models, "tcgen05 kind::mxf4nvf4 with UE4M3 scales: as sm100_mxf4; groups of 16 are not settled"},
};

constexpr std::array<Named<Evidence>, 4> kEvidence{{{"definition", Evidence::definition},
                                                    {"measured", Evidence::measured},
                                                    {"published words", Evidence::published},
                                                    {"models agree", Evidence::models}}};

std::string names(std::span<const Format> formats) {
  return join(formats, ", ", [](Format f) { return spec(f).name; });
}

double value_of(const Factor& x) {
  const double m = std::ldexp(x.significand, x.exponent - x.fraction_bits);
  return x.negative ? -m : m;
}

std::uint32_t sum_exact(std::span<const Factor> a, std::span<const Factor> b, std::uint32_t c_word) {
  ExactSum sum;
  bool nan = false;
  bool infinite[2] = {false, false};
  for (std::size_t k = 0; k < a.size(); ++k) {
    const bool negative = a[k].negative != b[k].negative;
    if (a[k].kind == Kind::finite && b[k].kind == Kind::finite) {
      sum.add(negative, std::uint64_t{a[k].significand} * b[k].significand,
              a[k].exponent - a[k].fraction_bits + b[k].exponent - b[k].fraction_bits);
      continue;
    }
    const auto zero = [](const Factor& x) { return x.kind == Kind::finite && x.significand == 0; };
    if (a[k].kind == Kind::nan || b[k].kind == Kind::nan || zero(a[k]) || zero(b[k]))
      nan = true;
    else
      infinite[negative ? 1 : 0] = true;
  }
  const Factor c = factor(Format::fp32, c_word);
  if (c.kind == Kind::nan) nan = true;
  if (c.kind == Kind::infinite) infinite[c.negative ? 1 : 0] = true;
  if (nan || (infinite[0] && infinite[1])) return kFp32Output.nan;
  if (infinite[0] || infinite[1]) return infinite[1] ? 0xFF800000 : 0x7F800000;
  sum.add(c.negative, c.significand, c.exponent - c.fraction_bits);
  return sum.rounded(Format::fp32);
}

std::uint32_t sum_ieee(std::span<const Factor> a, std::span<const Factor> b, std::uint32_t c) {
  const auto read = [](const Factor& x) {
    if (x.kind == Kind::nan) return std::bit_cast<float>(kFp32Output.nan);
    if (x.kind == Kind::infinite) return x.negative ? -HUGE_VALF : HUGE_VALF;
    return static_cast<float>(value_of(x));
  };
  auto acc = std::bit_cast<float>(c);
  for (std::size_t k = 0; k < a.size(); ++k) acc = std::fma(read(a[k]), read(b[k]), acc);
  return std::isnan(acc) ? kFp32Output.nan : std::bit_cast<std::uint32_t>(acc);
}

}  // namespace

std::span<const Contract> all_contracts() { return kContracts; }

const Contract& contract_named(std::string_view name) { return entry_named(kContracts, "contract", name); }

std::string_view to_text(Evidence evidence) { return name_in(kEvidence, evidence); }

void check_operands(const Contract& contract, Format a, Format b) {
  for (Format f : {a, b}) {
    if (std::find(contract.operands.begin(), contract.operands.end(), f) == contract.operands.end()) {
      refuse_usage("contract " + std::string(contract.name) + " takes no " + std::string(spec(f).name) + ", but " +
                   names(contract.operands));
    }
  }
  if (a != b && !contract.mixes) {
    refuse_usage("contract " + std::string(contract.name) + " needs both operands in one format, not " +
                 std::string(spec(a).name) + " and " + std::string(spec(b).name));
  }
}

Factor operand(const Contract& contract, Format format, std::uint32_t code) {
  return factor(format, code & contract.operand_mask);
}

std::uint32_t accumulate(const Contract& contract, std::span<const Factor> a, std::span<const Factor> b,
                         std::uint32_t c, const ContractScales* scales) {
  if (a.size() != b.size()) {
    refuse_usage("K is " + std::to_string(a.size()) + " on one side and " + std::to_string(b.size()) + " on the other");
  }
  const auto per = static_cast<std::size_t>(contract.scale_terms);
  const std::size_t needed = per == 0 ? 0 : (a.size() + per - 1) / per;
  if ((scales != nullptr) != (per != 0) ||
      (scales != nullptr && (scales->a.size() != needed || scales->b.size() != needed))) {
    refuse_usage(
        "contract " + std::string(contract.name) + " takes " +
        (per == 0 ? "no scales"
                  : std::to_string(needed) + " scales on either side, one for " + std::to_string(per) + " products"));
  }
  if (scales != nullptr &&
      std::find(contract.scales.begin(), contract.scales.end(), scales->format) == contract.scales.end()) {
    refuse_usage("contract " + std::string(contract.name) + " takes scales in " + names(contract.scales));
  }
  if (contract.arithmetic == Arithmetic::exact) return sum_exact(a, b, c);
  if (contract.arithmetic == Arithmetic::ieee_fp32) return sum_ieee(a, b, c);

  const auto terms = static_cast<std::size_t>(contract.step.terms);
  for (std::size_t k = 0; k < a.size(); k += terms) {
    const std::size_t n = std::min(terms, a.size() - k);
    if (scales == nullptr) {
      c = fused_sum(contract.step, a.subspan(k, n), b.subspan(k, n), c);
      continue;
    }
    // A last step's missing scales are those of zeros: 1.
    std::array<std::uint8_t, 8> sa{};
    std::array<std::uint8_t, 8> sb{};
    const std::uint8_t one = scales->format == Format::e8m0 ? 127 : 0x38;
    for (std::size_t i = 0; i < terms / per; ++i) {
      const std::size_t at = k / per + i;
      sa[i] = at < needed ? scales->a[at] : one;
      sb[i] = at < needed ? scales->b[at] : one;
    }
    const StepScales step{scales->format, {sa.data(), terms / per}, {sb.data(), terms / per}};
    c = fused_sum(contract.step, a.subspan(k, n), b.subspan(k, n), c, &step);
  }
  return c;
}

}  // namespace mxcheck
