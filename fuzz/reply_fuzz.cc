// A reply of a candidate's process: a request, then the bytes of a reply. It is refused in a
// few words, or every text of it ends and every number is within the bounds of what the gate does with it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "fuzz/check.h"
#include "properties/process/candidate_process.h"
#include "properties/process/contain.h"

using namespace mxcheck;

namespace {

template <std::size_t kSize>
void read_text(const char (&text)[kSize]) {
  fuzz::require(printable(text).size() < kSize, "a text ends");
}

void read_reply(const wire::Message& message, const wire::Reply& reply) {
  read_text(reply.message), read_text(reply.device_error), read_text(reply.conduct);
  read_text(reply.comparison.problem), read_text(reply.unconfined), read_text(reply.device_text);
  read_text(reply.name), read_text(reply.version);
  fuzz::require(reply.num_operations >= 0 && reply.num_operations <= wire::kMaxOperations, "operations are bounded");
  for (const wire::Operation& o : reply.operations) read_text(o.name), read_text(o.contract);
  fuzz::require(reply.memory.calls >= 0 && reply.memory.calls <= message.repeat, "calls are bounded");
  const std::int64_t first = reply.memory.middle.resident - reply.memory.begin.resident;
  const std::int64_t second = reply.memory.end.resident - reply.memory.middle.resident;
  fuzz::require(first + second == reply.memory.end.resident - reply.memory.begin.resident, "sizes can be subtracted");
  fuzz::require(reply.comparison.differing == 0 || reply.comparison.first < 35, "an output that there is");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  wire::Message message;
  message.request = static_cast<wire::Request>(data[0] % 6);
  message.repeat = data[0];
  message.num_inputs = 2, message.num_outputs = 1;
  message.tensors[2].ndim = 2, message.tensors[2].shape[0] = 5, message.tensors[2].shape[1] = 7;
  wire::Reply reply;
  const std::size_t bytes = std::min(size - 1, sizeof(reply));
  std::memcpy(static_cast<void*>(&reply), data + 1, bytes);
  // Half of the inputs answer this message: a number of 64 bits is nothing that a fuzzer finds.
  if (data[0] % 2 == 0) message.number = reply.number;
  const std::string problem = reply_problem(message, reply);
  if (!problem.empty()) {
    fuzz::require(fuzz::is_one_line(problem), "a problem is one line");
  } else {
    fuzz::require(reply.number == message.number, "a reply answers its message");
    read_reply(message, reply);
  }
  return 0;
}
