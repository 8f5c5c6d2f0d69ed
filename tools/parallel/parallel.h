#pragma once
// mxcheck parallel layer: a layer over several processes, compared with the layer in one call, and timed.

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/parallel/expert_parallel.h"
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

// ---- A rank

struct RankTimes {
  double together = 0, transfers = 0, compute = 0;  // seconds of this rank: of all, of either part alone
};
// Of one rank, as it tells rank 0: trivially copyable.
struct RankResult {
  std::int64_t tokens = 0, experts = 0, rows = 0, dropped = 0;
  std::uint64_t sent[2] = {}, local[2] = {};  // of the forward and the backward pass
  RankTimes times[2] = {};                    // the fastest of the samples
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

// Starts the ranks as processes of this program with the same arguments, and waits for them.
int launch_ranks(std::int64_t ranks, std::chrono::milliseconds timeout);
inline constexpr const char* kListenerVariable = "MXCHECK_RANKS_LISTENER";

// 0 if all is equal or nothing was compared, else 1.
int report_parallel(const ParallelOptions& o, const ParallelResult& result);

}  // namespace mxcheck
