// Operands under MS-EDEN on the device (kernels/sm90/moe/ms_eden.h), every bit compared with what the layer's reference
// makes of the same matrix; any NaN equals any other. Needs a GPU; without one every test is skipped.

#include "kernels/sm90/moe/ms_eden.h"

#include <string>
#include <vector>

#include "reference/layer/operands.h"
#include "reference/layer/run.h"
#include "tests/kernels/sm90/moe/device.h"
#include "tests/kernels/sm90/moe/samples.h"

namespace mxcheck::test {
namespace {

using namespace mxcheck_kernels::sm90;
using EdenMatrix = std::vector<std::uint16_t>;

struct EdenSetting {
  const char* name;
  bool down_columns = false;
  bool made = false;  // x are values of two levels, whose amax is given
};
constexpr LayerRandom kEdenRandom{0x123456789ABCDEF0U, 77, 5};
constexpr std::uint32_t kEdenOperand = 9;
constexpr std::uint32_t kEdenStream = 0x80000000U | kEdenRandom.layer << 8;
constexpr std::uint32_t kEdenAmax = 0x3B51;
constexpr float kEdenMadeUnit = 1536;

LayerOperand eden_reference_of(const GatheredMatrix& m, const EdenSetting& s) {
  mxcheck::OperandRule rule{Format::e2m1, {1, 16}, "ms_eden"};
  rule.rotates = 128, rule.random_signs = rule.stochastic = true;
  const OperandWords words{kEdenRandom, kEdenOperand};
  const std::int64_t of = std::ssize(m.x) / m.cols;
  std::vector<float> values;
  const double amax = fp32_of(kEdenAmax);
  for (const std::uint16_t x : m.x)
    values.push_back(s.made ? static_cast<float>(fp32_of(x) * amax / kEdenMadeUnit) : fp32_of(x));
  const TokenRows rows{view(values, of, m.cols), !m.index.empty()};
  const std::vector<std::int64_t> one{0, m.rows()};
  if (s.down_columns) return column_operand(rule, rows, {m.index, m.offsets.empty() ? one : m.offsets}, 0, words);
  return row_operand(rule, {rows.values, false}, {}, 0, words);
}

void expect_words(const char* what, const GatheredMatrix& m, const EdenMatrix& mine, const EdenMatrix& want) {
  ASSERT_EQ(mine.size(), want.size());
  const auto [found_at, wanted_at] = std::mismatch(mine.begin(), mine.end(), want.begin(), same_bf16);
  if (found_at == mine.end()) return;
  const auto i = found_at - mine.begin();
  ADD_FAILURE() << what << ": row " << i / m.cols << ", column " << i % m.cols << " is " << std::hex << *found_at
                << ", must be " << *wanted_at;
}

void expect_eden(const GatheredMatrix& m, const EdenSetting& s) {
  const Input<std::uint16_t> x(m.x);
  const Input<std::int32_t> index(m.index);
  const Input<std::int64_t> offsets(m.offsets);
  const Input<std::uint32_t> x_amax(std::vector<std::uint32_t>{kEdenAmax});
  const DeviceBytes header(kHeaderBytes);
  PlanJob plan;
  plan.rows = m.rows();
  if (!m.offsets.empty()) plan.offsets = offsets.data(), plan.experts = std::ssize(m.offsets) - 1;
  const DeviceBytes table(static_cast<std::size_t>(most_tiles(plan)) * sizeof(RowTile));
  auto* const head = static_cast<PlanHeader*>(header.data());
  auto* const tiles = static_cast<RowTile*>(table.data());
  ASSERT_EQ(make_plan(plan, head, tiles, nullptr), cudaSuccess);
  Output<std::uint16_t> values(m.rows() * m.cols);
  Output<std::uint16_t> rotated(m.rows() * m.cols);
  Output<std::uint32_t> amax(1);
  MsEdenJob job;
  job.x = x.data(), job.cols = m.cols;
  if (s.made) job.x_amax = x_amax.data(), job.x_unit = kEdenMadeUnit;
  if (!m.index.empty()) job.index = index.data();
  job.rows = {m.rows(), most_tiles(plan), head, m.offsets.empty() ? nullptr : tiles};
  job.down_columns = s.down_columns;
  job.random = {kEdenRandom.seed, kEdenStream | kEdenOperand, kEdenRandom.step};
  job.signs = kEdenStream | (16 + kEdenOperand / 2);
  job.values = values.data(), job.rotated = rotated.data(), job.amax = amax.data();
  ASSERT_EQ(done(launch_ms_eden(job, nullptr)), cudaSuccess) << s.name;
  LayerOperand right = eden_reference_of(m, s);
  expect_words("rotated", m, rotated.read(), right.rotated);
  right.quantized.levels.resize(1);
  const std::span<const std::int64_t> experts = s.down_columns ? std::span(m.offsets) : std::span<const std::int64_t>();
  expect_words("values", m, values.read(), dequantize_bf16(right.quantized, experts));
}

class MsEdenOperand : public ::testing::TestWithParam<EdenSetting> {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_P(MsEdenOperand, has_the_values_of_ordinary_numbers) {
  for (const std::int64_t cols : {8, 16, 40, 136, 264}) {
    const auto count = static_cast<std::size_t>(300 * cols);
    expect_eden({ordinary_words(count, static_cast<std::uint32_t>(cols)), cols}, GetParam());
  }
}

TEST_P(MsEdenOperand, has_the_values_of_any_numbers) {
  expect_eden({all_words(64 * 1024, 1), 64}, GetParam());
  expect_eden({all_words(64 * 1024, 1), 512}, GetParam());
  EdenMatrix few = ordinary_words(96 * 200, 2);
  few[50 * 96 + 7] = 0xFFC0, few[199 * 96 + 95] = 0x7FFF, few[5] = 0x7F80;
  expect_eden({few, 96}, GetParam());
  expect_eden({EdenMatrix(96 * 40, 0x8000), 96}, GetParam());
  expect_eden({EdenMatrix(96 * 40, 0x0001), 96}, GetParam());
}

TEST_P(MsEdenOperand, restarts_at_each_expert_and_takes_rows_by_an_index) {
  if (!GetParam().down_columns) GTEST_SKIP() << "for columns";
  std::vector<std::int64_t> offsets = {0};
  for (const std::int64_t r : {0, 1, 15, 16, 17, 0, 127, 128, 129, 300, 0}) offsets.push_back(offsets.back() + r);
  for (const std::int64_t cols : {8, 40, 264}) {
    const auto count = static_cast<std::size_t>(offsets.back() * cols);
    expect_eden({ordinary_words(count, static_cast<std::uint32_t>(cols)), cols, offsets}, GetParam());
  }
  GatheredMatrix m{ordinary_words(50 * 72, 3), 72, {0, 100, 100, 333}};
  std::uint32_t state = 4;
  for (int i = 0; i < 333; ++i) m.index.push_back(static_cast<std::int32_t>(next_word(state) % 50));
  expect_eden(m, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Settings, MsEdenOperand,
                         ::testing::Values(EdenSetting{"rows"}, EdenSetting{"rows_of_two_levels", false, true},
                                           EdenSetting{"columns", true},
                                           EdenSetting{"columns_of_two_levels", true, true}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace mxcheck::test
