// mxcheck identify of a dump with two levels of scales: codes of one a byte or two, scales compact or in tiles.

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "goldens/data/embedded.h"
#include "numerics/error.h"
#include "numerics/format/format.h"
#include "numerics/format/packing.h"
#include "properties/identify/blocks.h"
#include "reference/common/checked_size.h"
#include "reference/quantize/scale_layout.h"
#include "tools/identify/identify.h"

namespace mxcheck {
namespace {

constexpr std::array<BlockShape, 3> kNvfp4Blocks{{{1, 16}, {16, 16}, {16, 1}}};

struct MatrixShape {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

MatrixShape matrix_shape(const Tensor& t, const std::string& location) {
  if (t.shape.size() == 2) return {t.shape[0], t.shape[1]};
  throw Error(ErrorKind::input, fmt::format("{}: has {} dimensions; a matrix has 2", location, t.shape.size()));
}

// One code a byte, whichever way the dump has them.
std::vector<std::uint8_t> codes_of(const Tensor& codes, const MatrixShape& x, const std::string& location) {
  const MatrixShape shape = matrix_shape(codes, location);
  const bool bytes = codes.format == Format::uint8 || codes.format == Format::e2m1;
  const bool whole = shape.rows == x.rows && shape.cols == x.cols;
  const std::int64_t packed = ceil_div(x.cols, 2);
  if (bytes && whole) {
    std::vector<std::uint8_t> plain = values_in<std::uint8_t>(codes.data);
    for (const std::uint8_t code : plain) {
      if (code > 0xF) throw Error(ErrorKind::input, fmt::format("{}: code {}: E2M1 has 0 to 15", location, code));
    }
    return plain;
  }
  if (codes.format != Format::uint8 || shape.rows != x.rows || shape.cols != packed) {
    throw Error(ErrorKind::input, fmt::format("{}: is {} x {}; codes of x, {} x {}, are U8 of that shape, F4, or U8 of "
                                              "{} x {}, two a byte",
                                              location, shape.rows, shape.cols, x.rows, x.cols, x.rows, packed));
  }
  std::vector<std::uint8_t> plain;
  const auto all = std::span(codes.data);
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const auto line =
        values_in<std::uint8_t>(all.subspan(static_cast<std::size_t>(row * packed), static_cast<std::size_t>(packed)));
    const std::vector<std::uint8_t> of_row = unpack_e2m1(line, static_cast<std::size_t>(x.cols));
    plain.insert(plain.end(), of_row.begin(), of_row.end());
  }
  return plain;
}

std::optional<float> tensor_scale_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  char* end = nullptr;
  float value = std::strtof(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0') {
    const Tensor t = tensor_at(text);
    if (t.format != Format::fp32 || t.size() != 1) {
      throw Error(ErrorKind::input, text + ": the scale of a tensor is one F32");
    }
    value = std::bit_cast<float>(t.code(0));
  }
  if (value > 0 && std::isfinite(value)) return value;
  throw Error(ErrorKind::input, fmt::format("--tensor-scale: {:g}: must be positive and finite", value));
}

// The forms that the bytes of the scales may be in, compact each.
struct ScalesForm {
  BlockShape block;
  std::vector<std::uint8_t> scales;
  std::string_view note;
};

std::vector<ScalesForm> forms_of(const IdentifyOptions& o, const Tensor& scales, const MatrixShape& x) {
  if (scales.format != Format::uint8 && scales.format != Format::e4m3) {
    throw Error(ErrorKind::input, o.scales + ": scales of blocks under a scale of the tensor are F8_E4M3, or U8");
  }
  const std::vector<std::uint8_t> bytes = values_in<std::uint8_t>(scales.data);
  std::vector<ScalesForm> forms;
  for (const BlockShape block : kNvfp4Blocks) {
    if (!o.block.empty() && block != block_shape_named(o.block)) continue;
    const std::int64_t rows = ceil_div(x.rows, block.height(x.rows));
    const std::int64_t cols = ceil_div(x.cols, block.width(x.cols));
    const bool shaped = scales.shape.size() != 2 || (scales.shape[0] == rows && scales.shape[1] == cols);
    if (shaped && std::cmp_equal(bytes.size(), rows * cols)) forms.push_back({block, bytes, ""});
    if (block.rows != 1) continue;
    const ScaleShape shape{{rows}, cols, block};
    if (std::cmp_not_equal(bytes.size(), layout_bytes(ScaleLayout::tcgen05, shape))) continue;
    forms.push_back({block, from_layout(ScaleLayout::tcgen05, shape, bytes), "scales in tiles of 128 x 4"});
    const std::int64_t wide = ceil_div(cols, 4) * 4;
    std::vector<std::uint8_t> cut;
    for (std::int64_t i = 0; i < rows; ++i)
      cut.insert(cut.end(), bytes.begin() + i * wide, bytes.begin() + i * wide + cols);
    forms.push_back({block, std::move(cut), "scales compact, rows and columns padded to 128 and 4"});
  }
  if (!forms.empty()) return forms;
  throw Error(
      ErrorKind::input,
      fmt::format("{}: {} scales are those of no block of 1x16, 16x16 or 16x1 in a matrix of {} x {}, compact or "
                  "in tiles of 128 x 4",
                  o.scales, bytes.size(), x.rows, x.cols));
}

}  // namespace

Match match_nvfp4_dump(const IdentifyOptions& o) {
  if (o.scales.empty()) throw Error(ErrorKind::usage, "--scales is needed with --tensor-scale");
  if (!o.words.empty()) throw Error(ErrorKind::usage, "--words are of a cast, without --scales");
  const Tensor x = quantized_input(o);
  const MatrixShape shape = matrix_shape(x, o.x);
  Nvfp4Dump dump;
  dump.rows = shape.rows, dump.cols = shape.cols;
  dump.x = values_of(x, o.x, dump.dtype);
  dump.codes = codes_of(tensor_at(o.codes), shape, o.codes);
  dump.tensor_scale = tensor_scale_of(o.tensor_scale);
  if (o.seed) dump.seed = WordSeed{*o.seed, o.first_call.value_or(0)};
  Match best;
  for (ScalesForm& form : forms_of(o, tensor_at(o.scales), shape)) {
    dump.block = form.block, dump.scales = std::move(form.scales);
    Match match = match_nvfp4(o.codes, dump);
    if (!form.note.empty()) match.remarks.emplace_back(form.note);
    const bool closer = best.tried == 0 || (!match.closest.empty() && !best.closest.empty() &&
                                            match.closest.front().equal > best.closest.front().equal);
    if (match.explained() || closer) best = std::move(match);
    if (best.explained()) break;
  }
  return best;
}

}  // namespace mxcheck
