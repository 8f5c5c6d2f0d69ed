// SIMD quantization of runs of elements, compiled once for each Highway target (no #pragma once: see the toggle).
//
// BF16 and FP32 are treated alike, as integers T with kMantissa mantissa bits. A block is "easy" if its amax is finite
// and its scale byte is at least F::kBias + 4 (or amax is 0): then an element with exponent field 0 is far below half
// of the smallest subnormal code, and everything fits the lanes of T. The other blocks go to scalar_block.h afterwards.
// HWY_SCALAR, the fallback below SSSE3 with GCC 12.2 and older, has no shuffles: there, no block is easy.

#if defined(MXCHECK_CPU_ENCODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_CPU_ENCODE_INL_H_
    #undef MXCHECK_CPU_ENCODE_INL_H_
  #else
    #define MXCHECK_CPU_ENCODE_INL_H_
  #endif

  #include <cstdint>

  #include "hwy/highway.h"
  #include "kernels/cpu/lanes_inl.h"
  #include "kernels/cpu/scalar_block.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_cpu {
namespace HWY_NAMESPACE {

// Added to amax before its exponent is taken: carries into it if and only if the significand exceeds 1.75 = 1.11b.
template <class T>
T round_up_addend(Rule rule) {
  return static_cast<T>(rule == Rule::floor ? 0 : Bits<T>::kFraction >> 2);
}

template <class F, class T>
constexpr int easy_exponent() {  // the smallest exponent field of amax, after rounding up, that makes a block easy
  return F::kLargestExponent + F::kBias + 4;
}

template <class F, class T>
bool is_easy(T amax, T addend) {
  if (HWY_TARGET == HWY_SCALAR) return false;
  if (amax == 0) return true;
  return amax < Bits<T>::kInfinity && (amax + addend) >> Bits<T>::kMantissa >= easy_exponent<F, T>();
}

  #if HWY_TARGET != HWY_SCALAR

// Per block: the byte, and what encode() needs of it in the lanes of T.
template <class T, int kBlocks>
struct Scales {
  HWY_ALIGN T amax[kBlocks];
  HWY_ALIGN T base[kBlocks];   // (byte - F::kBias) << kMantissa: the magnitude that becomes a code's field 0
  HWY_ALIGN T limit[kBlocks];  // base | kFraction
  HWY_ALIGN std::uint8_t bytes[kBlocks];
};

// Fills base, limit and bytes from amax for `count` blocks, rounded up to whole vectors. True if all blocks are easy;
// for those that are not, the values stand for nothing.
template <class F, class T, int kBlocks>
bool scales_of(Scales<T, kBlocks>& s, std::int64_t count, T addend) {
  using B = Bits<T>;
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(d);
  const auto easy = hn::Set(d, static_cast<T>(easy_exponent<F, T>()));
  auto all_easy = hn::Eq(zero, zero);
  T codes[kBlocks];
  for (std::int64_t i = 0; i < count; i += lanes) {
    const auto amax = hn::Load(d, s.amax + i);
    const auto is_zero = hn::Eq(amax, zero);
    const auto field = hn::ShiftRight<B::kMantissa>(hn::Add(amax, hn::Set(d, addend)));
    const auto kept = hn::Max(field, easy);
    const auto finite = hn::Eq(hn::Max(amax, hn::Set(d, B::kInfinity - 1)), hn::Set(d, B::kInfinity - 1));
    all_easy = hn::And(all_easy, hn::Or(is_zero, hn::And(finite, hn::Eq(kept, field))));
    const auto byte = hn::Sub(kept, hn::Set(d, static_cast<T>(F::kLargestExponent)));
    const auto base = hn::ShiftLeft<B::kMantissa>(hn::Sub(byte, hn::Set(d, static_cast<T>(F::kBias))));
    hn::Store(base, d, s.base + i);
    hn::Store(hn::Or(base, hn::Set(d, B::kFraction)), d, s.limit + i);
    hn::StoreU(hn::IfThenZeroElse(is_zero, byte), d, codes + i);
  }
  for (std::int64_t i = 0; i < count; ++i) s.bytes[i] = static_cast<std::uint8_t>(codes[i]);
  return hn::AllTrue(d, all_easy);
}

// v >> count for v < 2^(kWidth - 1), count <= 15; where count is above 7 and v < 2^11, anything below 2^7 will do.
template <class D, class V, class T = hn::TFromD<D>>
HWY_INLINE V shift_right(D d, V v, V count) {
    #if HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2
  // No 16-bit variable shift here (and Highway 1.0.3's emulation does not compile for SSSE3): multiply 2 v by
  // 2^(15 - count), whose high byte is looked up; counts above 7 give 0.
  if constexpr (sizeof(T) == 2) {
    HWY_ALIGN static constexpr std::uint8_t kPowers[16] = {0x80, 0x40, 0x20, 0x10, 8, 4, 2, 1};
    const hn::Repartition<std::uint8_t, D> d8;
    const V index = hn::Or(hn::ShiftLeft<8>(count), hn::Set(d, T{15}));
    const V power = hn::BitCast(d, hn::TableLookupBytes(hn::LoadDup128(d8, kPowers), hn::BitCast(d8, index)));
    return hn::MulHigh(hn::Add(v, v), power);
  } else {
    return hn::Shr(v, count);
  }
    #else
  (void)d;
  return hn::Shr(v, count);
    #endif
}

// The code of v, sign included, in the top byte of each lane; what is below is not defined.
//
// A code's magnitude is its exponent field and mantissa read as one integer, so that rounding carries by itself. It is
// formed in the top byte with the bits to be rounded off below it: for field >= 1 it is the magnitude minus base,
// for smaller fields the significand with its hidden bit, shifted right by one more for each step below 1. The larger
// of the two is the right one: where the field is 0 or less, the first is below the second. No bit that matters is lost
// by the right shift, since the left shift before it leaves 3 (E5M2: 2) places and beyond that the code is zero.
template <class F, class D, class V>
HWY_INLINE V encode(D d, V v, V base, V limit) {
  using T = hn::TFromD<D>;
  using B = Bits<T>;
  constexpr int kUp = B::kWidth - 8 + F::kMantissaBits - B::kMantissa;  // 4 for E4M3, 3 for E5M2
  const V magnitude = hn::And(v, hn::Set(d, B::kMagnitude));
  const V normal = hn::ShiftLeft<kUp>(hn::Sub(hn::Max(magnitude, base), base));
  const V below = hn::ShiftRight<B::kMantissa>(hn::Sub(hn::Max(limit, magnitude), magnitude));  // 0 for field >= 0
  const V significand = hn::Or(hn::And(hn::ShiftLeft<kUp - 1>(magnitude), hn::Set(d, T{B::kFraction << (kUp - 1)})),
                               hn::Set(d, T{B::kHidden << (kUp - 1)}));
  const V subnormal = shift_right(d, significand, hn::Min(below, hn::Set(d, T{15})));
  const V exact = hn::Max(normal, subnormal);
  const V odd = hn::And(hn::ShiftRight<B::kWidth - 8>(exact), hn::Set(d, T{1}));
  const V rounded = hn::Add(hn::Add(exact, hn::Set(d, T{(T{1} << (B::kWidth - 9)) - 1})), odd);
  constexpr T kLargest = static_cast<T>((T{F::kLargestCode + 1} << (B::kWidth - 8)) - 1);
  return hn::Or(hn::Min(rounded, hn::Set(d, kLargest)), hn::And(v, hn::Set(d, B::kSign)));
}

// The top bytes of all lanes of consecutive vectors, as one vector of bytes.
template <class V16>
HWY_INLINE auto top_bytes(V16 v0, V16 v1) {
  const hn::ScalableTag<std::uint8_t> d8;
  return hn::ConcatOdd(d8, hn::BitCast(d8, v1), hn::BitCast(d8, v0));
}

template <class V32>
HWY_INLINE auto top_bytes(V32 v0, V32 v1, V32 v2, V32 v3) {
  const hn::ScalableTag<std::uint16_t> d16;
  return top_bytes(hn::ConcatOdd(d16, hn::BitCast(d16, v1), hn::BitCast(d16, v0)),
                   hn::ConcatOdd(d16, hn::BitCast(d16, v3), hn::BitCast(d16, v2)));
}

template <class F, class Where, class T, int kBlocks>
HWY_INLINE auto encode_bytes(const T* x, std::int64_t i, const Scales<T, kBlocks>& s) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto one = [&](std::int64_t at) HWY_ATTR {
    return encode<F>(d, hn::LoadU(d, x + at), Where::at(d, s.base, at), Where::at(d, s.limit, at));
  };
  if constexpr (sizeof(T) == 2) {
    return top_bytes(one(i), one(i + lanes));
  } else {
    return top_bytes(one(i), one(i + lanes), one(i + 2 * lanes), one(i + 3 * lanes));
  }
}

// Writes the codes of x[0 .. count), count rounded up to whole vectors of bytes (at most 64).
template <class F, class Where, class T, int kBlocks>
void encode_run(const T* x, std::int64_t count, const Scales<T, kBlocks>& s, std::uint8_t* codes, bool stream) {
  const hn::ScalableTag<std::uint8_t> d8;
  const std::int64_t step = static_cast<std::int64_t>(hn::Lanes(d8));
  if (stream && is_aligned(d8, codes)) {
    for (std::int64_t i = 0; i < count; i += step) hn::Stream(encode_bytes<F, Where>(x, i, s), d8, codes + i);
  } else {
    for (std::int64_t i = 0; i < count; i += step) hn::StoreU(encode_bytes<F, Where>(x, i, s), d8, codes + i);
  }
}

  #endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
