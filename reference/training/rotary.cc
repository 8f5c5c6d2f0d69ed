// The table of rotary positions: cosines and sines of exact numbers, rounded once.
//
// For each column pair the rotation by one position is taken with 100 digits, and that by p positions is its p-th power
// by repeated complex multiplication: 2^24 of them lose less than eight digits. Whether the number that is left decides
// an FP32 number is tested for every entry; there are no ties, since the cosine and the sine of an algebraic number
// other than 0 are transcendental (Lindemann).

#include "reference/common/checked_size.h"
#include "reference/training/attention.h"
#include "reference/training/exact_real.h"
#include "reference/training/parts.h"

namespace mxcheck {
namespace {

constexpr const char* kError = "1e-80";  // of a hundred digits

}  // namespace

RotaryTable rotary_table(std::int64_t length, std::int64_t head_width) {
  require(length >= 0 && head_width > 0 && head_width % 2 == 0,
          "a rotary table of " + std::to_string(length) + " positions and heads of " + std::to_string(head_width) +
              " columns; a length of 0 or more and an even width are needed");
  const std::int64_t pairs = head_width / 2;
  RotaryTable table;
  const std::int64_t size = checked_product(length, pairs, "rotary table");
  resize_or_throw(table.cosine, size, "rotary table");
  resize_or_throw(table.sine, size, "rotary table");
  const Real error(kError);
  for (std::int64_t j = 0; j < pairs; ++j) {
    const Real angle = pow(Real(10000), Real(-2 * j) / head_width);
    const Real step_cosine = cos(angle);
    const Real step_sine = sin(angle);
    Real cosine = 1;
    Real sine = 0;
    for (std::int64_t p = 0; p < length; ++p) {
      const auto at = static_cast<std::size_t>(p * pairs + j);
      table.cosine[at] = p == 0 ? 1.0F : nearest_float(cosine, error);
      table.sine[at] = p == 0 ? 0.0F : nearest_float(sine, error);
      const Real next = cosine * step_cosine - sine * step_sine;
      sine = sine * step_cosine + cosine * step_sine;
      cosine = next;
    }
  }
  return table;
}

}  // namespace mxcheck
