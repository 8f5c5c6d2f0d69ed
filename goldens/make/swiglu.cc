// Goldens of the kind swiglu: SwiGLU and its gradient, their values and codes.

#include <algorithm>
#include <bit>

#include "goldens/format/offsets.h"
#include "goldens/make/input.h"
#include "goldens/make/layer.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/scale/recipe_words.h"
#include "reference/common/checked_size.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

using Words = std::vector<std::uint16_t>;

template <class T>
std::vector<T> transposed(const std::vector<T>& x, std::int64_t rows, std::int64_t cols) {
  std::vector<T> out(x.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col)
      out[static_cast<std::size_t>(col * rows + row)] = x[static_cast<std::size_t>(row * cols + col)];
  }
  return out;
}

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorKind::usage, what); }

std::string size_text(std::int64_t rows, std::int64_t cols) {
  return std::to_string(rows) + " x " + std::to_string(cols);
}

void check_size(const std::string& key, std::int64_t rows, std::int64_t cols, std::int64_t right_rows,
                std::int64_t right_cols) {
  if (rows != right_rows || cols != right_cols)
    refuse(key + ": is " + size_text(rows, cols) + "; " + size_text(right_rows, right_cols) + " is needed");
}

class Maker {
 public:
  Maker(const GoldenSpec& golden, const std::string& directory, int threads)
      : golden_(golden), spec_(golden.swiglu), directory_(directory), threads_(threads) {}

  Table run() {
    table_.info.attributes = common_attributes(golden_);
    read_h();
    read_p();
    if (!golden_.offsets.empty()) {
      check_offsets(golden_.offsets, rows_);
      add(Role::input, "offsets", "int64", Dtype::i64, {std::ssize(golden_.offsets)}, golden_.offsets,
          {{"meaning", "first row of each expert, then all rows; blocks along tokens start again there"}});
    }
    compute();
    write();
    return std::move(table_);
  }

 private:
  void attribute(const char* key, std::string value) { table_.info.attributes.emplace_back(key, std::move(value)); }

  template <class T>
  void add(Role role, const std::string& name, std::string_view format, Dtype dtype, std::vector<std::int64_t> shape,
           const std::vector<T>& values, Attributes attributes) {
    table_.info.datasets.push_back({name, role, std::string(format), dtype, std::move(shape), std::move(attributes)});
    table_.data.push_back(to_bytes(values));
  }
  void add(Role role, const std::string& name, std::vector<std::int64_t> shape, const Words& bf16, Attributes more) {
    add(role, name, "bfloat16", Dtype::u16, std::move(shape), bf16, std::move(more));
  }
  void add(Role role, const std::string& name, std::vector<std::int64_t> shape, const std::vector<float>& fp32,
           Attributes more) {
    add(role, name, "float32", Dtype::u32, std::move(shape), fp32, std::move(more));
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
      if (in.cols % 2 != 0) refuse("h: has " + std::to_string(in.cols) + " columns; an even number is needed");
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
    const Quantized q =
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
      const Quantized q =
          quantize(view, c.format, block, recipe_named(c.recipe), c.along_tokens ? golden_.offsets : none, threads_);
      add_quantized(Role::output, name_of(c), q, c.along_tokens,
                    {{"step", step},
                     {"of", of},
                     {"block", "1x" + std::to_string(c.block)},
                     {"recipe", c.recipe},
                     {"along", c.along_tokens ? "tokens: of the transpose" : "columns"}});
    }
  }

  void add_quantized(Role role, const std::string& name, const Quantized& q, bool turned, const Attributes& more) {
    const auto put = [&](const std::string& as, std::string_view format, Dtype dtype, std::int64_t rows,
                         std::int64_t cols, const auto& values) {
      turned ? add(role, as, format, dtype, {cols, rows}, transposed(values, rows, cols), more)
             : add(role, as, format, dtype, {rows, cols}, values, more);
    };
    const std::string_view element = spec(q.element).dtype_name;
    q.codes16.empty() ? put(name + "_codes", element, Dtype::u8, q.rows, q.cols, q.codes)
                      : put(name + "_codes", element, Dtype::u16, q.rows, q.cols, q.codes16);
    q.scales_fp32.empty()
        ? put(name + "_scales", spec(Format::e8m0).dtype_name, Dtype::u8, q.scale_rows, q.scale_cols, q.scales)
        : put(name + "_scales", "float32", Dtype::u32, q.scale_rows, q.scale_cols, q.scales_fp32);
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
  return Maker(golden, input_directory, threads).run();
}

}  // namespace mxcheck
