// A step as a whole: its gradients against derivatives of the model in double precision, what training does to the
// loss, and what must not change a bit. The operations have tests of their own.

#include <boost/multiprecision/cpp_bin_float.hpp>

#include "numerics/elementary/elementary.h"
#include "reference/layer/run.h"
#include "reference/router/router.h"
#include "reference/training/observe.h"
#include "reference/training/optimizer.h"
#include "reference/training/passes.h"
#include "reference/training/step.h"
#include "tests/reference/training/exact_model.h"
#include "tests/reference/training/test_training.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

struct Differentiated {
  std::vector<std::vector<float>> gradients;
  float loss = 0;
  exact_model::Routes routes;
};

Differentiated differentiate(const TrainingConfig& config, const TrainingState& state,
                             const std::vector<std::uint8_t>& data) {
  const PassSetting s{.config = config, .recipe = config.recipe, .sequences = config.batch, .threads = 1};
  const PassWeights w = pass_weights(config.model, state.weights, 1);
  const RotaryTable table = rotary_table(config.model.length, config.model.head_width());
  const auto length = static_cast<std::size_t>(config.model.length);
  std::vector<std::uint8_t> inputs, targets;
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (i % (length + 1) != length) inputs.push_back(data[i]);
    if (i % (length + 1) != 0) targets.push_back(data[i]);
  }
  ForwardPass pass = forward(s, table, w, inputs);
  const TokenLoss loss = token_loss(pass.logits, targets, 1);
  Differentiated d;
  d.loss = loss.loss;
  for (const LayerPass& layer : pass.layers) d.routes.push_back(layer.chosen);
  d.gradients = backward(s, table, w, inputs, pass, loss.d_logits);
  return d;
}

exact_model::Weights as_doubles(const TrainingState& state) {
  exact_model::Weights w;
  for (const std::vector<float>& weight : state.weights) w.emplace_back(weight.begin(), weight.end());
  return w;
}

// Along the gradient g of one parameter the loss must grow by |g|. With an error of relative size e in g, that is
// across the true gradient, the growth is |g| / (1 + e^2); along it, |g| (1 - e). Gradients are made of some ten
// factors that are each rounded to BF16 once, 2^-9, so 2^-5 is above what roundings do; weights are rounded to BF16 on
// their way too, which moves the point. A factor that is missing, or a sign, is far above it.
TEST(TrainingStep, gradients_are_derivatives_of_the_loss) {
  TrainingConfig config = test_config("bf16");
  config.balance = 0.5F;
  const std::vector<std::uint8_t> data = test_data(config);
  TrainingState state = initial_state(config, 1);
  for (int step = 0; step < 3; ++step) training_step(config, state, test_data(config, step), false, 1);
  const Differentiated d = differentiate(config, state, data);
  const exact_model::Weights weights = as_doubles(state);
  const std::vector<ParameterSpec> specs = parameters_of(config.model);
  const auto total = [&](const exact_model::Weights& w) {
    const exact_model::Loss loss = exact_model::loss(config, w, data, d.routes);
    return loss.tokens + loss.balance;
  };
  EXPECT_NEAR(exact_model::loss(config, weights, data, d.routes).tokens, d.loss, 0x1p-7 * d.loss);
  for (std::size_t p = 0; p < specs.size(); ++p) {
    double squares = 0;
    for (const float g : d.gradients[p]) squares += double{g} * double{g};
    const double size = std::sqrt(squares);
    ASSERT_GT(size, 0) << specs[p].name;
    const auto moved = [&](double by) {
      exact_model::Weights w = weights;
      for (std::size_t i = 0; i < w[p].size(); ++i) w[p][i] += by * double{d.gradients[p][i]} / size;
      return total(w);
    };
    constexpr double kBy = 0x1p-10;
    const double growth = (moved(kBy) - moved(-kBy)) / (2 * kBy);
    EXPECT_LE(std::abs(growth - size), 0x1p-5 * size) << specs[p].name << ": |g| " << size << ", growth " << growth;
  }
}

TEST(TrainingStep, the_loss_falls_under_every_recipe) {
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    TrainingConfig config = test_config(recipe.name);
    config.optimizer.peak_rate = 0.01F;
    TrainingState state = initial_state(config, 1);
    const float first = training_step(config, state, test_data(config, 0), false, 1).loss;
    float last = 0;
    for (int step = 1; step < 12; ++step) last = training_step(config, state, test_data(config, step), false, 1).loss;
    EXPECT_NEAR(first, std::log(256.0) + 0.5, 0.5) << recipe.name;  // logits of variance 1: ln 256 + 1/2 and some luck
    EXPECT_LT(last, first - 1) << recipe.name;
    EXPECT_EQ(state.step, 12);
    EXPECT_EQ(state.updates, 12);
  }
}

void expect_equal(const StepOutcome& a, const StepOutcome& b) {
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.balance_loss, b.balance_loss);
  EXPECT_EQ(a.gradient_norm, b.gradient_norm);
  EXPECT_EQ(a.weights_digest, b.weights_digest);
  EXPECT_EQ(a.parameter_digests, b.parameter_digests);
}

TEST(TrainingStep, threads_and_observation_change_no_bit) {
  for (const char* rule : {"none", "nr-f", "sr-f"}) {
    TrainingConfig config = test_config("mxfp8");
    config.rounding = token_rounding_rule_named(rule);
    config.tile = 8;
    TrainingState one = initial_state(config, 1);
    TrainingState three = initial_state(config, 3);
    for (int step = 0; step < 2; ++step) {
      const StepOutcome a = training_step(config, one, test_data(config, step), true, 1);
      const StepOutcome b = training_step(config, three, test_data(config, step), false, 3);
      expect_equal(a, b);
      ASSERT_EQ(a.layers.size(), 2U);
      for (std::size_t l = 0; l < 2; ++l) EXPECT_EQ(a.layers[l].output_digest, b.layers[l].output_digest);
    }
  }
}

// The last layer alone is in BF16: it has no quantized operand, the first has those of the recipe, and the step is
// neither that of the recipe nor that of BF16.
TEST(TrainingStep, the_last_layers_may_stay_in_bf16) {
  TrainingConfig config = test_config("mxfp8");
  const auto step_of = [&](const TrainingConfig& c) {
    TrainingState state = initial_state(c, 1);
    return training_step(c, state, test_data(c), true, 1);
  };
  const StepOutcome whole = step_of(config), bf16 = step_of(test_config("bf16"));
  config.bf16_last = 1;
  const StepOutcome one = step_of(config);
  ASSERT_EQ(one.layers.size(), 2U);
  EXPECT_EQ(one.layers[0].operands.size(), 12U);
  EXPECT_TRUE(one.layers[1].operands.empty());
  EXPECT_EQ(one.layers[0].output_digest, whole.layers[0].output_digest);
  EXPECT_NE(one.layers[1].output_digest, whole.layers[1].output_digest);
  EXPECT_NE(one.layers[1].output_digest, bf16.layers[1].output_digest);
  EXPECT_NE(one.weights_digest, whole.weights_digest);
  EXPECT_NE(one.weights_digest, bf16.weights_digest);
  TrainingState state = initial_state(config, 1);
  EXPECT_EQ(evaluate(config, state, config.recipe, test_data(config), 1).loss, one.loss);
  for (const std::int64_t wrong : {-1, 2}) {
    config.bf16_last = wrong;
    expect_error(ErrorKind::usage, "of 2 layers; 0 to 1 is needed", [&] { check(config); });
  }
  config = test_config("bf16");
  config.bf16_last = 1;
  expect_error(ErrorKind::usage, "of the recipe bf16, whose layers are all in BF16", [&] { check(config); });
}

// Sequences that see one another, or positions that see later ones, would change: the loss of the first sequence is the
// same with another second one, and a later byte changes no route of an earlier position.
TEST(TrainingStep, positions_see_only_what_is_before_them) {
  TrainingConfig config = test_config("bf16");
  const TrainingState state = initial_state(config, 1);
  std::vector<std::uint8_t> data = test_data(config);
  const Evaluation before = evaluate(config, state, config.recipe, data, 1);
  const std::size_t changed = 12;  // a position of the first sequence
  data[changed] ^= 1;
  const Evaluation after = evaluate(config, state, config.recipe, data, 1);
  const auto k = static_cast<std::size_t>(config.model.top_k);
  const auto length = static_cast<std::size_t>(config.model.length);
  for (std::size_t l = 0; l < before.routes.size(); ++l) {
    for (std::size_t i = 0; i < before.routes[l].size(); ++i) {
      const std::size_t position = i / k;
      if (position < changed || position >= length) {
        EXPECT_EQ(before.routes[l][i], after.routes[l][i]) << l << ' ' << position;
      }
    }
  }
  EXPECT_NE(before.loss, after.loss);
}

TEST(TrainingStep, a_router_that_overflows_ends_the_step_and_updates_nothing) {
  TrainingConfig config = test_config("mxfp8");
  TrainingState state = initial_state(config, 1);
  const LayerParameters second = parameters_of_layer(1);
  state.weights[second.router][5] = kInf;
  const std::vector<std::vector<float>> before = state.weights;
  const StepOutcome outcome = training_step(config, state, test_data(config), false, 1);
  EXPECT_TRUE(std::isnan(outcome.loss));
  EXPECT_TRUE(std::isnan(outcome.balance_loss));
  EXPECT_TRUE(std::isnan(outcome.gradient_norm));
  EXPECT_FALSE(outcome.updated);
  EXPECT_EQ(outcome.skipped, parameter_count(config.model));
  EXPECT_EQ(outcome.layers.size(), 1U);
  EXPECT_EQ(state.weights, before);
  EXPECT_EQ(state.step, 1);
  EXPECT_EQ(state.updates, 0);
  EXPECT_TRUE(std::isnan(evaluate(config, state, config.recipe, test_data(config), 1).loss));
}

TEST(TrainingStep, a_nan_in_a_weight_is_seen_in_loss_and_norm) {
  TrainingConfig config = test_config("bf16");
  TrainingState state = initial_state(config, 1);
  state.weights.back()[3] = kNaN;  // of the output: no router sees it
  const StepOutcome outcome = training_step(config, state, test_data(config), false, 1);
  EXPECT_TRUE(std::isnan(outcome.loss));
  EXPECT_TRUE(std::isnan(outcome.gradient_norm));
  EXPECT_FALSE(outcome.updated);
  EXPECT_EQ(outcome.layers.size(), 2U);
}

TEST(TrainingStep, an_evaluation_has_the_loss_of_a_step_on_the_same_data) {
  const TrainingConfig config = test_config("mxfp8");
  TrainingState state = initial_state(config, 1);
  const Evaluation evaluation = evaluate(config, state, config.recipe, test_data(config), 1);
  const Evaluation bf16 = evaluate(config, state, layer_recipe_named("bf16"), test_data(config), 1);
  EXPECT_EQ(evaluation.loss, training_step(config, state, test_data(config), false, 1).loss);
  EXPECT_NE(evaluation.loss, bf16.loss);
  EXPECT_EQ(evaluation.routes[0], bf16.routes[0]);  // nothing before them is quantized
}

TEST(TrainingStep, sizes_that_do_not_agree_are_refused) {
  const TrainingConfig config = test_config("bf16");
  TrainingState state = initial_state(config, 1);
  std::vector<std::uint8_t> data = test_data(config);
  data.pop_back();
  EXPECT_THROW(training_step(config, state, data, false, 1), Error);
  EXPECT_THROW(evaluate(config, state, config.recipe, data, 1), Error);
  EXPECT_THROW(evaluate(config, state, config.recipe, {}, 1), Error);
  state.weights[2].pop_back();
  EXPECT_THROW(training_step(config, state, test_data(config), false, 1), Error);
  EXPECT_EQ(state.step, 0);
}

// Known answers are from the formula in arbitrary-precision integers (Python).

TEST(Digest, has_known_answers) {
  EXPECT_EQ(tensor_digest(std::vector<float>{}, 1), 0U);
  EXPECT_EQ(tensor_digest(std::vector<float>{1.0F, -0.0F, kNaN, 3.5F}, 1), 0x7d1571942da4efebU);
  EXPECT_EQ(tensor_digest(std::vector<std::uint16_t>{0x3f80, 0x8000, 0x7fff}, 1), 0x65d04b20902e44ebU);
  EXPECT_EQ(digest_of_digests(std::vector<std::uint64_t>{0x0123456789abcdef, 0xfedcba9876543210}), 0x3ec848f28b70cd24U);
  std::vector<float> counted;
  for (int i = 0; i < 70000; ++i) counted.push_back(static_cast<float>(i));
  for (const int threads : {1, 2, 3}) EXPECT_EQ(tensor_digest(counted, threads), 0xccd4898199ebc03fU);
}

TEST(Digest, every_nan_counts_alike_and_infinities_do_not) {
  const auto of = [](std::uint32_t bits) { return tensor_digest(std::vector<float>{std::bit_cast<float>(bits)}, 1); };
  EXPECT_EQ(of(0x7F800001), of(0xFFFFFFFF));
  EXPECT_NE(of(0x7F800000), of(0x7FFFFFFF));
  EXPECT_NE(of(0x7F800000), of(0xFF800000));
  const auto of_bf16 = [](std::uint16_t word) { return tensor_digest(std::vector<std::uint16_t>{word}, 1); };
  EXPECT_EQ(of_bf16(0x7F81), of_bf16(0xFFC0));
  EXPECT_NE(of_bf16(0x7F80), of_bf16(0x7FFF));
}

TEST(Digest, a_bit_an_exchange_and_a_length_are_seen) {
  std::vector<float> v = plain::values(100, 1);
  std::set<std::uint64_t> digests{tensor_digest(v, 1)};
  for (float& x : v) {
    const float kept = x;
    x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) ^ 1U);
    EXPECT_TRUE(digests.insert(tensor_digest(v, 1)).second);
    x = kept;
  }
  std::swap(v[3], v[4]);
  EXPECT_TRUE(digests.insert(tensor_digest(v, 1)).second);
  v.push_back(0);
  EXPECT_TRUE(digests.insert(tensor_digest(v, 1)).second);
}

// Facts about quantized operands, against a count over dequantized tensors of a layer whose inputs reach both ends of
// E4M3.

std::vector<std::uint16_t> wide_values(std::size_t count, int seed) {
  std::vector<std::uint16_t> words;
  for (std::size_t i = 0; i < count; ++i) {
    const auto r = philox_word(static_cast<std::uint64_t>(seed), static_cast<std::uint32_t>(i), 0, 0, 0);
    const int exponent = static_cast<int>(r % 28) - 20;
    const float value = std::ldexp(1.0F + static_cast<float>(r >> 25) / 128.0F, exponent);
    const auto word = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
    words.push_back(r & (1U << 20) ? static_cast<std::uint16_t>(word | 0x8000U) : word);
  }
  return words;
}

LayerRoutes two_of_three_experts() {
  Routes choice{40, 2, {}, std::vector<float>(80, 0.5F)};
  for (std::int32_t t = 0; t < 40; ++t) choice.experts.push_back(t % 3), choice.experts.push_back((t + 1 + t % 2) % 3);
  return layer_routes(choice, 3);
}

struct Inputs {
  std::vector<std::uint16_t> x = wide_values(40 * 64, 1);
  std::vector<std::uint16_t> d_o = wide_values(40 * 64, 2);
  std::vector<std::uint16_t> w1 = wide_values(3 * 64 * 128, 3);
  std::vector<std::uint16_t> w2 = wide_values(3 * 64 * 64, 4);
  LayerRoutes routes = two_of_three_experts();

  [[nodiscard]] Layer layer(const std::string& recipe) const {
    return {{40, 64, 64, 3}, &layer_recipe_named(recipe), GateUp::halves, w1, w2, 1};
  }
};

struct Computed {
  LayerForward f;
  LayerBackward b;
  std::map<std::string, OperandFacts> facts;
};

std::vector<OperandFacts> facts_of(const Inputs& in, const std::string& recipe, Computed* computed = nullptr) {
  const Layer layer = in.layer(recipe);
  Computed c;
  c.f = layer_forward(layer, in.x, in.routes);
  c.b = layer_backward(layer, c.f.kept, in.d_o, in.routes);
  std::vector<OperandFacts> facts;
  forward_facts(layer, in.x, in.routes, c.f, facts);
  backward_facts(layer, in.x, in.d_o, in.routes, c.b, facts);
  if (computed != nullptr) *computed = std::move(c);
  return facts;
}

Computed compute(const std::string& recipe) {
  Computed c;
  const std::vector<OperandFacts> facts = facts_of(Inputs(), recipe, &c);
  for (const OperandFacts& f : facts) EXPECT_TRUE(c.facts.emplace(f.name, f).second) << f.name;
  return c;
}

TEST(OperandFacts, there_is_one_entry_for_each_quantized_operand) {
  EXPECT_TRUE(compute("bf16").facts.empty());
  EXPECT_EQ(compute("mxfp8").facts.size(), 12U);
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    std::size_t quantized = 0;
    for (const GemmRule& gemm : recipe.gemms) quantized += gemm.a.quantized() + std::size_t{gemm.b.quantized()};
    EXPECT_EQ(compute(recipe.name).facts.size(), quantized) << recipe.name;
  }
}

// A's rows are known in BF16 from the pass itself, so that flushed and saturated elements can be counted by value: what
// is 0 after dequantization and was not before; what is above the largest number times the scale, which only a scale
// rule that rounds the scale down allows.
TEST(OperandFacts, counts_of_the_activations_are_those_of_the_dequantized_tensor) {
  for (const char* name : {"mxfp8", "mxfp8_floor", "dsv3", "dsv3_pow2", "fp8_tensor"}) {
    const Computed c = compute(name);
    const OperandFacts& f = c.facts.at("down.a");
    const std::vector<float> back = dequantize(c.f.down_a.quantized);
    std::int64_t flushed = 0, saturated = 0;
    for (std::size_t i = 0; i < back.size(); ++i) {
      flushed += back[i] == 0 && fp32_of(c.f.a[i]) != 0;
      const bool is_largest = (c.f.down_a.quantized.codes.code(i) & 0x7F) == 0x7E;  // of E4M3
      saturated += is_largest && std::abs(fp32_of(c.f.a[i])) > std::abs(back[i]);
    }
    EXPECT_EQ(f.saturated, saturated) << name;
    EXPECT_EQ(f.elements, std::ssize(back)) << name;
    EXPECT_EQ(f.flushed, flushed) << name;
    EXPECT_GT(f.flushed, 0) << name;
    EXPECT_LE(f.least_exponent, f.largest_exponent) << name;
    const QuantizedTensor& q = c.f.down_a.quantized;
    EXPECT_EQ(f.scales, static_cast<std::int64_t>(q.scales().size())) << name;
  }
  EXPECT_EQ(compute("mxfp8").facts.at("down.a").saturated, 0);  // rceil never cuts the largest element
  EXPECT_GT(compute("mxfp8_floor").facts.at("down.a").saturated, 0);
}

// dO is gathered for d_w2 and quantized along tokens: each element is counted once a route, against its token's value.
TEST(OperandFacts, gathered_operands_are_compared_with_their_tokens) {
  const Computed c = compute("mxfp8");
  const std::vector<std::uint16_t> d_o = wide_values(40 * 64, 2);
  const OperandFacts& f = c.facts.at("d_w2.b");
  EXPECT_EQ(f.elements, 80 * 64);
  std::vector<std::int32_t> tokens;
  for (std::int32_t e = 0; e < 3; ++e) {
    for (std::int32_t t = 0; t < 40; ++t) {
      if (t % 3 == e || (t + 1 + t % 2) % 3 == e) tokens.push_back(t);
    }
  }
  ASSERT_EQ(tokens.size(), 80U);
  std::vector<std::int64_t> offsets{0};
  for (std::int32_t e = 0; e < 3; ++e) {
    std::int64_t rows = 0;
    for (std::int32_t t = 0; t < 40; ++t) rows += t % 3 == e || (t + 1 + t % 2) % 3 == e;
    offsets.push_back(offsets.back() + rows);
  }
  const std::vector<float> back = dequantize(c.b.d_w2_b.quantized, offsets);
  std::int64_t flushed = 0;
  for (std::size_t i = 0; i < back.size(); ++i)
    flushed += back[i] == 0 && fp32_of(d_o[static_cast<std::size_t>(tokens[i / 64]) * 64 + i % 64]) != 0;
  EXPECT_EQ(f.flushed, flushed);
  EXPECT_GT(flushed, 0);
}

// The products that a layer computed are enough to make its observation again, under every recipe.
TEST(ObserveLayer, makes_the_facts_again_from_two_products) {
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    const Inputs in;
    const Layer layer = in.layer(recipe.name);
    const LayerForward f = layer_forward(layer, in.x, in.routes);
    const LayerBackward b = layer_backward(layer, f.kept, in.d_o, in.routes);
    const LayerObservation observed = observe_layer(layer, in.x, in.d_o, in.routes, {f.h, b.p});
    EXPECT_EQ(observed.operands, facts_of(in, recipe.name)) << recipe.name;
    EXPECT_EQ(observed.expert_loads, expert_loads(in.routes));
    EXPECT_EQ(std::accumulate(observed.expert_loads.begin(), observed.expert_loads.end(), std::int64_t{0}), 80);
    std::vector<std::uint16_t> other = f.h;
    for (std::uint16_t& word : other) word ^= 0x0800U;
    if (!recipe.gemm(LayerGemm::down).a.quantized()) continue;
    EXPECT_NE(observe_layer(layer, in.x, in.d_o, in.routes, {other, b.p}).operands, observed.operands) << recipe.name;
  }
}

TEST(ObserveLayer, products_of_another_size_are_refused) {
  const Inputs in;
  const Layer layer = in.layer("mxfp8");
  const std::vector<std::uint16_t> h(80 * 128);
  const std::vector<float> p(80 * 64);
  EXPECT_NO_THROW(observe_layer(layer, in.x, in.d_o, in.routes, {h, p}));
  EXPECT_THROW(observe_layer(layer, in.x, in.d_o, in.routes, {std::span(h).first(h.size() - 1), p}), Error);
  EXPECT_THROW(observe_layer(layer, in.x, in.d_o, in.routes, {h, std::span(p).first(p.size() - 1)}), Error);
}

using namespace plain;

// RN(fma(a, b, c)): 168 bits hold the sum of the numbers here exactly.
float fused(float a, float b, float c) {
  using Real = boost::multiprecision::cpp_bin_float_50;
  return Real(Real(a) * Real(b) + Real(c)).convert_to<float>();
}

std::vector<std::vector<float>> gradients_of(const TrainingConfig& config, float size) {
  std::vector<std::vector<float>> gradients;
  std::uint32_t seed = 1;
  for (const ParameterSpec& p : parameters_of(config.model)) {
    gradients.push_back(values(static_cast<std::size_t>(p.size()), ++seed, 6));
    for (float& g : gradients.back()) g *= size;
  }
  return gradients;
}

TEST(GradientNorm, is_the_stated_sum_of_squares) {
  for (const std::size_t size : {1U, 5U, 16384U, 16385U, 100000U}) {
    const std::vector<std::vector<float>> g{values(size, 1), values(3, 2)};
    float total = 0;
    for (const std::vector<float>& tensor : g) {
      std::vector<float> squares;
      for (const float v : tensor) squares.push_back(mul(v, v));
      total = add(total, pairwise(squares));
    }
    EXPECT_EQ(gradient_norm(g, 1), root(total)) << size;
    EXPECT_EQ(gradient_norm(g, 3), root(total)) << size;
  }
}

// The root hides a sum's last bit half the time: many sums, of sizes that end within a subtree.
TEST(GradientNorm, has_the_tree_of_the_pairwise_sum_at_every_size) {
  for (std::uint32_t seed = 1; seed <= 24; ++seed) {
    const std::vector<std::vector<float>> g{values(30000 + 3001 * seed, seed, 4)};
    std::vector<float> squares;
    for (const float v : g[0]) squares.push_back(mul(v, v));
    EXPECT_EQ(gradient_norm(g, 2), root(pairwise(squares))) << seed;
  }
}

TEST(GradientNorm, is_nan_or_infinite_where_the_sum_is) {
  EXPECT_TRUE(std::isnan(gradient_norm(std::vector<std::vector<float>>{{1}, {std::nanf("")}}, 1)));
  EXPECT_TRUE(std::isinf(gradient_norm(std::vector<std::vector<float>>{{1e30F}, {1}}, 1)));
}

// Two updates, element by element, as docs/training.md writes them.
TEST(AdamW, weights_and_moments_are_those_of_the_definition) {
  for (const Format moments : {Format::fp32, Format::bf16}) {
    for (const float size : {1e-3F, 10.0F}) {  // below the limit, and clipped
      TrainingConfig config = test_config("bf16");
      config.optimizer.moments = moments;
      const OptimizerConfig& o = config.optimizer;
      TrainingState state = initial_state(config, 1);
      TrainingState plain_state = state;
      for (std::int64_t t = 1; t <= 2; ++t) {
        std::vector<std::vector<float>> g = gradients_of(config, size);
        const std::vector<std::vector<float>> given = g;
        const float norm = size * 7;
        update(config, state, g, norm, 0.01F, 3);
        for (std::size_t p = 0; p < g.size(); ++p) {
          const bool decays = parameters_of(config.model)[p].kind == ParameterKind::matrix;
          for (std::size_t i = 0; i < g[p].size(); ++i) {
            const auto stored = [&](float v) { return moments == Format::bf16 ? wide(bf16(v)) : v; };
            const float clipped = norm > o.clip ? mul(given[p][i], div(o.clip, norm)) : given[p][i];
            float& m = plain_state.first_moments[p][i];
            float& v = plain_state.second_moments[p][i];
            float& w = plain_state.weights[p][i];
            m = stored(fused(o.beta1, m, mul(sub(1, o.beta1), clipped)));
            v = stored(fused(o.beta2, v, mul(sub(1, o.beta2), mul(clipped, clipped))));
            float step =
                div(div(m, bias_correction(o.beta1, t)), add(root(div(v, bias_correction(o.beta2, t))), o.epsilon));
            if (decays) step = add(step, mul(o.decay, w));
            w = sub(w, mul(0.01F, step));
          }
          ASSERT_EQ(state.first_moments[p], plain_state.first_moments[p]) << p;
          ASSERT_EQ(state.second_moments[p], plain_state.second_moments[p]) << p;
          ASSERT_EQ(state.weights[p], plain_state.weights[p]) << p;
          if (t == 2) break;  // one parameter will do the second time
        }
        EXPECT_EQ(state.updates, t);
      }
    }
  }
}

TEST(AdamW, a_norm_at_the_limit_is_not_clipped) {
  TrainingConfig config = test_config("bf16");
  const TrainingState start = initial_state(config, 1);
  const auto moment = [&](float norm) {
    TrainingState state = start;
    std::vector<std::vector<float>> g = gradients_of(config, 1);
    update(config, state, g, norm, 0.01F, 1);
    return state.first_moments[0][0];
  };
  EXPECT_EQ(moment(1), moment(0.5F));
  EXPECT_NE(moment(1), moment(std::nextafter(1.0F, 2.0F)));
}

TEST(AdamW, a_state_of_fewer_parameters_is_refused) {
  const TrainingConfig config = test_config("bf16");
  for (auto list : {&TrainingState::weights, &TrainingState::first_moments, &TrainingState::second_moments}) {
    TrainingState state = initial_state(config, 1);
    (state.*list).pop_back();
    std::vector<std::vector<float>> g = gradients_of(config, 1);
    EXPECT_THROW(update(config, state, g, 1, 0.01F, 1), Error);
    EXPECT_EQ(state.updates, 0);
  }
}

TEST(AdamW, sizes_that_do_not_agree_are_refused_before_anything_is_updated) {
  const TrainingConfig config = test_config("bf16");
  TrainingState state = initial_state(config, 1);
  const TrainingState before = state;
  std::vector<std::vector<float>> g = gradients_of(config, 1);
  g.back().pop_back();
  EXPECT_THROW(update(config, state, g, 1, 0.01F, 1), Error);
  g.pop_back();
  EXPECT_THROW(update(config, state, g, 1, 0.01F, 1), Error);
  EXPECT_EQ(state.weights, before.weights);
  EXPECT_EQ(state.updates, 0);
}

TEST(InitialState, elements_are_those_of_the_definition) {
  const TrainingConfig config = test_config("bf16");
  const TrainingState state = initial_state(config, 1);
  const std::vector<ParameterSpec> specs = parameters_of(config.model);
  ASSERT_EQ(state.weights.size(), specs.size());
  for (std::size_t p = 0; p < specs.size(); ++p) {
    ASSERT_EQ(std::ssize(state.weights[p]), specs[p].size());
    EXPECT_EQ(state.first_moments[p], std::vector<float>(state.weights[p].size()));
    EXPECT_EQ(state.second_moments[p], std::vector<float>(state.weights[p].size()));
    for (const std::size_t i : {std::size_t{0}, std::size_t{17}, state.weights[p].size() - 1}) {
      double sum = 0;
      for (std::uint32_t j = 0; j < 6; ++j) {
        const std::uint32_t word =
            philox_word(config.seed, static_cast<std::uint32_t>(i), 0, static_cast<std::uint32_t>(p), j);
        sum += static_cast<double>(word & 0xFFFF) + static_cast<double>(word >> 16);
      }
      const double z = (sum - 393210) / 65536;
      const float right = specs[p].kind == ParameterKind::gain ? 1 : static_cast<float>(double{specs[p].deviation} * z);
      EXPECT_EQ(state.weights[p][i], right) << specs[p].name << ' ' << i;
    }
  }
  EXPECT_EQ(state.step, 0);
  EXPECT_EQ(state.updates, 0);
}

// The mean of n numbers of variance 1 is within 5 / sqrt(n) of 0, the variance within 5 sqrt(2 / n) of 1: five standard
// errors, with numbers that are fixed.
TEST(InitialState, numbers_have_mean_0_and_the_standard_deviation) {
  const TrainingConfig config = test_config("bf16");
  const TrainingState state = initial_state(config, 1);
  const std::vector<ParameterSpec> specs = parameters_of(config.model);
  for (std::size_t p = 0; p < specs.size(); ++p) {
    if (specs[p].kind == ParameterKind::gain) continue;
    double sum = 0, squares = 0;
    for (const float w : state.weights[p]) {
      const double z = double{w} / double{specs[p].deviation};
      sum += z, squares += z * z;
    }
    const auto n = static_cast<double>(state.weights[p].size());
    EXPECT_LE(std::abs(sum / n), 5 / std::sqrt(n)) << specs[p].name;
    EXPECT_LE(std::abs(squares / n - 1), 5 * std::sqrt(2 / n)) << specs[p].name;
  }
}

TEST(InitialState, seeds_differ_and_threads_do_not) {
  TrainingConfig config = test_config("bf16");
  const TrainingState one = initial_state(config, 1);
  EXPECT_EQ(one.weights, initial_state(config, 3).weights);
  config.seed ^= std::uint64_t{1} << 40;  // the high half of the key
  EXPECT_NE(one.weights[0], initial_state(config, 1).weights[0]);
}

TEST(InitialState, perturb_moves_one_weight_by_one_ulp) {
  TrainingConfig config = test_config("bf16");
  const TrainingState before = initial_state(config, 1);
  std::int64_t first = 1;
  for (std::size_t p = 0; p < before.weights.size(); ++p) {
    const auto size = std::ssize(before.weights[p]);
    for (const std::int64_t place : {std::int64_t{0}, size - 1}) {
      config.perturb = first + place;
      TrainingState after = initial_state(config, 1);
      float& moved = after.weights[p][static_cast<std::size_t>(place)];
      EXPECT_EQ(moved, std::nextafter(before.weights[p][static_cast<std::size_t>(place)], kInf));
      moved = before.weights[p][static_cast<std::size_t>(place)];
      EXPECT_EQ(after.weights, before.weights);
    }
    first += size;
  }
  EXPECT_EQ(first, parameter_count(config.model) + 1);
  config.perturb = first;
  EXPECT_THROW(initial_state(config, 1), Error);
}

TEST(InitialState, perturb_all_moves_every_weight_up_or_down) {
  TrainingConfig config = test_config("bf16");
  const TrainingState before = initial_state(config, 1);
  config.perturb = kPerturbAll;
  const TrainingState after = initial_state(config, 1);
  EXPECT_EQ(after.weights, initial_state(config, 3).weights);
  for (std::size_t p = 0; p < before.weights.size(); ++p) {
    std::int64_t up = 0;
    for (std::size_t i = 0; i < before.weights[p].size(); ++i) {
      const double w = before.weights[p][i];
      const bool is_up = after.weights[p][i] == static_cast<float>(w * (1 + 0x1p-8));  // exact in FP64
      ASSERT_TRUE(is_up || after.weights[p][i] == static_cast<float>(w * (1 - 0x1p-8))) << p << " " << i;
      up += is_up ? 1 : 0;
    }
    // A fair coin's count is five deviations (half the root) from the half once in 1.7 million.
    const double size = static_cast<double>(before.weights[p].size());
    EXPECT_LE(std::abs(static_cast<double>(up) - size / 2), 5 * std::sqrt(size) / 2) << p;
  }
}

// Renumbered columns are the same function: the loss differs by the order of sums alone, which is no more than a few
// roundings to BF16, and the weights are the same numbers.
TEST(InitialState, perturb_order_renumbers_columns_and_changes_no_weight) {
  TrainingConfig config = test_config("bf16");
  const TrainingState before = initial_state(config, 1);
  config.perturb = kPerturbOrder;
  TrainingState after = initial_state(config, 1);
  for (std::size_t p = 0; p < before.weights.size(); ++p) {
    std::vector<float> was = before.weights[p], is = after.weights[p];
    if (parameters_of(config.model)[p].kind != ParameterKind::gain) {
      EXPECT_NE(was, is) << p;
    }
    std::sort(was.begin(), was.end()), std::sort(is.begin(), is.end());
    EXPECT_EQ(was, is) << p;
  }
  TrainingState state = before;
  std::vector<std::uint8_t> tokens(static_cast<std::size_t>(config.batch * (config.model.length + 1)));
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint8_t>(i * i % 251);
  const StepOutcome in_order = training_step(config, state, tokens, false, 1);
  const StepOutcome otherwise = training_step(config, after, tokens, false, 1);
  std::sort(state.weights[0].begin(), state.weights[0].end());
  std::sort(after.weights[0].begin(), after.weights[0].end());
  EXPECT_NE(state.weights[0], after.weights[0]) << "no sum was added in another order";
  EXPECT_NEAR(in_order.loss, otherwise.loss, std::abs(in_order.loss) * 0x1p-8);
  EXPECT_NEAR(in_order.gradient_norm, otherwise.gradient_norm, in_order.gradient_norm * 0x1p-6);
}

// Moments go with their weights: with them a branch is the same training in another order, without them another one.
TEST(BranchOff, perturb_order_renumbers_moments_with_their_weights) {
  TrainingConfig config = test_config("bf16");
  TrainingState state = initial_state(config, 1);
  for (std::size_t p = 0; p < state.weights.size(); ++p)
    state.first_moments[p] = state.second_moments[p] = state.weights[p];
  config.perturb = kPerturbOrder;
  branch_off(state, config);
  EXPECT_EQ(state.weights, initial_state(config, 1).weights);
  EXPECT_EQ(state.first_moments, state.weights);
  EXPECT_EQ(state.second_moments, state.weights);
}

}  // namespace
}  // namespace mxcheck
