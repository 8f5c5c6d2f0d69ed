// mxcheck layer: the recipes of a mixture-of-experts layer, as tables.

#include <fmt/format.h>

#include <memory>

#include "goldens/io/atomic_file.h"
#include "goldens/layer/recipe_json.h"
#include "numerics/error.h"
#include "reference/layer/layer_recipe.h"
#include "tools/common/json.h"
#include "tools/common/text.h"
#include "tools/layer/flow.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

struct Options {
  std::string recipe;
  std::string svg;
  bool list = false;
  bool show = false;
  bool json = false;
};

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

void write_svg(const std::string& path, const LayerRecipe& recipe) {
  if (!path.ends_with(".svg")) throw Error(ErrorKind::usage, path + ": name the picture OUT.svg");
  AtomicFile file(path);
  file.write(flow_svg(recipe));
  file.commit();
}

int show(const Options& o, const LayerRecipe& recipe) {
  if (!o.svg.empty()) write_svg(o.svg, recipe);
  o.json ? print_json(layer_recipe_json(recipe)) : print(to_text(recipe));
  return 0;
}

int run(const Options& o) {
  if (o.list) return list(o.json);
  if (o.recipe.empty() || !o.show) {
    throw Error(ErrorKind::usage, "--list, or --recipe NAME --show, is needed: a layer is not run from here yet");
  }
  return show(o, layer_recipe_at(o.recipe));
}

}  // namespace

void add_layer(Command& app) {
  auto o = std::make_shared<Options>();
  Command sub = app.subcommand("layer", "The recipes of a mixture-of-experts layer");
  sub.flag("--list", o->list, "Their names");
  sub.option("--recipe", o->recipe, "Which one: a name, or FILE.json").not_empty();
  const auto show = sub.flag("--show", o->show,
                             "What it is: operands, blocks, scales and contract of each GEMM, what is kept, and a "
                             "picture of the flow");
  sub.option("--svg", o->svg, "Write that picture also to OUT.svg").not_empty().needs(show);
  sub.flag("--json", o->json, "Print JSON");
  sub.footer(
      "docs/layer.md defines the layer.\n\n"
      "Examples:\n"
      "  mxcheck layer --list\n"
      "  mxcheck layer --recipe dsv3_pow2 --show");
  sub.runs([o] { return run(*o); });
}

}  // namespace mxcheck
