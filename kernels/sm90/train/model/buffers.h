#pragma once
// Device memory of a run: everything is taken once, holds zeros at first, and can be read back by its name.
//
// Errors: Refusal{NO_MEMORY, DEVICE_ERROR}; Refusal{INVALID} of find() for a name that there is not.

#include <cstdint>
#include <map>
#include <string>

#include <cuda_runtime_api.h>

namespace mxcheck_kernels::sm90 {

class Buffers {
 public:
  Buffers() = default;
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  template <class T>
  T* take(const std::string& name, std::int64_t count) {
    return static_cast<T*>(take_bytes(name, count, sizeof(T)));
  }

  // Part of what was taken, under a name of its own.
  void name_part(const std::string& name, const void* data, std::uint64_t bytes) { parts_[name] = {data, bytes}; }

  struct Part {
    const void* data = nullptr;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] Part find(const std::string& name) const;
  [[nodiscard]] std::string names() const;  // a line each

 private:
  void* take_bytes(const std::string& name, std::int64_t count, std::uint64_t element_bytes);

  std::map<std::string, Part> parts_;
  std::map<std::string, void*> owned_;
};

}  // namespace mxcheck_kernels::sm90
