// multiply() of kind::mxf4 and kind::mxf4nvf4. Eight columns of D are a vector: 16-bit sums of twice the values'
// products hold a group, whose largest is 2304.
#include <array>
#include <cstddef>
#include <vector>

#include "emulation/sm100/tensor_core/groups.h"
#include "emulation/sm100/tensor_core/instruction.h"

namespace mxcheck::emulation::sm100::detail {
namespace {

constexpr int kColumns = 8;
constexpr int kFp4K = kGroup * kGroups;
constexpr int kFp4RowBytes = kFp4K / 2;

using Words = std::int16_t __attribute__((vector_size(2 * kColumns)));

// A row of A or of B: twice its values, which of them are not zero, and its scales.
struct Fp4Row {
  std::array<std::int16_t, kFp4K> twice;
  std::array<std::uint32_t, kGroups> some;
  std::array<GroupScale, kGroups> scales;
};

Fp4Row fp4_row(MmaKind kind, bool negate, const std::uint8_t* codes, const std::uint8_t* scales) {
  Fp4Row row{};
  const int groups_of_scale = kGroups / scales_of_row(kind);
  for (std::size_t i = 0; i < kFp4K; ++i) {
    const int twice = twice_of(codes[i / 2] >> (4 * (i % 2)) & 0xFU);
    row.twice[i] = static_cast<std::int16_t>(negate ? -twice : twice);
    if (twice != 0) row.some[i / kGroup] |= 1U << i % kGroup;
  }
  for (int g = 0; g < kGroups; ++g) {
    row.scales[static_cast<std::size_t>(g)] =
        group_scale(kind == MmaKind::mxf4nvf4_block16, scales[g / groups_of_scale]);
  }
  return row;
}

// The dot products of a group of A's row with those of eight rows of B.
Words dots(const Fp4Row& a, const std::array<Words, kFp4K>& b, std::size_t group) {
  Words sums{};
  for (std::size_t i = group * kGroup; i < (group + 1) * kGroup; ++i) sums += b[i] * a.twice[i];
  return sums;
}

}  // namespace

void multiply_fp4(const Instruction& instruction, const std::uint8_t* a, const std::uint8_t* b,
                  const std::uint8_t* scales_a, const std::uint8_t* scales_b, std::uint32_t* d, std::size_t d_stride,
                  int m_rows, bool accumulate) {
  const bool ue4m3 = instruction.kind == MmaKind::mxf4nvf4_block16;
  const auto per_row = static_cast<std::size_t>(scales_of_row(instruction.kind));
  const auto rows = static_cast<std::size_t>(m_rows);
  std::vector<Fp4Row> left;
  for (std::size_t m = 0; m < rows; ++m)
    left.push_back(fp4_row(instruction.kind, instruction.negate_a, a + m * kFp4RowBytes, scales_a + m * per_row));
  std::array<Fp4Row, kColumns> right;
  std::array<Words, kFp4K> columns;
  for (std::size_t n = 0; n < static_cast<std::size_t>(instruction.n); n += kColumns) {
    for (std::size_t j = 0; j < kColumns; ++j) {
      right[j] =
          fp4_row(instruction.kind, instruction.negate_b, b + (n + j) * kFp4RowBytes, scales_b + (n + j) * per_row);
      for (std::size_t i = 0; i < kFp4K; ++i) columns[i][j] = right[j].twice[i];
    }
    for (std::size_t m = 0; m < rows; ++m) {
      const Fp4Row& row = left[m];
      std::array<Words, kGroups> sums;
      for (std::size_t g = 0; g < kGroups; ++g) sums[g] = dots(row, columns, g);
      for (std::size_t j = 0; j < kColumns; ++j) {
        GroupTerm terms[kGroups];
        for (std::size_t g = 0; g < kGroups; ++g)
          terms[g] = group_term(sums[g][j], (row.some[g] & right[j].some[g]) != 0, row.scales[g], right[j].scales[g]);
        std::uint32_t& word = d[m * d_stride + n + j];
        word = word_of_groups(terms, ue4m3, accumulate ? word : 0);
      }
    }
  }
}

}  // namespace mxcheck::emulation::sm100::detail
