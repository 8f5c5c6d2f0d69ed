#include "tools/layer/weights.h"

#include "numerics/error.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

using Words = std::vector<std::uint16_t>;

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::input, text); }

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
    refuse(t.where + ": is " + shape_in_brackets(t.shape) + "; " + right + " is needed, with " + s.text());
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
    refuse(t.where + ": is " + shape_in_brackets(t.shape) + "; " + right + " is needed, with " + s.text() +
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
    refuse(t.where + ": is " + shape_in_brackets(t.shape) + "; " + right + " is needed, with " + s.text() +
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

// One of an expert's three matrices, [out, in] as torch's Linear has it.
Bf16Tensor linear(const LayerFiles& files, const Pattern& pattern, std::int64_t expert, std::int64_t out,
                  std::int64_t in, const Sizes& s, const std::string& what) {
  Bf16Tensor t = bf16_tensor(files, pattern.option, numbered(pattern.text, expert, pattern.option));
  const bool fits = t.shape.size() == 2 && (out < 0 || t.shape[0] == out) && (in < 0 || t.shape[1] == in);
  if (!fits || t.shape[0] < 1 || t.shape[1] < 1) {
    const auto extent = [](std::int64_t n) { return n < 0 ? std::string("n") : std::to_string(n); };
    refuse(t.where + ": is " + shape_in_brackets(t.shape) + "; " + what + " = [" + extent(out) + ", " + extent(in) +
           "] is needed, with " + s.text());
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

}  // namespace mxcheck
