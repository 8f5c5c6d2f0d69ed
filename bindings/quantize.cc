// Blocks: reference/quantize behind C, and the SIMD library where it offers the same; two levels of scales, packed
// codes.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "bindings/at_speed.h"
#include "bindings/guard.h"
#include "bindings/mxcheck_c.h"
#include "numerics/bytes.h"
#include "numerics/format/packing.h"
#include "numerics/scale/two_level.h"
#include "reference/quantize/scale_layout.h"
#include "reference/quantize/word_order.h"

namespace mxcheck::c {
namespace {

struct Request {
  Format format = Format::e4m3;
  BlockShape block;
  ScaleLayout layout = ScaleLayout::compact;
  ScaleRule rule = ScaleRule::rceil;
  std::span<const std::int64_t> offsets;

  [[nodiscard]] bool has_fp32_scales() const { return rule == ScaleRule::fp32; }
};

void check(const Request& r, std::int64_t rows, std::int64_t cols) {
  if (rows < 0 || cols < 0) refuse("rows and cols must be 0 or more");
  if (cols != 0 && rows > std::numeric_limits<std::int64_t>::max() / 16 / cols) {
    refuse(std::to_string(rows) + " x " + std::to_string(cols) + " elements are more than 63 bits can count");
  }
  check_offsets(r.offsets, rows);
  if (r.layout == ScaleLayout::compact) return;
  if (r.has_fp32_scales()) refuse("FP32 scales have layout compact alone");
  if (r.rule == ScaleRule::e4m3 && r.layout == ScaleLayout::deepgemm) {
    refuse("layout deepgemm holds E8M0 bytes; E4M3 scales have the layouts compact and tcgen05");
  }
  if (!has_layout(r.layout, r.block)) {
    refuse("layout " + std::string(to_text(r.layout)) + " is of blocks of one row or one column, not of " +
           to_text(r.block));
  }
}

Request request_of(const char* format, const char* block, const char* layout, ScaleRule rule,
                   std::span<const std::int64_t> offsets) {
  return {element_of(text_of(format, "format")), block_shape_named(text_of(block, "block")),
          entry_named(kScaleLayouts, "layout", text_of(layout, "layout")).value, rule, offsets};
}

// Shapes of scales without codes.
QuantizedTensor shape_of(const Request& r, std::int64_t rows, std::int64_t cols) {
  const std::int64_t width = r.block.width(cols);
  const std::int64_t scale_cols = cols / width + (cols % width != 0 ? 1 : 0);
  return {{"", r.format, {rows, cols}, {}},
          {{r.block,
            r.rule,
            {"", format_of_scales(r.rule), {count_scale_rows(rows, r.block.rows, r.offsets), scale_cols}, {}}}}};
}

std::int64_t scale_bytes(const Request& r, const QuantizedTensor& q) {
  if (r.has_fp32_scales()) return q.scale_rows() * q.scale_cols() * 4;
  return layout_bytes(r.layout, scale_shape(q, r.offsets));
}

template <class T>
void copy(const std::vector<T>& from, void* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size() * sizeof(T));
}

template <class T>
void read(std::vector<T>& to, const void* from, std::int64_t count, const char* name) {
  check_pointer(from, count, name);
  to.resize(static_cast<std::size_t>(count));
  if (count != 0) std::memcpy(to.data(), from, to.size() * sizeof(T));
}

void quantize_to(const MatrixView& x, const Recipe& recipe, const Request& r, std::uint8_t pad, std::int32_t threads,
                 void* codes, void* scales) {
  check_pointer(codes, x.rows * x.cols, "codes");
  check(r, x.rows, x.cols);
  const QuantizedTensor q = quantize(x, r.format, r.block, recipe, r.offsets, threads);
  check_pointer(scales, scale_bytes(r, q), "scales");
  copy(q.codes.data, codes);
  if (r.has_fp32_scales()) return copy(q.scales().data, scales);
  copy(to_layout(r.layout, scale_shape(q, r.offsets), q.scales().as<std::uint8_t>(), pad), scales);
}

QuantizedTensor quantized_of(const Request& r, const void* codes, const void* scales, std::int64_t rows,
                             std::int64_t cols) {
  check(r, rows, cols);
  QuantizedTensor q = shape_of(r, rows, cols);
  read(q.codes.data, codes, rows * cols * static_cast<std::int64_t>(size_of(r.format)), "codes");
  std::vector<std::byte>& bytes = q.scales().data;
  read(bytes, scales, scale_bytes(r, q), "scales");
  if (r.has_fp32_scales() || r.layout == ScaleLayout::compact) return q;
  bytes = to_bytes(from_layout(r.layout, scale_shape(q, r.offsets), values_in<std::uint8_t>(bytes)));
  return q;
}

void* at(void* to, std::int64_t bytes, const char* name) {
  check_pointer(to, bytes, name);
  return to;
}

SimdBlocks blocks_of(const Request& r, std::uint8_t pad, std::int32_t threads) {
  return {r.format, r.block, r.layout, r.offsets, pad, threads};
}

// Where the SIMD library is to, and offers it.
bool quantize_at_speed(const MatrixView& x, const Recipe& recipe, const Request& r, std::uint8_t pad,
                       std::int32_t threads, Engine engine, void* codes, void* scales) {
  if (engine == Engine::reference) return false;
  if (!offers_simd(x.dtype, r.format, r.block, recipe)) {
    if (engine == Engine::simd) refuse_simd();
    return false;
  }
  check(r, x.rows, x.cols);
  const std::int64_t bytes = scale_bytes(r, shape_of(r, x.rows, x.cols));
  quantize_checked(x, blocks_of(r, pad, threads), recipe,
                   static_cast<std::uint8_t*>(at(codes, x.rows * x.cols, "codes")),
                   {static_cast<std::uint8_t*>(at(scales, bytes, "scales")), static_cast<std::size_t>(bytes)});
  return true;
}

bool dequantize_at_speed(const Request& r, std::int64_t rows, std::int64_t cols, std::int32_t threads, Engine engine,
                         const void* codes, const void* scales, Format type, void* values) {
  if (engine == Engine::reference) return false;
  if (r.has_fp32_scales() || !offers_simd_values(type, r.format, r.block)) {
    if (engine == Engine::simd) refuse_simd();
    return false;
  }
  check(r, rows, cols);
  const std::int64_t bytes = scale_bytes(r, shape_of(r, rows, cols));
  check_pointer(codes, rows * cols, "codes");
  check_pointer(scales, bytes, "scales");
  dequantize_checked(static_cast<const std::uint8_t*>(codes),
                     {static_cast<const std::uint8_t*>(scales), static_cast<std::size_t>(bytes)}, rows, cols,
                     blocks_of(r, 0, threads), type, at(values, rows * cols, "values"));
  return true;
}

// By which scales of this type may have been made: dequantizing asks for no more.
ScaleRule rule_of(std::string_view scale_type) {
  if (scale_type == "fp32") return ScaleRule::fp32;
  if (scale_type != "e8m0") refuse("there is no scale_type '" + std::string(scale_type) + "': e8m0 and fp32 are");
  return ScaleRule::rceil;
}

void give_values(const QuantizedTensor& q, const Request& r, Format type, std::int32_t threads, void* values) {
  check_pointer(values, q.rows() * q.cols(), "values");
  if (type == Format::fp32) {
    copy(dequantize(q, r.offsets, threads), values);
  } else {
    copy(dequantize_bf16(q, r.offsets, threads), values);
  }
}

Format values_type_of(const char* to) {
  const Format type = value_format_of(text_of(to, "to"));
  if (type == Format::fp16) refuse("values are given as fp32 or bf16, not as fp16");
  return type;
}

}  // namespace
}  // namespace mxcheck::c

using namespace mxcheck;
using namespace mxcheck::c;

int32_t mxcheck_c_quantize_sizes(const char* format, const char* recipe, const char* block, const char* layout,
                                 int64_t rows, int64_t cols, const int64_t* offsets, int64_t offset_count,
                                 int64_t* sizes) {
  return guarded([&] {
    check_pointer(sizes, 4, "sizes");
    const ScaleRule rule = any_recipe_named(text_of(recipe, "recipe")).rule;
    const Request r = request_of(format, block, layout, rule, offsets_of(offsets, offset_count));
    check(r, rows, cols);
    const QuantizedTensor q = shape_of(r, rows, cols);
    sizes[0] = rows * cols * (spec(r.format).bits > 8 ? 2 : 1);
    sizes[1] = scale_bytes(r, q);
    sizes[2] = q.scale_rows();
    sizes[3] = q.scale_cols();
  });
}

int32_t mxcheck_c_scale_layout(const char* block, const char* from, const char* to, int64_t rows, int64_t cols,
                               const int64_t* offsets, int64_t offset_count, uint8_t pad, const void* scales,
                               void* converted, int64_t* sizes) {
  return guarded([&] {
    check_pointer(sizes, 4, "sizes");
    Request r;
    r.block = block_of(text_of(block, "block"));
    r.offsets = offsets_of(offsets, offset_count);
    const ScaleLayout layouts[] = {entry_named(kScaleLayouts, "layout", text_of(from, "from")).value,
                                   entry_named(kScaleLayouts, "layout", text_of(to, "to")).value};
    std::int64_t bytes[2];
    for (int i = 0; i < 2; ++i) {
      r.layout = layouts[i];
      check(r, rows, cols);
      bytes[i] = scale_bytes(r, shape_of(r, rows, cols));
    }
    const QuantizedTensor q = shape_of(r, rows, cols);
    if (scales != nullptr || converted != nullptr) {
      check_pointer(converted, bytes[1], "converted");
      std::vector<std::uint8_t> given;
      read(given, scales, bytes[0], "scales");
      const ScaleShape shape = scale_shape(q, r.offsets);
      copy(to_layout(layouts[1], shape, from_layout(layouts[0], shape, given), pad), converted);
    }
    sizes[0] = bytes[0], sizes[1] = bytes[1], sizes[2] = q.scale_rows(), sizes[3] = q.scale_cols();
  });
}

int32_t mxcheck_c_quantize(const char* from, const void* values, int64_t rows, int64_t cols, int64_t row_stride,
                           const char* format, const char* recipe, const char* block, const char* layout,
                           const int64_t* offsets, int64_t offset_count, uint8_t pad, int32_t threads,
                           const char* engine, void* codes, void* scales) {
  return guarded([&] {
    const Engine by = engine_of(text_of(engine, "engine"));
    const Recipe of = recipe_named(text_of(recipe, "recipe"));
    const Request r = request_of(format, block, layout, of.rule, offsets_of(offsets, offset_count));
    const MatrixView x{value_format_of(text_of(from, "from")), static_cast<const std::byte*>(values), rows, cols,
                       row_stride};
    check_matrix(x);
    threads_of(threads);
    if (quantize_at_speed(x, of, r, pad, threads, by, codes, scales)) return;
    quantize_to(x, of, r, pad, threads, codes, scales);
  });
}

int32_t mxcheck_c_dequantize(const char* format, const char* block, const char* layout, const char* scale_type,
                             const void* codes, const void* scales, int64_t rows, int64_t cols, const int64_t* offsets,
                             int64_t offset_count, int32_t threads, const char* engine, const char* to, void* values) {
  return guarded([&] {
    const Engine by = engine_of(text_of(engine, "engine"));
    const Request r = request_of(format, block, layout, rule_of(text_of(scale_type, "scale_type")),
                                 offsets_of(offsets, offset_count));
    const Format type = values_type_of(to);
    threads_of(threads);
    if (dequantize_at_speed(r, rows, cols, threads, by, codes, scales, type, values)) return;
    give_values(quantized_of(r, codes, scales, rows, cols), r, type, threads, values);
  });
}

// Two levels of scales.

namespace mxcheck::c {
namespace {

Recipe two_level_recipe_of(const char* name) {
  Recipe recipe = any_recipe_named(text_of(name, "recipe"));
  if (!recipe.has_two_levels()) refuse("recipe " + recipe.name + " has one level of scales: it has no tensor's scale");
  return recipe;
}

// True if tensor_scale says that each row has a scale of its own.
bool is_of_rows(std::string_view tensor_scale) {
  if (tensor_scale != "tensor" && tensor_scale != "row") {
    refuse("there is no tensor_scale '" + std::string(tensor_scale) + "': tensor and row are");
  }
  return tensor_scale == "row";
}

// The second level, as quantize makes it.
ScaleLevel outer_level_of(const Recipe& recipe, const QuantizedTensor& q, bool of_rows) {
  const std::int64_t rows = of_rows ? q.rows() : std::min<std::int64_t>(q.rows(), 1);
  ScaleLevel level{of_rows ? BlockShape{1, 0} : BlockShape{0, 0}, ScaleRule::fp32,
                   make_tensor(Format::fp32, {rows, std::min<std::int64_t>(q.cols(), 1)}, "tensor_scales"),
                   recipe.two_level.stored};
  if (level.stored == StoredScale::amax) level.unit = recipe.two_level.limit * largest_value(q.element());
  return level;
}

void refuse_packing_of(std::string_view format) {
  if (element_of(format) != Format::e2m1)
    refuse("codes of " + std::string(format) + " are not packed: those of e2m1 are");
}

}  // namespace
}  // namespace mxcheck::c

namespace mxcheck::c {
namespace {

// Arguments of quantize under two levels of scales; words: none, or one for each element.
struct TwoLevelArguments {
  const char *from, *format, *recipe, *block, *layout, *engine, *tensor_scale;
  const void* values;
  std::int64_t rows, cols, row_stride;
  const std::int64_t* offsets;
  std::int64_t offset_count;
  std::uint8_t pad;
  std::int32_t threads;
  const void* given;
  bool is_stochastic;
  const std::uint32_t* words;
  void *codes, *scales, *tensor_scales;
};

void quantize_two_levels(const TwoLevelArguments& a) {
  Recipe of = two_level_recipe_of(a.recipe);
  if (a.is_stochastic) of.rounding = Rounding::stochastic;
  const Request r = request_of(a.format, a.block, a.layout, of.rule, offsets_of(a.offsets, a.offset_count));
  if (engine_of(text_of(a.engine, "engine")) == Engine::simd) refuse_simd();
  const MatrixView x{value_format_of(text_of(a.from, "from")), static_cast<const std::byte*>(a.values), a.rows, a.cols,
                     a.row_stride};
  check_matrix(x);
  threads_of(a.threads);
  check(r, a.rows, a.cols);
  const bool of_rows = is_of_rows(text_of(a.tensor_scale, "tensor_scale"));
  std::vector<float> outer;
  if (a.given != nullptr) read(outer, a.given, of_rows ? a.rows : 1, "given");
  std::vector<std::uint32_t> words;
  if (a.is_stochastic) read(words, a.words, a.rows * a.cols, "words");
  const QuantizedTensor q = quantize(x, r.format, r.block, of,
                                     {.outer_of_rows = of_rows, .outer = outer, .words = words}, r.offsets, a.threads);
  check_pointer(a.codes, a.rows * a.cols, "codes");
  check_pointer(a.scales, scale_bytes(r, q), "scales");
  check_pointer(a.tensor_scales, static_cast<std::int64_t>(q.levels[1].scales.size()), "tensor_scales");
  copy(q.codes.data, a.codes);
  copy(to_layout(r.layout, scale_shape(q, r.offsets), q.scales().as<std::uint8_t>(), a.pad), a.scales);
  copy(q.levels[1].scales.data, a.tensor_scales);
}

}  // namespace
}  // namespace mxcheck::c

int32_t mxcheck_c_quantize_two_levels(const char* from, const void* values, int64_t rows, int64_t cols,
                                      int64_t row_stride, const char* format, const char* recipe, const char* block,
                                      const char* layout, const int64_t* offsets, int64_t offset_count, uint8_t pad,
                                      int32_t threads, const char* engine, const char* tensor_scale, const void* given,
                                      void* codes, void* scales, void* tensor_scales) {
  return guarded([&] {
    quantize_two_levels({from,    format, recipe, block,      layout,  engine,       tensor_scale,
                         values,  rows,   cols,   row_stride, offsets, offset_count, pad,
                         threads, given,  false,  nullptr,    codes,   scales,       tensor_scales});
  });
}

int32_t mxcheck_c_quantize_stochastic(const char* from, const void* values, int64_t rows, int64_t cols,
                                      int64_t row_stride, const char* format, const char* recipe, const char* block,
                                      const char* layout, const int64_t* offsets, int64_t offset_count, uint8_t pad,
                                      int32_t threads, const char* engine, const char* tensor_scale, const void* given,
                                      const uint32_t* words, void* codes, void* scales, void* tensor_scales) {
  return guarded([&] {
    quantize_two_levels({from,    format, recipe, block,      layout,  engine,       tensor_scale,
                         values,  rows,   cols,   row_stride, offsets, offset_count, pad,
                         threads, given,  true,   words,      codes,   scales,       tensor_scales});
  });
}

int32_t mxcheck_c_ordered_words(const char* order, int64_t rows, int64_t cols, uint64_t key, uint64_t first_call,
                                const char* word_bytes, int32_t threads, uint32_t* words) {
  return guarded([&] {
    const NamedWords named = parse_words(text_of(order, "order"));
    const WordBytes bytes = entry_named(kWordBytes, "order of bytes", text_of(word_bytes, "word_bytes")).value;
    threads_of(threads);
    const std::vector<std::uint32_t> made =
        ordered_words(*named.order, word_matrix(named.output, rows, cols), {key, first_call, bytes}, threads);
    check_pointer(words, std::ssize(made), "words");
    copy(to_bytes(made), words);
  });
}

int32_t mxcheck_c_dequantize_two_levels(const char* format, const char* recipe, const char* block, const char* layout,
                                        const void* codes, const void* scales, const char* tensor_scale,
                                        const void* tensor_scales, int64_t rows, int64_t cols, const int64_t* offsets,
                                        int64_t offset_count, int32_t threads, const char* engine, const char* to,
                                        void* values) {
  return guarded([&] {
    const Recipe of = two_level_recipe_of(recipe);
    const Request r = request_of(format, block, layout, of.rule, offsets_of(offsets, offset_count));
    if (engine_of(text_of(engine, "engine")) == Engine::simd) refuse_simd();
    const Format type = values_type_of(to);
    threads_of(threads);
    QuantizedTensor q = quantized_of(r, codes, scales, rows, cols);
    const bool of_rows = is_of_rows(text_of(tensor_scale, "tensor_scale"));
    ScaleLevel outer = outer_level_of(of, q, of_rows);
    read(outer.scales.data, tensor_scales, std::ssize(outer.scales.data), "tensor_scales");
    q.levels.push_back(std::move(outer));
    give_values(q, r, type, threads, values);
  });
}

int32_t mxcheck_c_pack(const char* format, const void* codes, int64_t count, void* packed) {
  return guarded([&] {
    refuse_packing_of(text_of(format, "format"));
    std::vector<std::uint8_t> plain;
    read(plain, codes, check_count(count, "count"), "codes");
    check_pointer(packed, count, "packed");
    copy(pack_e2m1(plain), packed);
  });
}

int32_t mxcheck_c_unpack(const char* format, const void* packed, int64_t count, void* codes) {
  return guarded([&] {
    refuse_packing_of(text_of(format, "format"));
    std::vector<std::uint8_t> pairs;
    check_count(count, "count");
    read(pairs, packed, count / 2 + count % 2, "packed");
    check_pointer(codes, count, "codes");
    copy(unpack_e2m1(pairs, static_cast<std::size_t>(count)), codes);
  });
}
