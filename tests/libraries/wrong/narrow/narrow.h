#pragma once
// A right library (NARROW_OF names its file) with one fault in a narrow part of its domain, named by NARROW: from a
// width on, from the ninth expert on, at one address. The catalogue has what each is. A fault spoils what the right
// library wrote (after), or asks it for something else (before).

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/candidate_dispatch.h"
#include "kernels/candidate_matmul.h"
#include "kernels/candidate_moe.h"
#include "kernels/candidate_nvfp4.h"
#include "kernels/candidate_route.h"

namespace narrow {

// A call: its policy as each operation has it, its tensors by number.
struct View {
  const mxcheck_call& call;

  [[nodiscard]] const mxcheck_policy& p() const { return *call.policy; }
  template <class Policy>
  [[nodiscard]] const Policy& policy() const {
    return *reinterpret_cast<const Policy*>(call.policy);
  }
  [[nodiscard]] const mxcheck_matmul_policy& matmul() const { return policy<mxcheck_matmul_policy>(); }
  [[nodiscard]] const mxcheck_route_policy& route() const { return policy<mxcheck_route_policy>(); }
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

inline void spoil_if(bool is_so, const DLTensor& t, std::int64_t row, std::int64_t col) {
  if (is_so) spoil(t, row, col);
}
inline void spoil_row_if(bool is_so, const DLTensor& t, std::int64_t row) {
  if (is_so) spoil_row(t, row);
}
inline void spoil_last_if(bool is_so, const DLTensor& t) {
  if (is_so) spoil_last(t);
}

// The call that the right library gets in place of the one that came: the same until a fault changes it.
class Asked {
 public:
  explicit Asked(const mxcheck_call& from)
      : call_(from), inputs_(from.inputs, from.inputs + std::max(0, from.num_inputs)), policy_(from.policy->size) {
    std::memcpy(policy_.data(), from.policy, policy_.size());
    call_.policy = reinterpret_cast<const mxcheck_policy*>(policy_.data());
    call_.inputs = inputs_.data();
  }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

  [[nodiscard]] const mxcheck_call& call() const { return call_; }
  template <class Policy>
  [[nodiscard]] Policy& policy() {
    return *reinterpret_cast<Policy*>(policy_.data());
  }
  template <class Policy>
  [[nodiscard]] bool has() const {
    return policy_.size() >= sizeof(Policy);
  }
  // The values of an input, a copy that may be changed. Contiguous ones of one kind of element alone.
  template <class T>
  std::span<T> values(int input) {
    DLTensor& t = inputs_[static_cast<std::size_t>(input)];
    if (t.shape == nullptr || t.data == nullptr || t.ndim < 1 || t.ndim > 2 || View::count(t) < 0) return {};
    const std::int64_t count = View::count(t);
    std::vector<std::byte>& own = copies_.emplace_back(static_cast<std::size_t>(count) * sizeof(T));
    if (count > 0) std::memcpy(own.data(), View::data(t), own.size());
    t.data = own.data(), t.byte_offset = 0;
    return {reinterpret_cast<T*>(own.data()), static_cast<std::size_t>(count)};
  }

 private:
  mxcheck_call call_;
  std::vector<DLTensor> inputs_;
  std::vector<std::byte> policy_;
  std::vector<std::vector<std::byte>> copies_;
};

struct Fault {
  std::string_view name;
  std::string_view operation;        // as in fnmatch
  void (*after)(const View&);        // spoils what a right library wrote
  void (*before)(Asked&) = nullptr;  // where not null
};

// The tables, by what they are about.
std::span<const Fault> faults_of_blocks_gemms_and_routers();
std::span<const Fault> faults_of_routed_rows();
std::span<const Fault> faults_of_random_words_and_routes();
std::span<const Fault> faults_of_scales_words_and_sizes();
std::span<const Fault> faults_of_edges();

}  // namespace narrow
