// Changes that commute with quantization: the candidate is compared with itself, so a wrong reference does not matter.
// A recipe's table (numerics/scale/recipe.h) says what the recipe is: which rule, what NaN and Inf do to a block.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"
#include "properties/core/law.h"
#include "properties/operations/dequantize/problem.h"
#include "properties/operations/quantize/problem.h"
#include "properties/operations/scaled_blocks/expand.h"
#include "properties/operations/scaled_blocks/geometry.h"
#include "properties/operations/scaled_blocks/operation.h"

namespace mxcheck {
namespace {

// Recipes whose scale follows the amax alone, with no clamp: the ones that these statements hold for.
bool follows_amax(const Variant& v) {
  const Recipe r = recipe_named(blocks_of(v).recipe);
  const bool plain_rule = r.rule == ScaleRule::rceil || r.rule == ScaleRule::floor || r.rule == ScaleRule::ceil ||
                          r.rule == ScaleRule::rceil_fp32;
  return plain_rule && r.amax_min == 0 && r.quotient_min == 0 && r.scaling == ElementScaling::exact &&
         r.drop_negative_zero == DropNegativeZero::none;
}

bool quantizes(const Variant& v) { return v.operation == "quantize" && follows_amax(v); }

// A dense matrix of the case's type from a function of (row, column).
template <class BitsAt>
Input dense_input(const Case& c, std::int64_t rows, std::int64_t cols, const BitsAt& bits_at) {
  return make_input(c.variant.dtype, rows, cols, cols, bits_at);
}

std::vector<std::uint8_t> compact(const Case& c, BlockShape block, const std::vector<std::byte>& scales) {
  return to_compact(scale_geometry(c, block), values_in<std::uint8_t>(scales), blocks_of(c.variant).layout);
}

std::span<const std::byte> bytes_of(const std::vector<std::uint8_t>& v) { return std::as_bytes(std::span(v)); }

// The amax of each block, and whether the block holds a NaN: compact, as scales are.
std::vector<BlockAmax> block_amaxes(const Case& c, const Input& x) {
  const ScaleGeometry g = scale_geometry(c, blocks_of(c.variant).block);
  const std::int64_t width = g.block.width(c.cols);
  std::vector<BlockAmax> blocks(static_cast<std::size_t>(g.count()));
  for (std::int64_t i = 0; i < c.rows; ++i) {
    const std::int64_t row = scale_row_of(c, g, i) * g.cols;
    for (std::int64_t j = 0; j < c.cols; ++j) {
      BlockAmax& block = blocks[static_cast<std::size_t>(row + j / width)];
      const double value = decode(c.variant.dtype, x.bits(i, j));
      if (std::isnan(value))
        block.has_nan = true;
      else
        block.amax = std::max(block.amax, static_cast<float>(std::fabs(value)));
    }
  }
  return blocks;
}

// at(block, element number, word of x) for every element; blocks as of block_amaxes().
template <class At>
void for_each_element(const Case& c, const Input& x, const At& at) {
  const ScaleGeometry g = scale_geometry(c, blocks_of(c.variant).block);
  const std::int64_t width = g.block.width(c.cols);
  for (std::int64_t i = 0; i < c.rows; ++i) {
    const std::int64_t row = scale_row_of(c, g, i) * g.cols;
    for (std::int64_t j = 0; j < c.cols; ++j) {
      at(static_cast<std::size_t>(row + j / width), static_cast<std::size_t>(i * c.cols + j), x.bits(i, j));
    }
  }
}

// True if x, one of Data::codes, is a code times its block's scale. It is under every rule that keeps the power of two
// at or below the amax. `ceil` takes the one above an amax that is none itself: its step is two of the codes', and that
// power can be beyond the largest scale.
bool comes_back(const Variant& v, float amax, double x) {
  if (recipe_named(blocks_of(v).recipe).rule != ScaleRule::ceil || amax == 0) return true;
  const Format format = blocks_of(v).format;
  int exponent = 0;
  const bool power_of_two = std::frexp(amax, &exponent) == 0.5F;  // amax = fraction * 2^exponent, 1/2 <= fraction < 1
  const int top = std::ilogb(decode(format, spec(format).max_code));
  const int scale = std::max(-127, exponent - (power_of_two ? 1 : 0) - top);
  const double scaled = std::ldexp(x, -scale);
  return scale <= 127 && decode(format, nearest_bits(format, scaled)) == scaled;
}

void round_trip(const Law& law, const Case& c) {
  const QuantizeProblem p(c, expand(c));  // a row that came twice would bring another block's scale along
  const Law::Outputs quantized = law.outputs(p);
  Case back = c;
  back.variant.operation = "dequantize", blocks_of(back.variant).recipe = "rceil";
  const DequantizeProblem returning(back, values_in<std::uint8_t>(quantized[0]), values_in<std::uint8_t>(quantized[1]));
  const Law::Outputs returned = law.outputs(returning);
  Input dense = dense_input(c, c.rows, c.cols, [&](auto i, auto j) { return p.input.bits(i, j); });
  const std::vector<BlockAmax> blocks = block_amaxes(c, dense);
  const std::size_t bytes = value_bytes(c.variant.dtype);
  std::int64_t claimed = c.elements() == 0 ? 1 : 0;
  for_each_element(c, dense, [&](std::size_t block, std::size_t at, std::uint32_t word) {
    if (comes_back(c.variant, blocks[block].amax, decode(c.variant.dtype, word)))
      ++claimed;
    else
      std::memcpy(dense.bytes.data() + at * bytes, returned[0].data() + at * bytes, bytes);
  });
  if (claimed == 0) law.says_nothing();
  law.equal(returning.outputs[0], dense.bytes, returned[0],
            "x is exactly representable, and dequantize(quantize(x)) is not x");
}

void transpose(const Law& law, const Case& c) {
  const Input x = expand(c);
  const QuantizeProblem column(c, x);
  const Law::Outputs by_column = law.outputs(column);
  Case t = c;
  t.rows = c.cols, t.cols = c.rows, t.stride = 0, t.plants.clear();
  const BlockShape block = blocks_of(c.variant).block;
  blocks_of(t.variant).block = block.transposed();
  const Input turned = dense_input(c, t.rows, t.cols, [&](auto i, auto j) { return x.bits(j, i); });
  const Law::Outputs by_row = law.outputs(QuantizeProblem(t, turned));
  std::vector<std::byte> codes(by_row[0].size());
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.cols; ++j) {
      codes[static_cast<std::size_t>(i * c.cols + j)] = by_row[0][static_cast<std::size_t>(j * c.rows + i)];
    }
  }
  law.equal(column.outputs[0], codes, by_column[0], "column codes are not the row codes of the transpose");
  const std::vector<std::uint8_t> rows = compact(t, block.transposed(), by_row[1]);
  const ScaleGeometry g = scale_geometry(c, blocks_of(c.variant).block);
  std::vector<std::uint8_t> scales(rows.size());
  for (std::int64_t i = 0; i < g.rows; ++i) {
    for (std::int64_t j = 0; j < g.cols; ++j) {
      scales[static_cast<std::size_t>(i * g.cols + j)] = rows[static_cast<std::size_t>(j * g.rows + i)];
    }
  }
  law.equal(compact_scales_info(c), bytes_of(scales), bytes_of(compact(c, block, by_column[1])),
            "column scales are not the row scales of the transpose");
}

void dual_is_both(const Law& law, const Case& c) {
  const Input x = expand(c);
  const QuantizeProblem dual(c, x);
  const Law::Outputs both = law.outputs(dual);
  for (std::size_t side = 0; side < 2; ++side) {
    Case single = c;
    single.variant.operation = "quantize";
    if (side == 1) blocks_of(single.variant).block = blocks_of(c.variant).block.transposed();
    const Law::Outputs one = law.outputs(QuantizeProblem(single, x));
    for (std::size_t i = 0; i < 2; ++i) {
      law.equal(dual.outputs[2 * side + i], one[i], both[2 * side + i],
                dual.outputs[2 * side + i].name + " differ from the single cast's");
    }
  }
}

// x * 2^k where that is exact, nothing elsewhere.
std::optional<std::uint32_t> shifted(Format dtype, std::uint32_t bits, int k) {
  const double value = std::ldexp(decode(dtype, bits), k);
  if (!std::isfinite(value)) return std::nullopt;
  const std::uint32_t moved = nearest_bits(dtype, value);
  if (decode(dtype, moved) != value) return std::nullopt;
  return moved;
}

void power_of_two(const Law& law, const Case& c) {
  const int k = static_cast<int>(c.seed % 17) - 8;
  const Input x = expand(c);
  const QuantizeProblem p(c, x);
  const ScaleGeometry g = scale_geometry(c, blocks_of(c.variant).block);
  std::atomic<bool> exact = true;  // rows are drawn by several threads
  const Input moved = dense_input(c, c.rows, c.cols, [&](auto i, auto j) {
    const auto bits = shifted(c.variant.dtype, x.bits(i, j), k);
    if (!bits) exact = false;
    return bits.value_or(0);
  });
  if (!exact) law.says_nothing();  // some element would overflow or lose bits
  const Law::Outputs before = law.outputs(p);
  Case dense = c;
  dense.stride = 0;
  const Law::Outputs after = law.outputs(QuantizeProblem(dense, moved));
  std::vector<std::uint8_t> want = compact(c, blocks_of(c.variant).block, before[1]);
  const std::vector<std::uint8_t> got = compact(c, blocks_of(c.variant).block, after[1]);
  for (std::size_t b = 0; b < want.size(); ++b) {
    const int byte = want[b] + k;
    // Nothing is claimed near the clamps and for blocks of zeros. What the second run gave has no say in it: a wrong
    // scale must not excuse itself.
    if (want[b] < 4 || want[b] > 251 || byte < 4 || byte > 251) law.says_nothing();
    want[b] = static_cast<std::uint8_t>(byte);
  }
  if (g.count() == 0) law.says_nothing();
  law.equal(compact_scales_info(c), bytes_of(want), bytes_of(got),
            "scales of x * 2^" + std::to_string(k) + " are not those of x plus " + std::to_string(k));
  law.equal(p.outputs[0], before[0], after[0], "codes of x * 2^" + std::to_string(k) + " are not those of x");
}

void sign_symmetry(const Law& law, const Case& c) {
  const Input x = expand(c);
  const QuantizeProblem p(c, x);
  const Law::Outputs plus = law.outputs(p);
  const std::uint32_t sign = sign_bit(c.variant.dtype);
  Case dense = c;
  dense.stride = 0;
  const Input negated = dense_input(c, c.rows, c.cols, [&](auto i, auto j) { return x.bits(i, j) ^ sign; });
  const Law::Outputs minus = law.outputs(QuantizeProblem(dense, negated));
  const Format format = blocks_of(c.variant).format;
  // Elements that are made NaN have one code, which in a format without NaN is a number; all others turn.
  const Recipe recipe = recipe_named(blocks_of(c.variant).recipe);
  std::vector<bool> is_nan;
  for (const BlockAmax& block : block_amaxes(c, x)) is_nan.push_back(block_scale(recipe, format, block).poisoned);
  std::vector<std::byte> want = plus[0];
  const std::byte turned{static_cast<unsigned char>(1U << (spec(format).bits - 1))};
  for_each_element(c, x, [&](std::size_t block, std::size_t at, std::uint32_t word) {
    if (!is_nan[block] && !std::isnan(decode(c.variant.dtype, word))) want[at] ^= turned;
  });
  law.equal(p.outputs[1], plus[1], minus[1], "scales of -x are not those of x");
  law.equal(p.outputs[0], want, minus[0], "codes of -x are not those of x with the sign turned");
}

// Whole block rows and whole block columns moved one place on, cyclically.
void permutation(const Law& law, const Case& c) {
  const BlockShape shape = blocks_of(c.variant).block;
  const BlockShape block{shape.height(c.rows), shape.width(c.cols)};
  const auto moved = [](std::int64_t at, std::int64_t size, std::int64_t extent) {
    const std::int64_t whole = extent / size * size;
    return at >= whole ? at : (at + size) % whole;
  };
  const Input x = expand(c);
  const QuantizeProblem p(c, x);
  const Law::Outputs before = law.outputs(p);
  Case dense = c;
  dense.stride = 0;
  const Input permuted = dense_input(c, c.rows, c.cols, [&](auto i, auto j) {
    return x.bits(moved(i, block.rows, c.rows), moved(j, block.cols, c.cols));
  });
  const Law::Outputs after = law.outputs(QuantizeProblem(dense, permuted));
  std::vector<std::byte> codes(before[0].size());
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.cols; ++j) {
      const std::int64_t from = moved(i, block.rows, c.rows) * c.cols + moved(j, block.cols, c.cols);
      codes[static_cast<std::size_t>(i * c.cols + j)] = before[0][static_cast<std::size_t>(from)];
    }
  }
  law.equal(p.outputs[0], codes, after[0], "blocks that moved got other codes");
  const ScaleGeometry g = scale_geometry(c, blocks_of(c.variant).block);
  const std::vector<std::uint8_t> scales = compact(c, blocks_of(c.variant).block, before[1]);
  std::vector<std::uint8_t> want(scales.size());
  for (std::int64_t i = 0; i < g.rows; ++i) {
    for (std::int64_t j = 0; j < g.cols; ++j) {
      const std::int64_t from_row = moved(i * block.rows, block.rows, c.rows) / block.rows;
      const std::int64_t from_col = moved(j * block.cols, block.cols, c.cols) / block.cols;
      want[static_cast<std::size_t>(i * g.cols + j)] = scales[static_cast<std::size_t>(from_row * g.cols + from_col)];
    }
  }
  law.equal(compact_scales_info(c), bytes_of(want), bytes_of(compact(c, blocks_of(c.variant).block, after[1])),
            "blocks that moved got other scales");
}

}  // namespace

std::vector<Statement> quantize_algebra_statements() {
  const auto any = [](const Variant& v, std::span<const Variant>) { return quantizes(v); };
  const auto with_dequantize = [](const Variant& v, std::span<const Variant> all) {
    if (!quantizes(v)) return false;
    Variant back = v;
    back.operation = "dequantize", blocks_of(back).recipe = "rceil";
    return offers(all, back);
  };
  const auto columns = [](const Variant& v, std::span<const Variant> all) {
    if (!quantizes(v)) return false;
    Variant row = v;
    const BlockShape block = blocks_of(v).block;
    blocks_of(row).block = block.transposed();
    return block.cols == 1 && block.rows > 1 && offers(all, row);
  };
  const auto dual = [](const Variant& v, std::span<const Variant> all) {
    if (v.operation != "quantize_dual") return false;
    Variant row = v;
    row.operation = "quantize";
    Variant column = row;
    blocks_of(column).block = blocks_of(v).block.transposed();
    return offers(all, row) && offers(all, column);
  };
  const std::vector<Data> mixture{Data::boundaries, Data::normal, Data::real, Data::bits, Data::specials, Data::wide};
  const auto signed_codes = [](const Variant& v, std::span<const Variant>) {  // MXINT8 is two's complement
    return quantizes(v) && spec(blocks_of(v).format).encoding != Encoding::fixed_point;
  };
  return {
      law_statement(
          "dequantize_inverts_quantize_on_representable_values",
          "an element that is a code times its block's scale comes back from dequantize(quantize(x)), bit for bit",
          "OCP MX 1.0 section 6.3", with_dequantize, {Data::codes}, 30, true, round_trip),
      law_statement("column_cast_equals_row_cast_of_the_transpose",
                    "n x 1 blocks of x are 1 x n blocks of the transpose: same codes, same scales",
                    "reference/quantize/quantize.h", columns, mixture, 0, true, transpose),
      law_statement("dual_cast_equals_the_two_single_casts",
                    "one read gives what the row cast and the column cast give", "kernels/candidate.h", dual, mixture,
                    30, true, dual_is_both),
      law_statement(
          "scaling_by_a_power_of_two_shifts_scales_and_keeps_codes",
          "where x * 2^k is exact and no scale is at a clamp, every scale byte grows by k and no code changes",
          "numerics/scale/scale_rule.h", any, {Data::slots, Data::normal, Data::real, Data::slots}, 30, true,
          power_of_two),
      law_statement("permuting_blocks_permutes_results",
                    "a block's scale and codes do not depend on where the block is", "reference/quantize/quantize.h",
                    any, mixture, 0, true, permutation),
      law_statement("the_sign_changes_codes_and_nothing_else",
                    "-x has the scales of x and its codes with the sign bit turned; those of NaN, and of blocks whose "
                    "scale is NaN, stay",
                    "OFP8 1.0 section 5", signed_codes, mixture, 30, true, sign_symmetry),
  };
}

}  // namespace mxcheck
