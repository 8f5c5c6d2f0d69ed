#pragma once
// The router's operations on the device, bound to memory of their own: logits in, routes and rows out.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/sm90/common/device.h"
#include "kernels/candidate_route.h"
#include "properties/core/policy.h"

namespace mxcheck::bench {

struct RouterShape {
  std::string variant = "topk-softmax";
  bool fp32 = false;
  std::int64_t tokens = 0;
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  bool refuse_nan = false;
  enum class Bias : std::uint8_t { none, drawn, zero };  // zero: as training begins, so that equal logits tie
  Bias bias = Bias::none;
  std::int64_t groups = 0;  // of which groups_kept are chosen from; 0: none
  std::int64_t groups_kept = 0;
  std::string rule;  // of route_round
  std::int64_t tile = 128;
  [[nodiscard]] std::string text() const;
};

// Logits of a normal distribution, the same for the same shape and seed, on the host.
std::vector<std::uint8_t> draw_logits(const RouterShape& shape, std::uint64_t seed);
// A bias as it is after a while of training: uniform in [-1/16, 1/16). Empty where the shape has none.
std::vector<float> draw_bias(const RouterShape& shape, std::uint64_t seed);
Policy policy_of(const RouterShape& shape);

std::vector<std::byte> download(const DeviceBuffer& buffer);
void upload(const DeviceBuffer& buffer, const void* from);

// route, and after it route_metadata if requested.
class RouteCall {
 public:
  RouteCall(const mxcheck_operation& operation, const RouterShape& shape, std::uint64_t seed);
  void enqueue(cudaStream_t stream) { call_.enqueue(stream); }
  // "" or what differs from the gate's answer.
  std::string difference(cudaStream_t stream) { return call_.difference(stream); }
  [[nodiscard]] void* experts() const { return experts_.data(); }
  [[nodiscard]] void* logits() const { return logits_.data(); }
  // Read and written by one call.
  [[nodiscard]] std::uint64_t bytes() const { return logits_.bytes() + experts_.bytes() + weights_.bytes(); }

 private:
  RouterShape shape_;
  DeviceBuffer logits_, bias_, experts_, weights_;
  DeviceOperation call_;
};

// route_round, end to end.
class RoundCall {
 public:
  RoundCall(const mxcheck_operation& operation, const RouterShape& shape, std::uint64_t seed);
  void enqueue(cudaStream_t stream) { call_.enqueue(stream); }
  std::string difference(cudaStream_t stream) { return call_.difference(stream); }
  [[nodiscard]] std::uint64_t bytes() const { return logits_.bytes(); }
  [[nodiscard]] const DeviceBuffer& offsets() const { return offsets_; }
  [[nodiscard]] const DeviceBuffer& row_token() const { return row_token_; }

 private:
  RouterShape shape_;
  std::int64_t capacity_;
  DeviceBuffer logits_, chosen_, offsets_, row_token_, row_weight_, token_offsets_, token_rows_;
  DeviceOperation call_;
};

// route_metadata of routes that are on the device.
class MetadataCall {
 public:
  MetadataCall(const mxcheck_operation& operation, const RouterShape& shape, void* experts);
  void enqueue(cudaStream_t stream) { call_.enqueue(stream); }
  std::string difference(cudaStream_t stream) { return call_.difference(stream); }
  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] const DeviceBuffer& offsets() const { return offsets_; }
  [[nodiscard]] const DeviceBuffer& row_token() const { return row_token_; }

 private:
  RouterShape shape_;
  std::int64_t slots_;
  std::int64_t capacity_;
  DeviceBuffer counts_, offsets_, row_slot_, row_token_, row_expert_, slot_row_;
  DeviceOperation call_;
};

}  // namespace mxcheck::bench
