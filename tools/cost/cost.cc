// mxcheck cost: time, bytes and memory of a mixture-of-experts layer, estimated from its shape.

#include "tools/cost/cost.h"

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cost/measured.h"
#include "goldens/io/atomic_file.h"
#include "goldens/io/byte_source.h"
#include "goldens/layer/recipe_json.h"
#include "numerics/error.h"
#include "numerics/names.h"
#include "numerics/text.h"
#include "properties/core/layers/layers.h"
#include "tools/common/output.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

constexpr std::uint64_t kMostCountBytes = std::uint64_t{1} << 25;
constexpr std::int64_t kMostSize = std::numeric_limits<std::int64_t>::max();  // products are checked later

struct CostOptions {
  std::optional<std::int64_t> tokens, d_model, d_expert, experts, top_k;
  std::string model, card = "H200", load = "random", svg;
  std::vector<std::string> recipes, gpus;
  std::optional<std::int64_t> expert_parallel, node;
  std::optional<double> network;
  std::int64_t microbatches = 1;
  bool cards = false, measured = false, json = false;
};

const ProductionLayer& model_named(const std::string& name) {
  std::vector<std::string> names;
  for (const ProductionLayer& layer : production_layers()) {
    if (layer.model == name) return layer;
    names.push_back(layer.model);
  }
  refuse_usage("unknown model '" + one_line(name) + "'" + known_names(name, names));
}

std::int64_t needed(const std::optional<std::int64_t>& value, const char* option) {
  if (!value)
    refuse_usage(std::string(option) +
                 " is needed: the layer is --tokens with --model, or with --d-model, --d-expert, " +
                 "--experts and --top-k");
  return *value;
}

LayerShape shape_of(const CostOptions& o) {
  LayerShape shape;
  shape.tokens = needed(o.tokens, "--tokens");
  if (o.model.empty()) {
    shape.d_model = needed(o.d_model, "--d-model"), shape.d_expert = needed(o.d_expert, "--d-expert");
    shape.experts = needed(o.experts, "--experts"), shape.top_k = needed(o.top_k, "--top-k");
  } else {
    const ProductionLayer& layer = model_named(o.model);
    shape = {shape.tokens, o.d_model.value_or(layer.d), o.d_expert.value_or(layer.n), o.experts.value_or(layer.experts),
             o.top_k.value_or(layer.active)};
  }
  check(shape);
  return shape;
}

std::vector<std::int64_t> counts_in(const std::string& path) {
  std::string text;
  try {
    const FileSource file(path);
    if (file.size() > kMostCountBytes)
      throw Error(ErrorKind::input,
                  path + ": has " + std::to_string(file.size()) + " bytes; counts have at most 32 MiB");
    text = file.text();
  } catch (const Error& e) {
    throw Error(e.kind(), "--load: not random, balanced or zipf:S, and as a file of counts " + std::string(e.what()) +
                              did_you_mean(path, {"random", "balanced", "zipf:1"}));
  }
  return parse_counts(text, path);
}

LoadSpec load_spec_of(const std::string& text) {
  if (text == "random") return {LoadKind::random};
  if (text == "balanced") return {LoadKind::balanced};
  constexpr std::string_view kZipf = "zipf:";
  if (text.starts_with(kZipf)) {
    const auto exponent = parse_number<double>(std::string_view(text).substr(kZipf.size()));
    if (!exponent || !(*exponent >= 0 && *exponent <= 10))
      refuse_usage("--load " + one_line(text) + ": zipf:S needs an exponent S from 0 to 10");
    return {LoadKind::zipf, *exponent};
  }
  return {LoadKind::counts, 0, counts_in(text)};
}

std::vector<LayerRecipe> recipes_of(const CostOptions& o) {
  std::vector<LayerRecipe> recipes;
  for (const std::string& name : o.recipes) recipes.push_back(layer_recipe_at(name));
  if (!recipes.empty()) return recipes;
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    if (recipe.name != "broken") recipes.push_back(recipe);
  }
  return recipes;
}

std::vector<ClusterSpec> clusters_of(const CostOptions& o) {
  std::vector<ClusterSpec> clusters;
  for (const std::string& text : o.gpus) {
    const auto gpus = parse_number<std::int64_t>(text);
    if (!gpus) refuse_usage("--gpus: '" + one_line(text) + "' is no number of GPUs; 1,8,1000 are three");
    ClusterSpec spec;
    spec.gpus = *gpus, spec.expert_parallel = o.expert_parallel, spec.network = o.network;
    spec.node = o.node.value_or(kNodeGpus);
    clusters.push_back(spec);
  }
  return clusters;
}

void check_options(const CostOptions& o) {
  if (o.gpus.empty() && (o.expert_parallel || o.node || o.network))
    refuse_usage("--expert-parallel, --node and --network are of --gpus 1,8,1000");
  if (!o.gpus.empty() && o.recipes.size() != 1)
    refuse_usage("--gpus is of one --recipe; mxcheck layer --list names them");
  if (!o.svg.empty() && !o.svg.ends_with(".svg")) refuse_usage(o.svg + ": name the picture OUT.svg");
}

int run(const CostOptions& o) {
  if (o.cards) return o.json ? print_json(cards_json()) : print(cards_text()), 0;
  if (o.measured) return o.json ? print_json(measured_json()) : print(measured_text()), 0;
  check_options(o);
  CostQuestion q;
  q.shape = shape_of(o);
  q.card = &card_named(o.card);
  q.options.load = load_spec_of(o.load);
  q.options.microbatches = static_cast<double>(o.microbatches);
  q.recipes = recipes_of(o);
  q.clusters = clusters_of(o);
  const std::string text = o.json ? to_text(cost_json(q)) + "\n" : cost_text(q);
  if (o.svg.empty()) {
    print(text);
    return 0;
  }
  AtomicFile file(o.svg);
  file.write(cost_svg(q));
  file.commit([&] { print_at_once(text); });
  return 0;
}

void add_layer_options(Command& sub, CostOptions& o) {
  const std::string group = "Layer";
  sub.option("--tokens", o.tokens, "Tokens of a microbatch on a GPU").between(1, kMostSize).in_group(group);
  std::vector<std::string> models;
  for (const ProductionLayer& layer : production_layers()) models.push_back(layer.model);
  sub.option("--model", o.model, "The other numbers, of a layer of docs/layers.md: Qwen3-235B-A22B")
      .completes(models)
      .not_empty()
      .in_group(group);
  sub.option("--d-model", o.d_model, "Hidden width, d").between(1, kMostSize).in_group(group);
  sub.option("--d-expert", o.d_expert, "An expert's inner width, n; gate and up projection together have 2n")
      .in_group(group);
  sub.option("--experts", o.experts, "Experts, of which each token has --top-k").between(1, kMostSize).in_group(group);
  sub.option("--top-k", o.top_k, "Experts of a token").between(1, kMostSize).in_group(group);
  sub.option("--load", o.load,
             "Rows of the experts: random (each token chooses at random), balanced, zipf:S (expert i in proportion to "
             "i^-S), or FILE with a number an expert")
      .completes({"random", "balanced", "zipf:0.5"})
      .not_empty()
      .shows_default()
      .in_group(group);
}

void add_cluster_options(Command& sub, CostOptions& o) {
  const std::string group = "Several GPUs, of one --recipe";
  sub.option("--gpus", o.gpus, "Numbers of GPUs: 1,8,1000,10000").comma_separated().in_group(group);
  sub.option("--expert-parallel", o.expert_parallel,
             "GPUs among which the experts are divided (the largest number that divides both)")
      .in_group(group);
  sub.option("--node", o.node, "GPUs that NVLink joins (8)").in_group(group);
  sub.option("--network", o.network, "GB/s to other nodes that a GPU reaches, one direction (the card's)")
      .in_group(group);
}

}  // namespace

void add_cost(Command& app) {
  auto o = std::make_shared<CostOptions>();
  Command sub = app.subcommand("cost", "Time, bytes and memory of a mixture-of-experts layer, estimated");
  add_layer_options(sub, *o);
  sub.option("--recipe", o->recipes, "One, shown step by step, or several to compare: names, or FILE.json (all)")
      .completes(names_in(all_layer_recipes()))
      .comma_separated();
  sub.option("--card", o->card, "The GPU").completes({"H100", "H200", "B200"}).not_empty().shows_default();
  sub.option("--microbatches", o->microbatches, "Microbatches for which weights are quantized once")
      .between(1, 1'000'000)
      .shows_default();
  add_cluster_options(sub, *o);
  sub.option("--svg", o->svg, "Write a picture to OUT.svg: speed over BF16 by rows an expert").not_empty();
  const CommandOption cards = sub.flag("--cards", o->cards, "The numbers of every card, each with its source");
  sub.flag("--measured", o->measured, "Every measured layer beside its estimate").excludes(cards);
  sub.flag("--json", o->json, "Print JSON");
  sub.footer(
      "docs/cost.md defines the steps and the network, and compares with measurements.\n\n"
      "Examples:\n"
      "  mxcheck cost --model Qwen3-235B-A22B --tokens 32768\n"
      "  mxcheck cost --tokens 32768 --d-model 4096 --d-expert 1024 --experts 128 --top-k 8 --recipe dsv3_pow2\n"
      "  mxcheck cost --model DeepSeek-V3 --tokens 8192 --recipe mxfp8 --card B200 --gpus 8,64,1024,10000\n"
      "  mxcheck cost --cards");
  sub.exits({{0, "done"}, {2, "the command line, or a file that cannot be read"}});
  sub.runs([o] { return run(*o); });
}

}  // namespace mxcheck
