// Layouts, padding, tails and experts: where a block is must not matter to what it becomes.

#include <numeric>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "properties/core/check.h"
#include "properties/operations/quantize/operation.h"
#include "properties/operations/quantize/problem.h"
#include "properties/operations/scale_layout/problem.h"
#include "properties/operations/scaled_blocks/expand.h"
#include "properties/operations/scaled_blocks/geometry.h"

namespace mxcheck {
namespace {

bool quantizes(const Variant& v) { return v.operation == "quantize"; }

std::vector<Data> usual_data() {
  return {Data::boundaries, Data::normal, Data::real, Data::specials, Data::slots, Data::wide};
}

// A dense copy of the input with other extents: what is new is +0.
Input padded(const Input& from, std::int64_t rows, std::int64_t cols) {
  return make_input(from.dtype, rows, cols, cols, [&](std::int64_t i, std::int64_t j) {
    return i < from.rows && j < from.cols ? from.bits(i, j) : 0;
  });
}

std::vector<std::byte> corner_of(std::span<const std::byte> matrix, std::int64_t stride, std::int64_t rows,
                                 std::int64_t cols) {
  std::vector<std::byte> out;
  for (std::int64_t i = 0; i < rows; ++i) {
    out.insert(out.end(), matrix.begin() + i * stride, matrix.begin() + i * stride + cols);
  }
  return out;
}

std::vector<std::byte> compact_bytes(const Case& c, const std::vector<std::byte>& scales) {
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  return to_bytes(to_compact(scale_geometry(c, v.block), values_in<std::uint8_t>(scales), v.layout));
}

TensorInfo compact_scales(const Case& c) { return compact_scales_info(c, blocks_of(c.variant).block); }

std::optional<Finding> tiled_equals_compact(CheckContext& context, const Case& c) {
  Case compact = c;
  blocks_of(compact.variant).layout = MXCHECK_COMPACT;
  const Input input = expand(c);
  const QuantizeProblem tiled_problem(c, input);
  const Got tiled = run_problem(context, tiled_problem);
  if (!tiled.usable()) return pass_on(context, tiled);
  const Got plain = run_problem(context, QuantizeProblem(compact, input));
  if (!plain.usable()) return pass_on(context, plain);
  if (auto f = differ(tiled_problem.outputs[0], plain.outputs[0], tiled.outputs[0],
                      "codes depend on the layout of the scales")) {
    return f;
  }
  Case changing = c;
  changing.variant.operation = "scale_layout", changing.variant.dtype = Format::bf16;
  blocks_of(changing.variant).format = Format::e4m3, blocks_of(changing.variant).recipe = "rceil";
  const ScaleLayoutProblem change(changing, values_in<std::uint8_t>(plain.outputs[1]));
  if (!offers(context.variants, changing.variant)) {
    return differ(tiled_problem.outputs[1], change.answer()[0].bytes, tiled.outputs[1],
                  "tiled scales are not the compact scales in tiles");
  }
  const Got changed = run_problem(context, change);
  if (!changed.usable()) return pass_on(context, changed);
  return differ(tiled_problem.outputs[1], changed.outputs[0], tiled.outputs[1],
                "tiled scales differ from compact scales after scale_layout");
}

std::optional<Finding> padding_has_no_influence(CheckContext& context, const Case& c) {
  Case tight = c;
  tight.stride = 0;
  const Input input = expand(c);  // NaN after each row
  const Got strided = run_problem(context, QuantizeProblem(c, input));
  if (!strided.usable()) return pass_on(context, strided);
  Case other_pad = tight;
  blocks_case(other_pad).pad = static_cast<std::uint8_t>(blocks_case(c).pad ^ 0xFF);
  const QuantizeProblem plain(other_pad, padded(input, c.rows, c.cols));
  const Got dense = run_problem(context, plain);
  if (!dense.usable()) return pass_on(context, dense);
  if (auto f =
          differ(plain.outputs[0], dense.outputs[0], strided.outputs[0], "codes depend on what lies behind the rows")) {
    return f;
  }
  return differ(compact_scales(c), compact_bytes(other_pad, dense.outputs[1]), compact_bytes(c, strided.outputs[1]),
                "scales depend on what lies behind the rows or on the pad byte");
}

std::optional<Finding> tails_equal_padded(CheckContext& context, const Case& c) {
  if (c.elements() == 0) return nothing_claimed(context);
  const Input input = expand(c);
  const QuantizeProblem plain(c, padded(input, c.rows, c.cols));
  const Got cut = run_problem(context, plain);
  if (!cut.usable()) return pass_on(context, cut);
  const OperationInfo& limits = *context.process.operation(c.variant.operation);
  const auto up = [](std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; };
  const BlockShape block = blocks_of(c.variant).block;
  Case whole = c;  // whole blocks, and a shape that the candidate takes
  whole.rows = up(c.rows, std::lcm(std::max<std::int64_t>(1, block.rows), limits.rows_multiple));
  whole.cols =
      block.cols == 0 ? up(c.cols + 5, limits.cols_multiple) : up(c.cols, std::lcm(block.cols, limits.cols_multiple));
  const Got full = run_problem(context, QuantizeProblem(whole, padded(input, whole.rows, whole.cols)));
  if (!full.usable()) return pass_on(context, full);
  if (auto f = differ(plain.outputs[0], corner_of(full.outputs[0], whole.cols, c.rows, c.cols), cut.outputs[0],
                      "codes of a cut block differ from the same block filled up with zeros")) {
    return f;
  }
  const TensorInfo scales = compact_scales(c);
  const std::vector<std::byte> full_scales =
      corner_of(compact_bytes(whole, full.outputs[1]), compact_scales(whole).cols, scales.rows, scales.cols);
  return differ(scales, full_scales, compact_bytes(c, cut.outputs[1]),
                "the scale of a cut block differs from the same block filled up with zeros");
}

std::optional<Finding> experts_are_alone(CheckContext& context, const Case& c) {
  if (c.experts.empty()) return nothing_claimed(context);
  const Input input = expand(c);
  const QuantizeProblem together_problem(c, input);
  const Got together = run_problem(context, together_problem);
  if (!together.usable()) return pass_on(context, together);
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
  for (std::size_t e = 1; e < c.experts.size(); ++e) {
    Case alone = c;
    alone.experts.clear();
    alone.rows = c.experts[e] - c.experts[e - 1];
    alone.plants.clear();
    Input part = input;
    const auto row_bytes = static_cast<std::ptrdiff_t>(input.row_bytes());
    part.bytes.assign(input.bytes.begin() + c.experts[e - 1] * row_bytes,
                      input.bytes.begin() + c.experts[e] * row_bytes);
    part.rows = alone.rows;
    const Got got = run_problem(context, QuantizeProblem(alone, part));
    if (!got.usable()) return pass_on(context, got);
    codes.insert(codes.end(), got.outputs[0].begin(), got.outputs[0].end());
    scales.insert(scales.end(), got.outputs[1].begin(), got.outputs[1].end());
  }
  if (auto f = differ(together_problem.outputs[1], scales, together.outputs[1],
                      "scales of an expert depend on the rows of another")) {
    return f;
  }
  return differ(together_problem.outputs[0], codes, together.outputs[0],
                "codes of an expert depend on the rows of another");
}

// Cases of this statement always have experts.
std::vector<Case> expert_corners(const Variant& v, Suite) {
  std::vector<Case> cases;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Case c;
    c.variant = v, c.rows = 150, c.cols = 67, c.data = seed % 2 == 0 ? Data::boundaries : Data::slots, c.seed = seed,
    blocks_case(c).pad = 254;
    const std::vector<std::int64_t> offsets[] = {
        {0, 0, 31, 64, 150}, {0, 1, 2, 150, 150}, {0, 129, 130, 150}, {0, 33, 97, 150}};
    c.experts = offsets[seed];
    cases.push_back(c);
  }
  return cases;
}

}  // namespace

std::vector<Statement> quantize_layout_statements() {
  const auto tiled = [](const Variant& v, std::span<const Variant> all) {
    if (!quantizes(v) || blocks_of(v).layout != MXCHECK_TCGEN05) return false;
    Variant compact = v;
    blocks_of(compact).layout = MXCHECK_COMPACT;
    return offers(all, compact);
  };
  const auto any = [](const Variant& v, std::span<const Variant>) { return quantizes(v); };
  std::vector<Statement> s(4);
  s[0] = {"tiled_scales_equal_compact_scales_after_the_layout_change",
          "scales written straight in tiles are the compact scales after scale_layout, padding included",
          "cuBLAS documentation, 1D block scaling factors layout",
          tiled,
          usual_data(),
          30,
          true,
          tiled_equals_compact};
  s[1] = {"padding_has_no_influence",
          "what lies behind the rows of x, and the pad byte of the tiles, change no code and no scale",
          "kernels/candidate.h",
          any,
          usual_data(),
          30,
          true,
          padding_has_no_influence};
  s[2] = {"tails_equal_the_same_rows_padded_with_zeros",
          "a block cut by the edge has the scale and codes that it has when zeros fill it up",
          "reference/quantize/quantize.h",
          any,
          usual_data(),
          0,
          false,
          tails_equal_padded};
  s[3] = {"experts_do_not_see_each_other",
          "quantizing with expert offsets gives what each expert gives alone: no block crosses an expert's end",
          "reference/quantize/quantize.h",
          any,
          usual_data(),
          100,
          false,
          experts_are_alone,
          expert_corners,
          1};
  return s;
}

}  // namespace mxcheck
