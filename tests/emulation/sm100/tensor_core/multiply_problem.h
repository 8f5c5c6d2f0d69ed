#pragma once
// MMAs on drawn operands, what fused_sum() says that they are, and what multiply() makes of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <ios>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "emulation/sm100/tensor_core/multiply.h"
#include "numerics/accumulate/fused_sum.h"

namespace mxcheck::emulation::sm100::test {

inline constexpr std::uint8_t kOne = 127;  // the scale 2^0

struct Problem {
  Instruction instruction;
  int rows;
  std::vector<std::uint32_t> a;  // codes, rows by k
  std::vector<std::uint32_t> b;  // n by k
  std::vector<std::uint8_t> scales_a;
  std::vector<std::uint8_t> scales_b;
  std::vector<std::uint32_t> d;  // rows by n
  bool accumulate = true;

  Problem(const Instruction& i, int m) : instruction(i), rows(m) {
    const auto n = static_cast<std::size_t>(i.n);
    a.assign(static_cast<std::size_t>(m * i.k), 0);
    b.assign(static_cast<std::size_t>(i.n * i.k), 0);
    scales_a.assign(static_cast<std::size_t>(m), kOne);
    scales_b.assign(n, kOne);
    d.assign(static_cast<std::size_t>(m) * n, 0);
  }
};

inline Instruction of(MmaKind kind, Format a, Format b, int n) {
  return {.kind = kind, .a = a, .b = b, .m = 128, .n = n, .k = kind == MmaKind::f16 ? 16 : 32};
}

inline std::vector<std::uint8_t> bytes_of(const std::vector<std::uint32_t>& codes, int bytes) {
  std::vector<std::uint8_t> out;
  for (const std::uint32_t code : codes) {
    out.push_back(static_cast<std::uint8_t>(code & 0xFF));
    if (bytes == 2) out.push_back(static_cast<std::uint8_t>(code >> 8));
  }
  return out;
}

inline std::vector<Factor> factors_of(Format format, bool negate, const std::vector<std::uint32_t>& codes) {
  std::vector<Factor> out;
  for (const std::uint32_t code : codes) {
    out.push_back(factor(format, code));
    if (negate) out.back().negative = !out.back().negative;
  }
  return out;
}

inline std::vector<std::uint32_t> expected(const Problem& p) {
  const Instruction& i = p.instruction;
  const FusedSum step = fused_sum_of(i);
  const std::vector<Factor> a = factors_of(i.a, i.negate_a, p.a);
  const std::vector<Factor> b = factors_of(i.b, i.negate_b, p.b);
  const auto n = static_cast<std::size_t>(i.n);
  const auto k = static_cast<std::size_t>(i.k);
  std::vector<std::uint32_t> d(p.d.size());
  for (std::size_t at = 0; at < d.size(); ++at) {
    const StepScales scales{Format::e8m0, std::span(p.scales_a).subspan(at / n, 1),
                            std::span(p.scales_b).subspan(at % n, 1)};
    d[at] = fused_sum(step, std::span(a).subspan(at / n * k, k), std::span(b).subspan(at % n * k, k),
                      p.accumulate ? p.d[at] : 0, is_scaled(i.kind) ? &scales : nullptr);
  }
  return d;
}

inline std::vector<std::uint32_t> computed(const Problem& p, std::size_t stride) {
  const Instruction& i = p.instruction;
  const auto n = static_cast<std::size_t>(i.n);
  const std::vector<std::uint8_t> a = bytes_of(p.a, element_bytes(i.kind));
  const std::vector<std::uint8_t> b = bytes_of(p.b, element_bytes(i.kind));
  const bool scaled = is_scaled(i.kind);
  std::vector<std::uint32_t> padded(static_cast<std::size_t>(p.rows) * stride, 0xA5A5A5A5);
  for (std::size_t at = 0; at < p.d.size(); ++at) padded[at / n * stride + at % n] = p.d[at];
  multiply(i, a.data(), b.data(), scaled ? p.scales_a.data() : nullptr, scaled ? p.scales_b.data() : nullptr,
           padded.data(), stride, p.rows, p.accumulate);
  std::vector<std::uint32_t> d;
  for (std::size_t at = 0; at < padded.size(); ++at) {
    if (at % stride < n)
      d.push_back(padded[at]);
    else
      EXPECT_EQ(padded[at], 0xA5A5A5A5) << "written between the rows";
  }
  return d;
}

// True if all are equal; else says where and what.
inline bool equals_fused_sum(const Problem& p, const std::string& what) {
  const std::vector<std::uint32_t> right = expected(p);
  const std::vector<std::uint32_t> found = computed(p, static_cast<std::size_t>(p.instruction.n) + 3);
  if (found == right) return true;
  std::size_t wrong = 0;
  std::size_t first = right.size();
  for (std::size_t at = right.size(); at-- > 0;) {
    if (found[at] != right[at]) ++wrong, first = at;
  }
  const auto n = static_cast<std::size_t>(p.instruction.n);
  ADD_FAILURE() << what << ": " << wrong << " of " << right.size() << " differ, first D[" << first / n << "]["
                << first % n << std::hex << "] = 0x" << found[first] << ", right 0x" << right[first] << ", c 0x"
                << p.d[first];
  return false;
}

// Random words, codes and numbers for a test, by its seed.
class Draw {
 public:
  explicit Draw(std::uint32_t seed) : random_(seed) {}
  std::uint32_t word() { return static_cast<std::uint32_t>(random_()); }
  std::uint32_t below(std::uint32_t n) { return word() % n; }
  bool one_in(std::uint32_t n) { return below(n) == 0; }
  int between(int low, int high) { return low + static_cast<int>(below(static_cast<std::uint32_t>(high - low + 1))); }

  // A finite code whose exponent field is within [low, high] of the format's.
  std::uint32_t code(Format format, int low, int high) {
    const FormatSpec& f = spec(format);
    const std::uint32_t sign = below(2) << (f.bits - 1);
    const auto field =
        static_cast<std::uint32_t>(between(low, std::min(high, static_cast<int>(f.max_code >> f.mantissa_bits))));
    return sign | std::min((field << f.mantissa_bits) | below(1U << f.mantissa_bits), f.max_code);
  }
  // An element of C in FP32 or FP16, its exponent within [low, high] as far as the format has that.
  std::uint32_t c(bool fp16, int low, int high) {
    const int bias = fp16 ? 15 : 127;
    const int field = std::clamp(between(low, high) + bias, 0, 2 * bias);
    return fp16 ? below(2) << 15 | static_cast<std::uint32_t>(field) << 10 | below(1 << 10)
                : below(2) << 31 | static_cast<std::uint32_t>(field) << 23 | below(1 << 23);
  }

 private:
  std::mt19937 random_;
};

struct Range {
  const char* name;
  int low;  // exponent fields, from the lowest if negative: counted from the highest then
  int high;
  std::uint32_t zeros;  // one in so many
};

inline constexpr std::array kRanges{
    Range{"all exponents", 0, 255, 9},       Range{"subnormals", 0, 0, 3},
    Range{"the lowest exponents", 0, 3, 50}, Range{"the largest exponents", -1, 255, 1000},
    Range{"middle exponents", 5, 9, 4},      Range{"almost all zeros", 0, 255, 1}};

inline void fill(Draw& draw, std::vector<std::uint32_t>& codes, Format format, const Range& r) {
  const int highest = static_cast<int>(spec(format).max_code >> spec(format).mantissa_bits);
  for (std::uint32_t& code : codes) {
    const bool zero = r.zeros == 1 ? !draw.one_in(30) : draw.one_in(r.zeros);
    code = zero ? draw.below(2) << (spec(format).bits - 1)
                : draw.code(format, r.low < 0 ? highest + r.low : r.low, r.low < 0 ? highest : r.high);
  }
}

// Scales: all 2^0; near it; over the whole range of bytes, NaN left out.
inline void fill_scales(Draw& draw, std::vector<std::uint8_t>& scales, int spread) {
  for (std::uint8_t& s : scales)
    s = static_cast<std::uint8_t>(spread == 0 ? kOne : spread == 1 ? draw.between(119, 135) : draw.between(0, 254));
}

struct Case {
  MmaKind kind;
  Format a;
  Format b;
  bool d_fp16 = false;
};

inline constexpr std::array kCases{
    Case{MmaKind::mxf8f6f4, Format::e4m3, Format::e4m3},     Case{MmaKind::mxf8f6f4, Format::e5m2, Format::e4m3},
    Case{MmaKind::mxf8f6f4, Format::e5m2, Format::e5m2},     Case{MmaKind::f8f6f4, Format::e4m3, Format::e5m2},
    Case{MmaKind::f8f6f4, Format::e4m3, Format::e4m3, true}, Case{MmaKind::f16, Format::bf16, Format::bf16},
    Case{MmaKind::f16, Format::fp16, Format::fp16},          Case{MmaKind::f16, Format::fp16, Format::fp16, true}};

inline std::string text(const Case& c, const std::string& more) {
  return std::string(to_text(c.kind)) + " " + std::string(spec(c.a).name) + " by " + std::string(spec(c.b).name) +
         (c.d_fp16 ? " to FP16, " : ", ") + more;
}

inline Problem problem(const Case& c, int rows, int n) {
  Problem p(of(c.kind, c.a, c.b, n), rows);
  p.instruction.d_fp16 = c.d_fp16;
  return p;
}

}  // namespace mxcheck::emulation::sm100::test
