// A tensor of several panels: the figures are those of the whole, whoever computes, and memory does not grow with it.

#include "tools/recipes/tensor_study.h"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "numerics/bytes.h"
#include "properties/core/rng.h"
#include "tests/tools/command.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kRows = 400;
constexpr std::int64_t kCols = 6001;  // five panels of 2^19 elements, none of a multiple of 1024

class TensorStudyTest : public test::ToolTest {
 protected:
  // Of many magnitudes: the first panel's median is not the tensor's.
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
  write_npy(dir / "x.npy", {"", Dtype::bf16, {kRows, kCols}, to_bytes(x)});
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

TEST_F(TensorStudyTest, takes_blocks_as_high_as_the_matrix) {
  const std::vector<std::uint16_t> x = words();
  write_npy(dir / "x.npy", {"", Dtype::bf16, {kRows, kCols}, to_bytes(x)});
  Progress progress("test");
  const TensorReport report =
      study_tensor({dir / "x.npy", std::nullopt, ""}, {{Format::e4m3, {0, 1}, recipe_named("rceil")}}, 2, progress);
  EXPECT_EQ(report.lines[0].study.blocks, static_cast<std::uint64_t>(kCols));
}

TEST_F(TensorStudyTest, names_the_row_of_a_nan_that_a_recipe_refuses) {
  std::vector<std::uint16_t> x = words();
  x[static_cast<std::size_t>(399 * kCols + 5)] = 0x7FC1;
  write_npy(dir / "x.npy", {"", Dtype::bf16, {kRows, kCols}, to_bytes(x)});
  Progress progress("test");
  Recipe recipe = recipe_named("rceil");
  recipe.nan = NanPolicy::refuse;
  try {
    study_tensor({dir / "x.npy", std::nullopt, ""}, {{Format::e4m3, {1, 32}, recipe}}, 2, progress);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("x.npy: NaN at row 399, column 5"), std::string::npos) << e.what();
  }
}

#if !defined(__SANITIZE_ADDRESS__)  // which takes memory of its own

TEST_F(TensorStudyTest, takes_memory_for_a_few_panels_and_not_for_the_tensor) {
  constexpr std::int64_t kBytes = std::int64_t{10240} * 8192 * 2;  // 160 MiB of zeros, which need no disk
  std::string start = fmt::format(R"({{"x":{{"dtype":"BF16","shape":[10240,8192],"data_offsets":[0,{}]}}}})", kBytes);
  start = std::string(1, static_cast<char>(start.size())) + std::string(7, '\0') + start;
  std::ofstream(dir / "x.safetensors", std::ios::binary) << start;
  std::filesystem::resize_file(dir / "x.safetensors", start.size() + static_cast<std::uintmax_t>(kBytes));
  const test::Answer a =
      mxcheck("recipes x.safetensors --threads 2 --format e4m3 --recipe rceil", "ulimit -d 100000; ");
  EXPECT_EQ(a.code, 0) << a.err;
}

#endif

}  // namespace
}  // namespace mxcheck
