#include "properties/operations/layer/expand.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "goldens/make/embedded.h"

namespace mxcheck {
namespace {

// Both zeros, the smallest and largest, either side of the gates where q becomes subnormal, 0, 1, where 1 - q and 1 +
// exp(-g) round, and where the derivative has its ends.
constexpr std::array<std::uint16_t, 40> kGates{
    0x0000, 0x8000, 0x3F80, 0xBF80, 0x7F80, 0xFF80, 0x7FC0, 0xFFFF, 0x0001, 0x8001, 0x0080, 0x8080, 0x7F7F, 0xFF7F,
    0x4184, 0x4185, 0x4186, 0xC185, 0xC2AE, 0xC2AF, 0xC2B0, 0xC2B1, 0xC2B2, 0xC2B3, 0xC2D0, 0x42B1, 0x42B2, 0x3B80,
    0xBB80, 0x3380, 0xB380, 0x3300, 0xB300, 0x4200, 0x42C8, 0xC2C8, 0xC1A0, 0x3FA4, 0xBFA4, 0x4019};
constexpr std::array<std::uint16_t, 14> kUps{0x0000, 0x8000, 0x3F80, 0xBF80, 0x7F80, 0xFF80, 0x7FC0,
                                             0x0001, 0x8080, 0x7F7F, 0xFF7F, 0x3FC1, 0x7F00, 0xC040};
constexpr std::array<float, 12> kGradients{0,
                                           -0.0F,
                                           1,
                                           -1,
                                           std::numeric_limits<float>::infinity(),
                                           -std::numeric_limits<float>::infinity(),
                                           NAN,
                                           0x1p-149F,
                                           0x1p-126F,
                                           0x1.fffffep127F,
                                           -0x1p-100F,
                                           0x1.b33334p0F};
constexpr std::array<float, 10> kWeights{
    1, 0, -0.0F, -1, 0x1p-149F, 0x1p-100F, std::numeric_limits<float>::infinity(), NAN, 0.3F, 0x1p100F};
static_assert(kGates.size() * kUps.size() == kSpecialCols && kGradients.size() * kWeights.size() == kSpecialRows);

constexpr std::uint16_t kInfinity = 0x7F80;

std::uint16_t bf16(double value) { return static_cast<std::uint16_t>(nearest_bits(Format::bf16, value)); }
std::uint16_t signed_word(std::uint16_t word, std::uint64_t sign) {
  return static_cast<std::uint16_t>(word ^ ((sign & 1) != 0 ? 0x8000U : 0U));
}
double bell(std::uint64_t word) { return four_uniforms(word) * 1.75; }

// The value of this number, beginning again after the last.
template <class Array>
auto at(const Array& values, std::int64_t n) {
  return values[static_cast<std::size_t>(n) % values.size()];
}

}  // namespace

StepElements::StepElements(const Case& c)
    : c_(c), row_(layer_case(c_).first_row), col_(layer_case(c_).first_col), element_(layer_of(c_.variant).format) {
  most_code_ = spec(element_).max_code;
  if (c.data != Data::real) return;
  gates_ = RealWindow(real_tensors(), c.seed, 32);
  ups_ = RealWindow(real_tensors(), c.seed + 1, 32);
}

std::uint64_t StepElements::tile_word(std::int64_t i, std::int64_t j, std::uint64_t salt) const {
  return random_word(c_.seed ^ salt, static_cast<std::uint64_t>(((row_ + i) / 32) << 32 | (col_ + j) / 32));
}

int StepElements::row_exponent(std::int64_t i) const {
  return static_cast<int>(random_word(c_.seed ^ 0x2074, static_cast<std::uint64_t>(row_ + i)) % 24) - 16;
}

bool StepElements::is_there(std::int64_t i, std::int64_t j) const {
  const std::uint64_t row = random_word(c_.seed ^ 0x5BA2, static_cast<std::uint64_t>(row_ + i));
  return row % 4 != 0 && (row_ + i + col_ + j + static_cast<std::int64_t>(c_.seed % 32)) % 32 == 0;
}

// Gate and up value for which A is a, exactly: g is a power of two, at which the sigmoid is 1.
StepElements::Pair StepElements::of_a(double a, std::uint64_t word) const {
  const int k = 5 + static_cast<int>(word >> 40) % 4;
  const double up = std::ldexp(a, -k);
  // Below that u is subnormal and loses bits: an A of so little has one of 2^-k.
  return {bf16(std::ldexp(1.0, k)), bf16(std::fabs(up) < 0x1p-126 ? std::copysign(0x1p-100, a) : up)};
}

// Of every row and column of a tile one element is on an edge of the scale byte, and all others are below half of it.
double StepElements::edge_of_block(std::int64_t i, std::int64_t j, int exponent, std::uint64_t word) const {
  const std::uint64_t tile = tile_word(i, j, 0xED6E);
  const bool chosen = static_cast<std::uint64_t>(row_ + i + col_ + j) % 32 == tile % 32;
  const double largest = decode(element_, most_code_);
  if (!chosen) return bell(word) * std::ldexp(largest, exponent - 2);
  const double edge = (tile >> 8) % 2 == 0 ? largest : std::ldexp(1.0, std::ilogb(largest) + 1);
  const int ulp = static_cast<int>((word >> 32) % 3) - 1;
  const std::uint16_t bits = static_cast<std::uint16_t>(bf16(std::ldexp(edge, exponent)) + ulp);
  return decode(Format::bf16, signed_word(bits, word));
}

StepElements::Pair StepElements::boundaries(std::int64_t i, std::int64_t j, std::uint64_t word) const {
  const std::uint64_t tile = tile_word(i, j, 0xB10C);
  const int exponent = static_cast<int>((tile >> 8) % 24) - 12;
  switch (tile % 4) {
    case 0: return of_a(edge_of_block(i, j, exponent, word), word);
    case 1: {  // around a threshold
      const int ulp = static_cast<int>((word >> 8) % 5) - 2;
      const std::uint16_t gate = at(kGates, static_cast<std::int64_t>((word >> 16) % 26) + 14);
      return {static_cast<std::uint16_t>(gate + ulp), bf16(std::ldexp(bell(mix64(word)), exponent))};
    }
    case 2: {  // odd numbers of 5 bits, whose product has 9 or 10
      const auto odd = [](std::uint64_t bits) { return static_cast<double>(17 + 2 * (bits % 8)); };
      return {bf16(odd(word >> 8)), signed_word(bf16(std::ldexp(odd(word >> 16), exponent)), word)};
    }
    default: {
      const auto code = static_cast<std::uint32_t>((word >> 8) % most_code_);
      const double between = (word >> 24) % 2 == 0 ? 0 : (decode(element_, code + 1) - decode(element_, code)) / 2;
      const int ulp = static_cast<int>((word >> 32) % 3) - 1;
      const std::uint16_t bits = bf16(std::ldexp(decode(element_, code) + between, exponent));
      const auto moved = static_cast<std::uint16_t>(bits == 0 ? 0 : bits + ulp);
      return of_a(decode(Format::bf16, signed_word(moved, word)), word);
    }
  }
}

std::uint16_t StepElements::special(std::int64_t i, std::int64_t j, std::uint64_t word) const {
  const std::uint64_t tile = tile_word(i, j, 0x59EC);
  const bool chosen = static_cast<std::uint64_t>((row_ + i) * 32 + col_ + j) % 1024 == (tile >> 20) % 1024;
  const std::uint64_t sign = word >> 63;
  const auto mantissa = static_cast<std::uint16_t>(std::max<std::uint64_t>(1, word % 128));
  const std::uint16_t ordinary = bf16(bell(mix64(word)) * 4);
  switch (tile % 12) {
    case 0: return 0;
    case 1: return signed_word(0, sign);
    case 2: return chosen ? signed_word(kInfinity | mantissa, sign) : ordinary;
    case 3: return chosen ? signed_word(kInfinity, sign) : ordinary;
    case 4: return signed_word(mantissa, sign);
    case 5: return signed_word(static_cast<std::uint16_t>(0x7F7F - word % 4), sign);
    case 6: return signed_word(kInfinity | mantissa, sign);
    case 7: return signed_word(static_cast<std::uint16_t>(0x7F + word % 3), sign);
    case 8: return word % 3 == 0 ? at(kGates, static_cast<std::int64_t>((word >> 8) % 40)) : ordinary;
    case 9: return chosen ? signed_word(0x7F7F, sign) : signed_word(mantissa, sign);
    case 10: return bf16(bell(word) * 100);  // beyond the thresholds of the sigmoid
    default: return ordinary;
  }
}

StepElements::Pair StepElements::pair(std::int64_t i, std::int64_t j) const {
  const auto place = static_cast<std::uint64_t>((row_ + i) << 31 | (col_ + j));
  const std::uint64_t word = random_word(c_.seed, place);
  const std::uint64_t other = mix64(word);
  const auto low = [](std::uint64_t w) { return static_cast<std::uint16_t>(w); };
  switch (c_.data) {
    case Data::zeros:
    case Data::every_bf16:
    case Data::every_amax: return {0, 0};
    case Data::boundaries: return boundaries(i, j, word);
    case Data::codes: {
      const auto code = static_cast<std::uint32_t>((word >> 8) % (most_code_ + 1));
      const int exponent = static_cast<int>(tile_word(i, j, 0xC0DE) % 16) - 8;
      const Pair drawn = of_a(std::ldexp(decode(element_, code), exponent), word);
      return {drawn.gate, signed_word(code == 0 ? 0 : drawn.up, word)};
    }
    case Data::bits: return {low(word), low(word >> 16)};
    case Data::specials: return {special(i, j, word), special(i, j, other)};
    case Data::wide: return {low(any_finite(Format::bf16, word)), low(any_finite(Format::bf16, other))};
    case Data::sparse:
      if (!is_there(i, j)) return {0, 0};
      break;
    case Data::slots: {
      const std::int64_t row = row_ + i;
      const std::int64_t col = col_ + j;
      const std::uint16_t mantissa = 0x80 | static_cast<std::uint16_t>((row * 37 + col * 11) % 128);
      const double up = std::ldexp(mantissa, static_cast<int>((row / 32 * 5 + col / 32 * 7) % 16) - 15);
      return {bf16(static_cast<double>(1 + (row * 3 + col * 5) % 61) / 4), signed_word(bf16(up), word)};
    }
    case Data::every_word: {
      const auto number = static_cast<std::uint64_t>((row_ + i) * c_.cols + col_ + j);
      static constexpr std::array<std::uint16_t, 4> kOrdinary{0x3F80, 0xBFC1, 0x4049, 0x3E2B};
      return {low(c_.seed + number), at(kOrdinary, static_cast<std::int64_t>((c_.seed + number) / 37))};
    }
    case Data::every_row:
      return {at(kGates, col_ + j), at(kUps, (col_ + j) / static_cast<std::int64_t>(kGates.size()))};
    case Data::real:
      return {low(gates_.bits(Format::bf16, row_ + i, col_ + j)), low(ups_.bits(Format::bf16, row_ + i, col_ + j))};
    case Data::normal: break;
  }
  const bool outlier = (other & 0xFF) == 0;
  return {bf16(bell(word) * 4), bf16(std::ldexp(bell(other), row_exponent(i) + (outlier ? 5 : 0)))};
}

float StepElements::p(std::int64_t i, std::int64_t j) const {
  const auto place = static_cast<std::uint64_t>((row_ + i) << 31 | (col_ + j));
  const std::uint64_t word = random_word(c_.seed ^ 0x96AD, place);
  const auto bits = static_cast<std::uint32_t>(word >> 8);
  const auto usual = [&] { return static_cast<float>(std::ldexp(bell(word), row_exponent(i) - 4)); };
  switch (c_.data) {
    case Data::zeros: return 0;
    case Data::codes: return std::ldexp((word & 1) != 0 ? -1.0F : 1.0F, static_cast<int>((word >> 8) % 6) - 3);
    case Data::boundaries:  // few bits, so that products end in the middle between two BF16 values
      return std::ldexp(static_cast<float>(static_cast<int>((word >> 8) % 63) - 31),
                        static_cast<int>(tile_word(i, j, 0x9BAD) % 24) - 16);
    case Data::bits: return std::bit_cast<float>(bits);
    case Data::wide: return std::bit_cast<float>(any_finite(Format::fp32, word));
    case Data::specials:
      return tile_word(i, j, 0x9BAD) % 3 == 0 && word % 8 == 0
                 ? at(kGradients, static_cast<std::int64_t>((word >> 8) % kGradients.size()))
                 : usual();
    case Data::sparse: return is_there(i, j) || word % 32 == 0 ? usual() : 0.0F;
    case Data::slots: {
      const std::int64_t number = (row_ + i) * 131 + (col_ + j) * 17;
      return static_cast<float>(0x800000 + number * 977 % 0x800000) *
             std::ldexp(1.0F, -20 - static_cast<int>((row_ + i) % 7));
    }
    case Data::every_row: return at(kGradients, row_ + i);
    default: return usual();
  }
}

float StepElements::weight(std::int64_t i) const {
  const std::uint64_t word = random_word(c_.seed ^ 0x3E16, static_cast<std::uint64_t>(row_ + i));
  const auto usual = [&] {
    return std::ldexp(1.0F + static_cast<float>(word >> 41) * 0x1p-23F, -1 - static_cast<int>(word % 6));
  };
  switch (c_.data) {
    case Data::zeros: return 1;
    case Data::codes: return std::ldexp(1.0F, -static_cast<int>(word % 4));
    case Data::bits: return std::bit_cast<float>(static_cast<std::uint32_t>(word));
    case Data::wide: return std::bit_cast<float>(any_finite(Format::fp32, word));
    case Data::every_row: return at(kWeights, (row_ + i) / static_cast<std::int64_t>(kGradients.size()));
    case Data::specials:
      return word % 3 == 0 ? at(kWeights, static_cast<std::int64_t>((word >> 8) % kWeights.size())) : usual();
    case Data::boundaries: {
      static constexpr std::array<float, 6> kFew{1, 0.5F, 1 + 0x1p-23F, 0.75F, 1 - 0x1p-24F, 0x1.555556p-2F};
      return at(kFew, static_cast<std::int64_t>(word % kFew.size()));
    }
    default: return usual();
  }
}

std::uint16_t StepElements::y(std::int64_t i, std::int64_t j) const {
  if (c_.data != Data::boundaries) return pair(i, j).up;
  // Sums that cancel, that are lost beside others, and that end in the middle between two BF16 values.
  static constexpr std::array<std::uint16_t, 10> kTerms{0x3F80, 0xBF80, 0x3B80, 0x3B00, 0xBB80,
                                                        0x3380, 0x3300, 0x4380, 0xC380, 0x3F81};
  const std::uint64_t word = random_word(c_.seed, static_cast<std::uint64_t>((row_ + i) << 31 | (col_ + j)));
  return at(kTerms, static_cast<std::int64_t>(word % kTerms.size()));
}

}  // namespace mxcheck
