#pragma once
// A call as the faults of this folder see it: its policy as each operation has it, its tensors by number.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "kernels/candidate_matmul.h"
#include "kernels/candidate_route.h"

namespace narrow {

struct View {
  const mxcheck_call& call;

  [[nodiscard]] const mxcheck_policy& p() const { return *call.policy; }
  [[nodiscard]] const mxcheck_matmul_policy& matmul() const {
    return *reinterpret_cast<const mxcheck_matmul_policy*>(call.policy);
  }
  [[nodiscard]] const mxcheck_route_policy& route() const {
    return *reinterpret_cast<const mxcheck_route_policy*>(call.policy);
  }
  [[nodiscard]] bool is_format(std::string_view name) const { return name == p().format; }
  [[nodiscard]] bool has_recipe(std::string_view name) const { return name == p().recipe; }
  [[nodiscard]] bool has_block(std::int64_t rows, std::int64_t cols) const {
    return p().block_rows == rows && p().block_cols == cols;
  }
  [[nodiscard]] const DLTensor& in(int i) const { return call.inputs[i]; }
  [[nodiscard]] const DLTensor& out(int i) const { return call.outputs[i]; }
  static std::byte* data(const DLTensor& t) { return static_cast<std::byte*>(t.data) + t.byte_offset; }
  static std::uintptr_t address(const DLTensor& t) { return reinterpret_cast<std::uintptr_t>(data(t)); }
  static std::int64_t count(const DLTensor& t) { return t.ndim == 2 ? t.shape[0] * t.shape[1] : t.shape[0]; }
  template <class T>
  static T* values(const DLTensor& t) {
    return reinterpret_cast<T*>(data(t));
  }

  // Offsets or row index, which are told apart by their type; null where the call has none.
  [[nodiscard]] const DLTensor* integers(int bits) const {
    for (int i = 1; i < call.num_inputs; ++i) {
      if (in(i).dtype.code == kDLInt && in(i).dtype.bits == bits) return &in(i);
    }
    return nullptr;
  }
  [[nodiscard]] std::int64_t experts() const {
    const DLTensor* offsets = integers(64);
    return offsets == nullptr ? 1 : offsets->shape[0] - 1;
  }
  // The last row of this expert; -1 where it has none.
  [[nodiscard]] std::int64_t last_row_of(std::int64_t expert) const {
    const DLTensor* offsets = integers(64);
    if (offsets == nullptr || experts() <= expert) return -1;
    const std::int64_t* o = values<std::int64_t>(*offsets);
    return o[expert + 1] > o[expert] ? o[expert + 1] - 1 : -1;
  }
};

// The lowest bit of one byte turned: of row `row`, column `col` of an output.
inline void spoil(const DLTensor& t, std::int64_t row, std::int64_t col) {
  const std::int64_t rows = t.ndim == 2 ? t.shape[0] : 1;
  const std::int64_t cols = t.ndim == 2 ? t.shape[1] : t.shape[0];
  if (row < 0 || row >= rows || col < 0 || col >= cols) return;
  View::data(t)[static_cast<std::size_t>(row * cols + col) * (t.dtype.bits / 8)] ^= std::byte{1};
}
inline void spoil_row(const DLTensor& t, std::int64_t row) {
  const std::int64_t cols = t.ndim == 2 ? t.shape[1] : t.shape[0];
  for (std::int64_t j = 0; j < cols; ++j) spoil(t, row, j);
}
inline void spoil_last(const DLTensor& t) { spoil(t, t.ndim == 2 ? t.shape[0] - 1 : 0, t.shape[t.ndim - 1] - 1); }

}  // namespace narrow
