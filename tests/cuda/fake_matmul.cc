// GEMMs for the fake driver: the reference, as a kernel in a stream. FAKE_CUDA in the environment names what it does
// wrong.

#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "tests/cuda/fake_matmul.h"

extern "C" {
int fake_launch(void* stream, void (*kernel)(void*), void* argument);
void fake_fault(void);
}

namespace {

bool mode(const char* name) {
  const char* set = std::getenv("FAKE_CUDA");
  return set != nullptr && std::strcmp(set, name) == 0;
}

// A call's arguments, kept until its kernel runs.
struct Launch {
  mxcheck_call call;
  const char* contract;
  std::array<DLTensor, 8> tensors;
  std::array<std::array<std::int64_t, 2>, 8> shapes;
};

void kernel(void* argument) {
  const Launch& launch = *static_cast<const Launch*>(argument);
  const DLTensor& d = launch.call.outputs[0];
  auto* to = const_cast<std::byte*>(fake::data_of(d));
  const auto width = static_cast<std::size_t>(d.dtype.bits / 8);
  const auto outputs = static_cast<std::size_t>(d.shape[0] * d.shape[1]);
  try {
    mxcheck::matmul(fake::matmul_of(launch.call, launch.contract), to);
  } catch (const std::exception& e) {
    launch.call.report->status = MXCHECK_FAILED;
    std::strncpy(launch.call.report->message, e.what(), sizeof(launch.call.report->message) - 1);
  }
  if (mode("one_bit") && outputs > 37) to[37 * width] ^= std::byte{1};
  if (mode("two_last") && outputs > 1)
    to[outputs * width - 1] ^= std::byte{8}, to[(outputs - 2) * width] ^= std::byte{1};
  if (mode("past_d")) to[outputs * width] = std::byte{0};
  if (mode("faults")) fake_fault();
}

mxcheck_status run(const mxcheck_call* call, const char* contract) {
  auto* launch = new Launch{};
  launch->call = *call, launch->contract = contract;
  for (int i = 0; i < call->num_inputs + call->num_outputs; ++i) {
    const auto at = static_cast<std::size_t>(i);
    launch->tensors[at] = i < call->num_inputs ? call->inputs[i] : call->outputs[i - call->num_inputs];
    for (int n = 0; n < launch->tensors[at].ndim; ++n)
      launch->shapes[at][static_cast<std::size_t>(n)] = launch->tensors[at].shape[n];
    launch->tensors[at].shape = launch->shapes[at].data();
  }
  launch->call.inputs = launch->tensors.data();
  launch->call.outputs = launch->tensors.data() + call->num_inputs;
  return fake_launch(call->stream, kernel, launch) == 0 ? MXCHECK_OK : MXCHECK_DEVICE_ERROR;
}

mxcheck_status supports_all(const mxcheck_policy*, DLDataType) { return MXCHECK_OK; }

mxcheck_status supports_e4m3(const mxcheck_policy* base, DLDataType) {
  const auto& p = *reinterpret_cast<const mxcheck_matmul_policy*>(base);
  const bool right = std::strcmp(base->format, "e4m3") == 0 && std::strcmp(p.format_b, "e4m3") == 0 &&
                     (base->block_cols == 128 || p.scale_type == MXCHECK_NO_SCALES);
  return right ? MXCHECK_OK : MXCHECK_UNSUPPORTED;
}

// Limits, so that corners of production size are small here.
template <int kNumber>
mxcheck_operation operation(const char* contract, decltype(&supports_all) supports) {
  static const char* text;
  text = contract;
  return {
      "matmul", contract, 96, 72, 1, 1, supports, nullptr, [](const mxcheck_call* call) { return run(call, text); }};
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  static const std::array operations{
      operation<0>("sm90_fp8+promote128", supports_e4m3),
      operation<1>("sm90_bf16+decode", supports_all),
      operation<2>("sm90_bf16+from_c", supports_all),
      operation<3>("sm90_fp8+promote128+a_first", supports_e4m3),
  };
  static const mxcheck_candidate_table table{MXCHECK_CANDIDATE_VERSION,
                                             sizeof(mxcheck_candidate_table),
                                             "fake_matmul",
                                             "1",
                                             kDLCUDA,
                                             static_cast<std::int32_t>(operations.size()),
                                             operations.data()};
  return &table;
}
