// Squares of 128 x 128 and whole tensors on the device, every byte against the reference: codes and scales as they lie
// and transposed, padding, and what must not be written. Needs a GPU; without one every test is skipped.

#include <cmath>
#include <cstdio>

#include "kernels/sm90/layer/steps/steps.h"
#include "kernels/sm90/moe/square_codes.h"
#include "tests/kernels/sm90/moe/samples.h"

namespace mxcheck::test {
namespace {

using mxcheck_kernels::sm90::launch_amax, mxcheck_kernels::sm90::launch_square, mxcheck_kernels::sm90::SquareJob;
using mxcheck_kernels::sm90::SquareScales, mxcheck_kernels::sm90::TransposeJob;

struct Case {
  std::int64_t cols = 0;
  std::vector<std::int64_t> rows;  // of experts
  std::int64_t expert_rows = 0;    // of each of rows.size() experts, in place of rows
  std::int64_t source_rows = 0;    // with an index; 0: none
  SquareScales kind = SquareScales::each;
  bool whole = false;  // one scale for all
  bool finite = false;
};

std::int64_t up(std::int64_t n) { return (n + 127) / 128; }

// The output that the kernel is to write, scales as 32-bit words.
struct Expected {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint32_t> scales;
  std::vector<std::uint8_t> transposed;
  std::vector<std::uint32_t> transposed_scales;
};

struct Sizes {
  std::vector<std::int64_t> offsets = {0};
  std::vector<std::int64_t> bands = {0};
  std::int64_t cols;
  std::int64_t stride;  // without expert_rows
};
Sizes sizes_of(const Case& c) {
  Sizes s;
  s.cols = c.cols;
  for (const std::int64_t r : c.rows) {
    const std::int64_t rows = c.expert_rows != 0 ? c.expert_rows : r;
    s.offsets.push_back(s.offsets.back() + rows), s.bands.push_back(s.bands.back() + up(rows));
  }
  s.stride = 128 * s.bands.back() + 32;  // what is beyond the last expert is not written
  return s;
}

Expected expect(const Case& c, const Way& way, const std::vector<std::uint16_t>& x) {
  const Sizes s = sizes_of(c);
  const std::int64_t rows = s.offsets.back();
  const std::int64_t across = up(c.cols);
  const std::int64_t down = up(c.expert_rows);
  const bool shared = c.kind == SquareScales::shared;
  const QuantizedTensor q =
      c.whole ? quantize(view_of(x, rows, c.cols), way.format, {0, 0}, recipe_named(way.recipe))
              : quantize(view_of(x, rows, c.cols), way.format, {128, 128}, recipe_named(way.recipe), s.offsets);
  const std::vector<std::uint32_t> scales = scale_bits(q);
  Expected out;
  out.codes = values_in<std::uint8_t>(q.codes.data);
  out.scales.resize(static_cast<std::size_t>((shared ? s.bands.back() : rows) * across));
  out.transposed = poisoned<std::uint8_t>(c.cols * (c.expert_rows != 0 ? rows : s.stride));
  out.transposed_scales.resize(static_cast<std::size_t>((shared ? across : c.cols) * s.bands.back()));
  for (std::size_t e = 0; e + 1 < s.offsets.size(); ++e) {
    const std::int64_t begin = s.offsets[e];
    const std::int64_t n = s.offsets[e + 1] - begin;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < c.cols; ++j) {
        const std::int64_t band = s.bands[e] + i / 128;
        const std::uint32_t scale = scales[static_cast<std::size_t>(c.whole ? 0 : band * across + j / 128)];
        const auto expert = static_cast<std::int64_t>(e);
        out.scales[static_cast<std::size_t>((shared ? band : begin + i) * across + j / 128)] = scale;
        std::int64_t at = j * s.bands.back() + band;
        if (c.expert_rows != 0) at = (expert * (shared ? across : c.cols) + (shared ? j / 128 : j)) * down + i / 128;
        if (c.expert_rows != 0 || !shared) out.transposed_scales[static_cast<std::size_t>(at)] = scale;
        const std::int64_t to =
            c.expert_rows != 0 ? (expert * c.cols + j) * n + i : j * s.stride + 128 * s.bands[e] + i;
        out.transposed[static_cast<std::size_t>(to)] =
            q.codes.as<std::uint8_t>()[static_cast<std::size_t>((begin + i) * c.cols + j)];
      }
    }
    for (std::int64_t i = n; c.expert_rows == 0 && i < 128 * up(n); ++i) {
      for (std::int64_t j = 0; j < c.cols; ++j) {
        out.transposed[static_cast<std::size_t>(j * s.stride + 128 * s.bands[e] + i)] = 0;
      }
    }
  }
  return out;
}

std::vector<std::uint8_t> as_stored(const std::vector<std::uint32_t>& scales, bool fp32) {
  std::vector<std::uint8_t> bytes;
  for (const std::uint32_t s : scales) {
    for (int i = 0; i < (fp32 ? 4 : 1); ++i) bytes.push_back(static_cast<std::uint8_t>(s >> 8 * i));
  }
  return bytes;
}

enum Written { kBoth, kAsTheyLie, kTransposed };

void expect_squares(const Case& c, const Way& way, Written written = kBoth, std::uint64_t seed = 1) {
  const Sizes s = sizes_of(c);
  const std::int64_t rows = s.offsets.back();
  const std::int64_t sources = c.source_rows == 0 ? rows : c.source_rows;
  const std::vector<std::uint16_t> x = bf16_cells(sources, c.cols, seed, c.finite);
  const std::vector<std::int32_t> index =
      c.source_rows == 0 ? std::vector<std::int32_t>{} : random_index(rows, sources, seed + 1);
  const Expected expected = expect(c, way, gathered(x, index, c.cols));
  const bool fp32 = way.coding.fp32;
  const std::vector<std::uint8_t> scales = as_stored(expected.scales, fp32);
  const std::vector<std::uint8_t> transposed_scales = as_stored(expected.transposed_scales, fp32);

  const Input<std::uint16_t> device_x(x);
  const Input<std::int32_t> device_index(index);
  const Experts experts(c.rows);
  Output<float> amax(1);
  Output<std::uint8_t> codes(rows * c.cols);
  Output<std::uint8_t> stored(static_cast<std::int64_t>(scales.size()));
  Output<std::uint8_t> turned(static_cast<std::int64_t>(expected.transposed.size()));
  Output<std::uint8_t> turned_scales(static_cast<std::int64_t>(transposed_scales.size()));
  SquareJob job;
  job.x = device_x.data(), job.index = index.empty() ? nullptr : device_index.data();
  job.cols = c.cols, job.expert_rows = c.expert_rows, job.coding = way.coding, job.kind = c.kind, job.rows.rows = rows;
  if (c.expert_rows == 0) job.rows = experts.tiled;
  if (c.whole) {
    ASSERT_EQ(launch_amax({device_x.data(), sources * c.cols, amax.data(), nullptr}, nullptr), cudaSuccess);
    job.amax = amax.data();
  }
  if (written != kTransposed) job.codes = codes.data(), job.scales = stored.data();
  if (written != kAsTheyLie) job.transposed = turned.data(), job.transposed_scales = turned_scales.data();
  job.stride = s.stride, job.bands = s.bands.back();
  ASSERT_EQ(done(launch_square(job, nullptr)), cudaSuccess);

  const auto bytes = [](const std::vector<std::uint8_t>& v, bool there) {
    return there ? v : poisoned<std::uint8_t>(static_cast<std::int64_t>(v.size()));
  };
  const std::string what = way.recipe + (way.format == Format::e4m3 ? " e4m3" : " e5m2");
  const bool lie = written != kTransposed;
  const bool turn = written != kAsTheyLie;
  EXPECT_EQ(first_difference(bytes(expected.codes, lie), codes.read(), c.cols), "") << what << ", codes";
  EXPECT_EQ(first_difference(bytes(scales, lie), stored.read(), 4), "") << what << ", scales";
  EXPECT_EQ(
      first_difference(bytes(expected.transposed, turn), turned.read(), c.expert_rows != 0 ? c.expert_rows : s.stride),
      "")
      << what << ", transposed";
  EXPECT_EQ(first_difference(bytes(transposed_scales, turn), turned_scales.read(), 4), "")
      << what << ", transposed scales";
}

class Sm90Square : public DeviceTest {};

const std::vector<std::int64_t> kRagged = {0, 1, 31, 0, 127, 128, 129, 300, 0, 256};

TEST_F(Sm90Square, ragged_experts_have_squares_and_padding_of_their_own) {
  for (const Way& way : ways(128)) {
    for (const std::int64_t cols : {8, 136, 256, 376}) expect_squares({.cols = cols, .rows = kRagged}, way);
  }
}

TEST_F(Sm90Square, rows_are_gathered) {
  for (const Way& way : ways(128)) expect_squares({.cols = 264, .rows = kRagged, .source_rows = 333}, way, kBoth, 2);
}

TEST_F(Sm90Square, weights_of_experts_of_as_many_rows) {
  for (const Way& way : ways(128)) {
    for (const std::int64_t each : {16, 128, 144, 256}) {
      for (const SquareScales kind : {SquareScales::each, SquareScales::shared}) {
        expect_squares({.cols = 256, .rows = {0, 0, 0}, .expert_rows = each, .kind = kind}, way, kBoth, 3);
        expect_squares({.cols = 40, .rows = {0, 0}, .expert_rows = each, .kind = kind}, way, kBoth, 4);
      }
    }
  }
}

TEST_F(Sm90Square, either_direction_alone) {
  const Way way = ways(128).front();
  for (const Written written : {kAsTheyLie, kTransposed}) {
    expect_squares({.cols = 200, .rows = kRagged}, way, written, 5);
    expect_squares({.cols = 128, .rows = {0, 0}, .expert_rows = 144}, way, written, 6);
  }
  expect_squares({.cols = 200, .rows = kRagged, .kind = SquareScales::shared}, way, kAsTheyLie, 7);
}

TEST_F(Sm90Square, a_whole_tensor_shares_the_scale_of_its_amax) {
  for (const Way& way : ways(128)) {
    for (const bool finite : {false, true}) {
      expect_squares({.cols = 264, .rows = kRagged, .whole = true, .finite = finite}, way, kBoth, 8);
      expect_squares({.cols = 128,
                      .rows = {0, 0},
                      .expert_rows = 144,
                      .kind = SquareScales::shared,
                      .whole = true,
                      .finite = finite},
                     way, kBoth, 9);
    }
  }
}

float amax_of_device(const std::vector<std::uint16_t>& x, std::int64_t from = 0) {
  const Input<std::uint16_t> device(x);
  Output<float> amax(1);
  const auto elements = static_cast<std::int64_t>(x.size()) - from;
  EXPECT_EQ(launch_amax({device.data() + from, elements, amax.data(), nullptr}, nullptr), cudaSuccess);
  return amax.read()[0];
}

TEST_F(Sm90Square, amax_sees_every_element) {
  EXPECT_EQ(std::bit_cast<std::uint32_t>(amax_of_device({})), 0U);
  for (const std::size_t n : {1U, 7U, 8U, 9U, 4095U, 70001U, 3000007U}) {
    std::vector<std::uint16_t> x(n, 0x8000);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(amax_of_device(x)), 0U) << n;
    for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
      x[at] = 0xC0FF;
      EXPECT_EQ(amax_of_device(x), 7.96875F) << at << " of " << n;
      EXPECT_EQ(amax_of_device(x, at == 0 ? 0 : 1), 7.96875F) << at << " of " << n << ", from 1 on";
      x[at] = 0xFF80;
      EXPECT_TRUE(std::isinf(amax_of_device(x)));
      x[at] = 0xFF81;
      EXPECT_TRUE(std::isnan(amax_of_device(x)));
      x[at] = 0x8000;
    }
  }
}

TEST_F(Sm90Square, nothing_is_written_after_a_refusal) {
  const RefusedHeader refused;
  const Input<std::uint16_t> x(bf16_cells(256, 128, 10));
  Output<std::uint8_t> out(256 * 128);
  Output<float> scales(256);
  for (const std::int64_t expert_rows : {0, 128}) {
    SquareJob job;
    job.x = x.data(), job.cols = 128, job.expert_rows = expert_rows;
    job.rows = {256, 2, refused.data(), nullptr};
    job.coding = ways(128).front().coding, job.codes = out.data(), job.scales = scales.data();
    ASSERT_EQ(launch_square(job, nullptr), cudaSuccess);
    ASSERT_EQ(launch_amax({x.data(), 256 * 128, scales.data(), refused.data()}, nullptr), cudaSuccess);
    EXPECT_EQ(out.read(), poisoned<std::uint8_t>(256 * 128));
    EXPECT_EQ(first_difference(poisoned<float>(256), scales.read(), 1), "");
  }
}

TEST_F(Sm90Square, what_cannot_be_is_an_error) {
  SquareJob job;
  job.cols = 12, job.rows = {128, 1, nullptr, nullptr};
  EXPECT_EQ(launch_square(job, nullptr), cudaErrorInvalidValue);
  job.cols = 128, job.expert_rows = 24;
  EXPECT_EQ(launch_square(job, nullptr), cudaErrorInvalidValue);
  Output<std::uint8_t> out(128 * 128);
  job.expert_rows = 0, job.transposed = out.data(), job.kind = SquareScales::shared;
  EXPECT_EQ(launch_square(job, nullptr), cudaErrorInvalidValue);
}

TEST_F(Sm90Square, a_graph_gives_the_same_bytes) {
  const Input<std::uint16_t> x(bf16_cells(256, 256, 11, true));
  Output<float> amax(1);
  Output<std::uint8_t> first(2 * 256 * 256);
  Output<std::uint8_t> second(2 * 256 * 256);
  Output<float> scales(4 * 256);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  const auto enqueue = [&](std::uint8_t* to) {
    SquareJob job;
    job.x = x.data(), job.cols = 256, job.rows = {256, 2, nullptr, nullptr}, job.coding = ways(128).front().coding;
    job.amax = amax.data(), job.codes = to, job.scales = scales.data(), job.transposed = to + 256 * 256;
    job.transposed_scales = scales.data() + 2 * 256, job.stride = 256, job.bands = 2;
    ASSERT_EQ(launch_amax({x.data(), 256 * 256, amax.data(), nullptr}, stream), cudaSuccess);
    ASSERT_EQ(launch_square(job, stream), cudaSuccess);
  };
  enqueue(first.data());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t run = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  enqueue(second.data());
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&run, graph, 0), cudaSuccess);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(cudaGraphLaunch(run, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(first.read(), second.read());
  cudaGraphExecDestroy(run), cudaGraphDestroy(graph), cudaStreamDestroy(stream);
}

// --- times, next to copies of as many bytes within the device: --gtest_also_run_disabled_tests, on a GPU with 32 GiB

class Sm90SquareSpeed : public DeviceTest {};

constexpr int kRuns = 9;

float median_ms(const std::function<cudaError_t()>& enqueue) {
  cudaEvent_t from = nullptr;
  cudaEvent_t to = nullptr;
  cudaEventCreate(&from), cudaEventCreate(&to);
  std::vector<float> times;
  for (int i = -2; i < kRuns; ++i) {
    cudaEventRecord(from);
    EXPECT_EQ(enqueue(), cudaSuccess);
    cudaEventRecord(to);
    EXPECT_EQ(cudaEventSynchronize(to), cudaSuccess);
    float ms = 0;
    cudaEventElapsedTime(&ms, from, to);
    if (i >= 0) times.push_back(ms);
  }
  cudaEventDestroy(from), cudaEventDestroy(to);
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2];
}

// `bytes` are read or written; the copy reads half of them and writes half.
void report(const char* what, std::int64_t bytes, const DeviceBytes& room,
            const std::function<cudaError_t()>& enqueue) {
  const std::size_t half = static_cast<std::size_t>(bytes) / 2 / 256 * 256;
  ASSERT_LE(2 * half, room.size());
  auto* const at = static_cast<char*>(room.data());
  const float copy = median_ms([&] { return cudaMemcpyAsync(at + half, at, half, cudaMemcpyDeviceToDevice); });
  const float mine = median_ms(enqueue);
  const double gigabytes = static_cast<double>(bytes) / 1e9;
  std::printf("%-58s %8.1f MB %8.1f us %6.0f GB/s, %.3f of the copy at %.0f GB/s\n", what, gigabytes * 1e3,
              1e3 * static_cast<double>(mine), gigabytes / static_cast<double>(mine) * 1e3,
              static_cast<double>(copy) / static_cast<double>(mine), gigabytes / static_cast<double>(copy) * 1e3);
}

// Random BF16 from 2^-17 to 1, a sample repeated.
void fill(const DeviceBytes& room) {
  std::vector<std::uint16_t> some(std::size_t{1} << 24);
  for (std::size_t i = 0; i < some.size(); ++i) {
    const std::uint64_t r = random_word(40, i);
    some[i] = static_cast<std::uint16_t>((r & 0x807F) | (127 - 1 - (r >> 32) % 17) << 7);
  }
  const std::size_t bytes = some.size() * 2;
  for (std::size_t at = 0; at + bytes <= room.size(); at += bytes) {
    cudaMemcpy(static_cast<char*>(room.data()) + at, some.data(), bytes, cudaMemcpyHostToDevice);
  }
}

constexpr std::int64_t kExperts = 128;
constexpr std::int64_t kWeights = kExperts * 4096 * 2048;

TEST_F(Sm90SquareSpeed, DISABLED_of_weights) {
  const DeviceBytes x(2 * kWeights);
  const DeviceBytes codes(2 * kWeights);
  const DeviceBytes scales(std::size_t{64} << 20);
  const DeviceBytes room(4 * kWeights);
  const DeviceBytes amax(4);
  fill(x), fill(room);
  const auto squares = [&](const char* what, std::size_t way, std::int64_t expert_rows, int directions, bool whole) {
    SquareJob job;
    job.x = static_cast<const std::uint16_t*>(x.data());
    job.cols = 4096 * 2048 / expert_rows, job.expert_rows = expert_rows, job.rows.rows = kExperts * expert_rows;
    job.coding = ways(128)[way].coding, job.kind = SquareScales::shared;
    job.codes = static_cast<std::uint8_t*>(codes.data()), job.scales = scales.data();
    job.transposed_scales = static_cast<char*>(scales.data()) + scales.size() / 2;
    if (directions != 1) job.transposed = job.codes + kWeights;
    if (directions == 3) job.codes = nullptr;
    if (whole) job.amax = static_cast<const float*>(amax.data());
    report(what, (directions == 2 ? 4 : 3) * kWeights, room, [&] { return launch_square(job, nullptr); });
  };
  report("amax of 128 x 4096 x 2048", 2 * kWeights, room, [&] {
    return launch_amax(
        {static_cast<const std::uint16_t*>(x.data()), kWeights, static_cast<float*>(amax.data()), nullptr}, nullptr);
  });
  squares("128 x 4096 x 2048, e4m3 fp32", 0, 4096, 2, false);
  squares("128 x 4096 x 2048, e4m3 rceil", 1, 4096, 2, false);
  squares("128 x 2048 x 4096, e4m3 fp32", 0, 2048, 2, false);
  squares("128 x 4096 x 2048, e5m2 fp32", 3, 4096, 2, false);
  squares("128 x 4096 x 2048, e4m3 fp32, amax given", 0, 4096, 2, true);
  squares("128 x 4096 x 2048, e4m3 fp32, as they lie alone", 0, 4096, 1, false);
  squares("128 x 4096 x 2048, e4m3 fp32, transposed alone", 0, 4096, 3, false);
}

// 262144 rows of 32768 tokens: 128 experts of some 2048 rows, none of them at a multiple of 128.
TEST_F(Sm90SquareSpeed, DISABLED_of_tokens) {
  constexpr std::int64_t kRows = 262144;
  constexpr std::int64_t kTokens = 32768;
  constexpr std::int64_t kCols = 4096;
  std::vector<std::int64_t> rows;
  for (std::int64_t e = 0; e < kExperts; ++e) rows.push_back(2048 + (e % 2 == 0 ? e : 1 - e));
  const Experts experts(rows);
  ASSERT_EQ(experts.rows(), kRows);
  const Experts aligned(std::vector<std::int64_t>(kExperts, 2048));
  std::vector<std::int32_t> of_rows;
  for (std::int64_t e = 0, r = 0; e < kExperts; ++e) {  // ascending within an expert
    for (std::int64_t i = 0; i < rows[static_cast<std::size_t>(e)]; ++i, ++r) {
      of_rows.push_back(static_cast<std::int32_t>((i * 16 * kTokens / 33792 + e % 16) % kTokens));
    }
  }
  const Input<std::int32_t> index(of_rows);
  const std::int64_t bands = experts.bands.back();
  const std::int64_t padded = 128 * bands;
  const DeviceBytes x(2 * kRows * kCols);
  const DeviceBytes codes(static_cast<std::size_t>((kRows + padded) * kCols));
  const DeviceBytes scales(static_cast<std::size_t>(4 * kRows * kCols / 128 + 4 * kCols * bands));
  const DeviceBytes source_scales(static_cast<std::size_t>(4 * kRows * kCols / 128));
  const DeviceBytes room(4 * kRows * kCols);
  fill(x), fill(room);
  cudaMemset(source_scales.data(), 0x3F, source_scales.size());
  auto* const to = static_cast<std::uint8_t*>(codes.data());
  const auto columns = [&](const char* what, const Experts& of, std::size_t way, bool gather, bool coded, bool pad) {
    TransposeJob job;
    job.x = x.data(), job.stride = job.cols = kCols, job.rows = of.tiled, job.index = gather ? index.data() : nullptr;
    job.out = {to, scales.data(), of.bands.back(), ways(128)[way].coding, pad ? 128 * of.bands.back() : 0, pad};
    if (coded) job.scales = source_scales.data(), job.scale_blocks = kCols / 128, job.e8m0 = way % 3 != 0;
    const std::int64_t read = (gather ? kTokens : kRows) * kCols * (coded ? 1 : 2);
    report(what, read + kRows * kCols, room, [&] { return launch_transpose(job, true, nullptr); });
  };
  columns("BF16, 1x128 fp32", aligned, 0, false, false, false);
  columns("BF16, 1x128 fp32, padded", aligned, 0, false, false, true);
  columns("BF16, 1x128 fp32, padded, ragged", experts, 0, false, false, true);
  columns("BF16 gathered, 1x128 fp32, padded, ragged", experts, 0, true, false, true);
  columns("codes, 1x128 fp32, padded, ragged", experts, 0, false, true, true);
  columns("codes gathered, 1x128 fp32, padded, ragged", experts, 0, true, true, true);
  columns("codes gathered, 1x128 rceil, padded, ragged", experts, 1, true, true, true);
  SquareJob job;
  job.x = static_cast<const std::uint16_t*>(x.data()), job.cols = kCols, job.rows = experts.tiled;
  job.coding = ways(128).front().coding, job.codes = to, job.scales = scales.data(),
  job.transposed = to + kRows * kCols;
  job.transposed_scales = static_cast<float*>(scales.data()) + kRows * kCols / 128, job.stride = padded;
  job.bands = bands;
  report("squares of tokens, fp32, a scale each", 4 * kRows * kCols, room, [&] { return launch_square(job, nullptr); });
  job.index = index.data();
  report("squares of tokens gathered, fp32, a scale each", 2 * (kRows + kTokens) * kCols, room,
         [&] { return launch_square(job, nullptr); });
}

}  // namespace
}  // namespace mxcheck::test
