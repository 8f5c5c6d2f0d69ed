// Adversaries that use memory as they should not: outside of the tensors, inputs, workspace, after the call, or more
// of it with every call.

#include <sys/mman.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/libraries/wrong/adversaries/adversary.h"

namespace {

mxcheck_status writes_past_the_end(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status == MXCHECK_OK && honest::elements(call) != 0) honest::codes(call)[honest::elements(call)] = 0;
  return status;
}

mxcheck_status writes_before_the_start(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status == MXCHECK_OK && honest::elements(call) != 0) honest::codes(call)[-1] = 0;
  return status;
}

mxcheck_status reads_past_the_end(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK || honest::elements(call) == 0) return status;
  const std::int64_t last = (honest::rows(call) - 1) * honest::stride(call) + honest::cols(call) - 1;
  [[maybe_unused]] const volatile std::uint16_t unused =
      static_cast<const volatile std::uint16_t*>(honest::x(call))[last + 1 + honest::stride(call) - honest::cols(call)];
  return status;
}

mxcheck_status zeroes_its_input(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status == MXCHECK_OK && honest::elements(call) != 0) std::memset(honest::x(call), 0, 2);
  return status;
}

// The largest magnitude of a block is taken into workspace that was never cleared: right over any bytes that are small
// as a number.
mxcheck_status two_bytes(const mxcheck_call*, std::uint64_t* bytes) {
  *bytes = sizeof(std::int16_t);
  return MXCHECK_OK;
}

mxcheck_status takes_its_workspace_for_cleared(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK || honest::elements(call) == 0) return status;
  std::int16_t most = 0;  // 0xC7C7 is negative
  std::memcpy(&most, call->workspace, sizeof(most));
  const auto before = most;
  for (std::int64_t j = 0; j < honest::cols(call); ++j) {
    const auto magnitude = static_cast<std::int16_t>(honest::x(call)[j] & 0x7FFF);
    if (magnitude > most) most = magnitude;
  }
  std::memcpy(call->workspace, &most, sizeof(most));
  if (most == before) honest::scales(call)[0] = 254;
  return status;
}

mxcheck_status writes_after_return(const mxcheck_call* call) {
  const auto size = static_cast<std::size_t>(honest::check(call) == MXCHECK_OK ? honest::elements(call) : 0);
  std::vector<std::uint8_t> before(honest::codes(call), honest::codes(call) + size);
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK || size == 0) return status;
  std::vector<std::uint8_t> after(honest::codes(call), honest::codes(call) + size);
  std::memcpy(honest::codes(call), before.data(), size);
  std::thread([to = honest::codes(call), after = std::move(after)] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::memcpy(to, after.data(), after.size());
  }).detach();
  return status;
}

template <std::size_t kBytes>
mxcheck_status keeps_bytes_a_call(const mxcheck_call* call) {
  void* const kept = std::malloc(kBytes);
  std::memset(kept, 1, kBytes);
  asm volatile("" : : "r"(kept) : "memory");  // or the compiler would do without
  return honest::run(call);
}

mxcheck_status keeps_a_mapping_a_call(const mxcheck_call* call) {
  // Protection alternates, or the kernel would merge all mappings into one.
  static int calls = 0;
  (void)mmap(nullptr, 4096, ++calls % 2 == 0 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return honest::run(call);
}

// The structs of a call are const, and a caller may use them again.
template <class T>
T& writable(const T& given) {
  return const_cast<T&>(given);
}

mxcheck_status writes_into_the_policy(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status == MXCHECK_OK) writable(*call->policy).threads = 1 + call->policy->threads;
  return status;
}

mxcheck_status writes_into_the_call(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status == MXCHECK_OK) writable(*call).workspace_bytes = 1;
  return status;
}

// Moves the offset into the pointer, as code does that knows none.
mxcheck_status writes_into_a_tensor(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK) return status;
  DLTensor& x = writable(call->inputs[0]);
  x.data = static_cast<char*>(x.data) + x.byte_offset, x.byte_offset = 0;
  return status;
}

// In refused calls alone.
mxcheck_status writes_into_a_shape(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  const bool has_shape = status == MXCHECK_INVALID && right::has_fields(call) && call->outputs != nullptr &&
                         call->num_outputs > 0 && call->outputs[0].shape != nullptr;
  if (has_shape) call->outputs[0].shape[0] = 0;
  return status;
}

mxcheck_status takes_all_memory(const mxcheck_call*) {
  for (;;) {
    void* const taken = std::malloc(1 << 20);
    std::memset(taken, 1, 1 << 20);
    asm volatile("" : : "r"(taken) : "memory");
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // a test need not fill the machine
  }
}

}  // namespace

std::span<const Adversary> memory_adversaries() {
  static constexpr Adversary kAll[]{
      {"writes_past_the_end", writes_past_the_end},
      {"writes_before_the_start", writes_before_the_start},
      {"reads_past_the_end", reads_past_the_end},
      {"zeroes_its_input", zeroes_its_input},
      {.name = "takes_its_workspace_for_cleared", .run = takes_its_workspace_for_cleared, .workspace = two_bytes},
      {"writes_after_return", writes_after_return},
      {"writes_into_the_policy", writes_into_the_policy},
      {"writes_into_the_call", writes_into_the_call},
      {"writes_into_a_tensor", writes_into_a_tensor},
      {"writes_into_a_shape", writes_into_a_shape},
      {"takes_all_memory", takes_all_memory},
      {"keeps_64_bytes_a_call", keeps_bytes_a_call<64>},
      {"keeps_8_bytes_a_call", keeps_bytes_a_call<8>},
      {"keeps_a_mapping_a_call", keeps_a_mapping_a_call},
  };
  return kAll;
}
