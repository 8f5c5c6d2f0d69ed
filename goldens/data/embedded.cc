#include "goldens/data/embedded.h"

#include <cstddef>
#include <span>
#include <vector>

#include "numerics/error.h"
#include "numerics/text.h"

// From embedded_data.S, which CMake writes.
extern "C" {
extern const unsigned char mxcheck_real_moe_begin[];
extern const unsigned char mxcheck_real_moe_end[];
extern const unsigned char mxcheck_real_router_begin[];
extern const unsigned char mxcheck_real_router_end[];
}

namespace mxcheck {
namespace {

SafetensorsFile parse(const unsigned char* begin, const unsigned char* end, const char* name) {
  return parse_safetensors(std::as_bytes(std::span(begin, static_cast<std::size_t>(end - begin))), name);
}

}  // namespace

const SafetensorsFile& real_tensors() {
  static const SafetensorsFile file =
      parse(mxcheck_real_moe_begin, mxcheck_real_moe_end, "the embedded real_moe.safetensors");
  return file;
}

const SafetensorsFile& real_router_logits() {
  static const SafetensorsFile file =
      parse(mxcheck_real_router_begin, mxcheck_real_router_end, "the embedded real_router.safetensors");
  return file;
}

const Tensor& real_tensor(std::string_view name) {
  std::vector<std::string_view> names;
  for (const SafetensorsFile* file : {&real_tensors(), &real_router_logits()}) {
    for (const Tensor& t : file->tensors) {
      if (t.name == name) return t;
      names.push_back(t.name);
    }
  }
  throw Error(ErrorKind::usage, "no real tensor '" + std::string(name) + "'; there are " + join(names));
}

Tensor tensor_at(const std::string& location) {
  const bool real = location.starts_with(kRealPrefix);
  return real ? real_tensor(std::string_view(location).substr(kRealPrefix.size())) : read_tensor(location);
}

}  // namespace mxcheck
