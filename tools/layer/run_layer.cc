// run_layer: files in, the reference's layer, and a file of all its tensors out.

#include <fmt/format.h>

#include <optional>

#include "goldens/format/described_file.h"
#include "goldens/layer/layer_file.h"
#include "goldens/layer/recipe_json.h"
#include "numerics/error.h"
#include "tools/common/json.h"
#include "tools/common/output.h"
#include "tools/common/progress.h"
#include "tools/common/text.h"
#include "tools/layer/against.h"
#include "tools/layer/layer_options.h"
#include "tools/layer/routing.h"
#include "tools/layer/summary.h"
#include "tools/layer/weights.h"

namespace mxcheck {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::usage, text); }

void check_options(const LayerOptions& o) {
  if (o.recipe.empty()) refuse("--recipe NAME or FILE.json is needed; --list names them");
  for (const std::string& file : o.files.inputs) {
    if (!is_described_path(file))
      refuse(file + ": INPUT is a file of named tensors, .safetensors or .h5; others are given as --x FILE and so on");
  }
  if (o.logits.empty() == o.routes.empty())
    refuse("one of --logits NAME and --routes FILE is needed: where each token's rows come from");
  if (o.backward && o.files.d_o.empty()) refuse("--backward needs the gradient of O: --d-o NAME or FILE:TENSOR");
  if (!o.backward && !o.files.d_o.empty()) refuse("--d-o is of --backward");
  if (!o.against.empty() && !o.output.empty()) refuse("--against compares, and -o writes: one of the two");
  if (o.against.empty() && !o.map.empty()) refuse("--map is of --against");
  if (o.logits.empty() && o.router.top_k) refuse("--top-k is of --logits; routes from a file have theirs");
}

void check_outputs(const LayerOptions& o) {
  if (o.output.empty()) return;
  std::vector<std::string> inputs = o.files.inputs;
  for (const std::string& name :
       {o.files.x, o.files.w1, o.files.w2, o.files.d_o, o.logits, o.routes, o.router.bias, o.against, o.recipe})
    inputs.push_back(name);
  check_output(o.output, OutputKinds::safetensors_or_hdf5, inputs);
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

}  // namespace mxcheck
