#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "goldens/data/embedded.h"
#include "goldens/format/reader.h"
#include "numerics/bytes.h"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"
#include "properties/goldens/input.h"
#include "properties/goldens/suite.h"
#include "properties/operations/scaled_blocks/golden.h"
#include "reference/quantize/quantize.h"
#include "reference/quantize/scale_layout.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;
using test::read_file;
using test::TemporaryDirectory;

class MakeGolden : public testing::Test {
 protected:
  Manifest make(const std::string& goldens, MakeOptions options = {}) {
    options.input_directory = dir.path();
    return make_suite(parse_suite(R"({"suite": "s", "goldens": [)" + goldens + "]}", "t"), dir / "out", options);
  }
  [[nodiscard]] Tensor read(const std::string& golden, const std::string& dataset) const {
    return GoldenReader(dir / ("out/" + golden + ".h5")).read(dataset);
  }
  TemporaryDirectory dir;
};

std::string quantize_of(const std::string& input, const std::string& block, const std::string& more = "") {
  return R"({"name": "g", "kind": "quantize", "format": "e4m3", "recipe": "rceil", "block": ")" + block +
         R"(", "input": )" + input + more + "}";
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

TEST_F(MakeGolden, holds_the_references_answer_and_its_input) {
  for (const char* block : {"1x32", "32x1", "32x32", "1x128", "128x1", "128x128", "row"}) {
    SCOPED_TRACE(block);
    make(quantize_of(R"({"real": "layer0.x", "rows_of": [5, 105], "plant": [[3, 4, "7f80"]]})", block,
                     R"(, "offsets": [0, 40, 40, 100], "values": true)"));
    const Tensor& whole = real_tensor("layer0.x");
    std::vector<std::byte> x(whole.data.begin() + 5 * 512 * 2, whole.data.begin() + 105 * 512 * 2);
    const std::uint16_t infinity = 0x7F80;
    std::memcpy(x.data() + (3 * 512 + 4) * 2, &infinity, 2);
    EXPECT_EQ(read("g", "x").data, x);
    const std::vector<std::int64_t> offsets{0, 40, 40, 100};
    EXPECT_EQ(read("g", "offsets").data, bytes_of(offsets));
    const MatrixView view{Format::bf16, x.data(), 100, 512, 512};
    const QuantizedTensor q = quantize(view, Format::e4m3, block_shape_named(block), recipe_named("rceil"), offsets);
    EXPECT_EQ(read("g", "codes").data, q.codes.data);
    EXPECT_EQ(read("g", "scales").data, q.scales().data);
    EXPECT_EQ(read("g", "scales").shape, (std::vector<std::int64_t>{q.scale_rows(), q.scale_cols()}));
    EXPECT_EQ(read("g", "values").data, bytes_of(dequantize(q, offsets)));
  }
}

// Panels of 32 MiB must not show. 5,000 x 8,192 BF16 are 80 MiB, three panels.
TEST_F(MakeGolden, panels_do_not_show) {
  constexpr std::int64_t kRows = 5000, kCols = 8192;
  Tensor x{"", Format::bf16, {kRows, kCols}, std::vector<std::byte>(kRows * kCols * 2)};
  for (std::size_t i = 0; i < x.data.size() / 2; ++i) {
    const auto bits = static_cast<std::uint16_t>(0x3C00 + (i * 2654435761U >> 22));
    std::memcpy(x.data.data() + 2 * i, &bits, 2);
  }
  write_npy(dir / "x.npy", x);
  const std::vector<std::int64_t> offsets{0, 1000, 2047, 2047, 4999, 5000};
  for (const char* block : {"1x32", "128x1", "32x32"}) {
    SCOPED_TRACE(block);
    std::vector<std::int64_t> progress;
    MakeOptions options;
    options.progress = [&](std::int64_t done, std::int64_t rows) {
      progress.push_back(done);
      EXPECT_EQ(rows, kRows);
    };
    const bool tiled = std::string(block) != "32x32";
    make(quantize_of(R"({"file": "x.npy"})", block,
                     R"(, "offsets": [0, 1000, 2047, 2047, 4999, 5000])" +
                         std::string(tiled ? R"(, "layouts": ["tcgen05", "deepgemm"], "pad_byte": 9)" : "")),
         options);
    EXPECT_GE(progress.size(), 3U);
    EXPECT_EQ(progress.back(), kRows);
    const MatrixView view{Format::bf16, x.data.data(), kRows, kCols, kCols};
    const QuantizedTensor q = quantize(view, Format::e4m3, block_shape_named(block), recipe_named("rceil"), offsets);
    EXPECT_EQ(read("g", "codes").data, q.codes.data);
    EXPECT_EQ(read("g", "scales").data, q.scales().data);
    if (!tiled) continue;
    const ScaleShape shape = scale_shape(q, offsets);
    EXPECT_EQ(read("g", "scales_tcgen05").data,
              bytes_of(to_layout(ScaleLayout::tcgen05, shape, values_in<std::uint8_t>(q.scales().data), 9)));
    EXPECT_EQ(read("g", "scales_deepgemm").data,
              bytes_of(to_layout(ScaleLayout::deepgemm, shape, values_in<std::uint8_t>(q.scales().data), 9)));
  }
}

TEST_F(MakeGolden, empty_matrices_and_float_scales_and_wide_codes_have_their_files) {
  make(quantize_of(R"({"real": "layer0.x", "rows_of": [3, 3]})", "1x32", R"(, "layouts": ["tcgen05"])"));
  EXPECT_EQ(read("g", "codes").shape, (std::vector<std::int64_t>{0, 512}));
  EXPECT_EQ(read("g", "scales_tcgen05").shape, (std::vector<std::int64_t>{0}));
  make(quantize_of(R"({"real": "layer0.x", "cols_of": [3, 3]})", "32x1"));
  EXPECT_EQ(read("g", "scales").shape, (std::vector<std::int64_t>{6, 0}));
  make(R"({"name": "w", "kind": "quantize", "format": "e5m6", "recipe": "fp32", "block": "1x128",
           "input": {"real": "layer0.h", "rows_of": [0, 3], "cols_of": [0, 200]}})");
  EXPECT_EQ(read("w", "codes").format, Format::uint16);
  EXPECT_EQ(read("w", "scales").format, Format::uint32);
  EXPECT_EQ(read("w", "scales").shape, (std::vector<std::int64_t>{3, 2}));
}

TEST_F(MakeGolden, generating_again_on_any_number_of_threads_gives_the_same_bytes) {
  const std::string golden = quantize_of(R"({"real": "layer3.dO"})", "32x1", R"(, "layouts": ["deepgemm"])");
  std::set<std::string> bytes, manifests;
  for (const int threads : {1, 2, 7, 0}) {
    MakeOptions options;
    options.threads = threads;
    make(golden, options);
    bytes.insert(read_file(dir / "out/g.h5"));
    manifests.insert(read_file(dir / "out/manifest.txt"));
  }
  EXPECT_EQ(bytes.size(), 1U);
  EXPECT_EQ(manifests.size(), 1U);
  MakeOptions compressed;
  compressed.compression = 6;
  make(golden, compressed);
  EXPECT_LT(read_file(dir / "out/g.h5").size(), bytes.begin()->size());
  EXPECT_EQ(read("g", "x").data, real_tensor("layer3.dO").data);
}

TEST_F(MakeGolden, the_manifest_keeps_what_other_suites_made) {
  make(R"({"name": "a", "kind": "layout", "rows": 2, "cols": 3})");
  const Manifest both = make(R"({"name": "b", "kind": "layout", "rows": 4, "cols": 3})");
  EXPECT_EQ(both.entries.size(), 2U);
  EXPECT_EQ(make(R"({"name": "a", "kind": "layout", "rows": 5, "cols": 3})").entries.size(), 2U);
  EXPECT_EQ(read("a", "scales").shape, (std::vector<std::int64_t>{5, 3}));
  EXPECT_EQ(read("b", "scales").shape, (std::vector<std::int64_t>{4, 3}));
  test::write_file(dir / "out/manifest.txt", "not one\n");
  expect_error(ErrorKind::golden, "manifest.txt",
               [&] { make(R"({"name": "a", "kind": "layout", "rows": 2, "cols": 3})"); });
}

TEST_F(MakeGolden, refusals_name_the_golden_and_leave_nothing) {
  const auto refused = [&](ErrorKind kind, const std::string& text, const std::string& golden) {
    expect_error(kind, text, [&] { make(golden); });
    EXPECT_FALSE(std::filesystem::exists(dir / "out/g.h5"));
    EXPECT_FALSE(std::filesystem::exists(dir / "out/manifest.txt"));
  };
  refused(ErrorKind::usage, "golden g: no real tensor 'layer9.x'", quantize_of(R"({"real": "layer9.x"})", "1x32"));
  refused(ErrorKind::usage, "rows_of: ends at 193; there are 192",
          quantize_of(R"({"real": "layer0.x", "rows_of": [0, 193]})", "1x32"));
  refused(ErrorKind::usage, "input.plant: (192, 0)",
          quantize_of(R"({"real": "layer0.x", "plant": [[192, 0, "0"]]})", "1x32"));
  refused(ErrorKind::usage, "golden g: ", quantize_of(R"({"real": "layer0.x"})", "1x32", R"(, "offsets": [0, 191])"));
  refused(ErrorKind::input, "golden g: ", quantize_of(R"({"file": "none.npy"})", "1x32"));
  write_npy(dir / "i.npy", {"", Format::int32, {1, 1}, std::vector<std::byte>(4)});
  refused(ErrorKind::input, "has dtype I32", quantize_of(R"({"file": "i.npy"})", "1x32"));
  write_npy(dir / "v.npy", {"", Format::fp32, {1}, std::vector<std::byte>(4)});
  refused(ErrorKind::input, "has 1 dimensions; two are needed", quantize_of(R"({"file": "v.npy"})", "1x32"));
  write_npy(dir / "t.npy", {"", Format::fp32, {2, 1, 1}, std::vector<std::byte>(8)});
  refused(ErrorKind::usage, "holds matrices 0 to 1, not 2", quantize_of(R"({"file": "t.npy", "index": 2})", "1x32"));
  test::write_file(dir / "short.npy", read_file(dir / "t.npy").substr(0, 131));
  refused(ErrorKind::input, "golden g: ", quantize_of(R"({"file": "short.npy", "index": 1})", "1x32"));
}

TEST_F(MakeGolden, a_matrix_out_of_three_is_the_one_asked_for) {
  Tensor t{"", Format::fp32, {3, 2, 2}, {}};
  std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  t.data = bytes_of(values);
  write_npy(dir / "t.npy", t);
  make(quantize_of(R"({"file": "t.npy", "index": 1})", "1x32"));
  EXPECT_EQ(read("g", "x").data, bytes_of(std::vector<float>{5, 6, 7, 8}));
}

bool holds(const std::vector<std::uint32_t>& patterns, float value) {
  return std::find(patterns.begin(), patterns.end(), std::bit_cast<std::uint32_t>(value)) != patterns.end();
}

bool sorted_by_magnitude(const std::vector<std::uint32_t>& patterns) {
  const auto key = [](std::uint32_t bits) { return std::pair(bits & 0x7FFFFFFF, bits >> 31); };
  return std::adjacent_find(patterns.begin(), patterns.end(), [&](auto a, auto b) { return key(a) >= key(b); }) ==
         patterns.end();
}

TEST(CastBoundaries, hold_values_midpoints_and_their_neighbours_of_both_signs) {
  const std::vector<std::uint32_t> e2m1 = cast_boundaries(Format::e2m1);  // 0 0.5 1 1.5 2 3 4 6, and 8 beyond
  EXPECT_TRUE(sorted_by_magnitude(e2m1));
  for (const float edge : {0.25F, 0.5F, 0.75F, 1.0F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F, 6.0F, 7.0F, 8.0F}) {
    for (const float x : {std::nextafter(edge, 0.0F), edge, std::nextafter(edge, 100.0F)}) {
      EXPECT_TRUE(holds(e2m1, x)) << x;
      EXPECT_TRUE(holds(e2m1, -x)) << -x;
    }
  }
  EXPECT_TRUE(holds(e2m1, INFINITY));
  EXPECT_FALSE(holds(e2m1, 0.6F));
}

TEST(CastBoundaries, change_the_code_at_every_midpoint) {
  for (const Format format : {Format::e4m3, Format::e5m2, Format::e3m2, Format::mxint8}) {
    std::vector<std::uint32_t> codes;
    for (const std::uint32_t bits : cast_boundaries(format)) {
      const auto value = std::bit_cast<float>(bits);
      if (std::isnan(value)) continue;
      codes.push_back(encode(format, value, Rounding::nearest_even, Overflow::saturate));
    }
    std::sort(codes.begin(), codes.end());
    const auto distinct = std::unique(codes.begin(), codes.end()) - codes.begin();
    EXPECT_GE(distinct, (1 << spec(format).bits) - 10) << spec(format).name;  // all but NaN and infinities
  }
}

TEST(AmaxBoundaries, hold_the_edges_of_every_binade_once) {
  for (const Format format : {Format::e4m3, Format::e5m2, Format::e2m1}) {
    const std::vector<std::uint32_t> amax = amax_boundaries(format);
    EXPECT_TRUE(sorted_by_magnitude(amax));
    const auto largest = static_cast<float>(decode(format, spec(format).max_code));
    for (const int k : {-100, -1, 0, 60}) {
      for (const float edge : {std::ldexp(1.0F, k), std::ldexp(largest, k)}) {
        EXPECT_TRUE(holds(amax, edge) && holds(amax, std::nextafter(edge, INFINITY))) << edge;
      }
    }
    EXPECT_TRUE(holds(amax, std::bit_cast<float>(0x04600001U)));  // where an FP32 shortcut is wrong
  }
}

TEST(MadeUp, bits_come_over_and_over) {
  InputSpec input;
  input.bits = {0x3F80, 0x7FC0, 1}, input.rows = 2, input.cols = 4;
  EXPECT_EQ(values_in<std::uint16_t>(repeated_bits(input).data),
            (std::vector<std::uint16_t>{0x3F80, 0x7FC0, 1, 0x3F80, 0x7FC0, 1, 0x3F80, 0x7FC0}));
  input.dtype = Format::fp32;
  EXPECT_EQ(repeated_bits(input).data.size(), 32U);
}

TEST(MadeUp, numbers_are_about_normal_and_of_the_spread_asked_for) {
  InputSpec input;
  input.normal = 5, input.rows = 100, input.cols = 400, input.exponent = -3, input.dtype = Format::fp32;
  const auto x = values_in<float>(normal_numbers(input).data);
  double sum = 0, squares = 0, fourths = 0;
  for (const float v : x) sum += v, squares += double{v} * v, fourths += std::pow(double{v}, 4);
  const auto count = static_cast<double>(x.size());
  // Standard deviations for 40,000 numbers of spread s: of the mean s / 200, of the spread s / sqrt(80,000) = s / 283,
  // of the kurtosis sqrt(24 / 40,000) = 0.024; the bounds are six to nine of them.
  EXPECT_NEAR(sum / count, 0, 0.125 * 0.03);
  EXPECT_NEAR(std::sqrt(squares / count), 0.125, 0.125 * 0.03);
  EXPECT_NEAR(fourths * count / (squares * squares), 3 - 0.1, 0.15);  // twelve summands: 3 - 6 / 60
  InputSpec other = input;
  other.normal = 6;
  EXPECT_NE(normal_numbers(other).data, normal_numbers(input).data);
}

// The one golden of a suite, in memory.
MadeGolden made(const std::string& golden) {
  const GoldenSuite suite = parse_suite(R"({"suite": "s", "goldens": [{"name": "g", )" + golden + "}]}", "t");
  return suite.goldens.at(0).kind->make(suite.goldens[0], {});
}

template <class T>
std::vector<T> values_of(const MadeGolden& table, const std::string& dataset) {
  for (std::size_t i = 0; i < table.data.size(); ++i) {
    if (table.info.datasets[i].name == dataset) return values_in<T>(table.data[i]);
  }
  ADD_FAILURE() << "no dataset " << dataset;
  return {};
}

TEST(Tables, hold_the_value_of_every_code) {
  const MadeGolden table = made(R"("kind": "formats", "formats": ["e4m3", "e2m1"])");
  const auto e4m3 = values_of<float>(table, "e4m3");
  ASSERT_EQ(e4m3.size(), 256U);
  EXPECT_EQ(e4m3[0x7E], 448.0F);
  EXPECT_TRUE(std::isnan(e4m3[0x7F]));
  EXPECT_EQ(values_of<float>(table, "e2m1"),
            (std::vector<float>{0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0F, -0.5, -1, -1.5, -2, -3, -4, -6}));
}

TEST(Tables, hold_the_codecs_casts) {
  const MadeGolden table = made(R"("kind": "casts", "format": "e4m3")");
  const auto x = values_of<float>(table, "x");
  const auto codes = values_of<std::uint8_t>(table, "nearest_even_saturate");
  const auto cut = values_of<std::uint8_t>(table, "toward_zero_non_saturate");
  EXPECT_GT(x.size(), 1500U);  // 127 magnitudes and midpoints, three floats each, both signs
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(codes[i], encode(Format::e4m3, x[i], Rounding::nearest_even, Overflow::saturate));
    EXPECT_EQ(cut[i], encode(Format::e4m3, x[i], Rounding::toward_zero, Overflow::non_saturate));
  }
}

TEST(Tables, hold_a_scale_of_every_recipe_and_tell_rules_apart) {
  const MadeGolden table = made(R"("kind": "scales", "format": "e4m3")");
  EXPECT_EQ(table.info.datasets.size(), 1 + all_recipes().size());
  const auto amax = values_of<float>(table, "amax");
  const auto floor = values_of<std::uint8_t>(table, "floor"), te = values_of<std::uint8_t>(table, "te");
  std::size_t differ = 0;
  for (std::size_t i = 0; i < amax.size(); ++i) {
    if (std::isnan(amax[i])) continue;
    EXPECT_EQ(te[i], scale_byte_for_amax(recipe_named("te"), Format::e4m3, amax[i]));
    differ += floor[i] != te[i] ? 1 : 0;
  }
  EXPECT_GT(differ, 200U);
}

TEST(Tables, hold_both_layouts_of_scales_that_never_are_the_pad_byte) {
  const MadeGolden table = made(R"("kind": "layout", "rows": 5, "cols": 3, "pad_byte": 90)");
  const auto scales = values_of<std::uint8_t>(table, "scales");
  ASSERT_EQ(scales.size(), 15U);
  EXPECT_EQ(std::count(scales.begin(), scales.end(), 0x5A), 0);
  const ScaleShape shape{{5}, 3};
  EXPECT_EQ(values_of<std::uint8_t>(table, "tcgen05"), to_layout(ScaleLayout::tcgen05, shape, scales, 0x5A));
  EXPECT_EQ(values_of<std::uint8_t>(table, "deepgemm"), to_layout(ScaleLayout::deepgemm, shape, scales, 0x5A));
}

TEST(Tables, hold_every_code_under_every_scale_byte) {
  const MadeGolden table = made(R"("kind": "dequantize", "format": "e2m1")");
  const auto values = values_of<float>(table, "values");
  ASSERT_EQ(values.size(), 256U * 32);
  EXPECT_EQ(values[128 * 32 + 7], 12.0F);  // 6 times 2
  EXPECT_TRUE(std::isnan(values[255 * 32]));
}

}  // namespace
}  // namespace mxcheck
