#pragma once
// mxcheck parallel layer: a layer over several processes, compared with the layer in one call, and timed.

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/candidate.h"
#include "kernels/parallel/device.h"
#include "kernels/parallel/expert_parallel.h"
#include "kernels/parallel/mesh.h"
#include "kernels/parallel/nccl.h"
#include "kernels/parallel/placement.h"
#include "kernels/parallel/ranks.h"
#include "reference/layer/layer_recipe.h"

namespace mxcheck {

struct ParallelOptions {
  std::int64_t tokens = 64, width = 128, inner = 128, experts = 8, top_k = 2;
  std::string recipe = "bf16", gate_up = "halves", load = "random";
  std::int64_t capacity = 0;
  std::int64_t seed = 1;
  std::string dispatch = "bf16", placement = "contiguous";
  std::int64_t chunks = 1;
  std::int64_t ranks = 0;  // 0: those of the environment, or one
  std::string engine = "reference", transport = "auto", nccl;
  bool one_gpu = false;
  std::string against = "call";
  std::int64_t samples = 1;
  double link = 0;  // GB/s
  double timeout = 30, slow = 1;
  std::string delay;  // "RANK:SECONDS"
  bool json = false;
};

// Error{usage} for options that no layer over ranks can have.
const LayerRecipe& parallel_recipe(const ParallelOptions& o);
mxcheck_kernels::parallel::LayerSpec layer_spec(const ParallelOptions& o);
std::chrono::milliseconds parallel_timeout(const ParallelOptions& o);

// ---- Digests

enum class LayerOutput : std::uint8_t { o, dx, dw1, dw2, ds };
inline constexpr std::array<std::string_view, 5> kLayerOutputs{"O", "dX", "dW1", "dW2", "dS"};

// The sum of a hash of each row, its number in the whole layer included: the same however rows are dealt to ranks.
struct RowDigest {
  std::uint64_t high = 0, low = 0;
  RowDigest& operator+=(const RowDigest& other) {
    high += other.high, low += other.low;
    return *this;
  }
  friend bool operator==(const RowDigest&, const RowDigest&) = default;
};
RowDigest digest_rows(const void* data, std::int64_t row_bytes, const std::vector<std::int64_t>& rows);
std::string to_text(const RowDigest& digest);

// ---- Inputs
//
// Tensors of a layer over ranks, as pure functions of the seed and an element's place in the whole layer: a rank makes
// those of its tokens and its experts alone.

// X and dO of tokens first to last, [last - first, width] in BF16.
std::vector<std::uint16_t> parallel_x(const ParallelOptions& o, std::int64_t first, std::int64_t last);
std::vector<std::uint16_t> parallel_d_o(const ParallelOptions& o, std::int64_t first, std::int64_t last);
// W1 and W2 of these experts, one below the other.
std::vector<std::uint16_t> parallel_w1(const ParallelOptions& o, const std::vector<std::int64_t>& experts);
std::vector<std::uint16_t> parallel_w2(const ParallelOptions& o, const std::vector<std::int64_t>& experts);

// Routes of tokens first to last: the top k of random logits. --load random: all experts alike; skewed: the odds of
// expert e are those of the first by (1 + e)^2; one: every token to the first k.
mxcheck_kernels::parallel::HomeSlots parallel_slots(const ParallelOptions& o, std::int64_t first, std::int64_t last);

// ---- Libraries and devices

// The reference behind the candidate interface, inside the program: the operations that a layer over ranks calls. On
// the host, right by definition, and slow.
const mxcheck_candidate_table& reference_library();

// A rank's GPU: memory and streams by the CUDA driver, rows between ranks by memory that they show one another, by
// NCCL, or over the ranks' sockets by way of the host where several ranks share a GPU. Driver and NCCL are loaded at
// run time. Error{environment} without a driver or a GPU; ParallelError for errors of ranks and of NCCL; CudaFailure.

struct GpuChoice {
  int local_rank = 0;
  bool shares_one = false;  // every rank of a host has its first GPU
};

// Makes the rank's GPU the only one that is visible to this process, before anything of CUDA runs. Returns why it has
// none, or nothing: a library for the host does not need it.
std::string choose_gpu(const GpuChoice& choice);

// The transport of rows: peer memory if it is asked for and all ranks reach one another's; else NCCL if it can be asked
// for; else sockets.
struct GpuTransport {
  bool peers = false;
  std::function<const mxcheck_kernels::parallel::NcclLibrary&()> nccl;
};
// All ranks together. ParallelError{environment} where peer memory alone is asked for and some rank lacks it.
std::unique_ptr<mxcheck_kernels::parallel::Device> gpu_device(mxcheck_kernels::parallel::Mesh& mesh,
                                                              const GpuTransport& transport,
                                                              std::chrono::milliseconds timeout);

// ---- Agreement

// Named values that all ranks of a run must share, compared before the first step.
using SharedValues = std::vector<std::pair<std::string, std::string>>;

// ParallelError{disagreement} that names the first value in which ranks differ, the ranks that differ from most others,
// and both values.
void require_agreement(mxcheck_kernels::parallel::Mesh& mesh, const SharedValues& mine);

// ---- The whole layer

// The layer that the ranks compute together, in one call of each pass with all tokens and all experts.
// Digests of the rows that each rank has: O, dX, dS of its tokens, dW1, dW2 of its experts.
std::vector<std::array<RowDigest, 5>> whole_layer_digests(const ParallelOptions& o,
                                                          const mxcheck_kernels::parallel::Placement& placement,
                                                          mxcheck_kernels::parallel::Device& device,
                                                          const mxcheck_kernels::parallel::Libraries& libraries);

// Rows of W1 or of a gradient as rows of a digest: `each` of every expert.
std::vector<std::int64_t> expert_rows(const std::vector<std::int64_t>& experts, std::int64_t each);
std::vector<std::int64_t> number_range(std::int64_t first, std::int64_t last);

// ---- A rank

struct RankTimes {
  double together = 0, transfers = 0, compute = 0;  // seconds of this rank: of all, of either part alone
};
// A rank's part of the answer, as it tells rank 0: trivially copyable.
struct RankResult {
  std::int64_t tokens = 0, experts = 0, rows = 0, dropped = 0;
  std::uint64_t sent[2] = {};  // of the forward and the backward pass
  RankTimes times[2] = {};     // the fastest of the samples
  std::array<RowDigest, 5> digests{};
};

struct LateRank {
  int rank = -1;
  double seconds = 0;
  std::string step;
};

struct ParallelResult {
  std::string launcher, transport, libraries;
  std::vector<RankResult> ranks;
  LateRank latest;
  bool compared = false;
  std::vector<std::array<RowDigest, 5>> expected;  // of the rows of each rank, in one call
};

// This process is a rank. Returns the exit code; rank 0 prints.
int run_parallel_rank(const ParallelOptions& o, const mxcheck_kernels::parallel::RankPlace& place);

// How long ranks have to end by themselves, before they are killed: after one of them has failed, and after SIGINT,
// SIGTERM or SIGHUP, which the launcher hands on to all.
struct LaunchPatience {
  std::chrono::milliseconds after_failure{0};
  std::chrono::milliseconds after_signal{10'000};
};
// Starts the ranks as processes of this program with the same arguments, and waits for them. Their exit code: that of a
// rank that refuses or fails, 6 where one crashed, 128 and the signal's number where a signal ended them.
int launch_ranks(std::int64_t ranks, const LaunchPatience& patience);
inline constexpr const char* kListenerVariable = "MXCHECK_RANKS_LISTENER";

// 0 if all is equal or nothing was compared, else 1.
int report_parallel(const ParallelOptions& o, const ParallelResult& result);

}  // namespace mxcheck
