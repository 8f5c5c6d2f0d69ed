// Stochastic rounding and the butterfly of a random Hadamard transform, compiled once for each Highway target.
//
// Words come first: Philox in all lanes, whose 32 x 32 bit products are those of even and of odd lanes; by bytes the
// four outputs of a lane are 16 bytes in memory. A code is the bits of an element's quotient, to which the word is
// added below the last kept bit. The butterfly's first two stages exchange lanes of 128 bits, the others add and
// subtract whole vectors.

#if defined(MXCHECK_CPU_NVFP4_OPTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_CPU_NVFP4_OPTIONS_INL_H_
    #undef MXCHECK_CPU_NVFP4_OPTIONS_INL_H_
  #else
    #define MXCHECK_CPU_NVFP4_OPTIONS_INL_H_
  #endif

  #include <algorithm>
  #include <bit>
  #include <cmath>
  #include <cstddef>
  #include <cstdint>

  #include "hwy/highway.h"
  #include "kernels/common/nvfp4/options.h"
  #include "kernels/cpu/nvfp4/levels.h"
  #include "kernels/cpu/nvfp4/scalar_block.h"
  #include "kernels/cpu/quantize/lanes_inl.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_kernels::cpu {
namespace HWY_NAMESPACE {

  #if HWY_TARGET != HWY_SCALAR

// The butterfly of n floats, a multiple of 16.
HWY_INLINE void butterfly(float* v, int n) {
  HWY_ALIGN static constexpr std::uint32_t kOdd[4] = {0, 0x80000000U, 0, 0x80000000U};
  HWY_ALIGN static constexpr std::uint32_t kUpper[4] = {0, 0, 0x80000000U, 0x80000000U};
  const hn::CappedTag<float, 4> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const auto odd = hn::BitCast(d, hn::Load(du, kOdd));
  const auto upper = hn::BitCast(d, hn::Load(du, kUpper));
  for (int i = 0; i < n; i += 4) {
    auto a = hn::Load(d, v + i);
    a = hn::Add(hn::Shuffle2301(a), hn::Xor(a, odd));
    a = hn::Add(hn::Shuffle1032(a), hn::Xor(a, upper));
    hn::Store(a, d, v + i);
  }
  for (int h = 4; h < n; h *= 2) {
    for (int i = 0; i < n; i += i % (2 * h) + 4 == h ? h + 4 : 4) {
      const auto low = hn::Load(d, v + i), high = hn::Load(d, v + i + h);
      hn::Store(hn::Add(low, high), d, v + i);
      hn::Store(hn::Sub(low, high), d, v + i + h);
    }
  }
}

// The high and the low halves of a * b.
template <class D, class V>
HWY_INLINE void products(D d, V a, std::uint32_t b, V& high, V& low) {
  const hn::Repartition<std::uint64_t, D> d64;
  const auto factor = hn::Set(d, b);
  const auto even = hn::MulEven(a, factor);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, a))), factor);
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
}

// The four outputs of Philox under consecutive counters from this number on, one a lane. high: the bits of a number's
// high half, beyond which it starts from 0.
template <class D, class V>
HWY_INLINE void philox_from(D d, const Nvfp4Words& words, std::uint64_t first, std::uint32_t high, V& c0, V& c1, V& c2,
                            V& c3) {
  const auto low = hn::Set(d, static_cast<std::uint32_t>(first));
  c0 = hn::Add(low, hn::Iota(d, 0U));
  const auto carry = hn::VecFromMask(d, hn::Lt(c0, low));  // -1 where the sum wrapped
  c1 = hn::And(hn::Sub(hn::Set(d, static_cast<std::uint32_t>(first >> 32)), carry), hn::Set(d, high));
  c2 = hn::Set(d, words.counter[0]);
  c3 = hn::Set(d, words.counter[1]);
  std::uint32_t k0 = static_cast<std::uint32_t>(words.seed), k1 = static_cast<std::uint32_t>(words.seed >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9U, k1 += 0xBB67AE85U) {
    V high0, low0, high1, low1;
    products(d, c0, 0xD2511F53U, high0, low0);
    products(d, c2, 0xCD9E8D57U, high1, low1);
    c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, k0)), c1 = low1;
    c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, k1)), c3 = low0;
  }
}

// The words of consecutive elements from this one on, one a lane.
template <class D, class V = hn::VFromD<D>>
HWY_INLINE V words_from(D d, const Nvfp4Words& words, std::uint64_t element) {
  V c0, c1, c2, c3;
  philox_from(d, words, element + words.offset, ~0U, c0, c1, c2, c3);
  return c0;
}

constexpr std::int64_t kElementsOfCall = 16;  // of bytes

// The bytes of a word in the order of its four elements: the middle ones change places.
template <class D, class V>
HWY_INLINE V bytes_in_order(D d, V word) {
  const auto ends = hn::And(word, hn::Set(d, 0xFF0000FFU));
  const auto second = hn::And(hn::ShiftRight<8>(word), hn::Set(d, 0xFF00U));
  return hn::Or(ends, hn::Or(second, hn::And(hn::ShiftLeft<8>(word), hn::Set(d, 0xFF0000U))));
}

// Writes the bytes of elements [element, element + count) as if `element` was the first of its 16, and returns those of
// the element. to: room for the calls of count + 15 elements, and of a vector.
HWY_INLINE const std::uint8_t* random_bytes(const Nvfp4Words& words, std::uint64_t element, std::int64_t count,
                                            std::uint32_t* to) {
  const hn::CappedTag<std::uint32_t, 8> d;
  constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  const std::uint64_t number = words.offset + element;
  const auto before = static_cast<std::int64_t>(number % kElementsOfCall);
  for (std::int64_t i = 0; i < before + count; i += kLanes * kElementsOfCall) {
    hn::VFromD<decltype(d)> c0, c1, c2, c3;
    philox_from(d, words, number / kElementsOfCall + static_cast<std::uint64_t>(i / kElementsOfCall), 0x0FFFFFFFU, c0,
                c1, c2, c3);
    hn::StoreInterleaved4(bytes_in_order(d, c0), bytes_in_order(d, c1), bytes_in_order(d, c2), bytes_in_order(d, c3), d,
                          to + i / 4);
  }
  return reinterpret_cast<const std::uint8_t*>(to) + before;
}

// The words of elements whose bytes these are.
template <class D>
HWY_INLINE hn::VFromD<D> words_of_bytes(D d, const std::uint8_t* bytes) {
  const hn::Rebind<std::uint8_t, D> narrow;
  return hn::ShiftLeft<24>(hn::PromoteTo(d, hn::LoadU(narrow, bytes)));
}

// nvfp4_stochastic_code of the lanes, with the signs of `value` in bit 3; no lane is NaN.
template <class DF, class VF, class DU, class VU>
HWY_INLINE VU stochastic_codes(DF /*df*/, VF value, DU d, VU word) {
  const auto bits = hn::BitCast(d, value);
  const auto magnitude = hn::And(bits, hn::Set(d, 0x7FFFFFFFU));
  const auto sum = hn::Add(magnitude, hn::ShiftRight<10>(word));
  const auto large = hn::Min(hn::Sub(hn::ShiftRight<22>(sum), hn::Set(d, 252U)), hn::Set(d, 7U));
  const auto field = hn::ShiftRight<23>(magnitude);
  const auto hidden = hn::IfThenZeroElse(hn::Eq(field, hn::Zero(d)), hn::Set(d, 0x800000U));
  const auto significand = hn::Or(hn::And(magnitude, hn::Set(d, 0x7FFFFFU)), hidden);
  const auto is_half = hn::Eq(field, hn::Set(d, 126U));
  const auto drop = hn::Min(hn::Sub(hn::Set(d, 125U), field), hn::Set(d, 31U));  // of a half any
  const auto is_tiny = hn::Gt(hn::Set(d, 94U), field);                           // more than 31 bits are dropped
  const auto shifted = hn::IfThenZeroElse(is_tiny, hn::Shr(hn::ShiftLeft<8>(significand), drop));
  const auto fraction = hn::IfThenElse(is_half, hn::ShiftLeft<9>(significand), shifted);
  const auto one = hn::Set(d, 1U);
  const auto up = hn::IfThenElseZero(hn::Lt(hn::Add(fraction, word), word), one);
  const auto small = hn::Add(hn::IfThenElseZero(is_half, one), up);
  const auto code = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0x3F800000U)), small, large);
  return hn::Or(code, hn::And(hn::ShiftRight<28>(bits), hn::Set(d, 8U)));
}

// The elements' quotients of one block, in FP32: x * factor, or x / divisor in doubles and rounded.
template <class D>
HWY_INLINE hn::VFromD<D> exact_quotient(D d, hn::VFromD<D> x, double divisor) {
  const hn::Half<D> half;
  const hn::Repartition<double, D> d64;
  const auto by = hn::Set(d64, divisor);
  const auto low = hn::DemoteTo(half, hn::Div(hn::PromoteTo(d64, hn::LowerHalf(half, x)), by));
  const auto high = hn::DemoteTo(half, hn::Div(hn::PromoteTo(d64, hn::UpperHalf(half, x)), by));
  return hn::Combine(d, high, low);
}

// Writes the codes of 16 elements of a block with this scale, two a byte; `element` is the number of the first. bytes:
// theirs, or null where each has a word.
HWY_INLINE void encode_stochastic_block(const Levels& levels, const float* x, std::uint8_t byte,
                                        const Nvfp4Words& words, std::uint64_t element, const std::uint8_t* bytes,
                                        std::uint8_t* codes) {
  const hn::CappedTag<float, 8> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  constexpr std::size_t kLanes = hn::MaxLanes(d);
  HWY_ALIGN std::uint32_t of_block[16];
  const bool is_exact = levels.recipe == Nvfp4Recipe::exact;
  const double divisor = double{e4m3_value(byte)} * levels.decode;
  const auto factor = hn::Set(d, is_exact ? 0.0F : levels.factor_of(byte));
  for (std::size_t i = 0; i < 16; i += kLanes) {
    const auto v = hn::LoadU(d, x + i);
    const auto value = is_exact && byte != 0 ? exact_quotient(d, v, divisor) : hn::Mul(v, factor);
    const auto word = bytes != nullptr ? words_of_bytes(du, bytes + i) : words_from(du, words, element + i);
    hn::Store(stochastic_codes(d, value, du, word), du, of_block + i);
  }
  for (std::size_t i = 0; i < 16; i += 2) codes[i / 2] = static_cast<std::uint8_t>(of_block[i] | of_block[i + 1] << 4);
}

  #else

inline void butterfly(float* v, int n) {
  for (int h = 1; h < n; h *= 2) {
    for (int i = 0; i < n; ++i) {
      if ((i & h) != 0) continue;
      const float low = v[i], high = v[i + h];
      v[i] = low + high, v[i + h] = low - high;
    }
  }
}

  #endif  // HWY_TARGET != HWY_SCALAR

// Rounded to the bits of BF16, or as it is.
inline void to_result(float value, std::uint16_t& to) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  to = static_cast<std::uint16_t>(is_nan ? 0x7FC0U : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
inline void to_result(float value, std::uint32_t& to) { to = std::bit_cast<std::uint32_t>(value); }

// Transforms the groups of `count` floats in place, a multiple of the group.
HWY_INLINE void transform_groups(const Nvfp4Options& options, float* v, std::int64_t count) {
  const float factor = nvfp4_hadamard_factor(options.hadamard);
  const std::int64_t group = options.hadamard;
  for (std::int64_t first = 0; first < count; first += group) {
    for (std::int64_t i = 0; i < group; ++i) {
      const std::uint32_t sign = options.signs[i / 32] >> i % 32 << 31;
      v[first + i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(v[first + i]) ^ sign);
    }
    butterfly(v + first, static_cast<int>(group));
    for (std::int64_t i = first; i < first + group; ++i) v[i] = v[i] * factor;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
