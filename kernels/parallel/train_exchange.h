#pragma once
// The ranks' exchange of kernels/train.h over NCCL, and the transfers that it is made of.
//
//   TrainExchange exchange(nccl, mesh.rank(), mesh.ranks());
//   config.exchange = exchange.get();
//   ... a step that fails: exchange.failure() says why
//
// Errors: none leave the calls, which come from C; they are kept.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

#include "kernels/parallel/nccl.h"
#include "kernels/train.h"

namespace mxcheck_kernels::parallel {

// A part of `bytes` for and from every other rank: of `send` one for each, or this rank's own for all.
struct PartTransfers {
  std::vector<Transfer> sends, receives;
};
struct RankNumber {
  int rank = 0;
  int ranks = 1;
};
PartTransfers one_part_for_each(RankNumber own, std::byte* send, std::byte* receive, std::uint64_t bytes);
PartTransfers own_part_for_all(RankNumber own, std::byte* parts, std::uint64_t bytes);

class TrainExchange {
 public:
  TrainExchange(NcclCommunicator& nccl, int rank, int ranks);
  TrainExchange(const TrainExchange&) = delete;
  TrainExchange& operator=(const TrainExchange&) = delete;

  [[nodiscard]] const mxcheck_train_exchange* get() const { return &calls_; }
  [[nodiscard]] std::exception_ptr failure() const { return failure_; }  // the first

 private:
  std::int32_t enqueue(const PartTransfers& transfers, void* stream) noexcept;

  NcclCommunicator& nccl_;
  RankNumber own_;
  mxcheck_train_exchange calls_{};
  std::exception_ptr failure_;
};

}  // namespace mxcheck_kernels::parallel
