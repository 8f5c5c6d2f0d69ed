// Every shape of tiles gives the bytes of the first, whatever the extents: the gate sees the shape that is chosen for a
// GEMM, and so each of them somewhere; this sees all of them everywhere. Skipped without a GPU.

#include <random>
#include <span>

#include "kernels/sm90/gemm/matmul.h"
#include "tests/kernels/sm90/moe/device.h"

namespace mxcheck_kernels::sm90 {
namespace {

using mxcheck::test::Input, mxcheck::test::Output;

constexpr MatmulTiles kAll[] = {MatmulTiles::m128n256, MatmulTiles::m128n128, MatmulTiles::m128n64,
                                MatmulTiles::m64n128,  MatmulTiles::m64n64,   MatmulTiles::m64n32};

constexpr MatmulTiles kRowScales[] = {MatmulTiles::m128n256, MatmulTiles::m128n192, MatmulTiles::m128n128,
                                      MatmulTiles::m64n64, MatmulTiles::m64n32};
constexpr MatmulTiles kDecoded[] = {MatmulTiles::m128n256, MatmulTiles::m64n128, MatmulTiles::m64n64};

struct Problem {
  MatmulKind kind = MatmulKind::dense;
  std::int64_t m = 0, n = 0, k = 0;
  MatmulOutput output = MatmulOutput::bf16;
  bool accumulate = false, gather = false;
  bool e8m0 = false;  // scales of FP8
  int shift = 0;      // elements by which scales and D are off their alignment
  float alpha = 1;

  [[nodiscard]] std::string text() const {
    return std::to_string(static_cast<int>(kind)) + " " + std::to_string(m) + "x" + std::to_string(n) + "x" +
           std::to_string(k) + (output == MatmulOutput::fp32 ? " fp32" : "") + (accumulate ? " +" : "") +
           (gather ? " gathered" : "") + (e8m0 ? " e8m0" : "") + " " + std::to_string(shift) + " times " +
           std::to_string(alpha);
  }
  // Three groups: one of odd size, one that is empty, the rest. Along depth the last begins at a multiple of 16 bytes.
  [[nodiscard]] std::vector<std::int64_t> ends() const {
    const std::int64_t end = kind == MatmulKind::rows ? m / 3 : k / 3 / 16 * 16;
    return {end, end, kind == MatmulKind::rows ? m : k};
  }
  [[nodiscard]] std::int64_t blocks() const { return (k + 127) / 128; }
};

std::vector<Problem> problems(bool fp8) {
  std::vector<Problem> all;
  const std::int64_t depths[] = {0, 128, 256, 640, 1024, 1664, 16, 1232, 528};
  int turn = 0;
  for (const std::int64_t m : {1, 8, 63, 64, 65, 127, 129, 193, 300}) {
    for (const std::int64_t n : {1, 24, 63, 64, 65, 100, 129, 264, 520}) {
      Problem p;
      p.m = m, p.n = n, p.k = depths[turn % 9];
      p.kind = turn % 3 == 0 ? MatmulKind::rows : !fp8 && turn % 5 == 0 ? MatmulKind::depth : MatmulKind::dense;
      p.output = turn % 2 == 0 ? MatmulOutput::bf16 : MatmulOutput::fp32;
      p.accumulate = turn % 4 == 1, p.gather = turn % 7 == 2 && p.kind != MatmulKind::depth, p.e8m0 = turn % 8 >= 4;
      p.shift = turn % 11 == 3 ? 1 : 0;
      p.alpha = turn % 13 == 5 ? 0.3F : 1;
      all.push_back(p);
      ++turn;
    }
  }
  return all;
}

// Codes and words of any kind but NaN and Inf: those would hide what is added to them.
std::vector<std::uint8_t> random_codes(std::int64_t count, std::mt19937& random) {
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(count));
  for (auto& code : codes) code = static_cast<std::uint8_t>(random() % 0x7F | (random() & 0x80));
  return codes;
}
std::vector<std::uint16_t> random_words(std::int64_t count, std::mt19937& random) {
  std::vector<std::uint16_t> words(static_cast<std::size_t>(count));
  for (auto& word : words) word = static_cast<std::uint16_t>((random() & 0x807F) | (115 + random() % 20) << 7);
  return words;
}
std::vector<std::uint8_t> random_scales(std::int64_t count, bool e8m0, std::mt19937& random) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count) * (e8m0 ? 1 : 4));
  for (std::size_t i = 0; i < bytes.size(); i += e8m0 ? 1 : 4) {
    if (e8m0) {
      bytes[i] = static_cast<std::uint8_t>(120 + random() % 12);
    } else {
      const float scale = 0.5F + static_cast<float>(random() % 1000) / 700;
      std::memcpy(&bytes[i], &scale, 4);
    }
  }
  return bytes;
}

// The bytes of D, which every shape of tiles must give; launched by `launch`.
template <class Call, class Launch>
std::vector<std::uint8_t> expect_the_same(const Problem& p, Call call, std::span<const MatmulTiles> all,
                                          const Launch& launch) {
  std::mt19937 random(static_cast<std::uint32_t>(p.m * 131 + p.n * 17 + p.k));
  const std::vector<std::int64_t> ends = p.ends();
  const Input<std::int64_t> offsets(ends);
  std::vector<std::int32_t> index(static_cast<std::size_t>(p.m));
  for (auto& row : index) row = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(p.m));
  const Input<std::int32_t> rows(index);
  const std::int64_t matrices = p.kind == MatmulKind::depth ? 3 : 1;
  const std::int64_t bytes = p.output == MatmulOutput::fp32 ? 4 : 2;
  const std::int64_t d_bytes = (matrices * p.m * p.n + p.shift) * bytes;
  std::vector<std::uint16_t> c_words = random_words(d_bytes / 2 + 1, random);
  const Input<std::uint16_t> c(c_words);
  call.kind = p.kind, call.output = p.output, call.accumulate = p.accumulate, call.alpha = p.alpha, call.m = p.m;
  call.n = p.n, call.k = p.k;
  call.experts = p.kind == MatmulKind::dense ? 1 : 3;
  call.offsets = p.kind == MatmulKind::dense ? nullptr : offsets.data();
  call.row_index = p.gather ? rows.data() : nullptr;
  call.a_rows = p.m;
  call.c = p.accumulate ? c.data() : nullptr;
  std::vector<std::uint8_t> first;
  for (const MatmulTiles tiles : all) {
    const Output<std::uint8_t> d(d_bytes);
    call.d = d.data() + p.shift * bytes, call.tiles = tiles;
    EXPECT_EQ(launch(call), cudaSuccess) << p.text();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << p.text();
    const std::vector<std::uint8_t> got = d.read();
    if (first.empty()) first = got;
    EXPECT_EQ(got, first) << p.text() << ", tiles " << static_cast<int>(tiles);
  }
  return first;
}

// With groups along depth scales lie as where each begins a block, whether it does or not: the same for all shapes.
void expect_the_same_fp8(const Problem& p, MatmulBlock b_block, std::span<const MatmulTiles> all) {
  std::mt19937 random(static_cast<std::uint32_t>(p.m + 7 * p.n + 49 * p.k));
  const std::int64_t experts = p.kind == MatmulKind::rows ? 3 : 1;
  const Input<std::uint8_t> a(random_codes(p.m * p.k, random));
  const Input<std::uint8_t> b(random_codes(experts * p.n * p.k, random));
  const std::int64_t size = p.e8m0 ? 1 : 4;
  const std::int64_t columns = p.blocks() + 3;
  const std::int64_t b_rows = b_block == MatmulBlock::row ? p.n : (p.n + 127) / 128;
  const Input<std::uint8_t> scale_a(random_scales(p.m * columns + p.shift, p.e8m0, random));
  const Input<std::uint8_t> scale_b(random_scales(experts * b_rows * columns + p.shift, p.e8m0, random));
  MatmulFp8 call;
  call.a = a.data(), call.b = b.data(), call.b_block = b_block;
  call.a_scale_type = call.b_scale_type = p.e8m0 ? MatmulScale::e8m0 : MatmulScale::fp32;
  call.scale_a = scale_a.data() + p.shift * size, call.scale_b = scale_b.data() + p.shift * size;
  expect_the_same(p, call, all, [](const MatmulFp8& matmul) { return matmul_fp8_launch(matmul, nullptr); });
}

TEST(Sm90Tiles, give_the_same_bytes_of_fp8) {
  if (!mxcheck::test::has_device()) GTEST_SKIP() << "no CUDA device";
  for (const Problem& p : problems(true)) {
    expect_the_same_fp8(p, MatmulBlock::square, kAll);
    if (HasFailure()) return;
  }
}

TEST(Sm90Tiles, give_the_same_bytes_of_fp8_with_scales_of_rows) {
  if (!mxcheck::test::has_device()) GTEST_SKIP() << "no CUDA device";
  for (Problem p : problems(false)) {
    p.k = (p.k + 15) / 16 * 16;
    if (p.kind == MatmulKind::depth) p.k = (p.k + 127) / 128 * 128;
    expect_the_same_fp8(p, MatmulBlock::row, kRowScales);
    if (HasFailure()) return;
  }
}

TEST(Sm90Tiles, give_the_same_bytes_of_bf16) {
  if (!mxcheck::test::has_device()) GTEST_SKIP() << "no CUDA device";
  for (const Problem& p : problems(false)) {
    std::mt19937 random(static_cast<std::uint32_t>(p.m + 7 * p.n + 49 * p.k));
    const std::int64_t experts = p.kind == MatmulKind::rows ? 3 : 1;
    const Input<std::uint16_t> a(random_words(p.m * p.k, random));
    const Input<std::uint16_t> b(random_words(experts * p.n * p.k, random));
    MatmulCall call;
    call.a = a.data(), call.b = b.data();
    expect_the_same(p, call, kAll, [](const MatmulCall& matmul) { return matmul_bf16_launch(matmul, nullptr); });
    if (HasFailure()) return;
  }
}

// Without C, whose bytes would have to be transposed as well; the gate adds C.
TEST(Sm90Tiles, give_the_same_bytes_of_codes_and_of_the_transpose) {
  if (!mxcheck::test::has_device()) GTEST_SKIP() << "no CUDA device";
  for (Problem p : problems(false)) {
    p.kind = MatmulKind::dense, p.accumulate = p.gather = false, p.k = (p.k + 31) / 32 * 32;
    std::mt19937 random(static_cast<std::uint32_t>(p.m + 7 * p.n + 49 * p.k));
    MatmulDecoded call;
    call.nvfp4 = (p.m + p.n) % 2 == 0;
    const Input<std::uint8_t> a(random_codes(p.m * p.k, random));
    const Input<std::uint8_t> scales(random_scales(p.m * (p.k / (call.nvfp4 ? 16 : 32)) + p.shift, true, random));
    const Input<std::uint16_t> b(random_words(p.n * p.k, random));
    call.a = a.data(), call.b = b.data(), call.scale_a = scales.data() + p.shift;
    const auto launch = [](const MatmulDecoded& matmul) { return matmul_decoded_launch(matmul, nullptr); };
    const std::vector<std::uint8_t> straight = expect_the_same(p, call, kDecoded, launch);
    call.transposed = true;
    const std::vector<std::uint8_t> transposed = expect_the_same(p, call, kDecoded, launch);
    const std::int64_t size = p.output == MatmulOutput::fp32 ? 4 : 2;
    for (std::int64_t i = 0; i < p.m * p.n; ++i) {
      const std::int64_t from = (i / p.n + i % p.n * p.m + p.shift) * size;
      ASSERT_EQ(std::memcmp(&straight[static_cast<std::size_t>((i + p.shift) * size)],
                            &transposed[static_cast<std::size_t>(from)], static_cast<std::size_t>(size)),
                0)
          << p.text() << ", element " << i;
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace mxcheck_kernels::sm90
