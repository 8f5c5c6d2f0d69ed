#pragma once
// A training step on several GPUs of this host, timed: processes of this program, started here, exchange gradients over
// NCCL. Each number of ranks computes the same steps, to the same bits.

#include <string>
#include <vector>

namespace mxcheck::bench {

struct RanksOptions {
  std::string library;
  std::string config;  // a configuration's file; its microbatches are shared by the ranks
  std::vector<int> ranks;
  int steps = 20;
};

// Prints tokens a second for each number of ranks, the efficiency (of the first number's speed for each GPU), and what
// the exchange of gradients takes by itself.
int measure_ranks(const RanksOptions& options);

// True if this process was started by measure_ranks(); its part is be_rank().
bool is_rank();
int be_rank(const RanksOptions& options);

}  // namespace mxcheck::bench
