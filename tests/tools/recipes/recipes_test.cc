#include <bit>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "numerics/bytes.h"
#include "numerics/measure/measures.h"
#include "properties/core/rng.h"
#include "tests/numerics/measure/measured.h"
#include "tests/pages/xml_checker.h"
#include "tests/tools/command.h"
#include "tools/recipes/recipes.h"

namespace mxcheck {
namespace {

using namespace test;
using nlohmann::json;

class RecipesTool : public ToolTest {
 protected:
  json recipes(const std::string& arguments) {
    const Answer a = expect_output("recipes --json " + arguments, 0);
    return json::parse(a.out);
  }

  void write(const std::string& name, Format dtype, std::vector<std::int64_t> shape, const std::vector<float>& values) {
    if (dtype == Format::fp32) {
      write_npy(dir / name, make_tensor("t", dtype, std::move(shape), values));
    } else {
      const std::vector<double> wide(values.begin(), values.end());
      write_npy(dir / name, make_tensor("t", dtype, std::move(shape), wide));
    }
  }
};

json line_of(const json& answer, const std::string& recipe, const std::string& format = "e4m3") {
  for (const json& line : answer["tensors"][0]["recipes"]) {
    if (line["recipe"] == recipe && line["format"] == format) return line;
  }
  return {};
}

bool has_finding(const json& answer, const std::string& kind, const std::string& start, const std::string& text) {
  for (const json& f : answer["findings"]) {
    const std::string said = f["text"];
    if (f["kind"] == kind && said.rfind(start, 0) == 0 && said.find(text) != std::string::npos) return true;
  }
  return false;
}

TEST_F(RecipesTool, shows_that_a_clamp_erases_gradients_and_that_floor_saturates) {
  const json dh = recipes("real:layer3.dh");
  EXPECT_GT(line_of(dh, "deepgemm_host")["zeroed_share"], 0.4);
  EXPECT_LT(line_of(dh, "rceil")["zeroed_share"], 0.01);
  EXPECT_TRUE(has_finding(dh, "erased", "deepgemm_host, dsv3 (e4m3 1x32): ",
                          "of the nonzero elements become zero: every block's amax lies below the clamp of 0.0001"));
  EXPECT_TRUE(has_finding(dh, "saturated", "floor", "where rceil saturates none"));
  EXPECT_FALSE(has_finding(dh, "saturated", "rceil", ""));
  const json x = recipes("real:layer0.x --format e4m3,e5m2");
  EXPECT_FALSE(has_finding(x, "erased", "", ""));
  EXPECT_FALSE(has_finding(x, "clamped", "", ""));
}

TEST_F(RecipesTool, measures_what_quantize_and_dequantize_write) {
  write_safetensors(dir / "x.safetensors", {{real_tensor("layer3.dh")}, {}});
  for (const std::string recipe : {"floor", "deepgemm_host", "fp32"}) {
    ASSERT_EQ(mxcheck("quantize x.safetensors -o q.safetensors --block 32x1 --rule " + recipe).code, 0);
    ASSERT_EQ(mxcheck("dequantize q.safetensors -o y.npy").code, 0);
    const std::vector<float> y = values_of<float>(read_tensor(dir / "y.npy"));
    const auto codes = values_of<std::uint8_t>(tensor_of(read_safetensors(dir / "q.safetensors"), "codes"));
    const auto bits = values_of<std::uint16_t>(real_tensor("layer3.dh"));
    std::vector<float> originals(y.size());
    std::uint64_t flushed = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::uint32_t wide = std::uint32_t{bits[i]} << 16;
      std::memcpy(&originals[i], &wide, sizeof wide);
      flushed += (codes[i] & 0x7F) == 0 && originals[i] != 0 ? 1 : 0;
    }
    const ErrorMeasures m = measured(originals, y);
    const json line = line_of(recipes("real:layer3.dh --direction col --recipe " + recipe), recipe);
    EXPECT_EQ(line["block"], "32x1");
    EXPECT_EQ(line["sqnr_db"], m.sqnr_db) << recipe;
    EXPECT_EQ(line["median_relative"], m.median_relative);
    EXPECT_EQ(line["max_relative"], m.max_relative);
    EXPECT_EQ(line["flushed"], flushed);
  }
}

TEST_F(RecipesTool, compares_the_documented_default_set) {
  const json answer = recipes("real:layer0.x");
  std::vector<std::string> names, of_e2m1;
  for (const json& line : answer["tensors"][0]["recipes"]) {
    EXPECT_EQ(line["block"], line["format"] == "e2m1" ? "1x16" : "1x32");
    if (line["format"] == "e4m3") names.push_back(line["recipe"]);
    if (line["format"] == "e2m1") of_e2m1.push_back(line["recipe"]);
  }
  EXPECT_EQ(answer["tensors"][0]["recipes"].size(), 22U);
  std::sort(of_e2m1.begin(), of_e2m1.end());
  EXPECT_EQ(of_e2m1, (std::vector<std::string>{"nvfp4", "nvfp4_46"}));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"ceil", "deepgemm_fp32", "deepgemm_host", "dsv3", "even", "floor", "fp32",
                                             "microxcaling_python", "rceil", "thunderkittens"}));
  std::string documented;
  for (const char* name : {"rceil", "floor", "ceil", "even", "fp32", "deepgemm_host", "deepgemm_fp32", "dsv3",
                           "microxcaling_python", "thunderkittens", "nvfp4", "nvfp4_46"})
    documented += (documented.empty() ? "" : ",") + std::string(name);
  expect_contains(mxcheck("recipes --help").out, "rceil,floor");
  expect_contains(read_file(MXCHECK_SOURCE_DIR "/docs/recipes.md"), documented);
}

TEST_F(RecipesTool, ranks_by_what_is_asked_and_cuts_the_table_at_the_top) {
  double last = INFINITY;
  const json by_sqnr = recipes("real:layer0.x --recipe all");
  for (const json& line : by_sqnr["tensors"][0]["recipes"]) {
    EXPECT_LE(line["sqnr_db"], last);
    last = line["sqnr_db"];
  }
  last = 0;
  const json by_zeroed = recipes("real:layer3.dh --sort zeroed");
  for (const json& line : by_zeroed["tensors"][0]["recipes"]) {
    EXPECT_GE(line["zeroed_share"], last);
    last = line["zeroed_share"];
  }
  const std::string text = mxcheck("recipes real:layer0.x --top 3").out;
  expect_contains(text, "      ... 19 more\n");
}

TEST_F(RecipesTool, says_in_json_what_the_page_of_the_documentation_says) {
  write("x.npy", Format::fp32, {1, 32}, std::vector<float>(32, 1 + 0x1p-9F));
  const json answer = recipes("x.npy --recipe rceil --format e4m3");
  const json& t = answer["tensors"][0];
  EXPECT_EQ(t["name"], "x.npy");
  EXPECT_EQ(t["dtype"], "float32");
  EXPECT_GT(t["bf16"]["max_relative"], 0);
  const json& line = t["recipes"][0];
  for (const char* field :
       {"rank",           "recipe",      "format",        "block",      "sqnr_db",         "median_relative",
        "max_relative",   "flushed",     "zeroed_share",  "saturated",  "saturated_share", "nan_in_both",
        "nan_introduced", "nan_lost",    "infinity_lost", "blocks",     "zero_blocks",     "dead_blocks",
        "clamped_blocks", "amax_lowest", "amax_highest",  "scale_kind", "distinct_scales", "scale_bytes"}) {
    EXPECT_TRUE(line.contains(field)) << field;
  }
  EXPECT_EQ(line["scale_bytes"], (json{{"119", 1}}));  // 1 / 2^-8 = 256 <= 448
  EXPECT_EQ(recipes("real:layer0.x --recipe rceil")["tensors"][0]["bf16"]["sqnr_db"], "inf");
}

TEST_F(RecipesTool, multiplies_a_pair) {
  const json p = recipes("--pair real:layer0.x real:layer0.w1 --format e4m3")["products"][0];
  EXPECT_EQ(p["m"], 192);
  EXPECT_EQ(p["n"], 192);
  EXPECT_EQ(p["k"], 512);
  EXPECT_EQ(p["bf16"]["sqnr_db"], "inf");
  EXPECT_EQ(p["recipes"].size(), 10U);
  EXPECT_GT(p["recipes"][9]["sqnr_db"], 20);
  write("x.npy", Format::fp32, {2, 3}, std::vector<float>(6, 1));
  write("w.npy", Format::fp32, {3, 4}, std::vector<float>(12, 1));
  expect_refused(2, "K is 3, the activations' columns, and 4, the weights' columns", "recipes --pair x.npy w.npy");
  EXPECT_EQ(mxcheck("recipes --pair x.npy w.npy --weights-layout kn").code, 0);
}

// Two levels of scales: the results of quantize and dequantize, the tensor's scale found in a pass before the others.
TEST_F(RecipesTool, measures_nvfp4_beside_mx) {
  write_safetensors(dir / "x.safetensors", {{real_tensor("layer3.dh")}, {}});
  const auto bits = values_of<std::uint16_t>(real_tensor("layer3.dh"));
  for (const Recipe& recipe : two_level_recipes()) {
    ASSERT_EQ(mxcheck("quantize x.safetensors -o q.safetensors --rule " + recipe.name).code, 0);
    ASSERT_EQ(mxcheck("dequantize q.safetensors -o y.npy").code, 0);
    const std::vector<float> y = values_of<float>(read_tensor(dir / "y.npy"));
    std::vector<float> originals(y.size());
    std::uint64_t flushed = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      originals[i] = std::bit_cast<float>(std::uint32_t{bits[i]} << 16);
      flushed += y[i] == 0 && originals[i] != 0 ? 1 : 0;
    }
    const ErrorMeasures m = measured(originals, y);
    const json answer = recipes("real:layer3.dh --format e4m3 --recipe rceil," + recipe.name);
    ASSERT_EQ(answer["tensors"][0]["recipes"].size(), 2U);
    const json line = line_of(answer, recipe.name, "e2m1");
    EXPECT_EQ(line["block"], "1x16");
    EXPECT_EQ(line["scale_kind"], "e4m3");
    EXPECT_EQ(line["sqnr_db"], m.sqnr_db) << recipe.name;
    EXPECT_EQ(line["median_relative"], m.median_relative) << recipe.name;
    EXPECT_EQ(line["max_relative"], m.max_relative) << recipe.name;
    EXPECT_EQ(line["flushed"], flushed) << recipe.name;
    EXPECT_TRUE(has_finding(answer, "cost",
                            recipe.name + " (e2m1 1x16): ", " dB with 4.5 bits an element; rceil (e4m3 1x32): "));
    EXPECT_TRUE(has_finding(answer, "cost", recipe.name, " dB with 8.25 bits"));
  }
  const json pair = recipes("--pair real:layer0.x real:layer0.w1 --recipe 'rceil,nvfp4*' --format e4m3");
  EXPECT_EQ(pair["products"][0]["recipes"].size(), 1 + two_level_recipes().size());
  EXPECT_EQ(pair["products"][0]["recipes"][0]["recipe"], "rceil");
  EXPECT_TRUE(has_finding(pair, "cost", "nvfp4", "; rceil (e4m3 1x32): "));
  // ceil's product is better by less than the figures show.
  EXPECT_TRUE(has_finding(recipes("--pair real:layer0.x real:layer0.w1"), "cost",
                          "nvfp4_46 (e2m1 1x16): ", "; rceil (e4m3 1x32): "));
  EXPECT_FALSE(has_finding(recipes("real:layer0.x --recipe 'nvfp4*'"), "cost", "", ""));
}

TEST_F(RecipesTool, says_the_same_for_any_number_of_threads) {
  const std::string command = "recipes 'real:layer0.d*' --recipe all --direction both --json --html p.html --threads ";
  const std::string one = mxcheck(command + "1").out;
  const std::string page = read_file(dir / "p.html");
  EXPECT_EQ(mxcheck(command + "5").out, one);
  EXPECT_EQ(read_file(dir / "p.html"), page);
  EXPECT_GT(one.size(), 1000U);
}

TEST_F(RecipesTool, counts_what_is_not_finite) {
  std::vector<float> values(64, 1);
  values[3] = std::nanf("");
  values[40] = INFINITY;
  write("x.npy", Format::fp32, {1, 64}, values);
  const json answer = recipes("x.npy --format e4m3");
  EXPECT_EQ(answer["tensors"][0]["nan"], 1);
  EXPECT_EQ(answer["tensors"][0]["infinite"], 1);
  EXPECT_EQ(line_of(answer, "rceil")["sqnr_db"], "nan");
  EXPECT_TRUE(has_finding(answer, "not_finite", "the tensor itself holds 1 NaN and 1 infinities", ""));
}

TEST_F(RecipesTool, refuses_in_one_line_and_leaves_nothing) {
  write("empty.npy", Format::fp32, {0, 32}, {});
  write("rank3.npy", Format::fp32, {1, 1, 32}, std::vector<float>(32, 1));
  write("wide.npy", Format::fp64, {1, 4}, {1, 2, 3, 4});
  expect_refused(2, "no tensor given", "recipes");
  expect_refused(2, "unknown rule or preset 'nope'", "recipes real:layer0.x --recipe nope --html p.html");
  expect_refused(2, "--recipe 'no*' matches no recipe", "recipes real:layer0.x --recipe 'no*'");
  expect_refused(2, "unknown format 'e9m9'", "recipes real:layer0.x --format e9m9");
  expect_refused(2, "no real tensor 'nope'", "recipes real:nope --html p.html");
  expect_refused(2, "matches no real tensor", "recipes 'real:nope*'");
  expect_refused(2, "0 x 32 has no elements", "recipes empty.npy");
  expect_refused(2, "--index I", "recipes rank3.npy");
  EXPECT_EQ(mxcheck("recipes rank3.npy --index 0").code, 0);
  expect_refused(2, "has dtype F64", "recipes wide.npy --html p.html");
  expect_refused(2, "name the page FILE.html", "recipes real:layer0.x --html rank3.npy");
  expect_refused(2, "no/such", "recipes real:layer0.x --html no/such/p.html");
  expect_refused(2, "blocks along K", "recipes --pair real:layer0.x real:layer0.w1 --direction col");
  expect_refused(2, "lies across K", "recipes --pair real:layer0.x real:layer0.w1 --block 32x1 --html p.html");
}

std::vector<std::string> names_of(const RecipeSelection& selection) {
  std::vector<std::string> names;
  for (const Combination& c : combinations(selection))
    names.push_back(c.recipe.name + " " + std::string(spec(c.format).name) + " " + to_text(c.block));
  return names;
}

TEST(Combinations, are_the_product_each_once_in_the_order_named) {
  EXPECT_EQ(combinations({}).size(), 22U);
  EXPECT_EQ(names_of({{"e4m3", "e4m3"}, {"1x32"}, {"floor", "rceil", "floor"}, "both"}),
            (std::vector<std::string>{"floor e4m3 1x32", "rceil e4m3 1x32", "floor e4m3 32x1", "rceil e4m3 32x1"}));
  EXPECT_EQ(names_of({{"e2m1"}, {"32x32"}, {"rceil"}, "both"}), (std::vector<std::string>{"rceil e2m1 32x32"}));
  EXPECT_EQ(names_of({{"e4m3"}, {"1x128"}, {"te"}, "col"}), (std::vector<std::string>{"te e4m3 128x1"}));
}

TEST(Combinations, take_globs_and_all) {
  EXPECT_EQ(combinations({{"e4m3"}, {"1x32"}, {"all"}, "row"}).size(),
            all_recipes().size() + two_level_recipes().size());
  const std::vector<Combination> some = combinations({{"e4m3"}, {"1x32"}, {"deepgemm*"}, "row"});
  EXPECT_GE(some.size(), 2U);
  for (const Combination& c : some) EXPECT_EQ(c.recipe.name.rfind("deepgemm", 0), 0U);
  expect_error(ErrorKind::usage, "--recipe 'x*' matches no recipe", [] {
    combinations({{"e4m3"}, {"1x32"}, {"x*"}, "row"});
  });
  expect_error(ErrorKind::usage, "'fp32' is not a format of block elements", [] {
    combinations({{"fp32"}, {"1x32"}, {}, "row"});
  });
}

using Names = std::vector<std::string>;

TEST(Combinations, of_two_levels_are_of_e2m1_in_blocks_of_16) {
  EXPECT_EQ(names_of({{}, {"1x32"}, {"rceil", "nvfp4"}, "row"}),
            (Names{"rceil e4m3 1x32", "rceil e5m2 1x32", "nvfp4 e2m1 1x16"}));
  EXPECT_EQ(names_of({{"e4m3"}, {"1x128", "16x16"}, {"nvfp4"}, "row"}), (Names{"nvfp4 e2m1 16x16"}));
  EXPECT_EQ(names_of({{"e2m1"}, {"1x32"}, {"nvfp4"}, "both"}), (Names{"nvfp4 e2m1 1x16", "nvfp4 e2m1 16x1"}));
  EXPECT_EQ(names_of({{"e2m1"}, {"1x16"}, {"nvfp4"}, "col"}), (Names{"nvfp4 e2m1 16x1"}));
  // The default ones: where e2m1 may be meant.
  EXPECT_EQ(combinations({{"e4m3"}}).size(), 10U);
  EXPECT_EQ(combinations({{"e4m3", "e2m1"}}).size(), 22U);
}

TEST(Expanded, replaces_globs_of_real_tensors_alone) {
  EXPECT_EQ(expanded({"a*.npy", "real:layer0.d?", "real:x"}),
            (std::vector<std::string>{"a*.npy", "real:layer0.dO", "real:layer0.dh", "real:x"}));
  EXPECT_EQ(expanded({"real:*"}).size(), 14U);
  expect_error(ErrorKind::usage, "'real:y*' matches no real tensor", [] { expanded({"real:y*"}); });
}

// A tensor of several panels: the figures are those of the whole, whoever computes, and memory does not grow with it.

constexpr std::int64_t kRows = 400;
constexpr std::int64_t kCols = 6001;  // five panels of 2^19 elements, none of a multiple of 1024

class TensorStudyTest : public ToolTest {
 protected:
  // Words of many magnitudes: the first panel's median is not the tensor's.
  static std::vector<std::uint16_t> words() {
    std::vector<std::uint16_t> words(static_cast<std::size_t>(kRows * kCols));
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::uint64_t random = mix64(i);
      const std::uint64_t exponent = 127 - random % (2 + i / 100000);
      words[i] = static_cast<std::uint16_t>((random >> 20 & 0x807F) | exponent << 7);
    }
    return words;
  }
};

TEST_F(TensorStudyTest, has_the_figures_of_the_whole) {
  const std::vector<std::uint16_t> x = words();
  write_npy(dir / "x.npy", {"", Format::bf16, {kRows, kCols}, to_bytes(x)});
  const MatrixView view{Format::bf16, std::as_bytes(std::span(x)).data(), kRows, kCols, kCols};
  std::vector<Combination> all;
  for (const BlockShape block : {BlockShape{1, 32}, BlockShape{128, 128}, BlockShape{32, 1}}) {
    for (const char* recipe : {"rceil", "fp32"}) all.push_back({Format::e4m3, block, recipe_named(recipe)});
  }
  all.push_back({Format::e5m6, {1, 0}, recipe_named("floor")});
  for (const int threads : {1, 3}) {
    Progress progress("test");
    const TensorReport report = study_tensor({dir / "x.npy", std::nullopt, ""}, all, threads, progress);
    EXPECT_EQ(report.bf16.median_relative, 0);
    EXPECT_EQ(report.facts.count, x.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Study want = study(view, all[i].format, all[i].block, all[i].recipe);
      const Study& s = report.lines[i].study;
      EXPECT_EQ(s.error.sqnr_db, want.error.sqnr_db) << i;
      EXPECT_EQ(s.error.median_relative, want.error.median_relative) << i;
      EXPECT_EQ(s.error.max_relative, want.error.max_relative) << i;
      EXPECT_EQ(s.error.flushed, want.error.flushed) << i;
      EXPECT_EQ(s.dead_blocks, want.dead_blocks) << i;
      EXPECT_EQ(s.scales, want.scales) << i;
      EXPECT_EQ(s.distinct_scales, want.distinct_scales) << i;
    }
  }
}

// The last panel has the largest magnitude, below which the first one's blocks lie too.
TEST_F(TensorStudyTest, quantizes_every_panel_below_the_scale_of_the_tensor) {
  std::vector<std::uint16_t> x = words();
  x[static_cast<std::size_t>(399 * kCols + 5)] = 0x4400;  // 512
  write_npy(dir / "x.npy", {"", Format::bf16, {kRows, kCols}, to_bytes(x)});
  const MatrixView view{Format::bf16, std::as_bytes(std::span(x)).data(), kRows, kCols, kCols};
  std::vector<Combination> all;
  for (const char* recipe : {"nvfp4", "nvfp4_te", "nvfp4_compressed_tensors", "nvfp4_46"}) {
    all.push_back({Format::e2m1, {1, 16}, any_recipe_named(recipe)});
  }
  Progress progress("test");
  const TensorReport report = study_tensor({dir / "x.npy", std::nullopt, ""}, all, 3, progress);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Study want = study(view, all[i].format, all[i].block, all[i].recipe);
    EXPECT_EQ(report.lines[i].study.error.sqnr_db, want.error.sqnr_db) << all[i].recipe.name;
    EXPECT_EQ(report.lines[i].study.error.median_relative, want.error.median_relative) << all[i].recipe.name;
    EXPECT_EQ(report.lines[i].study.error.flushed, want.error.flushed) << all[i].recipe.name;
    EXPECT_EQ(report.lines[i].study.scales, want.scales) << all[i].recipe.name;
  }
}

TEST_F(TensorStudyTest, takes_blocks_as_high_as_the_matrix) {
  const std::vector<std::uint16_t> x = words();
  write_npy(dir / "x.npy", {"", Format::bf16, {kRows, kCols}, to_bytes(x)});
  Progress progress("test");
  const TensorReport report =
      study_tensor({dir / "x.npy", std::nullopt, ""}, {{Format::e4m3, {0, 1}, recipe_named("rceil")}}, 2, progress);
  EXPECT_EQ(report.lines[0].study.blocks, static_cast<std::uint64_t>(kCols));
}

TEST_F(TensorStudyTest, names_the_row_of_a_nan_that_a_recipe_refuses) {
  std::vector<std::uint16_t> x = words();
  x[static_cast<std::size_t>(399 * kCols + 5)] = 0x7FC1;
  write_npy(dir / "x.npy", {"", Format::bf16, {kRows, kCols}, to_bytes(x)});
  Progress progress("test");
  Recipe recipe = recipe_named("rceil");
  recipe.nan = NanPolicy::refuse;
  expect_error(ErrorKind::input, "x.npy: NaN at row 399, column 5", [&] {
    study_tensor({dir / "x.npy", std::nullopt, ""}, {{Format::e4m3, {1, 32}, recipe}}, 2, progress);
  });
}

#if !defined(__SANITIZE_ADDRESS__)  // which takes memory of its own

TEST_F(TensorStudyTest, takes_memory_for_a_few_panels_and_not_for_the_tensor) {
  write_large_zeros("x.safetensors");
  expect_output("recipes x.safetensors --threads 2 --format e4m3 --recipe rceil", 0, {}, "ulimit -d 100000; ");
}

#endif

TEST(RecipeFigures, are_short_and_never_round_to_none_or_all) {
  EXPECT_EQ(percent(0), "0 %");
  EXPECT_EQ(percent(1e-9), "<0.01 %");
  EXPECT_EQ(percent(0.03125), "3.12 %");
  EXPECT_EQ(percent(1 - 1e-9), ">99.99 %");
  EXPECT_EQ(percent(1), "100 %");
  EXPECT_EQ(figure(0.00123456), "0.00123");
  EXPECT_EQ(figure(std::copysign(NAN, -1.0)), "nan");
  EXPECT_EQ(decibels(31.416), "31.42");
  EXPECT_EQ(decibels(INFINITY), "inf");
  Study study;
  study.scales[120] = 1;
  EXPECT_EQ(scale_range(study), "120");
  study.scales[118] = 2;
  EXPECT_EQ(scale_range(study), "118-120");
}

RecipesReport sample_recipes() {
  TensorReport t;
  t.name = "x.npy", t.rows = 1, t.cols = 32;
  for (const char* name : {"rceil", "floor", "te"}) {
    StudyLine line{{Format::e4m3, {1, 32}, recipe_named(name)}, {}};
    line.study.scales[119] = 1;
    t.lines.push_back(line);
  }
  MatmulReport m;
  m.activations = "x.npy", m.weights = "w.npy", m.m = 1, m.n = 2, m.k = 32;
  m.lines.push_back({{Format::e4m3, {1, 32}, recipe_named("rceil")}, {}});
  return {{t}, {m}, {{"x.npy", "zero", "every element is zero"}}};
}

TEST(RecipesReport, cuts_its_tables_and_keeps_its_findings) {
  const std::string all = to_text(sample_recipes(), 0), two = to_text(sample_recipes(), 2);
  expect_contains(all, "   3  te ");
  EXPECT_EQ(two.find("   3  te "), std::string::npos);
  expect_contains(two, {"      ... 1 more\n", "x.npy x w.npy: 1 x 2 x 32 (M x N x K), weights nk\n",
                        "Findings\n  x.npy\n    every element is zero\n"});
  expect_contains(to_text(RecipesReport(), 0), "Findings: none\n");
}

TEST(RecipesReport, has_every_line_in_json) {
  const Json json = to_json(sample_recipes());
  const auto& tensors = *json.find("tensors")->get_if<Json::Array>();
  const auto& lines = *tensors.at(0).find("recipes")->get_if<Json::Array>();
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(to_text(*lines[1].find("recipe"), {-1}), "\"floor\"");
  EXPECT_EQ(to_text(*lines[1].find("rank"), {-1}), "2");
  EXPECT_EQ(to_text(*lines[1].find("scale_bytes"), {-1}), R"({"119":1})");
  EXPECT_EQ(to_text(*json.find("findings"), {-1}),
            R"([{"where":"x.npy","kind":"zero","text":"every element is zero"}])");
  EXPECT_EQ(json.find("products")->size(), 1U);
}

using Kinds = std::vector<std::string>;

StudyLine line_of(const char* recipe) {
  StudyLine line{{Format::e4m3, {1, 32}, recipe_named(recipe)}, {}};
  line.study.blocks = 100;
  line.study.error.sqnr_db = 30;
  return line;
}

TensorReport tensor_with(const std::vector<StudyLine>& lines) {
  TensorReport t;
  t.name = "x", t.dtype = Format::fp32, t.facts.count = 3200;
  t.lines = lines;
  return t;
}

Kinds kinds_of(const TensorReport& t) {
  Kinds kinds;
  for (const RecipeFinding& f : findings_of({{t}, {}, {}})) kinds.push_back(f.kind);
  return kinds;
}

TEST(Findings, are_none_where_nothing_is_lost) { EXPECT_EQ(kinds_of(tensor_with({line_of("rceil")})), Kinds()); }

TEST(Findings, begin_at_their_thresholds) {
  const auto with = [](auto change) {
    StudyLine line = line_of("floor");
    change(line.study);
    return kinds_of(tensor_with({line_of("rceil"), line}));
  };
  EXPECT_EQ(with([](Study& s) { s.zeroed_share = 0.0099; }), Kinds());
  EXPECT_EQ(with([](Study& s) { s.zeroed_share = 0.01; }), Kinds{"erased"});
  EXPECT_EQ(with([](Study& s) { s.clamped_blocks = 9; }), Kinds());
  EXPECT_EQ(with([](Study& s) { s.clamped_blocks = 10; }), Kinds{"clamped"});
  EXPECT_EQ(with([](Study& s) { s.error.saturated_share = 0.0009; }), Kinds());
  EXPECT_EQ(with([](Study& s) { s.error.saturated_share = 0.001; }), Kinds{"saturated"});
  EXPECT_EQ(with([](Study& s) { s.dead_blocks = 1; }), Kinds{"dead_blocks"});
  EXPECT_EQ(with([](Study& s) { s.error.sqnr_db = 27.01; }), Kinds());
  EXPECT_EQ(with([](Study& s) { s.error.sqnr_db = 27; }), Kinds{"behind"});
  EXPECT_EQ(with([](Study& s) { s.error.nan_lost = 1; }), Kinds{"not_finite"});
}

TEST(Findings, say_once_what_several_recipes_do) {
  StudyLine a = line_of("floor"), b = line_of("te");
  a.study.dead_blocks = b.study.dead_blocks = 2;
  const std::vector<RecipeFinding> findings = findings_of({{tensor_with({a, b})}, {}, {}});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].text, "floor, te (e4m3 1x32): 2 of 100 blocks with data become all zero");
}

TEST(Findings, are_about_the_tensor_and_the_matmul_too) {
  TensorReport t = tensor_with({});
  t.dtype = Format::bf16, t.facts.nan = 1, t.facts.zeros = t.facts.count;
  EXPECT_EQ(kinds_of(t), (Kinds{"not_finite", "zero", "bf16"}));
  MatmulReport m;
  m.activations = "a", m.weights = "w";
  m.lines.push_back({{Format::e4m3, {1, 32}, recipe_named("rceil")}, {}});
  m.lines[0].error.frobenius = 0.1;
  EXPECT_TRUE(findings_of({{}, {m}, {}}).empty());
  m.lines[0].error.frobenius = 0.11;
  ASSERT_EQ(findings_of({{}, {m}, {}}).size(), 1U);
  EXPECT_EQ(findings_of({{}, {m}, {}})[0].text, "rceil (e4m3 1x32): the product is off by 11.00 % of its own norm");
}

TEST(RecipesProgress, counts_all_passes_over_a_tensor) {
  EXPECT_EQ(share_of_passes(1, 0), 0);
  EXPECT_NEAR(share_of_passes(1, 1), 1 / 1.8, 1e-12);
  EXPECT_EQ(share_of_passes(2, 0), share_of_passes(1, 1));
  EXPECT_NEAR(share_of_passes(2, 0.5), 1.325 / 1.8, 1e-12);
  EXPECT_EQ(share_of_passes(3, 1), 1);
  EXPECT_EQ(share_of_passes(4, 0.5), 1) << "a pass that is not expected";
}

class RecipesPage : public ToolTest {};

TEST_F(RecipesPage, writes_a_page_that_is_well_formed_and_needs_nothing_else) {
  ASSERT_EQ(mxcheck("recipes real:layer0.dh --pair real:layer0.x real:layer0.w1 --html p.html").code, 0);
  const std::string page = read_file(dir / "p.html");
  EXPECT_EQ(not_well_formed(page), "");
  for (const char* word : {"http", "<script", "src=", "href=", "url(", "@import", "nan\"", "inf\""})
    EXPECT_EQ(page.find(word), std::string::npos) << word;
  for (const char* word :
       {"<svg", "aria-label=\"SQNR by recipe\"", "aria-label=\"Elements lost by recipe\"", "prefers-color-scheme: dark",
        "lies below the clamp", "scope=\"col\"", "<caption>", "&lt;0.01 %"})
    expect_contains(page, word);
}

// deepgemm_host and dsv3 have rceil's figure, and lose half of the elements.
TEST_F(RecipesPage, begins_with_the_recipe_to_take_and_groups_those_with_equal_figures) {
  ASSERT_EQ(mxcheck("recipes real:layer3.dh --format e4m3 --html p.html").code, 0);
  const std::string page = read_file(dir / "p.html");
  expect_contains(page, "<strong class=\"good\">fp32 e4m3 1x32</strong>35.82 dB: the least error with FP32 scales");
  expect_contains(page,
                  "<strong>rceil e4m3 1x32</strong> 32.17 dB: the least error with E8M0 scales, and no finding is "
                  "about it; thunderkittens, ceil are equal");
  expect_contains(page, "<b>rceil, thunderkittens, ceil e4m3 1x32</b>");
  expect_contains(page, "<b>deepgemm_host, dsv3 e4m3 1x32</b>");
  expect_contains(page, {"32.17 dB, 48.05 % zeroed, 4 dead blocks", "30.92 dB, 0.46 % saturated"});
}

// Presets with equal figures stand together, and E4M3's bytes have plots of their own.
TEST_F(RecipesPage, shows_nvfp4_beside_mx) {
  ASSERT_EQ(
      mxcheck("recipes real:layer0.x --recipe 'rceil,nvfp4,nvfp4_te,nvfp4_cutlass' --format e4m3 --html p.html").code,
      0);
  const std::string page = read_file(dir / "p.html");
  EXPECT_EQ(not_well_formed(page), "");
  expect_contains(
      page, {"<b>nvfp4_te, nvfp4_cutlass, nvfp4 e2m1 1x16</b>", "<h3>Scale bytes in E4M3</h3>", "<h3>Scale bytes</h3>",
             "<strong class=\"good\">rceil e4m3 1x32</strong>",
             "nvfp4 (e2m1 1x16): 20.56 dB with 4.5 bits an element; rceil (e4m3 1x32): 31.49 dB with 8.25 bits"});
  ASSERT_EQ(mxcheck("recipes real:layer0.x --recipe rceil --html p.html").code, 0);
  EXPECT_EQ(read_file(dir / "p.html").find("Scale bytes in E4M3"), std::string::npos);
}

TEST_F(RecipesPage, says_so_where_there_is_a_finding_about_every_recipe) {
  ASSERT_EQ(mxcheck("recipes real:layer3.dh --recipe floor,even --format e4m3 --html p.html").code, 0);
  expect_contains(read_file(dir / "p.html"), "<strong class=\"doubt\">None</strong>");
  expect_contains(read_file(dir / "p.html"), "No recipe can be recommended: a finding is about every one of them.");
}

// In the page and on the terminal.
TEST_F(RecipesPage, says_why_zeros_and_nans_leave_nothing_to_recommend) {
  const auto says = [&](const std::string& what, const std::vector<float>& values) {
    write_npy(dir / "x.npy", make_tensor("t", Format::fp32, {1, 64}, values));
    const Answer a = mxcheck("recipes x.npy --html p.html");
    expect_contains(a.out, "\n" + what);
    expect_contains(read_file(dir / "p.html"), "<strong class=\"doubt\">None</strong>" + what);
  };
  says("No recipe can be recommended: every element is zero, every recipe gives zeros back",
       std::vector<float>(64, 0.0F));
  says("No recipe can be recommended: x.npy holds 64 NaN and 0 infinities, and no recipe keeps them",
       std::vector<float>(64, std::nanf("")));
}

TEST_F(RecipesPage, recommends_a_recipe_for_a_product_alone) {
  ASSERT_EQ(mxcheck("recipes --pair real:layer0.x real:layer0.w1 --recipe rceil,te --format e4m3 --html p.html").code,
            0);
  expect_contains(read_file(dir / "p.html"), "<strong class=\"good\">");
}

TEST_F(RecipesPage, escapes_names_in_the_page) {
  const std::string name = "<script>&\"'\xFF.npy";
  write_npy(dir / name, make_tensor("t", Format::fp32, {1, 32}, std::vector<float>(32, 1)));
  ASSERT_EQ(mxcheck("recipes ./*.npy --html p.html").code, 0);
  const std::string page = read_file(dir / "p.html");
  EXPECT_EQ(page.find("<script"), std::string::npos);
  expect_contains(page, "&lt;script&gt;&amp;&quot;&#39;\xEF\xBF\xBD.npy");
  EXPECT_EQ(not_well_formed(page), "");
}

TEST_F(RecipesPage, is_well_formed_with_numbers_that_are_not_finite) {
  std::vector<float> values(64, 1);
  values[3] = std::nanf("");
  values[40] = INFINITY;
  write_npy(dir / "x.npy", make_tensor("t", Format::fp32, {1, 64}, values));
  EXPECT_EQ(mxcheck("recipes x.npy --html p.html").code, 0);
  EXPECT_EQ(not_well_formed(read_file(dir / "p.html")), "");
}

}  // namespace
}  // namespace mxcheck
