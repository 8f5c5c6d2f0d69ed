#include "tests/kernels/sm90/train/first_difference.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <type_traits>

#include "reference/training/passes.h"

namespace mxcheck::test {
namespace {

using Words = std::vector<std::uint16_t>;

template <class T>
bool same(T a, T b) {
  if constexpr (std::is_same_v<T, float>) {
    return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  } else {
    return a == b;
  }
}

class Comparison {
 public:
  explicit Comparison(DeviceRun& run) : run_(run) {}

  template <class T>
  void tensor(const std::string& name, const std::vector<T>& expected) {
    std::vector<T> found = run_.read<T>(name);
    if (found.size() > expected.size()) found.resize(expected.size());  // room for more routed rows
    std::size_t count = expected.size() - found.size();
    std::size_t first = found.size();
    for (std::size_t i = found.size(); i-- > 0;) {
      if (!same(found[i], expected[i])) ++count, first = i;
    }
    if (count == 0) return;
    char text[256];
    std::snprintf(text, sizeof(text), "%s: %zu of %zu differ, first [%zu]: %.9g, expected %.9g\n", name.c_str(), count,
                  expected.size(), first, first < found.size() ? static_cast<double>(found[first]) : NAN,
                  static_cast<double>(expected[first]));
    lines += text;
  }

  std::string lines;

 private:
  DeviceRun& run_;
};

// Columns of qkv from `from` on, by sequence and head, as the device has them.
Words heads_of(const ModelShape& m, std::int64_t sequences, const Words& qkv, std::int64_t from) {
  Words heads;
  for (std::int64_t g = 0; g < sequences * m.heads; ++g) {
    for (std::int64_t i = 0; i < m.length; ++i) {
      const std::int64_t token = g / m.heads * m.length + i;
      const auto first = qkv.begin() + token * 3 * m.width + from + g % m.heads * m.head_width();
      heads.insert(heads.end(), first, first + m.head_width());
    }
  }
  return heads;
}

void compare_layer(const TrainingConfig& config, const LayerPass& l, const std::string& name, Comparison& compare) {
  const ModelShape& m = config.model;
  compare.tensor(name + "x", l.x);
  compare.tensor(name + "attention_u", l.attention_norm.y);
  compare.tensor(name + "attention_scale", l.attention_norm.scale);
  compare.tensor(name + "q", heads_of(m, config.batch, l.attention.qkv, 0));
  compare.tensor(name + "k", heads_of(m, config.batch, l.attention.qkv, m.width));
  compare.tensor(name + "v", heads_of(m, config.batch, l.attention.qkv, 2 * m.width));
  compare.tensor(name + "p", l.attention.p);
  compare.tensor(name + "att", l.attention.out);
  compare.tensor(name + "middle", l.middle);
  compare.tensor(name + "moe_u", l.moe_norm.y);
  compare.tensor(name + "moe_scale", l.moe_norm.scale);
  compare.tensor(name + "logits", l.logits);
  if (config.rounding == TokenRoundingRule::none) compare.tensor(name + "chosen", l.chosen);
  compare.tensor(name + "offsets", l.routes.offsets);
  compare.tensor(name + "row_token", l.routes.row_token);
  compare.tensor(name + "row_weight", l.routes.row_weight);
  compare.tensor(name + "token_offsets", l.routes.token_offsets);
  compare.tensor(name + "token_rows", l.routes.token_rows);
  compare.tensor(name + "balance_gradient", l.balance.gradient);
}

}  // namespace

std::string differences(const TrainingConfig& config, const TrainingState& before, std::span<const std::uint8_t> batch,
                        DeviceRun& run) {
  const PassSetting setting{.config = config,
                            .recipe = config.recipe,
                            .rounding = config.rounding,
                            .sequences = config.batch,
                            .step = static_cast<std::uint64_t>(before.step)};
  const PassWeights weights = pass_weights(config.model, before.weights, 0);
  const RotaryTable table = rotary_table(config.model.length, config.model.head_width());
  const auto length = static_cast<std::size_t>(config.model.length);
  std::vector<std::uint8_t> inputs;
  std::vector<std::uint8_t> targets;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (i % (length + 1) != length) inputs.push_back(batch[i]);
    if (i % (length + 1) != 0) targets.push_back(batch[i]);
  }
  ForwardPass pass = forward(setting, table, weights, inputs);
  Comparison compare(run);
  for (std::size_t l = 0; l < pass.layers.size(); ++l)
    compare_layer(config, pass.layers[l], "layers." + std::to_string(l) + ".", compare);
  compare.tensor("x", pass.x);
  compare.tensor("final_u", pass.final_norm.y);
  compare.tensor("logits", pass.logits);
  const TokenLoss loss = token_loss(pass.logits, targets);
  compare.tensor("d_logits", loss.d_logits);
  const std::vector<std::vector<float>> gradients = backward(setting, table, weights, inputs, pass, loss.d_logits);
  const std::vector<ParameterSpec> specs = parameters_of(config.model);
  for (std::size_t p = specs.size(); p-- > 0;) {
    const std::size_t had = compare.lines.size();
    compare.tensor("gradients." + std::to_string(p), gradients[p]);
    if (compare.lines.size() != had) compare.lines += "  (" + specs[p].name + ")\n";
  }
  return compare.lines;
}

}  // namespace mxcheck::test
