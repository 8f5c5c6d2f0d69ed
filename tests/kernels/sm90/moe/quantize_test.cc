// BF16 through block formats and back on the device (kernels/sm90/moe/round_trip.h), every bit compared with what the
// reference's quantize and dequantize make of the same matrix; any NaN equals any other. Needs a GPU; without one every
// test is skipped.

#include <cstdio>
#include <ios>
#include <memory>
#include <random>

#include "kernels/sm90/moe/round_trip.h"
#include "reference/quantize/quantize.h"
#include "tests/kernels/sm90/moe/device.h"
#include "tests/kernels/sm90/moe/samples.h"

namespace mxcheck::test {
namespace {

using namespace mxcheck_kernels::sm90;
using Words = std::vector<std::uint16_t>;

using Matrix = GatheredMatrix;
struct Rules {
  std::optional<RoundRule> rows;
  std::optional<RoundRule> columns;
};

Format format_of(RoundRule rule) {
  const Format formats[] = {Format::e4m3, Format::e5m2, Format::e2m1, Format::e2m3, Format::e3m2};
  return formats[static_cast<std::size_t>(rule.format)];
}
Recipe recipe_of(RoundRule rule) {
  const char* const names[] = {"rceil", "floor", "deepgemm_host"};
  return recipe_named(names[static_cast<std::size_t>(rule.scale)]);
}
std::string text_of(RoundRule rule) { return std::string(spec(format_of(rule)).name) + "_" + recipe_of(rule).name; }

Words defined(const Matrix& m, RoundRule rule, bool columns) {
  Words x = m.x;
  const auto cols = static_cast<std::size_t>(m.cols);
  if (!m.index.empty()) {
    x.clear();
    for (const std::int32_t row : m.index) {
      const auto from = m.x.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row) * cols);
      x.insert(x.end(), from, from + static_cast<std::ptrdiff_t>(cols));
    }
  }
  std::vector<std::int64_t> offsets = columns ? m.offsets : std::vector<std::int64_t>();
  if (columns && m.expert_rows != 0) {
    for (std::int64_t row = 0; row <= m.rows(); row += m.expert_rows) offsets.push_back(row);
  }
  const MatrixView view{Format::bf16, std::as_bytes(std::span(x)).data(), m.rows(), m.cols, m.cols};
  const BlockShape block = columns ? BlockShape{32, 1} : BlockShape{1, 32};
  return dequantize_bf16(quantize(view, format_of(rule), block, recipe_of(rule), offsets), offsets);
}

// A matrix on the device, planned, and its outputs.
class OnDevice {
 public:
  OnDevice(const Matrix& m, const Rules& rules) : x_(m.x), index_(m.index), offsets_(m.offsets) {
    if (rules.rows) along_rows = std::make_unique<Output<std::uint16_t>>(m.rows() * m.cols);
    if (rules.columns) along_columns = std::make_unique<Output<std::uint16_t>>(m.rows() * m.cols);
    PlanJob plan;
    plan.rows = m.rows();
    if (!m.offsets.empty()) plan.offsets = offsets_.data(), plan.experts = std::ssize(m.offsets) - 1;
    table_ = std::make_unique<DeviceBytes>(static_cast<std::size_t>(most_tiles(plan)) * sizeof(RowTile));
    auto* const tiles = static_cast<RowTile*>(table_->data());
    EXPECT_EQ(make_plan(plan, header(), tiles, nullptr), cudaSuccess);
    job_.x = x_.data(), job_.cols = m.cols, job_.expert_rows = m.expert_rows;
    if (!m.index.empty()) job_.index = index_.data();
    job_.rows = {m.rows(), most_tiles(plan), header(), m.offsets.empty() ? nullptr : tiles};
    if (rules.rows) job_.along_rows = along_rows->data(), job_.row_rule = *rules.rows;
    if (rules.columns) job_.along_columns = along_columns->data(), job_.column_rule = *rules.columns;
  }
  void refuse() const {
    const std::int32_t status = MXCHECK_INVALID;
    EXPECT_EQ(cudaMemcpy(header(), &status, sizeof(status), cudaMemcpyHostToDevice), cudaSuccess);
  }
  void launch(cudaStream_t stream = nullptr) const { EXPECT_EQ(launch_round_trip(job_, stream), cudaSuccess); }
  [[nodiscard]] PlanHeader* header() const { return static_cast<PlanHeader*>(header_.data()); }

  std::unique_ptr<Output<std::uint16_t>> along_rows, along_columns;

 private:
  Input<std::uint16_t> x_;
  Input<std::int32_t> index_;
  Input<std::int64_t> offsets_;
  DeviceBytes header_{kHeaderBytes};
  std::unique_ptr<DeviceBytes> table_;
  RoundTripJob job_;
};

void expect_equal(const Output<std::uint16_t>& out, const Words& right, const Matrix& m, const char* what) {
  const Words mine = out.read();
  ASSERT_EQ(mine.size(), right.size());
  const auto at = std::mismatch(mine.begin(), mine.end(), right.begin(), same_bf16);
  if (at.first == mine.end()) return;
  const auto i = at.first - mine.begin();
  ADD_FAILURE() << what << ": row " << i / m.cols << ", column " << i % m.cols << " is " << std::hex << *at.first
                << ", must be " << *at.second;
}

void expect_defined(const Matrix& m, const Rules& rules) {
  const OnDevice device(m, rules);
  device.launch();
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  if (rules.rows) expect_equal(*device.along_rows, defined(m, *rules.rows, false), m, "along rows");
  if (rules.columns) expect_equal(*device.along_columns, defined(m, *rules.columns, true), m, "along columns");
}

class RoundTrip : public ::testing::TestWithParam<RoundRule> {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_P(RoundTrip, rounds_every_number_in_blocks_of_every_exponent) {
  const std::uint32_t mantissa = GetParam().format == RoundFormat::e2m1 ? 0x40 : 0x60;
  Words blocks = blocks_of_every_exponent(32, mantissa);
  const Words down = down_columns(blocks, 1024);
  blocks.resize((blocks.size() + 1023) / 1024 * 1024);
  expect_defined({blocks, 1024}, {GetParam(), GetParam()});
  expect_defined({down, 1024}, {GetParam(), GetParam()});
}

TEST_P(RoundTrip, rounds_blocks_with_nan_and_infinity) {
  expect_defined({all_words(64 * 1024, 1), 64}, {GetParam(), GetParam()});
  Words few = ordinary_words(96 * 200, 2);  // in some blocks one alone
  few[5] = 0x7F80, few[50 * 96 + 7] = 0xFF80, few[60 * 96 + 40] = 0x7FC0, few[199 * 96 + 95] = 0xFFFF;
  expect_defined({few, 96}, {GetParam(), GetParam()});
}

TEST_P(RoundTrip, restarts_at_each_expert) {
  const std::vector<std::int64_t> rows = {0, 1, 31, 0, 32, 33, 127, 128, 129, 300, 0};
  std::vector<std::int64_t> offsets = {0};
  for (const std::int64_t r : rows) offsets.push_back(offsets.back() + r);
  for (const std::int64_t cols : {8, 40, 64, 136, 264}) {
    const auto count = static_cast<std::size_t>(offsets.back() * cols);
    expect_defined({ordinary_words(count, static_cast<std::uint32_t>(cols)), cols, offsets}, {GetParam(), GetParam()});
  }
}

TEST_P(RoundTrip, takes_rows_by_an_index_with_repeats) {
  Matrix m{ordinary_words(50 * 72, 3), 72, {0, 100, 100, 333}};
  std::uint32_t state = 4;
  for (int i = 0; i < 333; ++i) m.index.push_back(static_cast<std::int32_t>(next_word(state) % 50));
  m.x[100] = 0x7FC0, m.x[72 * 7 + 3] = 0x0001;
  expect_defined(m, {GetParam(), GetParam()});
}

TEST_P(RoundTrip, takes_experts_of_as_many_rows) {
  for (const std::int64_t rows : {1, 32, 40, 128, 200, 256}) {
    Matrix m{ordinary_words(static_cast<std::size_t>(rows * 5 * 104), 5), 104};
    m.expert_rows = rows;
    expect_defined(m, {GetParam(), GetParam()});
  }
}

std::vector<RoundRule> every_rule() {
  std::vector<RoundRule> rules;
  for (const RoundFormat format :
       {RoundFormat::e4m3, RoundFormat::e5m2, RoundFormat::e2m1, RoundFormat::e2m3, RoundFormat::e3m2}) {
    for (const RoundScale scale : {RoundScale::rceil, RoundScale::floor, RoundScale::deepgemm_host}) {
      rules.push_back({format, scale});
    }
  }
  return rules;
}
INSTANTIATE_TEST_SUITE_P(Rules, RoundTrip, ::testing::ValuesIn(every_rule()),
                         [](const auto& info) { return text_of(info.param); });

class RoundTripCall : public RoundTrip {};
constexpr RoundRule kE4m3Floor{RoundFormat::e4m3, RoundScale::floor};
constexpr RoundRule kE2m1Host{RoundFormat::e2m1, RoundScale::deepgemm_host};

TEST_P(RoundTripCall, writes_what_is_asked_for_by_its_own_rule) {
  const Matrix m{ordinary_words(std::size_t{300} * 136, 6), 136, {0, 70, 300}};
  expect_defined(m, {GetParam(), kE4m3Floor});
  expect_defined(m, {kE2m1Host, GetParam()});
  expect_defined(m, {GetParam(), std::nullopt});
  expect_defined(m, {std::nullopt, GetParam()});
  expect_defined({{}, 136, {0, 0, 0}}, {GetParam(), GetParam()});
}

TEST_P(RoundTripCall, writes_nothing_where_the_plan_is_refused) {
  for (const std::int64_t expert_rows : {0, 40}) {
    Matrix m{ordinary_words(std::size_t{200} * 64, 7), 64};
    m.expert_rows = expert_rows;
    const OnDevice device(m, {GetParam(), GetParam()});
    device.refuse();
    device.launch();
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (const auto* out : {device.along_rows.get(), device.along_columns.get()}) {
      EXPECT_EQ(out->read(), poisoned<std::uint16_t>(200 * 64));
    }
  }
}

TEST_P(RoundTripCall, is_captured_in_a_graph) {
  const Matrix m{ordinary_words(std::size_t{200} * 64, 8), 64, {0, 33, 200}};
  const OnDevice device(m, {GetParam(), GetParam()});
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  device.launch(stream);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(ready, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  expect_equal(*device.along_columns, defined(m, GetParam(), true), m, "along columns");
  EXPECT_EQ(cudaGraphExecDestroy(ready), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

INSTANTIATE_TEST_SUITE_P(Rules, RoundTripCall, ::testing::Values(RoundRule{}),
                         [](const auto& info) { return text_of(info.param); });

// --- bytes a second against a copy of as many bytes within the device, which decide nothing, on sizes of layers:
// --gtest_also_run_disabled_tests

constexpr std::size_t kMost = std::size_t{262144} * 4096;  // numbers of the largest tensor

class Speed : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no CUDA device";
    for (auto& tensor : tensors) ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&tensor), kMost * 2), cudaSuccess);
    const auto words = ordinary_words(std::size_t{1} << 24, 1);
    for (std::size_t at = 0; at < kMost; at += words.size()) {
      ASSERT_EQ(cudaMemcpy(tensors[0] + at, words.data(), words.size() * 2, cudaMemcpyHostToDevice), cudaSuccess);
    }
  }
  ~Speed() override {
    for (auto* tensor : tensors) cudaFree(tensor);
  }

  // `bytes` are those read and written.
  void compare(const char* what, std::int64_t bytes, const std::function<void()>& run) {
    const std::size_t half = std::min(static_cast<std::size_t>(bytes) / 2, kMost * 2);  // read, and written
    const double copy = 2e-9 * static_cast<double>(half) /
                        seconds([&] { cudaMemcpyAsync(tensors[1], tensors[0], half, cudaMemcpyDeviceToDevice); });
    const double time = seconds(run);
    const double mine = 1e-9 * static_cast<double>(bytes) / time;
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    std::printf("%-58s %8.1f us %6.0f GB/s, copy %5.0f GB/s, ratio %.3f\n", what, time * 1e6, mine, copy, mine / copy);
  }

  RoundTripJob job(std::int64_t rows, std::int64_t cols, RoundRule rule = {}) const {
    RoundTripJob j;
    j.x = tensors[0], j.cols = cols, j.rows.rows = rows, j.rows.tiles = (rows + kTileRows - 1) / kTileRows;
    j.row_rule = j.column_rule = rule;
    return j;
  }

  std::uint16_t* tensors[3] = {};
};

TEST_F(Speed, DISABLED_of_round_trips) {
  const auto run = [](const RoundTripJob& j) { return [j] { EXPECT_EQ(launch_round_trip(j, nullptr), cudaSuccess); }; };
  for (const RoundRule rule : {RoundRule{}, RoundRule{RoundFormat::e2m1, RoundScale::floor}}) {
    RoundTripJob j = job(262144, 2048, rule);
    j.along_rows = tensors[1], j.along_columns = tensors[2];
    compare("262144 x 2048, both", j.rows.rows * j.cols * 6, run(j));
    j.along_columns = nullptr;
    compare("262144 x 2048, along rows", j.rows.rows * j.cols * 4, run(j));
  }
  RoundTripJob j = job(262144, 1024);
  j.along_columns = tensors[1];
  compare("262144 x 1024, along columns", j.rows.rows * j.cols * 4, run(j));

  std::vector<std::int32_t> index(262144);  // eight experts of 32768 rows, each with its tokens ascending
  std::mt19937 random(1);
  for (auto& row : index) row = static_cast<std::int32_t>(random() % 32768);
  for (auto at = index.begin(); at != index.end(); at += 2048) std::sort(at, at + 2048);
  const Input<std::int32_t> on_device(index);
  j = job(262144, 4096), j.index = on_device.data(), j.along_columns = tensors[1];
  compare("32768 x 4096 gathered to 262144 rows, along columns", j.rows.rows * j.cols * 4, run(j));

  for (const std::int64_t experts : {128, 8}) {
    j = job(experts * 4096, 2048), j.expert_rows = 4096;
    j.along_columns = tensors[1];
    compare("weights of 4096 x 2048 an expert, along columns", j.rows.rows * j.cols * 4, run(j));
    j.along_rows = tensors[2];
    compare("weights of 4096 x 2048 an expert, both", j.rows.rows * j.cols * 6, run(j));
  }
}

}  // namespace
}  // namespace mxcheck::test
