#pragma once
// The best groups of a row of few.cuh, and of them the best experts: each lane keeps a sorted list of the best it has
// seen; lists meet by shuffles.

#include "kernels/sm90/route/choose/few_sum.cuh"

namespace mxcheck_kernels::sm90 {

template <Logits kType, Choice kChoice, int kList>
struct FewList : FewSum<kType, kChoice, kList> {
  using Base = FewSum<kType, kChoice, kList>;
  using Base::job, Base::row, Base::lane, Base::rest, Base::load, Base::group_key, Base::expert_keys, Base::index_in;
  using Base::kBiased, Base::kSettled, Base::kPer, Base::kAtOnce;
  using typename Base::Key;
  using typename Base::Raw;

  // The best groups, of which this lane has its share in list[0], list[2], ... or list[1], list[3], ... of the first
  // half.
  __device__ __forceinline__ void choose_groups(int groups, int rounds, Key (&list)[kList]) {
#pragma unroll 1
    for (int from = 0; from < rounds; from += kGroup) {
      Key keys[kGroup];
      if constexpr (!kBiased) {
        const bool inside = (from + kGroup) * kLanes <= groups;
#pragma unroll
        for (int part = 0; part < kGroup; part += kAtOnce) {
          Raw raw[kAtOnce];
          const int g = (from + part) * kLanes + lane;
          if (job.aligned && inside) {
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) raw[i] = load_inside<kType>(row, g + i * kLanes);
          } else if (job.aligned) {
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) raw[i] = load_aligned<kType>(row, g + i * kLanes, groups);
          } else {
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) raw[i] = load_elements<kType>(row, g + i * kLanes, job.router.experts);
          }
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) keys[part + i] = group_key(raw[i], g + i * kLanes);
        }
      } else {
#pragma unroll
        for (int k = 0; k < kGroup; ++k) keys[k] = kAbsent<Key>;
#pragma unroll 1
        for (int i = 0; i < kGroup && from + i < rounds; ++i) {  // keys move up: registers have no index
          const int g = (from + i) * kLanes + lane;
          const Key key = group_key(load(g), g);
#pragma unroll
          for (int k = 0; k < kGroup - 1; ++k) keys[k] = keys[k + 1];
          keys[kGroup - 1] = key;
        }
      }
      sort<0, kGroup>(keys);
      insert_or_start(list, keys, from == 0);
    }
    if (kSettled && rounds > kList) rest = smaller(rest, list[kList - 1]);  // what insert() dropped comes after
    meet<kList>(list, 1);
    sort_bitonic<kList>(list);
    // The last meeting needs the set of the best keys alone, in any order. A lane and the one it meets hold it in
    // opposite orders, so that the first halves of both are all of it.
    meet<kList / 2>(list, 2);
  }

  __device__ __forceinline__ static void insert_or_start(Key (&list)[kList], const Key (&keys)[kGroup], bool start) {
    if (start) {
#pragma unroll
      for (int i = 0; i < kList; ++i) list[i] = i < kGroup ? keys[i < kGroup ? i : 0] : kAbsent<Key>;
    } else {
      insert<kList, kGroup>(list, keys);
    }
  }

  // The first kCount of the better of this lane's keys and those of the lane whose number differs in `bit`, both
  // sorted: what is last in the one list meets what is first in the other.
  template <int kCount>
  __device__ __forceinline__ void meet(Key (&list)[kList], int bit) {
    Key other[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) other[i] = __shfl_xor_sync(kWarp, list[kList - 1 - i], bit);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if constexpr (kSettled) rest = smaller(rest, larger(list[i], other[i]));
      list[i] = smaller(list[i], other[i]);
    }
  }

  // The best experts: this lane's ranks.
  __device__ __forceinline__ void choose_experts(Key (&ranks)[kPer]) {
    Key list[kList];
    const int groups = (job.router.experts + kGroup - 1) / kGroup;
    int rounds = (groups + kLanes - 1) / kLanes;
    const bool all = groups <= kList;
    Key from[kList];
    if (!all) {
      choose_groups(groups, rounds, from);
      rounds = kPer;
    }
#pragma unroll(kList == 8 && !kBiased ? 2 : 1)
    for (int i = 0; i < rounds; ++i) {
      int g = i * kLanes + lane;
      if (!all) {
        const Key mine = lane % 2 == 0 ? from[0] : from[1];
        g = mine == kAbsent<Key> ? groups : static_cast<int>(index_in(mine));
#pragma unroll
        for (int k = 0; k + 2 < kList / 2; ++k) from[k] = from[k + 2];
      }
      const Raw raw = load(g);
      Key keys[kGroup];
      expert_keys(raw, g, keys);
      sort<0, kGroup>(keys);
      insert_or_start(list, keys, i == 0);
    }
    if constexpr (kSettled) rest = smaller(rest, list[kList - 1]);  // what insert() dropped comes after
    meet<kList>(list, 1);
    sort_bitonic<kList>(list);
    meet<kList>(list, 2);
    // Sorted, but for what other lanes are to have: halves, quarters, and a quarter's order. In the lanes that met the
    // sequence is the same or its reverse, which makes no difference to the sets.
#pragma unroll
    for (int i = 0; i < kPer * 2; ++i) list[i] = share(list[i], list[i + kPer * 2], (lane & 2) != 0);
#pragma unroll
    for (int i = 0; i < kPer; ++i) ranks[i] = share(list[i], list[i + kPer], (lane & 1) != 0);
    sort_bitonic<kPer>(ranks);
  }

  __device__ __forceinline__ static Key share(Key a, Key b, bool upper) { return upper ? larger(a, b) : smaller(a, b); }
};

}  // namespace mxcheck_kernels::sm90
