// Dot products of doubles over 4 rows of a and a panel of 16 rows of b, and sums split in two, compiled once for each
// Highway target. What they are for, and why they are exact, is in exact_tile.h.

#if defined(MXCHECK_REFERENCE_ACCUMULATE_EXACT_ENGINE_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_REFERENCE_ACCUMULATE_EXACT_ENGINE_INL_H_
    #undef MXCHECK_REFERENCE_ACCUMULATE_EXACT_ENGINE_INL_H_
  #else
    #define MXCHECK_REFERENCE_ACCUMULATE_EXACT_ENGINE_INL_H_
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

constexpr std::int64_t kPanel = ExactRows::kPanel;
constexpr std::int64_t kBlock = ExactRows::kBlock;  // of b's panel: 32 KiB, which stay in L1
constexpr std::int64_t kRows = 4;                   // of a, that share the loads of b

// Two vectors of b by four rows of a: eight chains hide the latency of a fused multiply-add.
using D = hn::CappedTag<double, kPanel / 2>;
using V = hn::Vec<D>;

HWY_INLINE void add(V part, double* sum) { hn::StoreU(hn::Add(hn::LoadU(D(), sum), part), D(), sum); }

HWY_INLINE void dot_products(const double* const (&a)[kRows], const double* b, std::int64_t count,
                             double* const (&sums)[kRows]) {
  const D d;
  const std::size_t n = hn::Lanes(d);
  for (std::size_t g = 0; g < static_cast<std::size_t>(kPanel); g += 2 * n) {
    V s00 = hn::Zero(d);
    V s01 = hn::Zero(d);
    V s10 = hn::Zero(d);
    V s11 = hn::Zero(d);
    V s20 = hn::Zero(d);
    V s21 = hn::Zero(d);
    V s30 = hn::Zero(d);
    V s31 = hn::Zero(d);
    for (std::int64_t at = 0; at < count * kPanel; at += kPanel) {
      const V b0 = hn::LoadU(d, b + at + g);
      const V b1 = hn::LoadU(d, b + at + g + n);
      const V a0 = hn::Set(d, a[0][at]);
      s00 = hn::MulAdd(a0, b0, s00);
      s01 = hn::MulAdd(a0, b1, s01);
      const V a1 = hn::Set(d, a[1][at]);
      s10 = hn::MulAdd(a1, b0, s10);
      s11 = hn::MulAdd(a1, b1, s11);
      const V a2 = hn::Set(d, a[2][at]);
      s20 = hn::MulAdd(a2, b0, s20);
      s21 = hn::MulAdd(a2, b1, s21);
      const V a3 = hn::Set(d, a[3][at]);
      s30 = hn::MulAdd(a3, b0, s30);
      s31 = hn::MulAdd(a3, b1, s31);
    }
    add(s00, sums[0] + g);
    add(s01, sums[0] + g + n);
    add(s10, sums[1] + g);
    add(s11, sums[1] + g + n);
    add(s20, sums[2] + g);
    add(s21, sums[2] + g + n);
    add(s30, sums[3] + g);
    add(s31, sums[3] + g + n);
  }
}

void RunDotProducts(const DotProducts& job) {
  for (std::int64_t k = job.k.begin; k < job.k.end; k += kBlock) {
    const std::int64_t count = std::min(kBlock, job.k.end - k);
    for (std::int64_t p = job.panels.begin; p < job.panels.end; ++p) {
      const double* b = job.b.values(p) + k * kPanel;
      for (std::int64_t i = job.rows.begin; i < job.rows.end; i += kRows) {
        double nowhere[kPanel] = {};  // for what rows past the end would add
        const double* a[kRows];
        double* sums[kRows];
        for (std::int64_t r = 0; r < kRows; ++r) {
          const bool inside = i + r < job.rows.end;
          a[r] = job.a.values_of_row(inside ? i + r : i) + k * kPanel;
          sums[r] = inside ? job.sums + (i + r - job.rows.begin) * job.ld + (p - job.panels.begin) * kPanel : nowhere;
        }
        dot_products(a, b, count, sums);
      }
    }
  }
}

bool RunSplitSums(const SplitSums& job) {
  #if !HWY_NATIVE_FMA
  if (job.wide) return false;
  #endif
  const D d;
  const std::size_t n = hn::Lanes(d);
  for (std::size_t g = 0; g < static_cast<std::size_t>(kPanel); g += 2 * n) {
    const V sigma0 = hn::LoadU(d, job.sigma + g);
    const V sigma1 = hn::LoadU(d, job.sigma + g + n);
    V high0 = hn::Zero(d);
    V high1 = high0;
    V low0 = high0;
    V low1 = high0;
    for (std::int64_t at = 0; at < job.count * kPanel; at += kPanel) {
      const V a = hn::Set(d, job.a[at]);
      const V b0 = hn::LoadU(d, job.b + at + g);
      const V b1 = hn::LoadU(d, job.b + at + g + n);
      const V h0 = hn::Sub(hn::MulAdd(a, b0, sigma0), sigma0);
      const V h1 = hn::Sub(hn::MulAdd(a, b1, sigma1), sigma1);
      high0 = hn::Add(high0, h0);
      high1 = hn::Add(high1, h1);
      low0 = hn::Add(low0, hn::MulSub(a, b0, h0));
      low1 = hn::Add(low1, hn::MulSub(a, b1, h1));
    }
    hn::StoreU(high0, d, job.high + g);
    hn::StoreU(high1, d, job.high + g + n);
    hn::StoreU(low0, d, job.low + g);
    hn::StoreU(low1, d, job.low + g + n);
  }
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck::detail
HWY_AFTER_NAMESPACE();

#endif  // include guard
