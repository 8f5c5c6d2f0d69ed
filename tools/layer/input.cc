#include "tools/layer/input.h"

#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "goldens/data/embedded.h"
#include "goldens/format/described_file.h"
#include "goldens/io/row_reader.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/scale/recipe_words.h"
#include "numerics/text.h"
#include "reference/common/checked_size.h"
#include "tools/common/output.h"
#include "tools/common/panels.h"

namespace mxcheck {
namespace {

// "x.npy", "a.safetensors:X", "real:layer0.x": says where, and not only what.
bool is_location(const std::string& name) {
  if (name.starts_with(kRealPrefix) || name.ends_with(".npy") || name.ends_with(".safetensors")) return true;
  constexpr std::array<std::string_view, 3> kFiles{".safetensors:", ".h5:", ".hdf5:"};
  for (const std::string_view file : kFiles) {
    if (name.find(file) != std::string::npos) return true;
  }
  return false;
}

std::string location_in(const std::string& file, const std::string& name) {
  return file + (is_hdf5_path(file) && name[0] != '/' ? ":/" : ":") + name;
}

// True if the error is read_tensor's about a file that is sound and lacks the tensor.
bool is_absent(const Error& e) {
  const std::string text = e.what();
  return text.find("has no tensor '") != std::string::npos || text.find("there is no '/") != std::string::npos;
}

bool has(const std::string& location) {
  try {
    return open_rows(location) != nullptr;
  } catch (const Error& e) {
    if (is_absent(e)) return false;
    throw;
  }
}

}  // namespace

GateUp gate_up_of(const LayerFiles& files) {
  return files.gate_up == "interleaved" ? GateUp::interleaved : GateUp::halves;
}

std::string shape_in_brackets(const std::vector<std::int64_t>& shape) {
  return "[" + join(shape, ", ", [](std::int64_t extent) { return std::to_string(extent); }) + "]";
}

std::string location_of(const LayerFiles& files, const std::string& option, const std::string& name) {
  if (is_location(name)) return name;
  if (files.inputs.empty())
    refuse_input(option + " " + name + ": is a name, and there is no INPUT file to look it up in; give " + option +
                 " FILE:TENSOR");
  if (files.inputs.size() == 1) return location_in(files.inputs[0], name);
  std::vector<std::string> found;
  for (const std::string& file : files.inputs) {
    if (has(location_in(file, name))) found.push_back(location_in(file, name));
  }
  if (found.empty())
    refuse_input("none of " + join(files.inputs) + " has a tensor '" + name + "'; " + option + " names another");
  if (found.size() > 1)
    refuse_input("a tensor '" + name + "' is in " + join(found) + "; say which: " + option + " " + found[0]);
  return found[0];
}

Bf16Tensor bf16_tensor(const LayerFiles& files, const std::string& option, const std::string& name) {
  const std::string where = location_of(files, option, name);
  Tensor t;
  try {
    t = tensor_at(where);
  } catch (const Error& e) {
    if (!is_absent(e)) throw;
    throw Error(e.kind(), std::string(e.what()) + "; " + option + " names another");
  }
  const bool is_bits = t.format == Format::uint16 && files.dtype == "bf16";
  if (t.format != Format::bf16 && !is_bits) {
    const char* hint = t.format == Format::uint16 ? "; if these are its bits, say --dtype bf16"
                                                  : "; convert it first, so that the rounding is yours";
    refuse_input(where + ": has dtype " + safetensors_name(t.format) + "; BF16 is needed" + hint);
  }
  return {where, t.shape, values_in<std::uint16_t>(t.data)};
}

Bf16Tensor token_tensor(const LayerFiles& files, const std::string& option, const std::string& name) {
  Bf16Tensor t = bf16_tensor(files, option, name);
  while (t.shape.size() > 2 && t.shape[0] == 1) t.shape.erase(t.shape.begin());
  if (t.shape.size() != 2)
    refuse_input(t.where + ": is " + shape_in_brackets(t.shape) +
                 "; [tokens, d] is needed: reshape it to two dimensions");
  return t;
}

namespace {

using Words = std::vector<std::uint16_t>;

struct Sizes {
  std::int64_t experts, width;
  const std::string& routes_from;
  const std::string& x_from;
  [[nodiscard]] std::string text() const {
    return "E = " + std::to_string(experts) + " of " + routes_from + " and d = " + std::to_string(width) + " of " +
           x_from;
  }
};

// Each expert's matrix, rows x cols, as cols x rows.
Words transposed(const Words& w, std::int64_t experts, std::int64_t rows, std::int64_t cols) {
  Words out(w.size());
  for (std::int64_t e = 0; e < experts; ++e) {
    const std::int64_t at = e * rows * cols;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c)
        out[static_cast<std::size_t>(at + c * rows + r)] = w[static_cast<std::size_t>(at + r * cols + c)];
    }
  }
  return out;
}

// The tensor as [E, rows, cols]: three dimensions, or two where an expert's rows follow another's, as a layer's HDF5
// file has them.
std::vector<std::int64_t> by_expert(const Bf16Tensor& t, const Sizes& s, const std::string& right) {
  std::vector<std::int64_t> shape = t.shape;
  if (shape.size() == 2 && shape[0] % s.experts == 0) shape = {s.experts, shape[0] / s.experts, shape[1]};
  if (shape.size() != 3 || shape[0] != s.experts)
    refuse_input(t.where + ": is " + shape_in_brackets(t.shape) + "; " + right + " is needed, with " + s.text());
  return shape;
}

Words read_w1(const LayerFiles& files, const Sizes& s, std::int64_t& inner) {
  Bf16Tensor t = bf16_tensor(files, "--w1", files.w1);
  const bool torch = files.w1_layout == "2n-d";
  const std::string right = torch ? "[E, 2n, d]" : "[E, d, 2n]";
  const std::vector<std::int64_t> shape = by_expert(t, s, right);
  const std::int64_t width = torch ? shape[2] : shape[1];
  const std::int64_t both = torch ? shape[1] : shape[2];
  if (width != s.width || both < 2 || both % 2 != 0) {
    const bool other = (torch ? shape[1] : shape[2]) == s.width && width % 2 == 0;
    refuse_input(t.where + ": is " + shape_in_brackets(t.shape) + "; " + right + " is needed, with " + s.text() +
                 (other ? std::string("; it fits --w1-layout ") + (torch ? "d-2n" : "2n-d") : ""));
  }
  inner = both / 2;
  return torch ? transposed(t.words, s.experts, both, width) : std::move(t.words);
}

Words read_w2(const LayerFiles& files, const Sizes& s, std::int64_t inner, const std::string& w1_from) {
  Bf16Tensor t = bf16_tensor(files, "--w2", files.w2);
  const bool torch = files.w2_layout == "d-n";
  const std::string right = torch ? "[E, d, n]" : "[E, n, d]";
  const std::vector<std::int64_t> shape = by_expert(t, s, right);
  const std::int64_t n = torch ? shape[2] : shape[1];
  const std::int64_t width = torch ? shape[1] : shape[2];
  if (n != inner || width != s.width) {
    const bool other = n == s.width && width == inner;
    refuse_input(t.where + ": is " + shape_in_brackets(t.shape) + "; " + right + " is needed, with " + s.text() +
                 " and n = " + std::to_string(inner) + " of " + w1_from +
                 (other ? std::string("; it fits --w2-layout ") + (torch ? "n-d" : "d-n") : ""));
  }
  return torch ? transposed(t.words, s.experts, width, n) : std::move(t.words);
}

// The pattern with the expert's number in place of {}.
std::string numbered(const std::string& pattern, std::int64_t expert, const std::string& option) {
  const std::size_t at = pattern.find("{}");
  if (at == std::string::npos || pattern.find("{}", at + 2) != std::string::npos)
    throw Error(ErrorKind::usage, option + " " + pattern + ": '{}' must be there once: the expert's number");
  std::string name = pattern;
  return name.replace(at, 2, std::to_string(expert));
}

struct Pattern {
  const char* option;
  std::string text;
};

// A matrix of an expert, of its three: [out, in], as torch's Linear has it.
Bf16Tensor linear(const LayerFiles& files, const Pattern& pattern, std::int64_t expert, std::int64_t out,
                  std::int64_t in, const Sizes& s, const std::string& what) {
  Bf16Tensor t = bf16_tensor(files, pattern.option, numbered(pattern.text, expert, pattern.option));
  const bool fits = t.shape.size() == 2 && (out < 0 || t.shape[0] == out) && (in < 0 || t.shape[1] == in);
  if (!fits || t.shape[0] < 1 || t.shape[1] < 1) {
    const auto extent = [](std::int64_t n) { return n < 0 ? std::string("n") : std::to_string(n); };
    refuse_input(t.where + ": is " + shape_in_brackets(t.shape) + "; " + what + " = [" + extent(out) + ", " +
                 extent(in) + "] is needed, with " + s.text());
  }
  return t;
}

// Columns of one expert's W1, which lies at `at`.
void set_columns(Words& w1, std::int64_t at, const Words& rows, std::int64_t n, std::int64_t d, bool is_up,
                 GateUp order) {
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t col = order == GateUp::interleaved ? 2 * j + (is_up ? 1 : 0) : j + (is_up ? n : 0);
    for (std::int64_t i = 0; i < d; ++i)
      w1[static_cast<std::size_t>(at + i * 2 * n + col)] = rows[static_cast<std::size_t>(j * d + i)];
  }
}

LayerWeights read_experts(const LayerFiles& files, const Sizes& s) {
  const auto pattern = [&](const char* option, const std::string& own, const char* usual) {
    if (!own.empty()) return Pattern{option, own};
    if (files.experts.empty())
      throw Error(ErrorKind::usage, std::string(option) +
                                        " is needed too: --gate-proj, --up-proj and --down-proj, or "
                                        "--experts for the usual names");
    return Pattern{"--experts", files.experts + usual};
  };
  const Pattern gate = pattern("--gate-proj", files.gate, ".gate_proj.weight");
  const Pattern up = pattern("--up-proj", files.up, ".up_proj.weight");
  const Pattern down = pattern("--down-proj", files.down, ".down_proj.weight");
  LayerWeights w;
  w.inner = -1;
  for (std::int64_t e = 0; e < s.experts; ++e) {
    const Bf16Tensor g = linear(files, gate, e, w.inner, s.width, s, "[n, d]");
    if (e == 0) {
      w.inner = g.shape[0];
      const std::int64_t all = checked_product(s.experts, checked_product(w.inner, s.width, "W2"), "W2");
      resize_or_throw(w.w1, checked_product(all, 2, "W1"), "W1");
      w.w2.reserve(static_cast<std::size_t>(all));
    }
    const Bf16Tensor u = linear(files, up, e, w.inner, s.width, s, "[n, d]");
    const Bf16Tensor d = linear(files, down, e, s.width, w.inner, s, "[d, n]");
    const std::int64_t at = e * s.width * 2 * w.inner;
    set_columns(w.w1, at, g.words, w.inner, s.width, false, gate_up_of(files));
    set_columns(w.w1, at, u.words, w.inner, s.width, true, gate_up_of(files));
    const Words rows = transposed(d.words, 1, s.width, w.inner);
    w.w2.insert(w.w2.end(), rows.begin(), rows.end());
  }
  return w;
}

}  // namespace

LayerWeights read_weights(const LayerFiles& files, std::int64_t experts, std::int64_t width,
                          const std::string& routes_from, const std::string& x_from) {
  const Sizes sizes{experts, width, routes_from, x_from};
  const bool patterns = !files.gate.empty() || !files.up.empty() || !files.down.empty();
  if (!files.experts.empty() || patterns) return read_experts(files, sizes);
  LayerWeights w;
  w.w1 = read_w1(files, sizes, w.inner);
  w.w2 = read_w2(files, sizes, w.inner, location_of(files, "--w1", files.w1));
  return w;
}

namespace {

class RoutesInFile {
 public:
  explicit RoutesInFile(const std::string& file) : file_(file), colon_(is_hdf5_path(file) ? ":/" : ":") {
    if (!is_described_path(file))
      throw Error(ErrorKind::usage, "--routes " + file + ": FILE.safetensors or FILE.h5 of mxcheck route is needed");
  }

  // Nothing where the file has no such tensor.
  std::optional<Tensor> find(const std::string& name, Format dtype, std::size_t rank) const {
    const std::string where = file_ + colon_ + name;
    Tensor t;
    try {
      t = read_tensor(where);
    } catch (const Error& e) {
      const std::string text = e.what();
      if (text.find("has no tensor '") != std::string::npos || text.find("there is no '/") != std::string::npos)
        return std::nullopt;
      throw;
    }
    if (t.format != dtype || t.shape.size() != rank)
      refuse_input(where + ": is " + safetensors_name(t.format) + " " + shape_in_brackets(t.shape) + "; " +
                   safetensors_name(dtype) + " of " + std::to_string(rank) + " dimensions is needed");
    return t;
  }
  template <class T>
  std::vector<T> list(const std::string& name, Format dtype) const {
    const std::optional<Tensor> t = find(name, dtype, 1);
    if (!t) refuse_input(file_ + ": has no tensor '" + name + "'; what mxcheck route -o wrote is needed");
    return values_in<T>(t->data);
  }

 private:
  std::string file_;
  const char* colon_;
};

}  // namespace

std::optional<std::vector<float>> LayerRouting::logits_gradient(std::span<const float> ds, int threads) const {
  if (slot_experts.empty()) return std::nullopt;
  Router biased = router;
  biased.bias = bias;
  const MatrixView view{logits_dtype, logits.data(), tokens, experts, experts};
  return route_backward(biased, view, slot_experts, slot_gradient(routes, ds), router.top_k, threads);
}

LayerRouting routing_from_logits(const LayerFiles& files, const std::string& logits, const RouterOptions& o,
                                 int threads) {
  LayerRouting r;
  r.where = location_of(files, "--logits", logits);
  r.router = router_of(o);
  TokenRounding rounding = token_rounding_of(o);
  Tensor tensor = tensor_at(r.where);
  while (tensor.shape.size() > 2 && tensor.shape[0] == 1) tensor.shape.erase(tensor.shape.begin());
  const MatrixView view =
      matrix_of({r.where, std::nullopt, tensor.format == Format::uint16 ? files.dtype : ""}, tensor);
  r.tokens = view.rows, r.experts = view.cols, r.logits_dtype = view.dtype;
  r.bias = bias_at(o.bias, r.router, r.experts);
  r.router.bias = r.bias;
  set_capacity(o, rounding, view);
  in_place(r.where, [&] {
    if (rounding.rule == TokenRoundingRule::none) {
      const Routes routes = route(r.router, view, threads);
      r.routes = layer_routes(routes, r.experts);
      r.slot_experts = routes.experts;
    } else {
      r.routes = layer_routes(round_tokens(r.router, rounding, view, threads));
    }
  });
  r.router.bias = {};  // it would point to where this object was before it moved
  r.logits = std::move(tensor.data);
  r.about = {{"variant", o.variant},
             {"top_k", std::to_string(r.router.top_k)},
             {"groups", std::to_string(o.groups)},
             {"groups_kept", std::to_string(o.groups_kept)},
             {"nan", o.nan},
             {"scale", hexfloat(o.scale)},
             {"bias", o.bias.empty() ? "no" : "yes"},
             {"rule", o.round},
             {"tile", std::to_string(o.tile)},
             {"capacity", std::to_string(rounding.capacity)}};
  return r;
}

LayerRouting routing_from_file(const std::string& file) {
  const RoutesInFile in(file);
  LayerRouting r;
  r.where = file;
  r.routes.offsets = in.list<std::int64_t>("offsets", Format::int64);
  r.routes.token_offsets = in.list<std::int64_t>("token_offsets", Format::int64);
  if (r.routes.offsets.size() < 2 || r.routes.token_offsets.empty())
    refuse_input(file + ": offsets of " + std::to_string(r.routes.offsets.size()) + " numbers and token_offsets of " +
                 std::to_string(r.routes.token_offsets.size()) + "; experts + 1, 2 or more, and tokens + 1 are needed");
  r.experts = std::ssize(r.routes.offsets) - 1;
  r.tokens = std::ssize(r.routes.token_offsets) - 1;
  const std::optional<Tensor> experts = in.find("experts", Format::int32, 2);
  const std::optional<Tensor> weights = in.find("weights", Format::fp32, 2);
  in_place_of_input(file, file, [&] {
    if (experts && weights) {
      if (experts->shape[0] != r.tokens || experts->shape != weights->shape || experts->shape[1] < 1)
        refuse_input("experts is " + shape_in_brackets(experts->shape) + " and weights " +
                     shape_in_brackets(weights->shape) + "; both must be [" + std::to_string(r.tokens) + ", top_k]");
      r.routes = layer_routes(values_in<std::int32_t>(experts->data), values_in<float>(weights->data),
                              experts->shape[1], {}, r.experts);
      return;
    }
    r.routes.row_token = in.list<std::int32_t>("row_token", Format::int32);
    r.routes.row_weight = in.list<float>("row_weight", Format::fp32);
    r.routes.token_rows = in.list<std::int32_t>("token_rows", Format::int32);
    check(r.routes, r.tokens, r.experts);
  });
  return r;
}

}  // namespace mxcheck
