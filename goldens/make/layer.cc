// Goldens of the kind layer: every tensor of one run under a recipe.

#include "goldens/make/layer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "goldens/format/offsets.h"
#include "goldens/io/readers.h"
#include "goldens/layer/layer_file.h"
#include "goldens/make/input.h"
#include "goldens/make/logits.h"
#include "goldens/make/routes.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/scale/recipe_words.h"
#include "reference/common/checked_size.h"
#include "reference/quantize/quantize.h"
#include "reference/router/loss.h"
#include "reference/router/metadata.h"

namespace mxcheck {
namespace {

std::string size_text(std::int64_t rows, std::int64_t cols) {
  return std::to_string(rows) + " x " + std::to_string(cols);
}

class Maker {
 public:
  Maker(const GoldenSpec& golden, const std::string& directory, int threads)
      : golden_(golden), spec_(golden.layer), directory_(directory) {
    data_.threads = threads;
  }

  Table run() {
    read_tokens();
    read_weights();
    read_logits();
    make_routes();
    data_.recipe = *spec_.recipe, data_.gate_up = golden_.gate_up, data_.has_backward = true;
    compute(data_);
    if (!slot_experts_.empty()) {
      const std::vector<float> slots = slot_gradient(data_.routes, data_.backward.ds);
      data_.d_logits =
          route_backward(router(), logits_view_, slot_experts_, slots, golden_.route.router.top_k, data_.threads);
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
      append_w1(gate.words, up.words);
      data_.w2.insert(data_.w2.end(), down.words.begin(), down.words.end());
      sources_.emplace_back("source_expert_" + std::to_string(e),
                            "gate: " + gate.source + "; up: " + up.source + "; down: " + down.source);
    }
  }

  void append_w1(const std::vector<std::uint16_t>& gate, const std::vector<std::uint16_t>& up) {
    const auto n = static_cast<std::size_t>(data_.shape.inner);
    const std::size_t begin = data_.w1.size();
    data_.w1.resize(begin + 2 * gate.size());
    const bool halves = golden_.gate_up == GateUp::halves;
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const std::size_t row = begin + i / n * 2 * n, j = i % n;
      data_.w1[row + (halves ? j : 2 * j)] = gate[i];
      data_.w1[row + (halves ? n + j : 2 * j + 1)] = up[i];
    }
  }

  void read_logits() {
    const InputRows in = open_input(golden_.input, directory_);
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
    Router router = golden_.route.router;
    router.variant = golden_.route.variants[0];
    router.bias = golden_.route.bias;
    return router;
  }

  void make_routes() {
    if (golden_.route.rules.empty()) {
      const Routes routes = route(router(), logits_view_, data_.threads);
      data_.routes = layer_routes(routes, data_.shape.experts);
      slot_experts_ = routes.experts;
    } else {
      TokenRounding rounding = golden_.route.token_rounding;
      rounding.rule = golden_.route.rules[0];
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

  Table table() {
    Table table;
    Attributes& a = table.info.attributes;
    a = common_attributes(golden_);
    a.emplace_back("recipe_name", spec_.recipe->name);
    for (auto& pair : router_attributes(golden_)) a.push_back(std::move(pair));
    a.emplace_back("rule", golden_.route.rules.empty() ? "none" : std::string(to_text(golden_.route.rules[0])));
    a.insert(a.end(), sources_.begin(), sources_.end());
    for (const auto& [key, value] : layer_metadata(data_)) a.emplace_back(key, value);
    const bool wide = logits_view_.dtype == Format::fp32;
    table.info.datasets.push_back({"logits",
                                   Role::input,
                                   std::string(spec(logits_view_.dtype).dtype_name),
                                   wide ? Format::uint32 : Format::uint16,
                                   {data_.shape.tokens, data_.shape.experts},
                                   {{"step", "routes"}}});
    table.data.push_back(logits_);
    if (!golden_.route.bias.empty()) {
      table.info.datasets.push_back(
          {"bias", Role::input, "float32", Format::uint32, {std::ssize(golden_.route.bias)}, {{"step", "routes"}}});
      table.data.push_back(to_bytes(golden_.route.bias));
    }
    const std::vector<LayerTensor> tensors = tensors_of(data_);
    for (DatasetInfo& set : layer_datasets(tensors)) table.info.datasets.push_back(std::move(set));
    for (const LayerTensor& t : tensors) table.data.emplace_back(t.data.begin(), t.data.end());
    return table;
  }

  const GoldenSpec& golden_;
  const LayerGoldenSpec& spec_;
  const std::string& directory_;
  LayerData data_;
  std::vector<std::byte> logits_;
  MatrixView logits_view_;
  std::vector<std::int32_t> slot_experts_;
  Attributes sources_;
};

}  // namespace

Table make_layer(const GoldenSpec& golden, const std::string& input_directory, int threads) {
  return Maker(golden, input_directory, threads).run();
}

// Goldens of the kind swiglu: SwiGLU and its gradient, their values and codes.

namespace {

using Words = std::vector<std::uint16_t>;

void check_size(const std::string& key, std::int64_t rows, std::int64_t cols, std::int64_t right_rows,
                std::int64_t right_cols) {
  if (rows != right_rows || cols != right_cols)
    refuse_usage(key + ": is " + size_text(rows, cols) + "; " + size_text(right_rows, right_cols) + " is needed");
}

class SwigluMaker {
 public:
  SwigluMaker(const GoldenSpec& golden, const std::string& directory, int threads)
      : golden_(golden), spec_(golden.swiglu), directory_(directory), threads_(threads) {}

  Table run() {
    table_.info.attributes = common_attributes(golden_);
    read_h();
    read_p();
    if (!golden_.offsets.empty()) {
      check_offsets(golden_.offsets, rows_);
      add(Role::input, "offsets", "int64", Format::int64, {std::ssize(golden_.offsets)}, golden_.offsets,
          {{"meaning", "first row of each expert, then all rows; blocks along tokens start again there"}});
    }
    compute();
    write();
    return std::move(table_);
  }

 private:
  void attribute(const char* key, std::string value) { table_.info.attributes.emplace_back(key, std::move(value)); }

  template <class T>
  void add(Role role, const std::string& name, std::string_view format, Format dtype, std::vector<std::int64_t> shape,
           const std::vector<T>& values, Attributes attributes) {
    table_.info.datasets.push_back({name, role, std::string(format), dtype, std::move(shape), std::move(attributes)});
    table_.data.push_back(to_bytes(values));
  }
  void add(Role role, const std::string& name, std::vector<std::int64_t> shape, const Words& bf16, Attributes more) {
    add(role, name, "bfloat16", Format::uint16, std::move(shape), bf16, std::move(more));
  }
  void add(Role role, const std::string& name, std::vector<std::int64_t> shape, const std::vector<float>& fp32,
           Attributes more) {
    add(role, name, "float32", Format::uint32, std::move(shape), fp32, std::move(more));
  }

  // Gate and up side by side, or one after the other.
  Words composed(const InputWords& gate, const InputWords& up) const {
    Words h(2 * gate.words.size());
    const auto n = static_cast<std::size_t>(gate.cols);
    for (std::size_t i = 0; i < gate.words.size(); ++i) {
      const std::size_t row = i / n * 2 * n, j = i % n;
      const bool halves = golden_.gate_up == GateUp::halves;
      h[row + (halves ? j : 2 * j)] = gate.words[i];
      h[row + (halves ? n + j : 2 * j + 1)] = up.words[i];
    }
    return h;
  }

  void read_h() {
    Words h;
    if (spec_.has_h) {
      InputWords in = read_bf16(spec_.h, directory_, "h");
      if (in.cols % 2 != 0) refuse_usage("h: has " + std::to_string(in.cols) + " columns; an even number is needed");
      rows_ = in.rows, n_ = in.cols / 2, h = std::move(in.words);
      attribute("source", in.source);
    } else {
      const InputWords gate = read_bf16(spec_.gate, directory_, "gate"), up = read_bf16(spec_.up, directory_, "up");
      check_size("up", up.rows, up.cols, gate.rows, gate.cols);
      rows_ = gate.rows, n_ = gate.cols, h = composed(gate, up);
      attribute("source", "gate: " + gate.source + "; up: " + up.source);
    }
    attribute("rows", std::to_string(rows_));
    attribute("inner", std::to_string(n_));
    attribute("gate_up", golden_.gate_up == GateUp::halves ? "halves" : "interleaved");
    attribute("offsets", offsets_to_text(golden_.offsets));
    spec_.h_codes ? quantize_h(h) : keep_h(h);
  }

  void keep_h(const Words& h) {
    add(Role::input, "H", {rows_, 2 * n_}, h, {{"meaning", "gate and up columns"}});
    for (const std::uint16_t word : h) h_.push_back(std::bit_cast<float>(std::uint32_t{word} << 16));
  }

  void quantize_h(const Words& h) {
    const MatrixView view{Format::bf16, std::as_bytes(std::span(h)).data(), rows_, 2 * n_, 2 * n_};
    const QuantizedTensor q =
        quantize(view, spec_.h_codes->format, {1, 32}, recipe_named(spec_.h_codes->recipe), {}, threads_);
    add_quantized(Role::input, "H", q, false, {{"block", "1x32"}, {"recipe", spec_.h_codes->recipe}});
    h_ = dequantize(q, {}, threads_);
  }

  void read_p() {
    const InputFloats p = read_floats(spec_.p, directory_, "p");
    check_size("p", p.rows, p.cols, rows_, n_);
    const InputFloats weights = read_floats(spec_.weights, directory_, "weights");
    check_size("weights", weights.rows, weights.cols, rows_, 1);
    p_ = p.values, weights_ = weights.values;
    attribute("source_p", p.source);
    attribute("source_weights", weights.source);
    add(Role::input, "P", {rows_, n_}, p_, {{"meaning", "the gradient of A, before the route's weight"}});
    add(Role::input, "row_weight", {rows_}, weights_, {{"meaning", "s, the weight of each row's route"}});
  }

  void compute() {
    const auto inner = static_cast<std::size_t>(n_);
    a_.resize(p_.size()), scaled_a_.resize(p_.size()), dh_.resize(2 * p_.size());
    for (std::size_t row = 0; row < weights_.size(); ++row) {
      const auto part = [&](auto& of, std::size_t width) { return std::span(of).subspan(row * width, width); };
      ds_.push_back(swiglu_row_gradient(part(h_, 2 * inner), golden_.gate_up, part(p_, inner), weights_[row],
                                        {part(a_, inner), part(scaled_a_, inner), part(dh_, 2 * inner)}));
    }
  }

  void write() {
    add(Role::output, "A", {rows_, n_}, a_, {{"step", "swiglu"}});
    write_codes("A", a_, n_, "swiglu");
    add(Role::output, "scaled_A", {rows_, n_}, scaled_a_, {{"step", "swiglu_backward"}, {"meaning", "A'"}});
    write_codes("scaled_A", scaled_a_, n_, "swiglu_backward");
    add(Role::output, "dH", {rows_, 2 * n_}, dh_, {{"step", "swiglu_backward"}});
    write_codes("dH", dh_, 2 * n_, "swiglu_backward");
    add(Role::output, "dS", {rows_}, ds_, {{"step", "swiglu_backward"}});
  }

  void write_codes(const std::string& of, const Words& x, std::int64_t cols, const char* step) {
    const MatrixView view{Format::bf16, std::as_bytes(std::span(x)).data(), rows_, cols, cols};
    for (const SwigluCodes& c : spec_.codes) {
      if (c.of != of) continue;
      const BlockShape block = c.along_tokens ? BlockShape{c.block, 1} : BlockShape{1, c.block};
      const std::vector<std::int64_t> none;
      const QuantizedTensor q =
          quantize(view, c.format, block, recipe_named(c.recipe), c.along_tokens ? golden_.offsets : none, threads_);
      add_quantized(Role::output, name_of(c), q, c.along_tokens,
                    {{"step", step},
                     {"of", of},
                     {"block", "1x" + std::to_string(c.block)},
                     {"recipe", c.recipe},
                     {"along", c.along_tokens ? "tokens: of the transpose" : "columns"}});
    }
  }

  void add_quantized(Role role, const std::string& name, const QuantizedTensor& q, bool along_tokens,
                     const Attributes& more) {
    const auto put = [&](const std::string& as, const Tensor& t) {
      const Tensor out = along_tokens ? transposed(t) : t;
      add(role, as, spec(t.format).dtype_name, bits_of(t.format), out.shape, out.data, more);
    };
    put(name + "_codes", q.codes);
    put(name + "_scales", q.scales());
  }

  const GoldenSpec& golden_;
  const SwigluSpec& spec_;
  const std::string& directory_;
  int threads_;
  std::int64_t rows_ = 0, n_ = 0;
  std::vector<float> h_, p_, weights_, ds_;
  Words a_, scaled_a_, dh_;
  Table table_;
};

}  // namespace

std::string name_of(const SwigluCodes& c) {
  std::string name = c.of + (c.along_tokens ? "_T_" : "_") + std::string(spec(c.format).name) + "_1x" +
                     std::to_string(c.block) + "_" + c.recipe;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

Table make_swiglu(const GoldenSpec& golden, const std::string& input_directory, int threads) {
  return SwigluMaker(golden, input_directory, threads).run();
}

namespace {

std::string underscored(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

std::string hex(float value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[std::bit_cast<std::uint32_t>(value) >> shift & 15];
  return text;
}

class RoutesMaker {
 public:
  RoutesMaker(const GoldenSpec& golden, const std::string& directory, int threads)
      : golden_(golden), route_(golden.route), threads_(threads) {
    table_.info.attributes = common_attributes(golden);
    if (golden.kind != GoldenKind::route_metadata) read_logits(directory);
  }

  Table run() {
    switch (golden_.kind) {
      case GoldenKind::route: choose(); break;
      case GoldenKind::route_round: round(); break;
      case GoldenKind::route_metadata: sort(); break;
      case GoldenKind::route_backward: differentiate(); break;
      case GoldenKind::route_losses: lose(); break;
      default: throw Error(ErrorKind::internal, "a golden that is not about routers");
    }
    return std::move(table_);
  }

 private:
  void attribute(const std::string& key, std::string value) {
    table_.info.attributes.emplace_back(key, std::move(value));
  }

  void add(Role role, const std::string& name, std::string_view format, Format dtype, std::vector<std::int64_t> shape,
           std::span<const std::byte> bytes, const std::string& meaning) {
    table_.info.datasets.push_back({name, role, std::string(format), dtype, std::move(shape), {{"meaning", meaning}}});
    table_.data.emplace_back(bytes.begin(), bytes.end());
  }
  template <class T>
  void add(Role role, const std::string& name, std::vector<std::int64_t> shape, std::span<T> values,
           const std::string& meaning) {
    if constexpr (std::is_same_v<std::remove_const_t<T>, float>) {
      add(role, name, "float32", Format::uint32, std::move(shape), std::as_bytes(values), meaning);
    } else {
      constexpr bool kWide = sizeof(T) == 8;
      add(role, name, kWide ? "int64" : "int32", kWide ? Format::int64 : Format::int32, std::move(shape),
          std::as_bytes(values), meaning);
    }
  }
  template <class T>
  void list(Role role, const std::string& name, std::span<T> values, const std::string& meaning) {
    add(role, name, {static_cast<std::int64_t>(values.size())}, values, meaning);
  }

  void read_logits(const std::string& directory) {
    const InputRows input = open_input(golden_.input, directory);
    const std::string where = golden_.input.file.empty() ? "input" : golden_.input.file;
    const auto width = static_cast<std::size_t>(input.dtype == Format::fp32 ? 4 : 2);
    logits_.resize(checked_bytes(std::vector<std::int64_t>{input.rows, input.cols}, width, where));
    input.reader->read(logits_);
    view_ = {input.dtype, logits_.data(), input.rows, input.cols, input.cols};
    attribute("source", input.source);
    attribute("source_dtype", std::string(spec(input.dtype).dtype_name));
    attribute("tokens", std::to_string(input.rows));
    attribute("experts", std::to_string(input.cols));
    for (auto& [key, value] : router_attributes(golden_)) attribute(key, std::move(value));
    add(Role::input, "logits", spec(input.dtype).dtype_name, width == 4 ? Format::uint32 : Format::uint16,
        {input.rows, input.cols}, logits_, "bits of the router's logits, a row a token");
    if (!route_.bias.empty()) {
      list(Role::input, "bias", std::span(route_.bias), "added to the key of each expert, for choosing alone");
    }
  }

  [[nodiscard]] Router router_of(const RouterVariant& variant) const {
    Router router = route_.router;
    router.variant = &variant;
    router.bias = route_.bias;
    return router;
  }
  [[nodiscard]] std::vector<std::int64_t> by_route() const { return {view_.rows, route_.router.top_k}; }

  void choose() {
    for (const RouterVariant* variant : route_.variants) {
      const Routes routes = route(router_of(*variant), view_, threads_);
      const std::string name = underscored(variant->name);
      const std::string by(variant->name);
      add(Role::output, "experts_" + name, by_route(), std::span(routes.experts), "best first, by " + by);
      add(Role::output, "weights_" + name, by_route(), std::span(routes.weights), "of those experts, by " + by);
    }
  }

  void round() {
    const Router router = router_of(*route_.variants[0]);
    TokenRounding token_rounding = route_.token_rounding;
    attribute("tile", std::to_string(token_rounding.tile));
    attribute("capacity", std::to_string(token_rounding.capacity));
    attribute("weights", token_rounding.renormalize ? "renorm" : "raw");
    attribute("seed", std::to_string(token_rounding.seed));
    attribute("layer", std::to_string(token_rounding.layer));
    attribute("step", std::to_string(token_rounding.step));
    for (const TokenRoundingRule rule : route_.rules) {
      token_rounding.rule = rule;
      const RoundedTokens a = round_tokens(router, token_rounding, view_, threads_);
      if (rule == route_.rules[0]) {
        list(Role::output, "chosen", std::span(a.chosen), "tokens that chose each expert, before any rule");
      }
      const std::string name(to_text(rule)), end = "_" + underscored(name);
      const auto rows = static_cast<std::size_t>(a.offsets.back());
      list(Role::output, "offsets" + end, std::span(a.offsets), "first row of each expert, then all rows, by " + name);
      list(Role::output, "row_token" + end, std::span(a.row_token).first(rows), "ascending within an expert");
      list(Role::output, "row_weight" + end, std::span(a.row_weight).first(rows), "of the token for the expert");
      list(Role::output, "token_offsets" + end, std::span(a.token_offsets), "first entry of token_rows of each token");
      list(Role::output, "token_rows" + end, std::span(a.token_rows).first(rows), "by token, its experts ascending");
    }
  }

  void sort() {
    const RouteMetadata m =
        route_metadata(route_.slots, route_.width, route_.token_offsets, route_.experts, route_.token_rounding.tile);
    attribute("experts", std::to_string(route_.experts));
    attribute("width", std::to_string(route_.width));
    attribute("tile", std::to_string(route_.token_rounding.tile));
    list(Role::input, "slot_experts", std::span(route_.slots), "token after token; -1: dropped");
    if (!route_.token_offsets.empty()) {
      list(Role::input, "token_offsets", std::span(route_.token_offsets), "first slot of each token, then all slots");
    }
    const auto rows = static_cast<std::size_t>(m.offsets.back());
    const std::string padding = "; -1: padding";
    list(Role::output, "counts", std::span(m.counts), "routes of each expert");
    list(Role::output, "offsets", std::span(m.offsets), "first row of each expert, a multiple of the tile; then all");
    list(Role::output, "row_slot", std::span(m.row_slot).first(rows), "the slot that the row is of" + padding);
    list(Role::output, "row_token", std::span(m.row_token).first(rows), "its token" + padding);
    list(Role::output, "row_expert", std::span(m.row_expert).first(rows), "its expert" + padding);
    list(Role::output, "slot_row", std::span(m.slot_row), "the row of each slot; -1: dropped");
  }

  void differentiate() {
    const std::vector<float> gradient = synthetic_gradient(view_.rows * route_.router.top_k);
    add(Role::input, "gradient", by_route(), std::span(gradient), "of the loss by the weights");
    for (const RouterVariant* variant : route_.variants) {
      const Router router = router_of(*variant);
      const Routes routes = route(router, view_, threads_);
      const std::string name = underscored(variant->name);
      add(Role::input, "experts_" + name, by_route(), std::span(routes.experts),
          "whose weights the gradient is of, by " + std::string(variant->name));
      const std::vector<float> out =
          route_backward(router, view_, routes.experts, gradient, route_.router.top_k, threads_);
      add(Role::output, "logits_gradient_" + name, {view_.rows, view_.cols}, std::span(out),
          "of the loss by the logits");
    }
  }

  void lose() {
    const Routes routes = route(router_of(*route_.variants[0]), view_, threads_);
    std::vector<std::int32_t> counts(static_cast<std::size_t>(view_.cols));
    for (const std::int32_t expert : routes.experts) ++counts[static_cast<std::size_t>(expert)];
    attribute("coefficient", hex(route_.coefficient));
    list(Role::input, "counts", std::span(counts), "routes of each expert");
    const auto both = [&](const std::string& name, const RouterLoss& loss) {
      list(Role::output, name + "_loss", std::span(&loss.value, 1), "one number");
      add(Role::output, name + "_gradient", {view_.rows, view_.cols}, std::span(loss.gradient), "by the logits");
    };
    both("balance", load_balancing_loss(view_, counts, route_.coefficient, threads_));
    both("z", router_z_loss(view_, route_.coefficient, threads_));
  }

  const GoldenSpec& golden_;
  const RouteSpec& route_;
  int threads_;
  std::vector<std::byte> logits_;
  MatrixView view_;
  Table table_;
};

}  // namespace

Attributes router_attributes(const GoldenSpec& golden) {
  const Router& router = golden.route.router;
  Attributes a{{"top_k", std::to_string(router.top_k)},
               {"groups", std::to_string(router.groups)},
               {"groups_kept", std::to_string(router.groups_kept)},
               {"nan", router.nan == NanLogits::last ? "last" : "refuse"},
               {"scale", hex(router.scale)}};
  if (golden.kind != GoldenKind::route && golden.kind != GoldenKind::route_backward)
    a.emplace_back("variant", golden.route.variants[0]->name);
  return a;
}

bool is_about_routers(GoldenKind kind) {
  return kind == GoldenKind::route || kind == GoldenKind::route_round || kind == GoldenKind::route_metadata ||
         kind == GoldenKind::route_backward || kind == GoldenKind::route_losses;
}

Table make_routes(const GoldenSpec& golden, const std::string& input_directory, int threads) {
  return RoutesMaker(golden, input_directory, threads).run();
}

}  // namespace mxcheck
