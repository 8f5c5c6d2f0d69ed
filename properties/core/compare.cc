#include "properties/core/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "properties/core/notation.h"

namespace mxcheck {
namespace {

std::int64_t integer(const TensorInfo& info, std::uint64_t word) {
  return info.integer_bits == 32 ? static_cast<std::int32_t>(word) : static_cast<std::int64_t>(word);
}

// -1: a NaN against a number. Integers: their distance.
std::int64_t steps_between(const TensorInfo& info, std::uint64_t want, std::uint64_t got) {
  if (info.integer_bits == 0)
    return ulp_distance_of_codes(info.format, static_cast<std::uint32_t>(want), static_cast<std::uint32_t>(got));
  const std::int64_t a = integer(info, want);
  const std::int64_t b = integer(info, got);
  const std::uint64_t steps = a > b ? static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b)
                                    : static_cast<std::uint64_t>(b) - static_cast<std::uint64_t>(a);
  return static_cast<std::int64_t>(std::min<std::uint64_t>(steps, INT64_MAX));
}

std::string histogram_bin(std::int64_t ulps) {
  if (ulps < 0) return "NaN against a number";
  if (ulps == 0) return "NaN with other bits";
  if (ulps == 1) return "1 step";
  if (ulps <= 3) return "2 to 3 steps";
  if (ulps <= 15) return "4 to 15 steps";
  return "16 steps and more";
}

// The pattern that all differing elements have in common, gathered while they are counted.
class Pattern {
 public:
  Pattern(const TensorInfo& info, std::uint8_t poison) : info_(info), poison_(poison), width_(bytes_of_element(info)) {}

  void add(std::int64_t row, std::int64_t col, std::uint64_t observed) {
    if (count_ == 0) first_row_ = min_row_ = max_row_ = row, first_col_ = min_col_ = max_col_ = col;
    ++count_;
    min_row_ = std::min(min_row_, row), max_row_ = std::max(max_row_, row);
    min_col_ = std::min(min_col_, col), max_col_ = std::max(max_col_, col);
    row_step_ = std::gcd(row_step_, std::abs(row - first_row_));
    col_step_ = std::gcd(col_step_, std::abs(col - first_col_));
    const std::uint64_t poison = 0x0101010101010101U * poison_;
    all_poison_ = all_poison_ && observed == (width_ == 8 ? poison : poison & ((std::uint64_t{1} << (8 * width_)) - 1));
    all_zero_ = all_zero_ && observed == 0;
    all_nan_ =
        all_nan_ && info_.integer_bits == 0 && std::isnan(decode(info_.format, static_cast<std::uint32_t>(observed)));
  }

  [[nodiscard]] std::string text(std::int64_t total) const {
    if (count_ == 1) return "";  // one element is no pattern
    std::string hint;
    const auto say = [&](const std::string& what) { hint += (hint.empty() ? "" : "; ") + what; };
    if (count_ == total) say("every element");
    if (all_poison_) say("never written (the poison is still there)");
    if (all_nan_ && !all_poison_) say("all observed are NaN");
    if (all_zero_) say("all observed are zero");
    if (count_ != total) {
      if (min_row_ == max_row_ && info_.rows > 1) say("only row " + std::to_string(min_row_));
      if (min_col_ == max_col_) say("only column " + std::to_string(min_col_));
      if (inside_one_block()) say("inside one block");
      if (col_step_ > 1 && min_col_ != max_col_)
        say("columns " + std::to_string(first_col_ % col_step_) + " modulo " + std::to_string(col_step_));
      if (row_step_ > 1 && min_row_ != max_row_)
        say("rows " + std::to_string(first_row_ % row_step_) + " modulo " + std::to_string(row_step_));
    }
    const std::int64_t cut = info_.block_cols > 0 ? info_.cols - info_.cols % info_.block_cols : info_.cols;
    if (cut < info_.cols && cut > 0 && min_col_ >= cut) say("only in the cut block at the right edge");
    return hint;
  }

  // Every element holds the poison. One alone may have that value by chance.
  [[nodiscard]] bool is_unwritten() const { return all_poison_ && count_ > 1; }

 private:
  [[nodiscard]] bool inside_one_block() const {
    if (info_.block_rows <= 0 || info_.block_cols <= 0) return false;
    return min_row_ / info_.block_rows == max_row_ / info_.block_rows &&
           min_col_ / info_.block_cols == max_col_ / info_.block_cols;
  }
  const TensorInfo& info_;
  std::uint8_t poison_;
  std::size_t width_;
  std::int64_t count_ = 0, first_row_ = 0, first_col_ = 0;
  std::int64_t min_row_ = 0, max_row_ = 0, min_col_ = 0, max_col_ = 0, row_step_ = 0, col_step_ = 0;
  bool all_poison_ = true, all_zero_ = true, all_nan_ = true;
};

std::string element_text(const TensorInfo& info, std::uint32_t bits, std::int64_t value) {
  return info.integer_bits != 0 ? std::to_string(value) : notations(info.format, bits);
}

}  // namespace

DifferenceKind kind_of(const TensorInfo& info, const Difference::Element& e) {
  if (info.integer_bits != 0) return DifferenceKind::value;
  if (e.ulps <= 0) return DifferenceKind::nan;
  const bool both_zero = decode(info.format, e.expected) == 0 && decode(info.format, e.observed) == 0;
  return both_zero ? DifferenceKind::sign_of_zero : DifferenceKind::value;
}

const char* to_text(DifferenceKind kind) {
  switch (kind) {
    case DifferenceKind::value: return "value";
    case DifferenceKind::nan: return "NaN";
    case DifferenceKind::sign_of_zero: return "sign of zero";
    case DifferenceKind::unwritten: return "unwritten";
  }
  return "";
}

std::size_t bytes_of_element(const TensorInfo& info) {
  if (info.integer_bits != 0) return static_cast<std::size_t>(info.integer_bits / 8);
  return static_cast<std::size_t>((spec(info.format).bits + 7) / 8);
}

std::string expected_text(const Difference& d) {
  return element_text(d.tensor, d.first.expected, d.first.expected_integer);
}
std::string observed_text(const Difference& d) {
  return element_text(d.tensor, d.first.observed, d.first.observed_integer);
}

std::optional<Difference> compare(const TensorInfo& info, std::span<const std::byte> expected,
                                  std::span<const std::byte> observed, std::uint8_t poison) {
  const std::size_t width = bytes_of_element(info);
  const std::int64_t total = info.rows * info.cols;
  if (expected.size() != observed.size() || expected.size() != static_cast<std::size_t>(total) * width) {
    throw Error(ErrorKind::internal, "compare: tensor " + info.name + " has " + std::to_string(expected.size()) +
                                         " expected and " + std::to_string(observed.size()) + " observed bytes");
  }
  if (expected.empty() || std::memcmp(expected.data(), observed.data(), expected.size()) == 0) return std::nullopt;
  Difference d;
  d.tensor = info;
  d.total = total;
  Pattern pattern(info, poison);
  for (std::int64_t index = 0; index < total; ++index) {
    const std::uint64_t want = word_at(expected, width, static_cast<std::size_t>(index));
    const std::uint64_t got = word_at(observed, width, static_cast<std::size_t>(index));
    if (want == got) continue;
    const std::int64_t ulps = steps_between(info, want, got);
    const bool both_nan = ulps == 0;
    if (info.any_nan_is_equal && both_nan) continue;
    Difference::Element element{index / info.cols, index % info.cols, static_cast<std::uint32_t>(want),
                                static_cast<std::uint32_t>(got), ulps};
    if (info.integer_bits != 0)
      element.expected_integer = integer(info, want), element.observed_integer = integer(info, got);
    if (d.count == 0) d.first = d.worst = element;
    const auto badness = [](std::int64_t u) { return u < 0 ? INT64_MAX : u; };
    if (badness(ulps) > badness(d.worst.ulps)) d.worst = element;
    d.last = element;
    ++d.count;
    d.kinds.insert(kind_of(info, element));
    if (info.integer_bits == 0) ++d.histogram[histogram_bin(ulps)];  // the distance between indices means nothing
    pattern.add(element.row, element.col, got);
  }
  if (d.count == 0) return std::nullopt;
  d.pattern = pattern.text(total);
  if (pattern.is_unwritten()) d.kinds = {DifferenceKind::unwritten};
  constexpr std::int64_t kSteps[][2] = {{0, -1}, {0, 1}, {-1, 0}, {1, 0}};
  for (const auto& [down, right] : kSteps) {
    const std::int64_t row = d.first.row + down;
    const std::int64_t col = d.first.col + right;
    if (row < 0 || row >= info.rows || col < 0 || col >= info.cols) continue;
    const auto at = static_cast<std::size_t>(row * info.cols + col);
    const std::uint64_t want = word_at(expected, width, at);
    const std::uint64_t got = word_at(observed, width, at);
    const bool equal = want == got || (info.any_nan_is_equal && steps_between(info, want, got) == 0);
    d.neighbours += (d.neighbours.empty() ? "(" : ", (") + std::to_string(row) + ", " + std::to_string(col) + ") " +
                    (equal ? "right" : "wrong");
  }
  return d;
}

void make_nans_equal(std::vector<std::byte>& values, Format dtype) {
  const auto replace = [&]<class Word>(Word infinity, Word nan) {
    for (std::size_t at = 0; at + sizeof(Word) <= values.size(); at += sizeof(Word)) {
      Word word = 0;
      std::memcpy(&word, values.data() + at, sizeof(word));
      const Word magnitude = static_cast<Word>(word & static_cast<Word>(~(Word{1} << (8 * sizeof(Word) - 1))));
      if (magnitude > infinity) std::memcpy(values.data() + at, &nan, sizeof(nan));
    }
  };
  if (dtype == Format::fp32) replace(std::uint32_t{0x7F800000}, std::uint32_t{0x7FC00000});
  if (dtype == Format::bf16) replace(std::uint16_t{0x7F80}, std::uint16_t{0x7FC0});
}

namespace {

std::string binary(std::uint32_t bits, int width) {
  std::string text;
  for (int bit = width - 1; bit >= 0; --bit) text += (bits >> bit & 1) != 0 ? '1' : '0';
  return text;
}

std::string fields(const FormatSpec& f, std::uint32_t bits) {
  if (f.encoding == Encoding::power_of_two || f.encoding == Encoding::fixed_point) return binary(bits, f.bits);
  return binary(bits >> (f.bits - 1), 1) + "." + binary(bits >> f.mantissa_bits, f.exponent_bits) + "." +
         binary(bits, f.mantissa_bits);
}

}  // namespace

std::string notations(double value) {
  char text[96];
  std::snprintf(text, sizeof(text), "%a = %.9g", value, value);
  return text;
}

std::string notations(Format format, std::uint32_t bits) {
  const FormatSpec& f = spec(format);
  if (format == Format::e2m1x2) {
    return fmt::format("0x{:02x} = codes {:x}, {:x} = {}, {}", bits, bits & 0xF, bits >> 4,
                       decode(Format::e2m1, bits & 0xF), decode(Format::e2m1, bits >> 4));
  }
  char hex[16];
  std::snprintf(hex, sizeof(hex), "0x%0*x", (f.bits + 3) / 4, bits);
  return std::string(hex) + " = " + fields(f, bits) + " = " + notations(decode(format, bits));
}

std::int64_t ulp_distance_of_codes(Format format, std::uint32_t a, std::uint32_t b) {
  if (format == Format::e2m1x2) {  // of the codes that are further apart
    return std::max(ulp_distance_of_codes(Format::e2m1, a & 0xF, b & 0xF),
                    ulp_distance_of_codes(Format::e2m1, a >> 4, b >> 4));
  }
  const bool nan_a = std::isnan(decode(format, a));
  const bool nan_b = std::isnan(decode(format, b));
  if (nan_a || nan_b) return nan_a && nan_b ? 0 : -1;
  const FormatSpec& f = spec(format);
  const auto order = [&](std::uint32_t code) -> std::int64_t {
    if (f.encoding == Encoding::power_of_two) return code;
    if (f.encoding == Encoding::fixed_point) return static_cast<std::int8_t>(code);
    const std::uint32_t sign = std::uint32_t{1} << (f.bits - 1);
    return (code & sign) != 0 ? -1 - static_cast<std::int64_t>(code & (sign - 1)) : code;
  };
  return std::abs(order(a) - order(b));
}

}  // namespace mxcheck
