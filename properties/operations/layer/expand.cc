#include "properties/operations/layer/expand.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "goldens/data/embedded.h"
#include "properties/core/invalid_call.h"
#include "properties/operations/layer/operation.h"

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

std::uint16_t bf16_word(double value) { return static_cast<std::uint16_t>(nearest_bits(Format::bf16, value)); }
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
  return {bf16_word(std::ldexp(1.0, k)), bf16_word(std::fabs(up) < 0x1p-126 ? std::copysign(0x1p-100, a) : up)};
}

// One element of every row and column of a tile is on an edge of the scale byte; all others are below half of it.
double StepElements::edge_of_block(std::int64_t i, std::int64_t j, int exponent, std::uint64_t word) const {
  const std::uint64_t tile = tile_word(i, j, 0xED6E);
  const bool chosen = static_cast<std::uint64_t>(row_ + i + col_ + j) % 32 == tile % 32;
  const double largest = decode(element_, most_code_);
  if (!chosen) return bell(word) * std::ldexp(largest, exponent - 2);
  const double edge = (tile >> 8) % 2 == 0 ? largest : std::ldexp(1.0, std::ilogb(largest) + 1);
  const int ulp = static_cast<int>((word >> 32) % 3) - 1;
  const std::uint16_t bits = static_cast<std::uint16_t>(bf16_word(std::ldexp(edge, exponent)) + ulp);
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
      return {static_cast<std::uint16_t>(gate + ulp), bf16_word(std::ldexp(bell(mix64(word)), exponent))};
    }
    case 2: {  // odd numbers of 5 bits, whose product has 9 or 10
      const auto odd = [](std::uint64_t bits) { return static_cast<double>(17 + 2 * (bits % 8)); };
      return {bf16_word(odd(word >> 8)), signed_word(bf16_word(std::ldexp(odd(word >> 16), exponent)), word)};
    }
    default: {
      const auto code = static_cast<std::uint32_t>((word >> 8) % most_code_);
      const double between = (word >> 24) % 2 == 0 ? 0 : (decode(element_, code + 1) - decode(element_, code)) / 2;
      const int ulp = static_cast<int>((word >> 32) % 3) - 1;
      const std::uint16_t bits = bf16_word(std::ldexp(decode(element_, code) + between, exponent));
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
  const std::uint16_t ordinary = bf16_word(bell(mix64(word)) * 4);
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
    case 10: return bf16_word(bell(word) * 100);  // beyond the thresholds of the sigmoid
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
      return {bf16_word(static_cast<double>(1 + (row * 3 + col * 5) % 61) / 4), signed_word(bf16_word(up), word)};
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
  return {bf16_word(bell(word) * 4), bf16_word(std::ldexp(bell(other), row_exponent(i) + (outlier ? 5 : 0)))};
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

// Slots of tokens, and h as codes.

// Where row i of y is y(i, j) whatever the window, a token's slots are those of its place: what is added up stays the
// same while tokens and columns around it go.
DrawnSlots expand_slots(const Case& c) {
  const LayerCase& own = layer_case(c);
  DrawnSlots slots{{0}, {}};
  for (std::int64_t t = own.first_row; t < own.first_row + c.rows; ++t) {
    const std::uint64_t word = random_word(c.seed ^ 0x70CE, static_cast<std::uint64_t>(t));
    // A third of the tokens have as many as there may be; others any number, none among them.
    const auto any = static_cast<std::int64_t>((word >> 8) % static_cast<std::uint64_t>(own.most + 1));
    const std::int64_t count = word % 3 == 0 ? own.most : any;
    for (std::int64_t slot = 0; slot < count; ++slot) {
      const std::uint64_t one = random_word(c.seed ^ 0x5107, static_cast<std::uint64_t>(t << 20 | slot));
      const bool dropped = own.y_rows == 0 || one % 100 < static_cast<std::uint64_t>(own.drops);
      const auto row = dropped ? 0 : (one >> 16) % static_cast<std::uint64_t>(own.y_rows);
      slots.token_rows.push_back(dropped ? -1 : static_cast<std::int32_t>(row));
    }
    slots.token_offsets.push_back(static_cast<std::int64_t>(slots.token_rows.size()));
  }
  return slots;
}

std::vector<std::uint8_t> expand_coded_h(const Case& c) {
  const LayerCase& own = layer_case(c);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(c.rows * 2 * c.cols));
  if (c.data == Data::zeros) return codes;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < 2 * c.cols; ++j) {
      const auto place = static_cast<std::uint64_t>((own.first_row + i) << 31 | (own.first_col + j));
      std::uint64_t word = random_word(c.seed ^ 0xC0DE, place);
      if (c.data == Data::slots) word = static_cast<std::uint64_t>(i * 37 + j * 5);
      if (c.data == Data::every_word) word = c.seed + static_cast<std::uint64_t>(i * 2 * c.cols + j);
      const bool special = c.data == Data::bits || c.data == Data::every_word;
      auto code = static_cast<std::uint32_t>(word & 0xFF);
      // No NaN and no infinity among ordinary ones.
      if (!special && (code & 0x7F) > spec(c.variant.dtype).max_code) code = spec(c.variant.dtype).max_code;
      if (c.data == Data::specials && word >> 60 == 0) code = static_cast<std::uint32_t>(word >> 50 & 0x80) | 0x7F;
      if (c.data == Data::sparse && word >> 59 != 0) code = 0;
      codes[static_cast<std::size_t>(i * 2 * c.cols + j)] = static_cast<std::uint8_t>(code);
    }
  }
  return codes;
}

std::vector<std::uint8_t> expand_scales_of_h(const Case& c) {
  const std::int64_t across = (2 * c.cols + 31) / 32;
  const LayerCase& own = layer_case(c);
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(c.rows * across), 127);
  if (c.data == Data::zeros) return scales;
  const bool any = c.data == Data::bits || c.data == Data::wide || c.data == Data::specials;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < across; ++j) {
      const auto place = static_cast<std::uint64_t>((own.first_row + i) << 31 | j);
      const std::uint64_t word = random_word(c.seed ^ 0x5CA1, place);
      auto scale = static_cast<std::uint8_t>(118 + word % 10);
      if (any && word % 4 == 0) scale = static_cast<std::uint8_t>(word >> 8);
      scales[static_cast<std::size_t>(i * across + j)] = scale;
    }
  }
  return scales;
}

// Calls of the steps of a layer that must be refused, beside those of every operation.

namespace {

using S = mxcheck_swiglu_policy;
using A = mxcheck_aggregate_policy;
using Common = mxcheck_policy;

constexpr int kCoded = MXCHECK_ROWS_CODED | MXCHECK_COLUMNS_CODED;

std::int64_t rows_of(const Call& call) { return read<Common>(call.policy).rows; }

InvalidCall without_input(const char* how, std::size_t from_first) {
  return {how, [from_first](Call& c) {
            if (!is_operation(c.operation, "swiglu_backward")) return false;
            const std::size_t h = *read<S>(c.policy).format_h == '\0' ? 1 : 2;
            c.inputs.erase(c.inputs.begin() + static_cast<std::ptrdiff_t>(h + from_first));
            return true;
          }};
}

std::vector<InvalidCall> invalid_swiglu_policies() {
  return {
      invalid_policy<S>("gate_up is unknown", [](S& p) { return p.gate_up = 7, true; }),
      invalid_policy<S>("gate_up is negative", [](S& p) { return p.gate_up = -1, true; }),
      invalid_policy<S>("no output is asked for", [](S& p) { return p.outputs = 0, true; }),
      invalid_policy<S>("an output is asked for that there is not", [](S& p) { return p.outputs |= 8, true; }),
      invalid_policy<S>("outputs is negative", [](S& p) { return p.outputs = -1, true; }),
      invalid_policy<S>("nothing is coded and there is a format",
                        [](S& p) { return (p.outputs & kCoded) == 0 && (p.policy.format = "e4m3", true); }),
      invalid_policy<S>("nothing is coded and there is a recipe",
                        [](S& p) { return (p.outputs & kCoded) == 0 && (p.policy.recipe = "rceil", true); }),
      invalid_policy<S>(
          "nothing is coded and there are blocks",
          [](S& p) { return (p.outputs & kCoded) == 0 && (p.policy.block_rows = 1, p.policy.block_cols = 32, true); }),
      invalid_policy<S>("codes are of blocks of columns",
                        [](S& p) {
                          std::swap(p.policy.block_rows, p.policy.block_cols);
                          return (p.outputs & kCoded) != 0;
                        }),
      {"there is a format of transposed codes that are not written",
       [](Call& c) {
         const bool has =
             is_operation(c.operation, "swiglu_backward") && (read<S>(c.policy).outputs & MXCHECK_COLUMNS_CODED) != 0;
         if (!has) edit<S>(c.policy, [](S& p) { p.format_scaled = "e4m3"; });
         return !has;
       }},
      invalid_policy<S>("the format of scaled_a is unknown",
                        [](S& p) { return *p.format_scaled != '\0' && (p.format_scaled = "z4m3", true); }),
      invalid_policy<S>("the format of h is unknown", [](S& p) { return p.format_h = "z4m3", true; }),
      {"h is BF16 and the policy has a format of its codes",
       [](Call& c) {
         if (*read<S>(c.policy).format_h != '\0') return false;
         edit<S>(c.policy, [](S& p) { p.format_h = "e4m3"; });
         return true;
       }},
      {"h is codes and the policy has no format of them",
       [](Call& c) {
         if (*read<S>(c.policy).format_h == '\0') return false;
         edit<S>(c.policy, [](S& p) { p.format_h = ""; });
         return true;
       }},
  };
}

bool change_one_slot(Call& call, std::int64_t row) {
  return change_one(call, call.inputs.back(), static_cast<std::int32_t>(row));
}

bool with_token_offset(Call& call, std::size_t at, std::int64_t value) {
  return change_value(call, call.inputs[call.inputs.size() - 2], at, value);
}
std::int64_t slots_of(const Call& call) { return call.inputs.back().shape[0]; }
std::size_t last_offset(const Call& call) { return static_cast<std::size_t>(rows_of(call)); }

std::vector<InvalidCall> aggregate_refusals() {
  return {
      invalid_policy<A>("weighted is 2", [](A& p) { return p.weighted = 2, true; }),
      invalid_policy<A>("weighted is negative", [](A& p) { return p.weighted = -1, true; }),
      invalid_policy<A>("weights are promised and missing",
                        [](A& p) { return p.weighted == 0 && (p.weighted = 1, true); }),
      invalid_policy<A>("weights are there that were not promised",
                        [](A& p) { return p.weighted == 1 && (p.weighted = 0, true); }),
      invalid_policy<A>("aggregate has a format", [](A& p) { return p.policy.format = "e4m3", true; }),
      invalid_policy<A>("aggregate has a recipe", [](A& p) { return p.policy.recipe = "rceil", true; }),
      invalid_policy<A>("aggregate has blocks",
                        [](A& p) { return p.policy.block_rows = 1, p.policy.block_cols = 32, true; }),
      {"token_offsets descend", [](Call& c) { return with_token_offset(c, 1, slots_of(c) + 1); }},
      {"token_offsets do not start at 0", [](Call& c) { return with_token_offset(c, 0, 1); }},
      {"token_offsets are negative", [](Call& c) { return with_token_offset(c, 0, -1); }},
      {"token_offsets end after the last slot",
       [](Call& c) { return with_token_offset(c, last_offset(c), slots_of(c) + 1); }},
      {"token_offsets end before the last slot",
       [](Call& c) { return with_token_offset(c, last_offset(c), slots_of(c) - 1); }},
      {"a slot's row is -2", [](Call& c) { return change_one_slot(c, -2); }},
      {"a slot's row is the number of rows of y", [](Call& c) { return change_one_slot(c, c.inputs[0].shape[0]); }},
  };
}

InvalidCall tiled() {
  return invalid_policy<Common>("a step of a layer has scales in tiles",
                                [](Common& p) { return p.layout = MXCHECK_TCGEN05, true; });
}

}  // namespace

std::vector<InvalidCall> invalid_aggregates() {
  std::vector<InvalidCall> all = disagreeing_extents({unknown_layout(), negative_layout(), tiled()});
  add_invalid(all, {aggregate_refusals()});
  return all;
}

std::vector<InvalidCall> invalid_swiglus() {
  std::vector<InvalidCall> all = disagreeing_extents({unknown_layout(), negative_layout(), tiled()});
  add_invalid(all, {{unknown_format(), unknown_recipe(), unwanted_row_index(),
                     without_input("the gradient of A is missing", 0), without_input("the weights are missing", 1)},
                    invalid_blocks(),
                    invalid_swiglu_policies(),
                    invalid_offsets(rows_of)});
  return all;
}

std::vector<InvalidCall> invalid_transposes() {
  std::vector<InvalidCall> all =
      disagreeing_extents({unknown_format(), unknown_recipe(), unknown_layout(), negative_layout(), tiled()});
  all.push_back(invalid_policy<Common>("transposed codes are of blocks of one row",
                                       [](Common& p) { return std::swap(p.block_rows, p.block_cols), true; }));
  add_invalid(all, {invalid_blocks(), invalid_offsets(rows_of), invalid_row_index()});
  return all;
}

}  // namespace mxcheck
