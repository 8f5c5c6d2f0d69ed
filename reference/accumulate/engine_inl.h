// The fused dot-product-add over 4 rows of a and a panel of 64 rows of b, compiled once for each Highway target.
//
// Exponents find the window; then each product, exact in FP32, is scaled to units of the sum's quantum and truncated to
// an integer. The last bits are cut in integers as well: no result depends on MXCSR.
//
// Why it is exact. Let r be the sum of two references minus the window. Where codes lie deep below their reference, a
// lane is decided here if r + fraction_bits <= 48: a product with a code more than 50 below its reference (which reads
// as zero) is then below 4 * 2^-51 * 2^48 < 1 unit, truncated to zero, and lies below the window. Other products are at
// least 2^-120 before and 2^-123 after scaling: never subnormal. Where no code lies deep, as in all formats of up to 5
// exponent bits, nothing but zero reads as zero, and exponents tell products that are zero from those that are not.

#if defined(MXCHECK_REFERENCE_ACCUMULATE_ENGINE_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_REFERENCE_ACCUMULATE_ENGINE_INL_H_
    #undef MXCHECK_REFERENCE_ACCUMULATE_ENGINE_INL_H_
  #else
    #define MXCHECK_REFERENCE_ACCUMULATE_ENGINE_INL_H_
  #endif

  #include <algorithm>
  #include <cstddef>
  #include <cstdint>

  #include "hwy/highway.h"
  #include "reference/accumulate/engine.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kPanel = PackedOperand::kPanel;
constexpr std::int32_t kNoLimit = 1000;  // above all that finite codes give, below PackedOperand::kSpecialReference
constexpr int kRows = 4;                 // of a, that share the loads of b

using DF = hn::CappedTag<float, kPanel>;
using DI = hn::RebindToSigned<DF>;
using D8 = hn::CappedTag<std::int8_t, kPanel>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
using V8 = hn::Vec<D8>;

// Toward zero. ConvertTo also saturates, for which x86 takes three more instructions; lanes for which that would matter
// are not decided here.
  #if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
HWY_INLINE VI truncate(VF v) { return VI{_mm512_cvttps_epi32(v.raw)}; }
  #elif HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
HWY_INLINE VI truncate(VF v) { return VI{_mm256_cvttps_epi32(v.raw)}; }
  #else
HWY_INLINE VI truncate(VF v) { return hn::ConvertTo(DI(), v); }
  #endif

class Chains {
 public:
  explicit Chains(const ChainJob& job)
      : job_(job),
        terms_(job.a.contract().step.terms),
        fraction_bits_(job.a.contract().step.fraction_bits),
        floor_(job.a.contract().step.window_floor),
        mantissa_mask_(static_cast<std::int32_t>(~0U << job.a.contract().step.output.shift)),
        terms_at_once_(fraction_bits_ <= 20 ? terms_ : std::min<std::int64_t>(terms_, 16)) {}

  void run() {
    const std::int64_t chunk = std::max<std::int64_t>(1, 512 / terms_);  // of b: 160 KiB, well inside L2
    constexpr std::int64_t kWidth = PackedOperand::kPanel;
    for (std::int64_t s = job_.steps.begin; s < job_.steps.end; s += chunk) {
      const Extent steps{s, std::min(s + chunk, job_.steps.end)};
      for (std::int64_t p = job_.cols.begin / kWidth; p * kWidth < job_.cols.end; ++p) {
        panel_ = p;
        lanes_ = {std::max(job_.cols.begin - p * kWidth, std::int64_t{0}),
                  std::min(job_.cols.end - p * kWidth, kWidth)};
        for (std::int64_t i = job_.rows.begin; i < job_.rows.end; i += kRows) block(i, steps);
      }
    }
  }

 private:
  // Rows [row, row + 4) of a, or what is left of them, with lanes_ of the panel.
  void block(std::int64_t row, Extent steps) {
    row_ = row;
    count_ = static_cast<int>(std::min<std::int64_t>(kRows, job_.rows.end - row));
    const auto width = static_cast<std::size_t>(lanes_.end - lanes_.begin);
    const auto word = [&](int r) {
      const std::int64_t col = panel_ * PackedOperand::kPanel + lanes_.begin - job_.cols.begin;
      return job_.acc + (row + r - job_.rows.begin) * job_.ld + col;
    };
    for (int r = 0; r < count_; ++r) std::copy_n(word(r), width, acc_[r] + lanes_.begin);
    for (std::int64_t s = steps.begin; s < steps.end; ++s) step(s);
    for (int r = 0; r < count_; ++r) std::copy_n(acc_[r] + lanes_.begin, width, word(r));
  }

  void step(std::int64_t s) {
    const PackedOperand::References& of_b = job_.b.references(panel_, s);
    const std::int8_t* exponents[kRows];
    const float* values[kRows];
    std::int32_t references[kRows];
    std::int32_t limits[kRows];
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t i = row_ + std::min(r, count_ - 1);  // rows past the end repeat the last one
      const std::int64_t p = i / PackedOperand::kPanel;
      const std::int64_t lane = i % PackedOperand::kPanel;
      const PackedOperand::References& of_a = job_.a.references(p, s);
      exponents[r] = job_.a.exponents(p, s)->lane + lane;
      values[r] = job_.a.values(p, s)->lane + lane;
      references[r] = of_a.lane[lane];
      limits[r] = of_a.deep || of_b.deep ? 48 - fraction_bits_ : kNoLimit;
    }
    largest_exponents(exponents, job_.b.exponents(panel_, s)->lane);

    const float* b = job_.b.values(panel_, s)->lane;
    const std::size_t n = hn::Lanes(DF());
    const auto first = static_cast<std::size_t>(lanes_.begin) / n * n;
    for (std::size_t g = first; g < static_cast<std::size_t>(lanes_.end); g += n) {
      for (int r = 0; r < count_; ++r) align(r, g, references[r], of_b.lane, limits[r]);
      for (int r = count_; r < kRows; ++r) hn::Store(hn::Zero(DF()), DF(), scale_[r] + g);
      sums(values, b, g);
      for (int r = 0; r < count_; ++r) finish(r, g, s);
    }
  }

  // largest_[r]: of the sums of exponents over the step.
  void largest_exponents(const std::int8_t* const (&a)[kRows], const std::int8_t* b) {
    const D8 d;
    for (std::size_t g = 0; g < kPanel; g += hn::Lanes(d)) {
      V8 m0 = hn::Set(d, -128);
      V8 m1 = m0;
      V8 m2 = m0;
      V8 m3 = m0;
      for (std::size_t at = 0; at < static_cast<std::size_t>(terms_) * kPanel; at += kPanel) {
        const V8 x = hn::Load(d, b + at + g);
        m0 = hn::Max(m0, hn::Add(x, hn::Set(d, a[0][at])));
        m1 = hn::Max(m1, hn::Add(x, hn::Set(d, a[1][at])));
        m2 = hn::Max(m2, hn::Add(x, hn::Set(d, a[2][at])));
        m3 = hn::Max(m3, hn::Add(x, hn::Set(d, a[3][at])));
      }
      hn::Store(m0, d, largest_[0] + g);
      hn::Store(m1, d, largest_[1] + g);
      hn::Store(m2, d, largest_[2] + g);
      hn::Store(m3, d, largest_[3] + g);
    }
  }

  // The window of row r's lanes from g on, what products are multiplied by, and c in units.
  HWY_INLINE void align(int r, std::size_t g, std::int32_t a_reference, const std::int32_t* b_references,
                        std::int32_t limit) {
    const DI d;
    const VI zero = hn::Zero(d);
    const VI references = hn::Add(hn::Set(d, a_reference), hn::Load(d, b_references + g));
    const VI floor = hn::Set(d, floor_);
    const VI word = hn::BitCast(d, hn::Load(hn::RebindToUnsigned<DI>(), acc_[r] + g));
    const VI magnitude = hn::And(word, hn::Set(d, 0x7FFFFFFF));
    const VI field = hn::ShiftRight<23>(magnitude);
    const VI c_exponent =
        hn::IfThenElse(hn::Eq(magnitude, zero), floor, hn::Sub(hn::Max(field, hn::Set(d, 1)), hn::Set(d, 127)));
    const VI hidden = hn::IfThenZeroElse(hn::Eq(field, zero), hn::Set(d, 0x800000));
    const VI significand = hn::Or(hn::And(magnitude, hn::Set(d, 0x7FFFFF)), hidden);

    const VI largest = hn::PromoteTo(d, hn::LoadU(hn::Rebind<std::int8_t, DI>(), largest_[r] + g));
    const VI of_products =
        hn::IfThenElse(hn::Gt(largest, hn::Set(d, PackedOperand::kZeroExponent)), hn::Add(largest, references), floor);
    const VI window = hn::Max(hn::Max(of_products, c_exponent), floor);
    const VI above = hn::Sub(references, window);
    // Below 2^-3 all is cut, above 2^100 every product is zero.
    const VI power = hn::Min(hn::Max(hn::Add(above, hn::Set(d, fraction_bits_)), hn::Set(d, -3)), hn::Set(d, 100));
    // A shift of 31 leaves nothing of 26 bits.
    const VI drop = hn::Min(hn::Add(hn::Sub(window, c_exponent), hn::Set(d, 25 - fraction_bits_)), hn::Set(d, 31));
    const VI c_units = hn::Shr(hn::ShiftLeft<2>(significand), drop);
    // Steps with NaN or Inf go to the plain model, even where their finite terms sum to zero.
    const auto special = hn::Gt(references, hn::Set(d, PackedOperand::kSpecialReference / 2));
    const auto undecided = hn::Or(special, hn::Or(hn::Gt(above, hn::Set(d, limit)), hn::Eq(field, hn::Set(d, 255))));

    hn::Store(hn::BitCast(DF(), hn::ShiftLeft<23>(hn::Add(power, hn::Set(d, 127)))), DF(), scale_[r] + g);
    hn::Store(hn::Sub(window, hn::Set(d, fraction_bits_)), d, quantum_[r] + g);
    hn::Store(hn::IfThenElse(hn::Lt(word, zero), hn::Neg(c_units), c_units), d, sum_[r] + g);
    hn::Store(hn::VecFromMask(d, undecided), d, undecided_[r] + g);
  }

  // Adds the products of lanes from g on to sum_, 16 at a time where more could overflow.
  HWY_INLINE void sums(const float* const (&a)[kRows], const float* b, std::size_t g) {
    const DF d;
    const VF f0 = hn::Load(d, scale_[0] + g);
    const VF f1 = hn::Load(d, scale_[1] + g);
    const VF f2 = hn::Load(d, scale_[2] + g);
    const VF f3 = hn::Load(d, scale_[3] + g);
    for (std::int64_t t = 0; t < terms_; t += terms_at_once_) {
      VI s0 = hn::Zero(DI());
      VI s1 = s0;
      VI s2 = s0;
      VI s3 = s0;
      const auto begin = static_cast<std::size_t>(t) * kPanel;
      const auto end = static_cast<std::size_t>(std::min(t + terms_at_once_, terms_)) * kPanel;
      for (std::size_t at = begin; at < end; at += kPanel) {
        const VF x = hn::Load(d, b + at + g);
        s0 = hn::Add(s0, truncate(hn::Mul(hn::Mul(x, hn::Set(d, a[0][at])), f0)));
        s1 = hn::Add(s1, truncate(hn::Mul(hn::Mul(x, hn::Set(d, a[1][at])), f1)));
        s2 = hn::Add(s2, truncate(hn::Mul(hn::Mul(x, hn::Set(d, a[2][at])), f2)));
        s3 = hn::Add(s3, truncate(hn::Mul(hn::Mul(x, hn::Set(d, a[3][at])), f3)));
      }
      add(0, g, s0);
      add(1, g, s1);
      add(2, g, s2);
      add(3, g, s3);
    }
  }

  // A sum that leaves 31 bits is not decided here.
  HWY_INLINE void add(int r, std::size_t g, VI part) {
    const DI d;
    const VI before = hn::Load(d, sum_[r] + g);
    const VI sum = hn::Add(before, part);
    const VI overflow = hn::And(hn::Xor(sum, before), hn::Xor(sum, part));
    hn::Store(sum, d, sum_[r] + g);
    hn::Store(hn::Or(hn::Load(d, undecided_[r] + g), hn::BroadcastSignBit(overflow)), d, undecided_[r] + g);
  }

  // Words of lanes from g on, cut toward zero.
  HWY_INLINE void finish(int r, std::size_t g, std::int64_t s) {
    const DI d;
    const VI zero = hn::Zero(d);
    const VI sum = hn::Load(d, sum_[r] + g);
    const VI quantum = hn::Load(d, quantum_[r] + g);
    const VI units = hn::Abs(sum);
    // However ConvertTo rounds, the float below or equal to units is this one or the one before.
    const VF rounded = hn::ConvertTo(DF(), units);
    const VI up = hn::VecFromMask(d, hn::Gt(truncate(rounded), units));
    const VI bits = hn::And(hn::Add(hn::BitCast(d, rounded), up), hn::Set(d, mantissa_mask_));
    const VI field = hn::Add(hn::ShiftRight<23>(bits), quantum);
    const VI signed_bits = hn::Or(hn::Add(bits, hn::ShiftLeft<23>(quantum)),
                                  hn::And(sum, hn::Set(d, static_cast<std::int32_t>(0x80000000U))));
    const auto none = hn::Eq(sum, zero);
    const VI word = hn::IfThenZeroElse(none, signed_bits);

    // Near 2^31 truncate(rounded) would overflow; so would the magnitude of -2^31.
    const auto large = hn::Or(hn::Gt(units, hn::Set(d, 0x7FFFFF00)), hn::Lt(units, zero));
    const auto outside = hn::AndNot(none, hn::Or(hn::Lt(field, hn::Set(d, 1)), hn::Gt(field, hn::Set(d, 254))));
    const auto undecided = hn::Or(hn::Lt(hn::Load(d, undecided_[r] + g), zero), hn::Or(large, outside));
    if (HWY_UNLIKELY(!hn::AllFalse(d, undecided))) {
      hn::Store(hn::VecFromMask(d, undecided), d, undecided_[r] + g);
      hn::Store(word, d, sum_[r] + g);
      return by_plain_model(r, g, s);
    }
    hn::Store(hn::BitCast(hn::RebindToUnsigned<DI>(), word), hn::RebindToUnsigned<DI>(), acc_[r] + g);
  }

  // sum_ holds words here; those of lanes marked in undecided_ are wrong.
  HWY_NOINLINE void by_plain_model(int r, std::size_t g, std::int64_t s) {
    const auto begin = std::max(static_cast<std::int64_t>(g), lanes_.begin);
    const auto end = std::min(static_cast<std::int64_t>(g + hn::Lanes(DI())), lanes_.end);
    for (std::int64_t l = begin; l < end; ++l) {
      if (undecided_[r][l] == 0) acc_[r][l] = static_cast<std::uint32_t>(sum_[r][l]);
    }
    const std::int64_t col = panel_ * PackedOperand::kPanel;
    plain_step(job_, row_ + r, {col + begin, col + end}, s, undecided_[r] + begin, acc_[r] + begin);
  }

  const ChainJob& job_;
  const std::int64_t terms_;
  const std::int32_t fraction_bits_;
  const std::int32_t floor_;
  const std::int32_t mantissa_mask_;

  const std::int64_t terms_at_once_;
  std::int64_t panel_ = 0;  // of b
  Extent lanes_{0, 0};      // of the panel, that are wanted
  std::int64_t row_ = 0;    // of a
  int count_ = 0;           // rows of a, of 4, that are wanted

  HWY_ALIGN std::uint32_t acc_[kRows][kPanel] = {};
  HWY_ALIGN std::int8_t largest_[kRows][kPanel] = {};
  HWY_ALIGN float scale_[kRows][kPanel] = {};
  HWY_ALIGN std::int32_t quantum_[kRows][kPanel] = {};  // exponent of a unit
  HWY_ALIGN std::int32_t sum_[kRows][kPanel] = {};      // in units
  HWY_ALIGN std::int32_t undecided_[kRows][kPanel] = {};
};

void RunChains(const ChainJob& job) { Chains(job).run(); }

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck::detail
HWY_AFTER_NAMESPACE();

#endif  // include guard
