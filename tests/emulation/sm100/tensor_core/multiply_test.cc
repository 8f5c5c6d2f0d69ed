// MMAs against fused_sum(), element by element and to the bit.

#include "emulation/sm100/tensor_core/instruction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ios>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "numerics/accumulate/fused_sum.h"
#include "numerics/error.h"

#if defined(__SSE2__)
  #include <xmmintrin.h>
#endif

namespace mxcheck::emulation::sm100 {
namespace test {

// MMAs on drawn operands, what fused_sum() says that they are, and what multiply() makes of them.

inline constexpr std::uint8_t kOne = 127;  // the scale 2^0

struct Problem {
  Instruction instruction;
  int rows;
  std::vector<std::uint32_t> a;  // codes, rows by k
  std::vector<std::uint32_t> b;  // n by k
  std::vector<std::uint8_t> scales_a, scales_b;
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

}  // namespace test

namespace {

using test::Case, test::computed, test::Draw, test::equals_fused_sum, test::expected, test::fill, test::fill_scales;
using test::kCases, test::kOne, test::kRanges, test::of, test::Problem, test::problem, test::Range, test::text;

void for_each_case_and_range(const std::function<void(const Case&, const Range&, Draw&, const std::string&)>& f) {
  std::uint32_t seed = 1;
  for (const Case& c : kCases) {
    for (const Range& r : kRanges) {
      Draw draw(seed);
      f(c, r, draw, text(c, std::string(r.name) + ", seed " + std::to_string(seed)));
      ++seed;
    }
  }
}

TEST(Multiply, one_product_and_c) {
  Problem p(of(MmaKind::mxf8f6f4, Format::e4m3, Format::e4m3, 8), 1);
  p.a[3] = 0x3C;           // 1.5
  p.b[2 * 32 + 3] = 0xC0;  // -2, of column 2
  p.scales_a[0] = kOne + 4;
  p.d[2] = 0x3F800000;  // 1
  const std::vector<std::uint32_t> d = computed(p, 8);
  EXPECT_EQ(d, (std::vector<std::uint32_t>{0, 0, std::bit_cast<std::uint32_t>(-47.0F), 0, 0, 0, 0, 0}));
}

TEST(Multiply, the_constants_are_those_of_the_contracts) {
  for (const Case& c : kCases) {
    const FusedSum step = fused_sum_of(problem(c, 1, 8).instruction);
    EXPECT_EQ(step.fraction_bits, 25);
    EXPECT_EQ(step.window_floor, -133);
    EXPECT_EQ(step.alignment, Alignment::toward_zero);
    EXPECT_EQ(step.group, 1);
  }
}

// Rows are the 256 codes of A, columns those of B; NaN among them.
TEST(Multiply, every_product_of_e4m3_with_several_c_and_scales) {
  struct Pair {
    std::uint8_t a, b;
  };
  for (const Pair scales : {Pair{127, 127}, Pair{0, 0}, Pair{254, 254}, Pair{1, 127}, Pair{60, 50}, Pair{190, 200}}) {
    Draw draw(scales.a * 256U + scales.b);
    Problem p(of(MmaKind::mxf8f6f4, Format::e4m3, Format::e4m3, 256), 256);
    for (std::uint32_t code = 0; code < 256; ++code) p.a[code * 32 + 7] = p.b[code * 32 + 7] = code;
    p.scales_a.assign(256, scales.a);
    p.scales_b.assign(256, scales.b);
    const int middle = scales.a + scales.b - 254;
    for (std::uint32_t& c : p.d) c = draw.one_in(5) ? draw.below(2) << 31 : draw.c(false, middle - 45, middle + 45);
    EXPECT_TRUE(equals_fused_sum(p, "scales " + std::to_string(scales.a) + " and " + std::to_string(scales.b)));
  }
}

TEST(Multiply, random_operands_with_c_about_the_products) {
  for_each_case_and_range([](const Case& c, const Range& r, Draw& draw, const std::string& what) {
    for (int spread = 0; spread < (is_scaled(c.kind) ? 3 : 1); ++spread) {
      Problem p = problem(c, 29, 64);
      fill(draw, p.a, c.a, r);
      fill(draw, p.b, c.b, r);
      fill_scales(draw, p.scales_a, spread);
      fill_scales(draw, p.scales_b, spread);
      p.instruction.negate_a = draw.one_in(2), p.instruction.negate_b = draw.one_in(2), p.accumulate = false;
      p.d = expected(p);  // where the products are
      for (std::uint32_t& word : p.d) {
        const int bias = c.d_fp16 ? 15 : 127;
        const int exponent = static_cast<int>(c.d_fp16 ? word >> 10 & 0x1F : word >> 23 & 0xFF) - bias;
        word = draw.one_in(8) ? 0 : draw.c(c.d_fp16, exponent - 28, exponent + 28);
      }
      p.accumulate = true;
      EXPECT_TRUE(equals_fused_sum(p, what + ", scales' spread " + std::to_string(spread)));
    }
  });
}

TEST(Multiply, sums_that_cancel) {
  for_each_case_and_range([](const Case& c, const Range& r, Draw& draw, const std::string& what) {
    Problem p = problem(c, 16, 64);
    fill(draw, p.a, c.a, r);
    fill(draw, p.b, c.b, r);
    fill_scales(draw, p.scales_a, 1);
    fill_scales(draw, p.scales_b, 1);
    p.accumulate = false, p.d = expected(p);
    // First c against the products, then also the products against each other, all but some.
    for (std::uint32_t& word : p.d) word ^= c.d_fp16 ? 0x8000 : 0x80000000;
    p.accumulate = true;
    EXPECT_TRUE(equals_fused_sum(p, what));
    for (std::size_t i = 0; i + 1 < p.a.size(); i += 2) p.a[i + 1] = draw.one_in(20) ? p.a[i + 1] : p.a[i];
    for (std::size_t i = 0; i + 1 < p.b.size(); i += 2) p.b[i + 1] = p.b[i] ^ 1U << (spec(c.b).bits - 1);
    EXPECT_TRUE(equals_fused_sum(p, what + ", products in pairs"));
  });
}

TEST(Multiply, random_words_have_infinities_and_nans) {
  std::uint32_t seed = 100;
  for (const Case& c : kCases) {
    for (const std::uint32_t density : {1U, 40U, 400U}) {
      Draw draw(++seed);
      Problem p = problem(c, 11, 48);
      const Range all{"", 0, 255, 9};
      fill(draw, p.a, c.a, all);
      fill(draw, p.b, c.b, all);
      const std::uint32_t mask = (1U << spec(c.a).bits) - 1;
      const auto special = [&](Format f) {  // Inf, the NaN next to it, or anything
        return draw.one_in(3) ? draw.word() & mask : (draw.below(2) << (spec(f).bits - 1)) + spec(f).max_code + 1;
      };
      for (std::uint32_t& code : p.a) code = draw.one_in(density) ? special(c.a) : code;
      for (std::uint32_t& code : p.b) code = draw.one_in(density) ? special(c.b) : code;
      for (std::uint8_t& s : p.scales_a) s = draw.one_in(5) ? 0xFF : kOne;
      for (std::uint8_t& s : p.scales_b) s = draw.one_in(9) ? 0xFF : kOne;
      for (std::uint32_t& word : p.d) {
        const std::uint32_t infinity = c.d_fp16 ? 0x7C00 : 0x7F800000;
        word = draw.one_in(4) ? infinity | draw.below(2) << (c.d_fp16 ? 15 : 31) | (draw.one_in(3) ? 1U : 0U)
                              : draw.c(c.d_fp16, -20, 20);
      }
      EXPECT_TRUE(equals_fused_sum(p, text(c, "specials one in " + std::to_string(density))));
      p.accumulate = false;
      EXPECT_TRUE(equals_fused_sum(p, text(c, "without c, specials one in " + std::to_string(density))));
    }
  }
}

// Halves of 16 are summed in 32 bits: 32 products of the largest significands, all of one sign, and c beside them.
TEST(Multiply, the_largest_sums_do_not_overflow) {
  const auto largest = [](Format f) -> std::uint32_t {
    switch (f) {
      case Format::e4m3: return 0x77;    // 1.875 * 2^7: the largest code, 1.75 * 2^8, has fewer bits
      case Format::e5m2: return 0x7B;    // 1.75 * 2^15
      case Format::bf16: return 0x3FFF;  // 1.99 * 2^0
      default: return 0x7BFF;            // 1.999 * 2^15
    }
  };
  for (const Case& c : kCases) {
    for (const std::uint32_t sign : {0U, 1U}) {
      Problem p = problem(c, 1, 8);
      p.a.assign(p.a.size(), largest(c.a) | sign << (spec(c.a).bits - 1));
      p.b.assign(p.b.size(), largest(c.b));
      const int exponent = factor(c.a, largest(c.a)).exponent + factor(c.b, largest(c.b)).exponent;
      const auto field = static_cast<std::uint32_t>(exponent + 127);
      p.d.assign(8, c.d_fp16 ? sign << 15 | 0x7BFFU : sign << 31 | field << 23 | 0x7FFFFFU);
      EXPECT_TRUE(equals_fused_sum(p, text(c, sign != 0 ? "negative" : "positive")));
    }
  }
}

// Below the floor's unit, 2^-158, nothing is kept: 16 * (21 + 11) = 512 units are 2^-149 where the unit is 2^-158, and
// 16 * (49 + 15) = 1024 would be where it is 2^-159, but 16 * (24 + 7) units of 2^-158 are less.
TEST(Multiply, the_windows_floor_is_where_the_contract_has_it) {
  struct Sum {
    std::uint8_t scale;
    std::uint32_t a[2];  // E4M3 codes of the lowest exponent: their significands
    std::uint32_t b[2];
    std::uint32_t word;
  };
  for (const Sum& s : {Sum{57, {3, 11}, {7, 1}, 1}, Sum{56, {7, 15}, {7, 1}, 0}, Sum{57, {7, 15}, {7, 1}, 2}}) {
    Problem p = problem(kCases[0], 1, 8);
    for (std::size_t i = 0; i < p.a.size(); ++i) p.a[i] = s.a[i % 2];
    for (std::size_t i = 0; i < p.b.size(); ++i) p.b[i] = s.b[i % 2];
    p.scales_a.assign(1, s.scale);
    p.scales_b.assign(8, 57);
    EXPECT_TRUE(equals_fused_sum(p, "scale " + std::to_string(s.scale)));
    EXPECT_EQ(computed(p, 8), std::vector<std::uint32_t>(8, s.word));
  }
}

TEST(Multiply, every_shape_of_n_and_rows) {
  Draw draw(5);
  for (const int rows : {1, 2, 64, 128}) {
    for (const int n : {8, 16, 24, 136, 256}) {
      if (rows * n > 6000) continue;
      Problem p = problem(kCases[1], rows, n);
      fill(draw, p.a, Format::e5m2, kRanges[0]);
      fill(draw, p.b, Format::e4m3, kRanges[0]);
      fill_scales(draw, p.scales_a, 1);
      fill_scales(draw, p.scales_b, 1);
      EXPECT_TRUE(equals_fused_sum(p, std::to_string(rows) + " by " + std::to_string(n)));
    }
  }
}

TEST(Multiply, the_high_half_of_an_fp16_word_is_not_read) {
  Problem p = problem(kCases[7], 1, 8);
  p.a[0] = p.b[0] = 0x3C00;
  p.d.assign(8, 0xFFFF4000);
  EXPECT_EQ(computed(p, 8),
            (std::vector<std::uint32_t>{0x4200, 0x4000, 0x4000, 0x4000, 0x4000, 0x4000, 0x4000, 0x4000}));
}

TEST(Multiply, does_not_depend_on_the_rounding_mode_nor_on_flushed_subnormals) {
  for_each_case_and_range([](const Case& c, const Range& r, Draw& draw, const std::string& what) {
    Problem p = problem(c, 5, 24);
    fill(draw, p.a, c.a, r);
    fill(draw, p.b, c.b, r);
    fill_scales(draw, p.scales_a, 2);
    fill_scales(draw, p.scales_b, 2);
    const std::vector<std::uint32_t> right = expected(p);
    for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
      ASSERT_EQ(std::fesetround(mode), 0);
      const std::vector<std::uint32_t> found = computed(p, 24);
      std::fesetround(FE_TONEAREST);
      EXPECT_EQ(found, right) << what << ", rounding mode " << mode;
    }
#if defined(__SSE2__)
    const unsigned control = _mm_getcsr();
    _mm_setcsr(control | 0x8040);  // flush to zero, denormals are zeros
    const std::vector<std::uint32_t> found = computed(p, 24);
    _mm_setcsr(control);
    EXPECT_EQ(found, right) << what << ", flushed";
#endif
  });
}

TEST(Multiply, wrong_requests_are_refused) {
  const std::vector<std::uint8_t> zeros(256 * 32);
  std::vector<std::uint32_t> d(256 * 256);
  const auto call = [&](const Instruction& i, const std::uint8_t* scales, int rows) {
    multiply(i, zeros.data(), zeros.data(), scales, scales, d.data(), 256, rows, true);
  };
  const Instruction right = of(MmaKind::mxf8f6f4, Format::e4m3, Format::e4m3, 16);
  EXPECT_NO_THROW(call(right, zeros.data(), 128));
  EXPECT_THROW(call(right, nullptr, 128), Error);
  EXPECT_THROW(call(right, zeros.data(), 0), Error);
  const auto changed = [&](auto&& change) {
    Instruction i = right;
    change(i);
    return i;
  };
  for (const Instruction& wrong :
       {changed([](Instruction& i) { i.n = 12; }), changed([](Instruction& i) { i.n = 0; }),
        changed([](Instruction& i) { i.k = 16; }), changed([](Instruction& i) { i.a = Format::e2m1; }),
        changed([](Instruction& i) { i.b = Format::bf16; }), changed([](Instruction& i) { i.d_fp16 = true; }),
        changed([](Instruction& i) { i.kind = MmaKind::f16, i.k = 16; })}) {
    EXPECT_THROW(call(wrong, zeros.data(), 128), Error);
  }
  Instruction halves = of(MmaKind::f16, Format::bf16, Format::bf16, 16);
  EXPECT_NO_THROW(call(halves, nullptr, 64));
  halves.d_fp16 = true;
  EXPECT_THROW(call(halves, nullptr, 64), Error);
  EXPECT_THROW(call(of(MmaKind::f16, Format::bf16, Format::fp16, 16), nullptr, 64), Error);
}

}  // namespace
}  // namespace mxcheck::emulation::sm100
