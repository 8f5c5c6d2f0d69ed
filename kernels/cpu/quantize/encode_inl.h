// SIMD quantization of runs of elements, compiled once for each Highway target (no #pragma once: see the toggle).
//
// BF16 and FP32 are treated alike, as integers T with kMantissa mantissa bits, up to the encoding, which is in BF16. A
// block is "easy" if its amax is finite and its scale byte is at least F::kBias + 4 (or amax is 0): then an element
// with exponent field 0 is far below half of the smallest subnormal code, and everything fits 16 bits. The other blocks
// go to scalar_block.h afterwards. HWY_SCALAR, the fallback below SSSE3 with GCC 12.2 and older, has no shuffles:
// there, no block is easy.

#if defined(MXCHECK_CPU_ENCODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_CPU_ENCODE_INL_H_
    #undef MXCHECK_CPU_ENCODE_INL_H_
  #else
    #define MXCHECK_CPU_ENCODE_INL_H_
  #endif

  #include <cstdint>

  #include "hwy/highway.h"
  #include "kernels/cpu/quantize/lanes_inl.h"
  #include "kernels/cpu/quantize/scalar_block.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_kernels::cpu {
namespace HWY_NAMESPACE {

// Added to amax before its exponent is taken: carries into it if and only if the significand exceeds 1.75 = 1.11b.
template <class T>
T round_up_addend(ScaleRule rule) {
  return static_cast<T>(rule == ScaleRule::floor ? 0 : Bits<T>::kFraction >> 2);
}

template <class F>
constexpr int easy_exponent() {  // the smallest exponent field of amax, after rounding up, that makes a block easy
  return F::kLargestExponent + F::kBias + 4;
}

template <class F, class T>
bool is_easy(T amax, T addend) {
  if (HWY_TARGET == HWY_SCALAR) return false;
  if (amax == 0) return true;
  return amax < Bits<T>::kInfinity && (amax + addend) >> Bits<T>::kMantissa >= easy_exponent<F>();
}

  #if HWY_TARGET != HWY_SCALAR

// Per block: the byte, and what encode() needs of it, in the lanes of BF16 for FP32 too.
template <class T, int kBlocks>
struct Scales {
  HWY_ALIGN T amax[kBlocks];
  HWY_ALIGN std::uint16_t base[kBlocks];   // (byte - F::kBias) << 7: the BF16 magnitude that becomes a code's field 0
  HWY_ALIGN std::uint16_t limit[kBlocks];  // base | 0x7F
  HWY_ALIGN std::uint8_t bytes[kBlocks];
};

template <class D16>
HWY_INLINE hn::VFromD<D16> to_16_bits(D16, hn::VFromD<D16> v) {
  return v;
}
template <class D16>
HWY_INLINE hn::VFromD<D16> to_16_bits(D16 d, hn::VFromD<hn::Rebind<std::uint32_t, D16>> v) {
  return hn::TruncateTo(d, v);
}

// Fills base, limit and bytes from amax for `count` blocks, rounded up to whole vectors. True if all blocks are on the
// fast path; for those that are not, the values are undefined.
template <class F, class T, int kBlocks>
bool scales_of(Scales<T, kBlocks>& s, std::int64_t count, T addend) {
  using B = Bits<T>;
  const hn::ScalableTag<T> d;
  const hn::Rebind<std::uint16_t, decltype(d)> d16;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(d);
  const auto easy = hn::Set(d, static_cast<T>(easy_exponent<F>()));
  const auto largest = hn::Set(d, static_cast<T>(B::kInfinity - 1));
  auto all_easy = hn::Eq(zero, zero);
  HWY_ALIGN std::uint16_t bytes[kBlocks];
  for (std::int64_t i = 0; i < count; i += lanes) {
    const auto amax = hn::Load(d, s.amax + i);
    const auto is_zero = hn::Eq(amax, zero);
    const auto field = hn::ShiftRight<B::kMantissa>(hn::Add(amax, hn::Set(d, addend)));
    const auto kept = hn::Max(field, easy);
    const auto finite = hn::Eq(hn::Max(amax, largest), largest);
    all_easy = hn::And(all_easy, hn::Or(is_zero, hn::And(finite, hn::Eq(kept, field))));
    const auto byte = hn::Sub(kept, hn::Set(d, static_cast<T>(F::kLargestExponent)));
    const auto base = hn::ShiftLeft<7>(hn::Sub(byte, hn::Set(d, static_cast<T>(F::kBias))));
    hn::Store(to_16_bits(d16, base), d16, s.base + i);
    hn::Store(to_16_bits(d16, hn::Or(base, hn::Set(d, T{0x7F}))), d16, s.limit + i);
    hn::Store(to_16_bits(d16, hn::IfThenZeroElse(is_zero, byte)), d16, bytes + i);
  }
  for (std::int64_t i = 0; i < count; ++i) s.bytes[i] = static_cast<std::uint8_t>(bytes[i]);
  return hn::AllTrue(d, all_easy);
}

// v >> count for v < 2^11, count <= 15; a result below 2^7 may be any below 2^7.
template <class D, class V>
HWY_INLINE V shift_right(D d, V v, V count) {
    #if HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2
  // No 16-bit variable shift here (and Highway 1.0.3's emulation does not compile for SSSE3): multiply 2 v by
  // 2^(15 - count), whose high byte is looked up; counts above 7 give 0.
  HWY_ALIGN static constexpr std::uint8_t kPowers[16] = {0x80, 0x40, 0x20, 0x10, 8, 4, 2, 1};
  const hn::Repartition<std::uint8_t, D> d8;
  const V index = hn::Or(hn::ShiftLeft<8>(count), hn::Set(d, std::uint16_t{15}));
  const V power = hn::BitCast(d, hn::TableLookupBytes(hn::LoadDup128(d8, kPowers), hn::BitCast(d8, index)));
  return hn::MulHigh(hn::Add(v, v), power);
    #else
  (void)d;
  return hn::Shr(v, count);
    #endif
}

// The code of the BF16 values v, sign included, in the top byte of each lane; lower bits are undefined.
//
// A code's magnitude is its exponent field and mantissa read as one integer, so that rounding carries by itself. It is
// formed in the top byte with the bits to be rounded off below it: for field >= 1 it is the magnitude minus base,
// for smaller fields the significand with its hidden bit, shifted right by one more for each step below 1. The larger
// of the two is the right one: where the field is 0 or less, the first is below the second. No bit that matters is lost
// by the right shift, since the left shift before it leaves 3 (E5M2: 2) places and beyond that the code is zero.
template <class F, class D, class V>
HWY_INLINE V encode(D d, V v, V base, V limit) {
  constexpr int kUp = 1 + F::kMantissaBits;  // E4M3: of 7 mantissa bits 3 stay, and 4 + 4 below make 8
  const auto constant = [&](int value) HWY_ATTR { return hn::Set(d, static_cast<std::uint16_t>(value)); };
  const V magnitude = hn::And(v, constant(0x7FFF));
  const V normal = hn::ShiftLeft<kUp>(hn::SaturatedSub(magnitude, base));
  const V below = hn::ShiftRight<7>(hn::SaturatedSub(limit, magnitude));  // 0 for field >= 0
  const V fraction = hn::And(hn::ShiftLeft<kUp - 1>(magnitude), constant(0x7F << (kUp - 1)));
  const V subnormal = shift_right(d, hn::Or(fraction, constant(0x80 << (kUp - 1))), hn::Min(below, constant(15)));
  const V exact = hn::Max(normal, subnormal);
  const V odd = hn::And(hn::ShiftRight<8>(exact), constant(1));
  const V rounded = hn::Add(hn::Add(exact, constant(0x7F)), odd);
  const V saturated = hn::Min(rounded, constant(F::kLargestCode << 8 | 0xFF));
  return hn::Or(saturated, hn::And(v, constant(0x8000)));
}

// Loads as many elements as there are 16-bit lanes, as BF16. FP32 is rounded to odd: cut, with the last bit set if what
// was cut is not zero. Seven bits are more than enough for that bit never to be taken for a tie's.
template <class D>
HWY_INLINE hn::VFromD<D> load_bf16(D d, const std::uint16_t* x) {
  return hn::LoadU(d, x);
}

template <class D>
HWY_INLINE hn::VFromD<D> load_bf16(D d, const std::uint32_t* x) {
  const hn::Repartition<std::uint32_t, D> d32;
  const auto first = hn::BitCast(d, hn::LoadU(d32, x));
  const auto second = hn::BitCast(d, hn::LoadU(d32, x + hn::Lanes(d32)));
  const auto cut = hn::Min(hn::ConcatEven(d, second, first), hn::Set(d, std::uint16_t{1}));
  return hn::Or(hn::ConcatOdd(d, second, first), cut);
}

template <class F, class Where, class T, int kBlocks>
HWY_INLINE auto encode_bytes(const T* x, std::int64_t i, const Scales<T, kBlocks>& s) {
  const hn::ScalableTag<std::uint16_t> d;
  const hn::Repartition<std::uint8_t, decltype(d)> d8;
  const auto at = [&](std::int64_t k) HWY_ATTR {
    return hn::BitCast(d8, encode<F>(d, load_bf16(d, x + k), Where::at(d, s.base, k), Where::at(d, s.limit, k)));
  };
  const auto lower = at(i);
  return hn::ConcatOdd(d8, at(i + static_cast<std::int64_t>(hn::Lanes(d))), lower);
}

// Writes the codes of x[0 .. count), count rounded up to whole vectors of bytes (at most 64). Meanwhile the elements
// kBlocks further on are prefetched; a prefetch never faults.
template <class F, class Where, class T, int kBlocks>
void encode_run(const T* x, std::int64_t count, const Scales<T, kBlocks>& s, std::uint8_t* codes, bool stream) {
  const hn::ScalableTag<std::uint8_t> d8;
  const std::int64_t step = static_cast<std::int64_t>(hn::Lanes(d8));
  const bool past_cache = stream && is_aligned(d8, codes);
  for (std::int64_t i = 0; i < count; i += step) {
    for (std::int64_t line = 0; line < step; line += 64 / static_cast<std::int64_t>(sizeof(T)))
      prefetch(x + i + line, kBlocks);
    const auto bytes = encode_bytes<F, Where>(x, i, s);
    past_cache ? hn::Stream(bytes, d8, codes + i) : hn::StoreU(bytes, d8, codes + i);
  }
}

  #endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
