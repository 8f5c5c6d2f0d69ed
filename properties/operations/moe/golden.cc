#include "properties/operations/moe/golden.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "goldens/layer/layer_file.h"
#include "numerics/error.h"
#include "properties/operations/layer/golden.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

class Maker {
 public:
  Maker(const GoldenSpec& golden, const MakeOptions& options)
      : golden_(golden), spec_(golden.get<LayerGolden>()), directory_(options.input_directory) {
    data_.threads = options.threads;
  }

  MadeGolden run() {
    read_tokens();
    read_weights();
    read_logits();
    make_routes();
    data_.recipe = *spec_.recipe, data_.gate_up = spec_.gate_up, data_.has_backward = true;
    compute(data_);
    if (!slot_experts_.empty()) {
      const std::vector<float> slots = slot_gradient(data_.routes, data_.backward.ds);
      data_.d_logits =
          route_backward(router(), logits_view_, slot_experts_, slots, spec_.route.router.top_k, data_.threads);
    }
    return table();
  }

 private:
  InputWords sized(const InputSpec& input, const std::string& key, std::int64_t rows, std::int64_t cols) {
    InputWords in = read_bf16(input, directory_, key);
    if (in.rows != rows || in.cols != cols)
      refuse_usage(key + ": is " + size_text(in.rows, in.cols) + " (" + in.source + "); " + size_text(rows, cols) +
                   " is needed");
    return in;
  }

  void read_tokens() {
    InputWords x = read_bf16(spec_.x, directory_, "x");
    data_.shape.tokens = x.rows, data_.shape.width = x.cols;
    data_.x = std::move(x.words);
    InputWords d_o = sized(spec_.d_o, "d_o", x.rows, x.cols);
    data_.d_o = std::move(d_o.words);
    sources_ = {{"source_x", x.source}, {"source_d_o", d_o.source}};
  }

  void read_weights() {
    LayerShape& s = data_.shape;
    s.experts = std::ssize(spec_.gate);
    for (std::size_t e = 0; e < spec_.gate.size(); ++e) {
      const std::string at = "[" + std::to_string(e) + "]";
      const InputWords gate = e == 0 ? read_bf16(spec_.gate[0], directory_, "gate[0]")
                                     : sized(spec_.gate[e], "gate" + at, s.width, s.inner);
      s.inner = gate.cols;
      if (gate.rows != s.width)
        refuse_usage("gate" + at + ": has " + std::to_string(gate.rows) + " rows; x has " + std::to_string(s.width) +
                     " columns, and as many are needed");
      const InputWords up = sized(spec_.up[e], "up" + at, s.width, s.inner);
      const InputWords down = sized(spec_.down[e], "down" + at, s.inner, s.width);
      const std::vector<std::uint16_t> w1 = gate_and_up(gate.words, up.words, s.inner, spec_.gate_up);
      data_.w1.insert(data_.w1.end(), w1.begin(), w1.end());
      data_.w2.insert(data_.w2.end(), down.words.begin(), down.words.end());
      sources_.emplace_back("source_expert_" + std::to_string(e),
                            "gate: " + gate.source + "; up: " + up.source + "; down: " + down.source);
    }
  }

  void read_logits() {
    const InputRows in = open_input(spec_.route.input, directory_);
    const LayerShape& s = data_.shape;
    if (in.rows != s.tokens || in.cols != s.experts)
      refuse_usage("logits: are " + size_text(in.rows, in.cols) + " (" + in.source + "); " +
                   size_text(s.tokens, s.experts) + ", tokens and experts, are needed");
    const std::size_t width = in.dtype == Format::fp32 ? 4 : 2;
    if (in.dtype == Format::fp16) refuse_usage("logits: are fp16; bf16 or fp32 is needed");
    resize_or_throw(logits_, checked_product(in.rows * in.cols, static_cast<std::int64_t>(width), "logits"), "logits");
    in.reader->read(logits_);
    const std::uint32_t lowest = in.dtype == Format::fp32 ? 0xFF7FFFFF : 0xFF7F;
    for (std::int64_t t = 0; t < s.tokens; ++t) {
      for (const std::int64_t e : spec_.closed)
        std::memcpy(logits_.data() + static_cast<std::size_t>(t * s.experts + e) * width, &lowest, width);
    }
    logits_view_ = {in.dtype, logits_.data(), s.tokens, s.experts, s.experts};
    sources_.emplace_back("source_logits", in.source);
  }

  [[nodiscard]] Router router() const {
    Router router = spec_.route.router;
    router.variant = spec_.route.variants[0];
    router.bias = spec_.route.bias;
    return router;
  }

  void make_routes() {
    if (spec_.route.rules.empty()) {
      const Routes routes = route(router(), logits_view_, data_.threads);
      data_.routes = layer_routes(routes, data_.shape.experts);
      slot_experts_ = routes.experts;
    } else {
      TokenRounding rounding = spec_.route.token_rounding;
      rounding.rule = spec_.route.rules[0];
      data_.routes = layer_routes(round_tokens(router(), rounding, logits_view_, data_.threads));
    }
    for (const std::int64_t e : spec_.closed) {
      const auto at = static_cast<std::size_t>(e);
      const std::int64_t rows = data_.routes.offsets[at + 1] - data_.routes.offsets[at];
      if (rows != 0)
        refuse_usage("closed: expert " + std::to_string(e) + " has " + std::to_string(rows) +
                     " rows all the same: top_k is more than the others, or its bias large");
    }
  }

  MadeGolden table() {
    GoldenBuilder table(golden_);
    table.attribute("recipe_name", spec_.recipe->name);
    for (auto& [key, value] : router_attributes(spec_.route, true)) table.attribute(key, std::move(value));
    table.attribute("rule", spec_.route.rules.empty() ? "none" : std::string(to_text(spec_.route.rules[0])));
    for (const auto& [key, value] : sources_) table.attribute(key, value);
    for (const auto& [key, value] : layer_metadata(data_)) table.attribute(key, value);
    table.add(Role::input, "logits", logits_view_.dtype, {data_.shape.tokens, data_.shape.experts}, logits_,
              {{"step", "routes"}});
    if (!spec_.route.bias.empty()) {
      table.add(Role::input, "bias", Format::fp32, {std::ssize(spec_.route.bias)}, spec_.route.bias,
                {{"step", "routes"}});
    }
    const std::vector<LayerTensor> tensors = tensors_of(data_);
    const std::vector<DatasetInfo> sets = layer_datasets(tensors);
    for (std::size_t i = 0; i < tensors.size(); ++i)
      table.bytes(sets[i].role, sets[i].name, sets[i].format, sets[i].dtype, sets[i].shape, tensors[i].data,
                  sets[i].attributes);
    return table.take();
  }

  const GoldenSpec& golden_;
  const LayerGolden& spec_;
  const std::string& directory_;
  LayerData data_;
  std::vector<std::byte> logits_;
  MatrixView logits_view_;
  std::vector<std::int32_t> slot_experts_;
  Attributes sources_;
};

constexpr std::size_t kMostExperts = 1024;

std::vector<InputSpec> inputs_at(JsonObject& o, const char* key) {
  std::vector<InputSpec> inputs;
  for (const Json& value : o.list(key, kMostExperts))
    inputs.push_back(parse_input(value, o.place() + "." + key + "[" + std::to_string(inputs.size()) + "]"));
  return inputs;
}

void check_closed(const JsonObject& o, const LayerGolden& layer) {
  std::set<std::int64_t> seen;
  for (const std::int64_t expert : layer.closed) {
    if (!seen.insert(expert).second) o.refuse("closed", "names expert " + std::to_string(expert) + " twice");
  }
  if (seen.size() == layer.gate.size()) o.refuse("closed", "leaves no expert");
}

std::any parse_layer(JsonObject& o) {
  LayerGolden layer;
  layer.recipe = at_place(o, "recipe", [&] { return &layer_recipe_named(o.text("recipe")); });
  layer.gate_up = parse_gate_up(o);
  layer.x = input_at(o, "x"), layer.d_o = input_at(o, "d_o"), layer.route.input = input_at(o, "logits");
  layer.gate = inputs_at(o, "gate"), layer.up = inputs_at(o, "up"), layer.down = inputs_at(o, "down");
  if (layer.gate.empty()) o.refuse("gate", "has one expert's input at least");
  for (const auto& [key, inputs] : {std::pair("up", &layer.up), {"down", &layer.down}}) {
    if (inputs->size() != layer.gate.size())
      o.refuse(key, "has inputs of " + std::to_string(inputs->size()) + " experts; gate has " +
                        std::to_string(layer.gate.size()));
  }
  if (o.has("closed")) {
    layer.closed = parse_integers(o, "closed", 0, static_cast<std::int64_t>(layer.gate.size()) - 1);
    check_closed(o, layer);
  }
  parse_layer_router(o, layer.route);
  return layer;
}

}  // namespace

std::vector<const GoldenKind*> layer_golden_kinds() {
  static const GoldenKind kKind("layer", parse_layer,
                                [](const GoldenSpec& g, const MakeOptions& o) { return Maker(g, o).run(); });
  return {&kKind};
}

}  // namespace mxcheck
