// The largest magnitudes of runs of elements, as integers, compiled once for each Highway target.
// Magnitudes of IEEE formats are ordered as their bits are; infinities and NaN are the largest.

#if defined(MXCHECK_CPU_AMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_CPU_AMAX_INL_H_
    #undef MXCHECK_CPU_AMAX_INL_H_
  #else
    #define MXCHECK_CPU_AMAX_INL_H_
  #endif

  #include <cstdint>

  #include "hwy/highway.h"
  #include "kernels/cpu/quantize/encode_inl.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_kernels::cpu {
namespace HWY_NAMESPACE {

  #if HWY_TARGET != HWY_SCALAR

// Elementwise maximum of the 128-bit blocks of a vector.
template <class D>
HWY_INLINE auto max_of_quarters(D d, hn::VFromD<D> v) {
  if constexpr (hn::MaxLanes(d) * sizeof(hn::TFromD<D>) > 16) {
    const hn::Half<D> half;
    return max_of_quarters(half, hn::Max(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    return v;
  }
}

// Lanes 2i and 2i + 1 of the result's 128-bit blocks hold what was spread over twice as many lanes of a and of b.
template <class Wider, class D>
HWY_INLINE hn::VFromD<D> merge(D d, hn::VFromD<D> a, hn::VFromD<D> b) {
  const hn::Repartition<Wider, D> wide;
  const auto lower = hn::InterleaveLower(wide, hn::BitCast(wide, a), hn::BitCast(wide, b));
  const auto upper = hn::InterleaveUpper(wide, hn::BitCast(wide, a), hn::BitCast(wide, b));
  return hn::Max(hn::BitCast(d, lower), hn::BitCast(d, upper));
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::VFromD<D> max_of_sub_block(D d, const T* x) {  // lane by lane
  const auto mask = hn::Set(d, Bits<T>::kMagnitude);
  auto amax = hn::And(hn::LoadU(d, x), mask);
  for (std::size_t i = hn::Lanes(d); i < static_cast<std::size_t>(kSubBlock); i += hn::Lanes(d)) {
    amax = hn::Max(amax, hn::And(hn::LoadU(d, x + i), mask));
  }
  return amax;
}

// Takes as many sub-blocks as a 128-bit vector has lanes to as many maxima: a tree of merges, 3 instead of 10
// instructions a sub-block.
HWY_INLINE void sub_block_group(const std::uint16_t* x, std::uint16_t* amax) {
  const hn::ScalableTag<std::uint16_t> d;
  const auto of = [&](int i) HWY_ATTR { return max_of_sub_block(d, x + i * kSubBlock); };
  const auto pair = [&](int i) HWY_ATTR { return merge<std::uint16_t>(d, of(i), of(i + 1)); };
  const auto four = [&](int i) HWY_ATTR { return merge<std::uint32_t>(d, pair(i), pair(i + 2)); };
  const auto eight = merge<std::uint64_t>(d, four(0), four(4));
  hn::Store(max_of_quarters(d, eight), hn::CappedTag<std::uint16_t, 8>(), amax);
}

HWY_INLINE void sub_block_group(const std::uint32_t* x, std::uint32_t* amax) {
  const hn::ScalableTag<std::uint32_t> d;
  const auto of = [&](int i) HWY_ATTR { return max_of_sub_block(d, x + i * kSubBlock); };
  const auto pair = [&](int i) HWY_ATTR { return merge<std::uint32_t>(d, of(i), of(i + 1)); };
  hn::Store(max_of_quarters(d, merge<std::uint64_t>(d, pair(0), pair(2))), hn::CappedTag<std::uint32_t, 4>(), amax);
}

// amax[i] over x[32 i .. 32 i + 32), for all i below count / 32; count is a multiple of kGranule.
template <class T>
void sub_block_amax(const T* x, std::int64_t count, T* amax) {
  constexpr std::int64_t kGroup = 16 / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t i = 0; i < count / kSubBlock; i += kGroup) sub_block_group(x + i * kSubBlock, amax + i);
}

// amax[c] over column c of `rows` rows; width is a multiple of kGranule.
template <class T>
void column_amax(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, T* amax) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto mask = hn::Set(d, Bits<T>::kMagnitude);
  for (std::int64_t c = 0; c < width; c += lanes) hn::Store(hn::And(hn::LoadU(d, x + c), mask), d, amax + c);
  for (std::int64_t r = 1; r < rows; ++r) {
    const T* row = x + r * stride;
    for (std::int64_t c = 0; c < width; c += lanes) {
      hn::Store(hn::Max(hn::Load(d, amax + c), hn::And(hn::LoadU(d, row + c), mask)), d, amax + c);
    }
  }
}

// Maxima of `factor` neighbours at a time, in place.
template <class T>
void fold(T* amax, std::int64_t count, std::int64_t factor) {
  for (std::int64_t i = 0; i < count / factor; ++i) {
    T largest = 0;
    for (std::int64_t k = 0; k < factor; ++k) largest = HWY_MAX(largest, amax[i * factor + k]);
    amax[i] = largest;
  }
}

  #endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
