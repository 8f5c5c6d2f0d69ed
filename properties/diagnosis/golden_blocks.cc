#include "properties/diagnosis/golden_verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "numerics/bytes.h"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"

namespace mxcheck {

BlocksProblem problem_of(const GoldenTensors& golden) {
  BlocksProblem p;
  p.x = in_format(golden, "x", format_of_dataset(golden, "x"), {kAnyExtent, kAnyExtent});
  p.element = format_of_golden(golden.info);
  p.block = block_shape_named(attribute(golden.info.attributes, "block"));
  p.recipe = recipe_named(attribute(golden.info.attributes, "recipe"));
  p.pad_byte = static_cast<std::uint8_t>(number_of(golden.info, "pad_byte"));
  if (golden.info.find("offsets") != nullptr)
    p.offsets = values_in<std::int64_t>(golden_tensor(golden, "offsets", Format::int64, {kAnyExtent}).data);
  p.expected.codes = in_format(golden, "codes", p.element, p.x.shape);
  p.expected.levels = {
      {p.block, p.recipe.rule, in_format(golden, "scales", p.recipe.scale_format(), {kAnyExtent, kAnyExtent})}};
  check_quantized(p.expected, p.offsets);
  return p;
}

namespace {

Tensor rows_of(const Tensor& matrix, std::int64_t first, std::int64_t end) {
  const auto row_bytes = static_cast<std::int64_t>(size_of(matrix.format)) * matrix.cols();
  Tensor rows{matrix.name, matrix.format, {end - first, matrix.cols()}, {}};
  if (!matrix.data.empty())
    rows.data.assign(matrix.data.begin() + first * row_bytes, matrix.data.begin() + end * row_bytes);
  return rows;
}

// A property of elements or blocks, and whether it is all that the wrong ones have and few of the right ones do.
struct Trait {
  std::string text;
  std::int64_t wrong = 0;
  std::int64_t right = 0;
};

std::vector<std::string> telling(std::span<const Trait> traits, std::int64_t wrong, std::int64_t right) {
  std::vector<std::string> lines;
  for (const Trait& t : traits) {
    if (wrong == 0 || t.wrong != wrong || 4 * t.right > right) continue;
    lines.push_back("only " + t.text + " are wrong" +
                    (t.right == 0 ? ", and all of them" : " (" + std::to_string(t.right) + " of these are right)"));
  }
  return lines;
}

bool differs(const AnswerTensor& data, std::size_t index) {
  const std::size_t width = bytes_of_element(data.info);
  return std::memcmp(data.expected.data() + index * width, data.observed.data() + index * width, width) != 0;
}

struct BlockFacts {
  float amax = 0;
  bool has_nan = false;
  bool has_inf = false;
  bool ragged = false;
};

std::vector<BlockFacts> facts_of_blocks(const BlocksProblem& p, const std::vector<std::int64_t>& index) {
  std::vector<BlockFacts> facts(static_cast<std::size_t>(p.expected.scale_rows() * p.expected.scale_cols()));
  std::vector<std::int64_t> elements(facts.size());
  for (std::size_t at = 0; at < index.size(); ++at) {
    BlockFacts& f = facts[static_cast<std::size_t>(index[at])];
    ++elements[static_cast<std::size_t>(index[at])];
    const float value = std::fabs(p.at(static_cast<std::int64_t>(at)));
    f.has_nan = f.has_nan || std::isnan(value), f.has_inf = f.has_inf || std::isinf(value);
    if (value > f.amax) f.amax = value;
  }
  const std::int64_t whole = elements.empty() ? 0 : *std::max_element(elements.begin(), elements.end());
  for (std::size_t s = 0; s < facts.size(); ++s) facts[s].ragged = elements[s] < whole;
  return facts;
}

}  // namespace

Window window_at(const BlocksProblem& p, std::int64_t row, std::int64_t rows) {
  const std::vector<std::int64_t> starts = block_row_starts(p.rows(), p.block.rows, p.offsets);
  Window w;
  std::size_t at = 0;
  while (at + 2 < starts.size() && starts[at + 1] <= row) ++at;
  w.first_row = starts[at], w.first_scale_row = static_cast<std::int64_t>(at);
  while (at + 1 < starts.size() && starts[at] < w.first_row + std::max<std::int64_t>(1, rows)) ++at;
  w.end_row = starts[at], w.end_scale_row = static_cast<std::int64_t>(at);
  return w;
}

BlocksProblem cut(const BlocksProblem& p, const Window& w) {
  BlocksProblem part = p;
  part.x = rows_of(p.x, w.first_row, w.end_row);
  part.offsets.clear();
  if (!p.offsets.empty()) {
    part.offsets.push_back(0);
    for (const std::int64_t offset : p.offsets) {
      if (offset > w.first_row && offset < w.end_row) part.offsets.push_back(offset - w.first_row);
    }
    part.offsets.push_back(part.rows());
  }
  part.expected.codes = rows_of(p.expected.codes, w.first_row, w.end_row);
  part.expected.scales() = rows_of(p.expected.scales(), w.first_scale_row, w.end_scale_row);
  if (p.own_scales) part.own_scales = rows_of(*p.own_scales, w.first_scale_row, w.end_scale_row);
  return part;
}

std::vector<std::string> common_to_wrong_codes(const BlocksProblem& p, const AnswerTensor& codes) {
  const std::vector<std::int64_t> index = p.scale_index();
  const std::vector<BlockFacts> blocks = facts_of_blocks(p, index);
  const FormatSpec& f = spec(p.element);
  std::array traits{Trait{"elements of blocks with a NaN"},
                    Trait{"elements of blocks with an infinity"},
                    Trait{"elements of blocks with a NaN or an infinity"},
                    Trait{"elements of ragged blocks"},
                    Trait{"negative elements"},
                    Trait{"positive elements"},
                    Trait{"elements whose code is subnormal or zero"},
                    Trait{"elements whose code is the largest"},
                    Trait{"elements that are themselves a block's amax"}};
  std::int64_t wrong = 0, right = 0;
  for (std::size_t at = 0; at < index.size(); ++at) {
    const bool bad = differs(codes, at);
    ++(bad ? wrong : right);
    const BlockFacts& b = blocks[static_cast<std::size_t>(index[at])];
    const float x = p.at(static_cast<std::int64_t>(at));
    const std::uint32_t code = word_of(codes.info, codes.expected, static_cast<std::int64_t>(at));
    const std::uint32_t magnitude = code & ((1U << (f.bits - 1)) - 1);
    const std::array has = {b.has_nan,
                            b.has_inf,
                            b.has_nan || b.has_inf,
                            b.ragged,
                            std::signbit(x),
                            !std::signbit(x),
                            magnitude < 1U << f.mantissa_bits,
                            magnitude == f.max_code,
                            std::fabs(x) == b.amax};
    static_assert(has.size() == traits.size());
    for (std::size_t t = 0; t < has.size(); ++t) {
      if (has[t]) ++(bad ? traits[t].wrong : traits[t].right);
    }
  }
  return telling(traits, wrong, right);
}

std::vector<std::string> common_to_wrong_scales(const BlocksProblem& p, const AnswerTensor& scales) {
  const std::vector<BlockFacts> blocks = facts_of_blocks(p, p.scale_index());
  float largest_wrong = 0, smallest_wrong = INFINITY;
  for (std::size_t s = 0; s < blocks.size(); ++s) {
    if (!differs(scales, s)) continue;
    largest_wrong = std::max(largest_wrong, blocks[s].amax), smallest_wrong = std::min(smallest_wrong, blocks[s].amax);
  }
  const auto decimal = [](float v) {
    char text[32];
    std::snprintf(text, sizeof(text), "%g", static_cast<double>(v));
    return std::string(text);
  };
  std::array traits{Trait{"scales of blocks with a NaN"},
                    Trait{"scales of blocks with an infinity"},
                    Trait{"scales of blocks with a NaN or an infinity"},
                    Trait{"scales of ragged blocks"},
                    Trait{"scales of blocks whose amax is at most " + decimal(largest_wrong)},
                    Trait{"scales of blocks whose amax is at least " + decimal(smallest_wrong)},
                    Trait{"scales of blocks of zeros"},
                    Trait{"scales of blocks whose amax is a power of two"}};
  std::int64_t wrong = 0, right = 0;
  for (std::size_t s = 0; s < blocks.size(); ++s) {
    const bool bad = differs(scales, s);
    ++(bad ? wrong : right);
    const BlockFacts& b = blocks[s];
    int exponent = 0;
    const std::array has = {b.has_nan,
                            b.has_inf,
                            b.has_nan || b.has_inf,
                            b.ragged,
                            b.amax <= largest_wrong,
                            b.amax >= smallest_wrong,
                            b.amax == 0,
                            std::frexp(b.amax, &exponent) == 0.5F};
    static_assert(has.size() == traits.size());
    for (std::size_t t = 0; t < has.size(); ++t) {
      if (has[t]) ++(bad ? traits[t].wrong : traits[t].right);
    }
  }
  return telling(traits, wrong, right);
}

}  // namespace mxcheck
