// BF16 through block formats and back on the device (kernels/sm90/moe/quantize/round_trip.h), every bit compared with
// the reference's quantize and dequantize; any NaN equals any other. Needs a GPU; without one every test is skipped.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <string>

#include "kernels/sm90/moe/quantize/round_trip.h"
#include "reference/quantize/quantize.h"
#include "tests/kernels/sm90/moe/blocks.h"
#include "tests/kernels/sm90/moe/device_memory.h"

namespace {

using namespace mxcheck_kernels::sm90;
using namespace mxcheck::test;
using Words = std::vector<std::uint16_t>;
using mxcheck::Format;

struct Matrix {
  Words x;
  std::int64_t cols;
  std::vector<std::int64_t> offsets = {};
  std::vector<std::int32_t> index = {};
  std::int64_t expert_rows = 0;

  [[nodiscard]] std::int64_t rows() const {
    return index.empty() ? static_cast<std::int64_t>(x.size()) / cols : static_cast<std::int64_t>(index.size());
  }
};
struct Rules {
  std::optional<RoundRule> rows;
  std::optional<RoundRule> columns;
};

Format format_of(RoundRule rule) {
  return rule.format == RoundFormat::e4m3   ? Format::e4m3
         : rule.format == RoundFormat::e5m2 ? Format::e5m2
                                            : Format::e2m1;
}
mxcheck::Recipe recipe_of(RoundRule rule) {
  const char* const names[] = {"rceil", "floor", "deepgemm_host"};
  return mxcheck::recipe_named(names[static_cast<std::size_t>(rule.scale)]);
}
std::string text_of(RoundRule rule) {
  return std::string(mxcheck::spec(format_of(rule)).name) + "_" + recipe_of(rule).name;
}

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
  const mxcheck::MatrixView view{Format::bf16, std::as_bytes(std::span(x)).data(), m.rows(), m.cols, m.cols};
  const mxcheck::BlockShape block = columns ? mxcheck::BlockShape{32, 1} : mxcheck::BlockShape{1, 32};
  return dequantize_bf16(quantize(view, format_of(rule), block, recipe_of(rule), offsets), offsets);
}

// A matrix on the device, planned, and its outputs.
class OnDevice {
 public:
  OnDevice(const Matrix& m, const Rules& rules)
      : x_(m.x), index_(m.index), offsets_(m.offsets), header_(kHeaderBytes), rules_(rules) {
    const auto size = static_cast<std::size_t>(m.rows() * m.cols);
    if (rules.rows) along_rows = std::make_unique<DeviceMemory<std::uint16_t>>(size);
    if (rules.columns) along_columns = std::make_unique<DeviceMemory<std::uint16_t>>(size);
    PlanJob plan;
    plan.rows = m.rows();
    if (!m.offsets.empty()) {
      plan.offsets = offsets_.data(), plan.experts = static_cast<std::int64_t>(m.offsets.size()) - 1;
    }
    table_ = std::make_unique<DeviceMemory<RowTile>>(static_cast<std::size_t>(most_tiles(plan)));
    EXPECT_EQ(make_plan(plan, header(), table_->data(), nullptr), cudaSuccess);
    job_.x = x_.data(), job_.cols = m.cols, job_.expert_rows = m.expert_rows;
    if (!m.index.empty()) job_.index = index_.data();
    job_.rows = {m.rows(), most_tiles(plan), header(), m.offsets.empty() ? nullptr : table_->data()};
    if (rules.rows) job_.along_rows = along_rows->data(), job_.row_rule = *rules.rows;
    if (rules.columns) job_.along_columns = along_columns->data(), job_.column_rule = *rules.columns;
  }
  void refuse() const {
    const std::int32_t status = MXCHECK_INVALID;
    EXPECT_EQ(cudaMemcpy(header(), &status, sizeof(status), cudaMemcpyHostToDevice), cudaSuccess);
  }
  void launch(cudaStream_t stream = nullptr) const { EXPECT_EQ(launch_round_trip(job_, stream), cudaSuccess); }
  [[nodiscard]] PlanHeader* header() const { return reinterpret_cast<PlanHeader*>(header_.data()); }

  std::unique_ptr<DeviceMemory<std::uint16_t>> along_rows;
  std::unique_ptr<DeviceMemory<std::uint16_t>> along_columns;

 private:
  DeviceMemory<std::uint16_t> x_;
  DeviceMemory<std::int32_t> index_;
  DeviceMemory<std::int64_t> offsets_;
  DeviceMemory<unsigned char> header_;
  std::unique_ptr<DeviceMemory<RowTile>> table_;
  RoundTripJob job_;
  Rules rules_;
};

void expect_equal(const DeviceMemory<std::uint16_t>& out, const Words& right, const Matrix& m, const char* what) {
  const Words mine = out.values();
  ASSERT_EQ(mine.size(), right.size());
  const auto at = std::mismatch(mine.begin(), mine.end(), right.begin(), same_bf16);
  if (at.first != mine.end()) {
    const auto i = at.first - mine.begin();
    ADD_FAILURE() << what << ": row " << i / m.cols << ", column " << i % m.cols << " is " << std::hex << *at.first
                  << ", must be " << *at.second;
  }
  EXPECT_TRUE(out.guards_intact()) << what;
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
class Rows : public RoundTrip {};

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
  for (const RoundFormat format : {RoundFormat::e4m3, RoundFormat::e5m2, RoundFormat::e2m1}) {
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
    EXPECT_TRUE(device.along_rows->untouched() && device.along_columns->untouched());
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

}  // namespace
