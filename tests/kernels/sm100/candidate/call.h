#pragma once
// A right call of the emulated library, of small integers whose product is exact, for tests that make it wrong.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/candidate_matmul.h"
#include "tests/kernels/refusals.h"

namespace mxcheck::test {

// The codes of -2, -1, 0, 1, 2 in E4M3 and E5M2; the element at (row, k) of a matrix.
inline constexpr std::uint8_t kE4m3[] = {0xC0, 0xB8, 0x00, 0x38, 0x40};
inline constexpr std::uint8_t kE5m2[] = {0xC0, 0xBC, 0x00, 0x3C, 0x40};
inline int number_at(std::int64_t row, std::int64_t k, std::int64_t salt) {
  return static_cast<int>((row * 7 + k * 3 + row * k + salt) % 5) - 2;
}

struct MatmulOptions {
  std::int64_t m = 5, n = 7, k = 48;
  std::int32_t grouping = MXCHECK_DENSE;
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> index;
  std::int64_t a_rows = 0;  // with an index
  bool adds = false;
  bool in_place = false;
  float alpha = 1;
  bool bf16 = false;
};

struct ValidMatmul : ValidCall {
  explicit ValidMatmul(const MatmulOptions& options) : options(options) { make(); }
  explicit ValidMatmul(const std::string&, const MatmulOptions& options = {}) : ValidMatmul(options) {}

  // The right value of an element of D, an integer.
  [[nodiscard]] float expected(std::int64_t row, std::int64_t column) const {
    const MatmulOptions& o = options;
    const bool by_depth = o.grouping == MXCHECK_DEPTH;
    const std::int64_t group = by_depth ? row / o.m : 0;
    std::int64_t a_row = by_depth ? row % o.m : row;
    std::int64_t expert = 0;
    while (o.grouping == MXCHECK_ROWS && o.offsets[static_cast<std::size_t>(expert) + 1] <= a_row) ++expert;
    if (!o.index.empty()) a_row = o.index[static_cast<std::size_t>(a_row)];
    const std::int64_t begin = by_depth ? o.offsets[static_cast<std::size_t>(group)] : 0;
    const std::int64_t end = by_depth ? o.offsets[static_cast<std::size_t>(group) + 1] : o.k;
    int sum = 0;
    for (std::int64_t k = begin; k < end; ++k) {
      // Scales of A are 2 in odd rows, those of B 1 throughout.
      sum += number_at(a_row, k, 0) * number_at(expert * o.n + column, k, 1) * (a_row % 2 == 1 ? 2 : 1);
    }
    return o.alpha * static_cast<float>(sum) + (o.adds ? static_cast<float>(column % 3) : 0.0F);
  }

  MatmulOptions options;
  mxcheck_matmul_policy policy{};
  std::vector<std::byte> space;  // of the workspace

 private:
  void fill(TestTensor& t, std::int64_t k, const std::uint8_t* codes, std::int64_t salt) {
    for (std::int64_t i = 0; i < t.shape[0] * k; ++i) {
      t.memory.data()[i] = codes[number_at(i / k, i % k, salt) + 2];
    }
  }

  void make();
};

}  // namespace mxcheck::test
