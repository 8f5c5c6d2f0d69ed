#include "kernels/parallel/train_exchange.h"

namespace mxcheck_kernels::parallel {
namespace {

std::byte* part(std::byte* parts, int rank, std::uint64_t bytes) {
  return parts + static_cast<std::uint64_t>(rank) * bytes;
}

}  // namespace

PartTransfers one_part_for_each(RankNumber own, std::byte* send, std::byte* receive, std::uint64_t bytes) {
  PartTransfers t;
  for (int r = 0; r < own.ranks; ++r) {
    if (r == own.rank) continue;
    t.sends.push_back({r, part(send, r, bytes), bytes});
    t.receives.push_back({r, part(receive, r, bytes), bytes});
  }
  return t;
}

PartTransfers own_part_for_all(RankNumber own, std::byte* parts, std::uint64_t bytes) {
  PartTransfers t;
  for (int r = 0; r < own.ranks; ++r) {
    if (r == own.rank) continue;
    t.sends.push_back({r, part(parts, own.rank, bytes), bytes});
    t.receives.push_back({r, part(parts, r, bytes), bytes});
  }
  return t;
}

TrainExchange::TrainExchange(NcclCommunicator& nccl, int rank, int ranks) : nccl_(nccl), own_{rank, ranks} {
  calls_.size = sizeof(calls_), calls_.context = this;
  calls_.all_to_all = [](void* context, const void* send, void* receive, std::uint64_t bytes, void* stream) {
    auto& self = *static_cast<TrainExchange*>(context);
    // A transfer has no const; what is sent is only read.
    auto* const from = static_cast<std::byte*>(const_cast<void*>(send));
    return self.enqueue(one_part_for_each(self.own_, from, static_cast<std::byte*>(receive), bytes), stream);
  };
  calls_.all_gather = [](void* context, void* parts, std::uint64_t bytes, void* stream) {
    auto& self = *static_cast<TrainExchange*>(context);
    return self.enqueue(own_part_for_all(self.own_, static_cast<std::byte*>(parts), bytes), stream);
  };
}

std::int32_t TrainExchange::enqueue(const PartTransfers& t, void* stream) noexcept {
  try {
    nccl_.exchange(t.sends, t.receives, stream);
    return 0;
  } catch (...) {
    if (!failure_) failure_ = std::current_exception();
    return 1;
  }
}

}  // namespace mxcheck_kernels::parallel
