// Codes by comparison: what a block's codes depend on beside its elements is the byte of its scale, so for each of the
// 127 bytes there are seven limits, the last magnitude of each code below 7, found with the scalar arithmetic when the
// byte first occurs. An element's code is the number of limits below its magnitude, which three comparisons find; no
// element is converted, scaled or rounded, and all recipes take the same path. Compiled once for each Highway target.

#if defined(MXCHECK_CPU_NVFP4_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_CPU_NVFP4_CODES_INL_H_
    #undef MXCHECK_CPU_NVFP4_CODES_INL_H_
  #else
    #define MXCHECK_CPU_NVFP4_CODES_INL_H_
  #endif

  #include <cstddef>
  #include <cstdint>

  #include "hwy/cache_control.h"
  #include "hwy/highway.h"
  #include "kernels/cpu/nvfp4/levels.h"
  #include "kernels/cpu/quantize/lanes_inl.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_kernels::cpu {
namespace HWY_NAMESPACE {

  #if HWY_TARGET != HWY_SCALAR

// limits[byte][k]: the last finite magnitude whose code is k or less, in all lanes of 128 bits.
template <class Kind>
class Limits {
 public:
  using T = typename Kind::Bits;
  static constexpr int kCopies = 16 / static_cast<int>(sizeof(T));

  // False for a byte that has none: the code of a zero is not 0 below it.
  bool find(const Levels& levels, std::uint8_t byte) {
    if (state_[byte] == State::unknown) fill(levels, byte);
    return state_[byte] == State::known;
  }

  // All of them at once, where so many blocks follow that asking for each takes longer. False: some have none.
  bool find_all(const Levels& levels) {
    bool all = true;
    for (int byte = 0; byte < kE4m3Nan; ++byte) all &= find(levels, static_cast<std::uint8_t>(byte));
    return all;
  }

  const T* of(std::uint8_t byte) const { return limits_[byte][0]; }

 private:
  enum class State : std::uint8_t { unknown, known, has_none };

  void fill(const Levels& levels, std::uint8_t byte) {
    state_[byte] = State::has_none;
    if (levels.code_of(0.0F, byte) != 0) return;
    T last = 0;
    for (int k = 0; k < 7; ++k) {
      T beyond = Kind::kInfinity;  // codes grow with magnitudes
      while (beyond - last > 1) {
        const T middle = static_cast<T>(last + (beyond - last) / 2);
        (levels.code_of(Kind::value(middle), byte) <= k ? last : beyond) = middle;
      }
      for (int i = 0; i < kCopies; ++i) limits_[byte][k][i] = last;
    }
    state_[byte] = State::known;
  }

  HWY_ALIGN T limits_[128][8][kCopies] = {};  // of 8, a power of two, the last is not used
  State state_[128] = {};
};

// The code of each element in the top four bits of its lane, by a search among the limits: three comparisons, each with
// the limit that those before leave in question.
template <class D, class T>
HWY_INLINE hn::VFromD<D> top_codes(D d, const T* x, const T* limits) {
  constexpr int kCopies = 16 / static_cast<int>(sizeof(T));
  const hn::RebindToSigned<D> di;  // magnitudes are below 2^(bits - 1)
  const auto v = hn::LoadU(d, x);
  const auto magnitude = hn::BitCast(di, hn::And(v, hn::Set(d, Bits<T>::kMagnitude)));
  const auto limit = [&](int k) HWY_ATTR { return hn::BitCast(di, hn::LoadDup128(d, limits + k * kCopies)); };
  const auto four = hn::Gt(magnitude, limit(3));
  const auto two = hn::Gt(magnitude, hn::IfThenElse(four, limit(5), limit(1)));
  const auto one = hn::Gt(magnitude, hn::IfThenElse(four, hn::IfThenElse(two, limit(6), limit(4)),
                                                    hn::IfThenElse(two, limit(2), limit(0))));
  const auto bit = [&](auto mask, int number) HWY_ATTR {
    constexpr int kTop = 8 * static_cast<int>(sizeof(T)) - 1;
    return hn::BitCast(
        d, hn::IfThenElseZero(mask, hn::Set(di, static_cast<hn::TFromD<decltype(di)>>(T{1} << (kTop - number)))));
  };
  const auto sign = hn::AndNot(hn::Set(d, Bits<T>::kMagnitude), v);
  return hn::Or(hn::Or(sign, bit(four, 1)), hn::Or(bit(two, 2), bit(one, 3)));
}

// Codes, one for each lane of 16 bits that d has, each in the top four bits of its lane.
template <class D>
HWY_INLINE hn::VFromD<D> top_codes_in_16(D d, const std::uint16_t* x, const std::uint16_t* limits) {
  return top_codes(d, x, limits);
}
template <class D>
HWY_INLINE hn::VFromD<D> top_codes_in_16(D d, const std::uint32_t* x, const std::uint32_t* limits) {
  const hn::Repartition<std::uint32_t, D> d32;
  const auto first = hn::BitCast(d, top_codes(d32, x, limits));
  const auto second = hn::BitCast(d, top_codes(d32, x + hn::Lanes(d32), limits));
  return hn::ConcatOdd(d, second, first);
}

// Bytes i, i + 4, i + 8, i + 12 of each 128 bits one after the other, and then the words of all of them.
template <class D8>
HWY_INLINE hn::VFromD<D8> gathered_bytes(D8 d8, hn::VFromD<D8> v) {
  HWY_ALIGN static constexpr std::uint8_t kFourths[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  const auto words = hn::TableLookupBytes(v, hn::LoadDup128(d8, kFourths));
  if constexpr (hn::MaxLanes(d8) == 16) {
    return words;
  } else {
    HWY_ALIGN static constexpr std::uint32_t kWords[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    const hn::Repartition<std::uint32_t, D8> d32;
    return hn::BitCast(d8, hn::TableLookupLanes(hn::BitCast(d32, words), hn::SetTableIndices(d32, kWords)));
  }
}

// Writes the codes of x[0 .. count), count rounded up to 64, two a byte; bytes: the scales of blocks of 16. Meanwhile
// the elements `ahead` further on are prefetched; a prefetch never faults.
template <class Kind>
void encode_nvfp4_run(const typename Kind::Bits* x, std::int64_t count, const Limits<Kind>& limits,
                      const std::uint8_t* bytes, std::int64_t ahead, std::uint8_t* codes, bool stream) {
  const hn::CappedTag<std::uint16_t, 16> d;  // a block, or half of one
  const hn::Repartition<std::uint32_t, decltype(d)> d32;
  const hn::Repartition<std::uint8_t, decltype(d)> d8;
  constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(*x));
  const auto low_nibbles = hn::Set(d32, 0x0F0FU);
  const auto codes_at = [&](std::int64_t i) HWY_ATTR { return top_codes_in_16(d, x + i, limits.of(bytes[i / 16])); };
  // Pairs of codes as bytes: of each lane of 32 bits, in its two lowest, those of the elements at i and kLanes further
  // on.
  const auto pairs = [&](std::int64_t i) HWY_ATTR {
    const auto both = hn::BitCast(d32, hn::Or(hn::ShiftRight<8>(codes_at(i)), codes_at(i + kLanes)));
    return hn::Or(hn::And(hn::ShiftRight<4>(both), low_nibbles), hn::ShiftRight<16>(both));
  };
  const bool past_cache = stream && is_aligned(d8, codes);
  for (std::int64_t i = 0; i < count; i += 4 * kLanes) {
    for (std::int64_t line = 0; line < 4 * kLanes; line += kLine) prefetch(x + i + line, ahead);
    const auto four = hn::Or(pairs(i), hn::ShiftLeft<16>(pairs(i + 2 * kLanes)));
    const auto packed = gathered_bytes(d8, hn::BitCast(d8, four));
    past_cache ? hn::Stream(packed, d8, codes + i / 2) : hn::StoreU(packed, d8, codes + i / 2);
  }
}

  #endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
