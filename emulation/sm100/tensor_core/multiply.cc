#include "emulation/sm100/tensor_core/instruction.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <vector>

#include "emulation/sm100/tensor_core/elements.h"
#include "numerics/error.h"

namespace mxcheck::emulation::sm100::detail {

Element element_of(const FormatSpec& f, std::uint32_t code, bool negate) {
  const std::uint32_t magnitude = code & ((1U << (f.bits - 1)) - 1);
  const bool negative = (code >> (f.bits - 1) != 0) != negate;
  if (magnitude == 0) return {0, kZeroExponent, Class::zero, negative};
  if (magnitude > f.max_code) {
    const bool infinite = f.encoding == Encoding::ieee && magnitude == f.max_code + 1;
    return {0, kZeroExponent, infinite ? Class::infinite : Class::nan, negative};
  }
  const auto field = static_cast<int>(magnitude >> f.mantissa_bits);
  const std::uint32_t fraction = magnitude & ((1U << f.mantissa_bits) - 1);
  const std::uint32_t m = field == 0 ? fraction : fraction + (1U << f.mantissa_bits);
  const auto value = static_cast<float>(m);
  return {negative ? -value : value, static_cast<std::int16_t>(std::max(field, 1) - f.bias), Class::finite, negative};
}

Operand::Operand(Format format, bool negate, const std::uint8_t* codes, const std::uint8_t* scales, int rows, int k)
    : k_(k), scales_(scales), elements_(static_cast<std::size_t>(rows * k)), special_(static_cast<std::size_t>(rows)) {
  const FormatSpec& f = spec(format);
  std::array<Element, 256> table;
  if (f.bits <= 8) {
    for (std::uint32_t code = 0; code < table.size(); ++code) table[code] = element_of(f, code, negate);
  }
  for (std::size_t i = 0; i < elements_.size(); ++i) {
    elements_[i] = f.bits <= 8 ? table[codes[i]] : element_of(f, codes[2 * i] | codes[2 * i + 1] * 256U, negate);
    if (elements_[i].kind >= Class::infinite) special_[i / static_cast<std::size_t>(k)] = true;
  }
  for (int row = 0; row < rows; ++row) {
    if (nan_scale(row)) special_[static_cast<std::size_t>(row)] = true;
  }
}

}  // namespace mxcheck::emulation::sm100::detail

// How a sum is made fast and stays exact.
//
// A finite element is M * 2^(E - m), |M| < 2^(m + 1), and a product P = Ma * Mb has f = ma + mb fraction bits and the
// exponent E = Ea + Eb; |P| < 2^(f + 2). Its term is P * 2^(E - f) in units of 2^(W - 25), truncated toward zero:
//
//   trunc(P * 2^s),   s = E - W + 25 - f
//
// - P is exact as a float: |M| has 11 bits at most (FP16), |P| 22.
// - 2^s is a float whose exponent field is s + 127. E <= W makes s <= 25 - f < 126, and s below -126 is raised to -126:
//   |P| < 2^22, so the term is 0 in either case. So P * 2^s is a normal float, and exact: a multiplication by a power
//   of two. (None of it depends on the rounding mode, or on subnormals being flushed.)
// - The conversion of a float to an integer truncates toward zero: that is the alignment.
// - |term| < 2^27. Sixteen of them fit in 32 bits: the largest |P| * 2^(25 - f) is 225 * 2^19 of E4M3 (15 * 15, f = 6),
//   255^2 * 2^11 of BF16 (f = 14) and 2047^2 * 2^5 of FP16 (f = 20), see kLargestTerms. Two halves of 16 are added
//   in 64.
// - Exponents are 16 bits wide: E with scales lies within +-(2 * 127 + 2 * 127), a zero's is kZeroExponent, which makes
//   a product's so low that it never counts: -2 * 4096 and W still fit.
//
// Eight columns of D are one vector of 16-bit exponents and two of 32-bit numbers: plain 128-bit vectors, which every
// target has. W, c and the conversion are scalar, once for every 16 or 32 products.

namespace mxcheck::emulation::sm100 {
namespace {

using detail::Addend;
using detail::addend_of;
using detail::Class;
using detail::Element;
using detail::kFractionBits;
using detail::Operand;
using detail::Output;
using detail::units_of;
using detail::word_of;

constexpr int kLanes = 8;
constexpr int kHalf = 16;  // terms that are summed in 32 bits
constexpr int kMaxK = 32;
constexpr int kWindowFloor = -133;
constexpr int kFloatBias = 127;

constexpr std::array<std::int64_t, 3> kLargestTerms{225LL << 19, (255LL * 255) << 11, (2047LL * 2047) << 5};
static_assert(kHalf * *std::max_element(kLargestTerms.begin(), kLargestTerms.end()) <= 0x7FFFFFFF);

using Shorts = std::int16_t __attribute__((vector_size(16)));
using Ints = std::int32_t __attribute__((vector_size(16)));
using Floats = float __attribute__((vector_size(16)));

// Eight columns of B, ready for any row of A.
struct Columns {
  std::array<Shorts, kMaxK> exponents;
  std::array<std::array<Floats, 2>, kMaxK> significands;
};

Columns columns_of(const Operand& b, int first, int k) {
  Columns columns;
  for (int i = 0; i < k; ++i) {
    const auto at = static_cast<std::size_t>(i);
    for (int lane = 0; lane < kLanes; ++lane) {
      const Element& e = b.at(first + lane, i);
      columns.exponents[at][lane] = static_cast<std::int16_t>(e.exponent + b.exponent(first + lane));
      columns.significands[at][static_cast<std::size_t>(lane / 4)][lane % 4] = e.significand;
    }
  }
  return columns;
}

// One row of A, likewise.
struct Row {
  std::array<std::int16_t, kMaxK> exponents;
  std::array<float, kMaxK> significands;
};

Row row_of(const Operand& a, int row, int k) {
  Row out{};
  for (int i = 0; i < k; ++i) {
    out.exponents[static_cast<std::size_t>(i)] = static_cast<std::int16_t>(a.at(row, i).exponent + a.exponent(row));
    out.significands[static_cast<std::size_t>(i)] = a.at(row, i).significand;
  }
  return out;
}

constexpr Shorts larger(Shorts x, Shorts y) { return x > y ? x : y; }

// The largest exponent of a product that is not zero, at least the floor.
Shorts window_of(const Row& a, const Columns& b, int k) {
  Shorts window = Shorts{} + static_cast<std::int16_t>(kWindowFloor);
  for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
    window = larger(window, b.exponents[i] + a.exponents[i]);
  }
  return window;
}

Ints truncated(Floats x) { return __builtin_convertvector(x, Ints); }

// 2^s, of the lower or upper four lanes. `fields` are exponents' fields in the place that they have in a float's upper
// half.
Floats powers(Shorts fields, bool upper) {
  const Shorts zero{};
  return std::bit_cast<Floats>(upper ? __builtin_shufflevector(zero, fields, 0, 12, 1, 13, 2, 14, 3, 15)
                                     : __builtin_shufflevector(zero, fields, 0, 8, 1, 9, 2, 10, 3, 11));
}
static_assert(std::endian::native == std::endian::little);

// The sums of the products' terms, in units of 2^(window - 25).
void sum_products(const Row& a, const Columns& b, Shorts window, int fraction_bits, int k,
                  std::array<std::int64_t, kLanes>& sums) {
  const Shorts shift = static_cast<std::int16_t>(kFractionBits - fraction_bits + kFloatBias) - window;
  const Shorts lowest = Shorts{} + std::int16_t{1};
  sums = {};
  for (int first = 0; first < k; first += kHalf) {
    Ints low{};
    Ints high{};
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(std::min(k, first + kHalf)); ++i) {
      const Shorts fields = larger(b.exponents[i] + a.exponents[i] + shift, lowest) << 7;
      low += truncated(b.significands[i][0] * a.significands[i] * powers(fields, false));
      high += truncated(b.significands[i][1] * a.significands[i] * powers(fields, true));
    }
    for (std::size_t lane = 0; lane < 4; ++lane) {
      sums[lane] += low[lane];
      sums[lane + 4] += high[lane];
    }
  }
}

// Infinities and NaNs among the terms of an element of D, if there are any, and the word that they make of it.
struct Specials {
  bool nan = false;
  bool positive = false;
  bool negative = false;

  void product(const Element& a, const Element& b) {
    if (a.kind < Class::infinite && b.kind < Class::infinite) return;
    if (a.kind == Class::nan || b.kind == Class::nan || a.kind == Class::zero || b.kind == Class::zero)
      nan = true;
    else
      (a.negative != b.negative ? negative : positive) = true;
  }
  void addend(const Output& out, std::uint32_t c) {
    const std::uint32_t magnitude = c & (out.sign() - 1);
    if (magnitude > out.infinity()) nan = true;
    if (magnitude == out.infinity()) ((c & out.sign()) != 0 ? negative : positive) = true;
  }
  [[nodiscard]] bool any() const { return nan || positive || negative; }
  [[nodiscard]] std::uint32_t word(const Output& out) const {
    if (nan || (positive && negative)) return out.nan;
    return (negative ? out.sign() : 0) | out.infinity();
  }
};

Specials specials_of(const Output& out, const Operand& a, int m, const Operand& b, int n, int k, std::uint32_t c) {
  Specials s;
  s.addend(out, c);
  if (a.special(m) || b.special(n)) {
    s.nan = s.nan || a.nan_scale(m) || b.nan_scale(n);
    for (int i = 0; i < k; ++i) s.product(a.at(m, i), b.at(n, i));
  }
  return s;
}

bool takes(const Instruction& i) {
  const auto fp8 = [](Format f) { return f == Format::e4m3 || f == Format::e5m2; };
  if (is_fp4(i.kind)) return i.a == Format::e2m1 && i.b == Format::e2m1 && !i.d_fp16;
  if (i.kind != MmaKind::f16) return fp8(i.a) && fp8(i.b) && !(i.d_fp16 && is_scaled(i.kind));
  return i.a == i.b && (i.a == Format::fp16 || (i.a == Format::bf16 && !i.d_fp16));
}

void check(const Instruction& i, const std::uint8_t* scales_a, const std::uint8_t* scales_b, int m_rows) {
  const std::string what = "an MMA of " + std::string(to_text(i.kind)) + ", " + std::string(spec(i.a).name) + " by " +
                           std::string(spec(i.b).name) + ", " + std::to_string(m_rows) + "x" + std::to_string(i.n) +
                           "x" + std::to_string(i.k);
  if (!takes(i) || i.k != k_of(i.kind) || i.n <= 0 || i.n % kLanes != 0 || m_rows <= 0) {
    throw Error(ErrorKind::usage, what + ": one without problems by decode_instruction() is right");
  }
  if (is_scaled(i.kind) && (scales_a == nullptr || scales_b == nullptr)) {
    throw Error(ErrorKind::usage, what + ": it has no scales, where one for every row of A and of B is right");
  }
}

}  // namespace

void multiply(const Instruction& instruction, const std::uint8_t* a, const std::uint8_t* b,
              const std::uint8_t* scales_a, const std::uint8_t* scales_b, std::uint32_t* d, std::size_t d_stride,
              int m_rows, bool accumulate) {
  check(instruction, scales_a, scales_b, m_rows);
  if (is_fp4(instruction.kind))
    return detail::multiply_fp4(instruction, a, b, scales_a, scales_b, d, d_stride, m_rows, accumulate);
  const bool scaled = is_scaled(instruction.kind);
  const int k = instruction.k;
  const Output& out = instruction.d_fp16 ? detail::kFp16 : detail::kFp32;
  const std::uint32_t c_mask = accumulate ? (out.sign() << 1) - 1 : 0;
  const int fraction_bits = spec(instruction.a).mantissa_bits + spec(instruction.b).mantissa_bits;
  const Operand left(instruction.a, instruction.negate_a, a, scaled ? scales_a : nullptr, m_rows, k);
  const Operand right(instruction.b, instruction.negate_b, b, scaled ? scales_b : nullptr, instruction.n, k);
  std::vector<Row> rows;
  for (int m = 0; m < m_rows; ++m) rows.push_back(row_of(left, m, k));

  std::array<std::int64_t, kLanes> sums;
  std::array<Addend, kLanes> addends;
  for (int n = 0; n < instruction.n; n += kLanes) {
    const Columns columns = columns_of(right, n, k);
    for (int m = 0; m < m_rows; ++m) {
      const Row& row = rows[static_cast<std::size_t>(m)];
      std::uint32_t* words = d + static_cast<std::size_t>(m) * d_stride + n;
      auto windows = std::bit_cast<std::array<std::int16_t, kLanes>>(window_of(row, columns, k));
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        addends[lane] = addend_of(out, words[lane] & c_mask);
        windows[lane] = std::max(windows[lane], addends[lane].exponent);
      }
      sum_products(row, columns, std::bit_cast<Shorts>(windows), fraction_bits, k, sums);
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const int column = n + static_cast<int>(lane);
        const Specials s = specials_of(out, left, m, right, column, k, words[lane] & c_mask);
        const std::int64_t sum = sums[lane] + units_of(out, addends[lane], windows[lane]);
        words[lane] = s.any() ? s.word(out) : word_of(out, sum, windows[lane] - kFractionBits);
      }
    }
  }
}

}  // namespace mxcheck::emulation::sm100
