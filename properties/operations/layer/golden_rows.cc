// Rows that explain goldens of the kind swiglu: slips of SwiGLU and of its gradient, and those of blocks for its codes.

#include <bit>
#include <cmath>
#include <memory>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "properties/goldens/kind.h"
#include "properties/operations/layer/definitions.h"
#include "properties/operations/layer/golden.h"
#include "properties/operations/scaled_blocks/definitions.h"

namespace mxcheck {
namespace {

std::vector<std::int64_t> offsets_of(const GoldenTensors& golden) {
  if (golden.info.find("offsets") == nullptr) return {};
  return values_in<std::int64_t>(golden_tensor(golden, "offsets", Format::int64, {kAnyExtent}).data);
}

// H as BF16 words; nothing where it is codes whose values BF16 does not hold.
std::optional<std::vector<std::uint16_t>> h_of(const GoldenTensors& golden) {
  if (golden.info.find("H") != nullptr)
    return values_in<std::uint16_t>(golden_tensor(golden, "H", Format::bf16, {kAnyExtent, kAnyExtent}).data);
  const Tensor& codes = golden_tensor(golden, "H_codes");
  const Tensor& scales = golden_tensor(golden, "H_scales");
  if (scales.format != Format::uint8 || codes.format != Format::uint8) return std::nullopt;
  const Format element = format_of_attribute(golden.info.find("H_codes")->format);
  const QuantizedTensor q{{"", element, codes.shape, codes.data},
                          {{{1, 32}, ScaleRule::rceil, {"", Format::e8m0, scales.shape, scales.data}}}};
  std::vector<std::uint16_t> words;
  for (const float value : dequantize(q)) {
    words.push_back(layer_bf16(value));
    if (!std::isnan(value) && std::bit_cast<std::uint32_t>(value) != std::uint32_t{words.back()} << 16)
      return std::nullopt;
  }
  return words;
}

Table rows_of_values(const GoldenTensors& golden, const std::string& dataset) {
  std::optional<std::vector<std::uint16_t>> h = h_of(golden);
  if (!h) return {};
  const GateUp order =
      attribute(golden.info.attributes, "gate_up") == "interleaved" ? GateUp::interleaved : GateUp::halves;
  const Tensor& weights = golden_tensor(golden, "row_weight", Format::fp32, {kAnyExtent});
  const std::int64_t rows = weights.shape[0], elements = std::ssize(*h);
  if (rows == 0 ? elements != 0 : elements % (2 * rows) != 0)
    throw Error(ErrorKind::golden, "its H has " + std::to_string(elements) + " elements, row_weight " +
                                       std::to_string(rows) + ": no whole rows of a gate and an up each");
  const Tensor& p = golden_tensor(golden, "P", Format::fp32, {rows, rows == 0 ? kAnyExtent : elements / (2 * rows)});
  std::vector<std::int64_t> offsets = offsets_of(golden);
  check_offsets(offsets, rows);
  const auto d = layer_of_swiglu(std::move(*h), values_in<float>(p.data), values_in<float>(weights.data),
                                 std::move(offsets), order);
  // The layer has A twice; the second reads H as it was kept, and P.
  return step_definitions(d, {dataset == "A" ? "A_again" : dataset});
}

// One dataset of codes or scales.
struct Coded {
  BlocksProblem problem;
  bool codes = false;  // else scales
  bool turned = false;
  std::size_t width = 1;

  [[nodiscard]] Bytes in_order(const Bytes& bytes) const {
    const std::int64_t rows = codes ? problem.rows() : problem.expected.scale_rows();
    const std::int64_t cols = codes ? problem.cols() : problem.expected.scale_cols();
    if (!turned || bytes.size() != static_cast<std::size_t>(rows * cols) * width) return turned ? Bytes() : bytes;
    return transposed(bytes, width, rows, cols);
  }
  [[nodiscard]] Bytes of(const QuantizedTensor& q) const { return in_order(codes ? q.codes.data : q.scales().data); }
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
  const BlocksProblem& p = c.problem;
  const std::size_t width = size_of(info->dtype);
  if (own->data.size() != p.expected.scales().data.size() || width != size_of(p.expected.scales().format)) return;
  c.problem.own_scales = p.expected.scales();
  c.problem.own_scales->data =
      c.turned ? transposed(own->data, width, p.expected.scale_cols(), p.expected.scale_rows()) : own->data;
}

std::shared_ptr<Coded> coded_of(const GoldenTensors& golden, const DatasetInfo& dataset,
                                const CandidateTensor& candidate) {
  auto c = std::make_shared<Coded>();
  c->codes = dataset.name.ends_with("_codes"), c->width = size_of(dataset.dtype);
  const std::string stem = dataset.name.substr(0, dataset.name.rfind('_'));
  const DatasetInfo* codes = golden.info.find(stem + "_codes");
  if (codes == nullptr) throw Error(ErrorKind::golden, "it lacks the dataset " + stem + "_codes");
  c->turned = attribute(dataset.attributes, "along").starts_with("tokens");
  const Tensor& x = golden_tensor(golden, attribute(dataset.attributes, "of"), Format::bf16, {kAnyExtent, kAnyExtent});
  BlocksProblem& p = c->problem;
  p.x = {x.name, Format::bf16, x.shape, x.data};
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
Definition of_own_values(const GoldenTensors& golden, const std::string& of, const CandidateTensor& candidate,
                         const std::shared_ptr<Coded>& c) {
  return definition_of_output(
      0, "they are right for the candidate's own " + of + ": only that is wrong",
      [&golden, of, candidate, c]() -> Bytes {
        try {
          const std::optional<Tensor> own = candidate(of);
          if (!own || !form_of(*golden.info.find(of), *own).comparable) return {};
          const BlocksProblem& p = c->problem;
          const MatrixView view{Format::bf16, own->data.data(), p.rows(), p.cols(), p.cols()};
          return c->of(quantize(view, p.element, p.block, p.recipe, p.offsets));
        } catch (const Error&) {
          return {};
        }
      },
      "", true);
}

Table rows_of_codes(const GoldenTensors& golden, const DatasetInfo& dataset, const CandidateTensor& candidate) {
  const std::shared_ptr<Coded> c = coded_of(golden, dataset, candidate);
  Table all{of_own_values(golden, attribute(dataset.attributes, "of"), candidate, c)};
  for (Definition& row : blocks_table(c->problem, 0, 1)) {
    row.bytes = [c, bytes = std::move(row.bytes)](std::size_t) { return c->in_order(bytes(c->codes ? 0 : 1)); };
    all.push_back(std::move(row));
  }
  if (c->turned) {
    all.push_back(definition_of_output(0, "the order of rows, not transposed", [c] {
      const Coded plain{c->problem, c->codes, false, c->width};
      return plain.of(c->problem.expected);
    }));
  }
  return all;
}

}  // namespace

Table rows_of_swiglu(const GoldenTensors& golden, const DatasetInfo& dataset, const CandidateTensor& candidate) {
  const bool coded = dataset.name.ends_with("_codes") || dataset.name.ends_with("_scales");
  return coded ? rows_of_codes(golden, dataset, candidate) : rows_of_values(golden, dataset.name);
}

}  // namespace mxcheck
