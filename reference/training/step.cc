// An evaluation, the update, initial states and digests: docs/training.md.

#include "reference/training/step.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "numerics/elementary/elementary.h"
#include "numerics/format/codec.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/layer/run.h"
#include "reference/training/observe.h"
#include "reference/training/optimizer.h"
#include "reference/training/parts.h"
#include "reference/training/passes.h"

namespace mxcheck {

Evaluation evaluate(const TrainingConfig& config, const TrainingState& state, const LayerRecipe& recipe,
                    std::span<const std::uint8_t> tokens, int threads) {
  check(config);
  check(recipe);
  const ModelShape& m = config.model;
  const std::int64_t each = m.length + 1;
  require(!tokens.empty() && std::ssize(tokens) % each == 0,
          "validation data has " + std::to_string(tokens.size()) +
              " bytes; a multiple of length + 1 = " + std::to_string(each) + " is needed");
  const PassSetting setting{
      .config = config, .recipe = recipe, .sequences = std::ssize(tokens) / each, .threads = threads};
  const Sequences data = split_sequences(tokens, m.length);
  const PassWeights weights = pass_weights(m, state.weights, threads);
  Evaluation evaluation;
  evaluation.loss = std::numeric_limits<float>::quiet_NaN();
  const auto add_routes = [&](std::vector<LayerPass>& layers) {
    for (LayerPass& layer : layers) evaluation.routes.push_back(std::move(layer.chosen));
  };
  try {
    ForwardPass pass = forward(setting, rotary_table(m.length, m.head_width()), weights, data.inputs);
    evaluation.loss = token_loss(pass.logits, data.targets, threads).loss;
    add_routes(pass.layers);
  } catch (RouterOverflow& overflow) {
    add_routes(overflow.layers);
  }
  return evaluation;
}

namespace {

// The pairwise sum of squares. Blocks of 2^14 squares are whole subtrees of it; where the last block is shorter, what
// follows it are sums of +0, and a sum of squares is the same with +0 added.
float sum_of_squares(std::span<const float> g, int threads) {
  constexpr std::int64_t kBlock = 1 << 14;
  std::vector<float> sums(static_cast<std::size_t>((std::ssize(g) + kBlock - 1) / kBlock));
  parallel_ranges(std::ssize(sums), std::ssize(g), threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> squares;
    for (std::int64_t block = begin; block < end; ++block) {
      const auto first = static_cast<std::size_t>(block * kBlock);
      const std::span<const float> part = g.subspan(first, std::min<std::size_t>(kBlock, g.size() - first));
      squares.clear();
      for (const float v : part) squares.push_back(v * v);
      sums[static_cast<std::size_t>(block)] = pairwise_sum(squares);
    }
  });
  return pairwise_sum(sums);
}

// The settings of an AdamW update that are the same for all elements of a parameter.
struct AdamW {
  const OptimizerConfig& config;
  float clip;  // 1 where nothing is clipped
  bool clips;
  float rate;
  float correction1, correction2;  // of the moments' bias
  bool decays;
};

float stored(const OptimizerConfig& config, float moment) {
  return config.moments == Format::bf16 ? widen(to_bf16(moment)) : moment;
}

void update_element(const AdamW& a, float gradient, float& weight, float& first, float& second) {
  const OptimizerConfig& o = a.config;
  const float g = a.clips ? gradient * a.clip : gradient;
  first = stored(o, std::fma(o.beta1, first, (1.0F - o.beta1) * g));
  second = stored(o, std::fma(o.beta2, second, (1.0F - o.beta2) * (g * g)));
  float step = (first / a.correction1) / (std::sqrt(second / a.correction2) + o.epsilon);
  if (a.decays) step += o.decay * weight;
  weight -= a.rate * step;
}

}  // namespace

float gradient_norm(std::span<const std::vector<float>> gradients, int threads) {
  float total = 0;
  for (const std::vector<float>& g : gradients) total += sum_of_squares(g, threads);
  return std::sqrt(total);
}

void update(const TrainingConfig& config, TrainingState& state, std::vector<std::vector<float>>& gradients, float norm,
            float rate, int threads) {
  const std::vector<ParameterSpec> specs = parameters_of(config.model);
  const OptimizerConfig& o = config.optimizer;
  require_size("the list of gradients", std::ssize(gradients), std::ssize(specs));
  require_size("the list of weights", std::ssize(state.weights), std::ssize(specs));
  require_size("the list of first moments", std::ssize(state.first_moments), std::ssize(specs));
  require_size("the list of second moments", std::ssize(state.second_moments), std::ssize(specs));
  for (std::size_t p = 0; p < specs.size(); ++p) {
    const char* const name = specs[p].name.c_str();
    require_size(name, std::ssize(gradients[p]), specs[p].size());
    require_size(name, std::ssize(state.weights[p]), specs[p].size());
    require_size(name, std::ssize(state.first_moments[p]), specs[p].size());
    require_size(name, std::ssize(state.second_moments[p]), specs[p].size());
  }
  const std::int64_t t = ++state.updates;
  const bool clips = norm > o.clip;
  AdamW a{o,    clips ? o.clip / norm : 1.0F, clips, rate, bias_correction(o.beta1, t), bias_correction(o.beta2, t),
          false};
  for (std::size_t p = 0; p < specs.size(); ++p) {
    a.decays = specs[p].kind == ParameterKind::matrix;
    parallel_ranges(specs[p].size(), specs[p].size() * 4, threads, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
        update_element(a, gradients[p][i], state.weights[p][i], state.first_moments[p][i], state.second_moments[p][i]);
    });
  }
}

namespace {

// (u_0 + ... + u_11 - 393210) / 65536 of twelve 16-bit numbers: an integer of 20 bits over a power of two, exact.
float normal_number(std::uint64_t seed, std::size_t parameter, std::int64_t element) {
  const auto i = static_cast<std::uint64_t>(element);
  std::int32_t sum = -393210;
  for (std::uint32_t j = 0; j < 6; ++j) {
    const std::uint32_t word = philox_word(seed, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32),
                                           static_cast<std::uint32_t>(parameter), j);
    sum += static_cast<std::int32_t>(word & 0xFFFFU) + static_cast<std::int32_t>(word >> 16);
  }
  return static_cast<float>(sum) * 0x1p-16F;
}

std::vector<float> initial_weights(const ParameterSpec& spec, std::uint64_t seed, std::size_t parameter, int threads) {
  std::vector<float> w;
  resize_or_throw(w, spec.size(), spec.name);
  parallel_ranges(spec.size(), spec.size() * 8, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      w[static_cast<std::size_t>(i)] = spec.deviation == 0 ? 1.0F : spec.deviation * normal_number(seed, parameter, i);
  });
  return w;
}

// Up or down by the low bit of a word that the normal numbers do not take.
void perturb_all(std::vector<float>& w, std::uint64_t seed, std::size_t parameter) {
  for (std::size_t i = 0; i < w.size(); ++i) {
    const std::uint32_t word = philox_word(seed, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32),
                                           static_cast<std::uint32_t>(parameter), 6);
    w[i] *= word & 1U ? 1 + 0x1p-8F : 1 - 0x1p-8F;
  }
}

// By words that nothing else takes; equal words keep their columns' order.
std::vector<std::size_t> column_order(const TrainingConfig& config) {
  std::vector<std::size_t> order(static_cast<std::size_t>(config.model.width));
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto word = [&](std::size_t j) { return philox_word(config.seed, static_cast<std::uint32_t>(j), 0, 0, 7); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return word(a) < word(b); });
  return order;
}

// Column i of the residual stream becomes what column order[i] was: rows of what writes to it and of w1, which lies
// d x 2n, columns of all else.
void reorder(std::vector<float>& tensor, const ParameterSpec& spec, const std::vector<std::size_t>& order) {
  const bool by_rows = spec.name.ends_with(".attention_out") || spec.name.ends_with(".w1");
  const std::size_t run = by_rows ? static_cast<std::size_t>(spec.cols) : 1;  // numbers that stay together
  std::vector<float> group(order.size() * run);
  for (auto at = tensor.begin(); at != tensor.end(); at += static_cast<std::ptrdiff_t>(group.size())) {
    for (std::size_t i = 0; i < order.size(); ++i)
      std::copy_n(at + static_cast<std::ptrdiff_t>(order[i] * run), run,
                  group.begin() + static_cast<std::ptrdiff_t>(i * run));
    std::copy(group.begin(), group.end(), at);
  }
}

void reorder(std::vector<std::vector<float>>& tensors, const TrainingConfig& config) {
  if (config.perturb != kPerturbOrder) return;
  const std::vector<ParameterSpec> specs = parameters_of(config.model);
  const std::vector<std::size_t> order = column_order(config);
  for (std::size_t p = 0; p < specs.size(); ++p) reorder(tensors[p], specs[p], order);
}

void perturb(std::vector<std::vector<float>>& weights, const TrainingConfig& config) {
  reorder(weights, config);
  std::int64_t perturbed = config.perturb - 1;  // counted from the tensor that is next
  for (std::size_t p = 0; p < weights.size(); ++p) {
    if (config.perturb == kPerturbAll) perturb_all(weights[p], config.seed, p);
    if (perturbed >= 0 && perturbed < std::ssize(weights[p])) {
      float& weight = weights[p][static_cast<std::size_t>(perturbed)];
      weight = std::nextafter(weight, std::numeric_limits<float>::infinity());
    }
    perturbed -= std::ssize(weights[p]);
  }
}

}  // namespace

TrainingState initial_state(const TrainingConfig& config, int threads) {
  check(config);
  TrainingState state;
  const std::vector<ParameterSpec> specs = parameters_of(config.model);
  for (std::size_t p = 0; p < specs.size(); ++p) {
    state.weights.push_back(initial_weights(specs[p], config.seed, p, threads));
    state.first_moments.emplace_back();
    resize_or_throw(state.first_moments.back(), specs[p].size(), specs[p].name);
    state.second_moments.emplace_back();
    resize_or_throw(state.second_moments.back(), specs[p].size(), specs[p].name);
  }
  perturb(state.weights, config);
  return state;
}

void branch_off(TrainingState& state, const TrainingConfig& config) {
  check(config);
  const std::vector<ParameterSpec> specs = parameters_of(config.model);
  for (const auto* tensors : {&state.weights, &state.first_moments, &state.second_moments}) {
    const bool is_of_it = std::equal(
        tensors->begin(), tensors->end(), specs.begin(), specs.end(),
        [](const std::vector<float>& tensor, const ParameterSpec& spec) { return std::ssize(tensor) == spec.size(); });
    if (!is_of_it) throw Error(ErrorKind::usage, "a branch begins with a state of its own model; this is of another");
  }
  perturb(state.weights, config);
  for (auto* moments : {&state.first_moments, &state.second_moments}) {
    reorder(*moments, config);
    for (std::vector<float>& tensor : *moments) {
      for (float& moment : tensor) moment = stored(config.optimizer, moment);
    }
  }
}

namespace {

// The finalizer of SplitMix64.
constexpr std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9;
  x ^= x >> 27;
  x *= 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

constexpr std::uint64_t term(std::int64_t i, std::uint64_t word) {
  return mix(mix(static_cast<std::uint64_t>(i) + 1) ^ word);
}

// The sum of all terms: modulo 2^64 its order does not matter.
template <class Word>
std::uint64_t digest(std::int64_t count, int threads, Word word, std::int64_t first = 0) {
  constexpr std::int64_t kPart = 1 << 16;
  std::vector<std::uint64_t> parts(static_cast<std::size_t>((count + kPart - 1) / kPart));
  parallel_ranges(std::ssize(parts), count, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      std::uint64_t sum = 0;
      const std::int64_t last = std::min(count, (part + 1) * kPart);
      for (std::int64_t i = part * kPart; i < last; ++i) sum += term(first + i, word(static_cast<std::size_t>(i)));
      parts[static_cast<std::size_t>(part)] = sum;
    }
  });
  std::uint64_t sum = 0;
  for (const std::uint64_t part : parts) sum += part;
  return sum;
}

}  // namespace

std::uint64_t tensor_digest(std::span<const float> values, int threads, std::int64_t first) {
  const auto word = [&](std::size_t i) -> std::uint64_t {
    return std::isnan(values[i]) ? 0x7FFFFFFFU : std::bit_cast<std::uint32_t>(values[i]);
  };
  return digest(std::ssize(values), threads, word, first);
}

std::uint64_t tensor_digest(std::span<const std::uint16_t> bf16, int threads) {
  return digest(std::ssize(bf16), threads,
                [&](std::size_t i) -> std::uint64_t { return (bf16[i] & 0x7FFFU) > 0x7F80U ? 0x7FFFU : bf16[i]; });
}

std::uint64_t digest_of_digests(std::span<const std::uint64_t> digests) {
  return digest(std::ssize(digests), 1, [&](std::size_t i) { return digests[i]; });
}

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
  Scales(const QuantizedTensor& q, std::int64_t rows, std::span<const std::int64_t> offsets)
      : cols_(q.scale_cols()),
        block_cols_(std::max<std::int64_t>(1, q.block().width(q.cols()))),
        row_of_(rows_of(q, rows)) {
    double outer = 1;  // of the whole tensor
    if (q.levels.size() > 1 && !q.levels[1].scales.empty()) {
      const auto [multiplier, divisor] = q.levels[1].multiplier_and_divisor(0);
      outer = multiplier / divisor;
    }
    for (std::size_t i = 0; i < q.scales().size(); ++i) values_.push_back(q.scale(i) * outer);
    if (q.block().rows <= 1) return;
    const std::vector<std::int64_t> starts = block_row_starts(rows, q.block().rows, offsets);
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
  static std::vector<std::int64_t> rows_of(const QuantizedTensor& q, std::int64_t rows) {
    std::vector<std::int64_t> row_of(static_cast<std::size_t>(rows), 0);
    for (std::size_t r = 0; q.block().rows == 1 && r < row_of.size(); ++r) row_of[r] = static_cast<std::int64_t>(r);
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
               int threads, std::vector<OperandFacts>& facts) {
  if (!x.is_quantized) return;
  const QuantizedTensor& q = x.quantized;
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
  const double largest = decode(q.element(), spec(q.element()).max_code);
  const std::vector<bool> zero = zero_codes(q.element());
  std::atomic<std::int64_t> saturated = 0;
  std::atomic<std::int64_t> flushed = 0;
  const auto count_row = [&](std::int64_t r) {
    const std::int64_t from = original.index.empty() ? r : original.index[static_cast<std::size_t>(r)];
    std::int64_t saturated_of_row = 0;
    std::int64_t flushed_of_row = 0;
    for (std::int64_t c = 0; c < x.cols; ++c) {
      const auto at = static_cast<std::size_t>(r * x.cols + c);
      const std::uint16_t word =
          x.rotated.empty() ? original.words[static_cast<std::size_t>(from * x.cols + c)] : x.rotated[at];
      const double value = std::abs(double{fp32_of(word)});
      const std::uint32_t code = q.codes.code(at);
      const double scale = scales.at(r, c);
      const bool is_zero = zero[code] || scale == 0;
      // The product with one level's scale is exact before it is rounded: two FP32 numbers, of which one has 4 bits. A
      // NaN is neither.
      if (!is_zero && value > double{static_cast<float>(largest * scale)}) ++saturated_of_row;
      if (value > 0 && is_zero) ++flushed_of_row;
    }
    saturated += saturated_of_row, flushed += flushed_of_row;
  };
  parallel_ranges(x.rows, f.elements, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) count_row(r);
  });
  f.saturated = saturated, f.flushed = flushed;
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
              is_gathered ? std::span<const std::int64_t>(routes_.offsets) : std::span<const std::int64_t>(),
              layer_.threads, facts_);
  }
  // In the order of the routed rows.
  void of_rows(const char* name, const LayerOperand& x, std::span<const std::uint16_t> words) {
    add_facts(name, x, {words, {}}, routes_.offsets, layer_.threads, facts_);
  }
  // Weights of every expert, as they are or transposed.
  void of_weights(const char* name, const LayerOperand& x, std::span<const std::uint16_t> words) {
    std::vector<std::int64_t> offsets;
    for (std::int64_t e = 0; e <= layer_.shape.experts; ++e) offsets.push_back(e * (x.rows / layer_.shape.experts));
    add_facts(name, x, {words, {}}, offsets, layer_.threads, facts_);
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
