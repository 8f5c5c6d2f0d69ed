#include "kernels/common/dtype.h"

#include <string>
#include <string_view>

#include "kernels/common/refusal.h"

namespace mxcheck_kernels {

Element element_named(const char* name) {
  if (name == nullptr) invalid("policy.format is null: must be e4m3 or e5m2");
  if (std::string_view(name) == "e4m3") return Element::e4m3;
  if (std::string_view(name) == "e5m2") return Element::e5m2;
  unsupported("format " + std::string(name) + " is not offered: offered are e4m3, e5m2");
}

Dtype dtype_of(const char* values, DLDataType type) {
  if (same(type, kBf16Type)) return Dtype::bf16;
  if (same(type, kFp32Type)) return Dtype::fp32;
  unsupported(std::string(values) + " of DLPack type code " + std::to_string(type.code) + ", " +
              std::to_string(type.bits) + " bits, " + std::to_string(type.lanes) +
              " lanes are not offered: offered are bf16 and fp32");
}

}  // namespace mxcheck_kernels
