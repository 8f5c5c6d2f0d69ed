#include "cost/estimate.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "numerics/error.h"
#include "numerics/format/format.h"
#include "numerics/scale/recipe.h"
#include "reference/common/checked_size.h"
#include "reference/matmul/matmul.h"

namespace mxcheck {
namespace {

double bytes_of(Format format) { return spec(format).bits / 8.0; }

// Nothing of a tensor's size is beyond what doubles and indices hold. FP32 is the widest type.
void check_bytes(std::int64_t a, std::int64_t b, std::int64_t c, std::string_view what) {
  checked_product(checked_product(checked_product(a, b, what), c, what), 4, what);
}

bool is_f8f6f4(Format format) {
  return format == Format::e4m3 || format == Format::e5m2 || format == Format::e2m1 || format == Format::e2m3 ||
         format == Format::e3m2;
}

bool has_lines(const OperandRule& rule) { return rule.block.rows == 1; }

Engine hopper_engine(const GemmRule& rule) {
  const std::string_view sum = parse_matmul_contract(rule.contract).sum->name;
  if (sum.starts_with("sm100"))
    refuse_usage("contract " + rule.contract +
                 " is of Blackwell's tensor cores; choose a Blackwell card, such as B200");
  if (!sum.starts_with("sm90_fp8")) return rule.a.quantized() || rule.b.quantized() ? Engine::values : Engine::bf16;
  if (rule.a.of_whole_tensor() && rule.b.of_whole_tensor()) return Engine::fp8_tensor;
  return has_lines(rule.a) && has_lines(rule.b) ? Engine::fp8_lines : Engine::fp8;
}

// By the operands' formats and scales, whatever sums the recipe's contract names: its bits are Hopper's, its cost is
// that of the same operands on this card.
Engine blackwell_engine(const GemmRule& rule) {
  if (!rule.a.quantized() && !rule.b.quantized()) return Engine::bf16;
  if (!rule.a.quantized() || !rule.b.quantized()) return Engine::values;
  if (!is_f8f6f4(rule.a.format) || !is_f8f6f4(rule.b.format)) return Engine::values;
  const bool fours = rule.a.format == Format::e2m1 && rule.b.format == Format::e2m1;
  if (has_two_levels(rule.a) && has_two_levels(rule.b)) return fours ? Engine::nvfp4 : Engine::values;
  if (has_two_levels(rule.a) || has_two_levels(rule.b)) return Engine::values;
  if (rule.a.of_whole_tensor() && rule.b.of_whole_tensor()) return Engine::fp8_tensor;
  const auto is_mx = [](const OperandRule& of) {
    return scale_format_of(of) == Format::e8m0 && !of.of_whole_tensor() && of.block.cols % 32 == 0;
  };
  if (is_mx(rule.a) && is_mx(rule.b)) return fours ? Engine::nvfp4 : Engine::mx;
  return has_lines(rule.a) && has_lines(rule.b) ? Engine::fp8_lines : Engine::fp8;
}

Mover quantizer_of(const OperandRule& rule, bool along_tokens, Engine engine) {
  if (is_ms_eden(rule)) return Mover::ms_eden;
  if (has_two_levels(rule)) {
    if (any_recipe_named(rule.scales).two_level.choice != BlockChoice::none) return Mover::four_over_six;
    return rule.stochastic ? Mover::stochastic : Mover::two_level;
  }
  return along_tokens && engine != Engine::values ? Mover::quantize_tokens : Mover::quantize;
}

// The steps of a GPU's share of the layer.
class Plan {
 public:
  Plan(const LayerShape& shape, const LayerRecipe& recipe, const Card& card, const EstimateOptions& options,
       const Load& load)
      : recipe_(recipe), card_(card), options_(options) {
    const auto gpus = static_cast<double>(options.gpus);
    const double share = load.imbalance / gpus;
    tokens_ = static_cast<double>(shape.tokens);
    d_ = static_cast<double>(shape.d_model), n_ = static_cast<double>(shape.d_expert);
    experts_ = static_cast<double>(shape.experts) / gpus;
    used_ = std::min(experts_, load.used / gpus);
    rows_ = load.rows * share, tile_rows_ = load.tile_rows * share, step_rows_ = load.step_rows * share;
  }

  Pass forward() {
    pass_ = {};
    token_operand("X", LayerGemm::up);
    weight(LayerGemm::up, "W1", 2 * n_);
    gemm_of_rows(LayerGemm::up, 2 * n_, d_);
    move("swiglu", Mover::swiglu, rows_ * n_ * 6 + kept_h_bytes());
    quantize("A", recipe_.gemm(LayerGemm::down).a, LayerGemm::down, rows_ * n_, false);
    weight(LayerGemm::down, "W2", n_);
    gemm_of_rows(LayerGemm::down, d_, n_);
    move("aggregate", Mover::aggregate, rows_ * d_ * 2 + tokens_ * d_ * 2);
    return std::move(pass_);
  }

  Pass backward() {
    pass_ = {};
    token_operand("dO", LayerGemm::d_down);
    weight(LayerGemm::d_down, "W2", n_);
    gemm_of_rows(LayerGemm::d_down, n_, d_);
    const double h = recipe_.kept_h.quantized() ? kept_h_bytes() : rows_ * n_ * 4;
    move("swiglu_backward", Mover::swiglu_backward, h + rows_ * n_ * 10);
    quantize("A' along tokens", recipe_.gemm(LayerGemm::d_w2).a, LayerGemm::d_w2, rows_ * n_, true);
    along_tokens("dO", LayerGemm::d_w2, recipe_.gemm(LayerGemm::d_w2).b, recipe_.gemm(LayerGemm::d_down).a.quantized());
    gemm_of_tokens(LayerGemm::d_w2, n_, d_);
    quantize("dH", recipe_.gemm(LayerGemm::d_up).a, LayerGemm::d_up, rows_ * 2 * n_, false);
    weight(LayerGemm::d_up, "W1", 2 * n_);
    gemm_of_rows(LayerGemm::d_up, d_, 2 * n_);
    quantize("dH along tokens", recipe_.gemm(LayerGemm::d_w1).b, LayerGemm::d_w1, rows_ * 2 * n_, true);
    along_tokens("X", LayerGemm::d_w1, recipe_.gemm(LayerGemm::d_w1).a, true);
    gemm_of_tokens(LayerGemm::d_w1, d_, 2 * n_);
    move("d_aggregate", Mover::aggregate, rows_ * d_ * 2 + tokens_ * d_ * 2);
    return std::move(pass_);
  }

  [[nodiscard]] Kept kept() const {
    return {tokens_ * d_ * (recipe_.keeps_quantized_x ? code_bytes(recipe_.gemm(LayerGemm::up).a) : 2),
            recipe_.kept_h.quantized() ? kept_h_bytes() : rows_ * 2 * n_ * 2};
  }
  [[nodiscard]] bool assumes() const { return assumes_; }

 private:
  [[nodiscard]] double kept_h_bytes() const {
    return recipe_.kept_h.quantized() ? rows_ * 2 * n_ * code_bytes(recipe_.kept_h) : 0;
  }

  double used(const Figure& figure) {
    assumes_ = assumes_ || figure.assumed;
    return figure.value;
  }

  void add(Step step) {
    step.us = std::max(step.compute_us, step.memory_us) + (step.hidden ? 0 : step.dequantize_us) + card_.launch.value;
    pass_.steps.push_back(std::move(step));
  }

  void move(std::string name, Mover mover, double bytes, StepKind kind = StepKind::move, double times = 1) {
    Step step;
    step.name = std::move(name), step.kind = kind, step.bytes = bytes * times;
    step.memory_us = step.bytes / (card_.copy.value * kGiga * used(card_.share_of(mover))) * kMicro;
    add(std::move(step));
  }

  // Bytes of an operand's element as the GEMM reads it.
  [[nodiscard]] double read_bytes(LayerGemm gemm, const OperandRule& rule) const {
    return engine_of(card_, recipe_.gemm(gemm)) == Engine::values ? 2 : code_bytes(rule);
  }

  // `elements` are read in BF16 and written as the GEMM reads them; a scale of the whole tensor takes a pass more, and
  // so does MS-EDEN's rotation, whose results are written, where its values are.
  void quantize(const std::string& tensor, const OperandRule& rule, LayerGemm gemm, double elements, bool tokens,
                double times = 1) {
    if (!rule.quantized()) return;
    const Engine engine = engine_of(card_, recipe_.gemm(gemm));
    double each = 2 + read_bytes(gemm, rule);
    if (has_scale_of_tensor(rule)) each += 2;
    if (rule.rotates != 0 && is_ms_eden(rule) && engine == Engine::values) each += 2;
    move("quantize " + tensor, quantizer_of(rule, tokens, engine), elements * each, StepKind::quantize, times);
  }

  void weight(LayerGemm gemm, const std::string& tensor, double width) {
    quantize(tensor, recipe_.gemm(gemm).b, gemm, experts_ * d_ * width, false, 1 / options_.microbatches);
  }

  void gather(const std::string& tensor, double each) {
    move("gather " + tensor, Mover::gather, (tokens_ + rows_) * d_ * each);
  }

  // X of up, dO of d_down: quantized by tokens, then copied to the rows of their experts.
  void token_operand(const std::string& tensor, LayerGemm gemm) {
    const OperandRule& rule = recipe_.gemm(gemm).a;
    quantize(tensor, rule, gemm, tokens_ * d_, false);
    gather(tensor, read_bytes(gemm, rule));
  }

  // X and dO of weights' gradients: quantized as they are gathered. In BF16 they are the rows that another GEMM read,
  // or are gathered once more.
  void along_tokens(const std::string& tensor, LayerGemm gemm, const OperandRule& rule, bool gathers) {
    if (rule.quantized()) {
      quantize(tensor + " along tokens", rule, gemm, rows_ * d_, true);
    } else if (gathers) {
      gather(tensor + " for " + std::string(spec(gemm).name), 2);
    }
  }

  void add_gemm(LayerGemm gemm, double operations, double bytes, double block, bool over_tokens) {
    const Engine engine = engine_of(card_, recipe_.gemm(gemm));
    const EngineRate* rate = card_.engine(engine);
    if (rate == nullptr)
      refuse_usage("recipe " + recipe_.name + ", GEMM " + std::string(spec(gemm).name) + ": " +
                   std::string(card_.name) + " has no tensor cores for " + std::string(name_of(engine)));
    Step step;
    step.name = spec(gemm).name, step.kind = StepKind::gemm, step.engine = engine;
    step.operations = operations, step.bytes = bytes;
    step.compute_us = operations / (rate->peak.value * kTera * used(over_tokens ? rate->tokens : rate->rows)) * kMicro;
    step.memory_us = bytes / (card_.copy.value * kGiga) * kMicro;
    if (engine == Engine::fp8 || engine == Engine::fp8_lines) {
      step.dequantize_us = dequantize_seconds(operations, block, card_) * kMicro;
      step.hidden = card_.architecture == Architecture::hopper;
    }
    add(std::move(step));
  }

  // Columns of the blocks along k, of the operand that has more of them.
  [[nodiscard]] double block_of(LayerGemm gemm) const {
    double block = 1e9;
    for (const OperandRule* rule : {&recipe_.gemm(gemm).a, &recipe_.gemm(gemm).b}) {
      if (rule->quantized() && !rule->of_whole_tensor()) block = std::min(block, static_cast<double>(rule->block.cols));
    }
    return block;
  }

  void gemm_of_rows(LayerGemm gemm, double columns, double k) {
    const GemmRule& rule = recipe_.gemm(gemm);
    const double bytes = rows_ * k * read_bytes(gemm, rule.a) + used_ * columns * k * read_bytes(gemm, rule.b) +
                         rows_ * columns * bytes_of(spec(gemm).output);
    add_gemm(gemm, 2 * tile_rows_ * columns * k, bytes, block_of(gemm), false);
  }

  void gemm_of_tokens(LayerGemm gemm, double rows, double columns) {
    const GemmRule& rule = recipe_.gemm(gemm);
    const double bytes = rows_ * (rows * read_bytes(gemm, rule.a) + columns * read_bytes(gemm, rule.b)) +
                         experts_ * rows * columns * bytes_of(spec(gemm).output);
    add_gemm(gemm, 2 * step_rows_ * rows * columns, bytes, block_of(gemm), true);
  }

  const LayerRecipe& recipe_;
  const Card& card_;
  const EstimateOptions& options_;
  double tokens_ = 0, d_ = 0, n_ = 0, experts_ = 0, used_ = 0;
  double rows_ = 0, tile_rows_ = 0, step_rows_ = 0;
  Pass pass_;
  bool assumes_ = false;
};

}  // namespace

double product(std::initializer_list<std::int64_t> factors) {
  double of_all = 1;
  for (const std::int64_t factor : factors) of_all *= static_cast<double>(factor);
  return of_all;
}

double Pass::us() const {
  double sum = 0;
  for (const Step& step : steps) sum += step.us;
  return sum;
}

double Pass::us_of(StepKind kind) const {
  double sum = 0;
  for (const Step& step : steps) sum += step.kind == kind ? step.us : 0;
  return sum;
}

double Pass::bytes() const {
  double sum = 0;
  for (const Step& step : steps) sum += step.bytes;
  return sum;
}

void check(const LayerShape& s) {
  const std::pair<std::string_view, std::int64_t> all[] = {{"tokens", s.tokens},
                                                           {"d_model", s.d_model},
                                                           {"d_expert", s.d_expert},
                                                           {"experts", s.experts},
                                                           {"top_k", s.top_k}};
  for (const auto& [name, value] : all) {
    if (value < 1) refuse_usage("layer: " + std::string(name) + " is " + std::to_string(value) + ": must be 1 or more");
  }
  if (s.top_k > s.experts)
    refuse_usage("layer: top_k is " + std::to_string(s.top_k) + ", and there are " + std::to_string(s.experts) +
                 " experts: a token has each expert at most once");
  if (s.experts > kMostExperts)
    refuse_usage("layer: " + std::to_string(s.experts) + " experts: at most " + std::to_string(kMostExperts) +
                 " can be estimated");
  const std::int64_t h = checked_product(s.d_expert, 2, "layer: H");
  check_bytes(s.tokens, s.top_k, h, "layer: H");
  check_bytes(s.tokens, s.top_k, s.d_model, "layer: Y");
  check_bytes(s.experts, s.d_model, h, "layer: W1");
}

double code_bytes(const OperandRule& rule) {
  if (!rule.quantized()) return 2;
  const double code = bytes_of(rule.format);
  if (rule.of_whole_tensor()) return code;
  return code + bytes_of(scale_format_of(rule)) / product({rule.block.rows, rule.block.cols});
}

Engine engine_of(const Card& card, const GemmRule& rule) {
  return card.architecture == Architecture::hopper ? hopper_engine(rule) : blackwell_engine(rule);
}

bool has_engines(const Card& card, const LayerRecipe& recipe) {
  try {
    for (const GemmRule& rule : recipe.gemms) engine_of(card, rule);
  } catch (const Error&) {
    return false;
  }
  return true;
}

double dequantize_seconds(double operations, double block, const Card& card) {
  return operations / block / (card.fp32.value * kTera);
}

double sonicmoe_intensity(const LayerShape& s) {
  const auto d = static_cast<double>(s.d_model);
  const double granularity = d / static_cast<double>(s.d_expert);
  const double rows = product({s.tokens, s.top_k}) / static_cast<double>(s.experts);
  return 3 / ((2 + 2 * granularity) / d + 3 / rows);
}

double sonicmoe_kept(const LayerShape& s) {
  return 2 * product({s.tokens, s.d_model}) + 4 * product({s.tokens, s.top_k, s.d_expert});
}

Estimate estimate(const LayerShape& shape, const LayerRecipe& recipe, const Card& card,
                  const EstimateOptions& options) {
  check(shape);
  if (!(options.microbatches >= 1)) refuse_usage("microbatches: 1 or more are needed");
  if (options.gpus < 1 || shape.experts % options.gpus != 0)
    refuse_usage("expert parallel: " + std::to_string(options.gpus) + " GPUs cannot hold " +
                 std::to_string(shape.experts) + " experts in equal parts: a divisor of the experts is needed");
  LoadSpec spec = options.load;
  for (std::int64_t& count : spec.counts) count = checked_product(count, options.gpus, "load: rows of all GPUs");
  const std::int64_t all_tokens = checked_product(shape.tokens, options.gpus, "tokens of all GPUs");
  Estimate e;
  e.load = load_of(spec, all_tokens, shape.experts, shape.top_k, options.gpus);
  Plan plan(shape, recipe, card, options, e.load);
  e.forward = plan.forward();
  e.backward = plan.backward();
  e.kept = plan.kept();
  e.assumes = plan.assumes();
  const double products = e.load.rows / static_cast<double>(options.gpus) * product({shape.d_model, shape.d_expert});
  e.useful_forward = 6 * products;
  e.useful_backward = 12 * products;
  return e;
}

// pays_from: a scan over powers of two, then bisection.

namespace {

constexpr int kMostPower = 20;

LayerShape with(Dimension dimension, LayerShape shape, std::int64_t value) {
  (dimension == Dimension::d_expert ? shape.d_expert : shape.tokens) = value;
  return shape;
}

}  // namespace

bool is_possible(const LayerShape& shape) {
  try {
    check(shape);
  } catch (const Error&) {
    return false;
  }
  return true;
}

std::int64_t pays_from(Dimension dimension, const LayerShape& shape, const LayerRecipe& recipe, const Card& card,
                       const EstimateOptions& options) {
  check(shape);
  const LayerRecipe& bf16 = layer_recipe_named("bf16");
  EstimateOptions at_each = options;
  if (dimension == Dimension::tokens && options.load.kind == LoadKind::counts) at_each.load = {};
  const auto pays = [&](std::int64_t value) {
    const LayerShape at = with(dimension, shape, value);
    return estimate(at, recipe, card, at_each).us() < estimate(at, bf16, card, at_each).us();
  };
  int most = kMostPower;
  while (most > 0 && !is_possible(with(dimension, shape, std::int64_t{1} << most))) --most;
  int power = most;
  while (power >= 0 && pays(std::int64_t{1} << power)) --power;
  if (power == most) return 0;
  if (power < 0) return 1;
  std::int64_t no = std::int64_t{1} << power;
  std::int64_t yes = no * 2;
  while (yes - no > 1) {
    const std::int64_t middle = no + (yes - no) / 2;
    (pays(middle) ? yes : no) = middle;
  }
  return yes;
}

}  // namespace mxcheck
