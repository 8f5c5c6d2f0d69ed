// Checks of arguments, and launches.

#include "properties/gpu_model/gpu_model.h"

#include <cuda_runtime.h>

#include <cstdarg>
#include <cstdio>

#include "properties/gpu_model/kernel.cuh"

namespace {

using namespace mxcheck::gpu_model;

constexpr int kBadArgument = 1;
constexpr int kCudaError = 2;

struct Message {
  char* text;
  std::size_t size;
};

__attribute__((format(printf, 3, 4))) int fail(Message to, int code, const char* format, ...) {
  if (to.text != nullptr && to.size != 0) {
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(to.text, to.size, format, arguments);
    va_end(arguments);
  }
  return code;
}

int after_launch(Message to) {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? 0 : fail(to, kCudaError, "CUDA: %s", cudaGetErrorString(error));
}

bool is_fp8(int format) { return format == MXCHECK_GPU_MODEL_E4M3 || format == MXCHECK_GPU_MODEL_E5M2; }

int step_of(int format) {
  switch (format) {
    case MXCHECK_GPU_MODEL_BF16:
    case MXCHECK_GPU_MODEL_FP16: return FormatOf<MXCHECK_GPU_MODEL_BF16>::kStep;
    case MXCHECK_GPU_MODEL_TF32: return FormatOf<MXCHECK_GPU_MODEL_TF32>::kStep;
    default: return FormatOf<MXCHECK_GPU_MODEL_E4M3>::kStep;
  }
}

int check_scales(const MxcheckGpuModelCall& c, Message to) {
  if (c.scale_format == MXCHECK_GPU_MODEL_NO_SCALE) return 0;
  if (c.scale_format != MXCHECK_GPU_MODEL_SCALE_E8M0 && c.scale_format != MXCHECK_GPU_MODEL_SCALE_FP32) {
    return fail(to, kBadArgument, "scale_format %d is not known", c.scale_format);
  }
  if (c.promotion == 0) return fail(to, kBadArgument, "scales need a promotion");
  if (c.scale_a == nullptr || c.scale_b == nullptr) return fail(to, kBadArgument, "scale_a or scale_b is null");
  for (const int block : {c.scale_a_block, c.scale_b_block}) {
    if (block <= 0 || block % c.promotion != 0) {
      return fail(to, kBadArgument, "a scale block of %d is no multiple of the promotion, %d", block, c.promotion);
    }
  }
  if (c.scale_b_rows != 1 && c.scale_b_rows != 128) {
    return fail(to, kBadArgument, "scale_b_rows is 1 or 128, not %d", c.scale_b_rows);
  }
  return 0;
}

int check_rows(const MxcheckGpuModelCall& c, Message to) {
  if (c.rows != nullptr) {
    return c.row_count >= 0 ? 0 : fail(to, kBadArgument, "row_count is %lld", static_cast<long long>(c.row_count));
  }
  if (c.row_begin < 0 || c.row_end < c.row_begin || c.row_end > c.m) {
    return fail(to, kBadArgument, "rows [%lld, %lld) are not rows of %lld", static_cast<long long>(c.row_begin),
                static_cast<long long>(c.row_end), static_cast<long long>(c.m));
  }
  return 0;
}

int check(const MxcheckGpuModelCall& c, Message to) {
  const bool same =
      c.a_format == c.b_format && c.a_format >= MXCHECK_GPU_MODEL_E4M3 && c.a_format <= MXCHECK_GPU_MODEL_TF32;
  if (!same && !(is_fp8(c.a_format) && is_fp8(c.b_format))) {
    return fail(to, kBadArgument, "operand formats %d and %d have no contract", c.a_format, c.b_format);
  }
  if (c.m < 0 || c.n < 0 || c.k < 0 || c.k > INT32_MAX) return fail(to, kBadArgument, "m, n or k is out of range");
  if ((c.lda != 0 && c.lda < c.k) || (c.ldb != 0 && c.ldb < c.k) || (c.ldc != 0 && c.ldc < c.n) ||
      (c.ldd != 0 && c.ldd < c.n)) {
    return fail(to, kBadArgument, "a stride is shorter than its row");
  }
  if (c.report == nullptr) return fail(to, kBadArgument, "report is null");
  const bool empty = c.m == 0 || c.n == 0;
  if (!empty && c.d == nullptr) return fail(to, kBadArgument, "d is null");
  if (!empty && c.k != 0 && (c.a == nullptr || c.b == nullptr)) return fail(to, kBadArgument, "a or b is null");
  if (c.row_index != nullptr && c.a_rows < 0) return fail(to, kBadArgument, "a_rows is negative");
  if (c.promotion < 0 || c.promotion % step_of(c.a_format) != 0) {
    return fail(to, kBadArgument, "promotion %d is no multiple of the step, %d", c.promotion, step_of(c.a_format));
  }
  if (const int bad = check_scales(c, to)) return bad;
  if (const int bad = check_rows(c, to)) return bad;
  if (c.groups < MXCHECK_GPU_MODEL_DENSE || c.groups > MXCHECK_GPU_MODEL_ALONG_K) {
    return fail(to, kBadArgument, "groups %d is not known", c.groups);
  }
  if (c.groups != MXCHECK_GPU_MODEL_DENSE && (c.experts <= 0 || c.offsets == nullptr)) {
    return fail(to, kBadArgument, "groups need experts and offsets");
  }
  if (c.output != MXCHECK_GPU_MODEL_OUT_FP32 && c.output != MXCHECK_GPU_MODEL_OUT_BF16) {
    return fail(to, kBadArgument, "output %d is not known", c.output);
  }
  if (c.mode != MXCHECK_GPU_MODEL_COMPARE && c.mode != MXCHECK_GPU_MODEL_WRITE) {
    return fail(to, kBadArgument, "mode %d is not known", c.mode);
  }
  return 0;
}

using Kernel = void (*)(KernelCall);

Kernel kernel_of(int a, int b) {
  constexpr int e4m3 = MXCHECK_GPU_MODEL_E4M3;
  constexpr int e5m2 = MXCHECK_GPU_MODEL_E5M2;
  switch (a) {
    case MXCHECK_GPU_MODEL_BF16: return compare_kernel<MXCHECK_GPU_MODEL_BF16, MXCHECK_GPU_MODEL_BF16>;
    case MXCHECK_GPU_MODEL_FP16: return compare_kernel<MXCHECK_GPU_MODEL_FP16, MXCHECK_GPU_MODEL_FP16>;
    case MXCHECK_GPU_MODEL_TF32: return compare_kernel<MXCHECK_GPU_MODEL_TF32, MXCHECK_GPU_MODEL_TF32>;
    case e4m3: return b == e4m3 ? compare_kernel<e4m3, e4m3> : compare_kernel<e4m3, e5m2>;
    default: return b == e4m3 ? compare_kernel<e5m2, e4m3> : compare_kernel<e5m2, e5m2>;
  }
}

KernelCall filled(const MxcheckGpuModelCall& call) {
  KernelCall p{call, (call.n + kTile - 1) / kTile, false};
  if (p.call.lda == 0) p.call.lda = call.k;
  if (p.call.ldb == 0) p.call.ldb = call.k;
  if (p.call.ldc == 0) p.call.ldc = call.n;
  if (p.call.ldd == 0) p.call.ldd = call.n;
  return p;
}

// No fewer than there are.
std::int64_t row_tiles(const MxcheckGpuModelCall& c) {
  const std::int64_t rows = c.rows != nullptr ? c.row_count : c.row_end - c.row_begin;
  const std::int64_t tiles = (rows + kTile - 1) / kTile;
  if (c.groups == MXCHECK_GPU_MODEL_ALONG_K) return tiles * c.experts;
  return c.groups == MXCHECK_GPU_MODEL_ALONG_M ? tiles + c.experts : tiles;
}

}  // namespace

extern "C" int mxcheck_gpu_model_compare(const MxcheckGpuModelCall* call, char* message, size_t size) {
  const Message to{message, size};
  if (call == nullptr) return fail(to, kBadArgument, "call is null");
  if (const int bad = check(*call, to)) return bad;
  auto* stream = static_cast<cudaStream_t>(call->stream);
  begin_report<<<1, 1, 0, stream>>>(call->report);
  if (const int bad = after_launch(to)) return bad;

  KernelCall p = filled(*call);
  const std::int64_t tiles = row_tiles(p.call);
  const bool none = p.call.rows != nullptr ? p.call.row_count == 0 : p.call.row_begin == p.call.row_end;
  if (none || p.tiles_n == 0) return 0;
  if (tiles > INT32_MAX / p.tiles_n) return fail(to, kBadArgument, "too many tiles for one launch");
  const Kernel kernel = kernel_of(call->a_format, call->b_format);
  kernel<<<static_cast<unsigned int>(tiles * p.tiles_n), kThreads, 0, stream>>>(p);
  if (const int bad = after_launch(to)) return bad;
  if (call->mode == MXCHECK_GPU_MODEL_WRITE) return 0;
  p.extract = true;
  kernel<<<1, kThreads, 0, stream>>>(p);
  return after_launch(to);
}

namespace {

using Decode = void (*)(const std::uint8_t*, const std::uint8_t*, std::int64_t, std::int64_t, std::uint16_t*);

int decode_with(Decode kernel, const uint8_t* codes, const uint8_t* scales, int64_t rows, int64_t k, uint16_t* out,
                void* stream, const Message& to) {
  if (rows < 0 || k < 0) return fail(to, kBadArgument, "rows or k is negative");
  if (rows == 0 || k == 0) return 0;
  if (codes == nullptr || scales == nullptr || out == nullptr) return fail(to, kBadArgument, "a pointer is null");
  const std::int64_t blocks = (rows * k + 255) / 256;
  kernel<<<static_cast<unsigned int>(blocks < 65536 ? blocks : 65536), 256, 0, static_cast<cudaStream_t>(stream)>>>(
      codes, scales, rows, k, out);
  return after_launch(to);
}

}  // namespace

extern "C" int mxcheck_gpu_model_decode_mx(const uint8_t* codes, const uint8_t* scales, int64_t rows, int64_t k,
                                           uint16_t* out, void* stream, char* message, size_t size) {
  return decode_with(decode_mx_kernel, codes, scales, rows, k, out, stream, {message, size});
}

extern "C" int mxcheck_gpu_model_decode_nvfp4(const uint8_t* codes, const uint8_t* scales, int64_t rows, int64_t k,
                                              uint16_t* out, void* stream, char* message, size_t size) {
  return decode_with(decode_nvfp4_kernel, codes, scales, rows, k, out, stream, {message, size});
}
