#include "goldens/format/golden.h"
#include "goldens/data/embedded.h"
#include "goldens/format/manifest.h"
#include "goldens/format/offsets.h"
#include "goldens/format/quantized_file.h"
#include "goldens/format/reader.h"
#include "goldens/format/schema.h"
#include "goldens/io/tensor_file.h"
#include "numerics/bytes.h"
#include "tests/goldens/format/golden_samples.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

TEST(Golden, every_format_has_a_name_of_its_own_that_leads_back) {
  std::set<std::string> names;
  for (const Format format : kAllFormats) {
    const std::string name(spec(format).dtype_name);
    EXPECT_TRUE(names.insert(name).second);
    EXPECT_EQ(format_of_attribute(name), format);
  }
  EXPECT_EQ(format_of_attribute("float8_e8m0fnu"), Format::e8m0);
  EXPECT_EQ(format_of_attribute("bfloat16"), Format::bf16);
}

TEST(Golden, refuses_names_that_are_no_format) {
  for (const std::string name : {"", "e4m3", "bf16", "float8_e4m3", "int32", "int64", "Bfloat16"})
    expect_error(ErrorKind::golden, "'" + name + "' is no number format", [&] { format_of_attribute(name); });
}

TEST(Golden, finds_attributes_and_datasets_by_name) {
  const GoldenInfo info{{{"a", "1"}, {"b", ""}}, {{.name = "x"}, {.name = "y", .role = Role::input}}};
  EXPECT_EQ(attribute(info.attributes, "a"), "1");
  EXPECT_EQ(attribute(info.attributes, "b"), "");
  EXPECT_EQ(attribute(info.attributes, "c"), "");
  ASSERT_NE(info.find("y"), nullptr);
  EXPECT_EQ(info.find("y")->role, Role::input);
  EXPECT_EQ(info.find("z"), nullptr);
}

TEST(DatasetEquals, is_about_dtype_shape_and_every_byte) {
  const TemporaryDirectory dir;
  constexpr std::int64_t kRows = (9 << 20) / 64;  // three pieces of 4 MiB, the last not whole
  const GoldenInfo info{{}, {{"x", Role::output, "float8_e4m3fn", Format::uint8, {kRows, 64}, {}}}};
  const GoldenReader golden(dir / "g.h5", write_golden(dir / "g.h5", info));
  Tensor t{"x", Format::uint8, {kRows, 64}, pattern(kRows * 64)};
  write_npy(dir / "right.npy", t);
  EXPECT_TRUE(dataset_equals(golden, "x", dir / "right.npy"));
  EXPECT_TRUE(dataset_equals(golden, "x", dir / "g.h5:/x"));
  for (const std::size_t at : {std::size_t{0}, std::size_t{4 << 20}, t.data.size() - 1}) {
    Tensor wrong = t;
    wrong.data[at] ^= std::byte{1};
    write_npy(dir / "wrong.npy", wrong);
    EXPECT_FALSE(dataset_equals(golden, "x", dir / "wrong.npy")) << at;
  }
  t.shape = {kRows / 2, 128};
  write_npy(dir / "shape.npy", t);
  EXPECT_FALSE(dataset_equals(golden, "x", dir / "shape.npy"));
  t.format = Format::int8, t.shape = {kRows, 64};
  write_npy(dir / "dtype.npy", t);
  EXPECT_FALSE(dataset_equals(golden, "x", dir / "dtype.npy"));
  expect_error(ErrorKind::input, "cannot be opened", [&] { dataset_equals(golden, "x", dir / "none.npy"); });
  expect_error(ErrorKind::golden, "has no dataset 'y'", [&] { dataset_equals(golden, "y", dir / "right.npy"); });
}

const std::string kHash(64, 'a');
const std::string kFirst = "mxcheck manifest 1, schema 1, mxcheck 0.1.0\n";

TEST(Manifest, is_written_sorted_and_read_back) {
  const Manifest manifest{"mxcheck 0.1.0", {{kHash, 12, "b.h5"}, {std::string(64, '0'), 0, "a b.h5"}}};
  const std::string text = to_text(manifest);
  EXPECT_EQ(text, kFirst + std::string(64, '0') + "  0  a b.h5\n" + kHash + "  12  b.h5\n");
  const Manifest back = parse_manifest(text, "m");
  EXPECT_EQ(back.generator, "mxcheck 0.1.0");
  ASSERT_EQ(back.entries.size(), 2U);
  EXPECT_EQ(back.entries[1], manifest.entries[0]);
  EXPECT_EQ(back.find("b.h5"), &back.entries[1]);
  EXPECT_EQ(back.find("c.h5"), nullptr);
  EXPECT_TRUE(parse_manifest(kFirst, "m").entries.empty());
  EXPECT_EQ(parse_manifest(kFirst + kHash + "  9223372036854775807  x\n", "m").entries[0].size, UINT64_MAX >> 1);
}

TEST(Manifest, refuses_whatever_is_not_exactly_one) {
  const std::string good = kFirst + kHash + "  1  b\n";
  const std::string short_hash(63, 'a');
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "m:1: the line does not end"},
      {"\n", "m:1: the first line must begin with 'mxcheck manifest 1, schema 1, '"},
      {"mxcheck manifest 2, schema 1, x\n", "m:1: the first line must begin"},
      {"mxcheck manifest 1, schema 2, x\n", "m:1: the first line must begin"},
      {"mxcheck manifest 1, schema 1, \n", "m:1: the first line must name its generator"},
      {"mxcheck manifest 1, schema 1, a\tb\n", "m:1: the first line must name its generator"},
      {kFirst.substr(0, kFirst.size() - 1), "m:1: the line does not end"},
      {good.substr(0, good.size() - 1), "m:2: the line does not end"},
      {good + "\n", "m:3: a line begins with 64 lower-case hexadecimal digits"},
      {kFirst + std::string(64, 'A') + "  1  b\n", "64 lower-case hexadecimal digits"},
      {kFirst + std::string(64, 'g') + "  1  b\n", "64 lower-case hexadecimal digits"},
      {kFirst + short_hash + "  1  b\n", "64 lower-case hexadecimal digits"},
      {kFirst + kHash + "a  1  b\n", "two spaces"},
      {kFirst + kHash + " 1  b\n", "two spaces"},
      {kFirst + kHash + "\n", "two spaces"},
      {kFirst + kHash + "  1 b\n", "two spaces"},
      {kFirst + kHash + "  1\n", "two spaces"},
      {kFirst + kHash + "    1  b\n", "the size must be"},
      {kFirst + kHash + "  -1  b\n", "the size must be"},
      {kFirst + kHash + "  +1  b\n", "the size must be"},
      {kFirst + kHash + "  01  b\n", "the size must be"},
      {kFirst + kHash + "  0x1  b\n", "two spaces"},
      {kFirst + kHash + "  1.5  b\n", "two spaces"},
      {kFirst + kHash + "    b\n", "the size must be"},
      {kFirst + kHash + "  9223372036854775808  b\n", "the size must be"},
      {kFirst + kHash + "  99999999999999999999  b\n", "the size must be"},
      {kFirst + kHash + "  1  \n", "the name must be"},
      {kFirst + kHash + "  1   b\n", "the name must be"},
      {kFirst + kHash + "  1  b \n", "the name must be"},
      {kFirst + kHash + "  1  b\r\n", "the name must be"},
      {kFirst + kHash + "  1  ..\n", "the name must be"},
      {kFirst + kHash + "  1  .\n", "the name must be"},
      {kFirst + kHash + "  1  a/b\n", "the name must be"},
      {kFirst + kHash + "  1  /b\n", "the name must be"},
      {kFirst + kHash + "  1  a\x01\n", "the name must be"},
      {kFirst + kHash + "  1  " + std::string("a\0b", 3) + "\n", "the name must be"},
      {kFirst + kHash + "  1  " + std::string(256, 'b') + "\n", "the name must be"},
      {good + kHash + "  1  b\n", "m:3: 'b' is a duplicate or out of order"},
      {good + kHash + "  1  a\n", "m:3: 'a' is a duplicate or out of order"},
  };
  for (const auto& [text, message] : cases)
    expect_error(ErrorKind::golden, message, [&, &t = text] { parse_manifest(t, "m"); });
  expect_error(ErrorKind::golden, "over 16 MiB", [] { parse_manifest(std::string(17 << 20, '\n'), "m"); });
}

TEST(Manifest, refuses_every_prefix_that_ends_inside_a_line) {
  const std::string good = kFirst + kHash + "  1  b\n" + kHash + "  2  c\n";
  for (std::size_t n = 0; n < good.size(); ++n) {
    const std::string prefix = good.substr(0, n);
    if (prefix.ends_with('\n')) continue;
    expect_error(ErrorKind::golden, "m:", [&] { parse_manifest(prefix, "m"); });
  }
}

TEST(Manifest, does_not_write_what_it_would_not_read) {
  for (const ManifestEntry& entry : {ManifestEntry{"short", 1, "b"}, ManifestEntry{kHash, 1, "a/b"},
                                     ManifestEntry{kHash, 1, "a\nb"}, ManifestEntry{kHash, 1, "x"}}) {
    expect_error(ErrorKind::usage, "nobody could read", [&] { to_text({"g", {entry, {kHash, 1, "x"}}}); });
  }
  expect_error(ErrorKind::usage, "name its generator", [] { to_text({"", {}}); });
}

TEST(EntryBeside, is_looked_up_in_the_goldens_own_folder) {
  const TemporaryDirectory dir;
  expect_error(ErrorKind::golden, "no manifest: ", [&] { entry_beside(dir / "b"); });
  write_file(dir / kManifestName, kFirst + kHash + "  7  b\n");
  EXPECT_EQ(entry_beside(dir / "b"), (ManifestEntry{kHash, 7, "b"}));
  expect_error(ErrorKind::golden, "manifest.txt has no entry for it", [&] { entry_beside(dir / "c"); });
  write_file(dir / kManifestName, "x");
  expect_error(ErrorKind::golden, "manifest.txt:1: ", [&] { entry_beside(dir / "b"); });
  std::filesystem::remove(dir / kManifestName);
  std::filesystem::create_directory(dir / kManifestName);
  expect_error(ErrorKind::golden, "not a regular file but a directory", [&] { entry_beside(dir / "b"); });
}

const std::vector<std::int64_t> kOffsets{0, 96, 192};

TEST(Offsets, are_numbers_with_commas_blanks_or_line_ends_between) {
  for (const char* text : {"0,96,192", "0 96 192", " 0 , 96,\n192,", "0\t96\r\n192\n"})
    EXPECT_EQ(parse_offsets(text, "t"), kOffsets) << text;
  EXPECT_EQ(offsets_to_text(kOffsets), "0,96,192");
  EXPECT_EQ(offsets_to_text({}), "");
  for (const char* text : {"a", "0,,1", "-1", "0x10", "0;1", "+1", "9223372036854775808"})
    expect_error(ErrorKind::usage, "t: expected numbers like 0,96,192", [&] { parse_offsets(text, "t"); });
  expect_error(ErrorKind::usage, "t: no numbers", [] { parse_offsets(" \n", "t"); });
}

TEST(Offsets, are_read_from_a_text_and_from_a_vector) {
  const TemporaryDirectory dir;
  write_file(dir / "o.txt", "0\n96\n192\n");
  EXPECT_EQ(read_offsets(dir / "o.txt"), kOffsets);
  write_npy(dir / "o.npy", {"", Format::int64, {3}, to_bytes(kOffsets)});
  EXPECT_EQ(read_offsets(dir / "o.npy"), kOffsets);
  write_npy(dir / "narrow.npy", {"", Format::int32, {2}, to_bytes(std::vector<std::int32_t>{-1, 7})});
  EXPECT_EQ(read_offsets(dir / "narrow.npy"), (std::vector<std::int64_t>{-1, 7}));
  write_npy(dir / "matrix.npy", {"", Format::int64, {1, 3}, to_bytes(kOffsets)});
  expect_error(ErrorKind::input, "one vector of I64 or I32", [&] { read_offsets(dir / "matrix.npy"); });
  write_file(dir / "large", "");
  std::filesystem::resize_file(dir / "large", (16 << 20) + 1);
  expect_error(ErrorKind::input, "over 16 MiB of offsets", [&] { read_offsets(dir / "large"); });
}

std::string objection_to(const DatasetInfo& set) { return objection({{}, {set}}, "golden"); }

TEST(Schema, has_nothing_against_goldens_of_every_kind) {
  for (const char* kind : {"golden", "quantized", "record", "routes", "layer"})
    EXPECT_EQ(objection(small_info(), kind), "");
  EXPECT_EQ(objection({{}, {}}, "golden"), "");
}

TEST(Schema, names_what_is_wrong_with_a_dataset) {
  const DatasetInfo right{"x", Role::output, "bfloat16", Format::uint16, {2}, {}};
  EXPECT_EQ(objection_to(right), "");
  const auto with = [&](auto change) {
    DatasetInfo set = right;
    change(set);
    return objection_to(set);
  };
  EXPECT_EQ(with([](auto& s) { s.name = "1x"; }),
            "dataset '1x': a name has letters, digits and '_', and does not begin with a digit");
  EXPECT_EQ(with([](auto& s) {
              s.shape = {1, 1, 1};
            }),
            "dataset 'x': has rank 3; a golden's datasets have rank 1 or 2");
  EXPECT_EQ(with([](auto& s) { s.shape = {-1}; }), "dataset 'x': has a negative extent");
  EXPECT_EQ(with([](auto& s) { s.dtype = Format::uint8; }),
            "dataset 'x': has elements too narrow for format 'bfloat16'");
  EXPECT_EQ(with([](auto& s) { s.dtype = Format::fp32; }),
            "dataset 'x': has elements that are none of u8 u16 u32 i32 i64");
  EXPECT_EQ(with([](auto& s) { s.format = "int32"; }),
            "dataset 'x': has format 'int32', which its elements do not fit");
  EXPECT_EQ(with([](auto& s) { s.attributes = {{"role", "x"}}; }), "dataset 'x': attribute 'role' is the writer's own");
  EXPECT_EQ(with([](auto& s) { s.attributes = {{"a", ""}, {"a", ""}}; }), "dataset 'x': attribute 'a' is a duplicate");
  EXPECT_EQ(with([](auto& s) {
              s.attributes = {{"a b", ""}};
            }),
            "dataset 'x': attribute 'a b': a key has letters, digits, '_', '.' and '-'");
  EXPECT_EQ(objection({{}, {right, right}}, "golden"), "dataset 'x' is a duplicate");
}

TEST(Schema, bounds_attributes_datasets_and_kinds) {
  EXPECT_EQ(objection({{{"a", std::string(kMaxText, 'x')}}, {}}, "golden"), "");
  EXPECT_EQ(objection({{{"a", std::string(kMaxText + 1, 'x')}}, {}}, "golden"), "attribute 'a' has over 64 KiB");
  EXPECT_EQ(objection({{{"a", std::string("\0", 1)}}, {}}, "golden"), "attribute 'a' holds a zero byte");
  EXPECT_NE(objection({{}, {}}, "gold"), "");
  Attributes many;
  for (std::size_t i = 0; i + 2 < kMaxAttributes; ++i) many.emplace_back("a" + std::to_string(i), "");
  EXPECT_EQ(objection({many, {}}, "golden"), "");  // two are the writer's
  many.emplace_back("one_more", "");
  EXPECT_EQ(objection({many, {}}, "golden"), "more than 256 attributes");
}

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
  const TemporaryDirectory dir;
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
  expect_error(ErrorKind::usage, "layout tcgen05 holds bytes; rules with FP32 scales", [] {
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
