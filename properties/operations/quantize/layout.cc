// Layouts, padding, tails and experts: where a block is must not matter to what it becomes.

#include <cstring>
#include <numeric>

#include "kernels/candidate.h"
#include "properties/statements/common.h"

namespace mxcheck {
namespace {

bool quantizes(const Variant& v) { return v.operation == "quantize"; }

std::vector<Data> usual_data() {
  return {Data::boundaries, Data::normal, Data::real, Data::specials, Data::slots, Data::wide};
}

// A copy of the input with other extents: what is new is +0.
Input padded(const Case& c, const Input& from, std::int64_t rows, std::int64_t cols) {
  const std::size_t width = c.variant.wide == Format::fp32 ? 4 : 2;
  Input to;
  to.bytes.resize(static_cast<std::size_t>(rows * cols) * width);
  const auto kept = static_cast<std::size_t>(std::min(cols, c.cols)) * width;
  for (std::int64_t i = 0; kept != 0 && i < std::min(rows, c.rows); ++i) {
    std::memcpy(to.bytes.data() + static_cast<std::size_t>(i * cols) * width,
                from.bytes.data() + static_cast<std::size_t>(i * from.view.row_stride) * width, kept);
  }
  to.view = {c.variant.wide, to.bytes.data(), rows, cols, cols};
  return to;
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
  const std::vector<std::uint8_t> bytes = to_compact(c, scale_geometry(c, c.variant.block), as_u8(scales));
  std::vector<std::byte> out(bytes.size());
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size());
  return out;
}

TensorInfo compact_scales(const Case& c) {
  const ScaleGeometry g = scale_geometry(c, c.variant.block);
  return {"scales", Format::e8m0, g.rows, g.cols, 0, 0, false};
}

std::optional<Finding> tiled_equals_compact(CheckContext& context, const Case& c) {
  Case compact = c;
  compact.variant.layout = MXCHECK_COMPACT;
  const Input input = expand(c);
  const Problem tiled_problem = make_problem(c, input);
  const Got tiled = run_problem(context, tiled_problem);
  if (!tiled.usable()) return pass_on(context, tiled);
  const Got plain = run_problem(context, make_problem(compact, input));
  if (!plain.usable()) return pass_on(context, plain);
  if (auto f = differ(tiled_problem.outputs[0], plain.outputs[0], tiled.outputs[0],
                      "codes depend on the layout of the scales")) {
    return f;
  }
  Problem change;
  change.c = c;
  change.c.variant.operation = "scale_layout";
  change.c.variant.format = Format::e4m3, change.c.variant.recipe = "rceil", change.c.variant.wide = Format::bf16;
  change.input.offsets = c.experts;
  const auto bytes = as_u8(plain.outputs[1]);
  change.scales.assign(bytes.begin(), bytes.end());
  change.outputs = {tiled_problem.outputs[1]};
  if (!offers(context.variants, change.c.variant)) {
    const auto reference = reference_answer(change);
    return differ(tiled_problem.outputs[1], reference[0].bytes, tiled.outputs[1],
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
  const Input input = expand(c);  // NaN behind each row
  const Got strided = run_problem(context, make_problem(c, input));
  if (!strided.usable()) return pass_on(context, strided);
  Case other_pad = tight;
  other_pad.pad = static_cast<std::uint8_t>(c.pad ^ 0xFF);
  const Problem plain = make_problem(other_pad, padded(c, input, c.rows, c.cols));
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
  const Problem plain = make_problem(c, padded(c, input, c.rows, c.cols));
  const Got cut = run_problem(context, plain);
  if (!cut.usable()) return pass_on(context, cut);
  const OperationInfo& limits = *context.process.operation(c.variant.operation);
  const auto up = [](std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; };
  Case whole = c;  // whole blocks, and a shape that the candidate takes
  whole.rows = up(c.rows, std::lcm(std::max<std::int64_t>(1, c.variant.block.rows), limits.rows_multiple));
  whole.cols = c.variant.block.cols == 0 ? up(c.cols + 5, limits.cols_multiple)
                                         : up(c.cols, std::lcm(c.variant.block.cols, limits.cols_multiple));
  const Got full = run_problem(context, make_problem(whole, padded(c, input, whole.rows, whole.cols)));
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
  const Problem together_problem = make_problem(c, input);
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
    const std::size_t width = c.variant.wide == Format::fp32 ? 4 : 2;
    const auto row_bytes = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(input.view.row_stride) * width);
    part.bytes.assign(input.bytes.begin() + c.experts[e - 1] * row_bytes,
                      input.bytes.begin() + c.experts[e] * row_bytes);
    part.offsets.clear();
    part.view = {c.variant.wide, part.bytes.data(), alone.rows, c.cols, input.view.row_stride};
    const Got got = run_problem(context, make_problem(alone, part));
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
    c.pad = 254;
    const std::vector<std::int64_t> offsets[] = {
        {0, 0, 31, 64, 150}, {0, 1, 2, 150, 150}, {0, 129, 130, 150}, {0, 33, 97, 150}};
    c.experts = offsets[seed];
    cases.push_back(c);
  }
  return cases;
}

}  // namespace

std::vector<Statement> layout_statements() {
  const auto tiled = [](const Variant& v, std::span<const Variant> all) {
    Variant compact = v;
    compact.layout = MXCHECK_COMPACT;
    return quantizes(v) && v.layout == MXCHECK_TCGEN05 && offers(all, compact);
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
