// Operands in NVFP4 on the device (kernels/sm90/moe/two_level.h), every bit compared with what the layer's reference
// makes of the same matrix; any NaN equals any other. Needs a GPU; without one every test is skipped.

#include <bit>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/sm90/moe/two_level.h"
#include "reference/layer/operands.h"
#include "reference/layer/run.h"
#include "tests/kernels/sm90/moe/device.h"
#include "tests/kernels/sm90/moe/samples.h"

namespace mxcheck::test {
namespace {

using namespace mxcheck_kernels::sm90;
using MatrixWords = std::vector<std::uint16_t>;

struct Setting {
  const char* name;
  TwoLevelBlocks blocks;
  TwoLevelRule rule;
  bool by_columns = false;  // squares of the matrix the other way round
};
constexpr LayerRandom kRandom{0x123456789ABCDEF0U, 77, 5};
constexpr std::uint32_t kOperand = 9;

mxcheck::OperandRule rule_of(const Setting& s) {
  mxcheck::OperandRule rule{Format::e2m1, {1, 16}, s.rule.four_over_six ? "nvfp4_46" : "nvfp4_te"};
  if (s.rule.squares) rule.block = {16, 16};
  rule.rotates = s.rule.rotates ? 16 : 0, rule.stochastic = s.rule.stochastic;
  return rule;
}

// Each expert's matrix of rows x cols, as cols x rows.
MatrixWords transposed_experts(const MatrixWords& x, std::int64_t experts, std::int64_t rows, std::int64_t cols) {
  MatrixWords out(x.size());
  for (std::int64_t i = 0; i < experts * rows * cols; ++i) {
    const std::int64_t e = i / (rows * cols), r = i / cols % rows, c = i % cols;
    out[at((e * cols + c) * rows + r)] = x[at(i)];
  }
  return out;
}

LayerOperand reference_of(const GatheredMatrix& m, const Setting& s) {
  const mxcheck::OperandRule rule = rule_of(s);
  const OperandWords words{kRandom, kOperand};
  const std::int64_t of = m.index.empty() ? m.rows() : std::ssize(m.x) / m.cols;
  const TokenRows rows{view(m.x, of, m.cols), !m.index.empty()};
  if (s.blocks == TwoLevelBlocks::squares) {
    const std::int64_t experts = m.expert_rows == 0 ? 1 : m.rows() / m.expert_rows;
    if (!s.by_columns) return weight_operand(rule, rows.values, experts, 0, words);
    const MatrixWords turned = transposed_experts(m.x, experts, m.rows() / experts, m.cols);
    return weight_operand(rule, view(turned, experts * m.cols, m.rows() / experts), experts, 0, words);
  }
  if (s.blocks == TwoLevelBlocks::rows) {
    const std::vector<std::byte> taken = m.index.empty() ? std::vector<std::byte>() : gathered(rows.values, m.index);
    const MatrixView all{Format::bf16, taken.data(), m.rows(), m.cols, m.cols};
    return row_operand(rule, {m.index.empty() ? rows.values : all, false}, {}, 0, words);
  }
  const std::vector<std::int64_t> one{0, m.rows()};
  return column_operand(rule, rows, {m.index, m.offsets.empty() ? one : m.offsets}, 0, words);
}

// code * block scale in BF16, and the bits of the amax.
MatrixWords values_of_codes(LayerOperand x, std::span<const std::int64_t> offsets, std::int64_t expert_rows) {
  x.quantized.levels.resize(1);
  std::vector<std::int64_t> experts;
  for (std::int64_t row = 0; expert_rows != 0 && row <= x.rows; row += expert_rows) experts.push_back(row);
  const std::span<const std::int64_t> of = expert_rows != 0 ? std::span<const std::int64_t>(experts) : offsets;
  return dequantize_bf16(x.quantized, x.quantized.block().rows > 1 ? of : std::span<const std::int64_t>());
}

void expect_two_level(const GatheredMatrix& m, const Setting& s) {
  const Input<std::uint16_t> x(m.x);
  const Input<std::int32_t> index(m.index);
  const Input<std::int64_t> offsets(m.offsets);
  const DeviceBytes header(kHeaderBytes);
  PlanJob plan;
  plan.rows = m.rows();
  if (!m.offsets.empty()) plan.offsets = offsets.data(), plan.experts = std::ssize(m.offsets) - 1;
  const DeviceBytes table(static_cast<std::size_t>(most_tiles(plan)) * sizeof(RowTile));
  auto* const head = static_cast<PlanHeader*>(header.data());
  auto* const tiles = static_cast<RowTile*>(table.data());
  ASSERT_EQ(make_plan(plan, head, tiles, nullptr), cudaSuccess);
  Output<std::uint16_t> values(m.rows() * m.cols);
  Output<std::uint32_t> amax(1);
  TwoLevelJob job;
  job.x = x.data(), job.cols = m.cols, job.expert_rows = m.expert_rows;
  if (!m.index.empty()) job.index = index.data();
  job.rows = {m.rows(), most_tiles(plan), head, m.offsets.empty() ? nullptr : tiles};
  job.blocks = s.blocks, job.by_columns = s.by_columns, job.rule = s.rule;
  job.random = {kRandom.seed, 0x80000000U | kRandom.layer << 8 | kOperand, kRandom.step};
  job.values = values.data(), job.amax = amax.data();
  ASSERT_EQ(done(launch_two_level(job, nullptr)), cudaSuccess) << s.name;
  const LayerOperand right = reference_of(m, s);
  const std::uint32_t outer = right.quantized.levels[1].scales.empty() ? 0 : right.quantized.levels[1].scales.code(0);
  const std::uint32_t found = amax.read()[0] << 16;
  const bool both_nan = (outer & 0x7FFFFFFF) > 0x7F800000 && found > 0x7F800000;
  EXPECT_TRUE(found == outer || both_nan) << s.name << ": amax " << std::hex << found << ", must be " << outer;
  const MatrixWords mine = values.read();
  const std::int64_t experts = m.expert_rows == 0 ? 1 : m.rows() / m.expert_rows;
  MatrixWords want = values_of_codes(right, m.offsets, s.by_columns ? m.cols : m.expert_rows);
  if (s.by_columns) want = transposed_experts(want, experts, m.cols, m.rows() / experts);
  ASSERT_EQ(mine.size(), want.size());
  const auto [found_at, wanted_at] = std::mismatch(mine.begin(), mine.end(), want.begin(), same_bf16);
  if (found_at == mine.end()) return;
  const auto i = found_at - mine.begin();
  ADD_FAILURE() << s.name << ": row " << i / m.cols << ", column " << i % m.cols << " is " << std::hex << *found_at
                << ", must be " << *wanted_at;
}

class TwoLevelOperand : public ::testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no CUDA device";
  }
  [[nodiscard]] bool by_column() const { return GetParam().blocks == TwoLevelBlocks::columns; }
};

TEST_P(TwoLevelOperand, has_the_values_of_ordinary_numbers) {
  for (const std::int64_t cols : {8, 16, 40, 264}) {
    const auto count = static_cast<std::size_t>(300 * cols);
    expect_two_level({ordinary_words(count, static_cast<std::uint32_t>(cols)), cols}, GetParam());
  }
}

TEST_P(TwoLevelOperand, has_the_values_of_blocks_with_nan_and_infinity) {
  expect_two_level({all_words(64 * 1024, 1), 64}, GetParam());
  MatrixWords few = ordinary_words(96 * 200, 2);
  few[50 * 96 + 7] = 0xFFC0, few[199 * 96 + 95] = 0x7FFF;
  expect_two_level({few, 96}, GetParam());
  few[5] = 0x7F80;
  expect_two_level({few, 96}, GetParam());
  expect_two_level({MatrixWords(96 * 40, 0x8000), 96}, GetParam());
  expect_two_level({MatrixWords(96 * 40, 0x0001), 96}, GetParam());
}

TEST_P(TwoLevelOperand, restarts_at_each_expert_and_takes_rows_by_an_index) {
  if (!by_column()) GTEST_SKIP() << "for columns";
  std::vector<std::int64_t> offsets = {0};
  for (const std::int64_t r : {0, 1, 15, 16, 17, 0, 127, 128, 129, 300, 0}) offsets.push_back(offsets.back() + r);
  for (const std::int64_t cols : {8, 40, 264}) {
    const auto count = static_cast<std::size_t>(offsets.back() * cols);
    expect_two_level({ordinary_words(count, static_cast<std::uint32_t>(cols)), cols, offsets}, GetParam());
  }
  GatheredMatrix m{ordinary_words(50 * 72, 3), 72, {0, 100, 100, 333}};
  std::uint32_t state = 4;
  for (int i = 0; i < 333; ++i) m.index.push_back(static_cast<std::int32_t>(next_word(state) % 50));
  expect_two_level(m, GetParam());
}

TEST_P(TwoLevelOperand, takes_experts_of_as_many_rows) {
  if (GetParam().blocks != TwoLevelBlocks::squares) GTEST_SKIP() << "for weights";
  for (const std::int64_t rows : {1, 16, 40, 128, 200}) {
    GatheredMatrix m{ordinary_words(static_cast<std::size_t>(rows * 5 * 104), 5), 104};
    m.expert_rows = rows;
    expect_two_level(m, GetParam());
  }
}

constexpr std::array kSettings{
    Setting{"rows", TwoLevelBlocks::rows, {}},
    Setting{"rows_stochastic", TwoLevelBlocks::rows, {.stochastic = true}},
    Setting{"rows_46", TwoLevelBlocks::rows, {.four_over_six = true}},
    Setting{"columns", TwoLevelBlocks::columns, {}},
    Setting{"columns_rotated", TwoLevelBlocks::columns, {.rotates = true}},
    Setting{"columns_rotated_stochastic", TwoLevelBlocks::columns, {.rotates = true, .stochastic = true}},
    Setting{"columns_rotated_46", TwoLevelBlocks::columns, {.four_over_six = true, .rotates = true}},
    Setting{"squares", TwoLevelBlocks::squares, {.squares = true}},
    Setting{"squares_46", TwoLevelBlocks::squares, {.squares = true, .four_over_six = true}},
    Setting{"squares_46_by_columns", TwoLevelBlocks::squares, {.squares = true, .four_over_six = true}, true}};
INSTANTIATE_TEST_SUITE_P(Settings, TwoLevelOperand, ::testing::ValuesIn(kSettings),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(DeviceTest, alpha_is_the_product_of_both_outer_scales) {
  const Input<std::uint32_t> a(std::vector<std::uint32_t>{0x4123});
  const Input<std::uint32_t> b(std::vector<std::uint32_t>{0x3F35});
  const auto of = [](std::uint32_t amax, float unit) { return std::bit_cast<float>(amax << 16) / unit; };
  for (const bool both : {false, true}) {
    Output<float> alpha(1);
    AlphaJob job;
    job.alpha = alpha.data(), job.amax_a = a.data(), job.unit_a = 2688;
    if (both) job.amax_b = b.data(), job.unit_b = 1536;
    ASSERT_EQ(done(launch_alpha(job, nullptr)), cudaSuccess);
    EXPECT_EQ(alpha.read()[0], of(0x4123, 2688) * (both ? of(0x3F35, 1536) : 1));
  }
}

}  // namespace
}  // namespace mxcheck::test
