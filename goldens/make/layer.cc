// Goldens of the kind layer: every tensor of one run under a recipe.

#include "goldens/make/layer.h"

#include <bit>
#include <cstring>

#include "goldens/layer/layer_file.h"
#include "goldens/make/input.h"
#include "goldens/make/routes.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorKind::usage, what); }

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
      refuse(key + ": is " + size_text(in.rows, in.cols) + " (" + in.source + "); " + size_text(rows, cols) +
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
        refuse("gate" + at + ": has " + std::to_string(gate.rows) + " rows; x has " + std::to_string(s.width) +
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
      refuse("logits: are " + size_text(in.rows, in.cols) + " (" + in.source + "); " + size_text(s.tokens, s.experts) +
             ", tokens and experts, are needed");
    const std::size_t width = in.dtype == Format::fp32 ? 4 : 2;
    if (in.dtype == Format::fp16) refuse("logits: are fp16; bf16 or fp32 is needed");
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
        refuse("closed: expert " + std::to_string(e) + " has " + std::to_string(rows) +
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
                                   wide ? Dtype::u32 : Dtype::u16,
                                   {data_.shape.tokens, data_.shape.experts},
                                   {{"step", "routes"}}});
    table.data.push_back(logits_);
    if (!golden_.route.bias.empty()) {
      table.info.datasets.push_back(
          {"bias", Role::input, "float32", Dtype::u32, {std::ssize(golden_.route.bias)}, {{"step", "routes"}}});
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

}  // namespace mxcheck
