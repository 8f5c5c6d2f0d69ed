#include "properties/operations/layer/golden.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <span>
#include <utility>

#include "goldens/format/offsets.h"
#include "numerics/error.h"
#include "numerics/scale/recipe_words.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

using Words = std::vector<std::uint16_t>;

void check_size(const std::string& key, std::int64_t rows, std::int64_t cols, std::int64_t right_rows,
                std::int64_t right_cols) {
  if (rows != right_rows || cols != right_cols)
    refuse_usage(key + ": is " + size_text(rows, cols) + "; " + size_text(right_rows, right_cols) + " is needed");
}

class SwigluMaker {
 public:
  SwigluMaker(const GoldenSpec& golden, const MakeOptions& options)
      : spec_(golden.get<SwigluGolden>()),
        directory_(options.input_directory),
        threads_(options.threads),
        table_(golden) {}

  MadeGolden run() {
    read_h();
    read_p();
    if (!spec_.offsets.empty()) {
      check_offsets(spec_.offsets, rows_);
      table_.integers(Role::input, "offsets", {std::ssize(spec_.offsets)}, spec_.offsets,
                      {{"meaning", "first row of each expert, then all rows; blocks along tokens start again there"}});
    }
    compute();
    write();
    return table_.take();
  }

 private:
  void attribute(const char* key, std::string value) { table_.attribute(key, std::move(value)); }
  void add(Role role, const std::string& name, const std::vector<std::int64_t>& shape, const Words& bf16,
           const Attributes& more) {
    table_.add(role, name, Format::bf16, shape, bf16, more);
  }
  void add(Role role, const std::string& name, const std::vector<std::int64_t>& shape, const std::vector<float>& fp32,
           const Attributes& more) {
    table_.add(role, name, Format::fp32, shape, fp32, more);
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
      rows_ = gate.rows, n_ = gate.cols, h = gate_and_up(gate.words, up.words, n_, spec_.gate_up);
      attribute("source", "gate: " + gate.source + "; up: " + up.source);
    }
    attribute("rows", std::to_string(rows_));
    attribute("inner", std::to_string(n_));
    attribute("gate_up", spec_.gate_up == GateUp::halves ? "halves" : "interleaved");
    attribute("offsets", offsets_to_text(spec_.offsets));
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
      ds_.push_back(swiglu_row_gradient(part(h_, 2 * inner), spec_.gate_up, part(p_, inner), weights_[row],
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
          quantize(view, c.format, block, recipe_named(c.recipe), c.along_tokens ? spec_.offsets : none, threads_);
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
      table_.add(role, as, t.format, out.shape, out.data, more);
    };
    put(name + "_codes", q.codes);
    put(name + "_scales", q.scales());
  }

  const SwigluGolden& spec_;
  const std::string& directory_;
  int threads_;
  std::int64_t rows_ = 0, n_ = 0;
  std::vector<float> h_, p_, weights_, ds_;
  Words a_, scaled_a_, dh_;
  GoldenBuilder table_;
};

constexpr std::size_t kMostCodes = 64;  // two datasets each, of 256

void parse_format_and_recipe(JsonObject& o, SwigluCodes& codes) {
  codes.format = format_named(o, "format", o.text("format"), kQuantizedFormats);
  codes.recipe = at_place(o, "recipe", [&] { return recipe_named(o.text("recipe")).name; });
}

SwigluCodes parse_codes(const Json& value, const std::string& place) {
  constexpr std::array<std::string_view, 3> kOf{"A", "scaled_A", "dH"};
  JsonObject o(value, place);
  SwigluCodes codes;
  codes.of = o.text("of");
  if (std::find(kOf.begin(), kOf.end(), codes.of) == kOf.end()) o.refuse("of", "must be A, scaled_A or dH");
  parse_format_and_recipe(o, codes);
  const BlockShape block = at_place(o, "block", [&] { return block_shape_named(o.text("block")); });
  if (block.rows != 1 || block.cols < 1) o.refuse("block", "must be of one row, as 1x32, also of the transpose");
  codes.block = block.cols;
  const std::string along = o.text_or("along", "columns");
  if (along != "columns" && along != "tokens") o.refuse("along", "must be columns or tokens");
  codes.along_tokens = along == "tokens";
  o.finish();
  return codes;
}

std::any parse_swiglu(JsonObject& o) {
  SwigluGolden spec;
  spec.has_h = o.has("h");
  if (spec.has_h == (o.has("gate") || o.has("up"))) o.refuse("h", "or gate and up are needed, and not both");
  if (spec.has_h) {
    spec.h = input_at(o, "h");
  } else {
    spec.gate = input_at(o, "gate"), spec.up = input_at(o, "up");
  }
  spec.p = input_at(o, "p"), spec.weights = input_at(o, "weights");
  spec.gate_up = parse_gate_up(o);
  spec.offsets = parse_offsets(o);
  if (o.has("h_codes")) {
    JsonObject h(o.required("h_codes"), o.place() + ".h_codes");
    parse_format_and_recipe(h, spec.h_codes.emplace());
    h.finish();
  }
  if (!o.has("codes")) return spec;
  std::set<std::string> names;
  for (const Json& value : o.list("codes", kMostCodes)) {
    const std::string place = o.place() + ".codes[" + std::to_string(spec.codes.size()) + "]";
    spec.codes.push_back(parse_codes(value, place));
    if (!names.insert(name_of(spec.codes.back())).second)
      throw Error(ErrorKind::usage, place + ": " + name_of(spec.codes.back()) + " is a duplicate");
  }
  return spec;
}

}  // namespace

std::string name_of(const SwigluCodes& c) {
  std::string name = c.of + (c.along_tokens ? "_T_" : "_") + std::string(spec(c.format).name) + "_1x" +
                     std::to_string(c.block) + "_" + c.recipe;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

GateUp parse_gate_up(JsonObject& o) {
  const std::string order = o.text_or("gate_up", "halves");
  if (order != "halves" && order != "interleaved") o.refuse("gate_up", "must be halves or interleaved");
  return order == "halves" ? GateUp::halves : GateUp::interleaved;
}

std::vector<std::uint16_t> gate_and_up(const std::vector<std::uint16_t>& gate, const std::vector<std::uint16_t>& up,
                                       std::int64_t n, GateUp order) {
  const auto width = static_cast<std::size_t>(n);
  const bool halves = order == GateUp::halves;
  std::vector<std::uint16_t> all(2 * gate.size());
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const std::size_t row = i / width * 2 * width, j = i % width;
    all[row + (halves ? j : 2 * j)] = gate[i];
    all[row + (halves ? width + j : 2 * j + 1)] = up[i];
  }
  return all;
}

InputSpec input_at(JsonObject& o, const char* key) { return parse_input(o.required(key), o.place() + "." + key); }

std::string size_text(std::int64_t rows, std::int64_t cols) {
  return std::to_string(rows) + " x " + std::to_string(cols);
}

std::vector<const GoldenKind*> swiglu_golden_kinds() {
  static const GoldenKind kKind(
      "swiglu", parse_swiglu, [](const GoldenSpec& g, const MakeOptions& o) { return SwigluMaker(g, o).run(); },
      rows_of_swiglu);
  return {&kKind};
}

}  // namespace mxcheck
