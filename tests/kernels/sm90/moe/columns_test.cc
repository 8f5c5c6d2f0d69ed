// Codes along tokens on the device, padded and not, from BF16, FP32 and codes, by tiles of 128 x 128 and without: every
// byte and scale against the reference; the offsets of padded experts, the gradient of SwiGLU, and what is refused.
// Needs a GPU; without one every test is skipped.

#include <cmath>

#include "kernels/sm90/layer/steps/steps.h"
#include "kernels/sm90/moe/moe_kernels.h"
#include "tests/kernels/sm90/moe/samples.h"

namespace mxcheck::test {
namespace {

using mxcheck_kernels::Dtype, mxcheck_kernels::Element;
using namespace mxcheck_kernels::sm90;

const std::vector<std::int64_t> kRaggedRows = {0, 1, 31, 0, 127, 128, 129, 300, 0, 33};

std::int64_t down(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

// Where codes along tokens go.
struct Target {
  bool padded = false;
  std::int64_t stride = 0;
};

// Codes of the reference for `x`, transposed, with padding and what is not written.
std::vector<std::uint8_t> transposed_codes(const QuantizedTensor& q, const Experts& experts, const Target& to) {
  const std::int64_t stride = to.stride == 0 ? experts.rows() : to.stride;
  auto out = poisoned<std::uint8_t>(q.cols() * stride);
  for (std::size_t e = 0; e + 1 < experts.offsets.size(); ++e) {
    const std::int64_t n = experts.offsets[e + 1] - experts.offsets[e];
    const std::int64_t first = to.padded ? 128 * experts.bands[e] : experts.offsets[e];
    for (std::int64_t i = 0; i < (to.padded ? 128 * down(n, 128) : n); ++i) {
      for (std::int64_t j = 0; j < q.cols(); ++j) {
        const auto at = static_cast<std::size_t>((experts.offsets[e] + i) * q.cols() + j);
        out[static_cast<std::size_t>(j * stride + first + i)] =
            i < n ? q.codes.as<std::uint8_t>()[at] : std::uint8_t{0};
      }
    }
  }
  return out;
}

// Launches `job`, whose source and index are there, and compares with the reference's codes of `values`.
template <class T>
void expect_columns(TransposeJob job, const Way& way, const std::vector<T>& values, const Experts& experts,
                    const Target& to, bool vector, const std::string& what) {
  const std::int64_t block = way.coding.block;
  const QuantizedTensor q = quantize(view_of(values, experts.rows(), job.cols), way.format, {block, 1},
                                     recipe_named(way.recipe), experts.offsets);
  const std::vector<std::uint8_t> codes = transposed_codes(q, experts, to);
  const std::vector<std::uint32_t> scales = scale_bits(q);
  const std::int64_t bands = experts.bands.back();
  Output<std::uint8_t> device_codes(static_cast<std::int64_t>(codes.size()));
  Output<std::uint8_t> bytes(job.cols * bands);
  Output<std::uint32_t> words(job.cols * bands);
  job.rows = experts.tiled;
  job.out = {device_codes.data(), bytes.data(), bands, way.coding, to.stride, to.padded};
  if (way.coding.fp32) job.out.scales = words.data();
  ASSERT_EQ(done(launch_transpose(job, vector, nullptr)), cudaSuccess);
  const std::string of = what + ", " + way.recipe + (way.format == Format::e4m3 ? " e4m3" : " e5m2") + ", " +
                         std::to_string(block) + (to.padded ? ", padded" : "");
  EXPECT_EQ(first_difference(codes, device_codes.read(), to.stride == 0 ? experts.rows() : to.stride), "") << of;
  std::vector<std::uint32_t> got = words.read();
  if (!way.coding.fp32) {
    const std::vector<std::uint8_t> b = bytes.read();
    got.assign(b.begin(), b.end());
  }
  std::vector<std::uint32_t> expected(got.size());
  for (std::int64_t b = 0; b < bands; ++b) {
    for (std::int64_t j = 0; j < job.cols; ++j) {
      expected[static_cast<std::size_t>(j * bands + b)] = scales[static_cast<std::size_t>(b * job.cols + j)];
    }
  }
  EXPECT_EQ(first_difference(expected, got, bands), "") << of << ", scales";
}

class Sm90Columns : public DeviceTest {};

// Every coding, padded or not, of a source.
template <class T>
void expect_all(const TransposeJob& job, const std::vector<T>& values, bool vector, const std::string& what) {
  const Experts by_32(kRaggedRows, 32);
  const Experts by_128(kRaggedRows, 128);
  for (const Way& way : ways(32)) expect_columns(job, way, values, by_32, {}, vector, what);
  for (const Way& way : ways(128)) {
    const std::int64_t padded = 128 * by_128.bands.back();
    expect_columns(job, way, values, by_128, {}, vector, what);
    expect_columns(job, way, values, by_128, {false, by_128.rows() + 5}, vector, what + ", stride");
    expect_columns(job, way, values, by_128, {true, padded}, vector, what);
    expect_columns(job, way, values, by_128, {true, padded + 4}, vector, what + ", stride");
  }
}

std::int64_t ragged_rows() { return Experts(kRaggedRows).rows(); }

TEST_F(Sm90Columns, of_bf16_rows) {
  const std::int64_t rows = ragged_rows();
  for (const bool gather : {false, true}) {
    for (const std::int64_t cols : {72, 77, 128}) {
      const std::vector<std::uint16_t> x = bf16_cells(rows, cols, 20);
      const auto index = gather ? random_index(rows, rows, 21) : std::vector<std::int32_t>{};
      const Input<std::uint16_t> device(x);
      const Input<std::int32_t> device_index(index);
      TransposeJob job;
      job.x = device.data(), job.stride = job.cols = cols, job.index = gather ? device_index.data() : nullptr;
      expect_all(job, gathered(x, index, cols), cols % 8 == 0, gather ? "gathered BF16" : "BF16");
    }
  }
}

TEST_F(Sm90Columns, of_fp32_rows) {
  const std::int64_t rows = ragged_rows();
  constexpr std::int64_t kCols = 77;
  const std::vector<std::uint16_t> words = bf16_cells(rows, kCols, 22);
  std::vector<float> x;
  for (std::size_t i = 0; i < words.size(); ++i) {
    x.push_back(
        std::bit_cast<float>(std::uint32_t{words[i]} << 16 | static_cast<std::uint32_t>(random_word(23, i)) >> 17));
  }
  const Input<float> device(x);
  TransposeJob job;
  job.x = device.data(), job.dtype = Dtype::fp32, job.stride = job.cols = kCols;
  expect_all(job, x, false, "FP32");
}

// x of 24 bits with x / s next to a midpoint of codes' floats (kernels/sm90/layer/steps/coder.cuh), or to such a
// midpoint itself: S N / 2^j, rounded, and its neighbours.
float beside_a_tie(float s, std::uint64_t r) {
  const std::uint64_t significand = (std::bit_cast<std::uint32_t>(s) & 0x7FFFFF) | 0x800000;
  const std::uint64_t n = ((16 + r % 17) << 20) + r / 32 % 3 - 1;
  std::uint64_t x = significand * n >> 24;
  int exponent = 0;
  for (; x >= 0x1000000; ++exponent) x = (x + 1) >> 1;
  x += r / 128 % 4;
  const float magnitude = std::ldexp(static_cast<float>(x), std::ilogb(s) - 23 - static_cast<int>(r / 1024 % 20) + 7);
  return r / 65536 % 2 == 0 ? magnitude : -magnitude;
}

// Scales whose significand is next to a multiple of 2^20, where quotients have to be exact, and others.
TEST_F(Sm90Columns, of_fp32_rows_with_quotients_beside_ties) {
  const Experts experts({128, 128, 77});
  constexpr std::int64_t kCols = 4096;
  for (const Way& way : ways(128)) {
    const float largest = way.format == Format::e4m3 ? 448.0F : 57344.0F;
    std::vector<float> x(static_cast<std::size_t>(experts.rows() * kCols));
    for (std::int64_t j = 0; j < kCols; ++j) {
      const std::uint64_t r = random_word(31, static_cast<std::uint64_t>(j));
      std::uint32_t bits = static_cast<std::uint32_t>(r) & 0x7FFFFF;
      if (r >> 60 < 8) bits = static_cast<std::uint32_t>(((r & 7) << 20) + (r >> 32) % 41 - 20) & 0x7FFFFF;
      const float wanted = std::ldexp(static_cast<float>(bits | 0x800000), static_cast<int>((r >> 40) % 180) - 113);
      const float amax = wanted * largest;
      const float s = amax / largest;
      for (std::int64_t i = 0; i < experts.rows(); ++i) {
        const std::uint64_t word = random_word(32, static_cast<std::uint64_t>(i * kCols + j));
        x[static_cast<std::size_t>(i * kCols + j)] = i % 32 == 0 ? amax : beside_a_tie(s, word);
      }
    }
    const Input<float> device(x);
    TransposeJob job;
    job.x = device.data(), job.dtype = Dtype::fp32, job.stride = job.cols = kCols;
    expect_columns(job, way, x, experts, {}, false, "FP32 beside ties");
  }
}

// expect(job, values): the codes `from`, gathered or not to so many rows, and their values in FP32.
template <class Expect>
void with_codes(const QuantizedTensor& from, std::int64_t rows, bool gather, std::uint64_t seed, const Expect& expect) {
  const auto index = gather ? random_index(rows, from.rows(), seed) : std::vector<std::int32_t>{};
  const Input<std::uint8_t> codes(values_in<std::uint8_t>(from.codes.data));
  const Input<std::uint8_t> scales(values_in<std::uint8_t>(from.scales().data));
  const Input<std::int32_t> device_index(index);
  TransposeJob job;
  job.x = codes.data(), job.stride = job.cols = from.cols(), job.index = gather ? device_index.data() : nullptr;
  job.scales = scales.data(), job.scale_blocks = from.scale_cols(), job.e8m0 = from.scales().format == Format::e8m0;
  job.element = from.element() == Format::e4m3 ? Element::e4m3 : Element::e5m2;
  expect(job, gathered(dequantize(from), index, from.cols()));
}
void expect_of_codes(const QuantizedTensor& from, bool gather, bool vector, const std::string& what) {
  with_codes(from, ragged_rows(), gather, 24,
             [&](const TransposeJob& job, const std::vector<float>& values) { expect_all(job, values, vector, what); });
}

TEST_F(Sm90Columns, of_codes_that_quantization_made) {
  for (const Way& way : ways(128)) {
    for (const std::int64_t cols : {72, 128, 264, 131}) {
      const bool gather = cols != 128;
      const std::int64_t rows = gather ? 333 : ragged_rows();
      const std::vector<std::uint16_t> x = bf16_cells(rows, cols, 25);
      const QuantizedTensor from = quantize(view_of(x, rows, cols), way.format, {1, 128}, recipe_named(way.recipe));
      expect_of_codes(from, gather, cols % 8 == 0, "codes " + way.recipe + " of " + std::to_string(cols));
    }
  }
}

TEST_F(Sm90Columns, of_codes_and_scales_of_any_bits) {
  for (const Format format : {Format::e4m3, Format::e5m2}) {
    for (const bool fp32 : {false, true}) {
      const std::int64_t rows = ragged_rows();
      QuantizedTensor from = make_quantized(format, rows, 136, {1, 128}, fp32 ? Format::fp32 : Format::e8m0, rows, 2);
      for (std::int64_t i = 0; i < from.rows() * from.cols(); ++i) {
        const std::uint64_t r = random_word(26, static_cast<std::uint64_t>(i));
        const std::uint64_t narrow = (r >> 8) % 64 == 0 ? 0xFF : 0xBB;  // few NaN
        from.codes.set_code(static_cast<std::size_t>(i), static_cast<std::uint32_t>(r & narrow));
      }
      for (std::int64_t i = 0; i < from.rows() * 2; ++i) {
        const std::uint64_t r = random_word(27, static_cast<std::uint64_t>(i));
        // An expert of 300 has all kinds; those before it have one kind each, so that not every block is NaN.
        const std::uint64_t kind = i / 2 > 416 ? r >> 60 : static_cast<std::uint64_t>(i) / 2 / 32;
        const std::uint64_t byte = kind == 0 ? r & 1 : kind == 1 ? 230 + r % 25 : kind == 2 ? 100 + r % 40 : r % 255;
        const std::uint64_t e8m0 = (r >> 48) % 64 == 0 ? 255 : byte;
        from.scales().set_code(static_cast<std::size_t>(i),
                               static_cast<std::uint32_t>(fp32 ? byte << 23 | ((r >> 32) & 0x7FFFFF) : e8m0));
      }
      expect_of_codes(from, false, true, fp32 ? "any codes, FP32 scales" : "any codes, E8M0 scales");
    }
  }
}

// --- at the edges of tiles of 128 x 128, and of what halves hold

class Sm90Wide : public DeviceTest {};

std::vector<std::int64_t> rows_of_experts(std::size_t experts) {
  static const std::vector<std::int64_t> kRows = {129, 0, 1, 300, 127, 128, 8, 0, 256};
  std::vector<std::int64_t> rows;
  for (std::size_t e = 0; e < experts; ++e) rows.push_back(kRows[e % kRows.size()]);
  return rows;
}

// Padded, and where they lie, at strides of every alignment.
template <class T>
void expect_targets(const TransposeJob& job, const Way& way, const std::vector<T>& values, const Experts& experts,
                    const std::string& what) {
  const std::int64_t padded = 128 * experts.bands.back();
  for (const Target& to : {Target{false, 0}, {false, experts.rows() + 4}, {true, padded}, {true, padded + 20}}) {
    expect_columns(job, way, values, experts, to, true, what + ", stride " + std::to_string(to.stride));
  }
}

TEST_F(Sm90Wide, of_bf16_at_the_edges_of_tiles) {
  for (const std::size_t count : {1U, 3U, 40U}) {
    const Experts experts(rows_of_experts(count));
    for (const std::int64_t cols : {8, 120, 128, 136, 264}) {
      for (const bool gather : {false, true}) {
        const std::int64_t source_rows = gather ? 77 : experts.rows();
        const auto index = gather ? random_index(experts.rows(), source_rows, 51) : std::vector<std::int32_t>{};
        const std::vector<std::uint16_t> x = bf16_cells(source_rows, cols, 50);
        const Input<std::uint16_t> device(x);
        const Input<std::int32_t> device_index(index);
        TransposeJob job;
        job.x = device.data(), job.stride = job.cols = cols, job.index = gather ? device_index.data() : nullptr;
        const std::string what = std::to_string(count) + " experts of " + std::to_string(cols);
        for (const Way& way : ways(128)) {
          job.out.coding = way.coding;
          ASSERT_TRUE(takes_wide(job, true));
          expect_targets(job, way, gathered(x, index, cols), experts, what + (gather ? ", gathered BF16" : ", BF16"));
        }
      }
    }
  }
}

// Columns that are a part of a wider matrix.
TEST_F(Sm90Wide, of_bf16_with_a_stride) {
  const Experts experts(rows_of_experts(3));
  constexpr std::int64_t kCols = 136;
  constexpr std::int64_t kStride = 160;
  const std::vector<std::uint16_t> wide = bf16_cells(experts.rows(), kStride, 52);
  std::vector<std::uint16_t> x;
  for (std::int64_t i = 0; i < experts.rows(); ++i) {
    x.insert(x.end(), wide.begin() + i * kStride + 8, wide.begin() + i * kStride + 8 + kCols);
  }
  const Input<std::uint16_t> device(wide);
  TransposeJob job;
  job.x = device.data() + 8, job.stride = kStride, job.cols = kCols;
  for (const Way& way : ways(128)) expect_targets(job, way, x, experts, "BF16 of a wider matrix");
}

void expect_of_codes(const QuantizedTensor& from, const Experts& experts, bool gather, const std::string& what) {
  with_codes(from, experts.rows(), gather, 53, [&](const TransposeJob& job, const std::vector<float>& values) {
    for (const Way& way : ways(128)) expect_targets(job, way, values, experts, what);
  });
}

TEST_F(Sm90Wide, of_codes_at_the_edges_of_tiles) {
  const std::vector<Way> all = ways(128);
  for (const std::size_t count : {1U, 3U, 40U}) {
    const Experts experts(rows_of_experts(count));
    for (const std::int64_t cols : {8, 120, 128, 136, 264}) {
      const Way& way = all[static_cast<std::size_t>(cols / 8 + static_cast<std::int64_t>(count)) % all.size()];
      const bool gather = cols != 128;
      const std::int64_t rows = gather ? 77 : experts.rows();
      const std::vector<std::uint16_t> x = bf16_cells(rows, cols, 54);
      const QuantizedTensor from = quantize(view_of(x, rows, cols), way.format, {1, 128}, recipe_named(way.recipe));
      expect_of_codes(from, experts, gather,
                      way.recipe + " codes, " + std::to_string(count) + " experts of " + std::to_string(cols));
    }
  }
}

// E4M3 codes with E8M0 scales that differ by `apart` at most among 16 rows: a column in five has the least codes alone
// and those where the scale is the least, another one zeros of both signs, a third now and then a NaN.
QuantizedTensor codes_of_scales(std::int64_t rows, int apart) {
  static constexpr std::uint64_t kLargest[] = {0, 1, 2, 14, 15, 16, 127, 140, 245, 246, 247, 254};
  QuantizedTensor from = make_quantized(Format::e4m3, rows, 136, {1, 128}, Format::e8m0, rows, 2);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t b = 0; b < 2; ++b) {
      const std::uint64_t largest = kLargest[random_word(55, static_cast<std::uint64_t>(i / 128 * 2 + b)) % 12];
      const auto down = static_cast<std::uint64_t>(i % 16 == 3 ? 0 : i % 16 == 5 ? apart : i % (apart + 1));
      const std::uint64_t r = random_word(56, static_cast<std::uint64_t>(2 * i + b));
      const std::uint64_t more = i / 16 % 8 == 7 ? 40 + r % 40 : 0;  // one warp of a tile is far below the others
      from.scales().set_code(static_cast<std::size_t>(2 * i + b),
                             static_cast<std::uint32_t>(largest > down + more ? largest - down - more : 0));
    }
    for (std::int64_t j = 0; j < from.cols(); ++j) {
      const std::uint64_t r = random_word(57, static_cast<std::uint64_t>(i * from.cols() + j));
      std::uint64_t code = r & ((r >> 8) % 2 == 0 ? 0xBF : 0xFB);  // no NaN
      if (j % 5 == 1) code = i % 16 == 5 ? r & 0x81 : r & 0x80;
      if (j % 5 == 2) code = r & 0x80;
      if (j % 5 == 3 && (r >> 16) % 200 == 0) code |= 0x7F;
      from.codes.set_code(static_cast<std::size_t>(i * from.cols() + j), static_cast<std::uint32_t>(code));
    }
  }
  return from;
}

TEST_F(Sm90Wide, of_codes_around_what_halves_hold) {
  const Experts experts({128 * 30 + 5});
  for (const int apart : {0, 1, 7, 13, 14, 15, 16, 24}) {
    expect_of_codes(codes_of_scales(experts.rows(), apart), experts, false,
                    "scales " + std::to_string(apart) + " apart");
  }
}

// --- padding

class Sm90Padding : public DeviceTest {};

TEST_F(Sm90Padding, nothing_is_written_after_a_refusal) {
  const RefusedHeader refused;
  const Input<std::uint8_t> x(std::vector<std::uint8_t>(128 * 128 * 4));
  const Input<float> source_scales(std::vector<float>(128, 1.0F));
  const Input<std::int64_t> offsets({0, 5, 128});
  for (const bool coded : {false, true}) {
    Output<std::uint8_t> codes(128 * 128);
    Output<float> scales(128);
    Output<std::int64_t> padded(3);
    TransposeJob job;
    job.x = x.data(), job.stride = job.cols = 128, job.rows = {128, 1, refused.data(), nullptr};
    job.out = {codes.data(), scales.data(), 1, ways(128).front().coding, 128, true};
    if (coded) job.scales = source_scales.data(), job.scale_blocks = 1;
    ASSERT_EQ(launch_transpose(job, true, nullptr), cudaSuccess);
    ASSERT_EQ(launch_padded_offsets(offsets.data(), 2, padded.data(), refused.data(), nullptr), cudaSuccess);
    EXPECT_EQ(codes.read(), poisoned<std::uint8_t>(128 * 128));
    EXPECT_EQ(first_difference(poisoned<float>(128), scales.read(), 1), "");
    EXPECT_EQ(padded.read(), poisoned<std::int64_t>(3));
  }
}

TEST_F(Sm90Padding, a_padding_that_there_is_not_is_an_error) {
  TransposeJob job;
  job.cols = 8, job.rows = {128, 1, nullptr, nullptr};
  job.out.padded = true, job.out.stride = 128;
  EXPECT_EQ(launch_transpose(job, true, nullptr), cudaErrorInvalidValue);
  job.out.coding.block = 128, job.out.stride = 130;
  EXPECT_EQ(launch_transpose(job, true, nullptr), cudaErrorInvalidValue);
}

TEST_F(Sm90Padding, padded_offsets_are_sums_of_multiples_of_128) {
  for (const std::size_t experts : {0U, 1U, 10U, 1023U, 1024U, 1025U, 5000U}) {
    std::vector<std::int64_t> offsets = {0};
    std::vector<std::int64_t> expected = {0};
    for (std::size_t e = 0; e < experts; ++e) {
      const std::int64_t rows = e < kRaggedRows.size()
                                    ? kRaggedRows[e]
                                    : static_cast<std::int64_t>(random_word(28, e) >> 24) % (std::int64_t{1} << 36);
      offsets.push_back(offsets.back() + rows);
      expected.push_back(expected.back() + 128 * down(rows, 128));
    }
    const Input<std::int64_t> device(offsets);
    Output<std::int64_t> padded(static_cast<std::int64_t>(expected.size()));
    ASSERT_EQ(launch_padded_offsets(device.data(), static_cast<std::int64_t>(experts), padded.data(), nullptr, nullptr),
              cudaSuccess);
    EXPECT_EQ(padded.read(), expected) << experts << " experts";
  }
}

// SwiGLU's gradient by tiles: what is padded is what is not, and zeros.
TEST_F(Sm90Padding, of_the_gradient_of_swiglu) {
  const Experts experts(kRaggedRows);
  const std::int64_t rows = experts.rows();
  constexpr std::int64_t kN = 128;
  const std::int64_t bands = experts.bands.back();
  const Input<std::uint16_t> h(bf16_cells(rows, 2 * kN, 29));
  std::vector<float> p;
  for (const std::uint16_t w : bf16_cells(rows, kN, 30)) p.push_back(std::bit_cast<float>(std::uint32_t{w} << 16));
  const Input<float> device_p(p);
  const Input<float> weights(std::vector<float>(static_cast<std::size_t>(rows), 0.75F));
  for (const Way& way : ways(128)) {
    std::vector<std::uint8_t> codes[2];
    for (const bool padded : {false, true}) {
      const std::int64_t stride = padded ? 128 * bands + 4 : rows;
      Output<std::uint8_t> a(kN * stride);
      Output<std::uint8_t> dh(2 * kN * stride);
      Output<float> scales(3 * kN * bands);
      Output<float> ds(rows);
      const DeviceBytes sums(sums_bytes(rows, kN, kTilePart));
      BackwardTilesJob job;
      job.rows.h.data = h.data(), job.rows.h.stride = 2 * kN, job.rows.h.interleaved = true;
      job.rows.rows = rows, job.rows.n = kN, job.rows.p = device_p.data(), job.rows.weights = weights.data();
      job.rows.ds = ds.data(), job.rows.sums = static_cast<float*>(sums.data()), job.tiles = experts.tiled;
      job.rows.header = experts.tiled.header;
      job.a = {a.data(), scales.data(), bands, way.coding, padded ? stride : 0, padded};
      job.dh = {dh.data(), scales.data() + kN * bands, bands, way.coding, padded ? stride : 0, padded};
      ASSERT_EQ(launch_backward_tiles(job, true, nullptr), cudaSuccess);
      codes[padded ? 1 : 0] = a.read();
      const std::vector<std::uint8_t> more = dh.read();
      codes[padded ? 1 : 0].insert(codes[padded ? 1 : 0].end(), more.begin(), more.end());
    }
    QuantizedTensor q = make_quantized(Format::e4m3, rows, 3 * kN, {1, 1}, Format::e8m0, 0, 0);
    for (std::int64_t j = 0; j < q.cols(); ++j) {
      for (std::int64_t i = 0; i < rows; ++i) {
        q.codes.set_code(static_cast<std::size_t>(i * q.cols() + j), codes[0][static_cast<std::size_t>(j * rows + i)]);
      }
    }
    EXPECT_EQ(first_difference(transposed_codes(q, experts, {true, 128 * bands + 4}), codes[1], 128 * bands + 4), "")
        << way.recipe;
  }
}

}  // namespace
}  // namespace mxcheck::test
