// The variants of swiglu, swiglu_backward and aggregate, and the cases that no call can pose.

#include <string>
#include <utility>

#include "numerics/error.h"
#include "numerics/scale/recipe.h"
#include "properties/operations/layer/operation.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 30;  // of y and of slots, which are int32

constexpr int kRows = MXCHECK_ROWS_CODED;
constexpr int kColumns = MXCHECK_COLUMNS_CODED;

// The formats of a byte a code.
std::vector<Format> byte_formats() {
  std::vector<Format> all;
  for (const Format format : kElementFormats) {
    if (spec(format).bits == 8) all.push_back(format);
  }
  return all;
}

// The recipes of E8M0 scales, and the plain rule of FP32 ones.
bool can_be_asked(const Recipe& recipe) { return recipe.has_e8m0_scales() || recipe.name == "fp32"; }

void add_coded(const Variant& like, std::vector<Variant>& all) {
  const auto add = [&](int outputs) {
    Variant v = like;
    layer_of(v).outputs = outputs;
    layer_of(v).scaled = layer_of(like).format;
    if (!has_scaled_format(v)) layer_of(v).scaled = LayerVariant{}.scaled;
    all.push_back(v);
    if (!has_scaled_format(v) || layer_of(like).format != Format::e5m2) return;
    layer_of(v).scaled = Format::e4m3;  // gradients in E5M2, activations in E4M3
    all.push_back(std::move(v));
  };
  for (const int outputs : {kRows, kColumns, kRows | kColumns}) add(outputs);
  const LayerVariant& own = layer_of(like);
  if (own.recipe != "rceil" || own.block != 32 || own.format != Format::e4m3) return;
  for (const int outputs : {kRows, kColumns, kRows | kColumns}) add(MXCHECK_VALUES | outputs);
}

void require(bool holds, const char* what) {
  if (!holds) throw Error(ErrorKind::usage, std::string("a case of a layer's step: ") + what);
}

void check_aggregate(const Case& c) {
  const LayerCase& own = layer_case(c);
  require(c.experts.empty() && c.stride == 0, "aggregate has neither expert offsets nor a stride");
  require(c.variant.dtype == Format::bf16, "y is bf16");
  require(own.y_rows >= 0 && own.y_rows <= kMostRows, "y is 0 to 2^30 rows");
  require(own.most >= 0 && (c.rows == 0 || own.most <= kMostRows / c.rows), "k is 0 or more, and slots at most 2^30");
  require(own.drops >= 0 && own.drops <= 100, "drops is a percentage");
}

}  // namespace

std::vector<Variant> askable_steps(const std::string& operation) {
  std::vector<Variant> all;
  Variant v{operation};
  if (is_aggregate(v)) {
    for (const bool weighted : {false, true}) {
      layer_of(v).weighted = weighted;
      all.push_back(v);
    }
    return all;
  }
  for (const int gate_up : {MXCHECK_HALVES, MXCHECK_INTERLEAVED}) {
    layer_of(v) = {};
    layer_of(v).gate_up = gate_up;
    all.push_back(v);
    for (const Recipe& recipe : all_recipes()) {
      if (!can_be_asked(recipe)) continue;
      for (const Format format : byte_formats()) {
        for (const std::int64_t block : {32, 128}) {
          layer_of(v).recipe = recipe.name, layer_of(v).format = format, layer_of(v).block = block;
          add_coded(v, all);
        }
      }
    }
  }
  layer_of(v) = {};
  for (const Format format : {Format::e4m3, Format::e5m2}) {
    v.dtype = format;
    all.push_back(v);
  }
  return all;
}

void check_step(const Case& c) {
  const LayerCase& own = layer_case(c);
  require(c.gather == 0 && c.plants.empty(), "there are neither gathered rows nor plants; at= is a window");
  require(own.first_row >= 0 && own.first_col >= 0 && own.first_row <= kMostRows && own.first_col <= kMostRows,
          "at is 0 to 2^30");
  if (is_aggregate(c.variant)) return check_aggregate(c);
  require(own.y_rows == 0 && own.most == 0 && own.drops == 0, "y, k and drops go with aggregate");
  require(c.variant.dtype == Format::bf16 || c.variant.dtype == Format::e4m3 || c.variant.dtype == Format::e5m2,
          "h is bf16, or codes in e4m3 or e5m2");
  require(!has_coded_h(c.variant) || c.stride == 0, "codes of h have no stride");
  const LayerVariant& v = layer_of(c.variant);
  require(v.outputs >= 1 && v.outputs <= 7, "outputs is values, rows, columns or several of them");
  require(!writes_codes(c.variant) || v.block == 32 || v.block == 128, "block is 32 or 128");
  require(spec(v.format).bits == 8 && spec(v.scaled).bits == 8, "codes are of a byte");
}

}  // namespace mxcheck
