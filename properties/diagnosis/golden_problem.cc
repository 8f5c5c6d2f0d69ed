#include "properties/diagnosis/golden_problem.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "numerics/format/codec.h"

namespace mxcheck {
namespace {

template <class T>
std::vector<T> rows_of(const std::vector<T>& matrix, std::int64_t row_elements, std::int64_t first, std::int64_t end) {
  if (matrix.empty()) return {};
  return {matrix.begin() + first * row_elements, matrix.begin() + end * row_elements};
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

bool differs(const Observed& data, std::size_t index) {
  return std::memcmp(data.expected.data() + index * data.width, data.observed.data() + index * data.width,
                     data.width) != 0;
}

struct BlockFacts {
  float amax = 0;
  bool has_nan = false;
  bool has_inf = false;
  bool ragged = false;
};

std::vector<BlockFacts> facts_of_blocks(const GoldenProblem& p, const std::vector<std::int64_t>& index) {
  std::vector<BlockFacts> facts(static_cast<std::size_t>(p.expected.scale_rows * p.expected.scale_cols));
  std::vector<std::int64_t> elements(facts.size());
  const MatrixView view = p.view();
  for (std::size_t at = 0; at < index.size(); ++at) {
    BlockFacts& f = facts[static_cast<std::size_t>(index[at])];
    ++elements[static_cast<std::size_t>(index[at])];
    const float value =
        std::fabs(view.at(static_cast<std::int64_t>(at) / p.cols, static_cast<std::int64_t>(at) % p.cols));
    f.has_nan = f.has_nan || std::isnan(value), f.has_inf = f.has_inf || std::isinf(value);
    if (value > f.amax) f.amax = value;
  }
  const std::int64_t whole = elements.empty() ? 0 : *std::max_element(elements.begin(), elements.end());
  for (std::size_t s = 0; s < facts.size(); ++s) facts[s].ragged = elements[s] < whole;
  return facts;
}

}  // namespace

Window window_at(const GoldenProblem& p, std::int64_t row, std::int64_t rows) {
  const std::vector<std::int64_t> starts = block_row_starts(p.rows, p.block.rows, p.offsets);
  Window w;
  std::size_t at = 0;
  while (at + 2 < starts.size() && starts[at + 1] <= row) ++at;
  w.first_row = starts[at], w.first_scale_row = static_cast<std::int64_t>(at);
  while (at + 1 < starts.size() && starts[at] < w.first_row + std::max<std::int64_t>(1, rows)) ++at;
  w.end_row = starts[at], w.end_scale_row = static_cast<std::int64_t>(at);
  return w;
}

GoldenProblem cut(const GoldenProblem& p, const Window& w) {
  GoldenProblem part = p;
  const std::int64_t x_bytes = p.cols * (p.wide == Format::fp32 ? 4 : 2);
  part.x = rows_of(p.x, x_bytes, w.first_row, w.end_row);
  part.rows = w.end_row - w.first_row;
  part.offsets.clear();
  if (!p.offsets.empty()) {
    part.offsets.push_back(0);
    for (const std::int64_t offset : p.offsets) {
      if (offset > w.first_row && offset < w.end_row) part.offsets.push_back(offset - w.first_row);
    }
    part.offsets.push_back(part.rows);
  }
  Quantized& q = part.expected;
  q.rows = part.rows, q.scale_rows = w.end_scale_row - w.first_scale_row;
  q.codes = rows_of(p.expected.codes, p.cols, w.first_row, w.end_row);
  q.codes16 = rows_of(p.expected.codes16, p.cols, w.first_row, w.end_row);
  q.scales = rows_of(p.expected.scales, q.scale_cols, w.first_scale_row, w.end_scale_row);
  q.scales_fp32 = rows_of(p.expected.scales_fp32, q.scale_cols, w.first_scale_row, w.end_scale_row);
  if (p.own_scales) part.own_scales = rows_of(*p.own_scales, q.scale_cols, w.first_scale_row, w.end_scale_row);
  if (p.own_scales_fp32) {
    part.own_scales_fp32 = rows_of(*p.own_scales_fp32, q.scale_cols, w.first_scale_row, w.end_scale_row);
  }
  return part;
}

std::vector<std::string> common_to_wrong_codes(const GoldenProblem& p, const Observed& codes) {
  const std::vector<std::int64_t> index = p.scale_index();
  const std::vector<BlockFacts> blocks = facts_of_blocks(p, index);
  const MatrixView view = p.view();
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
    const float x = view.at(static_cast<std::int64_t>(at) / p.cols, static_cast<std::int64_t>(at) % p.cols);
    std::uint32_t code = 0;
    std::memcpy(&code, codes.expected.data() + at * codes.width, codes.width);
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

std::vector<std::string> common_to_wrong_scales(const GoldenProblem& p, const Observed& scales) {
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
