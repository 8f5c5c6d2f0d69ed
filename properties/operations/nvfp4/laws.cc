// Laws of NVFP4: no reference has a say in them.

#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "numerics/bytes.h"
#include "numerics/format/codec.h"
#include "numerics/format/packing.h"
#include "properties/core/law.h"
#include "properties/operations/nvfp4/problem.h"
#include "properties/operations/scaled_blocks/geometry.h"

namespace mxcheck {
namespace {

// With words too; a transform and two directions have laws of their own (options_laws.cc).
bool is_nvfp4(const Variant& v, std::span<const Variant>) {
  if (v.operation != "quantize_nvfp4") return false;
  const Nvfp4Options& o = blocks_of(v).options;
  return o.hadamard == 0 && !o.has_both;
}

// The matrix and the tensor's scale times 2^k, where both are exact and no arithmetic reaches subnormal numbers.
void power_of_two(const Law& law, const Case& c) {
  const Nvfp4Problem p(c);
  const int k = static_cast<int>(c.seed % 9) - 4;
  const auto shifted = [&](Format format, std::uint32_t bits) {
    const double value = std::ldexp(decode(format, bits), k);
    const std::uint32_t moved = nearest_bits(format, value);
    if (std::isnan(value) || decode(format, moved) != value) law.says_nothing();
    return moved;
  };
  const Recipe recipe = p.recipe();
  // Far from both ends of FP32: of what is computed from it too.
  const float stored = p.tensor_scale[0];
  if (!(stored > 0x1p-60F && stored < 0x1p60F)) law.says_nothing();
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.cols; ++j) {
      const float x = std::fabs(p.input.view().at(i, j));
      if (x != 0 && !(x > 0x1p-60F && x < 0x1p60F)) law.says_nothing();
    }
  }
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(stored);
  const float scale = recipe.two_level.stored == StoredScale::encode
                          ? std::ldexp(stored, -k)
                          : std::bit_cast<float>(shifted(Format::fp32, bits));
  Input moved = make_input(c.variant.dtype, c.rows, c.cols, c.cols,
                           [&](std::int64_t i, std::int64_t j) { return p.input.bits(i, j); });
  for (std::int64_t i = 0; i < c.rows * c.cols; ++i) {
    const std::size_t width = value_bytes(c.variant.dtype);
    const std::uint32_t word = shifted(c.variant.dtype, moved.bits(i / c.cols, i % c.cols));
    std::memcpy(moved.bytes.data() + static_cast<std::size_t>(i) * width, &word, width);
  }
  const Law::Outputs before = law.outputs(p);
  const Law::Outputs after = law.outputs(Nvfp4Problem(without_gaps(c), std::move(moved), scale));
  law.all_equal(p, before, after, "of x * 2^" + std::to_string(k) + " under the tensor's scale times as much differ");
}

// With the tensor's scale given, a block does not depend on the others: the last row's blocks change, and nothing
// above.
void other_blocks(const Law& law, const Case& c) {
  const std::int64_t height = blocks_of(c.variant).block.rows;
  const std::int64_t kept = c.experts.empty() ? (c.rows - 1) / height * height : 0;
  if (kept <= 0 || c.cols == 0) law.says_nothing();
  const Nvfp4Problem p(c);
  Input changed = make_input(c.variant.dtype, c.rows, c.cols, c.cols, [&](std::int64_t i, std::int64_t j) {
    return i < kept ? p.input.bits(i, j) : nearest_bits(c.variant.dtype, 3.0 + static_cast<double>(j % 5));
  });
  const Law::Outputs before = law.outputs(p);
  const Nvfp4Problem q(without_gaps(c), std::move(changed), p.tensor_scale[0]);
  const Law::Outputs after = law.outputs(q);
  const auto rows_of = [&](const Bytes& codes) {
    const std::size_t line = static_cast<std::size_t>((c.cols + 1) / 2);
    return Bytes(codes.begin(), codes.begin() + static_cast<std::ptrdiff_t>(line * static_cast<std::size_t>(kept)));
  };
  TensorInfo codes = p.outputs[0];
  codes.rows = kept;
  law.equal(codes, rows_of(before[0]), rows_of(after[0]), "codes depend on another row of blocks");
  const ScaleGeometry g = scale_geometry(c, blocks_of(c.variant).block);
  const auto scales_of = [&](const Bytes& scales) {
    std::vector<std::uint8_t> compact = to_compact(g, values_in<std::uint8_t>(scales), blocks_of(c.variant).layout);
    compact.resize(static_cast<std::size_t>(kept / height * g.cols));
    return to_bytes(compact);
  };
  TensorInfo scales = compact_scales_info(c);
  scales.format = Format::e4m3, scales.rows = kept / height;
  law.equal(scales, scales_of(before[1]), scales_of(after[1]), "scales depend on another row of blocks");
}

// -x has the scales of x, and its codes with the sign turned, where no element is NaN or zero.
void sign(const Law& law, const Case& c) {
  const Nvfp4Problem p(c);
  const std::uint32_t bit = sign_bit(c.variant.dtype);
  bool plain = true;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.cols; ++j) plain &= std::isfinite(p.input.view().at(i, j));
  }
  const bool drops = p.recipe().drop_negative_zero != DropNegativeZero::none;
  // Under a scale of 0 the factor is 1 / 0, and zeros become NaN, of one code.
  const bool poisons = p.recipe().two_level.zero != ZeroTest::of_scale && !p.recipe().two_level.has_largest_factor;
  if (!plain || drops || poisons) law.says_nothing();
  Input negated = make_input(c.variant.dtype, c.rows, c.cols, c.cols,
                             [&](std::int64_t i, std::int64_t j) { return p.input.bits(i, j) ^ bit; });
  const Law::Outputs plus = law.outputs(p);
  const Law::Outputs minus = law.outputs(Nvfp4Problem(without_gaps(c), std::move(negated), p.tensor_scale[0]));
  law.equal(p.outputs[1], plus[1], minus[1], "scales of -x are not those of x");
  std::vector<std::uint8_t> codes = unpacked_rows(plus[0], c.cols);
  for (std::uint8_t& code : codes) code ^= 8;
  law.equal(p.outputs[0], packed_rows(codes, c.cols), minus[0], "codes of -x are not those of x with the sign turned");
}

// A block of zeros of either sign has codes of zero, of the same signs, whatever the tensor's scale.
void zero_blocks(const Law& law, const Case& c) {
  const Recipe recipe = any_recipe_named(blocks_of(c.variant).recipe);
  const bool divides = recipe.two_level.zero == ZeroTest::none && !recipe.two_level.has_largest_factor;
  if (recipe.drop_negative_zero != DropNegativeZero::none || (divides && recipe.two_level.block_min < 0x1p-9F) ||
      c.elements() == 0) {
    law.says_nothing();
  }
  const std::uint32_t bit = sign_bit(c.variant.dtype);
  Input zeros = make_input(c.variant.dtype, c.rows, c.cols, c.cols, [&](std::int64_t i, std::int64_t j) {
    return random_word(c.seed, static_cast<std::uint64_t>(i * c.cols + j)) % 2 == 0 ? bit : 0U;
  });
  std::vector<std::uint8_t> want;
  for (std::int64_t i = 0; i < c.elements(); ++i) {
    want.push_back(zeros.bits(i / c.cols, i % c.cols) != 0 ? 8 : 0);
  }
  const Nvfp4Problem p(without_gaps(c), std::move(zeros), Nvfp4Problem(c).tensor_scale[0]);
  law.equal(p.outputs[0], packed_rows(want, c.cols), law.outputs(p)[0],
            "codes of zeros are not zeros with their signs");
}

}  // namespace

std::vector<Statement> nvfp4_laws() {
  const std::vector<Data> mixture{Data::boundaries, Data::normal, Data::real, Data::slots};
  return {
      law_statement("nvfp4_scaled_by_a_power_of_two_with_its_tensor_scale_keeps_codes_and_scales",
                    "x * 2^k under the tensor's scale times as much has the codes and scales of x",
                    "numerics/scale/two_level.h", is_nvfp4, mixture, 0, true, power_of_two),
      law_statement("nvfp4_blocks_depend_on_one_another_through_the_tensor_scale_alone",
                    "with the tensor's scale given, other rows of blocks change no code and no scale",
                    "numerics/scale/two_level.h", is_nvfp4, mixture, 0, true, other_blocks),
      law_statement("nvfp4_the_sign_changes_codes_and_nothing_else",
                    "-x has the scales of x and its codes with the sign bit turned", "OCP MX 1.0 section 5.3", is_nvfp4,
                    mixture, 30, true, sign),
      law_statement("nvfp4_zeros_have_codes_of_zero_with_their_signs",
                    "a block of zeros has codes of zero, whatever the scale of the tensor", "docs/nvfp4.md", is_nvfp4,
                    {Data::zeros, Data::normal, Data::boundaries}, 0, true, zero_blocks),
  };
}

}  // namespace mxcheck
