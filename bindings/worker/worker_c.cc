#include "bindings/worker/worker_c.h"

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <string>

#include "bindings/worker/adapter.h"
#include "properties/process/confine.h"
#include "properties/process/wire.h"
#include "properties/process/worker.h"

namespace mxcheck {
namespace {

Adapter* serving = nullptr;
std::string unconfined;

// A tensor of its own memory's length, shape and strides, whose data is the call's.
struct Managed {
  DLManagedTensor tensor{};
  std::array<std::int64_t, wire::kMaxDimensions> shape{};
  std::array<std::int64_t, wire::kMaxDimensions> strides{};
};

void* managed(const DLTensor& from) {
  auto made = std::make_unique<Managed>();
  DLTensor& to = made->tensor.dl_tensor;
  to = from;
  std::copy_n(from.shape, from.ndim, made->shape.begin());
  to.shape = made->shape.data();
  if (from.strides != nullptr) {
    std::copy_n(from.strides, from.ndim, made->strides.begin());
    to.strides = made->strides.data();
  }
  // torch takes data alone as the address, and no address of nothing.
  to.data = static_cast<char*>(from.data) + from.byte_offset;
  to.byte_offset = 0;
  made->tensor.manager_ctx = made.get();
  made->tensor.deleter = [](DLManagedTensor* self) { delete static_cast<Managed*>(self->manager_ctx); };
  return &made.release()->tensor;
}

}  // namespace
}  // namespace mxcheck

const char* mxcheck_worker_begin(std::int32_t gate) {
  mxcheck::begin_worker();
  mxcheck::unconfined = mxcheck::confine(gate);
  return mxcheck::unconfined.c_str();
}

std::int32_t mxcheck_worker_serve(mxcheck_worker_hooks* hooks, std::int32_t socket, std::int32_t shared,
                                  const char* gpu_model) {
  if (hooks == nullptr || hooks->size != sizeof(mxcheck_worker_hooks)) return 2;
  try {
    mxcheck::Adapter adapter(*hooks);
    mxcheck::serving = &adapter;
    const std::int32_t status =
        mxcheck::serve_candidate(adapter, socket, shared, gpu_model == nullptr ? "" : gpu_model, mxcheck::unconfined);
    mxcheck::serving = nullptr;
    return status;
  } catch (const std::exception&) {
    return 1;
  }
}

void mxcheck_worker_answer(void) { mxcheck::Adapter::answer(); }

void* mxcheck_worker_tensor(std::int32_t i) {
  if (mxcheck::serving == nullptr) return nullptr;
  const DLTensor* tensor = mxcheck::serving->tensor(i);
  return tensor == nullptr ? nullptr : mxcheck::managed(*tensor);
}
