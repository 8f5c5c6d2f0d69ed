#include "goldens/embedded.h"

#include "numerics/error.h"

// From embedded_data.S, which CMake writes.
extern "C" {
extern const unsigned char mxcheck_real_moe_begin[];
extern const unsigned char mxcheck_real_moe_end[];
}

namespace mxcheck {

const SafetensorsFile& real_tensors() {
  static const SafetensorsFile file = [] {
    const auto size = static_cast<std::size_t>(mxcheck_real_moe_end - mxcheck_real_moe_begin);
    return parse_safetensors(std::as_bytes(std::span(mxcheck_real_moe_begin, size)),
                             "the embedded real_moe.safetensors");
  }();
  return file;
}

const Tensor& real_tensor(std::string_view name) {
  std::string names;
  for (const Tensor& t : real_tensors().tensors) {
    if (t.name == name) return t;
    names += (names.empty() ? "" : ", ") + t.name;
  }
  throw Error(ErrorKind::usage, "no real tensor '" + std::string(name) + "'; there are " + names);
}

}  // namespace mxcheck
