// A candidate for the fake driver: honest.h, as a kernel in a stream. FAKE_CUDA in the
// environment names what it does wrong.

#include <cstring>
#include <string>

#include "tests/libraries/right/cuda/fake.h"
#include "tests/libraries/right/honest.h"

extern "C" {
int cuStreamSynchronize(void* stream);
int cuMemAlloc_v2(std::uint64_t* memory, std::size_t bytes);
}

namespace {

using fake::mode;

void kernel(void* argument) {
  const mxcheck_call& call = static_cast<const fake::KeptCall*>(argument)->call;
  if (!honest::offsets_are_right(&call) && !mode("trusts_offsets")) {
    call.report->status = MXCHECK_INVALID, call.report->index = 1;
    std::strcpy(call.report->message, "offsets must not descend");
    return;
  }
  honest::quantize(&call);
  if (mode("writes_past_the_end") && honest::elements(&call) > 0) honest::codes(&call)[honest::elements(&call)] = 1;
  const std::string own = std::to_string(fake_gpu());
  if (mode(own, "FAKE_WRONG_GPU") && honest::elements(&call) > 1) honest::codes(&call)[1] ^= 1;
  if (mode("faults") || mode(own, "FAKE_FAULTY_GPU")) fake_fault();
}

mxcheck_status run(const mxcheck_call* call) {
  if (!right::has_fields(call)) return MXCHECK_INVALID;
  if (const char* problem = right::problem_of(*call, sizeof(mxcheck_policy), true, kDLCUDA))
    return right::refuse(call, MXCHECK_INVALID, problem);
  for (int i = 1; i < call->num_inputs; ++i) {
    if (call->inputs[i].dtype.code == kDLInt && call->inputs[i].dtype.bits == 32) {
      std::strcpy(call->message, "a row index is not offered");
      return MXCHECK_UNSUPPORTED;
    }
  }
  mxcheck_call alone = *call;  // what the host can judge
  alone.num_inputs = call->num_inputs == 2 ? 1 : call->num_inputs;
  const mxcheck_status status = honest::check(&alone);
  if (status != MXCHECK_OK) return status;
  auto* launch = new fake::KeptCall(*call);
  if (mode("waits")) cuStreamSynchronize(call->stream);
  std::uint64_t memory = 0;
  if (mode("allocates")) cuMemAlloc_v2(&memory, 16);
  if (mode("does_it_at_once")) return kernel(launch), MXCHECK_OK;
  return fake_launch(mode("uses_the_default_stream") ? nullptr : call->stream, kernel, launch) == 0
             ? MXCHECK_OK
             : MXCHECK_DEVICE_ERROR;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const char mxcheck_candidate_sources[] =
    "00000000000000000000000000000000  tests/libraries/no_such_file.cc\n";

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  honest::device = kDLCUDA;
  static const mxcheck_operation operation{"quantize", "exact", 0, 0, 1, 1, honest::supports, nullptr, run};
  static const mxcheck_candidate_table table{
      MXCHECK_CANDIDATE_VERSION, sizeof(mxcheck_candidate_table), "fake", "1", kDLCUDA, 1, &operation};
  return &table;
}
