#pragma once
// The CUDA driver, loaded at run time: a machine without one runs everything but CUDA candidates, and a build needs no
// CUDA Toolkit. Only what the worker needs; names, values and signatures are those of the CUDA driver API.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "properties/core/candidate.h"

namespace mxcheck {

using CudaPointer = std::uint64_t;  // CUdeviceptr
using CudaHandle = void*;           // CUstream, CUgraph, CUcontext, ...
using CudaHostFunction = void (*)(void*);

// A call of the driver that failed: where, and the driver's words. Most leave the context unusable.
struct CudaFailure {
  int code = 0;
  std::string what;
};

// Device 0 of those that are visible, with its primary context, which a library's CUDA runtime shares.
class CudaDevice {
 public:
  // Error{environment} without a driver or a device.
  CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  // The context becomes this thread's too.
  void bind_thread() const;

  // The visible devices of this one's model, itself first; those of another model would be offered other variants.
  [[nodiscard]] std::vector<Gpu> all_alike() const;

  // "device", "compute capability", "driver", "memory": for records.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> description() const;

  // All throw CudaFailure. Streams do not synchronize with the legacy default stream.
  CudaPointer allocate(std::uint64_t bytes);
  void free(CudaPointer memory);
  void fill(CudaPointer to, std::uint8_t value, std::uint64_t bytes, CudaHandle stream);
  void to_device(CudaPointer to, const void* from, std::uint64_t bytes, CudaHandle stream);
  void to_host(void* to, CudaPointer from, std::uint64_t bytes, CudaHandle stream);
  void copy(CudaPointer to, CudaPointer from, std::uint64_t bytes, CudaHandle stream);
  CudaHandle create_stream();
  void synchronize(CudaHandle stream);
  void run_on_host(CudaHandle stream, CudaHostFunction function, void* argument);
  void begin_capture(CudaHandle stream);
  CudaHandle end_capture(CudaHandle stream);  // the graph, or null if the capture was invalidated
  CudaHandle instantiate(CudaHandle graph);
  void launch(CudaHandle executable, CudaHandle stream);
  void destroy_graph(CudaHandle graph, CudaHandle executable);

  // Memory of whole granules between two granules of address space where nothing is: an access outside is a fault.
  struct Guarded {
    CudaPointer reserved = 0;
    CudaPointer begin = 0;
    std::uint64_t bytes = 0;
    std::uint64_t handle = 0;
  };
  Guarded allocate_guarded(std::uint64_t bytes);
  void free_guarded(const Guarded& memory);

 private:
  int device_ = 0;
  CudaHandle context_ = nullptr;
};

}  // namespace mxcheck
