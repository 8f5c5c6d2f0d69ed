// The k first of n keys, compiled once for each Highway target. Keys are integers in the order of the numbers they
// stand for; where two are equal the smaller place comes first.
//
// A bound first: the keys fall into at least 2k classes, and the k-th largest of the classes' largest keys is no larger
// than the k-th largest key. The few keys that reach it are ranked by counting, each against all.

#if defined(MXCHECK_CPU_ROUTE_SELECT_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_CPU_ROUTE_SELECT_INL_H_
    #undef MXCHECK_CPU_ROUTE_SELECT_INL_H_
  #else
    #define MXCHECK_CPU_ROUTE_SELECT_INL_H_
  #endif

  #include <algorithm>
  #include <cstdint>
  #include <functional>
  #include <limits>

  #include "hwy/highway.h"
  #include "kernels/cpu/route/space.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int32_t kLastKey = std::numeric_limits<std::int32_t>::min();  // of NaN, and of what is no expert
constexpr std::int64_t kFewCandidates = 64;
using KeyD = hn::ScalableTag<std::int32_t>;
using Keys = hn::Vec<KeyD>;

// FP32 as an integer of the same order: -0 as +0, NaN last.
HWY_INLINE Keys key_of(hn::Vec<hn::Rebind<float, KeyD>> value) {
  const KeyD d;
  const hn::Rebind<float, KeyD> df;
  const auto bits = hn::BitCast(d, hn::Add(value, hn::Zero(df)));
  const auto negative =
      hn::BitCast(d, hn::ShiftRight<1>(hn::BitCast(hn::RebindToUnsigned<KeyD>(), hn::ShiftRight<31>(bits))));
  return hn::IfThenElse(hn::RebindMask(d, hn::Eq(value, value)), hn::Xor(bits, negative), hn::Set(d, kLastKey));
}

HWY_INLINE std::int64_t key_with_place(std::int32_t key, std::int32_t place) {
  return (static_cast<std::int64_t>(key) << 32) | static_cast<std::uint32_t>(~place);
}
HWY_INLINE std::int32_t place_of(std::int64_t key) { return ~static_cast<std::int32_t>(key); }

// The places of the k first of count distinct keys with places, in order, where count is at most kFewCandidates.
HWY_INLINE void rank_few(std::int64_t* keyed, std::int64_t count, std::int64_t k, std::int32_t* first) {
  const hn::ScalableTag<std::int64_t> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN std::int64_t ranks[kFewCandidates + HWY_MAX_BYTES / 8];
  for (std::int64_t i = 0; i < count; i += lanes) {
    const auto mine = hn::Load(d, keyed + i);
    auto rank = hn::Zero(d);
    for (std::int64_t j = 0; j < count; ++j) {
      rank = hn::Sub(rank, hn::VecFromMask(d, hn::Gt(hn::Set(d, keyed[j]), mine)));
    }
    hn::Store(rank, d, ranks + i);
  }
  std::int32_t ordered[kFewCandidates];
  for (std::int64_t i = 0; i < count; ++i) ordered[ranks[i]] = place_of(keyed[i]);
  std::copy_n(ordered, k, first);
}

HWY_INLINE void rank_many(std::int64_t* keyed, std::int64_t count, std::int64_t k, std::int32_t* first) {
  if (k < count) std::nth_element(keyed, keyed + k, keyed + count, std::greater<>());
  std::sort(keyed, keyed + k, std::greater<>());
  std::transform(keyed, keyed + k, first, [](std::int64_t w) { return place_of(w); });
}

// The k-th largest of the largest keys of kClasses * lanes classes. n is a multiple of their number.
template <int kClasses>
HWY_INLINE std::int32_t bound_of(const std::int32_t* keys, std::int64_t n, std::int64_t k) {
  const KeyD d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN std::int32_t largest[kClasses * HWY_MAX_BYTES / 4];
  for (int c = 0; c < kClasses; ++c) {
    auto most = hn::Load(d, keys + c * lanes);
    for (std::int64_t i = (kClasses + c) * lanes; i < n; i += kClasses * lanes)
      most = hn::Max(most, hn::Load(d, keys + i));
    hn::Store(most, d, largest + c * lanes);
  }
  auto bound = hn::Set(d, std::numeric_limits<std::int32_t>::max());
  for (int c = 0; c < kClasses; ++c) {
    const auto mine = hn::Load(d, largest + c * lanes);
    auto rank = hn::Zero(d);
    for (std::int64_t j = 0; j < kClasses * lanes; ++j) {
      rank = hn::Sub(rank, hn::VecFromMask(d, hn::Gt(hn::Set(d, largest[j]), mine)));
    }
    bound = hn::Min(bound, hn::IfThenElse(hn::Lt(rank, hn::Set(d, static_cast<std::int32_t>(k))), mine, bound));
  }
  return hn::GetLane(hn::MinOfLanes(d, bound));
}

// 1 <= k <= n. Keys may be written past the n, up to a multiple of kRowGranule.
HWY_INLINE void select_first(std::int32_t* keys, std::int64_t n, std::int64_t k, std::int32_t* first, RowSpace& space) {
  const KeyD d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t* const keyed = space.candidates;
  std::int64_t count = n;
  if (n <= kFewCandidates / 4 || lanes < 2 || 2 * k > 8 * lanes || 3 * k > n) {
    for (std::int64_t i = 0; i < n; ++i) keyed[i] = key_with_place(keys[i], static_cast<std::int32_t>(i));
  } else {
    const int classes = 2 * k <= lanes ? 1 : 2 * k <= 2 * lanes ? 2 : 2 * k <= 4 * lanes ? 4 : 8;
    const std::int64_t whole = (n + classes * lanes - 1) / (classes * lanes) * (classes * lanes);
    std::fill(keys + n, keys + whole, kLastKey);
    const std::int32_t bound = classes == 1   ? bound_of<1>(keys, whole, k)
                               : classes == 2 ? bound_of<2>(keys, whole, k)
                               : classes == 4 ? bound_of<4>(keys, whole, k)
                                              : bound_of<8>(keys, whole, k);
    // Where the bound is a NaN's key, what fills up the last vectors reaches it too, and is ranked last.
    const auto least = hn::Set(d, bound);
    std::size_t found = 0;
    for (std::int64_t i = 0; i < whole; i += lanes) {
      const auto v = hn::Load(d, keys + i);
      const auto reaches = hn::Not(hn::Lt(v, least));
      hn::CompressStore(hn::Iota(d, static_cast<std::int32_t>(i)), reaches, d, space.candidate_place + found);
      found += hn::CompressStore(v, reaches, d, space.candidate_key + found);
    }
    count = static_cast<std::int64_t>(found);
    for (std::int64_t i = 0; i < count; ++i)
      keyed[i] = key_with_place(space.candidate_key[i], space.candidate_place[i]);
  }
  (count <= kFewCandidates ? rank_few : rank_many)(keyed, count, k, first);
}

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
