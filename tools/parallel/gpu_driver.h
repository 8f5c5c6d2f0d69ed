#pragma once
// Functions of the CUDA driver that properties/process/cuda_driver.h does not need: events, streams, kernels, and
// memory between processes.

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "numerics/error.h"
#include "properties/process/cuda_driver.h"

namespace mxcheck {

struct IpcHandle {  // CUipcMemHandle
  std::array<char, 64> bytes{};
};

struct MoreOfDriver {
  int (*event_create)(CudaHandle*, unsigned) = nullptr;
  int (*event_destroy)(CudaHandle) = nullptr;
  int (*event_record)(CudaHandle, CudaHandle) = nullptr;
  int (*event_elapsed)(float*, CudaHandle, CudaHandle) = nullptr;
  int (*stream_wait)(CudaHandle, CudaHandle, unsigned) = nullptr;
  int (*stream_query)(CudaHandle) = nullptr;
  int (*create_stream)(CudaHandle*, unsigned, int) = nullptr;
  int (*priority_range)(int*, int*) = nullptr;
  int (*module_load)(CudaHandle*, const void*) = nullptr;
  int (*module_function)(CudaHandle*, CudaHandle, const char*) = nullptr;
  int (*launch)(CudaHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CudaHandle, void**,
                void**) = nullptr;
  int (*error_text)(int, const char**) = nullptr;
  // Null in a driver without them: no memory is shown then.
  int (*address_range)(CudaPointer*, std::size_t*, CudaPointer) = nullptr;
  int (*ipc_show)(IpcHandle*, CudaPointer) = nullptr;
  int (*ipc_open)(CudaPointer*, IpcHandle, unsigned) = nullptr;
  int (*ipc_close)(CudaPointer) = nullptr;
  int (*stream_write_word)(CudaHandle, CudaPointer, std::uint32_t, unsigned) = nullptr;
  int (*stream_wait_word)(CudaHandle, CudaPointer, std::uint32_t, unsigned) = nullptr;

  MoreOfDriver() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const auto look_for = [&](const char* symbol, auto& to) {
      void* const found = library == nullptr ? nullptr : dlsym(library, symbol);
      static_assert(sizeof(to) == sizeof(found));
      std::memcpy(&to, &found, sizeof(found));
      return found != nullptr;
    };
    const auto find = [&](const char* symbol, auto& to) {
      if (!look_for(symbol, to)) throw Error(ErrorKind::environment, std::string("the CUDA driver has no ") + symbol);
    };
    find("cuEventCreate", event_create), find("cuEventDestroy_v2", event_destroy);
    find("cuEventRecord", event_record), find("cuEventElapsedTime", event_elapsed);
    find("cuStreamWaitEvent", stream_wait), find("cuStreamQuery", stream_query);
    find("cuStreamCreateWithPriority", create_stream), find("cuCtxGetStreamPriorityRange", priority_range);
    find("cuModuleLoadData", module_load), find("cuModuleGetFunction", module_function);
    find("cuLaunchKernel", launch), find("cuGetErrorString", error_text);
    shows_memory = look_for("cuMemGetAddressRange_v2", address_range) && look_for("cuIpcGetMemHandle", ipc_show) &&
                   look_for("cuIpcOpenMemHandle_v2", ipc_open) && look_for("cuIpcCloseMemHandle", ipc_close) &&
                   look_for("cuStreamWriteValue32_v2", stream_write_word) &&
                   look_for("cuStreamWaitValue32_v2", stream_wait_word);
  }
  bool shows_memory = false;

  [[nodiscard]] std::string words_of(int code) const {
    const char* text = nullptr;
    error_text(code, &text);
    return text == nullptr ? "unknown error" : text;
  }
  void check(int code, const char* call) const {
    if (code != 0) throw Error(ErrorKind::environment, std::string(call) + ": " + words_of(code));
  }
};

inline CudaPointer address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

}  // namespace mxcheck
