#pragma once
// A candidate that does the right thing, slowly: BF16 to E4M3, rceil, blocks of 1 x 32, compact scales. Each adversary
// takes it and differs in one way.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "kernels/candidate.h"
#include "tests/libraries/right/right_call.h"

namespace honest {

inline bool is(const DLTensor& t, int code, int bits, int rank) {
  return t.dtype.code == code && t.dtype.bits == bits && t.dtype.lanes == 1 && t.ndim == rank;
}

inline bool is_offered(const mxcheck_policy& p) {
  return std::strcmp(p.format, "e4m3") == 0 && std::strcmp(p.recipe, "rceil") == 0 && p.block_rows == 1 &&
         p.block_cols == 32 && p.layout == MXCHECK_COMPACT;
}

inline mxcheck_status supports(const mxcheck_policy* policy, DLDataType wide) {
  const bool bf16 = wide.code == kDLBfloat && wide.bits == 16;
  return bf16 && is_offered(*policy) ? MXCHECK_OK : MXCHECK_UNSUPPORTED;
}

inline const void* start(const DLTensor& t) { return static_cast<const char*>(t.data) + t.byte_offset; }
inline std::uint8_t* codes(const mxcheck_call* call) {
  return static_cast<std::uint8_t*>(call->outputs[0].data) + call->outputs[0].byte_offset;
}
inline std::uint8_t* scales(const mxcheck_call* call) {
  return static_cast<std::uint8_t*>(call->outputs[1].data) + call->outputs[1].byte_offset;
}
inline std::uint16_t* x(const mxcheck_call* call) {
  return static_cast<std::uint16_t*>(const_cast<void*>(start(call->inputs[0])));
}
inline std::int64_t stride(const mxcheck_call* call) {
  const DLTensor& t = call->inputs[0];
  return t.strides == nullptr ? t.shape[1] : t.strides[0];
}
inline std::int64_t rows(const mxcheck_call* call) { return call->inputs[0].shape[0]; }
inline std::int64_t cols(const mxcheck_call* call) { return call->inputs[0].shape[1]; }
inline std::int64_t elements(const mxcheck_call* call) { return rows(call) * cols(call); }
inline std::int64_t blocks(const mxcheck_call* call) { return (cols(call) + 31) / 32; }

inline DLDeviceType device = kDLCPU;  // of the tensors

inline bool offsets_are_right(const mxcheck_call* call) {
  if (call->num_inputs == 1) return true;
  const DLTensor& t = call->inputs[1];
  if (!is(t, kDLInt, 64, 1) || t.data == nullptr || t.shape[0] < 1) return false;
  const auto* offsets = static_cast<const std::int64_t*>(start(t));
  bool right = offsets[0] == 0 && offsets[t.shape[0] - 1] == rows(call);
  for (std::int64_t i = 1; i < t.shape[0]; ++i) right = right && offsets[i] >= offsets[i - 1];
  return right;
}

inline mxcheck_status judge(const mxcheck_call* call) {
  if (right::problem_of(*call, sizeof(mxcheck_policy), true, device) != nullptr) return MXCHECK_INVALID;
  if (!is_offered(*call->policy)) return MXCHECK_UNSUPPORTED;
  if ((call->num_inputs != 1 && call->num_inputs != 2) || call->num_outputs != 2) return MXCHECK_INVALID;
  const DLTensor& in = call->inputs[0];
  const DLTensor& out = call->outputs[0];
  const DLTensor& scale = call->outputs[1];
  if (!is(in, kDLBfloat, 16, 2) || !is(out, kDLUInt, 8, 2) || !is(scale, kDLUInt, 8, 2)) return MXCHECK_INVALID;
  const bool shapes = in.shape[0] == call->policy->rows && in.shape[1] == call->policy->cols &&
                      out.shape[0] == in.shape[0] && out.shape[1] == in.shape[1] && scale.shape[0] == in.shape[0] &&
                      scale.shape[1] == (in.shape[1] + 31) / 32;
  if (!shapes) return MXCHECK_INVALID;
  return offsets_are_right(call) ? MXCHECK_OK : MXCHECK_INVALID;
}

// MXCHECK_OK if quantize may go on; a message otherwise.
inline mxcheck_status check(const mxcheck_call* call) {
  if (!right::has_fields(call)) return MXCHECK_INVALID;
  const mxcheck_status status = judge(call);
  if (status != MXCHECK_OK) {
    std::snprintf(call->message, call->message_bytes, "%s",
                  status == MXCHECK_INVALID ? "these arguments do not fit together" : "this policy is not offered");
  }
  return status;
}

inline float value(std::uint16_t bf16) {
  const std::uint32_t bits = std::uint32_t{bf16} << 16;
  float f = 0;
  std::memcpy(&f, &bits, sizeof(f));
  return f;
}

// amax as the bits of a BF16; above infinity for a NaN.
inline std::uint8_t scale_byte(std::uint16_t amax) {
  if (amax >= 0x7F80) return 255;
  if (amax == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(static_cast<double>(value(amax)), &exponent);  // [0.5, 1)
  const int byte = exponent - 1 - 8 + (fraction > 0.875 ? 1 : 0) + 127;             // 448 = 0.875 * 2^9
  return static_cast<std::uint8_t>(byte < 0 ? 0 : byte);
}

inline std::uint8_t encode(std::uint16_t bf16, std::uint8_t byte) {
  if (byte == 255) return 0x7F;
  const double magnitude = std::ldexp(std::fabs(static_cast<double>(value(bf16))), 127 - byte);
  const int exponent = magnitude < 0x1p-6 ? -6 : std::ilogb(magnitude);
  const double steps =
      std::nearbyint(std::ldexp(magnitude, 3 - exponent));  // ties to even: the mode is as the process began
  const int code = (exponent + 6) * 8 + static_cast<int>(steps);
  return static_cast<std::uint8_t>((bf16 >> 8 & 0x80) | code);
}

inline void quantize(const mxcheck_call* call) {
  for (std::int64_t i = 0; i < rows(call); ++i) {
    for (std::int64_t b = 0; b < blocks(call); ++b) {
      const std::int64_t end = cols(call) < 32 * (b + 1) ? cols(call) : 32 * (b + 1);
      const std::uint16_t* row = x(call) + i * stride(call);
      std::uint16_t amax = 0;
      for (std::int64_t j = 32 * b; j < end; ++j) {
        const auto magnitude = static_cast<std::uint16_t>(row[j] & 0x7FFF);
        if (magnitude > amax) amax = magnitude;
      }
      const std::uint8_t byte = scale_byte(amax);
      scales(call)[i * blocks(call) + b] = byte;
      for (std::int64_t j = 32 * b; j < end; ++j) codes(call)[i * cols(call) + j] = encode(row[j], byte);
    }
  }
}

inline mxcheck_status run(const mxcheck_call* call) {
  const mxcheck_status status = check(call);
  if (status == MXCHECK_OK) quantize(call);
  return status;
}

}  // namespace honest
