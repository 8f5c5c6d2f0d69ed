// The Hopper emulation's own checks, each met by a kernel that breaks one rule, and launch control.
//
//   emulation_on_sm90_test      a line each; exit code 1 where one fails, 3 without a Hopper card
//
// Every case is in a process of its own: a kernel that is stopped takes the CUDA context with it.

#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "emulation/on_sm90/launch.h"
#include "emulation/on_sm90/run.cuh"
#include "kernels/sm100/tcgen05/barrier.h"
#include "kernels/sm100/tcgen05/cluster.h"
#include "kernels/sm100/tcgen05/mma.h"
#include "kernels/sm100/tcgen05/tma.h"
#include "kernels/sm100/tcgen05/warp.h"

namespace mxcheck::sm100 {
namespace {

namespace engine = emulation::on_sm90;
using emulation::sm100::Hazard;
using emulation::sm100::Schedule;

constexpr unsigned kThreads = 64;
constexpr std::size_t kSharedBytes = 65536;
constexpr unsigned kDone = 32768;  // places in shared memory: operands are before
constexpr unsigned kSlot = kDone + 64;
constexpr unsigned kAnswer = kDone + 128;

// clang-format off
enum class Rule : int {
  none, columns, alloc_after_relinquish, growing, not_freed, freed_in_part, load_of_no_column, lanes_of_another_warp,
  instruction, matrix_outside, swizzle_in_the_middle, two_issuers, two_groups, odd_cta, d_at_lane_16, d_of_no_column,
  scale_copies, multicast_of_a_pair, wait_without_arrival, barrier_of_one_warp
};
// clang-format on

struct Arguments {
  TensorMap map;
  Rule rule;
  std::uint32_t* out;
};

constexpr SharedLayout kRows128 = k_major(Swizzle::b128);

__device__ void multiply(TmemAddress d, TmemAddress scales, std::uint64_t extra, std::uint32_t instruction) {
  SharedDescriptor a = shared_descriptor<kRows128>(shared_base());
  a.bits += extra;
  mma_block_scaled<1>(d, a, shared_descriptor<kRows128>(shared_base()), InstructionDescriptor{instruction}, scales,
                      scales + 4, false);
}

// 32 x 128b of the operands' bytes, whatever they are, as scales of A and B; then the mma that a rule is broken by.
__device__ void issue(Rule rule, TmemAddress tmem) {
  constexpr std::uint32_t kRight = instruction_descriptor<ScaledInstruction{.m = 128, .n = 128}>().bits;
  const SharedDescriptor chunk = shared_descriptor<scale_chunk()>(shared_base());
  cp<CpShape::rows32x128b_warpx4, 1>(tmem + 128, chunk);
  cp<CpShape::rows32x128b_warpx4, 1>(tmem + 132, chunk);
  switch (rule) {
    case Rule::instruction: return multiply(tmem, tmem + 128, 0, kRight | 8);
    case Rule::matrix_outside: return multiply(tmem, tmem + 128, kSharedBytes / 16, kRight);
    case Rule::swizzle_in_the_middle: return multiply(tmem, tmem + 128, 128 / 16, kRight);
    case Rule::d_at_lane_16: return multiply(tmem + (16U << 16), tmem + 128, 0, kRight);
    case Rule::d_of_no_column: return multiply(tmem + 192, tmem + 128, 0, kRight);
    case Rule::scale_copies: return multiply(tmem, tmem + 136, 0, kRight);
    default: return multiply(tmem, tmem + 128, 0, kRight);
  }
}

__device__ void use_tensor_memory(Rule rule, TmemAddress tmem, SharedAddress done) {
  if (rule == Rule::scale_copies) {  // each warp its own
    Fragment<8> cells;
    for (unsigned i = 0; i < 8; ++i) cells.r[i] = 0x7F7F7F7F + (warp_index() << 8);
    tmem_st<TmemShape::lanes32x32b, 8>(tmem_at(tmem, warp_index() % 4 * 32, 136), cells);
    tmem_wait_st();
  }
  fence_before_thread_sync();
  sync_block();
  fence_after_thread_sync();
  const bool issues = warp_index() == 0 || (rule == Rule::two_issuers && warp_index() == 1);
  if (issues && elect()) {
    issue(rule, tmem);
    if (rule == Rule::two_groups)
      cp<CpShape::rows32x128b_warpx4, 2>(tmem, shared_descriptor<scale_chunk()>(shared_base()));
    commit<1>(done);
  }
  sync_warp();
  barrier_wait<Scope::cta>(done, 0);
  fence_after_thread_sync();
  Fragment<4> cells;
  const unsigned lane = (warp_index() + (rule == Rule::lanes_of_another_warp ? 1 : 0)) % 4 * 32;
  tmem_ld<TmemShape::lanes32x32b, 4>(cells, tmem_at(tmem, lane, rule == Rule::load_of_no_column ? 254 : 0));
  tmem_wait_ld(cells);
}

__device__ void body(const Arguments& a) {
  const SharedAddress base = shared_base();
  const Rule rule = a.rule;
  if (warp_index() == 0) {
    if (elect()) {
      barrier_init(base + kDone, rule == Rule::two_issuers ? 2 : 1);
      fence_barrier_init();
    }
    sync_warp();
  }
  for (unsigned i = thread_index(); i < kDone / 4; i += kThreads) store_shared(base + 4 * i, 0x38383838U);
  fence_proxy_async();
  cluster_sync();
  if (rule == Rule::odd_cta) {
    if (cluster_rank() == 1 && thread_index() == 0) commit<2>(base + kDone);
    return;
  }
  if (rule == Rule::multicast_of_a_pair) {
    if (cluster_rank() == 0 && thread_index() == 0)
      tma_load_multicast<2>(base, &a.map, base + kDone, pair_mask(0), 0, 0);
    return;
  }
  if (rule == Rule::wait_without_arrival) return barrier_wait<Scope::cta>(base + kDone, 0);
  if (rule == Rule::barrier_of_one_warp) {
    if (warp_index() == 0) sync_named(1, kThreads);
    return;
  }
  if (warp_index() == 0) {
    if (rule == Rule::columns) emulation::sm100::tmem_alloc(1, base + kSlot, 48);
    if (rule == Rule::growing) {
      tmem_alloc<1, 32>(base + kSlot);
      tmem_dealloc<1, 32>(load_shared<std::uint32_t>(base + kSlot));
    }
    tmem_alloc<1, 256>(base + kSlot);
    tmem_relinquish<1>();
    if (rule == Rule::alloc_after_relinquish) tmem_alloc<1, 32>(base + kSlot);
  }
  sync_block();
  const TmemAddress tmem = load_shared<std::uint32_t>(base + kSlot);
  use_tensor_memory(rule, tmem, base + kDone);
  fence_before_thread_sync();
  sync_block();
  if (warp_index() != 0 || rule == Rule::not_freed) return;
  if (rule == Rule::freed_in_part) {
    tmem_dealloc<1, 128>(tmem);
  } else {
    tmem_dealloc<1, 256>(tmem);
  }
}

// Counts a cluster's blocks in `out`, then those of each cluster whose place it is given.
template <unsigned kCluster>
__device__ void take_over(std::uint32_t* out) {
  const SharedAddress base = shared_base();
  if (thread_index() == 0) {
    barrier_init(base + kDone, 1);
    fence_barrier_init();
  }
  cluster_sync();
  unsigned first = block_index() - cluster_rank();
  for (unsigned phase = 0;; phase ^= 1) {
    if (thread_index() == 0) atomicAdd(&out[first + cluster_rank()], 1);
    if (thread_index() == 0) barrier_arrive_expect<Scope::cta>(base + kDone, kLaunchResponseBytes);
    cluster_sync();  // every CTA expects its bytes
    if (cluster_rank() == 0 && thread_index() == 0) {
      if constexpr (kCluster == 1) {
        try_cancel(base + kAnswer, base + kDone);
      } else {
        try_cancel_multicast(base + kAnswer, base + kDone);
      }
    }
    barrier_wait<Scope::cluster>(base + kDone, phase);
    const LaunchGrant grant = query_cancel(base + kAnswer);
    fence_proxy_async();
    cluster_sync();  // the answer has been read
    if (!grant.granted) return;
    first = grant.block;
  }
}

__global__ void __launch_bounds__(kThreads + engine::kEngineThreads, 1)
    rule_kernel(const __grid_constant__ Arguments a, const __grid_constant__ engine::Launch launch) {
  engine::run(launch, kThreads, [&a] { body(a); });
}
template <unsigned kCluster>
__global__ void __launch_bounds__(kThreads + engine::kEngineThreads, 1)
    launch_control_kernel(const __grid_constant__ Arguments a, const __grid_constant__ engine::Launch launch) {
  engine::run(launch, kThreads, [&a] { take_over<kCluster>(a.out); });
}

// --- host

// Empty, or what is wrong.
std::string check_rule(Rule rule, const char* hazard) {
  const bool pair = rule == Rule::odd_cta || rule == Rule::multicast_of_a_pair;
  Arguments a{};
  a.rule = rule;
  const engine::KernelShape shape{.function = reinterpret_cast<const void*>(&rule_kernel),
                                  .blocks = pair ? 2U : 1U,
                                  .threads = kThreads,
                                  .cluster = pair ? 2U : 1U,
                                  .shared_bytes = kSharedBytes};
  const auto result = engine::launch(shape, &a, {.limit_ns = 200'000'000});
  std::string found;
  for (const auto& f : result.findings) {
    if (name_of(f.hazard) == hazard) return "";
    found += "; " + text_of(f);
  }
  if (rule == Rule::none && result.findings.empty() && result.completed) return "";
  return "found " + (found.empty() ? "nothing" : found.substr(2)) + "; " + result.dump;
}

template <unsigned kCluster>
std::string check_launch_control(Schedule schedule, std::uint64_t seed) {
  constexpr unsigned kBlocks = 600;  // several times what a card runs at once
  Arguments a{};
  if (cudaMalloc(&a.out, kBlocks * sizeof(std::uint32_t)) != cudaSuccess) return "cudaMalloc";
  if (cudaMemset(a.out, 0, kBlocks * sizeof(std::uint32_t)) != cudaSuccess) return "cudaMemset";
  const engine::KernelShape shape{.function = reinterpret_cast<const void*>(&launch_control_kernel<kCluster>),
                                  .blocks = kBlocks,
                                  .threads = kThreads,
                                  .cluster = kCluster,
                                  .shared_bytes = kSharedBytes};
  const auto result = engine::launch(shape, &a, {.schedule = schedule, .seed = seed});
  if (!result.findings.empty()) return text_of(result.findings.front());
  if (!result.completed) return result.dump;
  std::vector<std::uint32_t> counts(kBlocks);
  if (cudaMemcpy(counts.data(), a.out, kBlocks * sizeof(std::uint32_t), cudaMemcpyDeviceToHost) != cudaSuccess) {
    return "cudaMemcpy";
  }
  for (unsigned i = 0; i < kBlocks; ++i) {
    if (counts[i] != 1)
      return "the work of block " + std::to_string(i) + " was done " + std::to_string(counts[i]) + " times";
  }
  return "";
}

bool failed = false;

template <class Check>
void in_a_process(const std::string& name, const Check& check) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    std::string wrong;
    try {
      wrong = check();
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    std::printf("%-28s %s\n", name.c_str(), wrong.empty() ? "ok" : ("FAILED: " + wrong).c_str());
    std::fflush(stdout);
    _exit(wrong.empty() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  failed = failed || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

struct Row {
  const char* name;
  Rule rule;
  const char* hazard;
};
using R = Rule;
constexpr Row kRows[] = {{"a_right_kernel", R::none, ""},
                         {"48_columns", R::columns, "allocation"},
                         {"alloc_after_relinquish", R::alloc_after_relinquish, "allocation"},
                         {"growing_allocation", R::growing, "allocation"},
                         {"not_freed", R::not_freed, "exit"},
                         {"freed_in_part", R::freed_in_part, "allocation"},
                         {"load_of_no_column", R::load_of_no_column, "allocation"},
                         {"lanes_of_another_warp", R::lanes_of_another_warp, "address"},
                         {"instruction_descriptor", R::instruction, "descriptor"},
                         {"matrix_outside", R::matrix_outside, "descriptor"},
                         {"swizzle_in_the_middle", R::swizzle_in_the_middle, "descriptor"},
                         {"two_issuers", R::two_issuers, "issue"},
                         {"two_cta_groups", R::two_groups, "issue"},
                         {"pair_by_the_odd_cta", R::odd_cta, "issue"},
                         {"d_at_lane_16", R::d_at_lane_16, "unknown"},
                         {"d_of_no_column", R::d_of_no_column, "allocation"},
                         {"scale_copies", R::scale_copies, "scale_copies"},
                         {"multicast_of_a_pair", R::multicast_of_a_pair, "unknown"},
                         {"wait_without_arrival", R::wait_without_arrival, "deadlock"},
                         {"barrier_of_one_warp", R::barrier_of_one_warp, "deadlock"}};

int run() {
  int refused = 0;
  const pid_t child = fork();  // this process never calls CUDA, so that its children can
  if (child == 0) {
    const std::string refusal = engine::card_refusal();
    if (!refusal.empty()) std::fprintf(stderr, "emulation_on_sm90_test: %s\n", refusal.c_str());
    _exit(refusal.empty() ? 0 : 3);
  }
  waitpid(child, &refused, 0);
  if (!WIFEXITED(refused) || WEXITSTATUS(refused) != 0) return 3;
  for (const Row& row : kRows) {
    in_a_process(row.name, [&row] { return check_rule(row.rule, row.hazard); });
  }
  in_a_process("launch_control", [] { return check_launch_control<1>(Schedule::eager, 1); });
  in_a_process("launch_control_of_pairs", [] { return check_launch_control<2>(Schedule::eager, 1); });
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    in_a_process("launch_control, random " + std::to_string(seed),
                 [seed] { return check_launch_control<1>(Schedule::random, seed); });
    in_a_process("launch_control_of_pairs, random " + std::to_string(seed),
                 [seed] { return check_launch_control<2>(Schedule::random, seed); });
  }
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace mxcheck::sm100

int main() { return mxcheck::sm100::run(); }
