// The codec's encode (numerics/format/codec.h) for nearest_even and saturate, on vectors of doubles, compiled once for
// each Highway target.
//
// Why it is the same. The product is encode's own: a float times a power of two, exact. From the lowest normal number
// on, a code and the bits below it are one number, rounded by an addition, as in the codec. Below it codes are
// multiples of one step: the sum of the magnitude and 2^52 steps, whose last bit is a step, is that multiple, rounded
// by IEEE 754's own rule for sums, and the last bits of the sum are the code. Infinities are above the largest code, as
// what overflows is. NaN is looked for.

#if defined(MXCHECK_REFERENCE_QUANTIZE_ENCODE_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_REFERENCE_QUANTIZE_ENCODE_BLOCKS_INL_H_
    #undef MXCHECK_REFERENCE_QUANTIZE_ENCODE_BLOCKS_INL_H_
  #else
    #define MXCHECK_REFERENCE_QUANTIZE_ENCODE_BLOCKS_INL_H_
  #endif

  #include <algorithm>
  #include <bit>
  #include <cstddef>
  #include <cstdint>

  #include "hwy/highway.h"
  #include "reference/quantize/encode_blocks.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<double>;
using DU = hn::RebindToUnsigned<D>;
using DF = hn::Rebind<float, D>;
using D8 = hn::Rebind<std::uint8_t, D>;
using V = hn::Vec<D>;
using VU = hn::Vec<DU>;

class BlockEncoder {
 public:
  explicit BlockEncoder(const EncodeJob& job)
      : job_(job),
        sign_shift_(spec(job.element).bits - 1),
        drop_(52 - spec(job.element).mantissa_bits),
        below_half_((std::uint64_t{1} << (drop_ - 1)) - 1),
        bias_(static_cast<std::uint64_t>(1023 - spec(job.element).bias) << spec(job.element).mantissa_bits),
        lowest_normal_(two_to(1 - spec(job.element).bias)),
        steps_(two_to(52 + 1 - spec(job.element).bias - spec(job.element).mantissa_bits)),
        max_code_(spec(job.element).max_code),
        nan_code_(spec(job.element).nan_code) {}

  void run() const {
    if (job_.block_cols == 1) return each_with_its_factor();
    std::size_t begin = 0;
    for (const double factor : job_.factors) {
      const std::size_t end = std::min(job_.values.size(), begin + job_.block_cols);
      const V all = hn::Set(D(), factor);
      std::size_t i = begin;
      for (; i + kLanes() <= end; i += kLanes()) encode(job_.values.data() + i, all, job_.codes + i);
      encode_rest(i, end, [&](std::size_t) { return factor; });
      begin = end;
    }
  }

 private:
  static std::size_t kLanes() { return hn::Lanes(D()); }
  static double two_to(int exponent) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
  }

  void each_with_its_factor() const {
    const std::size_t end = job_.values.size();
    std::size_t i = 0;
    for (; i + kLanes() <= end; i += kLanes()) {
      encode(job_.values.data() + i, hn::LoadU(D(), job_.factors.data() + i), job_.codes + i);
    }
    encode_rest(i, end, [&](std::size_t at) { return job_.factors[at]; });
  }

  // Fewer values than lanes.
  template <class FactorOf>
  void encode_rest(std::size_t begin, std::size_t end, FactorOf factor_of) const {
    if (begin == end) return;
    HWY_ALIGN float values[hn::MaxLanes(D())] = {};
    HWY_ALIGN double factors[hn::MaxLanes(D())] = {};
    HWY_ALIGN std::uint8_t codes[hn::MaxLanes(D())] = {};
    for (std::size_t i = begin; i < end; ++i) {
      values[i - begin] = job_.values[i];
      factors[i - begin] = factor_of(i);
    }
    encode(values, hn::Load(D(), factors), codes);
    std::copy_n(codes, end - begin, job_.codes + begin);
  }

  HWY_INLINE void encode(const float* values, V factors, std::uint8_t* codes) const {
    const D d;
    const DU du;
    const VU bits = hn::BitCast(du, hn::Mul(hn::PromoteTo(d, hn::LoadU(DF(), values)), factors));
    const VU sign = hn::ShiftRight<63>(bits);
    const VU magnitude = hn::Xor(bits, hn::ShiftLeft<63>(sign));
    const V value = hn::BitCast(d, magnitude);

    const VU last_bit = hn::And(hn::ShiftRightSame(magnitude, drop_), hn::Set(du, 1));
    const VU rounded = hn::ShiftRightSame(hn::Add(hn::Add(magnitude, hn::Set(du, below_half_)), last_bit), drop_);
    const VU normal = hn::Sub(rounded, hn::Set(du, bias_));
    const V steps = hn::Set(d, steps_);
    const VU subnormal = hn::Sub(hn::BitCast(du, hn::Add(value, steps)), hn::BitCast(du, steps));
    const auto is_subnormal = hn::RebindMask(du, hn::Lt(value, hn::Set(d, lowest_normal_)));
    const VU code = hn::Min(hn::IfThenElse(is_subnormal, subnormal, normal), hn::Set(du, max_code_));

    const VU with_sign = hn::Or(code, hn::ShiftLeftSame(sign, sign_shift_));
    const auto is_nan = hn::RebindMask(du, hn::IsNaN(value));
    const VU all = hn::IfThenElse(is_nan, hn::Set(du, nan_code_), with_sign);
    hn::StoreU(hn::TruncateTo(D8(), all), D8(), codes);
  }

  const EncodeJob& job_;
  int sign_shift_;
  int drop_;                  // bits of a double's mantissa below the code's
  std::uint64_t below_half_;  // of the last bit that is kept
  std::uint64_t bias_;        // of a double's exponent against the format's, in the code's place
  double lowest_normal_;
  double steps_;
  std::uint64_t max_code_;
  std::uint64_t nan_code_;
};

// clang-tidy: Highway's macros look it up by this name.
void EncodeBlocks(const EncodeJob& job) { BlockEncoder(job).run(); }

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck::detail
HWY_AFTER_NAMESPACE();

#endif
