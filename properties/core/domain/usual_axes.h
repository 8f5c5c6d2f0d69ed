#pragma once
// Axes that several operations have: what variants decide, the number of experts, where tensors begin, threads, kinds
// of data, row indices.

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "properties/core/domain/domain.h"

namespace mxcheck {

// A field of variants: one bin for each text that it has among them.
class VariantAxis {
 public:
  using Text = std::function<std::string(const Variant&)>;
  void of(std::span<const Variant> variants, Text text);
  [[nodiscard]] std::vector<Bin> bins() const { return word_bins(texts_); }
  [[nodiscard]] std::int64_t index_of(const Variant& v) const;  // kNotOnAxis: none of them

 private:
  Text text_;
  std::vector<std::string> texts_;
};

// 1 to 512 groups; 8, 16, 32, 64, 128, 256 and 512, and the next above each, are bins of their own.
std::vector<Bin> expert_count_bins();

// Elements between the end of a row and the next row.
inline constexpr std::array<std::int64_t, 7> kStrideGaps{0, 1, 2, 8, 9, 32, 33};
inline constexpr std::int64_t kMostStrideGap = 5000;

class UsualAxes {
 public:
  UsualAxes() = default;
  UsualAxes(const Statement& s, bool cuda);

  [[nodiscard]] bool cuda() const { return cuda_; }
  [[nodiscard]] std::vector<Bin> data_bins() const;         // values: Data
  [[nodiscard]] static std::vector<Bin> offset_bins();      // each of 0 to 15; 16 and 32, which are not at 64
  [[nodiscard]] static std::vector<Bin> few_offset_bins();  // of tensors of several widths
  [[nodiscard]] static std::vector<Bin> thread_bins();      // 0 to 64
  // From how many rows x's rows are taken by index: none, one, fewer, as many, more.
  [[nodiscard]] static std::vector<Bin> index_bins();
  [[nodiscard]] static std::int64_t index_kind(const Case& c);
  [[nodiscard]] static std::int64_t source_rows(int kind, std::int64_t rows, Draw& draw);

 private:
  std::vector<Data> data_;
  bool cuda_ = false;
};

}  // namespace mxcheck
