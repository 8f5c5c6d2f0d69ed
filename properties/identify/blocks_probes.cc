#include "properties/identify/blocks_probes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "properties/core/rng.h"

namespace mxcheck {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void with_neighbours(std::vector<float>& values, double value) {
  const auto x = static_cast<float>(value);
  for (float y : {std::nextafter(x, -kInf), x, std::nextafter(x, kInf)}) values.insert(values.end(), {y, -y});
}

std::vector<float> finite_values(Format format) {
  std::vector<float> found;
  for (std::uint32_t code = 0; code <= spec(format).max_code; ++code) {
    found.push_back(static_cast<float>(decode(format, code)));
  }
  return found;
}

std::vector<float> cast_values(Format format) {
  const std::vector<float> values = finite_values(format);
  std::vector<float> probe{
      0.0F, -0.0F, kInf, -kInf, kNan, std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()};
  for (std::size_t i = 0; i < values.size(); ++i) {
    with_neighbours(probe, values[i]);
    const bool last = i + 1 == values.size();
    const double step = last ? double{values[i]} - values[i - 1] : double{values[i + 1]} - values[i];
    with_neighbours(probe, values[i] + step / 2);
    if (last) with_neighbours(probe, values[i] + step);
  }
  return probe;
}

// Where published rules differ: powers of two, the format's largest value and its multiples by powers, the ends of
// FP32, the floats at which roundings of a / vmax and of its logarithm go wrong (docs/numerics.md).
std::vector<float> amaxes(Format format) {
  std::vector<float> found{0, kInf, kNan, std::numeric_limits<float>::max(), 1e-4F, 1e-10F, 1e-12F, 480, 496};
  for (std::uint32_t word :
       {0x00000001U, 0x000000e0U, 0x00010000U, 0x00400000U, 0x00400001U, 0x00800000U, 0x01400001U,
        0x04600000U, 0x04600001U, 0x04600002U, 0x04733333U, 0x047FFFFFU, 0x04e00001U, 0x07E00001U,
        0x43ffffffU, 0x47e00001U, 0x63e00001U, 0x7f780000U, 0x7f7c0000U, 0x01000000U, 0x01000001U}) {
    found.push_back(std::bit_cast<float>(word));
  }
  const double largest = decode(format, spec(format).max_code);
  for (int e : {-130, -126, -100, -40, -20, -14, -8, -1, 0, 1, 7, 40, 100}) {
    for (double x :
         {largest, largest * 1.0625, largest * 1.125, largest * 1.25, largest * 1.375, 1.0, 1.5, 1.75, 1.9375}) {
      const auto amax = static_cast<float>(std::ldexp(x, e));
      for (float y : {std::nextafter(amax, 0.0F), amax, std::nextafter(amax, kInf)}) {
        if (std::isfinite(y) && y > 0) found.push_back(y);
      }
    }
  }
  return found;
}

// One block in a row (or a column): its amax first, then elements at codes, at middles and near them, and zeros.
std::vector<float> block_of(Format format, float amax, std::int64_t count, Draw& draw) {
  static constexpr double kParts[] = {1, 0.75, 0.5, 0.25, 0.0625, 0.001};
  const std::uint32_t codes = spec(format).max_code;
  std::vector<float> block{draw.chance(50) ? amax : -amax};
  for (std::int64_t i = 1; i < count; ++i) {
    const double unit = std::isfinite(amax) && amax > 0 ? amax : 1;
    const int e = std::ilogb(unit) - std::ilogb(decode(format, codes));
    double x = 0;
    if (draw.chance(60)) {  // a middle between two codes, under one of the scales that are near
      const auto code = static_cast<std::uint32_t>(draw.below(codes));
      x = std::ldexp((decode(format, code) + decode(format, code + 1)) / 2, e + static_cast<int>(draw.between(-1, 2)));
    } else if (draw.chance(70)) {
      x = unit * kParts[draw.below(6)] * std::ldexp(static_cast<double>(draw.between(1, 1 << 20)), -20);
    }
    if (std::abs(x) > unit) x = unit / 2;
    auto value = static_cast<float>(x);
    if (draw.chance(30)) value = std::nextafter(value, 0.0F);
    block.push_back(draw.chance(50) ? value : -value);
  }
  return block;
}

// Blocks one beside another along their longer side: rows of blocks 1 x n, columns of blocks n x 1.
QuantizeCall call_of(Format format, BlockShape block, const std::vector<float>& all, Draw& draw) {
  const auto count = static_cast<std::int64_t>(all.size());
  const std::int64_t h = block.height(1);
  const std::int64_t w = block.cols == 0 ? 64 : block.cols;
  QuantizeCall call{format, block, count * h, w, {}};
  for (float amax : all) {
    const std::vector<float> one = block_of(format, amax, h * w, draw);
    call.x.insert(call.x.end(), one.begin(), one.end());
  }
  return call;
}

// Elements at middles times an FP32 scale, and one float beside: a product with a reciprocal that was rounded once more
// falls on the other side.
QuantizeCall middles_of_fp32_scales(Format format, BlockShape block, Draw& draw) {
  std::vector<float> all;
  for (int i = 0; i < 128; ++i) {
    all.push_back(static_cast<float>(std::ldexp(static_cast<double>(draw.between(1 << 23, 1 << 24)), -20)));
  }
  QuantizeCall call = call_of(format, block, all, draw);
  const std::uint32_t codes = spec(format).max_code;
  const std::int64_t per = call.cols * block.height(1);
  for (std::size_t i = 0; i < call.x.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (at % per == 0) continue;
    const float scale = all[static_cast<std::size_t>(at / per)] / static_cast<float>(decode(format, codes));
    const auto code = static_cast<std::uint32_t>(draw.below(codes));
    auto x = static_cast<float>((decode(format, code) + decode(format, code + 1)) / 2 * scale);
    if (draw.chance(60)) x = std::nextafter(x, draw.chance(50) ? 0.0F : kInf);
    call.x[i] = x;
  }
  return call;
}

// Blocks of one column, made one below the other, four side by side: an answer with rows and columns exchanged is
// another one then.
QuantizeCall side_by_side(const QuantizeCall& from) {
  constexpr std::int64_t kColumns = 4;
  const std::int64_t height = from.block.rows;
  const std::int64_t count = from.rows / height;
  QuantizeCall call{from.format, from.block, (count + kColumns - 1) / kColumns * height, kColumns, {}};
  for (std::int64_t i = 0; i < call.rows * kColumns; ++i) {
    const std::int64_t row = i / kColumns;
    const std::int64_t block = std::min(count - 1, row / height * kColumns + i % kColumns);
    call.x.push_back(from.x[static_cast<std::size_t>(block * height + row % height)]);
  }
  return call;
}

std::vector<float> rounded(std::vector<float> values, Format type) {
  if (type == Format::fp32) return values;
  if (!spec(type).is_value) throw Error(ErrorKind::usage, "x is FP32, BF16 or FP16");
  for (float& x : values) {
    x = static_cast<float>(decode(type, encode(type, x, Rounding::nearest_even, Overflow::non_saturate)));
  }
  return values;
}

}  // namespace

std::vector<float> cast_probe(Format format, Format type) { return rounded(cast_values(format), type); }

std::vector<float> amax_probe(Format format, Format type) { return rounded(amaxes(format), type); }

std::vector<std::pair<std::string, QuantizeCall>> quantize_probes(Format format, BlockShape block, Format type) {
  Draw draw(derived_seed(0, "identify quantize"));
  std::vector<std::pair<std::string, QuantizeCall>> probes;
  probes.emplace_back("amax where rules differ", call_of(format, block, amaxes(format), draw));
  QuantizeCall special = call_of(format, block, {1, 448, 1e-30F, 3, 0, 7, 1}, draw);
  const std::int64_t per = special.cols * block.height(1);
  const auto at = [&](std::int64_t n, std::int64_t i) -> float& {
    return special.x[static_cast<std::size_t>(n * per + i)];
  };
  at(0, 1) = kNan, at(1, 1) = kInf, at(2, 1) = -kInf, at(3, 1) = kNan, at(3, 2) = kInf, at(4, 1) = kNan;
  at(5, 1) = -0.0F, at(5, 2) = std::bit_cast<float>(0x80000001U), at(6, 1) = -1e-30F, at(6, 2) = -0.0F;
  probes.emplace_back("middles of FP32 scales", middles_of_fp32_scales(format, block, draw));
  probes.emplace_back("NaN, Inf and negative zeros", std::move(special));
  for (auto& [name, call] : probes) {
    if (block.cols == 1) call = side_by_side(call);
    call.x = rounded(std::move(call.x), type), call.dtype = type;
  }
  return probes;
}

}  // namespace mxcheck
