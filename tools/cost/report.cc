#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "cost/measured.h"
#include "numerics/text.h"
#include "tools/common/output.h"
#include "tools/cost/cost.h"

namespace mxcheck {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

// A line of a table; empty cells at its end are no spaces.
template <class... Cells>
std::string row(fmt::format_string<Cells...> line, Cells&&... cells) {
  std::string text = fmt::format(line, std::forward<Cells>(cells)...);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::string percent_of(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string difference(double estimated, double measured) {
  return fmt::format("{:+.1f} %", 100 * (estimated / measured - 1));
}

double teraflops(double operations, double us) { return operations / us / 1e6; }

std::vector<MeasuredLayer> measured_of(const CostQuestion& q, const LayerRecipe& recipe) {
  std::vector<MeasuredLayer> found;
  const bool alike = q.options.load.kind == LoadKind::random && q.options.microbatches == 1;
  for (const MeasuredLayer& m : measured_layers()) {
    if (alike && m.recipe == recipe.name && m.card == q.card->name && m.shape == q.shape) found.push_back(m);
  }
  return found;
}

std::string head_text(const CostQuestion& q, const Load& load) {
  const LayerShape& s = q.shape;
  const EngineRate* fp8 = q.card->engine(Engine::fp8);
  std::string text = fmt::format("layer       {} tokens, d_model {}, d_expert {}, {} experts, top {}\n", s.tokens,
                                 s.d_model, s.d_expert, s.experts, s.top_k);
  text += fmt::format("card        {}: {:.0f} TFLOPS in BF16, {:.0f} in FP8; memory {:.0f} GB/s, a copy {:.0f}\n",
                      q.card->name, q.card->engine(Engine::bf16)->peak.value, fp8->peak.value, q.card->bandwidth.value,
                      q.card->copy.value);
  text += fmt::format(
      "load        {}: {:.0f} rows, {:.0f} an expert, the busiest {:.0f}; tiles of {} rows hold {:.0f}, {} more\n",
      to_text(q.options.load), load.rows, load.rows / static_cast<double>(s.experts), load.busiest, kTileRows,
      load.tile_rows, percent_of(load.tile_rows / load.rows - 1));
  return text;
}

std::string step_text(const Step& step, double of_pass) {
  const bool gemm = step.kind == StepKind::gemm;
  return row("  {:<25} {:<14} {:>7} {:>8.3f} {:>7} {:>9} {:>9.0f} {:>9.0f} {:>7}", step.name,
             gemm ? name_of(step.engine) : "", gemm ? fmt::format("{:.3f}", step.operations / 1e12) : "",
             step.bytes / 1e9, gemm ? fmt::format("{:.0f}", step.operations / step.bytes) : "",
             gemm ? fmt::format("{:.0f}", step.compute_us) : "", step.memory_us, step.us,
             percent_of(step.us / of_pass));
}

std::string pass_text(std::string_view name, const Pass& pass) {
  std::string text = fmt::format("\n{:<27} {:<14} {:>7} {:>8} {:>7} {:>9} {:>9} {:>9} {:>7}\n", name, "engine", "Tflop",
                                 "GB", "flop/B", "compute", "memory", "us", "share");
  for (const Step& step : pass.steps) text += step_text(step, pass.us());
  text += row("  {:<25} {:<14} {:>7} {:>8.3f} {:>7} {:>9} {:>9} {:>9.0f} {:>7}", "all", "", "", pass.bytes() / 1e9, "",
              "", "", pass.us(), "");
  return text;
}

double hidden_us(const Pass& pass, bool hidden) {
  double sum = 0;
  for (const Step& step : pass.steps) sum += step.hidden == hidden ? step.dequantize_us : 0;
  return sum;
}

std::string dequantize_text(const Estimate& e) {
  const double hidden = hidden_us(e.forward, true) + hidden_us(e.backward, true);
  const double added = hidden_us(e.forward, false) + hidden_us(e.backward, false);
  if (hidden > 0)
    return fmt::format(
        "scales      CUDA cores apply the scales of blocks in {:.0f} us, while tensor cores multiply; within the "
        "GEMMs' rates\n",
        hidden);
  if (added > 0)
    return fmt::format(
        "scales      CUDA cores apply the scales of blocks in {:.0f} us, added to the GEMMs' time: sums leave tensor "
        "memory for it\n",
        added);
  return "";
}

std::string times_text(const CostQuestion& q, const LayerRecipe& recipe, const Estimate& e, const Estimate& bf16) {
  static constexpr std::string_view kLine = "{:<24} {:>12} {:>12} {:>12}{}";
  const auto us = [](double value) { return fmt::format("{:.0f}", value); };
  std::string text = "\n" + row(kLine, "", "forward", "backward", "both", "");
  text += row(kLine, "estimated, us", us(e.forward.us()), us(e.backward.us()), us(e.us()), "");
  text += row(kLine, "  of it quantizing", percent_of(e.forward.us_of(StepKind::quantize) / e.forward.us()),
              percent_of(e.backward.us_of(StepKind::quantize) / e.backward.us()), "", "");
  text += row(kLine, "  useful TFLOPS", us(teraflops(e.useful_forward, e.forward.us())),
              us(teraflops(e.useful_backward, e.backward.us())),
              us(teraflops(e.useful_forward + e.useful_backward, e.us())), "");
  for (const MeasuredLayer& m : measured_of(q, recipe)) {
    text += row(kLine, "measured, us", us(m.forward_us), us(m.backward_us), us(m.forward_us + m.backward_us),
                fmt::format("   {}", m.source));
    text += row(kLine, "  the estimate is off by", difference(e.forward.us(), m.forward_us),
                difference(e.backward.us(), m.backward_us), difference(e.us(), m.forward_us + m.backward_us), "");
  }
  text += row(kLine, "bf16, estimated, us", us(bf16.forward.us()), us(bf16.backward.us()), us(bf16.us()), "");
  const auto speed = [](double ours, double theirs) { return fmt::format("{:.2f}", theirs / ours); };
  return text + row(kLine, "  the recipe's speed", speed(e.forward.us(), bf16.forward.us()),
                    speed(e.backward.us(), bf16.backward.us()), speed(e.us(), bf16.us()), "");
}

struct Breakeven {
  std::int64_t d_expert = 0;
  std::int64_t tokens = 0;
};

Breakeven breakeven_of(const CostQuestion& q, const LayerRecipe& recipe) {
  return {pays_from(Dimension::d_expert, q.shape, recipe, *q.card, q.options),
          pays_from(Dimension::tokens, q.shape, recipe, *q.card, q.options)};
}

double rows_an_expert(const CostQuestion& q, std::int64_t tokens) {
  return product({tokens, q.shape.top_k}) / static_cast<double>(q.shape.experts);
}

std::string breakeven_text(const CostQuestion& q, const LayerRecipe& recipe) {
  if (recipe.name == "bf16") return "";
  const Breakeven at = breakeven_of(q, recipe);
  const std::string width = at.d_expert == 0   ? "at no d_expert up to 2^20"
                            : at.d_expert == 1 ? "at every d_expert"
                                               : fmt::format("from d_expert {} on", at.d_expert);
  const std::string tokens = at.tokens == 0   ? "at no number of tokens up to 2^20"
                             : at.tokens == 1 ? "at every number of tokens"
                                              : fmt::format("from {} tokens on, {:.0f} rows an expert", at.tokens,
                                                            rows_an_expert(q, at.tokens));
  return fmt::format("pays        faster than bf16 {}; {}; all else as above\n", width, tokens);
}

std::string memory_text(const CostQuestion& q, const Estimate& e) {
  const Card& card = *q.card;
  double operations = 0;
  double bytes = 0;
  const EngineRate* rate = card.engine(Engine::bf16);
  for (const Step& step : e.forward.steps) {
    if (step.kind != StepKind::gemm) continue;
    operations += step.operations, bytes += step.bytes;
    rate = card.engine(step.engine);
  }
  std::string text = fmt::format(
      "kept        X {:.3f} + H {:.3f} = {:.3f} GiB for the backward pass; in BF16 {:.3f} (SonicMoE's 2Td + 4TKn)\n",
      e.kept.x / kGib, e.kept.h / kGib, e.kept.bytes() / kGib, sonicmoe_kept(q.shape) / kGib);
  text += fmt::format(
      "intensity   {:.0f} flop/B by SonicMoE's formula for BF16, 3 / ((2 + 2G)/d + 3/(T rho)); of the forward GEMMs "
      "here {:.0f};\n            memory and tensor cores ({}) balance at {:.0f}\n",
      sonicmoe_intensity(q.shape), operations / bytes, name_of(rate->engine),
      rate->peak.value * kTera / (card.bandwidth.value * kGiga));
  return text;
}

std::string clusters_text(const CostQuestion& q, const LayerRecipe& recipe) {
  if (q.clusters.empty()) return "";
  const ClusterSpec& first = q.clusters.front();
  const Card& card = *q.card;
  const double network = first.network.value_or(card.network.value * card.network_share.value);
  std::string text = fmt::format(
      "\nnetwork     NVLink among {} GPUs of a node at {:.0f} GB/s, between nodes {:.1f} GB/s a GPU, one direction; an "
      "all-to-all waits\n            {:.0f} us on a node, {:.0f} between nodes; a token goes once to a node, experts "
      "are chosen uniformly\n\n",
      first.node, card.nvlink.value * card.nvlink_share.value, network, kNvlinkLatency, kNetworkLatency);
  static constexpr std::string_view kLine =
      "{:>7} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>8} {:>9} {:>9} {:>9} {:>9} {:>8}";
  text += row(kLine, "", "expert", "", "rows an", "busiest", "compute", "dispatch", "combine", "gradients", "step, us",
              "step, us", "weights", "tokens/s");
  text += row(kLine, "GPUs", "parallel", "replicas", "expert", "GPU", "us", "us", "us", "us", "in turns", "overlaps",
              "GB a GPU", "of 1 GPU");
  const double alone = estimate_cluster(q.shape, recipe, card, ClusterSpec{}, q.options).step_us();
  for (const ClusterSpec& spec : q.clusters) {
    const ClusterEstimate c = estimate_cluster(q.shape, recipe, card, spec, q.options);
    const auto us = [](double value) { return fmt::format("{:.0f}", value); };
    text += row(
        kLine, c.gpus, c.expert_parallel, c.replicas, us(c.layer.load.rows / static_cast<double>(q.shape.experts)),
        fmt::format("{:.3f}", c.layer.load.imbalance), us(c.compute_us()), us(c.dispatch.us + c.backward_dispatch.us),
        us(c.combine.us + c.backward_combine.us), us(c.gradients.us), us(c.step_us()), us(c.overlapped_us()),
        fmt::format("{:.2f}", (c.weight_bytes + c.gradient_bytes) / 1e9), fmt::format("{:.2f}", alone / c.step_us()));
  }
  return text;
}

std::string assumed_text(const Estimate& e) {
  return e.assumes
             ? "assumed     some of the card's rates are assumed, not published: mxcheck cost --cards marks them\n"
             : "";
}

std::string one_recipe_text(const CostQuestion& q) {
  const LayerRecipe& recipe = q.recipes.front();
  const Estimate e = estimate(q.shape, recipe, *q.card, q.options);
  const Estimate bf16 = estimate(q.shape, layer_recipe_named("bf16"), *q.card, q.options);
  return head_text(q, e.load) + fmt::format("recipe      {}: {}\n", one_line(recipe.name), one_line(recipe.meaning)) +
         pass_text("forward", e.forward) + pass_text("backward", e.backward) + times_text(q, recipe, e, bf16) + "\n" +
         memory_text(q, e) + dequantize_text(e) + breakeven_text(q, recipe) + assumed_text(e) +
         clusters_text(q, recipe);
}

std::string comparison_text(const CostQuestion& q) {
  const Estimate bf16 = estimate(q.shape, layer_recipe_named("bf16"), *q.card, q.options);
  std::string text = head_text(q, bf16.load) + "\n";
  static constexpr std::string_view kLine = "{:<18} {:>8} {:>9} {:>11} {:>8} {:>9} {:>9} {:>11} {:>17}";
  text += row(kLine, "", "forward", "backward", "quantizing", "speed", "kept", "pays from", "rows an", "measured");
  text += row(kLine, "recipe", "us", "us", "", "of bf16", "GiB", "d_expert", "expert", "forward, backward");
  bool assumes = false;
  for (const LayerRecipe& recipe : q.recipes) {
    const Estimate e = estimate(q.shape, recipe, *q.card, q.options);
    assumes = assumes || e.assumes;
    const Breakeven at = recipe.name == "bf16" ? Breakeven{} : breakeven_of(q, recipe);
    const auto found = measured_of(q, recipe);
    const auto from = [](std::int64_t value) { return value == 0 ? std::string("-") : std::to_string(value); };
    text +=
        row(kLine, recipe.name, fmt::format("{:.0f}", e.forward.us()), fmt::format("{:.0f}", e.backward.us()),
            percent_of((e.forward.us_of(StepKind::quantize) + e.backward.us_of(StepKind::quantize)) / e.us()),
            fmt::format("{:.2f}", bf16.us() / e.us()), fmt::format("{:.3f}", e.kept.bytes() / kGib), from(at.d_expert),
            at.tokens == 0 ? "-" : fmt::format("{:.0f}", std::max(1.0, rows_an_expert(q, at.tokens))),
            found.empty() ? "" : fmt::format("{:.0f}, {:.0f}", found.front().forward_us, found.front().backward_us));
  }
  if (assumes) text += "\nsome of the card's rates are assumed, not published: mxcheck cost --cards marks them\n";
  return text;
}

}  // namespace

std::string cost_text(const CostQuestion& q) { return q.recipes.size() == 1 ? one_recipe_text(q) : comparison_text(q); }

std::string cards_text() {
  std::string text;
  for (const Card& card : all_cards()) {
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", card.name);
    for (const CardFigure& f : figures_of(card)) {
      const std::string what = f.part.empty() ? std::string(f.what) : fmt::format("{}, {}", f.part, f.what);
      text += fmt::format("  {:<32} {:>8} {:<10} {}{}\n", what, decimal(f.figure.value), f.unit,
                          f.figure.assumed ? "assumed: " : "", f.figure.source);
    }
  }
  return text;
}

std::string measured_text() {
  static constexpr std::string_view kLine = "{:<18} {:<5} {:<26} {:>8} {:>8} {:>8}   {:>8} {:>8} {:>8}   {}";
  std::string text = row(kLine, "recipe", "card", "T, d, n, E, K", "forward", "measured", "off by", "backward",
                         "measured", "off by", "measured in");
  double most = 0;
  const auto us = [](double value) { return fmt::format("{:.0f}", value); };
  for (const MeasuredLayer& m : measured_layers()) {
    const Estimate e = estimate(m.shape, layer_recipe_named(m.recipe), card_named(m.card));
    const LayerShape& s = m.shape;
    text += row(kLine, m.recipe, m.card,
                fmt::format("{}, {}, {}, {}, {}", s.tokens, s.d_model, s.d_expert, s.experts, s.top_k),
                us(e.forward.us()), us(m.forward_us), difference(e.forward.us(), m.forward_us), us(e.backward.us()),
                us(m.backward_us), difference(e.backward.us(), m.backward_us), m.source);
    for (const double ratio : {e.forward.us() / m.forward_us, e.backward.us() / m.backward_us})
      most = std::max(most, std::abs(ratio - 1));
  }
  return text + fmt::format("\n{} layers, both passes: no estimate is off by more than {}\n", measured_layers().size(),
                            percent_of(most));
}

// ---- JSON ----

namespace {

Json shape_json(const LayerShape& s) {
  return {{"tokens", s.tokens},
          {"d_model", s.d_model},
          {"d_expert", s.d_expert},
          {"experts", s.experts},
          {"top_k", s.top_k}};
}

Json load_json(const LoadSpec& spec, const Load& load) {
  return {{"kind", to_text(spec)},
          {"rows", load.rows},
          {"tile_rows", load.tile_rows},
          {"busiest_expert", load.busiest},
          {"padding", load.tile_rows / load.rows - 1}};
}

Json pass_json(const Pass& pass) {
  Json steps = Json::array();
  for (const Step& step : pass.steps) {
    Json row{{"name", step.name}, {"bytes", step.bytes}, {"memory_us", step.memory_us}, {"us", step.us}};
    if (step.kind == StepKind::gemm) {
      row["engine"] = std::string(name_of(step.engine));
      row["operations"] = step.operations;
      row["compute_us"] = step.compute_us;
      row["dequantize_us"] = step.dequantize_us;
      row["dequantize_is_hidden"] = step.hidden;
    }
    steps.push_back(std::move(row));
  }
  return {{"us", pass.us()},
          {"bytes", pass.bytes()},
          {"quantize_us", pass.us_of(StepKind::quantize)},
          {"steps", std::move(steps)}};
}

Json recipe_json_of(const CostQuestion& q, const LayerRecipe& recipe) {
  const Estimate e = estimate(q.shape, recipe, *q.card, q.options);
  const Estimate bf16 = estimate(q.shape, layer_recipe_named("bf16"), *q.card, q.options);
  const Breakeven at = breakeven_of(q, recipe);
  Json measured = Json::array();
  for (const MeasuredLayer& m : measured_of(q, recipe))
    measured.push_back(
        {{"forward_us", m.forward_us}, {"backward_us", m.backward_us}, {"source", std::string(m.source)}});
  const auto from = [](std::int64_t value) { return value == 0 ? Json() : Json(value); };
  return {{"recipe", recipe.name},
          {"forward", pass_json(e.forward)},
          {"backward", pass_json(e.backward)},
          {"speed_of_bf16", bf16.us() / e.us()},
          {"kept_bytes", {{"x", e.kept.x}, {"h", e.kept.h}}},
          {"pays_from", {{"d_expert", from(at.d_expert)}, {"tokens", from(at.tokens)}}},
          {"assumes", e.assumes},
          {"measured", std::move(measured)}};
}

Json transfer_json(const Transfer& t) {
  return {{"nvlink_bytes", t.nvlink_bytes}, {"network_bytes", t.network_bytes}, {"us", t.us}};
}

Json cluster_json(const ClusterEstimate& c) {
  return {{"gpus", c.gpus},
          {"expert_parallel", c.expert_parallel},
          {"replicas", c.replicas},
          {"imbalance", c.layer.load.imbalance},
          {"compute_us", c.compute_us()},
          {"dispatch", transfer_json(c.dispatch)},
          {"combine", transfer_json(c.combine)},
          {"backward_dispatch", transfer_json(c.backward_dispatch)},
          {"backward_combine", transfer_json(c.backward_combine)},
          {"gradients", transfer_json(c.gradients)},
          {"step_us", c.step_us()},
          {"overlapped_us", c.overlapped_us()},
          {"weight_bytes", c.weight_bytes},
          {"gradient_bytes", c.gradient_bytes},
          {"received_x_bytes", c.received_x}};
}

Json head_json(const CostQuestion& q) {
  const Load load = estimate(q.shape, layer_recipe_named("bf16"), *q.card, q.options).load;
  return {{"layer", shape_json(q.shape)},
          {"card", std::string(q.card->name)},
          {"load", load_json(q.options.load, load)},
          {"microbatches", q.options.microbatches},
          {"sonicmoe", {{"intensity", sonicmoe_intensity(q.shape)}, {"kept_bytes", sonicmoe_kept(q.shape)}}}};
}

}  // namespace

Json cost_json(const CostQuestion& q) {
  Json all = head_json(q);
  Json recipes = Json::array();
  for (const LayerRecipe& recipe : q.recipes) recipes.push_back(recipe_json_of(q, recipe));
  all["recipes"] = std::move(recipes);
  if (q.clusters.empty()) return all;
  Json clusters = Json::array();
  for (const ClusterSpec& spec : q.clusters)
    clusters.push_back(cluster_json(estimate_cluster(q.shape, q.recipes.front(), *q.card, spec, q.options)));
  all["clusters"] = std::move(clusters);
  return all;
}

Json cards_json() {
  Json all = Json::array();
  for (const Card& card : all_cards()) {
    Json figures = Json::array();
    for (const CardFigure& f : figures_of(card)) {
      figures.push_back({{"part", std::string(f.part)},
                         {"what", std::string(f.what)},
                         {"unit", std::string(f.unit)},
                         {"value", f.figure.value},
                         {"source", std::string(f.figure.source)},
                         {"assumed", f.figure.assumed}});
    }
    all.push_back({{"card", std::string(card.name)}, {"figures", std::move(figures)}});
  }
  return all;
}

Json measured_json() {
  Json all = Json::array();
  for (const MeasuredLayer& m : measured_layers()) {
    const Estimate e = estimate(m.shape, layer_recipe_named(m.recipe), card_named(m.card));
    all.push_back({{"recipe", std::string(m.recipe)},
                   {"card", std::string(m.card)},
                   {"layer", shape_json(m.shape)},
                   {"forward_us", {{"estimated", e.forward.us()}, {"measured", m.forward_us}}},
                   {"backward_us", {{"estimated", e.backward.us()}, {"measured", m.backward_us}}},
                   {"source", std::string(m.source)}});
  }
  return all;
}

}  // namespace mxcheck
