// Token choice of any kind: one warp a row. Keys lie in shared memory; the first of them is taken top_k times. For what
// topk_quad.cuh does not do: groups, and more than 32 experts a token.

#include <algorithm>

#include "kernels/sm90/route/logits_row.cuh"
#include "kernels/sm90/route/router_scores.cuh"
#include "kernels/sm90/route/topk.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kMostShared = 48 << 10;
constexpr int kMostWarps = 8;
static_assert(kMostExperts * (sizeof(Key32) + sizeof(std::uint32_t)) <= kMostShared);

// Keys of groups that are not kept become absent. `values` is room for a group's value each, folded.
__device__ void limit_to_groups(const Router& r, Key32* keys, std::uint32_t* values, int lane) {
  const int length = r.experts / r.groups;
  const int largest = max(1, r.top_k / r.groups_kept);
  int lanes = 1;  // of a group
  while (lanes * 2 * r.groups <= 32) lanes *= 2;
  for (int first = 0; first < r.groups; first += 32 / lanes) {
    const int g = first + lane / lanes;
    const Key32* const mine = keys + static_cast<std::ptrdiff_t>(min(g, r.groups - 1)) * length;
    Key32 taken = 0;  // less than every key
    float sum = 0;
    for (int n = 0; n < largest; ++n) {
      Key32 next = kAbsent<Key32>;
      for (int i = lane % lanes; i < length; i += lanes) {
        const Key32 key = mine[i];
        if (key > taken) next = smaller(next, key);
      }
      for (int step = lanes / 2; step > 0; step /= 2) next = smaller(next, __shfl_xor_sync(kWarp, next, step));
      taken = next;
      float value = value_of(next);
      if (value != value) value = -INFINITY;
      sum = n == 0 ? value : __fadd_rn(sum, value);
    }
    if (g < r.groups) values[g] = folded(word_of(negated(sum)));
  }
  __syncwarp();
  for (int g = lane; g < r.groups; g += 32) {
    const std::uint32_t mine = values[g];
    int before = 0;
    for (int h = 0; h < r.groups; ++h) before += values[h] < mine || (values[h] == mine && h < g) ? 1 : 0;
    if (before < r.groups_kept) continue;
    for (int i = 0; i < length; ++i) keys[g * length + i] = kAbsent<Key32>;
  }
  __syncwarp();
}

__device__ __forceinline__ Key32 first_of_lane(const Key32* keys, int experts, int lane) {
  Key32 first = kAbsent<Key32>;
#pragma unroll 4
  for (int e = lane; e < experts; e += 32) first = smaller(first, keys[e]);
  return first;
}

// The keys of a row's experts, to shared memory.
template <Logits kType>
__device__ __forceinline__ void write_keys(const Router& r, const void* row, const Softmax& softmax,
                                           const NearRoots& roots, Key32* keys, int lane) {
  // Four at a time, as each takes long; those past the end are the last one's once more.
  for (int first = lane; first - lane < r.experts; first += 4 * 32) {
    float x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = logit_at<kType>(row, min(first + i * 32, r.experts - 1));
    float values[4];
    topk_values(r.score, x, softmax, roots, values);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int e = first + i * 32;
      if (e >= r.experts) break;
      if (r.bias != nullptr) values[i] = __fadd_rn(values[i], __ldg(r.bias + e));
      keys[e] = key_of(negated(values[i]), static_cast<std::uint32_t>(e));
    }
  }
}

// The chosen experts of a row and their weights.
template <Logits kType, int kMany>
__device__ __forceinline__ void write_row(const TopkJob& job, const void* row, const Softmax& softmax,
                                          std::int64_t token, const int (&experts)[kMany], int lane) {
  const Router& r = job.router;
  float terms[kMany];
  float largest = -INFINITY;
#pragma unroll
  for (int i = 0; i < kMany; ++i) {
    terms[i] = float_of(0x7FFFFFFFU);
    if (i * 32 + lane < r.top_k) terms[i] = logit_at<kType>(row, experts[i]);
    largest = fmaxf(largest, terms[i]);
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(kWarp, largest, step));
#pragma unroll
  for (int i = 0; i < kMany; ++i) {
    terms[i] = r.score == Score::logits ? exp_below(terms[i], largest) : score_of(r.score, terms[i], softmax);
  }
  float sum = sum_from(r);
  in_order(terms, r.top_k, [&sum](float term, int) { sum = __fadd_rn(sum, term); });
  const float divisor = divisor_of(r, sum);
#pragma unroll
  for (int i = 0; i < kMany; ++i) {
    const int k = i * 32 + lane;
    if (k >= r.top_k) continue;
    const std::int64_t slot = token * r.top_k + k;
    if (job.experts != nullptr) job.experts[slot] = experts[i];
    if (job.weights != nullptr) job.weights[slot] = weight_of(r, terms[i], divisor);
  }
}

// kMany ranks of a lane: lane, lane + 32, ...
template <Logits kType, int kMany>
__global__ void __launch_bounds__(kMostWarps * 32) topk_row(const __grid_constant__ TopkJob job) {
  const Router& r = job.router;
  if (r.stop != nullptr && *r.stop != 0) return;
  extern __shared__ Key32 shared[];
  const int warps = static_cast<int>(blockDim.x / 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t token = std::int64_t{blockIdx.x} * warps + warp;
  if (token >= r.tokens) return;  // all 32 lanes
  Key32* const keys = shared + static_cast<std::ptrdiff_t>(warp) * r.experts;
  auto* const group_values = reinterpret_cast<std::uint32_t*>(shared + static_cast<std::ptrdiff_t>(warps) * r.experts) +
                             static_cast<std::ptrdiff_t>(warp) * r.groups;
  const void* const row = row_of(r, token);

  const NearRoots roots = near_roots();
  Softmax softmax;
  if (r.score == Score::softmax) softmax = softmax_of_row<kType>(row, r.experts, lane);
  write_keys<kType>(r, row, softmax, roots, keys, lane);
  __syncwarp();
  if (r.groups != 0) limit_to_groups(r, keys, group_values, lane);

  int experts[kMany] = {};
  Key32 mine = first_of_lane(keys, r.experts, lane);
#pragma unroll
  for (int i = 0; i < kMany; ++i) {
    const int here = min(r.top_k - i * 32, 32);
    for (int l = 0; l < here; ++l) {
      const Key32 first = first_of_warp(mine);
      const auto e = static_cast<int>(index_of(first));
      if (lane == l) experts[i] = e;
      if (mine == first) {
        keys[e] = kAbsent<Key32>;
        mine = first_of_lane(keys, r.experts, lane);
      }
    }
  }
  write_row<kType>(job, row, softmax, token, experts, lane);
}

template <Logits kType>
void launch(const TopkJob& job, cudaStream_t stream) {
  const Router& r = job.router;
  const int bytes = r.experts * static_cast<int>(sizeof(Key32)) + r.groups * static_cast<int>(sizeof(std::uint32_t));
  const int warps = std::clamp(kMostShared / bytes, 1, kMostWarps);
  const auto blocks = static_cast<unsigned>((std::int64_t{r.tokens} + warps - 1) / warps);
  const auto threads = static_cast<unsigned>(warps * 32);
  const auto shared = static_cast<std::size_t>(warps) * static_cast<std::size_t>(bytes);
  if (r.top_k <= 32) {
    topk_row<kType, 1><<<blocks, threads, shared, stream>>>(job);
  } else {
    topk_row<kType, kMostKept / 32><<<blocks, threads, shared, stream>>>(job);
  }
}

}  // namespace

cudaError_t topk_warp(const TopkJob& job, cudaStream_t stream) {
  if (job.router.type == Logits::bf16) {
    launch<Logits::bf16>(job, stream);
  } else {
    launch<Logits::fp32>(job, stream);
  }
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
