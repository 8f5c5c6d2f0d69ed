#include "properties/diagnosis/golden_swiglu.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <numeric>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "properties/diagnosis/golden_form.h"
#include "properties/diagnosis/golden_problem.h"
#include "properties/diagnosis/layer/causes.h"

namespace mxcheck {
namespace {

const Tensor& tensor(const GoldenTensors& golden, const std::string& name) {
  const auto found = golden.tensors.find(name);
  if (found == golden.tensors.end()) throw Error(ErrorKind::golden, "it lacks the dataset " + name);
  return found->second;
}

std::vector<std::int64_t> offsets_of(const GoldenTensors& golden) {
  if (golden.info.find("offsets") == nullptr) return {};
  return values_in<std::int64_t>(tensor(golden, "offsets").data);
}

// H as BF16 words; nothing where it is codes whose values BF16 does not hold.
std::optional<std::vector<std::uint16_t>> h_of(const GoldenTensors& golden) {
  if (golden.info.find("H") != nullptr) return values_in<std::uint16_t>(tensor(golden, "H").data);
  const Tensor& codes = tensor(golden, "H_codes");
  const Tensor& scales = tensor(golden, "H_scales");
  if (scales.dtype != Dtype::u8 || codes.dtype != Dtype::u8) return std::nullopt;
  Quantized q;
  q.element = format_of_attribute(golden.info.find("H_codes")->format), q.block = {1, 32};
  q.rows = codes.shape.at(0), q.cols = codes.shape.at(1);
  q.scale_rows = scales.shape.at(0), q.scale_cols = scales.shape.at(1);
  q.codes = values_in<std::uint8_t>(codes.data), q.scales = values_in<std::uint8_t>(scales.data);
  std::vector<std::uint16_t> words;
  for (const float value : dequantize(q)) {
    words.push_back(layer_bf16(value));
    if (!std::isnan(value) && std::bit_cast<std::uint32_t>(value) != std::uint32_t{words.back()} << 16)
      return std::nullopt;
  }
  return words;
}

// A layer of one column whose H, P and weights are the golden's, so that the causes of a layer's SwiGLU hold here too.
std::shared_ptr<LayerData> layer_of(const GoldenTensors& golden) {
  std::optional<std::vector<std::uint16_t>> h = h_of(golden);
  if (!h) return nullptr;
  auto d = std::make_shared<LayerData>();
  const std::vector<std::int64_t>& shape = tensor(golden, "P").shape;
  const std::int64_t rows = shape.at(0), n = shape.at(1);
  std::vector<std::int64_t> offsets = offsets_of(golden);
  if (offsets.empty()) offsets = {0, rows};
  d->shape = {rows, 1, n, std::ssize(offsets) - 1};
  d->recipe = layer_recipe_named("bf16");
  d->gate_up = attribute(golden.info.attributes, "gate_up") == "interleaved" ? GateUp::interleaved : GateUp::halves;
  const auto tokens = static_cast<std::size_t>(rows);
  const auto weights = static_cast<std::size_t>(d->shape.experts * n);
  d->x.resize(tokens), d->d_o.resize(tokens), d->w1.resize(2 * weights), d->w2.resize(weights);
  d->forward.y.resize(tokens), d->backward.dx_rows.resize(tokens);
  d->routes.offsets = std::move(offsets);
  d->routes.row_weight = values_in<float>(tensor(golden, "row_weight").data);
  d->routes.row_token.resize(tokens), d->routes.token_offsets.resize(tokens + 1);
  std::iota(d->routes.row_token.begin(), d->routes.row_token.end(), 0);
  std::iota(d->routes.token_offsets.begin(), d->routes.token_offsets.end(), 0);
  d->routes.token_rows = d->routes.row_token;
  d->has_backward = true;
  d->forward.h = std::move(*h);
  d->forward.a = d->backward.a = values_in<std::uint16_t>(tensor(golden, "A").data);
  d->backward.p = values_in<float>(tensor(golden, "P").data);
  d->backward.scaled_a = values_in<std::uint16_t>(tensor(golden, "scaled_A").data);
  LayerOperand& kept = d->forward.kept.h;
  kept.rows = rows, kept.cols = 2 * n, kept.values = d->forward.h;
  return d;
}

std::vector<Hypothesis> value_hypotheses(const GoldenTensors& golden, const std::string& dataset) {
  std::vector<Hypothesis> all;
  const std::shared_ptr<LayerData> d = layer_of(golden);
  if (d == nullptr) return all;
  // The layer has A twice; the second reads H as it was kept, and P.
  const std::string name = dataset == "A" ? "A_again" : dataset;
  for (LayerCause& cause : layer_causes(d->recipe, name)) {
    all.push_back({cause.text, [d, name, cause]() -> Bytes {
                     try {
                       Bytes bytes = cause.bytes(*d, name);
                       const auto is_zero = [](std::byte b) { return b == std::byte{0}; };
                       // A sum over the layer's other tensors, which are not here.
                       return std::all_of(bytes.begin(), bytes.end(), is_zero) ? Bytes() : bytes;
                     } catch (const Error&) {
                       return {};
                     }
                   }});
  }
  return all;
}

template <class T>
std::vector<T> transposed(const std::vector<T>& x, std::int64_t rows, std::int64_t cols) {
  std::vector<T> out(x.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col)
      out[static_cast<std::size_t>(col * rows + row)] = x[static_cast<std::size_t>(row * cols + col)];
  }
  return out;
}

// rows x cols elements of `width` bytes.
Bytes transposed(const Bytes& bytes, std::int64_t rows, std::int64_t cols, std::size_t width) {
  if (width == 1) return transposed<std::byte>(bytes, rows, cols);
  if (width == 2) return to_bytes(transposed(values_in<std::uint16_t>(bytes), rows, cols));
  return to_bytes(transposed(values_in<std::uint32_t>(bytes), rows, cols));
}

// One dataset of codes or scales.
struct Coded {
  GoldenProblem problem;
  bool codes = false;  // else scales
  bool turned = false;
  std::size_t width = 1;

  [[nodiscard]] Bytes in_order(const Bytes& bytes) const {
    const std::int64_t rows = codes ? problem.rows : problem.expected.scale_rows;
    const std::int64_t cols = codes ? problem.cols : problem.expected.scale_cols;
    if (!turned || bytes.size() != static_cast<std::size_t>(rows * cols) * width) return turned ? Bytes() : bytes;
    return transposed(bytes, rows, cols, width);
  }
  [[nodiscard]] Bytes of(const Quantized& q) const {
    if (codes) return in_order(q.codes16.empty() ? to_bytes(q.codes) : to_bytes(q.codes16));
    return in_order(q.scales_fp32.empty() ? to_bytes(q.scales) : to_bytes(q.scales_fp32));
  }
};

// The scales beside the codes, as the candidate has them.
void learn_scales(const GoldenTensors& golden, const std::string& name, const CandidateTensor& candidate, Coded& c) {
  const DatasetInfo* info = golden.info.find(name);
  std::optional<Tensor> own;
  try {
    own = candidate(name);
  } catch (const Error&) {  // a verdict of its own
  }
  if (!own || info == nullptr || !form_of(*info, *own).comparable) return;
  const GoldenProblem& p = c.problem;
  const std::size_t width = size_of(info->dtype);
  const Bytes bytes = c.turned ? transposed(own->data, p.expected.scale_cols, p.expected.scale_rows, width) : own->data;
  if (p.expected.scales_fp32.empty()) {
    c.problem.own_scales = values_in<std::uint8_t>(bytes);
  } else {
    c.problem.own_scales_fp32 = values_in<float>(bytes);
  }
}

std::shared_ptr<Coded> coded_of(const GoldenTensors& golden, const DatasetInfo& dataset,
                                const CandidateTensor& candidate) {
  auto c = std::make_shared<Coded>();
  c->codes = dataset.name.ends_with("_codes"), c->width = size_of(dataset.dtype);
  const std::string stem = dataset.name.substr(0, dataset.name.rfind('_'));
  const DatasetInfo* codes = golden.info.find(stem + "_codes");
  if (codes == nullptr) throw Error(ErrorKind::golden, "it lacks the dataset " + stem + "_codes");
  c->turned = attribute(dataset.attributes, "along").starts_with("tokens");
  const Tensor& x = tensor(golden, attribute(dataset.attributes, "of"));
  GoldenProblem& p = c->problem;
  p.x = x.data, p.rows = x.shape.at(0), p.cols = x.shape.at(1);
  p.element = format_of_attribute(codes->format);
  p.recipe = recipe_named(attribute(dataset.attributes, "recipe"));
  p.block = block_shape_named(attribute(dataset.attributes, "block"));
  if (c->turned) {
    std::swap(p.block.rows, p.block.cols);
    p.offsets = offsets_of(golden);
  }
  p.expected = quantize(p.view(), p.element, p.block, p.recipe, p.offsets);
  if (c->codes) learn_scales(golden, stem + "_scales", candidate, *c);
  return c;
}

// The candidate's own A, dH or A', rightly quantized.
Hypothesis of_own_values(const GoldenTensors& golden, const std::string& of, const CandidateTensor& candidate,
                         const std::shared_ptr<Coded>& c) {
  return {"they are right for the candidate's own " + of + ": only that is wrong",
          [&golden, of, candidate, c]() -> Bytes {
            try {
              const std::optional<Tensor> own = candidate(of);
              if (!own || !form_of(*golden.info.find(of), *own).comparable) return {};
              const GoldenProblem& p = c->problem;
              const MatrixView view{Format::bf16, own->data.data(), p.rows, p.cols, p.cols};
              return c->of(quantize(view, p.element, p.block, p.recipe, p.offsets));
            } catch (const Error&) {
              return {};
            }
          },
          true};
}

std::vector<Hypothesis> code_hypotheses_of(const GoldenTensors& golden, const DatasetInfo& dataset,
                                           const CandidateTensor& candidate) {
  const std::shared_ptr<Coded> c = coded_of(golden, dataset, candidate);
  std::vector<Hypothesis> all{of_own_values(golden, attribute(dataset.attributes, "of"), candidate, c)};
  for (Hypothesis& h : c->codes ? code_hypotheses(c->problem) : scale_hypotheses(c->problem))
    all.push_back({h.text, [c, bytes = std::move(h.bytes)] { return c->in_order(bytes()); }, h.innocent});
  if (c->turned) {
    all.push_back({"the order of rows, not transposed", [c] {
                     Coded plain{c->problem, c->codes, false, c->width};
                     return plain.of(c->problem.expected);
                   }});
  }
  return all;
}

}  // namespace

std::vector<Hypothesis> swiglu_hypotheses(const GoldenTensors& golden, const DatasetInfo& dataset,
                                          const CandidateTensor& candidate) {
  if (attribute(golden.info.attributes, "kind") != "swiglu") return {};
  const bool coded = dataset.name.ends_with("_codes") || dataset.name.ends_with("_scales");
  return coded ? code_hypotheses_of(golden, dataset, candidate) : value_hypotheses(golden, dataset.name);
}

}  // namespace mxcheck
