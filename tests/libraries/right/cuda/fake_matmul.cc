// GEMMs for the fake driver: the reference, as a kernel in a stream. FAKE_CUDA in the environment names what it does
// wrong.

#include <cstring>
#include <exception>

#include "tests/libraries/right/cuda/fake.h"
#include "tests/libraries/right/right_call.h"

namespace {

using fake::mode;

struct Launch {
  fake::KeptCall kept;
  const char* contract;
};

void kernel(void* argument) {
  const Launch& launch = *static_cast<const Launch*>(argument);
  const mxcheck_call& call = launch.kept.call;
  const DLTensor& d = call.outputs[0];
  auto* to = const_cast<std::byte*>(right::data_of(d));
  const auto width = static_cast<std::size_t>(d.dtype.bits / 8);
  const auto outputs = static_cast<std::size_t>(d.shape[0] * d.shape[1]);
  try {
    right::Nvfp4Operands nvfp4;
    mxcheck::matmul(right::matmul_of(call, launch.contract, &nvfp4), to);
  } catch (const std::exception& e) {
    call.report->status = MXCHECK_FAILED;
    std::strncpy(call.report->message, e.what(), sizeof(call.report->message) - 1);
  }
  if (mode("one_bit") && outputs > 37) to[37 * width] ^= std::byte{1};
  if (mode("two_last") && outputs > 1)
    to[outputs * width - 1] ^= std::byte{8}, to[(outputs - 2) * width] ^= std::byte{1};
  if (mode("past_d")) to[outputs * width] = std::byte{0};
  if (mode("faults")) fake_fault();
}

mxcheck_status run(const mxcheck_call* call, const char* contract) {
  auto* launch = new Launch{fake::KeptCall(*call), contract};
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
      operation<0>("sm90_fp8+promote128", supports_e4m3), operation<1>("sm90_bf16+decode", supports_all),
      operation<2>("sm90_bf16+from_c", supports_all), operation<3>("sm90_fp8+promote128+a_first", supports_e4m3)};
  static const mxcheck_candidate_table table{MXCHECK_CANDIDATE_VERSION,
                                             sizeof(mxcheck_candidate_table),
                                             "fake_matmul",
                                             "1",
                                             kDLCUDA,
                                             static_cast<std::int32_t>(operations.size()),
                                             operations.data()};
  return &table;
}
