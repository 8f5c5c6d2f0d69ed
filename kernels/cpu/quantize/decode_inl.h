// SIMD decoding of runs of codes, compiled once for each Highway target.
//
// A code becomes BF16 bits, which hold it exactly, and a scale adds to the exponent field. That is right as long as no
// result leaves the normal range: scale bytes kEasiestByte .. kHardestByte. Others go to scalar_decode.h.

#if defined(MXCHECK_CPU_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_CPU_DECODE_INL_H_
    #undef MXCHECK_CPU_DECODE_INL_H_
  #else
    #define MXCHECK_CPU_DECODE_INL_H_
  #endif

  #include <array>
  #include <cstdint>

  #include "hwy/highway.h"
  #include "kernels/cpu/quantize/lanes_inl.h"
  #include "kernels/cpu/quantize/scalar_decode.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_kernels::cpu {
namespace HWY_NAMESPACE {

// E5M2 reaches from 2^-16 (field 111) to 1.75 * 2^15 (field 142): 111 + byte - 127 >= 1, 142 + byte - 127 <= 254.
inline bool is_easy_byte(std::uint8_t byte) { return HWY_TARGET != HWY_SCALAR && byte >= 17 && byte <= 239; }

constexpr std::int64_t kDecodeGranule = 64;

  #if HWY_TARGET != HWY_SCALAR

// BF16 of the subnormal codes 0 .. 7 (0 .. 3 for E5M2): eight low bytes, then eight high bytes.
template <class F>
constexpr std::array<std::uint8_t, 16> subnormal_table() {
  std::array<std::uint8_t, 16> table{};
  for (unsigned code = 1; code < 1U << F::kMantissaBits; ++code) {
    unsigned fraction = code << (8 - F::kMantissaBits);  // of 1 - bias, with the hidden bit's place at 2^8
    unsigned field = 127 - F::kBias + 1;
    while (fraction < 256) fraction <<= 1, --field;
    const unsigned bits = field << 7 | (fraction & 255) >> 1;
    table[code] = static_cast<std::uint8_t>(bits & 255);
    table[code + 8] = static_cast<std::uint8_t>(bits >> 8);
  }
  return table;
}

template <class F>
struct Subnormals {
  HWY_ALIGN static constexpr std::array<std::uint8_t, 16> kTable = subnormal_table<F>();
};

// codes: one a lane. shift: (byte - 127) << 7 of each code's block.
template <class F, class D, class V>
HWY_INLINE V decode(D d, V codes, V shift) {
  const auto constant = [&](unsigned value) HWY_ATTR { return hn::Set(d, static_cast<std::uint16_t>(value)); };
  const hn::Repartition<std::uint8_t, D> d8;
  const V magnitude = hn::And(codes, constant(0x7F));
  const V sign = hn::ShiftLeft<8>(hn::And(codes, constant(0x80)));
  const V normal = hn::Add(hn::ShiftLeft<7 - F::kMantissaBits>(magnitude), constant((127 - F::kBias) << 7));
  const V low = hn::And(magnitude, constant(7));
  const V index = hn::Or(hn::Or(low, hn::ShiftLeft<8>(low)), constant(0x0800));
  const auto table = hn::LoadDup128(d8, Subnormals<F>::kTable.data());
  const V subnormal = hn::BitCast(d, hn::TableLookupBytes(table, hn::BitCast(d8, index)));
  const auto is_subnormal = hn::Eq(hn::ShiftRight<F::kMantissaBits>(magnitude), hn::Zero(d));
  const V scaled = hn::Add(hn::IfThenElse(is_subnormal, subnormal, normal), shift);
  const V finite = hn::Or(hn::IfThenZeroElse(hn::Eq(magnitude, hn::Zero(d)), scaled), sign);
  const auto is_number = hn::Eq(hn::Min(magnitude, constant(F::kLargestCode)), magnitude);
  V special = constant(0x7FC0);
  if constexpr (F::kHasInfinity) {
    const auto is_infinite = hn::Eq(magnitude, constant(F::kLargestCode + 1));
    special = hn::IfThenElse(is_infinite, hn::Or(sign, constant(0x7F80)), special);
  }
  return hn::IfThenElse(is_number, finite, special);
}

template <class D16, class V16>
HWY_INLINE void store_values(D16 d, V16 bf16, std::uint16_t* to, bool stream) {
  stream ? hn::Stream(bf16, d, to) : hn::StoreU(bf16, d, to);
}

template <class D16, class V16>
HWY_INLINE void store_values(D16 /*d*/, V16 bf16, std::uint32_t* to, bool stream) {
  const hn::Half<D16> half;
  const hn::ScalableTag<std::uint32_t> d32;
  const auto lower = hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LowerHalf(half, bf16)));
  const auto upper = hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::UpperHalf(half, bf16)));
  stream ? hn::Stream(lower, d32, to) : hn::StoreU(lower, d32, to);
  stream ? hn::Stream(upper, d32, to + hn::Lanes(d32)) : hn::StoreU(upper, d32, to + hn::Lanes(d32));
}

// Codes of the columns first .. first + count of the shifts; both multiples of kDecodeGranule.
template <class F, class Where, class T>
void decode_run(const std::uint8_t* codes, std::int64_t first, std::int64_t count, const std::uint16_t* shifts, T* y,
                bool stream) {
  const hn::ScalableTag<std::uint16_t> d;
  const hn::Rebind<std::uint8_t, decltype(d)> d8;
  const hn::ScalableTag<T> dt;
  const std::int64_t step = static_cast<std::int64_t>(hn::Lanes(d));
  const bool past_cache = stream && is_aligned(dt, y);
  for (std::int64_t i = 0; i < count; i += step) {
    const auto code = hn::PromoteTo(d, hn::LoadU(d8, codes + i));
    store_values(d, decode<F>(d, code, Where::at(d, shifts, first + i)), y + i, past_cache);
  }
}

  #endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
