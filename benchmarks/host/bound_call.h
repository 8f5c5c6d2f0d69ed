#pragma once
// One operation of a kernel library, loaded with dlopen, on memory of its own, ready to run again and again.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "kernels/candidate.h"

namespace mxcheck::bench {

// Anonymous memory aligned as tensors are; pages are touched, so that no run pays for them.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes);
  [[nodiscard]] void* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> data_;
  std::size_t bytes_;
};

struct Request {
  std::string operation;
  bool fp32 = false;
  std::int64_t block_rows = 1;
  std::int64_t block_cols = 32;
  mxcheck_layout layout = MXCHECK_COMPACT;
  std::int32_t threads = 1;
  std::int64_t rows = 8192;
  std::int64_t cols = 7168;

  [[nodiscard]] std::string text() const;
};

// The operation on random values, E4M3, rule rceil; of those of NVFP4, E2M1, recipe nvfp4_te. Throws Error{environment}
// if the library cannot be loaded or has no such operation.
class BoundCall {
 public:
  BoundCall(const std::string& library, const Request& request);
  BoundCall(const BoundCall&) = delete;
  BoundCall& operator=(const BoundCall&) = delete;
  void run();  // throws Error{internal} with the library's message unless it succeeds
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }  // read plus written

 private:
  void add(bool input, DLDataType type, std::int64_t rows, std::int64_t cols);
  void add_amax();
  void add_scales(bool input, std::int64_t block_rows, std::int64_t block_cols, bool tiled);

  const mxcheck_operation& operation_;
  Request request_;
  mxcheck_policy policy_{};
  std::vector<std::unique_ptr<Buffer>> memory_;
  std::vector<std::unique_ptr<std::int64_t[]>> shapes_;
  std::vector<DLTensor> inputs_;
  std::vector<DLTensor> outputs_;
  std::int64_t bytes_ = 0;
};

}  // namespace mxcheck::bench
