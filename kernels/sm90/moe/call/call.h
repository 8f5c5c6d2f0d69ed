#pragma once
// A call of kernels/candidate_moe.h: its policy and tensors, checked against one another before anything is read
// through them. All throw Refusal.

#include <cstdint>

#include "kernels/candidate_moe.h"
#include "kernels/common/arguments.h"
#include "kernels/sm90/moe/call/recipe.h"

namespace mxcheck_kernels::sm90 {

struct MoeTensors {
  Checked x, w1, w2, d_o;       // x of the backward pass: where it was kept in BF16
  Checked h, h_scales;          // as H is kept: an output of the forward pass, an input of the backward pass
  Checked kept_x, kept_scales;  // the same of X, where it is kept in codes
  Checked o, dx, dw1, dw2, ds;
  Checked row_token, row_weight, token_offsets, token_rows, offsets;
};

struct MoeCall {
  const MoeRecipe* recipe = nullptr;
  bool backward = false;
  bool interleaved = false;  // gate and up columns of H and W1
  std::int64_t tokens = 0;
  std::int64_t d = 0;
  std::int64_t n = 0;
  std::int64_t experts = 0;
  std::int64_t routed = 0;
  std::int64_t slots = 0;
  MoeTensors tensors;  // all without data where there is no workspace
  void* workspace = nullptr;
  mxcheck_device_report* report = nullptr;
};

// Checks a policy that "supports" is asked about: extents may be 0.
void check_moe_policy(const mxcheck_policy* policy, DLDataType wide);

// The whole call; without a workspace the policy alone, whose extents say what a workspace needs.
MoeCall read_moe_call(const mxcheck_call& call, bool backward);

template <class T>
T* data_of(const Checked& tensor) {
  return static_cast<T*>(tensor.data);
}

}  // namespace mxcheck_kernels::sm90
