// GEMMs for the fake driver: the reference, as a kernel in a stream. FAKE_CUDA in the environment names what it does
// wrong.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string_view>

#include "kernels/candidate_matmul.h"
#include "reference/matmul/matmul.h"
#include "tests/libraries/right/cuda/fake.h"

namespace {

using fake::mode;

const std::byte* data_of(const DLTensor& t) { return static_cast<const std::byte*>(t.data) + t.byte_offset; }

// Nothing is checked: calls of these tests are good.
mxcheck::Matmul matmul_of(const mxcheck_call& call, std::string_view contract) {
  const auto& p = *reinterpret_cast<const mxcheck_matmul_policy*>(call.policy);
  const DLTensor* in = call.inputs;
  const bool scaled = p.scale_type != MXCHECK_NO_SCALES;
  mxcheck::Matmul x;
  const auto operand = [&](int i, const char* format, std::int64_t rows, mxcheck::BlockShape block) {
    mxcheck::MatmulOperand o;
    o.format = *mxcheck::find_format(format), o.codes = data_of(in[i]);
    o.rows = rows, o.depth = o.row_stride = p.depth;
    if (!scaled) return o;
    o.block = block;
    o.scale_format = p.scale_type == MXCHECK_E8M0 ? mxcheck::Format::e8m0 : mxcheck::Format::fp32;
    o.scales = data_of(in[i + 2]), o.scale_row_stride = in[i + 2].shape[1];
    return o;
  };
  x.a = operand(0, p.policy.format, in[0].shape[0], {p.policy.block_rows, p.policy.block_cols});
  x.b = operand(1, p.format_b, p.policy.cols, {p.block_b_rows, p.block_b_cols});
  int next = scaled ? 4 : 2;
  if (p.accumulate != 0) x.c = data_of(in[next++]);
  for (; next < call.num_inputs; ++next) {
    const auto count = static_cast<std::size_t>(in[next].shape[0]);
    if (in[next].dtype.bits == 64) x.offsets = {reinterpret_cast<const std::int64_t*>(data_of(in[next])), count};
    if (in[next].dtype.bits == 32) {
      x.row_index = {reinterpret_cast<const std::int32_t*>(data_of(in[next])), count};
      x.gathers = true;
    }
  }
  x.output = call.outputs[0].dtype.bits == 16 ? mxcheck::Format::bf16 : mxcheck::Format::fp32;
  x.alpha = p.alpha;
  x.grouping = static_cast<mxcheck::Grouping>(p.grouping);
  x.contract = mxcheck::parse_matmul_contract(contract);
  if (x.c == nullptr) x.contract.from_c = false;
  return x;
}

struct Launch {
  fake::KeptCall kept;
  const char* contract;
};

void kernel(void* argument) {
  const Launch& launch = *static_cast<const Launch*>(argument);
  const mxcheck_call& call = launch.kept.call;
  const DLTensor& d = call.outputs[0];
  auto* to = const_cast<std::byte*>(data_of(d));
  const auto width = static_cast<std::size_t>(d.dtype.bits / 8);
  const auto outputs = static_cast<std::size_t>(d.shape[0] * d.shape[1]);
  try {
    mxcheck::matmul(matmul_of(call, launch.contract), to);
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
