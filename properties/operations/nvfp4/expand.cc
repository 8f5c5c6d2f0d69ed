// Inputs on which orders of rounding differ.
//
// Random data hardly finds them: of 40,448 blocks of normal data whose scale is computed in five orders, 11 have
// another E4M3 byte in one of them (tests/properties/operations/nvfp4/problem_test.cc). So the tensor's scale is chosen
// such that values of few bits lie on midpoints: with S = 6 * m / a, m an odd number of 5 bits and a one of 8, a block
// with the amax a * 2^j has the quotient m * 2^j, which is halfway between two E4M3 numbers. Next to it, some ulps of S
// or of x away, each order of roundings falls to a side of its own. Elements are at midpoints of the codes below either
// of the two scales.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"
#include "properties/core/input.h"
#include "properties/core/rng.h"
#include "properties/operations/nvfp4/problem.h"
#include "properties/operations/scaled_blocks/divisors.h"
#include "properties/operations/scaled_blocks/geometry.h"
#include "properties/operations/scaled_blocks/operation.h"

namespace mxcheck {
namespace {

// The tie of a case: with S = 6 * quotient / amax, in units of a power of two.
struct Tie {
  int quotient;  // odd, of 5 bits
  int amax;      // of 8 bits: a value of BF16
};

Tie tie_of(std::uint64_t seed) {
  const std::uint64_t word = random_word(seed, 0x71E);
  return {17 + 2 * static_cast<int>(word % 8), 128 + static_cast<int>((word >> 8) % 128)};
}

float moved(float value, int ulps) {
  for (; ulps > 0; --ulps) value = std::nextafter(value, HUGE_VALF);
  for (; ulps < 0; ++ulps) value = std::nextafter(value, 0.0F);
  return value;
}

constexpr std::array<double, 7> kMidpoints{0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};

// The values that the elements of one block share.
struct TieBlock {
  double amax = 0;
  std::array<double, 2> steps{};  // the values of the two scales beside the block's quotient, times the tensor's
  bool is_zero = false;
};

class TieExpander {
 public:
  TieExpander(const Case& c, OuterScale outer)
      : c_(c), outer_(outer), tie_(tie_of(c.seed)), geometry_(scale_geometry(c, blocks_of(c.variant).block)) {}

  void fill_row(std::int64_t i, std::uint32_t* to) const {
    const std::int64_t block_row = scale_row_of(c_, geometry_, i);
    const std::int64_t width = geometry_.block.width(c_.cols);
    for (std::int64_t block = 0; block < geometry_.cols; ++block) {
      const TieBlock b = block_at(static_cast<std::uint64_t>(block_row * geometry_.cols + block));
      const std::int64_t end = std::min(c_.cols, (block + 1) * width);
      for (std::int64_t j = block * width; j < end; ++j) {
        // The amax stands in the first column of every row, so that a block that an edge cuts has it too.
        to[j] = element(b, j == block * width, random_word(c_.seed, static_cast<std::uint64_t>(i * c_.cols + j)));
      }
    }
  }

 private:
  [[nodiscard]] TieBlock block_at(std::uint64_t number) const {
    const std::uint64_t word = random_word(c_.seed ^ 0xB10C, number);
    const double s = outer_.decode;
    const int j = static_cast<int>((word >> 8) % 16);  // quotients from 2^-7 to 2^9
    TieBlock b;
    double quotient = std::ldexp(tie_.quotient, j - 11);
    switch (word % 12) {
      case 0: b.is_zero = true; break;
      case 1: quotient = std::ldexp(1.0, -10) * (1 + static_cast<double>(word >> 24 & 3) / 8); break;  // underflow
      case 2: quotient = std::ldexp(1.0, -13 - j); break;                                              // to zero
      case 3: quotient = 448 + static_cast<double>(word >> 24 & 31); break;                            // saturates
      case 4: quotient = static_cast<double>(1 + (word >> 24 & 0xFFFF)) / 256; break;                  // any
      case 5: quotient = std::ldexp(1.0 + static_cast<double>(word >> 24 & 7) / 8, j - 9); break;      // no tie
      case 6: quotient = std::ldexp(1.0, -6) * (1 - static_cast<double>(word >> 24 & 3) / 16); break;  // subnormal
      default: break;
    }
    b.amax = quotient * 6 * s;
    const std::uint32_t below = encode(Format::e4m3, quotient, Rounding::toward_zero, Overflow::saturate);
    b.steps = {decode(Format::e4m3, below) * s, decode(Format::e4m3, std::min(0x7EU, below + 1)) * s};
    return b;
  }

  [[nodiscard]] std::uint32_t element(const TieBlock& b, bool is_amax, std::uint64_t word) const {
    const Format dtype = c_.variant.dtype;
    const std::uint32_t sign = (word >> 63) != 0 ? sign_bit(dtype) : 0;
    if (b.is_zero) return sign;
    const std::uint32_t top = nearest_bits(dtype, b.amax);
    const int ulp = (word & 0x300) != 0 ? 0 : (word & 0x400) != 0 ? 1 : -1;  // one in four
    if (is_amax) return sign | shifted(dtype, top, ulp);
    double value = kMidpoints[word % kMidpoints.size()] * b.steps[word >> 16 & 1];
    if ((word >> 20) % 8 == 0) value = b.amax * static_cast<double>(word >> 32 & 0xFFFF) / 0x10000;
    return sign | std::min(top, shifted(dtype, nearest_bits(dtype, value), ulp));
  }

  static std::uint32_t shifted(Format dtype, std::uint32_t bits, int by) {
    if (by < 0) return bits == 0 ? 0 : bits - 1;
    return std::min(spec(dtype).max_code, bits + static_cast<std::uint32_t>(by));
  }

  const Case& c_;
  OuterScale outer_;
  Tie tie_;
  ScaleGeometry geometry_;
};

}  // namespace

float drawn_tensor_scale(const Case& c, const Recipe& recipe) {
  const Tie tie = tie_of(c.seed);
  const std::uint64_t word = random_word(c.seed, 0x5CA1E);
  const int exponent = static_cast<int>(word % 5) - 2;
  const int ulps = (word & 0x100) != 0 ? 0 : static_cast<int>((word >> 9) % 5) - 2;
  const double encode_scale = std::ldexp(6.0 * tie.quotient / tie.amax, exponent);
  const double largest = double{recipe.two_level.limit} * 6;
  switch (recipe.two_level.stored) {
    case StoredScale::decode: return moved(static_cast<float>(1 / encode_scale), ulps);
    case StoredScale::encode: return moved(static_cast<float>(encode_scale), ulps);
    case StoredScale::amax: break;
  }
  return moved(static_cast<float>(largest / encode_scale), ulps);
}

Input expand_nvfp4_ties(const Case& c, OuterScale outer) {
  const TieExpander expander(c, outer);
  return make_input_by_row(c.variant.dtype, c.rows, c.cols, std::max(c.cols, c.stride),
                           [&](std::int64_t i, std::uint32_t* to) { expander.fill_row(i, to); });
}

namespace {

// A seed whose tie lies beside these eighths: blocks on either side of it then have the scale.
std::uint64_t seed_beside(float b, std::uint64_t from) {
  const int eighths = static_cast<int>(b * 8);
  for (std::uint64_t seed = from;; ++seed) {
    const int below = tie_of(seed).quotient / 2;
    if (below == eighths || below + 1 == eighths) return seed;
  }
}

}  // namespace

std::vector<Case> divisor_corners(const Variant& v) {
  constexpr std::int64_t kBlocks = 8;  // in a row
  constexpr std::int64_t kBlockRows = 4;
  const ScaledBlocksVariant& blocks = blocks_of(v);
  const Nvfp4Options& o = blocks.options;
  const TwoLevel levels = any_recipe_named(blocks.recipe).two_level;
  // All ones and 1 of every variant; the others of one variant after the other.
  const std::uint64_t of_variant =
      derived_seed(static_cast<std::uint64_t>(o.hadamard) + (o.has_both ? 1 : 0), blocks.recipe) +
      static_cast<std::uint64_t>(o.rounding) + static_cast<std::uint64_t>(v.dtype) +
      static_cast<std::uint64_t>(blocks.block.rows) + static_cast<std::uint64_t>(blocks.layout);
  std::vector<Case> cases;
  for (const std::size_t which :
       {std::size_t{0}, std::size_t{2}, std::array<std::size_t, 3>{1, 3, 4}[of_variant % 3]}) {
    const int exponent = -static_cast<int>(of_variant % 5);  // x of FP16 is normal
    const DivisorScale scale = scale_of_divisor(levels, which, exponent, of_variant);
    Case c = blocks_corner(v, blocks.block.rows * kBlockRows, blocks.block.cols * kBlocks, Data::boundaries,
                           seed_beside(scale.b, of_variant % 1000));
    blocks_case(c).tensor_scale = scale.stored;
    if (o.has_both) blocks_case(c).random.column_scale = scale.stored;
    cases.push_back(std::move(c));
  }
  // Under an amax of 614.4 "nvfp4_46" has S = 2.5, and an amax of 48 the scale 20: -10 / RN(20 / S) is the tie -1.25 of
  // codes, and where the inverse of RN(20 * 614.4 / 1536) stands for it, an ulp beside.
  Case known = blocks_corner(v, blocks.block.rows, blocks.block.cols, Data::zeros, 1);
  blocks_case(known).tensor_scale = std::bit_cast<std::uint32_t>(614.4F);
  std::int64_t col = 0;
  for (const double value : {48.0, -10.0, 10.0, -2.0, 20.0, -40.0})
    known.plants.push_back({0, col++, nearest_bits(v.dtype, std::fabs(value)) | (value < 0 ? sign_bit(v.dtype) : 0)});
  if (o.has_both) blocks_case(known).random.column_scale = std::bit_cast<std::uint32_t>(614.4F);
  if (o.hadamard == 0) cases.push_back(std::move(known));
  // Codes of subnormal elements: arithmetic that flushes them shows.
  if (o.hadamard == 0 && v.dtype != Format::fp16) {
    constexpr int kTiny = -121;
    cases.push_back(blocks_corner(v, blocks.block.rows * kBlockRows, blocks.block.cols * kBlocks, Data::boundaries, 1));
    blocks_case(cases.back()).tensor_scale = scale_of_divisor(levels, 3, kTiny, of_variant).stored;
    if (o.has_both)
      blocks_case(cases.back()).random.column_scale = blocks_case(std::as_const(cases.back())).tensor_scale;
  }
  return cases;
}

}  // namespace mxcheck
