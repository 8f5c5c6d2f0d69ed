// BF16 through block formats and back on the device, every bit compared with the reference; any NaN equals any other.
// Needs a GPU; without one every test is skipped.

#include <gtest/gtest.h>

#include "tests/kernels/sm90/moe/round_trip_case.h"

namespace {

using namespace mxcheck::test;

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
