#pragma once
// Device memory of one call in flight: the gate's tensors in an arena, or each between inaccessible granules; outputs
// that stay on the device and the workspace, each between two zones; the report.

#include <cstddef>
#include <cstdint>

#include "kernels/candidate.h"
#include "properties/process/cuda_driver.h"
#include "properties/process/wire.h"
#include "properties/process/worker_call.h"

namespace mxcheck {

// The parts of one call on the device: operation, policy, message, tensors, reply.
struct DeviceCall {
  const mxcheck_operation& operation;
  const mxcheck_policy& policy;
  const wire::Message& message;
  std::byte* shared;  // the gate's tensors
  wire::Reply& reply;
  MessageBuffer& text;  // outlives the call: a library may write to it as long as its process lives
  [[nodiscard]] int tensors() const { return message.num_inputs + message.num_outputs; }
};

// Nothing is freed at the end: the process ends with it, and after a fault nothing could be. All throw CudaFailure.
class Lane {
 public:
  explicit Lane(CudaDevice& device);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Memory for the call, its workspace filled with poison; false when the library refused the query for its workspace.
  bool prepare(const DeviceCall& c);
  // The tensors as the gate has them, and an empty report.
  void load(const DeviceCall& c, CudaHandle stream);
  void fill(const DeviceCall& c, std::uint8_t value, CudaHandle stream);
  void copy_from(const DeviceCall& c, const Lane& other, CudaHandle stream);
  void run(const DeviceCall& c, CudaHandle stream);
  // Waits, and brings back the tensors to `into` (an image of the gate's shared memory) and the report to the reply.
  void collect(const DeviceCall& c, CudaHandle stream, std::byte* into);
  void move();  // to other addresses, at the next prepare
  [[nodiscard]] CudaPointer address_of(const DeviceCall& c, int tensor) const;

 private:
  void reserve(CudaPointer& memory, std::uint64_t& capacity, std::uint64_t bytes);
  // Memory for kept weights; false when the library refused the question how large.
  bool prepare_memory(const DeviceCall& c);
  bool is_whole(CudaPointer zones, std::uint64_t bytes, unsigned char poison);  // the zones around so many bytes
  void check_zones(const DeviceCall& c);

  CudaDevice& device_;
  CudaPointer arena_ = 0;
  std::uint64_t arena_capacity_ = 0;
  CudaPointer workspace_ = 0;
  std::uint64_t workspace_capacity_ = 0;
  std::uint64_t workspace_bytes_ = 0;  // of the call
  CudaPointer memory_ = 0;             // for kept weights
  std::uint64_t memory_capacity_ = 0;
  std::uint64_t memory_bytes_ = 0;  // of the call
  bool memory_zones_ = false;       // it is one that writes it
  CudaPointer report_ = 0;
  CudaDevice::Guarded guarded_[wire::kMaxTensors];
  struct Staying {
    CudaPointer memory = 0;
    std::uint64_t capacity = 0;
  };
  Staying staying_[wire::kMaxTensors];
};

}  // namespace mxcheck
