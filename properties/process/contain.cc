#include "properties/process/contain.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

namespace mxcheck {
namespace {

template <std::size_t kSize>
bool ends(const char (&text)[kSize]) {
  return std::memchr(text, '\0', kSize) != nullptr;
}

bool all_end(const wire::Reply& r) {
  return ends(r.message) && ends(r.device_error) && ends(r.conduct) && ends(r.comparison.problem) &&
         ends(r.unconfined) && ends(r.device_text) && ends(r.name) && ends(r.version) &&
         std::all_of(std::begin(r.operations), std::end(r.operations),
                     [](const wire::Operation& o) { return ends(o.name) && ends(o.contract); });
}

bool can_be(const MemoryUse& use) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  return use.address_space >= 0 && use.address_space <= kMost && use.resident >= 0 && use.resident <= kMost;
}

// Of a product's output, the first after the inputs.
std::uint64_t elements_compared(const wire::Message& message) {
  if (message.request != wire::Request::compare || message.num_outputs < 1 || message.num_inputs < 0 ||
      message.num_inputs >= wire::kMaxTensors) {
    return 0;
  }
  const wire::Tensor& output = message.tensors[message.num_inputs];
  std::uint64_t elements = 1;
  for (int i = 0; i < std::min<int>(output.ndim, wire::kMaxDimensions); ++i)
    elements *= static_cast<std::uint64_t>(output.shape[i]);
  return elements;
}

}  // namespace

std::string reply_problem(const wire::Message& message, const wire::Reply& reply) {
  if (reply.number != message.number) return "answers no message";
  if (!all_end(reply)) return "has a text without an end";
  if (reply.num_operations < 0 || reply.num_operations > wire::kMaxOperations) return "has too many operations";
  for (const std::uint8_t flag : {reply.workspace_broken, reply.zones_broken, reply.adapted, reply.static_shapes}) {
    if (flag > 1) return "has a flag that is neither 0 nor 1";
  }
  const MemoryOfCalls& memory = reply.memory;
  if (memory.calls < 0 || memory.calls > std::int64_t{message.repeat} || !can_be(memory.begin) ||
      !can_be(memory.middle) || !can_be(memory.end)) {
    return "has memory of calls that were not made";
  }
  const DeviceComparison& found = reply.comparison;
  if (found.differing > found.compared || (found.differing != 0 && found.first >= elements_compared(message)))
    return "names an output that is none";
  return {};
}

}  // namespace mxcheck
