#pragma once
// The exception for a refused call: thrown inside a library, turned into a status and a message at the C boundary
// (boundary.h).

#include <stdexcept>
#include <string>

#include "kernels/candidate.h"

namespace mxcheck_kernels {

class Refusal : public std::runtime_error {
 public:
  Refusal(mxcheck_status status, const std::string& text) : std::runtime_error(text), status_(status) {}
  [[nodiscard]] mxcheck_status status() const noexcept { return status_; }

 private:
  mxcheck_status status_;
};

[[noreturn]] inline void invalid(const std::string& text) { throw Refusal(MXCHECK_INVALID, text); }
[[noreturn]] inline void unsupported(const std::string& text) { throw Refusal(MXCHECK_UNSUPPORTED, text); }

}  // namespace mxcheck_kernels
