#include "properties/process/worker_model.h"

#include <dlfcn.h>

#include <cstdio>

#include "kernels/candidate_matmul.h"

namespace mxcheck {
namespace {

static_assert(MXCHECK_GPU_MODEL_NO_SCALE == static_cast<int>(MXCHECK_NO_SCALES) &&
              MXCHECK_GPU_MODEL_SCALE_E8M0 == static_cast<int>(MXCHECK_E8M0) &&
              MXCHECK_GPU_MODEL_SCALE_FP32 == static_cast<int>(MXCHECK_FP32));
static_assert(MXCHECK_GPU_MODEL_DENSE == static_cast<int>(MXCHECK_DENSE) &&
              MXCHECK_GPU_MODEL_ALONG_M == static_cast<int>(MXCHECK_ROWS) &&
              MXCHECK_GPU_MODEL_ALONG_K == static_cast<int>(MXCHECK_DEPTH));

template <class T>
T* pointer_to(CudaPointer address) {
  return reinterpret_cast<T*>(address);
}

void say(DeviceComparison& into, const char* what, const char* why) {
  std::snprintf(into.problem, sizeof(into.problem), "the GPU model %s: %s", what, why);
}

}  // namespace

MxcheckGpuModelCall model_call(const wire::Message& message, const AddressOfTensor& address_of) {
  const auto p = read<mxcheck_matmul_policy>(message.policy);
  MxcheckGpuModelCall call{};
  call.a_format = message.model.a_format, call.b_format = message.model.b_format;
  call.m = p.policy.rows, call.n = p.policy.cols, call.k = p.depth;
  call.a_rows = message.tensors[0].shape[0];
  call.promotion = message.model.promotion;
  call.scale_format = p.scale_type;
  call.scale_a_block = static_cast<std::int32_t>(p.policy.block_cols);
  call.scale_b_block = static_cast<std::int32_t>(p.block_b_cols);
  call.scale_b_rows = static_cast<std::int32_t>(p.block_b_rows);
  call.groups = p.grouping;
  call.experts = 1;
  call.alpha = p.alpha;
  call.row_end = p.policy.rows;
  int next = 0;
  call.a = pointer_to<const void>(address_of(next++));
  call.b = pointer_to<const void>(address_of(next++));
  if (p.scale_type != MXCHECK_NO_SCALES) {
    call.scale_a = pointer_to<const void>(address_of(next++));
    call.scale_b = pointer_to<const void>(address_of(next++));
  }
  if (p.accumulate != 0) call.c = pointer_to<const float>(address_of(next++));
  for (; next < message.num_inputs; ++next) {
    const wire::Tensor& t = message.tensors[next];
    if (t.dtype_bits == 32) call.row_index = pointer_to<const std::int32_t>(address_of(next));
    if (t.dtype_bits == 64) {
      call.experts = t.shape[0] - 1;
      call.offsets = pointer_to<const std::int64_t>(address_of(next)) + 1;  // ends alone
    }
  }
  const wire::Tensor& d = message.tensors[message.num_inputs];
  call.output = d.dtype_bits == 16 ? MXCHECK_GPU_MODEL_OUT_BF16 : MXCHECK_GPU_MODEL_OUT_FP32;
  call.d = pointer_to<void>(address_of(message.num_inputs));
  return call;
}

// Empty, or why not.
std::string GpuModel::load() {
  if (loaded_) return "";
  void* library = dlopen(library_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return why == nullptr ? "no reason given" : why;
  }
  compare_ = reinterpret_cast<decltype(compare_)>(dlsym(library, "mxcheck_gpu_model_compare"));
  decode_ = reinterpret_cast<decltype(decode_)>(dlsym(library, "mxcheck_gpu_model_decode_mx"));
  if (compare_ == nullptr || decode_ == nullptr) return library_ + " lacks a function of gpu_model.h";
  loaded_ = true;
  return "";
}

CudaPointer GpuModel::reserve(Buffer& buffer, std::uint64_t bytes) {
  if (bytes > buffer.bytes) {
    device_.free(buffer.memory);
    buffer = {};
    buffer.memory = device_.allocate(bytes);
    buffer.bytes = bytes;
  }
  return buffer.memory;
}

// Both operands as BF16, in memory of this object.
bool GpuModel::decode(const wire::Message& message, MxcheckGpuModelCall& call, DeviceComparison& into) {
  char why[160] = {};
  for (int i = 0; i < 2; ++i) {
    const std::int64_t rows = message.tensors[i].shape[0];
    const CudaPointer out = reserve(decoded_[i], static_cast<std::uint64_t>(rows * call.k) * 2 + 2);
    const void*& operand = i == 0 ? call.a : call.b;
    const void*& scales = i == 0 ? call.scale_a : call.scale_b;
    if (decode_(static_cast<const std::uint8_t*>(operand), static_cast<const std::uint8_t*>(scales), rows, call.k,
                pointer_to<std::uint16_t>(out), call.stream, why, sizeof(why)) != 0) {
      say(into, "did not decode", why);
      return false;
    }
    operand = pointer_to<const void>(out), scales = nullptr;
  }
  call.scale_format = MXCHECK_GPU_MODEL_NO_SCALE;
  return true;
}

void GpuModel::compare(const wire::Message& message, const AddressOfTensor& address_of, CudaHandle stream,
                       DeviceComparison& into) {
  if (const std::string why = load(); !why.empty()) return say(into, "cannot be loaded", why.c_str());
  MxcheckGpuModelCall call = model_call(message, address_of);
  const CudaPointer at = reserve(report_, sizeof(MxcheckGpuModelReport));
  call.report = pointer_to<MxcheckGpuModelReport>(at);
  call.stream = stream;
  if (message.model.decodes != 0 && !decode(message, call, into)) return;
  char why[160] = {};
  if (compare_(&call, why, sizeof(why)) != 0) return say(into, "refused", why);
  MxcheckGpuModelReport report{};
  device_.to_host(&report, at, sizeof(report), stream);
  device_.synchronize(stream);
  if (report.bad_offsets != 0 || report.bad_rows != 0) return say(into, "refused", "offsets or rows are out of range");
  into.compared = report.compared, into.differing = report.differing, into.first = report.first;
  into.expected = report.expected, into.observed = report.observed;
}

}  // namespace mxcheck
