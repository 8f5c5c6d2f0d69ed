// Many calls with one exchange: where the calls are short, the exchange is what takes the time.

#include <algorithm>
#include <cstring>

#include "kernels/candidate.h"
#include "numerics/error.h"
#include "properties/process/candidate_process.h"
#include "properties/process/shared_call.h"

namespace mxcheck {
namespace {

constexpr std::uint64_t kPerSecond = 20'000'000;  // bytes, beside the limit of one call: as CandidateProcess::run

std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + wire::kPage - 1) / wire::kPage * wire::kPage; }

Outcome outcome_of(const SharedCall& shared, const std::byte* base, wire::CallResult result) {
  Outcome outcome;
  outcome.status = result.status;
  result.message[sizeof(result.message) - 1] = '\0';
  outcome.message = printable(result.message);
  if (result.workspace_broken != 0) outcome.out_of_bounds = "past its workspace";
  shared.read(base, outcome);
  return outcome;
}

}  // namespace

Outcome CandidateProcess::run_burst(const Call& call, std::uint32_t calls,
                                    const std::vector<std::span<const std::byte>>& expected,
                                    const std::function<void(std::uint32_t, Outcome&&)>& look) {
  if (calls < 1 || calls > kMostOfBurst || info_.cuda || call.guard_pages)
    throw Error(ErrorKind::internal, "a burst is of 1 to 64 calls of a host library, without guard pages");
  if (pid_ < 0) start();
  const SharedCall shared(call);
  const std::uint64_t step = whole_pages(std::max<std::uint64_t>(1, shared.bytes()));
  const std::uint64_t results = calls * step;
  std::byte* base = reserve(results + calls * sizeof(wire::CallResult));
  wire::Message message = shared.message();
  message.request = wire::Request::run;
  message.operation = operation_index(call.operation);
  message.shared_bytes = shared_bytes_;
  message.burst = calls, message.burst_step = step;
  for (std::uint32_t i = 0; i < calls; ++i) shared.write(base + i * step);
  std::memset(base + results, 0xFF, calls * sizeof(wire::CallResult));  // what is not answered is no MXCHECK_OK

  Outcome outcome;
  wire::Reply reply;
  if (!exchange(message, reply,
                (info_.adapted ? std::max(limits_.call, limits_.first_call) : limits_.call) +
                    std::chrono::milliseconds(1000 * results / kPerSecond))) {
    outcome.kind = timed_out_ ? OutcomeKind::timed_out : OutcomeKind::crashed;
    outcome.signal = signal_;
    return outcome;
  }
  if (reply.conduct[0] != '\0') outcome.conduct = printable(reply.conduct);
  for (std::uint32_t i = 0; i < calls; ++i) {
    wire::CallResult result;
    std::memcpy(&result, base + results + i * sizeof(result), sizeof(result));
    const bool right = result.status == MXCHECK_OK && result.workspace_broken == 0;
    if (!right || !shared.holds(base + i * step, expected)) look(i, outcome_of(shared, base + i * step, result));
  }
  return outcome;
}

}  // namespace mxcheck
