#pragma once
// Common parts of the fake candidates and the fake model: a kernel's way into a stream of the fake driver, what the
// environment tells them to do wrong, and arguments that are still there when the kernel runs.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/candidate.h"
#include "tests/libraries/right/right_call.h"

extern "C" {
int fake_launch(void* stream, void (*kernel)(void*), void* argument);
void fake_fault();
}

namespace fake {

inline bool mode(std::string_view name, const char* variable = "FAKE_CUDA") {
  return right::variable(variable) == name;
}

// A call with tensors of its own: the caller's are gone when its kernel runs. Graphs run it again, so nothing frees it.
// The policy is not copied, only the pointer to it.
struct KeptCall {
  explicit KeptCall(const mxcheck_call& from) : call(from) {
    for (int i = 0; i < from.num_inputs + from.num_outputs; ++i) {
      const auto at = static_cast<std::size_t>(i);
      DLTensor& t = tensors[at];
      t = i < from.num_inputs ? from.inputs[i] : from.outputs[i - from.num_inputs];
      for (int n = 0; n < t.ndim; ++n) {
        shapes[at][static_cast<std::size_t>(n)] = t.shape[n];
        if (t.strides != nullptr) strides[at][static_cast<std::size_t>(n)] = t.strides[n];
      }
      t.shape = shapes[at].data();
      if (t.strides != nullptr) t.strides = strides[at].data();
    }
    call.inputs = tensors.data(), call.outputs = tensors.data() + from.num_inputs;
  }
  KeptCall(const KeptCall&) = delete;
  KeptCall& operator=(const KeptCall&) = delete;

  static constexpr std::size_t kMost = 20;  // tensors of a call
  mxcheck_call call;
  std::array<DLTensor, kMost> tensors{};
  std::array<std::array<std::int64_t, 2>, kMost> shapes{}, strides{};
};

}  // namespace fake
