#pragma once
// A copy of an output, made before a kernel writes it and put back unless keep_new(): a call that fails writes nothing.

#include <cstddef>
#include <cstring>

#include "kernels/common/arguments.h"

namespace mxcheck_kernels::sm100 {

class Saved {
 public:
  // `memory` has room for the output's bytes.
  Saved(const Checked& output, std::byte* memory) : output_(output), memory_(memory) {
    if (output.bytes != 0) std::memcpy(memory_, output_.data, output_.bytes);
  }
  Saved(const Saved&) = delete;
  Saved& operator=(const Saved&) = delete;
  ~Saved() {
    if (!kept_ && output_.bytes != 0) std::memcpy(output_.data, memory_, output_.bytes);
  }
  void keep_new() { kept_ = true; }

 private:
  Checked output_;
  std::byte* memory_;
  bool kept_ = false;
};

}  // namespace mxcheck_kernels::sm100
