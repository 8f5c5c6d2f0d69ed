// Block maxima and the bytes of their E4M3 scales, compiled once for each Highway target.

#if defined(MXCHECK_CPU_NVFP4_SCALES_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_CPU_NVFP4_SCALES_INL_H_
    #undef MXCHECK_CPU_NVFP4_SCALES_INL_H_
  #else
    #define MXCHECK_CPU_NVFP4_SCALES_INL_H_
  #endif

  #include <cstddef>
  #include <cstdint>

  #include "hwy/highway.h"
  #include "kernels/cpu/nvfp4/levels.h"
  #include "kernels/cpu/quantize/amax_inl.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_kernels::cpu {
namespace HWY_NAMESPACE {

  #if HWY_TARGET != HWY_SCALAR

// The magnitudes of a block of 16, or the larger ones of its parts, lane by lane.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::VFromD<D> max_of_16(D d, const T* x) {
  const auto mask = hn::Set(d, Bits<T>::kMagnitude);
  auto amax = hn::And(hn::LoadU(d, x), mask);
  for (std::size_t i = hn::Lanes(d); i < 16; i += hn::Lanes(d)) {
    amax = hn::Max(amax, hn::And(hn::LoadU(d, x + i), mask));
  }
  return amax;
}

// Takes as many blocks as a 128-bit vector has lanes to as many maxima, by a tree of merges.
HWY_INLINE void group_of_16(const std::uint16_t* x, std::uint16_t* amax) {
  const hn::CappedTag<std::uint16_t, 16> d;
  const auto of = [&](int i) HWY_ATTR { return max_of_16(d, x + i * 16); };
  const auto pair = [&](int i) HWY_ATTR { return merge<std::uint16_t>(d, of(i), of(i + 1)); };
  const auto four = [&](int i) HWY_ATTR { return merge<std::uint32_t>(d, pair(i), pair(i + 2)); };
  hn::Store(max_of_quarters(d, merge<std::uint64_t>(d, four(0), four(4))), hn::CappedTag<std::uint16_t, 8>(), amax);
}
HWY_INLINE void group_of_16(const std::uint32_t* x, std::uint32_t* amax) {
  const hn::CappedTag<std::uint32_t, 16> d;
  const auto of = [&](int i) HWY_ATTR { return max_of_16(d, x + i * 16); };
  const auto pair = [&](int i) HWY_ATTR { return merge<std::uint32_t>(d, of(i), of(i + 1)); };
  hn::Store(max_of_quarters(d, merge<std::uint64_t>(d, pair(0), pair(2))), hn::CappedTag<std::uint32_t, 4>(), amax);
}

// amax[i] over x[16 i .. 16 i + 16), for all i below count / 16; count is a multiple of kGranule.
template <class T>
void amax_of_16(const T* x, std::int64_t count, T* amax) {
  constexpr std::int64_t kGroup = 16 / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t i = 0; i < count / 16; i += kGroup) group_of_16(x + i * 16, amax + i);
}

// True if all are; count is that of whole groups.
template <class T>
bool are_below(const T* values, std::int64_t count, T limit) {
  const hn::CappedTag<T, 16 / sizeof(T)> d;
  auto largest = hn::Zero(d);
  for (std::int64_t i = 0; i < count; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    largest = hn::Max(largest, hn::Load(d, values + i));
  }
  return hn::AllTrue(d, hn::Lt(largest, hn::Set(d, limit)));
}

// Magnitudes as floats; count is that of whole groups, of which the arrays have room for a vector more.
template <class Kind>
void floats_of(const typename Kind::Bits* magnitudes, std::int64_t count, float* floats) {
  for (std::int64_t i = 0; i < count; ++i) floats[i] = Kind::value(magnitudes[i]);
}
template <>
HWY_INLINE void floats_of<Bf16>(const std::uint16_t* magnitudes, std::int64_t count, float* floats) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<std::uint16_t, decltype(d)> d16;
  for (std::int64_t i = 0; i < count; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(du, hn::Load(d16, magnitudes + i)));
    hn::Store(hn::BitCast(d, bits), d, floats + i);
  }
}

// RN to E4M3 of quotients of 0 or more, as bytes in the lanes; anything below 128 for NaN. Magnitudes of floats are
// ordered as their bits are, and a carry of the kept bits goes into the field: 0x7FFFF and the last kept bit make it.
// Below 2^-6 the sum with 2^14 has a last place of 2^-9.
template <class D, class V = hn::VFromD<D>>
HWY_INLINE auto e4m3_bytes(D d, V quotient) {
  const hn::RebindToUnsigned<D> du;
  const V kept = hn::Min(quotient, hn::Set(d, 448.0F));
  const auto bits = hn::BitCast(du, kept);
  const auto odd = hn::And(hn::ShiftRight<20>(bits), hn::Set(du, 1U));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFFU)), odd);
  const auto normal = hn::Sub(hn::ShiftRight<20>(rounded), hn::Set(du, 120U << 3));
  const auto sum = hn::BitCast(du, hn::Add(kept, hn::Set(d, 0x1p14F)));
  const auto subnormal = hn::Sub(sum, hn::BitCast(du, hn::Set(d, 0x1p14F)));
  const auto small = hn::RebindMask(du, hn::Lt(kept, hn::Set(d, 0x1p-6F)));
  return hn::And(hn::IfThenElse(small, subnormal, normal), hn::Set(du, 0x7FU));
}

// a / divisor in doubles, rounded to odd: cut to a float, whose last bit is set if something was cut. It is on the same
// side of every number of few bits.
HWY_INLINE void exact_quotients(const float* a, double divisor, std::int64_t count, float* quotients) {
  const hn::ScalableTag<double> d64;
  const hn::Rebind<float, decltype(d64)> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d64));
  const auto one = hn::Set(du, 1U);
  for (std::int64_t i = 0; i < count; i += lanes) {
    const auto exact = hn::Div(hn::PromoteTo(d64, hn::Load(d, a + i)), hn::Set(d64, divisor));
    const auto nearest = hn::DemoteTo(d, exact);
    const auto rest = hn::DemoteTo(d, hn::Sub(exact, hn::PromoteTo(d64, nearest)));
    const auto is_too_large = hn::RebindMask(du, hn::Lt(rest, hn::Zero(d)));
    const auto is_exact = hn::RebindMask(du, hn::Eq(rest, hn::Zero(d)));
    const auto bits = hn::BitCast(du, nearest);
    const auto cut = hn::IfThenElse(is_too_large, hn::Sub(bits, one), bits);
    hn::Store(hn::BitCast(d, hn::IfThenElse(is_exact, cut, hn::Or(cut, one))), d, quotients + i);
  }
}

// The scales of `count` blocks, rounded up to whole vectors, from their maxima, which are finite: others' are
// undefined, but below 128. Four Over Six: those with which the maxima become 6.
HWY_INLINE void scale_bytes_of(const Levels& levels, float* a, std::int64_t count, std::uint8_t* bytes) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<std::uint8_t, decltype(d)> d8;
  const hn::RebindToSigned<decltype(d)> di;
  if (levels.recipe == Nvfp4Recipe::exact) exact_quotients(a, 6.0 * levels.decode, count, a);
  const auto encode = hn::Set(d, levels.encode);
  for (std::int64_t i = 0; i < count; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    auto q = hn::Load(d, a + i);
    switch (levels.recipe) {
      case Nvfp4Recipe::exact: break;
      case Nvfp4Recipe::te: q = hn::Mul(q, hn::Set(d, levels.encode_over_6)); break;
      case Nvfp4Recipe::vllm: q = hn::Mul(hn::Mul(q, hn::Set(d, 1.0F / 6.0F)), encode); break;
      case Nvfp4Recipe::te_2_8:
      case Nvfp4Recipe::four_six: q = hn::Mul(hn::Div(q, hn::Set(d, 6.0F)), encode); break;
    }
    hn::StoreU(hn::DemoteTo(d8, hn::BitCast(di, e4m3_bytes(d, q))), d8, bytes + i);
  }
}

  #endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
