// The modules of operations, in the order in which a candidate is queried for them and their statements run. A new
// operation is a folder beside these, its header here and its line below (docs/extending.md).

#include "properties/core/operation.h"
#include "properties/operations/dispatch/operation.h"
#include "properties/operations/layer/operation.h"
#include "properties/operations/matmul/operation.h"
#include "properties/operations/moe/operation.h"
#include "properties/operations/nvfp4/problem.h"
#include "properties/operations/router/operation.h"
#include "properties/operations/scaled_blocks/operation.h"

namespace mxcheck {
namespace {

using MakeModule = OperationModule (*)();

std::vector<MakeModule>& makers() {
  static std::vector<MakeModule> all{
      quantize_module, dequantize_module, scale_layout_module, cast_module,  matmul_module,
      router_module,   layer_module,      moe_module,          nvfp4_module, dispatch_module,
  };
  return all;
}

}  // namespace

void add_module(MakeModule make) { makers().push_back(make); }

const std::vector<OperationModule>& all_modules() {
  static const std::vector<OperationModule> modules = [] {
    std::vector<OperationModule> all;
    for (const MakeModule make : makers()) all.push_back(make());
    return all;
  }();
  return modules;
}

}  // namespace mxcheck
