#include "numerics/accumulate/exact_sum.h"

#include <bit>
#include <cmath>
#include <string>

#include "numerics/error.h"
#include "numerics/format/codec.h"

namespace mxcheck {

void ExactSum::add(bool negative, std::uint64_t magnitude, int exponent) {
  if (magnitude == 0) return;
  if (exponent < kLowest) {
    const int trailing = std::countr_zero(magnitude);
    if (exponent + trailing < kLowest) {
      throw Error(ErrorKind::usage, "a term of an exact sum has bits below 2^" + std::to_string(kLowest));
    }
    magnitude >>= kLowest - exponent;
    exponent = kLowest;
  }
  if (exponent + static_cast<int>(std::bit_width(magnitude)) > 512) {
    throw Error(ErrorKind::usage, "a term of an exact sum reaches 2^512");
  }
  const auto at = static_cast<unsigned>(exponent - kLowest);
  const unsigned shift = at % 64;
  const std::uint64_t low = magnitude << shift;
  const std::uint64_t high = shift == 0 ? 0 : magnitude >> (64 - shift);
  bool carry = false;
  for (std::size_t i = at / 64, part = 0; i < words_.size() && (part < 2 || carry); ++i, ++part) {
    const std::uint64_t term = part == 0 ? low : part == 1 ? high : 0;
    std::uint64_t sum = 0;
    bool over =
        negative ? __builtin_sub_overflow(words_[i], term, &sum) : __builtin_add_overflow(words_[i], term, &sum);
    const std::uint64_t before = sum;
    sum = negative ? sum - (carry ? 1 : 0) : sum + (carry ? 1 : 0);
    over = over || (carry && (negative ? before == 0 : before == ~std::uint64_t{0}));
    words_[i] = sum;
    carry = over;
  }
}

std::uint32_t ExactSum::rounded(Format format) const {
  const FormatSpec& f = spec(format);
  if (f.encoding != Encoding::ieee) {
    throw Error(ErrorKind::usage,
                "an exact sum is not rounded to " + std::string(f.name) + ", which has no infinities");
  }
  const bool negative = words_.back() >> 63 != 0;
  std::array<std::uint64_t, kWords> m = words_;
  if (negative) {
    bool carry = true;
    for (std::uint64_t& w : m) {
      w = ~w + (carry ? 1 : 0);
      carry = carry && w == 0;
    }
  }
  std::size_t top = m.size();
  while (top > 0 && m[top - 1] == 0) --top;
  if (top == 0) return 0;
  // The highest 53 bits, the last of them set when anything below is: rounding to at most 24 bits cannot tell the
  // difference, for subnormals neither (they keep fewer).
  const int width = static_cast<int>(std::bit_width(m[top - 1]));
  const int high_bit = static_cast<int>(top - 1) * 64 + width - 1;
  std::uint64_t head = m[top - 1] << (64 - width);
  if (top > 1 && width < 64) head |= m[top - 2] >> width;
  bool rest = (head & 0x7FF) != 0;
  head >>= 11;
  if (top > 1) rest = rest || (width < 64 ? m[top - 2] << (64 - width) : m[top - 2]) != 0;
  for (std::size_t i = 0; i + 2 < top; ++i) rest = rest || m[i] != 0;
  head |= rest ? 1 : 0;
  const double value = std::ldexp(static_cast<double>(head), high_bit - 52 + kLowest);
  return encode(format, negative ? -value : value, Rounding::nearest_even, Overflow::non_saturate);
}

}  // namespace mxcheck
