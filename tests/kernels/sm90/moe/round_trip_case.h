#pragma once
// A round trip through block formats on the device (kernels/sm90/moe/round_trip.h), and what the reference's
// quantize and dequantize make of the same matrix.

#include <gtest/gtest.h>

#include <algorithm>
#include <ios>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "kernels/sm90/moe/round_trip.h"
#include "reference/quantize/quantize.h"
#include "tests/kernels/sm90/moe/blocks.h"
#include "tests/kernels/sm90/moe/device.h"

namespace mxcheck::test {

using namespace mxcheck_kernels::sm90;
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

inline Format format_of(RoundRule rule) {
  const Format formats[] = {Format::e4m3, Format::e5m2, Format::e2m1, Format::e2m3, Format::e3m2};
  return formats[static_cast<std::size_t>(rule.format)];
}
inline mxcheck::Recipe recipe_of(RoundRule rule) {
  const char* const names[] = {"rceil", "floor", "deepgemm_host"};
  return mxcheck::recipe_named(names[static_cast<std::size_t>(rule.scale)]);
}
inline std::string text_of(RoundRule rule) {
  return std::string(mxcheck::spec(format_of(rule)).name) + "_" + recipe_of(rule).name;
}

inline Words defined(const Matrix& m, RoundRule rule, bool columns) {
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

inline void expect_equal(const DeviceMemory<std::uint16_t>& out, const Words& right, const Matrix& m,
                         const char* what) {
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

inline void expect_defined(const Matrix& m, const Rules& rules) {
  const OnDevice device(m, rules);
  device.launch();
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  if (rules.rows) expect_equal(*device.along_rows, defined(m, *rules.rows, false), m, "along rows");
  if (rules.columns) expect_equal(*device.along_columns, defined(m, *rules.columns, true), m, "along columns");
}

}  // namespace mxcheck::test
