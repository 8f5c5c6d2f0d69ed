#include "reference/matmul/any_order.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/matmul/operand.h"

namespace mxcheck {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kUnit = 0x1p-23;     // what an addition in FP32 may lose, of its result
constexpr double kLargest = 0x1p127;  // sums below it do not overflow
constexpr double kLeastNormal = 0x1p-126;
constexpr double kZeroBit = 1 << 14;  // the last bit of a zero: above that of any product
constexpr int kFp32Bits = 24;

// The exponent of a finite number's last bit that is set.
double last_bit(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const int field = static_cast<int>(bits >> 52 & 0x7FF);
  const std::uint64_t fraction = (bits & ((std::uint64_t{1} << 52) - 1)) | (field == 0 ? 0 : std::uint64_t{1} << 52);
  return fraction == 0 ? kZeroBit : std::countr_zero(fraction) + std::max(field, 1) - 1075;
}

double rounded(Format output, double x) {
  if (output == Format::fp32 || !std::isfinite(x)) return x;
  return decode(output, encode(output, x, Rounding::nearest_even, Overflow::non_saturate));
}

// One operand's row: its values with their scales, and what decides how products of it may be rounded.
struct Row {
  std::vector<double> values;
  std::vector<double> reaches;    // magnitudes, where a subnormal has that of the smallest normal number; 0 for 0
  std::vector<double> last_bits;  // exponents, as the doubles that loops in SIMD want
  bool has_special = false;       // a NaN or an infinity
  bool scales_are_far = false;    // one is outside 2^-50 .. 2^50, or infinite
  bool codes_are_far = false;     // one is above 2^30, or has bits below 2^-38: with scales it may leave FP32
  bool scales_round = false;      // one is no power of two
  int bits = 0;                   // of the significands, scales aside
};

// decode() of every code of up to 8 bits.
const std::array<double, 256>& table_of(Format format) {
  static const auto all = [] {
    std::array<std::array<double, 256>, kAllFormats.size()> tables{};
    for (const Format f : kAllFormats) {
      if (spec(f).bits > 8) continue;
      for (std::uint32_t code = 0; code < std::uint32_t{1} << spec(f).bits; ++code)
        tables[static_cast<std::size_t>(f)][code] = decode(f, code);
    }
    return tables;
  }();
  return all[static_cast<std::size_t>(format)];
}

Row row_of(const Matmul& m, const OperandWindow& w, std::int64_t i) {
  const MatmulOperand& x = *w.operand;
  Row row;
  const FormatSpec& f = spec(m.contract.decodes ? Format::bf16 : x.format);
  const double least_normal = std::ldexp(1.0, 1 - f.bias);
  row.bits = f.mantissa_bits + 1;
  row.values.reserve(static_cast<std::size_t>(w.depth)), row.reaches.reserve(static_cast<std::size_t>(w.depth));
  row.last_bits.reserve(static_cast<std::size_t>(w.depth));
  const bool is_narrow = spec(x.format).bits <= 8;
  const std::array<double, 256>& table = table_of(x.format);
  double scale = 1;
  for (std::int64_t k = 0; k < w.depth; ++k) {
    if (x.scaled() && k % x.block.cols == 0) {
      scale = double{w.scale(i, k)};
      int exponent = 0;
      const bool is_power_of_two = std::fabs(std::frexp(scale, &exponent)) == 0.5;
      if (!m.contract.decodes) {  // what is decoded is BF16, scales and all
        row.scales_round |= !is_power_of_two;
        row.scales_are_far |=
            std::isinf(scale) || (std::isfinite(scale) && scale != 0 && (exponent < -49 || exponent > 51));
      }
    }
    const std::uint32_t word = w.code(i, k);
    const double code = is_narrow && word < 256 ? table[word] : decode(x.format, word);
    double value = code * scale;  // exact: 24 bits by 24
    if (m.contract.decodes) value = rounded(Format::bf16, value);
    const double normal = std::max(std::fabs(m.contract.decodes ? value : code), least_normal);
    row.reaches.push_back(value == 0 ? 0 : m.contract.decodes ? normal : normal * std::fabs(scale));
    row.codes_are_far |= std::isfinite(code) && code != 0 && (std::fabs(code) > 0x1p30 || last_bit(code) < -38);
    row.values.push_back(value);
    row.has_special |= !std::isfinite(value);
    row.last_bits.push_back(std::isfinite(value) ? last_bit(value) : kZeroBit);
  }
  return row;
}

// The products of two rows, and perhaps C.
struct Terms {
  double positive = 0;
  double negative = 0;
  double reach = 0;  // the largest of a product
  double last = kZeroBit;
  double count = 0;
  bool any_nan = false;
  bool any_positive_infinity = false;
  bool any_negative_infinity = false;

  void add(double t, double most, double bit) {
    reach = std::max(reach, most);
    positive += std::max(t, 0.0);
    negative += std::max(-t, 0.0);
    last = std::min(last, bit);
    count += t != 0 ? 1 : 0;
  }
  void add_special(double t, double most, double bit) {
    if (std::isfinite(t)) return add(t, most, bit);
    any_nan |= std::isnan(t);
    any_positive_infinity |= t > 0;
    any_negative_infinity |= t < 0;
  }
};

// The same of finite products in lanes: term k is in lane k modulo kLanes.
constexpr std::size_t kLanes = 8;
struct Sums {
  double positive[kLanes] = {};
  double negative[kLanes] = {};
  double reach[kLanes] = {};
  double count[kLanes] = {};
  double last[kLanes] = {kZeroBit, kZeroBit, kZeroBit, kZeroBit, kZeroBit, kZeroBit, kZeroBit, kZeroBit};

  [[gnu::always_inline]] inline void add(std::size_t n, double t, double most, double bit) {
    positive[n] += t > 0 ? t : 0;
    negative[n] += t < 0 ? -t : 0;
    reach[n] = most > reach[n] ? most : reach[n];
    count[n] += t != 0 ? 1 : 0;
    last[n] = bit < last[n] ? bit : last[n];
  }
};

[[gnu::target_clones("avx512f", "avx2", "default")]] void add_products(const double* x, const double* y,
                                                                       const double* u, const double* v,
                                                                       const double* p, const double* q,
                                                                       std::size_t depth, Sums& to) {
  Sums sums = to;
  std::size_t k = 0;
  for (; k + kLanes <= depth; k += kLanes) {
    for (std::size_t n = 0; n < kLanes; ++n) sums.add(n, x[k + n] * y[k + n], u[k + n] * v[k + n], p[k + n] + q[k + n]);
  }
  for (std::size_t n = 0; k < depth; ++k, ++n) sums.add(n, x[k] * y[k], u[k] * v[k], p[k] + q[k]);
  to = sums;
}

Terms products(const Row& a, const Row& b) {
  Terms all;
  const std::size_t depth = a.values.size();
  if (a.has_special || b.has_special) {
    for (std::size_t k = 0; k < depth; ++k)
      all.add_special(a.values[k] * b.values[k], a.reaches[k] * b.reaches[k], a.last_bits[k] + b.last_bits[k]);
    return all;
  }
  Sums sums;
  add_products(a.values.data(), b.values.data(), a.reaches.data(), b.reaches.data(), a.last_bits.data(),
               b.last_bits.data(), depth, sums);
  for (std::size_t n = 0; n < kLanes; ++n) {
    all.positive += sums.positive[n], all.negative += sums.negative[n], all.count += sums.count[n];
    all.reach = std::max(all.reach, sums.reach[n]), all.last = std::min(all.last, sums.last[n]);
  }
  return all;
}

class Ranges {
 public:
  explicit Ranges(const Matmul& m) : m_(m), kept_bits_(m.contract.kept_bits) {}

  [[nodiscard]] OutputRange of(const Row& a, const Row& b, double c) const {
    Terms terms = products(a, b);
    const bool sums_c = m_.c != nullptr && m_.alpha == 1;
    if (sums_c) terms.add_special(c, std::fabs(c), std::isfinite(c) ? last_bit(c) : kZeroBit);
    const bool has_scales = (m_.a.scaled() || m_.b.scaled()) && !m_.contract.decodes;
    if (a.scales_are_far || b.scales_are_far || (has_scales && (a.codes_are_far || b.codes_are_far))) return anything();
    if (terms.any_nan || (terms.any_positive_infinity && terms.any_negative_infinity)) return nan();
    const double n = terms.count;
    const bool cuts = kept_bits_ < kFp32Bits - 1;
    const double unit = cuts ? std::ldexp(2.0, -kept_bits_) : kUnit;
    const double largest = std::max({terms.positive, terms.negative, terms.reach});
    const double growth = std::exp(n * unit);  // of a sum, by what is lost of each sum on the way
    if (!(largest * growth < kLargest)) return anything();
    if (terms.any_positive_infinity || terms.any_negative_infinity)
      return finished(terms.any_positive_infinity ? kInfinite : -kInfinite, 0, 0, c);
    const double all = terms.positive + terms.negative;
    const bool keeps_all = all < std::ldexp(1.0, static_cast<int>(terms.last) + 53) &&
                           largest <= std::ldexp(1.0, static_cast<int>(terms.last) + (cuts ? kept_bits_ : kFp32Bits));
    // Beside a kernel's roundings those of this file, which adds up doubles: 2 (n + 2) of 2^-53.
    double lost = std::expm1(n * unit) * largest + 2 * (n + 2) * 0x1p-53 * all;
    if (a.scales_round || b.scales_round) lost += 3 * kUnit * all * growth;
    if (a.bits + b.bits > kFp32Bits) lost += kUnit * all * growth;
    const double flushed = terms.count != 0 && terms.last < -126 ? 2 * n * kLeastNormal : 0;
    // Parts of a sum may be multiplied by alpha before they are added.
    const double lost_of_parts = lost + kUnit * all * growth;
    return finished(terms.positive - terms.negative, (keeps_all ? 0 : lost) + flushed, lost_of_parts + flushed, c);
  }

 private:
  static OutputRange nan() { return {0, 0, true, false}; }
  static OutputRange anything() { return {-kInfinite, kInfinite, false, true}; }

  // The epilogue: alpha, C where it is not in the sum, and D's format. slack: of the sum; of_parts: where alpha rounds.
  [[nodiscard]] OutputRange finished(double sum, double slack, double of_parts, double c) const {
    if (m_.alpha == 1) return range_of(sum, slack);
    const double alpha{m_.alpha};
    int exponent = 0;
    const bool rounds = std::fabs(std::frexp(alpha, &exponent)) != 0.5;
    if (std::isnan(alpha)) return nan();
    double off = (rounds ? of_parts : slack) * std::fabs(alpha);
    double value = sum * alpha;
    if (std::isinf(alpha) && slack != 0 && std::fabs(sum) <= slack) return anything();  // 0, and either sign
    if (std::isnan(value)) return nan();
    if (std::isinf(value)) off = 0;
    const bool is_small = std::fabs(value) - off < kLeastNormal && value != 0;
    if (rounds || is_small) off += kLeastNormal;
    if (std::isfinite(value) && std::fabs(value) + off >= kLargest) return anything();
    if (m_.c != nullptr) {
      value += c;
      if (std::isnan(value)) return nan();
      if (std::isfinite(value)) {
        if (std::fabs(value) + off >= kLargest) return anything();
        off += kUnit * (std::fabs(value) + off) + kLeastNormal;
      }
    }
    return range_of(value, off);
  }
  [[nodiscard]] OutputRange range_of(double value, double off) const {
    if (std::isinf(value)) return {value, value, false, false};
    return {rounded(m_.output, value - off), rounded(m_.output, value + off), false, false};
  }

  const Matmul& m_;
  int kept_bits_;
};

double value_at(const Matmul& m, std::int64_t index) {
  if (m.c == nullptr) return 0;
  const std::size_t width = code_width(m.output);
  std::uint32_t word = 0;
  std::memcpy(&word, static_cast<const std::byte*>(m.c) + index * static_cast<std::int64_t>(width), width);
  return decode(m.output, word);
}

}  // namespace

bool OutputRange::holds(Format output, std::uint32_t word) const {
  if (unbounded) return true;
  const double value = decode(output, word);
  if (is_nan || std::isnan(value)) return is_nan && std::isnan(value);
  return low <= value && value <= high;
}

std::string to_text(const OutputRange& range) {
  if (range.unbounded) return "anything: sums may overflow on the way, or scales or codes under them are far from 1";
  if (range.is_nan) return "NaN in every order";
  if (range.is_point()) return fmt::format("{:.9g} in every order: nothing can be rounded on the way", range.low);
  return fmt::format("{:.9g} to {:.9g}, {:.2g} wide", range.low, range.high, range.high - range.low);
}

ExactOutput exact_output(const Matmul& m, std::int64_t at) {
  check_matmul(m);
  for (const MatmulPart& part : parts_of(m)) {
    const std::int64_t own = at - part.d_first;
    if (own < 0 || own >= part.a.rows * part.b.rows) continue;
    const Terms terms = products(row_of(m, part.a, own / part.b.rows), row_of(m, part.b, own % part.b.rows));
    const double c = value_at(m, at);
    const double alpha{m.alpha};
    ExactOutput out{alpha * (terms.positive - terms.negative) + c,
                    std::fabs(alpha) * (terms.positive + terms.negative) + std::fabs(c)};
    const bool special = terms.any_nan || terms.any_positive_infinity || terms.any_negative_infinity;
    if (special || !std::isfinite(out.magnitude)) out.value = std::numeric_limits<double>::quiet_NaN();
    // Products of two significands of 28 bits are rounded, and each sum: as in Ranges::of().
    out.off = 2 * (terms.count + 4) * 0x1p-53 * out.magnitude;
    return out;
  }
  throw Error(ErrorKind::usage, "output " + std::to_string(at) + " is not of D");
}

std::vector<OutputRange> any_order_ranges(const Matmul& m, std::span<const std::uint8_t> wanted) {
  check_matmul(m);
  if (m.contract.promises_bits())
    throw Error(ErrorKind::usage, "contract " + to_text(m.contract) + " promises an order: matmul() has its bits");
  std::vector<OutputRange> ranges;
  resize_or_throw(ranges, checked_product(m.rows_of_d(), m.b.rows, "D"), "ranges of D");
  if (!wanted.empty() && wanted.size() != ranges.size())
    throw Error(ErrorKind::usage,
                std::to_string(wanted.size()) + " outputs wanted or not; D has " + std::to_string(ranges.size()));
  for (std::int64_t i = 0; m.grouping == Grouping::masked && i < m.m(); ++i) {
    const auto row = ranges.begin() + i * m.b.rows;
    if (!m.writes_row(i)) std::fill(row, row + m.b.rows, OutputRange{-kInfinite, kInfinite, false, true});
  }
  const Ranges range(m);
  const auto is_wanted = [&](std::int64_t at) { return wanted.empty() || wanted[static_cast<std::size_t>(at)] != 0; };
  for (const MatmulPart& part : parts_of(m)) {
    if (part.a.rows == 0 || part.b.rows == 0) continue;
    std::vector<Row> b(static_cast<std::size_t>(part.b.rows));
    const std::int64_t depth = std::max<std::int64_t>(1, part.a.depth);
    parallel_ranges(part.b.rows, part.b.rows * depth, m.threads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t j = begin; j < end; ++j) b[static_cast<std::size_t>(j)] = row_of(m, part.b, j);
    });
    const std::int64_t work = part.a.rows * part.b.rows * depth;
    parallel_ranges(part.a.rows, work, m.threads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        std::optional<Row> a;
        for (std::int64_t j = 0; j < part.b.rows; ++j) {
          const std::int64_t at = part.d_first + i * part.b.rows + j;
          OutputRange& one = ranges[static_cast<std::size_t>(at)];
          if (!is_wanted(at)) {
            one = {-kInfinite, kInfinite, false, true};
            continue;
          }
          if (!a) a = row_of(m, part.a, i);
          one = range.of(*a, b[static_cast<std::size_t>(j)], value_at(m, at));
        }
      }
    });
  }
  return ranges;
}

}  // namespace mxcheck
