// mxcheck layer: the recipes of a mixture-of-experts layer, and the layer run on files.

#include "tools/layer/layer.h"

#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "goldens/format/described_file.h"
#include "goldens/io/atomic_file.h"
#include "goldens/io/sha256.h"
#include "goldens/layer/layer_file.h"
#include "goldens/layer/recipe_json.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/names.h"
#include "properties/core/compare.h"
#include "reference/layer/layer_recipe.h"
#include "tools/common/output.h"
#include "tools/common/progress.h"
#include "tools/layer/input.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

int list(bool as_json) {
  Json rows = Json::array();
  std::string text;
  for (const LayerRecipe& r : all_layer_recipes()) {
    rows.push_back({{"name", r.name}, {"meaning", r.meaning}});
    text += fmt::format("{:<18} {}\n", r.name, r.meaning);
  }
  as_json ? print_json(rows) : print(text);
  return 0;
}

int show(const LayerOptions& o, const LayerRecipe& recipe) {
  const std::string text = o.json ? to_text(layer_recipe_json(recipe)) + "\n" : to_text(recipe);
  if (o.svg.empty()) {
    print(text);
    return 0;
  }
  if (!o.svg.ends_with(".svg")) throw Error(ErrorKind::usage, o.svg + ": name the picture OUT.svg");
  AtomicFile file(o.svg);
  file.write(flow_svg(recipe));
  file.commit([&] { print_at_once(text); });
  return 0;
}

int run(const LayerOptions& o) {
  if (o.list) return list(o.json);
  if (!o.show) return run_layer(o);
  if (o.recipe.empty()) throw Error(ErrorKind::usage, "--show is of one --recipe; --list names them");
  return show(o, layer_recipe_at(o.recipe));
}

void add_recipe_options(Command& sub, LayerOptions& o) {
  const std::string group = "Recipe";
  sub.option("--recipe", o.recipe, "Which one: a name, or FILE.json")
      .completes(names_in(all_layer_recipes()))
      .not_empty()
      .in_group(group);
  sub.flag("--list", o.list, "The names of those that are built in").in_group(group);
  const auto show = sub.flag("--show", o.show,
                             "What it is: operands, blocks, scales and contract of each GEMM, what is kept, and a "
                             "picture of the flow")
                        .in_group(group);
  sub.option("--svg", o.svg, "Write that picture also to OUT.svg").not_empty().needs(show).in_group(group);
}

void add_tensor_options(Command& sub, LayerOptions& o) {
  LayerFiles& f = o.files;
  const std::string group = "Tensors: names in INPUT, or FILE:TENSOR; BF16";
  sub.option("--x", f.x, "[tokens, d]").not_empty().shows_default().in_group(group);
  sub.option("--d-o", f.d_o, "The gradient of O, of X's shape; for --backward").not_empty().in_group(group);
  sub.option("--w1", f.w1, "Of all experts, as --w1-layout says").not_empty().shows_default().in_group(group);
  sub.option("--w2", f.w2, "Of all experts, as --w2-layout says").not_empty().shows_default().in_group(group);
  sub.option("--w1-layout", f.w1_layout, "[E, d, 2n], or as torch has it [E, 2n, d]")
      .one_of({"d-2n", "2n-d"})
      .shows_default()
      .in_group(group);
  sub.option("--w2-layout", f.w2_layout, "[E, n, d], or as torch has it [E, d, n]")
      .one_of({"n-d", "d-n"})
      .shows_default()
      .in_group(group);
  sub.option("--experts", f.experts,
             "In place of --w1 and --w2, three tensors an expert: 'layer0.experts.{}' for "
             "layer0.experts.0.gate_proj.weight [n, d], .up_proj.weight [n, d], .down_proj.weight [d, n], and so on")
      .not_empty()
      .in_group(group);
  sub.option("--gate-proj", f.gate, "The same by another name, with {}").not_empty().in_group(group);
  sub.option("--up-proj", f.up, "The same").not_empty().in_group(group);
  sub.option("--down-proj", f.down, "The same").not_empty().in_group(group);
  sub.option("--gate-up", f.gate_up, "Columns of W1 and H: gate in the first n, or in the even ones")
      .one_of({"halves", "interleaved"})
      .shows_default()
      .in_group(group);
  sub.option("--dtype", f.dtype, "Take unsigned 16-bit integers as the bits of this").one_of({"bf16"}).in_group(group);
}

void add_routing_options(Command& sub, LayerOptions& o) {
  const std::string group = "Routes: one of the two";
  sub.option("--routes", o.routes, "FILE.safetensors or FILE.h5 of mxcheck route -o").not_empty().in_group(group);
  sub.option("--logits", o.logits, "[tokens, experts]: BF16, F32 or F16; the options of mxcheck route say the rest")
      .not_empty()
      .in_group(group);
  add_router_options(sub, o.router);
}

}  // namespace

void add_layer(Command& app) {
  auto o = std::make_shared<LayerOptions>();
  Command sub =
      app.subcommand("layer", "A mixture-of-experts layer: its recipes, every tensor of it, and what differs");
  sub.option("INPUT", o->files.inputs, "Files in which names of tensors are looked up: .safetensors, .h5").not_empty();
  add_recipe_options(sub, *o);
  add_tensor_options(sub, *o);
  add_routing_options(sub, *o);
  sub.flag("--backward", o->backward, "The backward pass too");
  const std::string random = "Random words, of a recipe that rounds stochastically";
  sub.option("--random-seed", o->random_seed, "The key of the words (0)").counter().in_group(random);
  sub.option("--random-step", o->random_step, "The step of training (0)").counter().in_group(random);
  sub.option("--random-layer", o->random_layer, "The number of the layer (0)").counter().in_group(random);
  sub.option("-o,--output", o->output, "OUT.h5 or OUT.safetensors: every tensor by its name").not_empty();
  sub.option("--only", o->only, "Of these tensors alone, separated by commas").comma_separated();
  sub.option("--against", o->against,
             "A dump of your layer, FILE.safetensors or an FILE.h5 of this command: which step first differs, and why")
      .not_empty();
  sub.option("--map", o->map, "Names in the dump that are other than the layer's: H=model.h,A=model.act")
      .comma_separated();
  sub.option("--threads", o->threads, "0: all of the machine's; changes nothing but the time")
      .between(0, 4096)
      .shows_default();
  sub.flag("--json", o->json, "Print JSON");
  sub.footer(
      "docs/layer.md defines the layer, every tensor of it, and the recipes as JSON.\n\n"
      "Examples:\n"
      "  mxcheck layer --list\n"
      "  mxcheck layer --recipe dsv3_pow2 --show --svg flow.svg\n"
      "  mxcheck layer --recipe mine.json --show\n"
      "  mxcheck layer l.safetensors --recipe mxfp8 --logits router_logits --top-k 8 -o out.h5\n"
      "  mxcheck layer l.safetensors --recipe dsv3 --x x --d-o dO --experts 'layers.0.experts.{}' --routes "
      "r.safetensors \\\n"
      "    --backward -o out.safetensors\n"
      "  mxcheck layer l.safetensors --recipe mxfp8 --routes r.safetensors --against mine.safetensors --map "
      "H=up_out");
  sub.exits({{0, "done; --against: all that the dump has is equal"},
             {1, "--against: something differs"},
             {2, "the command line, or a file or dump that cannot be read"}});
  sub.runs([o] { return run(*o); });
}

// run_layer: files in, the reference's layer, and a file of all its tensors out.

namespace {

void check_options(const LayerOptions& o) {
  if (o.recipe.empty()) refuse_usage("--recipe NAME or FILE.json is needed; --list names them");
  for (const std::string& file : o.files.inputs) {
    if (!is_described_path(file))
      refuse_usage(file +
                   ": INPUT is a file of named tensors, .safetensors or .h5; others are given as --x FILE and so on");
  }
  if (o.logits.empty() == o.routes.empty())
    refuse_usage("one of --logits NAME and --routes FILE is needed: where each token's rows come from");
  if (o.backward && o.files.d_o.empty()) refuse_usage("--backward needs the gradient of O: --d-o NAME or FILE:TENSOR");
  if (!o.backward && !o.files.d_o.empty()) refuse_usage("--d-o is of --backward");
  if (!o.against.empty() && !o.output.empty()) refuse_usage("--against compares, and -o writes: one of the two");
  if (o.against.empty() && !o.map.empty()) refuse_usage("--map is of --against");
  if (o.logits.empty() && o.router.top_k) refuse_usage("--top-k is of --logits; routes from a file have theirs");
}

void check_outputs(const LayerOptions& o) {
  if (o.output.empty()) return;
  std::vector<std::string> inputs = o.files.inputs;
  for (const std::string& name :
       {o.files.x, o.files.w1, o.files.w2, o.files.d_o, o.logits, o.routes, o.router.bias, o.against, o.recipe})
    inputs.push_back(name);
  check_output(o.output, OutputKinds::safetensors_or_hdf5, inputs);
}

LayerRandom random_of(const LayerOptions& o, const LayerRecipe& recipe) {
  const auto refuse = [](const std::string& option, std::uint64_t value, const char* most) {
    refuse_usage(option + " is " + std::to_string(value) + ": must be below " + most);
  };
  if ((o.random_seed || o.random_step || o.random_layer) && !is_stochastic(recipe))
    refuse_usage("--random-seed, --random-step and --random-layer are of recipes that round stochastically; " +
                 recipe.name + " does not");
  const std::uint64_t step = o.random_step.value_or(0);
  const std::uint64_t layer = o.random_layer.value_or(0);
  if (step > 0xFFFFFFFFU) refuse("--random-step", step, "2^32");
  if (layer > 0xFFFF) refuse("--random-layer", layer, "65536");
  return {o.random_seed.value_or(0), static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(layer)};
}

void check_tokens(const Bf16Tensor& x, std::int64_t tokens, const std::string& other) {
  if (x.shape[0] == tokens) return;
  throw Error(ErrorKind::input, fmt::format("{}: is {}, of {} tokens; {} has {}", x.where, shape_in_brackets(x.shape),
                                            x.shape[0], other, tokens));
}

struct Loaded {
  LayerData data;
  LayerRouting routing;
  std::string x_from;
};

Loaded load(const LayerOptions& o, Progress& progress) {
  Loaded in;
  LayerData& d = in.data;
  d.recipe = layer_recipe_at(o.recipe);
  d.random = random_of(o, d.recipe);
  progress.now("reading");
  Bf16Tensor x = token_tensor(o.files, "--x", o.files.x);
  in.routing =
      o.routes.empty() ? routing_from_logits(o.files, o.logits, o.router, o.threads) : routing_from_file(o.routes);
  check_tokens(x, in.routing.tokens, in.routing.where);
  LayerWeights w = read_weights(o.files, in.routing.experts, x.shape[1], in.routing.where, x.where);
  if (o.backward) {
    Bf16Tensor d_o = token_tensor(o.files, "--d-o", o.files.d_o);
    if (d_o.shape != x.shape)
      throw Error(ErrorKind::input, fmt::format("{}: is {}; {} of {} is needed", d_o.where,
                                                shape_in_brackets(d_o.shape), shape_in_brackets(x.shape), x.where));
    d.d_o = std::move(d_o.words);
  }
  d.shape = {x.shape[0], x.shape[1], w.inner, in.routing.experts};
  d.gate_up = gate_up_of(o.files);
  d.x = std::move(x.words), d.w1 = std::move(w.w1), d.w2 = std::move(w.w2);
  d.routes = in.routing.routes;
  d.has_backward = o.backward;
  d.threads = o.threads;
  in.x_from = x.where;
  return in;
}

std::string what_was_done(const LayerData& d, const LayerRouting& routing) {
  return fmt::format("{} tokens of width {}, {} experts of inner width {}, {} rows; recipe {}; routes of {}\n",
                     d.shape.tokens, d.shape.width, d.shape.experts, d.shape.inner, d.rows(), d.recipe.name,
                     routing.where);
}

std::string answer(const LayerOptions& o, Loaded& in) {
  const std::vector<LayerTensor> tensors = tensors_named(in.data, o.only);
  const bool lacks_logits = o.backward && !in.data.d_logits;
  if (!o.json) {
    std::string text = what_was_done(in.data, in.routing) + "\n" + summary_text(tensors);
    if (lacks_logits) text += "\nd_logits is not there: it needs --logits, and --round none\n";
    return text + (o.output.empty() ? ""
                                    : "\n" + o.output + ": " + std::to_string(tensors.size()) +
                                          (tensors.size() == 1 ? " tensor\n" : " tensors\n"));
  }
  const LayerShape& s = in.data.shape;
  const Json json{{"recipe", in.data.recipe.name},
                  {"tokens", s.tokens},
                  {"width", s.width},
                  {"inner", s.inner},
                  {"experts", s.experts},
                  {"rows", in.data.rows()},
                  {"routes", in.routing.where},
                  {"output", o.output},
                  {"tensors", summary_json(tensors)}};
  return to_text(json) + "\n";
}

}  // namespace

int run_layer(const LayerOptions& o) {
  check_options(o);
  check_outputs(o);
  std::optional<Progress> progress(std::in_place, "reading");
  Loaded in = load(o, *progress);
  progress->now(fmt::format("computing {} rows", in.data.rows()));
  in_place(in.x_from, [&] {
    compute(in.data);
    if (o.backward) in.data.d_logits = in.routing.logits_gradient(in.data.backward.ds, o.threads);
  });
  tensors_named(in.data, o.only);  // refuses names before anything is written
  if (!o.against.empty()) {
    progress->now("comparing " + o.against);
    const Comparison compared = compare_with_dump(o, in.data, in.routing);
    progress.reset();
    print(compared.text);
    return compared.exit_code;
  }
  if (o.output.empty()) {
    progress.reset();
    print(answer(o, in));
    return 0;
  }
  progress->now("writing " + o.output);
  const auto print_answer = [&] {
    progress.reset();
    print_at_once(answer(o, in));
  };
  write_layer(o.output, in.data, o.only, in.routing.about, print_answer);
  return 0;
}

namespace {

constexpr std::size_t kPrefix = 12;

// The element as a number, whatever it is stored as.
double element(const LayerTensor& t, const std::optional<Format>& format, std::size_t i) {
  const std::uint64_t bits = word_at(t.data, size_of(t.dtype), i);
  if (t.dtype == Format::int32) return static_cast<std::int32_t>(bits);
  if (t.dtype == Format::int64) return static_cast<double>(static_cast<std::int64_t>(bits));
  return format ? decode(*format, static_cast<std::uint32_t>(bits)) : static_cast<double>(bits);
}

}  // namespace

TensorSummary summary_of(const LayerTensor& t) {
  TensorSummary s;
  const std::optional<Format> format = find_format(t.format);
  double least = std::numeric_limits<double>::infinity();
  const std::size_t count = t.data.size() / size_of(t.dtype);
  for (std::size_t i = 0; i < count; ++i) {
    const double value = element(t, format, i);
    if (std::isnan(value)) {
      ++s.nans;
      continue;
    }
    least = std::min(least, std::abs(value));
    s.max_abs = std::max(s.max_abs, std::abs(value));
  }
  if (s.nans < static_cast<std::int64_t>(count)) s.min_abs = least;
  s.sha256 = sha256(t.data);
  return s;
}

std::string summary_text(const std::vector<LayerTensor>& tensors) {
  constexpr const char* kRow = "{:<16} {:<16} {:<15} {:<14} {:>11} {:>11} {:>6}  {}\n";
  std::string text = fmt::format(kRow, "step", "tensor", "shape", "format", "min |x|", "max |x|", "NaN", "SHA-256");
  for (const LayerTensor& t : tensors) {
    const TensorSummary s = summary_of(t);
    text += fmt::format(kRow, t.step, t.name, shape_to_text(t.shape), t.format, fmt::format("{:.5g}", s.min_abs),
                        fmt::format("{:.5g}", s.max_abs), s.nans, s.sha256.substr(0, kPrefix));
  }
  return text;
}

Json summary_json(const std::vector<LayerTensor>& tensors) {
  Json rows = Json::array();
  for (const LayerTensor& t : tensors) {
    const TensorSummary s = summary_of(t);
    rows.push_back({{"step", t.step},
                    {"tensor", t.name},
                    {"shape", t.shape},
                    {"format", t.format},
                    {"min_abs", json_number(s.min_abs)},
                    {"max_abs", json_number(s.max_abs)},
                    {"nan", s.nans},
                    {"sha256", s.sha256}});
  }
  return rows;
}

}  // namespace mxcheck
