#include "properties/operations/nvfp4/options.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "kernels/candidate_nvfp4.h"
#include "numerics/bytes.h"
#include "numerics/format/codec.h"
#include "properties/core/check.h"
#include "properties/core/invalid_call.h"
#include "properties/core/notation.h"
#include "properties/operations/scaled_blocks/geometry.h"
#include "reference/common/parallel.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {

std::uint32_t Nvfp4Word::of_number(std::uint64_t number) const {
  return has_bytes ? element_byte_word(random.key, number, counter) : element_word(random.key, number, counter);
}

Case transposed(const Case& c) {
  Case t = c;
  t.rows = c.cols, t.cols = c.rows;
  t.set_contiguous();
  t.experts.clear();
  return t;
}

Input transposed(const Input& x) {
  return make_input(x.dtype, x.cols, x.rows, x.rows, [&](std::int64_t i, std::int64_t j) { return x.bits(j, i); });
}

Input transformed(const Input& x, const Hadamard& transform, Along along) {
  Tensor y = hadamard(x.view(), transform, along);
  return {std::move(y.data), transform.result, x.rows, x.cols, x.cols};
}

std::vector<Nvfp4Matrix> nvfp4_matrices(const Nvfp4Problem& p, const Nvfp4Slip& slip) {
  Nvfp4Options o = p.options();
  Nvfp4Random r = p.random();
  if (slip.fields) slip.fields(o, r);
  const auto with_transform = [&](Input x) {
    if (o.hadamard == 0) return x;
    const Hadamard t = transform_of(o, r);
    return slip.transform ? slip.transform(x, t) : transformed(x, t);
  };
  std::vector<Nvfp4Matrix> all;
  const bool rows_too = !o.has_both || slip.transforms_rows;
  all.push_back({p.c, rows_too ? with_transform(p.input) : p.input, false});
  if (!o.has_both) return all;
  Input columns = transposed(p.input);
  if (!slip.has_columns_untransformed) columns = with_transform(std::move(columns));
  all.push_back({transposed(p.c), std::move(columns), true});
  return all;
}

namespace {

// Calls each(word, number) for the elements of rows [begin, end).
template <class Each>
void for_words(const Nvfp4Options& o, const Nvfp4Random& r, const Nvfp4Matrix& m, std::int64_t begin, std::int64_t end,
               const Each& each) {
  const std::uint32_t sign = sign_bit(m.x.dtype);
  for (std::int64_t i = begin; i < end; ++i) {
    for (std::int64_t j = 0; j < m.c.cols; ++j) {
      const bool is_negative = (m.x.bits(i, j) & sign) != 0;
      each(Nvfp4Word{r, m.is_transposed ? r.column_counter : r.counter, i, j, m.c.rows, m.c.cols, m.is_transposed,
                     is_negative, o.has_bytes()},
           static_cast<std::size_t>(i * m.c.cols + j));
    }
  }
}

Recipe recipe_of(const Nvfp4Problem& p, const Nvfp4Slip& slip) {
  Recipe recipe = p.recipe();
  if (p.options().is_stochastic()) recipe.rounding = Rounding::stochastic;
  if (slip.recipe) slip.recipe(recipe);
  return recipe;
}

float outer_of(const Nvfp4Problem& p, const Nvfp4Matrix& m, const Nvfp4Slip& slip) {
  return m.is_transposed && !slip.has_one_tensor_scale ? p.column_scale[0] : p.tensor_scale[0];
}

// The codes of a matrix again, under scales that slip: those of another matrix, or rounded by words.
void requantize(const Nvfp4Problem& p, const Nvfp4Matrix& m, const Nvfp4Slip& slip, const Input& scales_of,
                std::span<const std::uint32_t> words, QuantizedTensor& q) {
  const Recipe recipe = recipe_of(p, slip);
  const BlockShape block = blocks_of(p.c.variant).block;
  const ScaleGeometry g = scale_geometry(m.c, block);
  const OuterScale outer = outer_scale_of_stored(recipe.two_level, largest_value(Format::e2m1), outer_of(p, m, slip));
  for (std::int64_t i = 0; i < g.rows * g.cols; ++i) {
    const BlockBounds b = block_at_scale(m.c, g, i / g.cols, i % g.cols);
    BlockAmax amax;
    const auto each = [&](const auto& body) {
      for (std::int64_t r = b.first_row; r < b.end_row; ++r)
        for (std::int64_t col = b.first_col; col < b.end_col; ++col) body(r, col);
    };
    each([&](std::int64_t r, std::int64_t col) {
      const float x = scales_of.view().at(r, col);
      amax.has_nan |= std::isnan(x);
      if (std::fabs(x) > amax.amax) amax.amax = std::fabs(x);
    });
    BlockScale scale = block_scale(recipe, Format::e2m1, amax, outer);
    if (slip.has_stochastic_scales && scale.byte != 0x7F) {
      const float quotient = two_level_scale(recipe.two_level, largest_value(Format::e2m1), outer, amax.amax).quotient;
      const std::uint32_t word = words[static_cast<std::size_t>(b.first_row * m.c.cols + b.first_col)];
      scale.byte =
          static_cast<std::uint8_t>(encode(Format::e4m3, quotient, Rounding::stochastic, Overflow::saturate, word));
      const float product = static_cast<float>(decode(Format::e4m3, scale.byte)) * outer.decode;
      scale.factor = scale.divide ? double{product} : double{1 / product};
      if (recipe.two_level.has_largest_factor && !(scale.factor < 0x1.fffffep127)) scale.factor = 0x1.fffffep127;
    }
    q.scales().set_code(static_cast<std::size_t>(i), scale.byte);
    each([&](std::int64_t r, std::int64_t col) {
      const auto at = static_cast<std::size_t>(r * m.c.cols + col);
      q.codes.set_code(at,
                       encode_element(recipe, Format::e2m1, scale, m.view().at(r, col), words.empty() ? 0 : words[at]));
    });
  }
}

}  // namespace

std::vector<std::uint32_t> nvfp4_words(const Nvfp4Problem& p, const Nvfp4Matrix& m, const Nvfp4Slip& slip) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(m.c.elements()));
  Nvfp4Options o = p.options();
  Nvfp4Random r = p.random();
  if (slip.fields) slip.fields(o, r);
  parallel_ranges(m.c.rows, m.c.elements() * 8, 0, [&](std::int64_t begin, std::int64_t end) {
    for_words(o, r, m, begin, end, [&](const Nvfp4Word& w, std::size_t at) {
      words[at] = slip.word ? slip.word(w) : w.of_number(w.number());
    });
  });
  return words;
}

QuantizedTensor nvfp4_quantized(const Nvfp4Problem& p, const Nvfp4Matrix& m, const Nvfp4Slip& slip) {
  const Recipe recipe = recipe_of(p, slip);
  const BlockShape block = blocks_of(p.c.variant).block;
  const std::vector<float> outer{outer_of(p, m, slip)};
  const bool is_stochastic = recipe.rounding == Rounding::stochastic;
  const std::vector<std::uint32_t> words =
      is_stochastic || slip.has_stochastic_scales ? nvfp4_words(p, m, slip) : std::vector<std::uint32_t>{};
  QuantizeExtras extras{.outer = outer};
  if (is_stochastic) extras.words = words;
  QuantizedTensor q = quantize(m.view(), Format::e2m1, block, recipe, extras, m.c.experts);
  if (slip.has_scales_of_x || slip.has_stochastic_scales)
    requantize(p, m, slip, slip.has_scales_of_x ? (m.is_transposed ? transposed(p.input) : p.input) : m.x, words, q);
  if (!slip.is_nearest) return q;
  Recipe nearest = recipe;
  nearest.rounding = Rounding::nearest_even;
  const QuantizedTensor other = quantize(m.view(), Format::e2m1, block, nearest, {.outer = outer}, m.c.experts);
  for_words(p.options(), p.random(), m, 0, m.c.rows, [&](const Nvfp4Word& w, std::size_t at) {
    if (slip.is_nearest(w)) q.codes.set_code(at, other.codes.code(at));
  });
  return q;
}

std::vector<Bytes> nvfp4_outputs(const Nvfp4Problem& p, const Nvfp4Slip& slip) {
  std::vector<Bytes> all;
  for (const Nvfp4Matrix& m : nvfp4_matrices(p, slip)) {
    for (Bytes& bytes : Nvfp4Problem::outputs_of(nvfp4_quantized(p, m, slip), m.c)) all.push_back(std::move(bytes));
  }
  return all;
}

namespace {

// An element of a matrix: where it comes from, what is quantized, its word.
void explain_element(const Nvfp4Problem& p, const Nvfp4Matrix& m, std::int64_t row, std::int64_t col,
                     Finding& finding) {
  const std::int64_t x_row = m.is_transposed ? col : row, x_col = m.is_transposed ? row : col;
  finding.element.push_back("input     x" + place_text(x_row, x_col) + " = " +
                            notations(p.input.dtype, p.input.bits(x_row, x_col)));
  finding.relevant.push_back(p.input.plant(x_row, x_col));
  if (p.options().hadamard != 0 && (!p.options().has_both || m.is_transposed)) {
    const std::int64_t first = col / p.options().hadamard * p.options().hadamard;
    finding.element.push_back(fmt::format("transform y{} = {}, of elements {} to {} of the {}", place_text(row, col),
                                          notations(m.x.dtype, m.x.bits(row, col)), first,
                                          first + p.options().hadamard - 1, m.is_transposed ? "column" : "row"));
  }
  if (p.c.gather != 0) finding.element.push_back(gathered_line(p.gathered, x_row));
  if (!p.options().is_stochastic()) return;
  const Nvfp4Random& r = p.random();
  const std::array<std::uint32_t, 2>& counter = m.is_transposed ? r.column_counter : r.counter;
  const bool has_bytes = p.options().has_bytes();
  const Nvfp4Word w{r, counter, row, col, m.c.rows, m.c.cols, m.is_transposed, false, has_bytes};
  const std::uint64_t n = w.number(), call = has_bytes ? n / 16 : n;
  const std::uint32_t word = w.of_number(n);
  finding.element.push_back(
      (has_bytes ? fmt::format("byte      0x{:02x}, number {} of output {} of", word >> 24, n % 4, n % 16 / 4)
                 : fmt::format("word      0x{:08x}, of", word)) +
      fmt::format(" the key 0x{:x} and the counter (0x{:x}, 0x{:x}, 0x{:x}, 0x{:x})", r.key, call & 0xFFFFFFFF,
                  call >> 32, counter[0], counter[1]));
}

}  // namespace

void explain_nvfp4_options(const Nvfp4Problem& p, std::size_t output, Finding& finding) {
  const Difference::Element& e = finding.difference->first;
  const std::vector<Nvfp4Matrix> matrices = nvfp4_matrices(p);
  const Nvfp4Matrix& m = matrices[output / 2];
  const ScaledBlocksVariant& v = blocks_of(p.c.variant);
  const ScaleGeometry g = scale_geometry(m.c, v.block);
  if (m.is_transposed) finding.element.emplace_back("direction columns: the transposed matrix");
  ScalePlace place{e.row, e.col};
  if (output % 2 == 0) {
    const bool high = (e.expected & 0xF) == (e.observed & 0xF);  // the code that differs
    const std::int64_t col = std::min(m.c.cols - 1, 2 * e.col + (high ? 1 : 0));
    explain_element(p, m, e.row, col, finding);
    finding.element.push_back(place_line(m.c, g, e.row, col) + ", the " + (high ? "high" : "low") +
                              " nibble of its byte");
    place = {scale_row_of(m.c, g, e.row), col / v.block.width(m.c.cols)};
  } else if (v.layout == MXCHECK_TCGEN05) {
    place = explain_tiled_byte(g, finding);
  }
  if (place.row >= 0 && m.c.elements() != 0) {
    const QuantizedTensor q = nvfp4_quantized(p, m);
    const auto at = static_cast<std::size_t>(place.row * g.cols + place.col);
    finding.element.push_back("scale     " + notations(Format::e4m3, q.scales().code(at)) + " by the reference");
  }
  explain_words(finding);
}

namespace {

InvalidCall invalid_option(const char* how, bool (*change)(mxcheck_nvfp4_policy&)) {
  return {how, [change](Call& call) {
            if (call.policy.num_bytes < sizeof(mxcheck_nvfp4_policy)) return false;
            bool applies = false;
            edit<mxcheck_nvfp4_policy>(call.policy, [&](mxcheck_nvfp4_policy& p) { applies = change(p); });
            return applies;
          }};
}

// The first group that does not divide the extent, or 0.
int no_divisor_of(std::int64_t extent) {
  for (const int size : kHadamardSizes) {
    if (extent % size != 0) return size;
  }
  return 0;
}

// A call with both directions that has offsets too.
InvalidCall offsets_of_both() {
  return {"offsets are there with both directions", [](Call& call) {
            if (call.policy.num_bytes < sizeof(mxcheck_nvfp4_policy)) return false;
            const bool has_both = read<mxcheck_nvfp4_policy>(call.policy).directions == MXCHECK_BOTH_DIRECTIONS;
            return has_both && unwanted_offsets().make(call);
          }};
}

InvalidCall row_index_of_both() {
  return {"a row index is there with both directions", [](Call& call) {
            if (call.policy.num_bytes < sizeof(mxcheck_nvfp4_policy)) return false;
            const bool has_both = read<mxcheck_nvfp4_policy>(call.policy).directions == MXCHECK_BOTH_DIRECTIONS;
            return has_both && unwanted_row_index().make(call);
          }};
}

bool set_group(mxcheck_nvfp4_policy& p, int group) {
  if (p.hadamard == 0 || group == 0) return false;
  p.hadamard = group;
  return true;
}

}  // namespace

InvalidCall far_row_index() {
  return {"a row index names rows that are far behind the last", [](Call& call) {
            for (const CallTensor& tensor : call.inputs) {
              if (tensor.is_index) return false;
            }
            if (call.policy.num_bytes >= sizeof(mxcheck_nvfp4_policy) &&
                read<mxcheck_nvfp4_policy>(call.policy).directions == MXCHECK_BOTH_DIRECTIONS) {
              return false;  // which have no row index at all
            }
            const std::vector<std::int32_t> index(static_cast<std::size_t>(read<mxcheck_policy>(call.policy).rows),
                                                  INT32_MAX);
            CallTensor t = index_tensor(index);
            t.data = call.own(to_bytes(index));
            call.inputs.push_back(t);
            return true;
          }};
}

std::vector<InvalidCall> invalid_nvfp4_options() {
  using P = mxcheck_nvfp4_policy;
  return {
      offsets_of_both(),
      invalid_option("the policy ends before the seed",
                     [](P& p) { return p.base.size = offsetof(P, seed), p.rounding == MXCHECK_STOCHASTIC; }),
      invalid_option("the policy ends before the transform's fields",
                     [](P& p) { return p.base.size = offsetof(P, hadamard), p.hadamard != 0; }),
      invalid_option("the rounding is 3", [](P& p) { return p.rounding = 3, true; }),
      invalid_option("the directions are 2", [](P& p) { return p.directions = 2, true; }),
      invalid_option("the group of the transform is 24", [](P& p) { return set_group(p, 24); }),
      invalid_option("the group of the transform is -16", [](P& p) { return set_group(p, -16); }),
      invalid_option("the group of the transform does not divide the elements along it",
                     [](P& p) {
                       const std::int64_t along = p.directions == MXCHECK_ROW_DIRECTION ? p.base.cols : p.base.rows;
                       return set_group(p, no_divisor_of(along));
                     }),
      invalid_option("the sum of the transform is unknown",
                     [](P& p) { return p.hadamard_sum = "zutterfly", p.hadamard != 0; }),
      invalid_option("the result of the transform is 2", [](P& p) { return p.hadamard_result = 2, p.hadamard != 0; }),
      invalid_option("a sign is beyond the group",
                     [](P& p) { return p.signs[3] |= 1U << 31, p.hadamard != 0 && p.hadamard < 128; }),
      row_index_of_both()};
}

}  // namespace mxcheck
