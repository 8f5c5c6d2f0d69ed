#include "reference/training/observe.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "numerics/format/codec.h"
#include "reference/layer/run.h"

namespace mxcheck {
namespace {

// The BF16 tensor that an operand stands for, as the operand lies in memory: row i of it is row index[i] of `words`,
// or row i where there is no index.
struct Original {
  std::span<const std::uint16_t> words;
  std::span<const std::int32_t> index;
};

// Scales as numbers, and which of them a row of elements has.
class Scales {
 public:
  Scales(const Quantized& q, std::int64_t rows, std::span<const std::int64_t> offsets)
      : cols_(q.scale_cols), block_cols_(std::max<std::int64_t>(1, q.block.width(q.cols))), row_of_(rows_of(q, rows)) {
    for (const std::uint8_t byte : q.scales) values_.push_back(decode(Format::e8m0, byte));
    for (const float scale : q.scales_fp32) values_.push_back(double{scale});
    if (q.block.rows <= 1) return;
    const std::vector<std::int64_t> starts = block_row_starts(rows, q.block.rows, offsets);
    for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
      for (std::int64_t r = starts[s]; r < starts[s + 1]; ++r)
        row_of_[static_cast<std::size_t>(r)] = static_cast<std::int64_t>(s);
    }
  }

  [[nodiscard]] const std::vector<double>& values() const { return values_; }
  [[nodiscard]] double at(std::int64_t row, std::int64_t col) const {
    return values_[static_cast<std::size_t>(row_of_[static_cast<std::size_t>(row)] * cols_ + col / block_cols_)];
  }

 private:
  // A row of scales for each row, or one for the whole tensor; blocks of several rows are the constructor's.
  static std::vector<std::int64_t> rows_of(const Quantized& q, std::int64_t rows) {
    std::vector<std::int64_t> row_of(static_cast<std::size_t>(rows), 0);
    for (std::size_t r = 0; q.block.rows == 1 && r < row_of.size(); ++r) row_of[r] = static_cast<std::int64_t>(r);
    return row_of;
  }

  std::int64_t cols_;
  std::int64_t block_cols_;
  std::vector<std::int64_t> row_of_;
  std::vector<double> values_;
};

std::vector<bool> zero_codes(Format format) {
  std::vector<bool> zero(std::size_t{1} << spec(format).bits);
  for (std::size_t code = 0; code < zero.size(); ++code)
    zero[code] = decode(format, static_cast<std::uint32_t>(code)) == 0;
  return zero;
}

void add_facts(std::string name, const LayerOperand& x, const Original& original, std::span<const std::int64_t> offsets,
               std::vector<OperandFacts>& facts) {
  if (!x.is_quantized) return;
  const Quantized& q = x.quantized;
  OperandFacts f;
  f.name = std::move(name);
  f.elements = x.rows * x.cols;
  const Scales scales(q, x.rows, offsets);
  f.scales = std::ssize(scales.values());
  bool any = false;
  for (const double scale : scales.values()) {
    if (!(scale > 0) || std::isinf(scale)) continue;
    const int exponent = std::ilogb(scale);
    f.least_exponent = any ? std::min(f.least_exponent, exponent) : exponent;
    f.largest_exponent = any ? std::max(f.largest_exponent, exponent) : exponent;
    any = true;
  }
  const double largest = decode(q.element, spec(q.element).max_code);
  const std::vector<bool> zero = zero_codes(q.element);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const std::int64_t from = original.index.empty() ? r : original.index[static_cast<std::size_t>(r)];
    for (std::int64_t c = 0; c < x.cols; ++c) {
      const auto at = static_cast<std::size_t>(r * x.cols + c);
      const double value = std::abs(double{fp32_of(original.words[static_cast<std::size_t>(from * x.cols + c)])});
      const std::uint32_t code = q.codes16.empty() ? q.codes[at] : q.codes16[at];
      // The product is exact before it is rounded: two FP32 numbers, of which one has 4 bits. A NaN is neither.
      if (value > double{static_cast<float>(largest * scales.at(r, c))}) ++f.saturated;
      if (value > 0 && zero[code]) ++f.flushed;
    }
  }
  facts.push_back(std::move(f));
}

// The four operands of tokens and of weights, with the index of gathered rows and the offsets of each.
class Operands {
 public:
  Operands(const Layer& layer, const LayerRoutes& routes, std::vector<OperandFacts>& facts)
      : layer_(layer), routes_(routes), facts_(facts) {}

  // A tensor of tokens: by token, or gathered.
  void of_tokens(const char* name, const LayerOperand& x, std::span<const std::uint16_t> words) {
    const bool is_gathered = !x.by_token;
    add_facts(name, x,
              {words, is_gathered ? std::span<const std::int32_t>(routes_.row_token) : std::span<const std::int32_t>()},
              is_gathered ? std::span<const std::int64_t>(routes_.offsets) : std::span<const std::int64_t>(), facts_);
  }
  // In the order of the routed rows.
  void of_rows(const char* name, const LayerOperand& x, std::span<const std::uint16_t> words) {
    add_facts(name, x, {words, {}}, routes_.offsets, facts_);
  }
  // Weights of every expert, as they are or transposed.
  void of_weights(const char* name, const LayerOperand& x, std::span<const std::uint16_t> words) {
    std::vector<std::int64_t> offsets;
    for (std::int64_t e = 0; e <= layer_.shape.experts; ++e) offsets.push_back(e * (x.rows / layer_.shape.experts));
    add_facts(name, x, {words, {}}, offsets, facts_);
  }

 private:
  const Layer& layer_;
  const LayerRoutes& routes_;
  std::vector<OperandFacts>& facts_;
};

}  // namespace

void forward_facts(const Layer& layer, std::span<const std::uint16_t> x, const LayerRoutes& routes,
                   const LayerForward& f, std::vector<OperandFacts>& facts) {
  const Run run(layer, routes, "X", x.size());
  Operands operands(layer, routes, facts);
  operands.of_tokens("up.a", f.up_a, x);
  operands.of_weights("up.b", f.up_b, run.transposed(layer.w1, run.d, 2 * run.n));
  operands.of_rows("down.a", f.down_a, f.a);
  operands.of_weights("down.b", f.down_b, run.transposed(layer.w2, run.n, run.d));
}

void backward_facts(const Layer& layer, std::span<const std::uint16_t> x, std::span<const std::uint16_t> d_o,
                    const LayerRoutes& routes, const LayerBackward& b, std::vector<OperandFacts>& facts) {
  Operands operands(layer, routes, facts);
  operands.of_tokens("d_down.a", b.d_down_a, d_o);
  operands.of_weights("d_down.b", b.d_down_b, layer.w2);
  operands.of_rows("d_w2.a", b.d_w2_a, b.scaled_a);
  operands.of_tokens("d_w2.b", b.d_w2_b, d_o);
  operands.of_rows("d_up.a", b.d_up_a, b.dh);
  operands.of_weights("d_up.b", b.d_up_b, layer.w1);
  operands.of_tokens("d_w1.a", b.d_w1_a, x);
  operands.of_rows("d_w1.b", b.d_w1_b, b.dh);
}

std::vector<std::int64_t> expert_loads(const LayerRoutes& routes) {
  std::vector<std::int64_t> loads;
  for (std::size_t e = 0; e + 1 < routes.offsets.size(); ++e)
    loads.push_back(routes.offsets[e + 1] - routes.offsets[e]);
  return loads;
}

LayerObservation observe_layer(Layer layer, std::span<const std::uint16_t> x, std::span<const std::uint16_t> d_o,
                               const LayerRoutes& routes, const KnownProducts& products) {
  layer.known = &products;
  LayerObservation observation;
  observation.expert_loads = expert_loads(routes);
  const LayerForward f = layer_forward(layer, x, routes);
  forward_facts(layer, x, routes, f, observation.operands);
  const LayerBackward b = layer_backward(layer, f.kept, d_o, routes);
  backward_facts(layer, x, d_o, routes, b, observation.operands);
  return observation;
}

}  // namespace mxcheck
