// A whole candidate: quantize BF16 to E4M3 in 1 x 32 blocks, scales rounded up, compact. Slow, right, and short.
//
//   g++ -std=c++20 -O2 -fPIC -shared -I PATH/TO/mxcheck my_candidate.cc -o libmine.so
//   mxcheck gate --candidate ./libmine.so

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "kernels/candidate.h"

namespace {

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

// The smallest e >= -127 with amax <= 448 * 2^e: 448 is 1.75 * 2^8, so compare the fraction with 1.75 / 2.
int scale_exponent(float amax) {
  int exponent = 0;
  const float fraction = std::frexp(amax, &exponent);  // amax = fraction * 2^exponent, 1/2 <= fraction < 1
  return std::max(-127, exponent - 9 + (fraction > 0.875F ? 1 : 0));
}

// Nearest even, saturating at 448. v is exact: a BF16 value times a power of two.
std::uint8_t to_e4m3(double v) {
  const std::uint8_t sign = std::signbit(v) ? 0x80 : 0;
  const double magnitude = std::fabs(v);
  if (magnitude == 0) return sign;
  const int binade = std::max(std::ilogb(magnitude), -6);  // below 2^-6 the step stays 2^-9
  const int steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 3 - binade)));
  const int code = ((binade + 6) << 3) + steps;  // a carry moves to the next binade
  return sign | static_cast<std::uint8_t>(std::min(code, 0x7E));
}

void quantize_block(const std::uint16_t* x, std::int64_t count, std::uint8_t* codes, std::uint8_t* scale) {
  float amax = 0;
  bool finite = true;
  for (std::int64_t i = 0; i < count; ++i) {
    finite = finite && std::isfinite(from_bf16(x[i]));
    amax = std::max(amax, std::fabs(from_bf16(x[i])));
  }
  const int e = amax == 0 ? -127 : finite ? scale_exponent(amax) : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    codes[i] = finite ? to_e4m3(std::ldexp(static_cast<double>(from_bf16(x[i])), -e)) : std::uint8_t{0x7F};
  }
  *scale = finite ? static_cast<std::uint8_t>(e + 127) : std::uint8_t{0xFF};
}

mxcheck_status supports(const mxcheck_policy* p, DLDataType x) {
  const bool yes = std::string_view(p->format) == "e4m3" && std::string_view(p->recipe) == "rceil" &&
                   p->block_rows == 1 && p->block_cols == 32 && p->layout == MXCHECK_COMPACT && x.code == kDLBfloat &&
                   x.bits == 16;
  return yes ? MXCHECK_OK : MXCHECK_UNSUPPORTED;
}

// gaps: rows may be further apart than they are long.
bool is_matrix(const DLTensor& t, std::int64_t rows, std::int64_t cols, DLDataType type, bool gaps = false) {
  if (t.ndim != 2 || t.shape == nullptr || t.shape[0] != rows || t.shape[1] != cols) return false;
  if (t.dtype.code != type.code || t.dtype.bits != type.bits || t.dtype.lanes != 1) return false;
  if (t.device.device_type != kDLCPU || t.device.device_id != 0) return false;
  if (t.data == nullptr && rows * cols != 0) return false;
  if (t.strides == nullptr) return true;
  if (cols > 1 && t.strides[1] != 1) return false;
  return rows <= 1 || (gaps ? t.strides[0] >= cols : t.strides[0] == cols);
}

template <class T>
T* data_of(const DLTensor& t) {
  return reinterpret_cast<T*>(static_cast<std::byte*>(t.data) + t.byte_offset);
}

mxcheck_status refuse(const mxcheck_call* call, mxcheck_status status, const char* why) {
  std::snprintf(call->message, call->message_bytes, "%s", why);
  return status;
}

mxcheck_status run(const mxcheck_call* call) {
  if (call->size < sizeof(mxcheck_call)) return MXCHECK_INVALID;  // it may have no message
  if (call->policy == nullptr || call->policy->size < sizeof(mxcheck_policy))
    return refuse(call, MXCHECK_INVALID, "there is no policy");
  const mxcheck_policy& p = *call->policy;
  if (p.rows < 0 || p.cols < 0 || p.threads < 0) return refuse(call, MXCHECK_INVALID, "the policy is out of range");
  if (call->num_outputs != 2 || call->num_inputs < 1 || call->inputs == nullptr || call->outputs == nullptr)
    return refuse(call, MXCHECK_INVALID, "one input, two outputs");
  const DLTensor& x = call->inputs[0];
  if (supports(&p, x.dtype) != MXCHECK_OK) return refuse(call, MXCHECK_UNSUPPORTED, "bf16, e4m3, rceil, 1x32, compact");
  if (call->num_inputs > 1) return refuse(call, MXCHECK_UNSUPPORTED, "expert offsets are not offered");
  const std::int64_t scale_cols = p.cols / 32 + (p.cols % 32 != 0 ? 1 : 0);
  const DLDataType bytes{kDLUInt, 8, 1};
  if (!is_matrix(x, p.rows, p.cols, {kDLBfloat, 16, 1}, true) || !is_matrix(call->outputs[0], p.rows, p.cols, bytes) ||
      !is_matrix(call->outputs[1], p.rows, scale_cols, bytes)) {
    return refuse(call, MXCHECK_INVALID, "x and codes are [rows, cols], scales are [rows, ceil(cols / 32)]");
  }
  const std::int64_t stride = x.strides == nullptr ? p.cols : x.strides[0];
  const auto* in = data_of<const std::uint16_t>(x);
  auto* codes = data_of<std::uint8_t>(call->outputs[0]);
  auto* scales = data_of<std::uint8_t>(call->outputs[1]);
  for (std::int64_t i = 0; i < p.rows; ++i) {
    for (std::int64_t b = 0; b < scale_cols; ++b) {
      quantize_block(in + i * stride + b * 32, std::min<std::int64_t>(32, p.cols - b * 32), codes + i * p.cols + b * 32,
                     scales + i * scale_cols + b);
    }
  }
  return MXCHECK_OK;
}

const mxcheck_operation kOperations[] = {{"quantize", "exact", 0, 0, 1, 1, supports, nullptr, run}};
const mxcheck_candidate_table kTable = {
    MXCHECK_CANDIDATE_VERSION, sizeof(mxcheck_candidate_table), "mine", "1.0", kDLCPU, 1, kOperations};

}  // namespace

extern "C" const mxcheck_candidate_table* mxcheck_candidate(void) { return &kTable; }
