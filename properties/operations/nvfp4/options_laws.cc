// Laws of quantize_nvfp4 with options: no definition of its words has a say in them.

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "numerics/bytes.h"
#include "numerics/format/codec.h"
#include "numerics/format/packing.h"
#include "numerics/scale/recipe.h"
#include "properties/core/law.h"
#include "properties/operations/nvfp4/options.h"
#include "properties/operations/scaled_blocks/definitions.h"
#include "properties/operations/scaled_blocks/geometry.h"

namespace mxcheck {
namespace {

bool has_options(const Variant& v) { return v.operation == "quantize_nvfp4" && blocks_of(v).options.any(); }
bool is_stochastic(const Variant& v, std::span<const Variant>) {
  return has_options(v) && blocks_of(v).options.is_stochastic();
}
bool is_stochastic_of_rows(const Variant& v, std::span<const Variant>) {
  return has_options(v) && blocks_of(v).options.is_stochastic() && !blocks_of(v).options.has_both;
}
// By bytes, of elements that no transform makes.
bool has_bytes_of_x(const Variant& v, std::span<const Variant>) {
  return has_options(v) && blocks_of(v).options.has_bytes() && blocks_of(v).options.hadamard == 0;
}
bool has_transform(const Variant& v, std::span<const Variant>) {
  return has_options(v) && blocks_of(v).options.hadamard != 0;
}

Variant with_options(Variant v, const Nvfp4Options& options) {
  blocks_of(v).options = options;
  return v;
}

// The same call without words.
Variant nearest_of(const Variant& v) {
  Nvfp4Options o = blocks_of(v).options;
  o.rounding = Nvfp4Rounding::nearest;
  return with_options(v, o);
}
bool has_nearest(const Variant& v, std::span<const Variant> all) {
  if (!is_stochastic(v, all)) return false;
  const bool has_choice = any_recipe_named(blocks_of(v).recipe).two_level.choice != BlockChoice::none;
  return !has_choice && offers(all, nearest_of(v));
}

// The calls that one with both directions stands for: of the rows, and of the transposed matrix.
std::array<Variant, 2> directions_of(const Variant& v) {
  Nvfp4Options columns = blocks_of(v).options;
  columns.has_both = false;
  Nvfp4Options rows = columns;
  rows.hadamard = 0, rows.sum.clear(), rows.result = Format::bf16;
  return {with_options(v, rows), with_options(v, columns)};
}
bool has_directions(const Variant& v, std::span<const Variant> all) {
  if (!has_options(v) || !blocks_of(v).options.has_both) return false;
  const std::array<Variant, 2> two = directions_of(v);
  return offers(all, two[0]) && offers(all, two[1]);
}

// x without gaps, element by element through a function of place and bits.
template <class BitsOf>
Input input_like(const Input& x, const BitsOf& bits_of) {
  return make_input(x.dtype, x.rows, x.cols, x.cols,
                    [&](std::int64_t i, std::int64_t j) { return bits_of(i, j, x.bits(i, j)); });
}
Input dense(const Input& x) {
  return input_like(x, [](std::int64_t, std::int64_t, std::uint32_t bits) { return bits; });
}
float column_scale_of(const Nvfp4Problem& p) { return p.column_scale.empty() ? 0 : p.column_scale[0]; }

// Scales are those of nearest rounding, and codes at most a step away, on the same side of zero.
void one_step(const Law& law, const Case& c) {
  const Nvfp4Problem p(c);
  Case plain = without_gaps(c);
  plain.variant = nearest_of(c.variant);
  Nvfp4Random& r = blocks_case(plain).random;
  r.key = r.offset = 0, r.counter = r.column_counter = {};
  const Nvfp4Problem q(plain, dense(p.input), p.tensor_scale[0], column_scale_of(p));
  const Law::Outputs stochastic = law.outputs(p), nearest = law.outputs(q);
  for (std::size_t i = 0; i < stochastic.size(); i += 2) {
    law.equal(p.outputs[i + 1], nearest[i + 1], stochastic[i + 1], p.outputs[i + 1].name + " depend on the words");
    const std::int64_t cols = i == 0 ? c.cols : c.rows;
    const std::vector<std::uint8_t> to = unpacked_rows(stochastic[i], cols);
    std::vector<std::uint8_t> near = unpacked_rows(nearest[i], cols);
    for (std::size_t k = 0; k < to.size(); ++k) {
      const int steps = (to[k] & 7) - (near[k] & 7);
      if ((to[k] & 8) == (near[k] & 8) && steps >= -1 && steps <= 1) near[k] = to[k];
    }
    law.equal(p.outputs[i], packed_rows(near, cols), stochastic[i],
              p.outputs[i].name + " are more than a step away from those rounded to nearest");
  }
}

// The numbers that codes are rounded from, in FP32, row by row.
std::vector<double> quotients_of(const Nvfp4Problem& p, const Nvfp4Matrix& m) {
  const Recipe recipe = p.recipe();
  const float stored = m.is_transposed ? p.column_scale[0] : p.tensor_scale[0];
  const OuterScale outer = outer_scale_of_stored(recipe.two_level, largest_value(Format::e2m1), stored);
  const ScaleGeometry g = scale_geometry(m.c, blocks_of(p.c.variant).block);
  std::vector<double> values(static_cast<std::size_t>(m.c.elements()));
  for (std::int64_t i = 0; i < g.count(); ++i) {
    const BlockBounds b = block_at_scale(m.c, g, i / g.cols, i % g.cols);
    const auto each = [&](const auto& body) {
      for (std::int64_t row = b.first_row; row < b.end_row; ++row)
        for (std::int64_t col = b.first_col; col < b.end_col; ++col) body(row, col, m.view().at(row, col));
    };
    BlockAmax amax;
    each([&](std::int64_t, std::int64_t, float x) {
      amax.has_nan |= std::isnan(x);
      if (std::fabs(x) > amax.amax) amax.amax = std::fabs(x);
    });
    const BlockScale scale = block_scale(recipe, Format::e2m1, amax, outer);
    each([&](std::int64_t row, std::int64_t col, float x) {
      const double v = scale.divide ? x / scale.factor : x * scale.factor;
      values[static_cast<std::size_t>(row * m.c.cols + col)] = static_cast<double>(static_cast<float>(v));
    });
  }
  return values;
}

// Over several keys codes are above their values as often as they should be.
void mean(const Law& law, const Case& c) {
  constexpr std::uint64_t kKeys = 8;
  constexpr std::int64_t kFewest = 512;
  const Nvfp4Problem p(c);
  const bool has_choice = p.recipe().two_level.choice != BlockChoice::none;
  if (c.elements() < kFewest || has_choice || p.recipe().drop_negative_zero != DropNegativeZero::none)
    law.says_nothing();
  const std::vector<Nvfp4Matrix> matrices = nvfp4_matrices(p);
  std::vector<std::vector<double>> quotients;
  for (const Nvfp4Matrix& m : matrices) {
    quotients.push_back(quotients_of(p, m));
    double inexact = 0;
    for (const double v : quotients.back()) {
      if (!std::isfinite(v)) law.says_nothing();
      const bool is_code = std::fabs(v) >= 6 || decode(Format::e2m1, encode(Format::e2m1, v, Rounding::nearest_even,
                                                                            Overflow::saturate)) == v;
      inexact += is_code ? 0 : 1;
    }
    if (inexact < static_cast<double>(kFewest)) law.says_nothing();
  }
  std::vector<std::vector<double>> values(matrices.size());
  std::vector<std::vector<std::uint32_t>> codes(matrices.size());
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    Case d = without_gaps(c);
    blocks_case(d).random.key += key << 29;  // of the low and of the high half
    const Law::Outputs got = law.outputs(Nvfp4Problem(d, dense(p.input), p.tensor_scale[0], column_scale_of(p)));
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      values[i].insert(values[i].end(), quotients[i].begin(), quotients[i].end());
      const std::vector<std::uint8_t> own = unpacked_rows(got[2 * i], matrices[i].c.cols);
      codes[i].insert(codes[i].end(), own.begin(), own.end());
    }
  }
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    if (!is_stochastic_cast(Format::e2m1, Overflow::saturate, values[i], codes[i], p.options().has_bytes() ? 8 : 32))
      Law::broken(p.outputs[2 * i].name + " of " + std::to_string(kKeys) +
                  " keys are not the neighbours of their values, or the upper one not as often as it should be");
  }
}

// The scale of the tensor under which elements of a block of amax 6 are multiplied by 1, as the recipe stores it.
float scale_of_one(const Recipe& recipe) { return recipe.two_level.stored == StoredScale::amax ? 2688.0F : 1.0F; }

bool leaves_elements(const Recipe& recipe, float stored) {
  const OuterScale outer = outer_scale_of_stored(recipe.two_level, largest_value(Format::e2m1), stored);
  BlockAmax six;
  six.amax = 6;
  return block_scale(recipe, Format::e2m1, six, outer).factor == 1;
}

// Elements of 0 to 6 in blocks that have a 6 in row i, column i, and zeros in others; their quotients are themselves.
// is_cut: without what a code's fraction has after its first eight bits.
Input elements_up_to_six(const Case& c, bool is_cut) {
  return make_input(c.variant.dtype, c.rows, c.cols, c.cols, [&](std::int64_t i, std::int64_t j) {
    const std::uint64_t word = random_word(c.seed ^ 0xB17E5, static_cast<std::uint64_t>(i * c.cols + j));
    const bool has_six =
        j / 16 * 16 + i % 16 < c.cols && (i / 16 * 16 + j % 16 < c.rows || !blocks_of(c.variant).options.has_both);
    const std::uint32_t sign = (word & 1) != 0 ? sign_bit(c.variant.dtype) : 0;
    if (!has_six) return sign;
    const double most = (word & 2) != 0 ? 0.5 : 6;  // below a half narrow types have more bits than eight
    const double drawn = i % 16 == j % 16 ? 6 : std::ldexp(static_cast<double>(word >> 40), -24) * most;
    const std::uint32_t bits = nearest_bits(c.variant.dtype, drawn);
    if (!is_cut) return bits | sign;
    const double value = decode(c.variant.dtype, bits);
    const double step = (value < 2 ? 0.5 : value < 4 ? 1 : 2) / 256;
    return nearest_bits(c.variant.dtype, std::floor(value / step) * step) | sign;
  });
}

// The bits of a fraction after the first eight change no code.
void eight_bits(const Law& law, const Case& c) {
  const Recipe recipe = any_recipe_named(blocks_of(c.variant).recipe);
  const float stored = scale_of_one(recipe);
  const bool has_cut_bands = !c.experts.empty() && blocks_of(c.variant).block.rows != 1;
  if (c.elements() == 0 || has_cut_bands || recipe.two_level.choice != BlockChoice::none ||
      recipe.drop_negative_zero != DropNegativeZero::none || !leaves_elements(recipe, stored)) {
    law.says_nothing();
  }
  const float columns = blocks_of(c.variant).options.has_both ? stored : 0;
  const Nvfp4Problem p(without_gaps(c), elements_up_to_six(c, false), stored, columns);
  const Nvfp4Problem cut(without_gaps(c), elements_up_to_six(c, true), stored, columns);
  const Law::Outputs got = law.outputs(p);
  law.all_equal(p, law.outputs(cut), got, "are not those of x whose fractions end after eight bits");
}

// The rows from one on, under the offset of its first element, are quantized as in the whole matrix.
void part(const Law& law, const Case& c) {
  const std::int64_t height = blocks_of(c.variant).block.rows;
  const std::int64_t first = c.rows / height / 2 * height;
  if (!c.experts.empty() || first == 0 || c.cols == 0) law.says_nothing();
  const Nvfp4Problem p(c);
  Case d = without_gaps(c);
  d.rows = c.rows - first;
  d.plants.clear();
  blocks_case(d).random.offset += static_cast<std::uint64_t>(first * c.cols);
  Input x = make_input(c.variant.dtype, d.rows, c.cols, c.cols,
                       [&](std::int64_t i, std::int64_t j) { return p.input.bits(first + i, j); });
  const Nvfp4Problem q(d, std::move(x), p.tensor_scale[0]);
  const Law::Outputs whole = law.outputs(p), half = law.outputs(q);
  const auto line = static_cast<std::ptrdiff_t>((c.cols + 1) / 2);
  law.equal(q.outputs[0], Bytes(whole[0].begin() + line * first, whole[0].end()), half[0],
            "codes of a part under its offset are not those of the whole");
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  const auto compact = [&](const Case& of, const Bytes& scales) {
    return to_compact(scale_geometry(of, v.block), values_in<std::uint8_t>(scales), v.layout);
  };
  std::vector<std::uint8_t> all = compact(c, whole[1]);
  all.erase(all.begin(), all.begin() + first / height * scale_geometry(c, v.block).cols);
  TensorInfo scales = compact_scales_info(d);
  scales.format = Format::e4m3;
  law.equal(scales, to_bytes(all), to_bytes(compact(d, half[1])), "scales of a part are not those of the whole");
}

// One element of each group is not zero: the codes have the signs of a row of the matrix, and one magnitude.
void one_hot(const Law& law, const Case& c) {
  const Nvfp4Options o = blocks_of(c.variant).options;
  const Nvfp4Problem p(c);
  const float stored = o.has_both ? p.column_scale[0] : p.tensor_scale[0];
  const OuterScale outer = outer_scale_of_stored(p.recipe().two_level, largest_value(Format::e2m1), stored);
  // The block's quotient is about 2.
  const double value = 12.0 * std::sqrt(double{static_cast<float>(o.hadamard)}) * double{outer.decode};
  if (c.elements() == 0 || !(value > 0x1p-100 && value < 0x1p100) ||
      (c.variant.dtype == Format::fp16 && !(value > 0x1p-10 && value < 0x1p14))) {
    law.says_nothing();
  }
  const std::uint32_t bits = nearest_bits(c.variant.dtype, value);
  const Case along = o.has_both ? transposed(c) : c;
  const auto place = [&](std::int64_t row, std::int64_t group) {
    return static_cast<std::int64_t>(random_word(c.seed ^ 0x0E407, static_cast<std::uint64_t>(row * 4099 + group)) %
                                     static_cast<std::uint64_t>(o.hadamard));
  };
  Input x = make_input(c.variant.dtype, along.rows, along.cols, along.cols, [&](std::int64_t i, std::int64_t j) {
    return place(i, j / o.hadamard) == j % o.hadamard ? bits : 0U;
  });
  if (o.has_both) x = transposed(x);
  const Nvfp4Problem q(without_gaps(c), std::move(x), p.tensor_scale[0], column_scale_of(p));
  const Law::Outputs got = law.outputs(q);
  const std::size_t output = o.has_both ? 2 : 0;
  const std::vector<std::uint8_t> own = unpacked_rows(got[output], along.cols);
  std::vector<std::uint8_t> want = own;
  const std::array<std::uint32_t, 4>& signs = p.random().signs;
  for (std::int64_t i = 0; i < along.rows; ++i) {
    for (std::int64_t j = 0; j < along.cols; ++j) {
      const std::int64_t at = place(i, j / o.hadamard);
      const auto both = static_cast<std::uint64_t>(at & (j % o.hadamard));
      const bool has_sign = (signs[static_cast<std::size_t>(at / 32)] >> at % 32 & 1) != 0;
      const bool is_negative = (std::popcount(both) % 2 != 0) != has_sign;
      const auto k = static_cast<std::size_t>(i * along.cols + j);
      const auto first = static_cast<std::size_t>(i * along.cols + j / 16 * 16);
      want[k] = static_cast<std::uint8_t>((own[o.is_stochastic() ? k : first] & 7) | (is_negative ? 8 : 0));
    }
  }
  law.equal(q.outputs[output], packed_rows(want, along.cols), got[output],
            "codes of a group with one element are not a signed row of the Hadamard matrix");
}

// Signs of the transform cancel with those that x has already.
void signs(const Law& law, const Case& c) {
  const Nvfp4Options o = blocks_of(c.variant).options;
  if (o.has_both) law.says_nothing();  // x without them is another x for the rows
  const Nvfp4Problem p(c);
  const std::array<std::uint32_t, 4>& s = p.random().signs;
  if (s == std::array<std::uint32_t, 4>{}) law.says_nothing();
  const std::uint32_t sign = sign_bit(c.variant.dtype);
  Input x = input_like(p.input, [&](std::int64_t, std::int64_t j, std::uint32_t bits) {
    const auto at = static_cast<std::size_t>(j % o.hadamard);
    return (s[at / 32] >> at % 32 & 1) != 0 ? bits ^ sign : bits;
  });
  Case d = without_gaps(c);
  blocks_case(d).random.signs = {};
  const Law::Outputs with = law.outputs(p);
  const Law::Outputs without = law.outputs(Nvfp4Problem(d, std::move(x), p.tensor_scale[0]));
  law.all_equal(p, without, with, "under the transform's signs are not those of x with these signs");
}

// Both directions at once are those of two calls.
void two_calls(const Law& law, const Case& c) {
  const Nvfp4Problem p(c);
  const Law::Outputs got = law.outputs(p);
  const std::array<Variant, 2> two = directions_of(c.variant);
  for (std::size_t i = 0; i < 2; ++i) {
    Case d = i == 0 ? without_gaps(c) : transposed(c);
    d.variant = two[i];
    d.misaligned = {};
    Nvfp4Random& r = blocks_case(d).random;
    if (i == 0) r.signs = {};
    if (i == 1) r.counter = r.column_counter;
    r.column_counter = {}, r.column_scale = 0;
    if (!blocks_of(std::as_const(d).variant).options.any()) r = {};
    const Nvfp4Problem q(d, i == 0 ? dense(p.input) : transposed(p.input),
                         i == 0 ? p.tensor_scale[0] : p.column_scale[0]);
    const Law::Outputs alone = law.outputs(q);
    for (std::size_t k = 0; k < 2; ++k)
      law.equal(p.outputs[2 * i + k], alone[k], got[2 * i + k],
                p.outputs[2 * i + k].name + " of both directions are not those of one alone");
  }
}

}  // namespace

std::vector<Statement> nvfp4_options_laws() {
  const std::vector<Data> mixture{Data::boundaries, Data::normal, Data::real, Data::slots};
  return {
      law_statement("nvfp4_stochastic_rounding_moves_codes_by_one_step_at_most",
                    "scales are those of nearest rounding, and codes the same or a neighbour", "docs/nvfp4.md",
                    has_nearest, mixture, 30, true, one_step),
      law_statement("nvfp4_stochastic_rounding_has_the_right_mean",
                    "over several keys a code is above its value as often as the value is above the code below",
                    "docs/nvfp4.md", is_stochastic, {Data::normal, Data::real}, 0, true, mean),
      law_statement("nvfp4_bytes_decide_with_the_first_eight_bits_of_the_fraction",
                    "by bytes, what the discarded fraction has after its first eight bits changes no code",
                    "kernels/candidate_nvfp4.h", has_bytes_of_x, {Data::normal}, 30, true, eight_bits),
      law_statement(
          "nvfp4_a_part_under_its_offset_is_quantized_as_in_the_whole",
          "rows from one on, under the offset of its first element, have the codes that they have in the whole",
          "kernels/candidate_nvfp4.h", is_stochastic_of_rows, mixture, 0, true, part),
      law_statement("nvfp4_transform_of_one_element_is_a_signed_row_of_the_matrix",
                    "codes of a group with one element other than zero have the signs of the Hadamard matrix, and one "
                    "magnitude",
                    "reference/quantize/hadamard.h", has_transform, {Data::normal}, 0, true, one_hot),
      law_statement("nvfp4_signs_of_the_transform_cancel_with_those_of_x",
                    "x with the transform's signs, transformed, is x transformed without them",
                    "reference/quantize/hadamard.h", has_transform, mixture, 30, true, signs),
      law_statement("nvfp4_both_directions_are_those_of_two_calls",
                    "rows and columns from one call are the rows alone, and the rows of the transposed matrix",
                    "kernels/candidate_nvfp4.h", has_directions, mixture, 0, true, two_calls),
  };
}

}  // namespace mxcheck
