#include "goldens/format/quantized_file.h"

#include <gtest/gtest.h>

#include "goldens/data/embedded.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

MatrixView real_matrix() {
  const Tensor& t = real_tensor("layer0.w1");
  return {Format::bf16, t.data.data(), t.shape[0], t.shape[1], t.shape[1]};
}

QuantizedFile quantized(const char* recipe, Format element, const char* block, ScaleLayout layout,
                        const std::vector<std::int64_t>& offsets = {}) {
  return {quantize(real_matrix(), element, block_shape_named(block), recipe_named(recipe), offsets), offsets, layout,
          90};
}

SafetensorsFile file_of(const QuantizedFile& q, const char* recipe = "rceil") {
  return to_safetensors(q, recipe_named(recipe), Format::bf16);
}

TEST(QuantizedFile, gives_the_matrix_back_whatever_the_layout_the_block_and_the_scales) {
  const test::TemporaryDirectory dir;
  const std::vector<std::int64_t> experts{0, 60, 60, 192};
  const std::vector<std::pair<const char*, QuantizedFile>> files{
      {"rceil", quantized("rceil", Format::e4m3, "1x32", ScaleLayout::compact)},
      {"rceil", quantized("rceil", Format::e5m2, "1x32", ScaleLayout::tcgen05, experts)},
      {"floor", quantized("floor", Format::e2m1, "32x1", ScaleLayout::deepgemm, experts)},
      {"fp32", quantized("fp32", Format::e4m3, "128x128", ScaleLayout::compact)},
      {"rceil", quantized("rceil", Format::e5m6, "row", ScaleLayout::compact)},
  };
  for (const auto& [recipe, q] : files) {
    write_quantized(dir / "q.safetensors", file_of(q, recipe));
    const QuantizedFile back = from_safetensors(read_safetensors(dir / "q.safetensors"), "q");
    EXPECT_EQ(back.layout, q.layout);
    EXPECT_EQ(back.offsets, q.offsets);
    EXPECT_EQ(int{back.pad_byte}, 90);
    EXPECT_EQ(back.matrix.element(), q.matrix.element());
    EXPECT_EQ(back.matrix.block(), q.matrix.block());
    EXPECT_EQ(back.matrix, q.matrix);
    EXPECT_EQ(dequantize(back.matrix, back.offsets), dequantize(q.matrix, q.offsets));
    write_quantized(dir / "q.h5", file_of(q, recipe));
    EXPECT_EQ(read_tensor(dir / "q.h5:/codes").data, file_of(q, recipe).tensors[0].data);
    EXPECT_EQ(read_tensor(dir / "q.h5:/scales").data, file_of(q, recipe).tensors[1].data);
  }
}

TEST(QuantizedFile, refuses_layouts_that_cannot_hold_the_scales) {
  constexpr ScaleLayout kTiles = ScaleLayout::tcgen05;
  check_layout(kTiles, Format::e4m3, {32, 1}, ScaleRule::rceil);
  check_layout(ScaleLayout::compact, Format::e5m6, {32, 32}, ScaleRule::fp32);
  expect_error(ErrorKind::usage, "32x32 blocks need layout compact", [] {
    check_layout(kTiles, Format::e4m3, {32, 32}, ScaleRule::rceil);
  });
  expect_error(ErrorKind::usage, "layout tcgen05 holds E8M0 bytes", [] {
    check_layout(kTiles, Format::e4m3, {1, 32}, ScaleRule::fp32);
  });
  expect_error(ErrorKind::usage, "which have no e5m6", [] {
    check_layout(kTiles, Format::e5m6, {1, 32}, ScaleRule::rceil);
  });
  expect_error(ErrorKind::usage, "'bf16' is not a format of block elements; these are e4m3",
               [] { element_format_named("bf16"); });
  expect_error(ErrorKind::usage, "unknown format 'e9'; known are e4m3", [] { element_format_named("e9"); });
}

TEST(QuantizedFile, refuses_files_that_it_would_not_have_written) {
  const SafetensorsFile right = file_of(quantized("rceil", Format::e4m3, "1x32", ScaleLayout::compact));
  const auto refused = [&](ErrorKind kind, const std::string& text, const auto& change) {
    SafetensorsFile file = right;
    change(file);
    expect_error(kind, "q: ", [&] { from_safetensors(file, "q"); });
    expect_error(kind, text, [&] { from_safetensors(file, "q"); });
  };
  const auto set = [](const char* key, const char* value) {
    return [=](SafetensorsFile& file) { file.metadata[key] = value; };
  };
  refused(ErrorKind::input, "not a file of mxcheck quantize", set("mxcheck_file", "routes"));
  refused(ErrorKind::input, "file_version is '2'", set("file_version", "2"));
  refused(ErrorKind::input, "metadata 'rule' is 'x'", set("rule", "x"));
  refused(ErrorKind::input, "metadata 'layout' is 'x'", set("layout", "x"));
  refused(ErrorKind::input, "metadata 'rows' is '-1', which is no size", set("rows", "-1"));
  refused(ErrorKind::input, "metadata 'pad_byte' is over 255", set("pad_byte", "256"));
  refused(ErrorKind::input, "by the metadata it should be U8 [191 x 512]", set("rows", "191"));
  refused(ErrorKind::input, "scale_rows and scale_cols should be 192 and 16", set("scale_cols", "15"));
  refused(ErrorKind::usage, "block", set("block", "3x3"));
  refused(ErrorKind::input, "its metadata has no 'cols'", [](auto& file) { file.metadata.erase("cols"); });
  refused(ErrorKind::input, "'codes' and 'scales' and no others", [](auto& file) { file.tensors.pop_back(); });
  refused(ErrorKind::input, "'scales' is F32", [](auto& file) { file.tensors[1].format = Format::fp32; });
}

}  // namespace
}  // namespace mxcheck
