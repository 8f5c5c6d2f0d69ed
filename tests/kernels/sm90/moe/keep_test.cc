// H to E5M6 in SwiGLU's read of it (kernels/sm90/moe/moe_kernels.h, layer/steps/rows.cuh), and its gradient of H as it
// was kept: every byte of codes and scales that of the reference, every bit of what is made of them that of the kernels
// that read H in BF16. Needs a GPU; without one every test is skipped.

#include <cstdio>

#include "kernels/sm90/layer/steps/steps.h"
#include "kernels/sm90/moe/moe_kernels.h"
#include "numerics/format/packing.h"
#include "reference/quantize/quantize.h"
#include "tests/kernels/sm90/moe/device.h"
#include "tests/kernels/sm90/moe/samples.h"

namespace mxcheck::test {
namespace {

using namespace mxcheck_kernels::sm90;
using Words = std::vector<std::uint16_t>;
using Bytes = std::vector<std::uint8_t>;

DeviceCoding kept_coding() {
  return device_coding({mxcheck_kernels::Element::e4m3, mxcheck_kernels::CodeScale::rceil, 128});
}

HInput h_input(const void* data, const std::uint8_t* scales, std::int64_t n, bool interleaved) {
  HInput h;
  h.data = data, h.scales = scales, h.packed = scales != nullptr, h.stride = 2 * n, h.interleaved = interleaved;
  return h;
}

template <class T>
void expect_same(const Output<T>& right, const Output<T>& mine, std::int64_t cols, const std::string& what) {
  EXPECT_EQ(first_difference(right.read(), mine.read(), cols), "") << what;
}

// Codes of rows and their scales.
struct CodedRows {
  CodedRows(std::int64_t rows, std::int64_t cols) : cols(cols), codes(rows * cols), scales(rows * cols / 128) {}
  [[nodiscard]] RowCodes to() const { return {codes.data(), scales.data(), cols / 128, kept_coding()}; }
  void expect(const CodedRows& mine, const std::string& what) const {
    expect_same(codes, mine.codes, cols, what);
    expect_same(scales, mine.scales, cols / 128, what + ", scales");
  }
  std::int64_t cols;
  Output<std::uint8_t> codes;
  Output<std::uint8_t> scales;
};

// Codes along tokens, each expert's padded to whole bands of 128.
struct CodedColumns {
  CodedColumns(std::int64_t columns, std::int64_t bands)
      : bands(bands), codes(columns * bands * 128), scales(columns * bands) {}
  [[nodiscard]] ColumnCodes to() const {
    return {codes.data(), scales.data(), bands, kept_coding(), bands * 128, true};
  }
  void expect(const CodedColumns& mine, const std::string& what) const {
    expect_same(codes, mine.codes, bands * 128, what);
    expect_same(scales, mine.scales, bands, what + ", scales");
  }
  std::int64_t bands;
  Output<std::uint8_t> codes;
  Output<std::uint8_t> scales;
};

// The inputs of the gradient beside H: P and the weights of the rows.
struct Upstream {
  Upstream(std::int64_t rows, std::int64_t n) : p(floats(rows * n, 11)), weights(floats(rows, 12)) {}
  static std::vector<float> floats(std::int64_t count, std::uint64_t seed) {
    std::vector<float> x;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint64_t r = random_word(seed, static_cast<std::uint64_t>(i));
      x.push_back((static_cast<float>(r % 65536) - 32768.0F) * (r >> 60 == 0 ? 0x1p-40F : 0x1p-17F));
    }
    return x;
  }
  Input<float> p;
  Input<float> weights;
};

// The gradient by rows, with its values, or by tiles of experts' rows, with codes along tokens.
struct Gradient {
  Gradient(std::int64_t rows, std::int64_t n, std::int64_t bands)
      : rows(rows),
        n(n),
        a(rows * n),
        dh(rows * 2 * n),
        ds(rows),
        dh_rows(rows, 2 * n),
        a_columns(n, bands),
        dh_columns(2 * n, bands),
        sums(sums_bytes(rows, n, kTilePart)) {}

  [[nodiscard]] RowsJob job(const HInput& h, const Upstream& up) const {
    RowsJob j;
    j.h = h, j.rows = rows, j.n = n, j.p = up.p.data(), j.weights = up.weights.data();
    j.ds = ds.data(), j.sums = static_cast<float*>(sums.data()), j.row = dh_rows.to();
    return j;
  }
  void by_rows(const HInput& h, const Upstream& up) const {
    RowsJob j = job(h, up);
    j.a = a.data(), j.dh = dh.data();
    ASSERT_EQ(done(launch_backward_rows(j, true, nullptr)), cudaSuccess);
  }
  void by_tiles(const HInput& h, const Upstream& up, const TiledRows& tiles) const {
    const BackwardTilesJob j{job(h, up), tiles, a_columns.to(), dh_columns.to()};
    ASSERT_EQ(done(launch_backward_tiles(j, true, nullptr)), cudaSuccess);
  }
  void expect(const Gradient& mine, const std::string& what) const {
    expect_same(a, mine.a, n, what + ": A'");
    expect_same(dh, mine.dh, 2 * n, what + ": dH");
    expect_same(ds, mine.ds, 1, what + ": dS");
    dh_rows.expect(mine.dh_rows, what + ": codes of dH");
    a_columns.expect(mine.a_columns, what + ": codes of A' along tokens");
    dh_columns.expect(mine.dh_columns, what + ": codes of dH along tokens");
  }

  std::int64_t rows, n;
  Output<std::uint16_t> a;
  Output<std::uint16_t> dh;
  Output<float> ds;
  CodedRows dh_rows;
  CodedColumns a_columns;
  CodedColumns dh_columns;
  DeviceBytes sums;
};

// Eight codes in three little-endian words: rows are whole groups, so that they are one long row.
Bytes packed_bytes(const std::vector<std::uint16_t>& codes) {
  Bytes bytes;
  for (const std::uint32_t word : pack_e5m6(codes)) {
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::uint8_t>(word >> 8 * i));
  }
  return bytes;
}

const char* text_of(bool interleaved) { return interleaved ? "interleaved" : "halves"; }

void expect_gradients(const QuantizedTensor& q) {
  const std::int64_t n = q.cols() / 2;
  const Input<std::uint8_t> packed(packed_bytes(values_in<std::uint16_t>(q.codes.data)));
  const Input<std::uint8_t> scales(values_in<std::uint8_t>(q.scales().data));
  const Input<std::uint16_t> values(dequantize_bf16(q));
  const Upstream up(q.rows(), n);
  const Experts experts({q.rows() / 3, 0, q.rows() - q.rows() / 3});
  for (const bool interleaved : {false, true}) {
    const HInput kept = h_input(packed.data(), scales.data(), n, interleaved);
    const HInput bf16 = h_input(values.data(), nullptr, n, interleaved);
    const auto compare = [&](const std::string& what, const auto& run) {
      const Gradient right(q.rows(), n, experts.bands.back());
      const Gradient mine(q.rows(), n, experts.bands.back());
      run(right, bf16);
      run(mine, kept);
      right.expect(mine, std::string(text_of(interleaved)) + what);
    };
    compare(", by rows", [&](const Gradient& to, const HInput& h) { to.by_rows(h, up); });
    if (!takes_tiles(kept, n, 128)) continue;
    compare(", by tiles", [&](const Gradient& to, const HInput& h) { to.by_tiles(h, up, experts.tiled); });
  }
}

void expect_kept(const Words& h, std::int64_t cols) {
  const auto rows = static_cast<std::int64_t>(h.size()) / cols;
  const std::int64_t n = cols / 2;
  const auto q = quantize(view_of(h, rows, cols), Format::e5m6, {1, 128}, recipe_named("rceil"));
  const Bytes right = packed_bytes(values_in<std::uint16_t>(q.codes.data));
  const Input<std::uint16_t> in(h);
  for (const bool interleaved : {false, true}) {
    const Output<std::uint8_t> packed(rows * cols / 8 * 12);
    const Output<std::uint8_t> scales(rows * cols / 128);
    const CodedRows mine(rows, n);
    KeepJob job{{}, packed.data(), scales.data()};
    job.rows.h = h_input(in.data(), nullptr, n, interleaved), job.rows.rows = rows, job.rows.n = n;
    job.rows.row = mine.to();
    ASSERT_EQ(done(launch_keep(job, nullptr)), cudaSuccess);
    EXPECT_EQ(first_difference(values_in<std::uint8_t>(q.scales().data), scales.read(), cols / 128), "")
        << text_of(interleaved) << ", n " << n;
    EXPECT_EQ(first_difference(right, packed.read(), cols / 8 * 12), "") << text_of(interleaved) << ", n " << n;
    const CodedRows alone(rows, n);
    job.rows.row = alone.to();
    ASSERT_EQ(done(launch_forward_rows(job.rows, true, nullptr)), cudaSuccess);
    alone.expect(mine, std::string(text_of(interleaved)) + ": codes of A");
  }
  expect_gradients(q);
}

class Keep : public DeviceTest {};

TEST_F(Keep, codes_every_number_in_blocks_of_every_exponent) {
  Words blocks = blocks_of_every_exponent(128, 0x7E);
  blocks.resize((blocks.size() + 1023) / 1024 * 1024);
  expect_kept(blocks, 1024);
}

TEST_F(Keep, takes_nan_and_infinity_and_zeros_and_subnormals) {
  expect_kept(all_words(64 * 1024, 1), 256);
  Words few = ordinary_words(std::size_t{77} * 256, 2);  // in some blocks one alone
  few[5] = 0x7F80, few[50 * 256 + 7] = 0xFF80, few[60 * 256 + 140] = 0x7FC0, few[76 * 256 + 255] = 0xFFFF;
  expect_kept(few, 256);
  expect_kept(Words(1024, 0x8000), 256);
  expect_kept(bf16_cells(200, 768, 3), 768);
}

TEST_F(Keep, takes_any_blocks_and_any_rows) {
  for (const std::int64_t n : {128, 256, 384, 640}) {
    for (const std::int64_t rows : {1, 3, 31, 33, 128, 300}) {
      expect_kept(ordinary_words(static_cast<std::size_t>(rows * 2 * n), 3), 2 * n);
    }
  }
  expect_kept(ordinary_words(std::size_t{9001} * 256, 4), 256);  // more rows than warps at once
}

TEST_F(Keep, reads_every_code_under_every_scale) {
  QuantizedTensor q = make_quantized(Format::e5m6, 256, 4096, {1, 128}, Format::e8m0, 256, 32);
  for (std::uint32_t i = 0; i < q.scales().size(); ++i) q.scales().set_code(i, i / 32);
  for (std::uint32_t i = 0; i < q.codes.size(); ++i) q.codes.set_code(i, i % 4096);
  expect_gradients(q);
  // Gates of one, up values of every code; and the other way round.
  for (const std::size_t even : {std::size_t{0}, std::size_t{1}}) {
    for (std::size_t i = 0; i < q.codes.size(); i += 2) {
      q.codes.set_code(i + 1 - even, static_cast<std::uint32_t>(i / 2 % 4096)), q.codes.set_code(i + even, 0x3C0);
    }
    expect_gradients(q);
  }
}

TEST_F(Keep, does_nothing_where_the_plan_is_refused) {
  const RefusedHeader refused;
  const Input<std::uint16_t> h(Words(2048, 0x3F80));
  const Output<std::uint8_t> packed(3072);
  const Output<std::uint8_t> scales(16);
  const CodedRows codes(8, 128);
  KeepJob job{{}, packed.data(), scales.data()};
  job.rows.h = h_input(h.data(), nullptr, 128, true), job.rows.rows = 8, job.rows.n = 128;
  job.rows.row = codes.to(), job.rows.header = refused.data();
  ASSERT_EQ(done(launch_keep(job, nullptr)), cudaSuccess);
  EXPECT_EQ(packed.read(), poisoned<std::uint8_t>(3072));
  EXPECT_EQ(scales.read(), poisoned<std::uint8_t>(16));
  EXPECT_EQ(codes.codes.read(), poisoned<std::uint8_t>(1024));
}

TEST_F(Keep, takes_no_rows_and_refuses_what_is_not_offered) {
  KeepJob job;
  job.rows.n = 128, job.rows.row.coding = kept_coding();
  EXPECT_EQ(launch_keep(job, nullptr), cudaSuccess);
  job.rows.rows = 1;
  EXPECT_EQ(launch_keep(job, nullptr), cudaErrorInvalidValue);  // no codes of A
  const Upstream up(1, 128);
  const Gradient to(1, 128, 1);
  RowsJob rows = to.job(h_input(up.p.data(), static_cast<const std::uint8_t*>(to.sums.data()), 128, true), up);
  rows.row.coding.fp32 = true;
  EXPECT_EQ(launch_backward_rows(rows, true, nullptr), cudaErrorInvalidValue);
  rows.row.codes = nullptr;
  EXPECT_EQ(launch_backward_rows(rows, true, nullptr), cudaErrorInvalidValue);
}

// --- times of the same kernels with H in E5M6 and in BF16, which decide nothing: --gtest_also_run_disabled_tests

constexpr std::int64_t kRows = 262144;
constexpr std::int64_t kN = 1024;

// `bytes`: read and written, of a row and column of n.
void print(const char* what, bool interleaved, double bytes, const std::function<void()>& run) {
  const double time = seconds(run);
  std::printf("%-46s %-12s %8.1f us %6.0f GB/s\n", what, interleaved ? "interleaved" : "halves", time * 1e6,
              1e-9 * bytes * static_cast<double>(kRows * kN) / time);
}

// `count` numbers of a large array, the same ones again and again.
template <class T>
void fill(const DeviceBytes& to, const std::vector<T>& values) {
  const std::size_t bytes = values.size() * sizeof(T);
  for (std::size_t at = 0; at < to.size(); at += bytes) {
    EXPECT_EQ(cudaMemcpy(static_cast<char*>(to.data()) + at, values.data(), std::min(bytes, to.size() - at),
                         cudaMemcpyHostToDevice),
              cudaSuccess);
  }
}

class KeepSpeed : public DeviceTest {};

TEST_F(KeepSpeed, DISABLED_of_swiglu_with_h_in_e5m6) {
  const DeviceBytes h(kRows * kN * 4);
  const DeviceBytes p(kRows * kN * 4);
  const DeviceBytes weights(kRows * 4);
  const std::vector<float> numbers = Upstream::floats(1 << 22, 1);
  Words words;
  for (const float x : numbers) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof(bits));
    words.push_back(static_cast<std::uint16_t>((bits >> 16) + 0x100));  // four times
  }
  fill(h, words), fill(p, numbers), fill(weights, numbers);
  const Output<std::uint8_t> packed(kRows * kN * 3);
  const Output<std::uint8_t> scales(kRows * kN / 64);
  const Gradient to(kRows, kN, kRows / 128);
  const Experts experts(std::vector<std::int64_t>(8, kRows / 8));
  for (const bool interleaved : {true, false}) {
    KeepJob keep{{}, packed.data(), scales.data()};
    keep.rows.h = h_input(h.data(), nullptr, kN, interleaved), keep.rows.rows = kRows, keep.rows.n = kN;
    keep.rows.row = to.dh_rows.to(), keep.rows.row.blocks = kN / 128;
    print("swiglu", interleaved, 5, [&] { EXPECT_EQ(launch_forward_rows(keep.rows, true, nullptr), cudaSuccess); });
    print("swiglu, H to E5M6", interleaved, 8, [&] { EXPECT_EQ(launch_keep(keep, nullptr), cudaSuccess); });
    const Upstream none(0, 0);
    for (const bool kept : {false, true}) {
      const HInput from = kept ? h_input(packed.data(), scales.data(), kN, interleaved) : keep.rows.h;
      RowsJob job = to.job(from, none);
      job.p = static_cast<const float*>(p.data()), job.weights = static_cast<const float*>(weights.data());
      if (takes_tiles(from, kN, 128)) {
        const BackwardTilesJob tiles{job, experts.tiled, to.a_columns.to(), to.dh_columns.to()};
        print(kept ? "swiglu_backward by tiles, H in E5M6" : "swiglu_backward by tiles", interleaved, kept ? 12 : 13,
              [&] { EXPECT_EQ(launch_backward_tiles(tiles, true, nullptr), cudaSuccess); });
      }
      job.a = to.a.data(), job.dh = to.dh.data();
      print(kept ? "swiglu_backward by rows, H in E5M6" : "swiglu_backward by rows", interleaved, kept ? 15 : 16,
            [&] { EXPECT_EQ(launch_backward_rows(job, true, nullptr), cudaSuccess); });
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
  }
}

}  // namespace
}  // namespace mxcheck::test
