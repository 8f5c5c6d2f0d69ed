#include "kernels/common/nvfp4/policy.h"

#include <string>
#include <string_view>

#include "kernels/common/arguments.h"
#include "kernels/common/dtype.h"
#include "kernels/common/names.h"
#include "kernels/common/refusal.h"

namespace mxcheck_kernels {
namespace {

constexpr DLDataType kFp16Type{kDLFloat, 16, 1};

Nvfp4Values nvfp4_values_of(DLDataType type, bool fp16_offered) {
  if (same(type, kBf16Type)) return Nvfp4Values::bf16;
  if (same(type, kFp32Type)) return Nvfp4Values::fp32;
  if (fp16_offered && same(type, kFp16Type)) return Nvfp4Values::fp16;
  unsupported("values of DLPack type code " + std::to_string(type.code) + ", " + std::to_string(type.bits) + " bits, " +
              std::to_string(type.lanes) + " lanes are not offered: offered are bf16, fp32" +
              (fp16_offered ? ", fp16" : ""));
}

}  // namespace

Nvfp4Policy read_nvfp4_policy(const mxcheck_policy* policy, DLDataType type,
                              std::span<const OfferedNvfp4Recipe> recipes, bool fp16_offered) {
  const mxcheck_policy& p = policy_of<mxcheck_policy>(policy);
  if (p.format == nullptr) invalid("policy.format is null: must be e2m1");
  if (std::string_view(p.format) != "e2m1")
    unsupported("format " + std::string(p.format) + " is not offered: offered is e2m1");
  Nvfp4Policy read;
  read.recipe =
      entry_named(recipes, "recipe", "recipe", p.recipe, [](const OfferedNvfp4Recipe&) { return true; }).recipe;
  read.values = nvfp4_values_of(type, fp16_offered);
  const bool offered = p.block_cols == 16 && (p.block_rows == 1 || p.block_rows == 16);
  if (!offered) {
    unsupported("blocks of " + std::to_string(p.block_rows) + " x " + std::to_string(p.block_cols) +
                " are not offered: offered are 1x16, 16x16");
  }
  read.block_rows = static_cast<int>(p.block_rows);
  if (p.layout != MXCHECK_COMPACT && p.layout != MXCHECK_TCGEN05) {
    unsupported("layout " + std::to_string(p.layout) + " is not offered: offered are 0 (compact), 1 (tcgen05)");
  }
  read.tiled = p.layout == MXCHECK_TCGEN05;
  if (read.tiled && read.block_rows != 1) unsupported("the tcgen05 layout is offered for blocks of 1x16 only");
  return read;
}

DLDataType dl_type(Nvfp4Values values) {
  switch (values) {
    case Nvfp4Values::bf16: return kBf16Type;
    case Nvfp4Values::fp32: return kFp32Type;
    case Nvfp4Values::fp16: break;
  }
  return kFp16Type;
}

}  // namespace mxcheck_kernels
