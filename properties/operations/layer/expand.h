#pragma once
// Expands a case of a step to the elements of its tensors. Gate and up value (i, j), p(i, j), the weight of row i and
// y(i, j) are pure functions of seed, data and place in an endless matrix, of which a case is a window: no element
// depends on how large the case is.
//
//   zeros       +0; weights are 1
//   boundaries  by tiles of 32 x 32: an amax on the edges where a scale byte changes; gates around the thresholds of
//               reference/layer/swiglu.h; values of A in the middle between two of BF16; A on and beside the values and
//               midpoints of the element format
//   codes       A is a value of the element format times a power of two: g is a power of two from 32 on, where the
//               sigmoid is 1; p and weights are powers of two
//   normal      as in training; exponents differ by row, with outliers
//   bits, wide  any pattern; any finite magnitude
//   specials    by tiles: whole tiles of zeros, infinities, NaN and subnormals, one of them among ordinary ones, a mix
//   sparse      one element in 32 of a row and of a column, and a quarter of the rows of zeros: blocks of zeros
//   slots       sign, mantissa and exponent say the place
//   every_word  gate number i, row by row, is the BF16 pattern seed + i
//   every_row   row by row each p with each weight, column by column each gate with each up value, of lists of those
//               that are special (kSpecialRows, kSpecialCols)
//   real        windows of the committed tensors of a trained model

#include <cstdint>
#include <vector>

#include "properties/core/input.h"
#include "properties/operations/layer/fields.h"

namespace mxcheck {

inline constexpr std::int64_t kSpecialCols = 40 * 14;
inline constexpr std::int64_t kSpecialRows = 12 * 10;

class StepElements {
 public:
  explicit StepElements(const Case& c);

  struct Pair {  // of gate and up value, BF16
    std::uint16_t gate;
    std::uint16_t up;
  };
  [[nodiscard]] Pair pair(std::int64_t i, std::int64_t j) const;
  [[nodiscard]] float p(std::int64_t i, std::int64_t j) const;
  [[nodiscard]] float weight(std::int64_t i) const;
  [[nodiscard]] std::uint16_t y(std::int64_t i, std::int64_t j) const;

 private:
  [[nodiscard]] Pair of_a(double a, std::uint64_t word) const;
  [[nodiscard]] Pair boundaries(std::int64_t i, std::int64_t j, std::uint64_t word) const;
  [[nodiscard]] double edge_of_block(std::int64_t i, std::int64_t j, int exponent, std::uint64_t word) const;
  [[nodiscard]] std::uint16_t special(std::int64_t i, std::int64_t j, std::uint64_t word) const;
  [[nodiscard]] std::uint64_t tile_word(std::int64_t i, std::int64_t j, std::uint64_t salt) const;
  [[nodiscard]] int row_exponent(std::int64_t i) const;
  [[nodiscard]] bool is_there(std::int64_t i, std::int64_t j) const;  // of sparse

  Case c_;
  std::int64_t row_ = 0;
  std::int64_t col_ = 0;
  Format element_ = Format::e4m3;
  std::uint32_t most_code_ = 0;
  RealWindow gates_;
  RealWindow ups_;
};

// Slots of the tokens of an aggregation.
struct DrawnSlots {
  std::vector<std::int64_t> token_offsets;
  std::vector<std::int32_t> token_rows;
};
DrawnSlots expand_slots(const Case& c);

// Codes of h and the scale bytes of its blocks of 32: scales about 1, and in one case in four any.
std::vector<std::uint8_t> expand_coded_h(const Case& c);
std::vector<std::uint8_t> expand_scales_of_h(const Case& c);

}  // namespace mxcheck
