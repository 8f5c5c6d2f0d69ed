// Matrices of several panels: the file is the one that quantizing the whole at once gives, whoever computes.

#include "tools/quantize/quantize_stream.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "bindings/simd/simd.h"
#include "numerics/bytes.h"
#include "properties/core/rng.h"
#include "tests/tools/command.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kRows = 2210;  // of 16 KiB (BF16): three panels; no multiple of any block's rows
constexpr std::int64_t kCols = 8200;

struct Job {
  Format source, element;
  BlockShape block;
  const char* recipe;
  ScaleLayout layout = ScaleLayout::compact;
  bool experts = false;
};

class QuantizeStream : public test::ToolTest {
 protected:
  // Random bits with neither NaN nor infinity in BF16.
  static std::vector<std::byte> matrix(Format source) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(kRows * kCols) * (source == Format::fp32 ? 4 : 2));
    for (std::size_t i = 0; i < bytes.size(); i += 8) {
      const std::uint64_t word = mix64(i) & 0xBFFFBFFFBFFFBFFF;
      std::memcpy(bytes.data() + i, &word, std::min<std::size_t>(8, bytes.size() - i));
    }
    return bytes;
  }

  void expect_same(const Job& job) {
    const std::vector<std::byte> x = matrix(job.source);
    const Dtype dtype = job.source == Format::fp32 ? Dtype::f32 : Dtype::bf16;
    write_safetensors(dir / "x.safetensors", {{{"x", dtype, {kRows, kCols}, x}}, {}});
    QuantizeRequest r{job.element, job.block, recipe_named(job.recipe), {}, job.layout, 9};
    if (job.experts) r.offsets = {0, 5, 5, 1100, 1101, 2000, kRows};
    Progress progress("test");
    MatrixPanels matrix_of_file({dir / "x.safetensors", std::nullopt, ""});
    quantize_stream(matrix_of_file, r, dir / "stream.safetensors", progress);

    const MatrixView view{job.source, x.data(), kRows, kCols, kCols};
    const QuantizedFile whole{quantize(view, job.element, job.block, r.recipe, r.offsets), r.offsets, r.layout, 9};
    write_quantized(dir / "whole.safetensors", to_safetensors(whole, r.recipe, job.source));
    EXPECT_TRUE(test::read_file(dir / "stream.safetensors") == test::read_file(dir / "whole.safetensors"))
        << spec(job.element).name << " " << to_text(job.block) << " " << job.recipe;
  }
};

TEST_F(QuantizeStream, writes_what_the_whole_gives_where_the_simd_library_computes) {
  ASSERT_TRUE(offers_simd(Format::bf16, Format::e4m3, {1, 32}, recipe_named("rceil")));
  expect_same({Format::bf16, Format::e4m3, {1, 32}, "rceil", ScaleLayout::tcgen05});
  expect_same({Format::bf16, Format::e5m2, {32, 1}, "floor", ScaleLayout::tcgen05, true});
  expect_same({Format::fp32, Format::e4m3, {128, 128}, "te", ScaleLayout::compact, true});
}

TEST_F(QuantizeStream, writes_what_the_whole_gives_where_the_reference_computes) {
  expect_same({Format::bf16, Format::e5m6, {1, 0}, "rceil"});
  expect_same({Format::bf16, Format::e4m3, {128, 1}, "fp32", ScaleLayout::compact, true});  // scales before the codes
  Recipe changed = recipe_named("rceil");
  changed.amax_min = 1e-4F;
  EXPECT_FALSE(offers_simd(Format::bf16, Format::e4m3, {1, 32}, changed)) << "a policy replaced is another recipe";
}

TEST_F(QuantizeStream, names_the_row_of_a_nan_in_a_later_panel_and_writes_nothing) {
  std::vector<std::byte> x = matrix(Format::bf16);
  const std::uint16_t nan = 0x7FC1;
  std::memcpy(x.data() + 2 * (1999 * kCols + 77), &nan, 2);
  write_safetensors(dir / "x.safetensors", {{{"x", Dtype::bf16, {kRows, kCols}, x}}, {}});
  expect_refused(2, "x.safetensors: NaN at row 1999, column 77",
                 "quantize x.safetensors --nan refuse -o q.safetensors");
}

#if !defined(__SANITIZE_ADDRESS__)  // which takes memory of its own

TEST_F(QuantizeStream, takes_memory_for_a_few_panels_and_not_for_the_matrix) {
  constexpr std::int64_t kBytes = std::int64_t{10240} * 8192 * 2;  // 160 MiB of zeros, which need no disk
  std::string start = fmt::format(R"({{"x":{{"dtype":"BF16","shape":[10240,8192],"data_offsets":[0,{}]}}}})", kBytes);
  start = std::string(1, static_cast<char>(start.size())) + std::string(7, '\0') + start;
  std::ofstream(dir / "x.safetensors", std::ios::binary) << start;
  std::filesystem::resize_file(dir / "x.safetensors", start.size() + static_cast<std::uintmax_t>(kBytes));
  const test::Answer a = mxcheck("quantize x.safetensors -o q.safetensors --block 32x1", "ulimit -d 140000; ");  // KiB
  EXPECT_EQ(a.code, 0) << a.err;
}

#endif

}  // namespace
}  // namespace mxcheck
