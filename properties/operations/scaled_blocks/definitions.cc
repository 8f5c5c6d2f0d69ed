#include "properties/operations/scaled_blocks/definitions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kernels/candidate.h"
#include "numerics/format/codec.h"
#include "numerics/scale/scale_rule.h"
#include "properties/core/statement.h"
#include "properties/operations/scaled_blocks/expand.h"
#include "properties/operations/scaled_blocks/operation.h"
#include "reference/common/checked_size.h"

namespace mxcheck {

// Rows about codes: given the scales that the candidate itself wrote, another rounding, another format, another place.

namespace {

// The element before it is rounded, by the candidate's own scale (the expected one where it has none).
std::vector<double> scaled(const BlocksProblem& p, const std::vector<std::int64_t>& index) {
  std::vector<double> v(index.size());
  const Tensor& scales = p.scales_of_codes();
  for (std::size_t i = 0; i < v.size(); ++i) {
    const float x = p.at(static_cast<std::int64_t>(i));
    const std::uint32_t code = scales.code(static_cast<std::size_t>(index[i]));
    if (scales.format == Format::fp32) {
      v[i] = static_cast<double>(x / std::bit_cast<float>(code));
    } else {
      v[i] = code == 255 ? kPoisoned : static_cast<double>(x) * std::ldexp(1.0, 127 - static_cast<int>(code));
    }
  }
  return v;
}

// The expected codes, and the candidate's own in blocks whose scale is wrong.
Bytes codes_beside_scales(const BlocksProblem& p, const std::vector<std::int64_t>& index) {
  Bytes codes = p.expected.codes.data;
  const std::size_t width = size_of(p.element);
  for (std::size_t i = 0; i < index.size(); ++i) {
    const auto block = static_cast<std::size_t>(index[i]);
    if (p.own_scales->code(block) != p.expected.scales().code(block))
      std::memcpy(codes.data() + i * width, p.own_codes.data() + i * width, width);
  }
  return codes;
}

// True if some of the candidate's codes are wrong, and all of them are among these.
bool are_all_wrong_ones(const BlocksProblem& p, std::span<const std::size_t> open) {
  const Bytes &right = p.expected.codes.data, &own = p.own_codes;
  if (open.empty() || own.size() != right.size() || own == right) return false;
  const std::size_t width = size_of(p.element);
  Bytes closed = own;
  for (const std::size_t i : open) std::copy_n(&right[i * width], width, &closed[i * width]);
  return closed == right;
}

class CodeRows {
 public:
  CodeRows(const BlocksProblem& p, std::size_t output)
      : p_(p),
        output_(output),
        index_(std::make_shared<const std::vector<std::int64_t>>(p.scale_index())),
        scaled_(std::make_shared<const std::vector<double>>(scaled(p, *index_))) {}

  void roundings();
  void scalings();
  void places();
  Table take() { return std::exchange(all_, {}); }

 private:
  void add(const std::string& name, std::function<Bytes()> bytes, bool derived = false) {
    all_.push_back(definition_of_output(output_, name, std::move(bytes), "", derived));
  }
  // The right cast of another function of an element and its scale; a code for which there is none may be anything. The
  // row says nothing where most are such, or every wrong one is.
  template <class Value>
  void with(const std::string& name, Value value) {
    add(name, [&p = p_, index = index_, value] {
      std::vector<double> v(index->size());
      std::vector<std::size_t> open;
      for (std::size_t i = 0; i < v.size(); ++i) {
        const std::optional<double> one =
            value(p.at(static_cast<std::int64_t>(i)), static_cast<std::size_t>((*index)[i]));
        v[i] = one.value_or(0);
        if (!one) open.push_back(i);
      }
      if (2 * open.size() > v.size() || are_all_wrong_ones(p, open)) throw RowNotComputed();
      Bytes codes =
          codes_of(p.element, v, [&](double x) { return encode(p.element, x, p.recipe.rounding, p.recipe.overflow); });
      const Bytes& own = p.own_codes.size() == codes.size() ? p.own_codes : p.expected.codes.data;
      const std::size_t width = size_of(p.element);
      for (const std::size_t i : open) std::copy_n(&own[i * width], width, &codes[i * width]);
      return codes;
    });
  }
  template <class From>
  void moved(const std::string& name, From from) {
    add(name, [&p = p_, from] {
      const Bytes& right = p.expected.codes.data;
      const auto count = static_cast<std::int64_t>(right.size());
      Bytes bytes = right;
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t at = from(i / p.cols(), i % p.cols());
        if (at >= 0 && at < count) bytes[static_cast<std::size_t>(i)] = right[static_cast<std::size_t>(at)];
      }
      return bytes;
    });
  }

  const BlocksProblem& p_;
  std::size_t output_;
  std::shared_ptr<const std::vector<std::int64_t>> index_;
  std::shared_ptr<const std::vector<double>> scaled_;
  Table all_;
};

void CodeRows::roundings() {
  const Format f = p_.element;
  const Recipe& r = p_.recipe;
  add(
      "the codes are right for the candidate's own scales: only those are wrong",
      [f, r, v = scaled_] { return codes_of(f, *v, [&](double x) { return encode(f, x, r.rounding, r.overflow); }); },
      true);
  add(
      "the codes are right for the candidate's own scales, and zero where those are 0: only the scales are wrong",
      [f, r, v = scaled_, &p = p_, index = index_] {
        std::vector<double> values = *v;
        const Tensor& scales = p.scales_of_codes();
        for (std::size_t i = 0; i < values.size(); ++i) {
          if (scales.code(static_cast<std::size_t>((*index)[i])) == 0) values[i] = std::copysign(0.0, values[i]);
        }
        return codes_of(f, values, [&](double x) { return encode(f, x, r.rounding, r.overflow); });
      },
      true);
  if (p_.own_scales && p_.own_codes.size() == p_.expected.codes.data.size()) {
    add(
        "codes are wrong only where their scales are",
        [&p = p_, index = index_] { return codes_beside_scales(p, *index); }, true);
    all_.back().remark = "the codes of these blocks do not follow from their scales";
  }
  for (const ElementSlip& slip : element_slips(f, r.rounding, r.overflow, "a product"))
    add(slip.name, [f, v = scaled_, slip] { return codes_of(f, *v, slip.code); });
}

void CodeRows::scalings() {
  const BlocksProblem& p = p_;
  with("x without its scale", [](float x, std::size_t) { return static_cast<double>(x); });
  if (p.recipe.rule == ScaleRule::fp32) {
    const auto scale = [&p](std::size_t s) { return std::bit_cast<float>(p.scales_of_codes().code(s)); };
    const auto quotient = static_cast<float>(decode(p.element, spec(p.element).max_code));
    with("x times the reciprocal of the scale",
         [scale](float x, std::size_t s) { return static_cast<double>(x * (1.0F / scale(s))); });
    with("x divided by the scale", [scale](float x, std::size_t s) { return static_cast<double>(x / scale(s)); });
    with("x times the scale", [scale](float x, std::size_t s) { return static_cast<double>(x * scale(s)); });
    with("x times (largest value / amax)", [scale, quotient](float x, std::size_t s) {
      return static_cast<double>(x * (quotient / (scale(s) * quotient)));
    });
    return;
  }
  const auto byte = [&p](std::size_t s) { return static_cast<int>(p.scales_of_codes().code(s)); };
  const auto shifted = [](float x, int by) { return static_cast<double>(x) * std::ldexp(1.0, by); };
  with("a NaN scale taken for 1: codes are NaN only where x is",
       [=](float x, std::size_t s) { return shifted(x, byte(s) == 255 ? 0 : 127 - byte(s)); });
  with("x times the scale (multiplied where division is due)",
       [=](float x, std::size_t s) { return shifted(x, byte(s) - 127); });
  for (const int by : {1, -1}) {
    with(std::string("codes for a scale one binade ") + (by > 0 ? "larger" : "smaller") + " than the one written",
         [=](float x, std::size_t s) { return shifted(x, 127 - by - byte(s)); });
  }
  with("codes for the right scales, which are not the ones written", [=, &p](float x, std::size_t s) {
    const auto right = static_cast<int>(p.expected.scales().code(s));
    return right == 255 ? kPoisoned : shifted(x, 127 - right);
  });
  with("the first block's scale for every element", [=](float x, std::size_t) { return shifted(x, 127 - byte(0)); });
  const auto across = static_cast<std::size_t>(std::max<std::int64_t>(1, p.expected.scale_cols()));
  // from: a block's number in its row. Where there is no such block, or its scale is NaN, codes may be anything.
  const auto of_scale = [&](const std::string& name, auto from) {
    with(name, [=](float x, std::size_t s) -> std::optional<double> {
      const std::size_t at = from(s % across);
      if (at >= across) return std::nullopt;
      if (byte(s) == 255) return kPoisoned;
      const int b = byte(s / across * across + at);
      return b == 255 ? std::nullopt : std::optional(shifted(x, 127 - b));
    });
  };
  of_scale("codes by the scale of the first block of their row", [](std::size_t) { return std::size_t{0}; });
  for (const std::size_t blocks : {std::size_t{2}, std::size_t{4}, std::size_t{8}})
    of_scale("codes by the scale of the first of every " + std::to_string(blocks) + " blocks",
             [=](std::size_t s) { return s / blocks * blocks; });
  of_scale("codes by the scale of the block before", [](std::size_t s) { return s - 1; });
  of_scale("codes by the scale of the block after", [](std::size_t s) { return s + 1; });
  of_scale("codes by the scale of the other block of a pair", [](std::size_t s) { return s ^ 1; });
  with("x flushed where it is subnormal", [=](float x, std::size_t s) {
    return std::fabs(x) < 0x1p-126F ? std::copysign(0.0, static_cast<double>(x)) : shifted(x, 127 - byte(s));
  });
}

void CodeRows::places() {
  if (size_of(p_.element) != 1) return;
  const std::int64_t rows = p_.rows(), cols = p_.cols();
  moved("the transposed codes, written in the order of columns",
        [=](std::int64_t i, std::int64_t j) { return (i * cols + j) % rows * cols + (i * cols + j) / rows; });
  moved("the element to the left", [=](std::int64_t i, std::int64_t j) { return i * cols + j - 1; });
  moved("the element to the right", [=](std::int64_t i, std::int64_t j) { return i * cols + j + 1; });
  moved("the row above", [=](std::int64_t i, std::int64_t j) { return (i - 1) * cols + j; });
  moved("the row below", [=](std::int64_t i, std::int64_t j) { return (i + 1) * cols + j; });
  moved("pairs in the opposite order", [=](std::int64_t i, std::int64_t j) { return i * cols + (j ^ 1); });
  add("swapped nibbles", [&p = p_] {
    Bytes bytes = p.expected.codes.data;
    for (std::byte& b : bytes) b = b << 4 | b >> 4;
    return bytes;
  });
  add("zeros that nobody wrote over", [&p = p_] { return Bytes(p.expected.codes.data.size()); });
  const BlockShape other{p_.block.cols, p_.block.rows};
  if (p_.block.rows != p_.block.cols && p_.block.cols != 0) {
    add("blocks of " + to_text(other) + " in place of " + to_text(p_.block),
        [&p = p_, other] { return quantize(p.view(), p.element, other, p.recipe, p.offsets).codes.data; });
  }
}

}  // namespace

namespace {

// The power of two nearest to amax / largest value. In double the quotient is a tie where the exact one is: floats that
// are not lie 2^-24 of it away.
std::uint8_t nearest_scale(Format element, float amax, bool ties_up) {
  const double quotient = double{amax} / double{largest_value(element)};
  int exponent = 0;
  const bool is_tie = std::frexp(quotient, &exponent) == 0.75;
  const std::uint32_t up = encode(Format::e8m0, quotient, Rounding::nearest_away, Overflow::non_saturate);
  return static_cast<std::uint8_t>(is_tie && !ties_up && up > 0 ? up - 1 : up);
}

// PyTorch's cast of an FP32 quotient to float8_e8m0fnu: ties up, but of subnormals, where all above 2^-127 go up.
std::uint8_t torch_scale(Format element, float amax) {
  const auto bits = std::bit_cast<std::uint32_t>(amax / largest_value(element));
  const std::uint32_t field = bits >> 23 & 0xFF, fraction = bits & 0x7FFFFF;
  if (field == 255) return 255;
  return static_cast<std::uint8_t>(field + (fraction > 0x400000 || (fraction == 0x400000 && field > 0) ? 1 : 0));
}

struct NearestRule {
  const char* name;
  std::uint8_t (*byte)(Format element, float amax);
  const char* source;
};
constexpr NearestRule kNearestRules[] = {
    {"recipe nearest (amax / largest value in FP32, its cast to E8M0)", torch_scale,
     "PyTorch, c10/util/Float8_e8m0fnu.h"},
    {"recipe nearest, ties up", [](Format f, float amax) { return nearest_scale(f, amax, true); }, ""},
    {"recipe nearest, ties down", [](Format f, float amax) { return nearest_scale(f, amax, false); }, ""}};

// Blocks with NaN or Inf are NaN, elements are rounded to nearest even and saturate, as under the rules' own recipes.
std::vector<Bytes> nearest_answer(const BlocksProblem& p, const NearestRule& rule, std::size_t codes,
                                  std::size_t scales) {
  const std::vector<std::int64_t> index = p.scale_index();
  std::vector<Bytes> answer(std::max(codes, scales) + 1);
  for (const float amax : p.amaxes())
    answer[scales].push_back(std::byte{std::isfinite(amax) ? rule.byte(p.element, amax) : std::uint8_t{255}});
  std::vector<double> v;
  for (std::size_t i = 0; i < index.size(); ++i) {
    const int byte = std::to_integer<int>(answer[scales][static_cast<std::size_t>(index[i])]);
    v.push_back(byte == 255 ? kPoisoned : std::ldexp(double{p.at(static_cast<std::int64_t>(i))}, 127 - byte));
  }
  answer[codes] = codes_of(p.element, v,
                           [&](double x) { return encode(p.element, x, Rounding::nearest_even, Overflow::saturate); });
  if (p.own_scales && answer[scales] != p.own_scales->data) answer[codes].clear();
  return answer;
}

}  // namespace

// Scales, and codes where the scales are the candidate's own.
Table recipe_rows(const BlocksProblem& p, std::size_t codes, std::size_t scales) {
  Table all;
  const auto memo = std::make_shared<AnswerMemo>();
  for (const Recipe& recipe : all_recipes()) {
    if (recipe.name == p.recipe.name || recipe.scale_format() != p.recipe.scale_format()) continue;
    all.push_back(definition_of_all(
        "recipe " + recipe.name,
        [&p, &recipe, codes, scales] {
          QuantizedTensor q = quantize(p.view(), p.element, p.block, recipe, p.offsets);
          const bool are_own = !p.own_scales || q.scales().data == p.own_scales->data;
          std::vector<Bytes> answer(std::max(codes, scales) + 1);
          if (are_own) answer[codes] = std::move(q.codes.data);
          answer[scales] = std::move(q.scales().data);
          return answer;
        },
        memo, recipe.checked_against));
  }
  if (!p.recipe.has_e8m0_scales()) return all;
  for (const NearestRule& rule : kNearestRules) {
    all.push_back(definition_of_all(
        rule.name, [&p, &rule, codes, scales] { return nearest_answer(p, rule, codes, scales); }, memo, rule.source));
  }
  return all;
}

namespace {

void append(Table& to, Table from) {
  for (Definition& row : from) to.push_back(std::move(row));
}

}  // namespace

Table blocks_table(const BlocksProblem& p, std::size_t codes, std::size_t scales) {
  CodeRows rows(p, codes);
  rows.roundings();
  Table all = rows.take();
  append(all, recipe_rows(p, codes, scales));
  append(all, scale_rows(p, scales));
  rows.scalings();
  rows.places();
  append(all, rows.take());
  return all;
}

Table coded_table(BlocksProblem of, bool is_transposed, std::size_t codes, std::size_t scales,
                  std::span<const Bytes> observed) {
  constexpr std::int64_t kMostForSlips = std::int64_t{1} << 18;
  const auto p = std::make_shared<BlocksProblem>(std::move(of));
  p->expected = quantize(p->view(), p->element, p->block, p->recipe, p->offsets);
  const auto as_quantized = [&](const Tensor& like, const Bytes& own) {
    Tensor t{"", like.format, like.shape, own};
    if (is_transposed) std::swap(t.shape[0], t.shape[1]), t = transposed(t);
    return t;
  };
  if (observed[scales].size() == p->expected.scales().data.size())
    p->own_scales = as_quantized(p->expected.scales(), observed[scales]);
  if (observed[codes].size() == p->expected.codes.data.size())
    p->own_codes = as_quantized(p->expected.codes, observed[codes]).data;
  Table rows =
      p->rows() * p->cols() <= kMostForSlips ? blocks_table(*p, codes, scales) : recipe_rows(*p, codes, scales);
  for (Definition& row : rows) {
    if (!is_transposed) break;
    row.bytes = [bytes = std::move(row.bytes), p, codes](std::size_t output) {
      Bytes plain = bytes(output);
      const Tensor& like = output == codes ? p->expected.codes : p->expected.scales();
      if (plain.size() != like.data.size()) return plain;
      return transposed(Tensor{"", like.format, like.shape, std::move(plain)}).data;
    };
  }
  return owning(std::move(rows), p);
}

namespace {

constexpr std::int64_t kMostInMatrix = std::int64_t{1} << 18;
constexpr std::int64_t kDrawnInMatrix = std::int64_t{1} << 14;  // each exponent and each place of a block comes up
constexpr std::int64_t kMostOfRun = std::int64_t{1} << 16;      // elements of a run of words

// The case without experts, strides and an index, in whole blocks; of a run of words what is in its middle, which is
// what it is about.
Case in_whole_blocks(Case c, std::int64_t height, std::int64_t width) {
  c.experts.clear(), c.plants.clear(), c.set_contiguous(), c.gather = 0, c.misaligned = {}, c.threads = 0;
  c.cols = ceil_div(c.cols, width) * width;
  const std::int64_t most_rows = std::max<std::int64_t>(1, kMostOfRun / std::max<std::int64_t>(1, c.cols));
  const bool is_run = c.data == Data::every_word || c.data == Data::every_amax;
  if (is_run && c.rows > most_rows) c.seed += static_cast<std::uint64_t>(c.rows - most_rows) / 2, c.rows = most_rows;
  c.rows = ceil_div(c.rows, height) * height;
  return c;
}

}  // namespace

std::vector<GateMatrix> gate_matrices(Format element, std::optional<BlockShape> block, Format type) {
  Variant v{block ? "quantize" : "cast", type};
  blocks_of(v) = {element, "rceil", block.value_or(BlockShape{1, 32}), MXCHECK_COMPACT};
  const std::int64_t height = block ? block->height(1) : 1;
  const std::int64_t width = !block || block->cols == 0 ? 1 : block->cols;
  const std::int64_t drawn_height = height * 2,
                     drawn_width = (width == 1 && (!block || block->cols == 0) ? 64 : width) * 2;
  std::vector<Case> cases;
  const auto add = [&](const Case& c) {
    if (c.elements() == 0) return;
    Case whole = in_whole_blocks(c, height, width);
    if (whole.elements() <= kMostInMatrix && std::ranges::find(cases, whole) == cases.end())
      cases.push_back(std::move(whole));
  };
  for (const Statement& s : all_statements()) {
    if (s.of_the_interface || !s.corners || !s.applies(v, {&v, 1})) continue;
    for (const Case& c : s.corners(v, Suite::quick)) add(c);
    if (!s.covers_pairs) continue;
    const std::int64_t rows = ceil_div(kDrawnInMatrix, drawn_height * drawn_width) * drawn_height;
    for (const Data data : s.data)
      add(blocks_corner(v, rows, drawn_width, data, 100 + static_cast<std::uint64_t>(data)));
  }
  std::vector<GateMatrix> matrices;
  for (const Case& c : cases) {
    const Input input = expand(c);
    GateMatrix m{"gate " + std::string(to_text(c.data)) + " " + std::to_string(c.rows) + "x" + std::to_string(c.cols) +
                     " " + std::to_string(c.seed),
                 c.rows,
                 c.cols,
                 {}};
    for (std::int64_t i = 0; i < c.elements(); ++i) m.x.push_back(input.view().at(i / c.cols, i % c.cols));
    matrices.push_back(std::move(m));
  }
  return matrices;
}

}  // namespace mxcheck
