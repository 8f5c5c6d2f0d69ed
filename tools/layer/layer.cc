// mxcheck layer: the recipes of a mixture-of-experts layer, and the layer run on files.

#include <fmt/format.h>

#include <memory>

#include "goldens/io/atomic_file.h"
#include "goldens/layer/recipe_json.h"
#include "numerics/error.h"
#include "tools/common/json.h"
#include "tools/common/text.h"
#include "tools/layer/flow.h"
#include "tools/layer/layer_options.h"
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
  sub.option("--recipe", o.recipe, "Which one: a name, or FILE.json").not_empty().in_group(group);
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
      "H=up_out\n\n"
      "Exit codes of --against: 0 all that the dump has is equal; 1 something differs; 2 a dump that cannot be read.");
  sub.runs([o] { return run(*o); });
}

}  // namespace mxcheck
